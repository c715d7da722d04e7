//! Units of 4 and 8 bytes, in general registers.

use std::arch::asm;

use crate::access::loops::Unit;
use crate::access::touched::{PATTERN_STEP, pattern_word};

/// 4 bytes; never non-temporal: `Kernel::new` refuses that.
pub(super) struct Word4;

/// 8 bytes; non-temporal accesses use a pair of 4-byte halves.
pub(super) struct Word8;

/// Position in the pattern of the next 4 bytes.
#[derive(Clone, Copy)]
pub(super) struct Halves {
    /// The 8-byte word that they are part of.
    word: u64,
    /// 0 for the low half, 32 for the high one.
    shift: u32,
}

/// Unrolled blocks of eight instructions.
macro_rules! blocks {
    ($pattern:ty) => {
        #[inline(always)]
        unsafe fn no_sums() -> u64 {
            0
        }

        #[inline(always)]
        unsafe fn total(sums: u64) -> u64 {
            sums
        }

        #[inline(always)]
        unsafe fn load_block<const STREAM: bool>(sums: &mut u64, at: *const u8) {
            for unit in 0..8 {
                // SAFETY: inside the block, which the caller may read.
                unsafe { Self::load::<STREAM>(sums, at.wrapping_add(unit * Self::BYTES)) };
            }
        }

        #[inline(always)]
        unsafe fn store_block<const STREAM: bool>(pattern: &mut $pattern, at: *mut u8) {
            for unit in 0..8 {
                // SAFETY: inside the block, which the caller may write.
                unsafe { Self::store::<STREAM>(pattern, at.wrapping_add(unit * Self::BYTES)) };
            }
        }

        #[inline(always)]
        unsafe fn copy_block<const STREAM: bool>(from: *const u8, to: *mut u8) {
            for unit in 0..8 {
                let skip = unit * Self::BYTES;
                // SAFETY: inside the blocks, which the caller may read and write.
                unsafe { Self::copy::<STREAM>(from.wrapping_add(skip), to.wrapping_add(skip)) };
            }
        }
    };
}

impl Unit for Word4 {
    const BYTES: usize = 4;
    type Sums = u64;
    type Pattern = Halves;
    type Draws = ();

    blocks!(Halves);

    #[inline(always)]
    unsafe fn load<const STREAM: bool>(sums: &mut u64, at: *const u8) {
        let word: u64;
        // SAFETY: the caller may read these bytes.
        unsafe {
            asm!("ldr {word:w}, [{at}]", at = in(reg) at, word = lateout(reg) word,
                options(nostack, preserves_flags, readonly));
        }
        *sums = sums.wrapping_add(word);
    }

    #[inline(always)]
    unsafe fn pattern(offset: usize) -> Halves {
        Halves {
            word: pattern_word(offset),
            shift: (offset as u32 & 4) * 8,
        }
    }

    #[inline(always)]
    unsafe fn store<const STREAM: bool>(pattern: &mut Halves, at: *mut u8) {
        let half = pattern.word.wrapping_shr(pattern.shift);
        // SAFETY: the caller may write these bytes.
        unsafe {
            asm!("str {half:w}, [{at}]", at = in(reg) at, half = in(reg) half,
                options(nostack, preserves_flags));
        }
        if pattern.shift == 32 {
            pattern.word = pattern.word.wrapping_add(PATTERN_STEP);
        }
        pattern.shift ^= 32;
    }

    #[inline(always)]
    unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller may read the one and write the other.
        unsafe {
            asm!("ldr {word:w}, [{from}]", "str {word:w}, [{to}]",
                from = in(reg) from, to = in(reg) to, word = out(reg) _,
                options(nostack, preserves_flags));
        }
    }
}

impl Unit for Word8 {
    const BYTES: usize = 8;
    type Sums = u64;
    type Pattern = u64;
    type Draws = ();

    blocks!(u64);

    #[inline(always)]
    unsafe fn load<const STREAM: bool>(sums: &mut u64, at: *const u8) {
        let word: u64;
        // SAFETY: the caller may read these bytes.
        unsafe {
            if STREAM {
                let (low, high): (u64, u64);
                asm!("ldnp {low:w}, {high:w}, [{at}]", at = in(reg) at,
                    low = out(reg) low, high = out(reg) high,
                    options(nostack, preserves_flags, readonly));
                word = low | high << 32;
            } else {
                asm!("ldr {word}, [{at}]", at = in(reg) at, word = lateout(reg) word,
                    options(nostack, preserves_flags, readonly));
            }
        }
        *sums = sums.wrapping_add(word);
    }

    #[inline(always)]
    unsafe fn pattern(offset: usize) -> u64 {
        pattern_word(offset)
    }

    #[inline(always)]
    unsafe fn store<const STREAM: bool>(pattern: &mut u64, at: *mut u8) {
        // SAFETY: the caller may write these bytes.
        unsafe {
            if STREAM {
                asm!("stnp {low:w}, {high:w}, [{at}]", at = in(reg) at,
                    low = in(reg) *pattern, high = in(reg) *pattern >> 32,
                    options(nostack, preserves_flags));
            } else {
                asm!("str {word}, [{at}]", at = in(reg) at, word = in(reg) *pattern,
                    options(nostack, preserves_flags));
            }
        }
        *pattern = pattern.wrapping_add(PATTERN_STEP);
    }

    #[inline(always)]
    unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller may read the one and write the other.
        unsafe {
            if STREAM {
                asm!("ldp {low:w}, {high:w}, [{from}]", "stnp {low:w}, {high:w}, [{to}]",
                    from = in(reg) from, to = in(reg) to, low = out(reg) _, high = out(reg) _,
                    options(nostack, preserves_flags));
            } else {
                asm!("ldr {word}, [{from}]", "str {word}, [{to}]",
                    from = in(reg) from, to = in(reg) to, word = out(reg) _,
                    options(nostack, preserves_flags));
            }
        }
    }
}
