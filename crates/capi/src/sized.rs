//! Structs that may grow: their first field is their size, so that a program and a library of
//! different versions understand each other.

use crate::border::check;
use crate::status::Fault;
use std::mem::size_of;
use std::ptr;

/// Sizes above this are not that of a struct but of something uninitialised.
const MAX_SIZE: usize = 4096;

/// A struct of C whose first field is `size`.
///
/// # Safety
/// The type is `repr(C)`, its first field is a `usize`, and every pattern of bytes that a C program
/// can have written is a value of it.
pub(crate) unsafe trait Versioned: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// Its size in the first version that had it.
    const FIRST: usize;

    /// The value of fields that the program does not know, and `size`.
    fn base() -> Self;
}

/// The size that the program wrote into the struct.
///
/// # Safety
/// If `at` is neither null nor misaligned, a `usize` can be read there.
unsafe fn size_at<T: Versioned>(at: *const T) -> Result<usize, Fault> {
    check(at, T::NAME)?;
    // SAFETY: checked for null; `usize` is the first field and not stricter aligned.
    let size = unsafe { at.cast::<usize>().read() };
    if (T::FIRST..=MAX_SIZE).contains(&size) {
        return Ok(size);
    }
    Err(Fault::argument(format!(
        "size of {name} is {size}; set it to sizeof({name}), which is {} here",
        size_of::<T>(),
        name = T::NAME
    )))
}

/// Reads a struct of options; null gives the defaults.
///
/// # Safety
/// If `at` is neither null nor misaligned, as many bytes as its field `size` says can be read.
pub(crate) unsafe fn read<T: Versioned>(at: *const T) -> Result<T, Fault> {
    let mut value = T::base();
    if at.is_null() {
        return Ok(value);
    }
    // SAFETY: as for this function.
    let size = unsafe { size_at(at) }?;
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes can be read and fit into `value`.
    unsafe { ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut value).cast(), known) };
    // SAFETY: `size` bytes can be read.
    let rest = unsafe { std::slice::from_raw_parts(at.cast::<u8>().add(known), size - known) };
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Fault::argument(format!(
            "{} has fields that this version of the library does not know; set them to 0 or use a \
             newer library",
            T::NAME
        )));
    }
    Ok(value)
}

/// Writes a result into the program's struct: the fields that both know, and 0 into others.
///
/// # Safety
/// If `out` is neither null nor misaligned, as many bytes as its field `size` says can be written.
pub(crate) unsafe fn write<T: Versioned>(out: *mut T, value: &T) -> Result<(), Fault> {
    // SAFETY: as for this function.
    let size = unsafe { size_at(out) }?;
    let (known, skip) = (size.min(size_of::<T>()), size_of::<usize>());
    let from: *const T = value;
    // SAFETY: `size` bytes can be written, `known` of them are in `value`; the field `size` stays.
    unsafe {
        let (from, to) = (from.cast::<u8>(), out.cast::<u8>());
        ptr::copy_nonoverlapping(from.add(skip), to.add(skip), known - skip);
        ptr::write_bytes(to.add(known), 0, size - known);
    }
    Ok(())
}

/// Refuses a struct for results before anything is done, so that no result is lost.
///
/// # Safety
/// If `out` is neither null nor misaligned, its field `size` can be read.
pub(crate) unsafe fn expect<T: Versioned>(out: *const T) -> Result<(), Fault> {
    // SAFETY: as for this function.
    unsafe { size_at(out) }.map(drop)
}

/// `text` as an array of C with zero bytes behind it, cut at a letter if it is too long.
pub(crate) fn letters<const N: usize>(text: &str) -> [std::ffi::c_char; N] {
    let mut end = text.len().min(N - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut letters = [0; N];
    for (letter, byte) in letters.iter_mut().zip(text[..end].bytes()) {
        *letter = byte.cast_signed();
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Pair {
        size: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: the first field is the size, and all fields are plain numbers.
    unsafe impl Versioned for Pair {
        const NAME: &'static str = "pair";
        const FIRST: usize = offset_of!(Pair, second);

        fn base() -> Self {
            Pair {
                size: size_of::<Pair>(),
                first: 1,
                second: 2,
            }
        }
    }

    /// Reads a struct of `words` as a program of another version has it.
    fn of_words(words: &[usize]) -> Result<Pair, Fault> {
        // SAFETY: the words have the size that the first of them says, or are refused by it.
        unsafe { read(words.as_ptr().cast::<Pair>()) }
    }

    #[test]
    fn older_and_newer_programs_are_understood() {
        let old = of_words(&[16, 7]).unwrap();
        assert_eq!((old.first, old.second), (7, 2));
        assert_eq!(of_words(&[32, 7, 8, 0]).unwrap().second, 8);
        assert!(
            of_words(&[32, 7, 8, 9])
                .unwrap_err()
                .text
                .contains("newer library")
        );
        for size in [0, 8, 15, 4097, usize::MAX] {
            let fault = of_words(&[size, 0, 0, 0]).unwrap_err();
            assert!(
                fault.text.contains("sizeof(pair), which is 24"),
                "{}",
                fault.text
            );
        }
    }

    #[test]
    fn results_fill_what_the_program_has_and_no_more() {
        let value = Pair::base();
        let mut words = [16_usize, 9, 99];
        // SAFETY: the words have the size that the first of them says.
        unsafe { write(words.as_mut_ptr().cast::<Pair>(), &value) }.unwrap();
        assert_eq!(words, [16, 1, 99]);
        let mut words = [32_usize, 9, 9, 9];
        // SAFETY: as above.
        unsafe { write(words.as_mut_ptr().cast::<Pair>(), &value) }.unwrap();
        assert_eq!(words, [32, 1, 2, 0]);
    }

    #[test]
    fn texts_are_cut_between_letters() {
        assert_eq!(letters::<4>("abcdef"), [97, 98, 99, 0]);
        assert_eq!(letters::<4>("ab\u{e9}"), [97, 98, 0, 0]);
    }
}
