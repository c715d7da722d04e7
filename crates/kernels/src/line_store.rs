//! Stores of whole cache lines into shared memory, past the caches where the processor can.
//!
//! Software write combining collects a line in a small buffer and stores it at once. With
//! non-temporal instructions the target's line is not read first, and it takes no room in the
//! caches.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Simd;

/// Words of a cache line.
pub const LINE_WORDS: usize = 8;

/// A cache line of words in a buffer.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WordLine(pub [u64; LINE_WORDS]);

/// Kind of the instructions that store a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    /// Ordinary stores, which bring the line into the caches.
    Plain,
    /// Non-temporal stores of one word each.
    Words,
    /// Non-temporal stores of 32 bytes.
    #[cfg(target_arch = "x86_64")]
    Vectors256,
    /// A non-temporal store of 64 bytes.
    #[cfg(target_arch = "x86_64")]
    Vectors512,
}

/// Stores whole cache lines with instructions that were chosen once.
///
/// Threads may store to different lines of the same words at a time. [`LineStore::finish`] makes
/// the lines visible to others.
#[derive(Debug, Clone, Copy)]
pub struct LineStore(Instructions);

impl LineStore {
    /// Ordinary stores.
    pub fn plain() -> Self {
        Self(Instructions::Plain)
    }

    /// Non-temporal stores with vectors of this width, or narrower ones if the processor lacks it.
    pub fn stream(simd: Simd) -> Self {
        Self(match simd.or_scalar() {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512 => Instructions::Vectors512,
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => Instructions::Vectors256,
            _ => Instructions::Words,
        })
    }

    /// Stores `line` to the words `at..at + 8` of `target`.
    ///
    /// # Panics
    /// If these words are not inside `target` or are not one cache line.
    #[inline(always)]
    pub fn store(self, target: &[AtomicU64], at: usize, line: &WordLine) {
        let words = &target[at..at + LINE_WORDS];
        let to = words.as_ptr();
        assert!(to.addr().is_multiple_of(64), "not the start of a line");
        match self.0 {
            Instructions::Plain => {
                for (word, value) in words.iter().zip(line.0) {
                    word.store(value, Ordering::Relaxed);
                }
            }
            // SAFETY: the line is inside `target` and aligned, as just checked. Others touch it
            // with atomics and assembly alone, and `stream` has checked the processor.
            instructions => unsafe { stream_line(instructions, to, line) },
        }
    }

    /// Orders the lines before all later stores, so that whoever is told of them sees them.
    pub fn finish(self) {
        if self.0 != Instructions::Plain {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `sfence` is part of SSE, which every x86-64 processor has.
            unsafe {
                std::arch::x86_64::_mm_sfence();
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: a barrier accesses no memory.
            unsafe {
                std::arch::asm!("dmb ish", options(nostack, preserves_flags));
            }
        }
    }
}

/// # Safety
/// `to` is aligned to 64, and its 64 bytes may be written by assembly; the processor has the
/// instructions.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream_line(instructions: Instructions, to: *const AtomicU64, line: &WordLine) {
    use std::arch::asm;
    let from = line.0.as_ptr();
    match instructions {
        Instructions::Vectors512 => {
            // Register 16 and up leave no dirty upper halves that would slow SSE code down.
            // SAFETY: as the caller promises; `from` has 64 bytes.
            unsafe {
                asm!(
                    "vmovdqu64 zmm16, [{from}]",
                    "vmovntdq [{to}], zmm16",
                    from = in(reg) from,
                    to = in(reg) to,
                    out("xmm16") _,
                    options(nostack, preserves_flags)
                );
            }
        }
        Instructions::Vectors256 => {
            // SAFETY: as above. All vector registers lose their upper halves, so all are listed.
            unsafe {
                asm!(
                    "vmovdqu ymm0, [{from}]",
                    "vmovdqu ymm1, [{from} + 32]",
                    "vmovntdq [{to}], ymm0",
                    "vmovntdq [{to} + 32], ymm1",
                    "vzeroupper",
                    from = in(reg) from,
                    to = in(reg) to,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack, preserves_flags)
                );
            }
        }
        _ => {
            for (word, value) in line.0.iter().enumerate() {
                // SAFETY: as above; every x86-64 processor has SSE2.
                unsafe {
                    asm!(
                        "movnti [{to}], {value}",
                        to = in(reg) to.wrapping_add(word),
                        value = in(reg) *value,
                        options(nostack, preserves_flags)
                    );
                }
            }
        }
    }
}

/// # Safety
/// As for x86-64.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn stream_line(_: Instructions, to: *const AtomicU64, line: &WordLine) {
    for pair in (0..LINE_WORDS).step_by(2) {
        // SAFETY: as the caller promises; the pair is inside the line.
        unsafe {
            std::arch::asm!(
                "stnp {low}, {high}, [{to}]",
                to = in(reg) to.wrapping_add(pair),
                low = in(reg) line.0[pair],
                high = in(reg) line.0[pair + 1],
                options(nostack, preserves_flags)
            );
        }
    }
}

/// # Safety
/// As for x86-64.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
unsafe fn stream_line(_: Instructions, to: *const AtomicU64, line: &WordLine) {
    for (word, value) in line.0.iter().enumerate() {
        // SAFETY: the line may be written, by atomics as well.
        unsafe { (*to.wrapping_add(word)).store(*value, Ordering::Relaxed) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::SharedBytes;

    #[repr(C, align(64))]
    struct Memory([u8; 64 * 9]);

    #[test]
    fn every_width_stores_its_line_and_no_other_byte() {
        let stores = [Simd::Scalar, Simd::Avx2, Simd::Avx512, Simd::Neon].map(LineStore::stream);
        for store in stores.into_iter().chain([LineStore::plain()]) {
            let mut memory = Memory([0xee; 64 * 9]);
            let words = SharedBytes::new(&mut memory.0).words();
            let line = WordLine([1, 2, 3, 4, 5, 6, 7, u64::MAX]);
            store.store(words, 24, &line);
            store.finish();
            for (at, word) in words.iter().enumerate() {
                let expected = match at {
                    24..32 => line.0[at - 24],
                    _ => 0xeeee_eeee_eeee_eeee,
                };
                assert_eq!(
                    word.load(Ordering::Relaxed),
                    expected,
                    "{store:?} word {at}"
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "not the start of a line")]
    fn a_line_across_two_lines_is_refused() {
        let mut memory = Memory([0; 64 * 9]);
        let words = SharedBytes::new(&mut memory.0).words();
        LineStore::stream(Simd::detect()).store(words, 4, &WordLine::default());
    }
}
