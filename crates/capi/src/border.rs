//! The border to C: ends panics, keeps the message of the last error, and checks pointers.

use crate::status::{Fault, tl_status};
use crate::string::tl_str;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The message of the last failed call of this thread, with a zero byte behind it.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of a function that returns a status.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Fault>) -> tl_status {
    match caught(body) {
        Ok(()) => tl_status::TL_OK,
        Err(status) => status,
    }
}

/// Runs the body of a function that returns a value; `otherwise` if it fails.
pub(crate) fn guarded_or<T>(otherwise: T, body: impl FnOnce() -> Result<T, Fault>) -> T {
    caught(body).unwrap_or(otherwise)
}

fn caught<T>(body: impl FnOnce() -> Result<T, Fault>) -> Result<T, tl_status> {
    // What a panic left half done is behind locks that are checked for it, or in objects that the
    // caller can only free.
    let ended = catch_unwind(AssertUnwindSafe(body));
    let fault = match ended {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(fault)) => fault,
        Err(payload) => Fault::new(tl_status::TL_PANIC, defect(payload.as_ref())),
    };
    keep(fault.text);
    Err(fault.status)
}

fn defect(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!(
        "a defect of tierloom: {}; please report it",
        text.unwrap_or("a panic without a message")
    )
}

fn keep(mut text: String) {
    // A zero byte inside would end the text early for C programs.
    text.retain(|letter| letter != '\0');
    text.push('\0');
    // While a thread ends its variables may be gone; then nobody can ask for the message either.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// The message of the last call on this thread that failed; empty if there was none.
///
/// The text ends with a zero byte. It stays valid until the next call on this thread fails, or the
/// thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn tl_last_error() -> tl_str {
    let text = LAST.try_with(|last| {
        let last = last.borrow();
        match last.strip_suffix('\0') {
            // The pointer is that of the whole text, so that the zero byte belongs to it.
            Some(text) => tl_str {
                data: last.as_ptr().cast(),
                len: text.len(),
            },
            None => tl_str::EMPTY,
        }
    });
    text.unwrap_or(tl_str::EMPTY)
}

/// The version of this interface.
///
/// Programs compare it with `TL_ABI_VERSION` of the header that they were compiled with. It changes
/// when functions or structs change in a way that old programs do not understand; new functions,
/// new status codes and new fields at the end of structs do not change it.
#[unsafe(no_mangle)]
pub extern "C" fn tl_abi_version() -> u32 {
    crate::TL_ABI_VERSION
}

/// `pointer` as a reference.
///
/// # Safety
/// If it is neither null nor misaligned, it points to a `T` that nobody changes during `'a`.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Fault> {
    check(pointer, what)?;
    // SAFETY: checked for null and alignment; the rest is the caller's promise.
    Ok(unsafe { &*pointer })
}

/// Stores `value` where `out` points.
///
/// # Safety
/// If it is neither null nor misaligned, a `T` can be written there.
pub(crate) unsafe fn store<T>(out: *mut T, value: T, what: &str) -> Result<(), Fault> {
    check(out, what)?;
    // SAFETY: checked for null and alignment; the rest is the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// Makes a handle of `value` and stores it where `out` points.
///
/// # Safety
/// If `out` is neither null nor misaligned, a pointer can be written there.
pub(crate) unsafe fn hand_out<T>(out: *mut *mut T, value: T, what: &str) -> Result<(), Fault> {
    check(out, what)?;
    // SAFETY: as for this function.
    unsafe { store(out, Box::into_raw(Box::new(value)), what) }
}

/// Frees a handle; null is fine.
///
/// # Safety
/// `handle` is null or comes from [`hand_out`], and is not used afterwards.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: it came from `Box::into_raw`, and the caller gives it up.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(())
    });
}

/// Refuses null and misaligned pointers.
pub(crate) fn check<T>(pointer: *const T, what: &str) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::argument(format!("{what} is null")));
    }
    if !pointer.is_aligned() {
        return Err(Fault::argument(format!("{what} is not aligned")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_with_its_message() {
        for (status, expected) in [
            (guarded(|| panic!("plain {}", 1)), "plain 1"),
            (guarded(|| panic!("constant")), "constant"),
            (
                guarded(|| std::panic::resume_unwind(Box::new(7))),
                "without a message",
            ),
        ] {
            assert_eq!(status, tl_status::TL_PANIC);
            let _ = expected;
        }
        guarded(|| panic!("a\0b"));
        // SAFETY: the text is valid until the next failed call of this thread.
        let text = unsafe { tl_last_error().read("last") }.unwrap();
        assert!(text.contains("tierloom: ab;"), "{text}");
    }

    #[test]
    fn messages_belong_to_threads() {
        guarded(|| Err(Fault::input("of this thread")));
        let other = std::thread::spawn(|| tl_last_error().len).join().unwrap();
        assert_eq!((other, tl_last_error().len), (0, "of this thread".len()));
    }
}
