//! Units of 4 and 8 bytes, in general registers.

use std::arch::asm;

use crate::access::loops::Unit;
use crate::access::touched::{PATTERN_STEP, pattern_word};

/// 4 bytes; on every x86-64 processor.
pub(super) struct Word4;

/// 8 bytes; on every x86-64 processor.
pub(super) struct Word8;

/// Position in the pattern of the next 4 bytes.
#[derive(Clone, Copy)]
pub(super) struct Halves {
    /// The 8-byte word that they are part of.
    word: u64,
    /// 0 for the low half, 32 for the high one.
    shift: u32,
}

/// # Safety
/// The 32 bytes at `at` may be written.
#[inline(always)]
unsafe fn store_eight<const STREAM: bool>(pattern: &mut Halves, at: *mut u8) {
    for unit in 0..8 {
        // SAFETY: inside the 32 bytes, which the caller may write.
        unsafe { Word4::store::<STREAM>(pattern, at.wrapping_add(unit * 4)) };
    }
}

impl Unit for Word4 {
    const BYTES: usize = 4;
    type Sums = u64;
    type Pattern = Halves;
    type Draws = ();

    #[inline(always)]
    unsafe fn no_sums() -> u64 {
        0
    }

    #[inline(always)]
    unsafe fn total(sums: u64) -> u64 {
        sums
    }

    #[inline(always)]
    unsafe fn load<const STREAM: bool>(sums: &mut u64, at: *const u8) {
        let word: u64;
        // SAFETY: the caller may read these bytes.
        unsafe {
            asm!("mov {word:e}, [{at}]", at = in(reg) at, word = lateout(reg) word,
                options(nostack, preserves_flags, readonly));
        }
        *sums = sums.wrapping_add(word);
    }

    #[inline(always)]
    unsafe fn load_block<const STREAM: bool>(sums: &mut u64, at: *const u8) {
        for unit in 0..8 {
            // SAFETY: inside the block, which the caller may read.
            unsafe { Self::load::<STREAM>(sums, at.wrapping_add(unit * 4)) };
        }
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
        let half = pattern.word >> pattern.shift;
        // SAFETY: the caller may write these bytes.
        unsafe {
            if STREAM {
                asm!("movnti [{at}], {half:e}", at = in(reg) at, half = in(reg) half,
                    options(nostack, preserves_flags));
            } else {
                asm!("mov [{at}], {half:e}", at = in(reg) at, half = in(reg) half,
                    options(nostack, preserves_flags));
            }
        }
        if pattern.shift == 32 {
            pattern.word = pattern.word.wrapping_add(PATTERN_STEP);
        }
        pattern.shift ^= 32;
    }

    #[inline(always)]
    unsafe fn store_block<const STREAM: bool>(pattern: &mut Halves, at: *mut u8) {
        if pattern.shift == 0 {
            // A separate branch, so that the compiler knows the shifts of the unrolled stores.
            pattern.shift = 0;
            // SAFETY: the caller may write the block of 32 bytes.
            unsafe { store_eight::<STREAM>(pattern, at) };
        } else {
            // SAFETY: the caller may write the block of 32 bytes.
            unsafe { store_eight::<STREAM>(pattern, at) };
        }
    }

    #[inline(always)]
    unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller may read the one and write the other.
        unsafe {
            if STREAM {
                asm!("mov {word:e}, [{from}]", "movnti [{to}], {word:e}",
                    from = in(reg) from, to = in(reg) to, word = out(reg) _,
                    options(nostack, preserves_flags));
            } else {
                asm!("mov {word:e}, [{from}]", "mov [{to}], {word:e}",
                    from = in(reg) from, to = in(reg) to, word = out(reg) _,
                    options(nostack, preserves_flags));
            }
        }
    }

    #[inline(always)]
    unsafe fn copy_block<const STREAM: bool>(from: *const u8, to: *mut u8) {
        for unit in 0..8 {
            // SAFETY: inside the blocks, which the caller may touch.
            unsafe { Self::copy::<STREAM>(from.wrapping_add(unit * 4), to.wrapping_add(unit * 4)) };
        }
    }
}

impl Unit for Word8 {
    const BYTES: usize = 8;
    type Sums = u64;
    type Pattern = u64;
    type Draws = ();

    #[inline(always)]
    unsafe fn no_sums() -> u64 {
        0
    }

    #[inline(always)]
    unsafe fn total(sums: u64) -> u64 {
        sums
    }

    #[inline(always)]
    unsafe fn load<const STREAM: bool>(sums: &mut u64, at: *const u8) {
        let word: u64;
        // SAFETY: the caller may read these bytes.
        unsafe {
            asm!("mov {word}, [{at}]", at = in(reg) at, word = lateout(reg) word,
                options(nostack, preserves_flags, readonly));
        }
        *sums = sums.wrapping_add(word);
    }

    #[inline(always)]
    unsafe fn load_block<const STREAM: bool>(sums: &mut u64, at: *const u8) {
        for unit in 0..8 {
            // SAFETY: inside the block, which the caller may read.
            unsafe { Self::load::<STREAM>(sums, at.wrapping_add(unit * 8)) };
        }
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
                asm!("movnti [{at}], {word}", at = in(reg) at, word = in(reg) *pattern,
                    options(nostack, preserves_flags));
            } else {
                asm!("mov [{at}], {word}", at = in(reg) at, word = in(reg) *pattern,
                    options(nostack, preserves_flags));
            }
        }
        *pattern = pattern.wrapping_add(PATTERN_STEP);
    }

    #[inline(always)]
    unsafe fn store_block<const STREAM: bool>(pattern: &mut u64, at: *mut u8) {
        for unit in 0..8 {
            // SAFETY: inside the block, which the caller may write.
            unsafe { Self::store::<STREAM>(pattern, at.wrapping_add(unit * 8)) };
        }
    }

    #[inline(always)]
    unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller may read the one and write the other.
        unsafe {
            if STREAM {
                asm!("mov {word}, [{from}]", "movnti [{to}], {word}",
                    from = in(reg) from, to = in(reg) to, word = out(reg) _,
                    options(nostack, preserves_flags));
            } else {
                asm!("mov {word}, [{from}]", "mov [{to}], {word}",
                    from = in(reg) from, to = in(reg) to, word = out(reg) _,
                    options(nostack, preserves_flags));
            }
        }
    }

    #[inline(always)]
    unsafe fn copy_block<const STREAM: bool>(from: *const u8, to: *mut u8) {
        for unit in 0..8 {
            // SAFETY: inside the blocks, which the caller may touch.
            unsafe { Self::copy::<STREAM>(from.wrapping_add(unit * 8), to.wrapping_add(unit * 8)) };
        }
    }
}
