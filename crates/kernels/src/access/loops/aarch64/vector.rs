//! Units of 16 and 32 bytes, in 128-bit registers.
//!
//! Additions are assembly too, so that none of it depends on how the crate is compiled.

use std::arch::aarch64::uint64x2_t;
use std::arch::asm;

use crate::access::loops::Unit;
use crate::access::touched::{PATTERN_STEP, pattern_word};

/// 16 bytes, one register; non-temporal accesses use a pair of 64-bit halves.
pub(super) struct Quad;

/// 32 bytes, a pair of registers.
pub(super) struct QuadPair;

/// A vector of two words.
#[inline(always)]
fn vector(words: [u64; 2]) -> uint64x2_t {
    // SAFETY: vectors and words are plain bytes of the same size.
    unsafe { std::mem::transmute(words) }
}

/// Adds lane by lane.
#[inline(always)]
fn add(left: uint64x2_t, right: uint64x2_t) -> uint64x2_t {
    let mut sum = left;
    // SAFETY: touches registers only.
    unsafe {
        asm!("add {sum:v}.2d, {sum:v}.2d, {right:v}.2d", sum = inout(vreg) sum, right = in(vreg) right,
            options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// The words of the pattern in one register.
#[inline(always)]
fn pattern_vector(offset: usize) -> uint64x2_t {
    let first = pattern_word(offset);
    vector([first, first.wrapping_add(PATTERN_STEP)])
}

/// The pattern `registers` registers further on.
#[inline(always)]
fn advanced(pattern: uint64x2_t, registers: u64) -> uint64x2_t {
    add(
        pattern,
        vector([PATTERN_STEP.wrapping_mul(2 * registers); 2]),
    )
}

/// Common parts of both units: four sums, and blocks of eight instructions.
macro_rules! shared {
    () => {
        type Sums = [uint64x2_t; 4];

        #[inline(always)]
        unsafe fn no_sums() -> [uint64x2_t; 4] {
            [vector([0; 2]); 4]
        }

        #[inline(always)]
        unsafe fn total(sums: [uint64x2_t; 4]) -> u64 {
            // SAFETY: vectors and words are plain bytes of the same size.
            let words: [u64; 8] = unsafe { std::mem::transmute(sums) };
            words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
        }

        #[inline(always)]
        unsafe fn load_block<const STREAM: bool>(sums: &mut [uint64x2_t; 4], at: *const u8) {
            for unit in 0..8 {
                // SAFETY: inside the block, which the caller may read.
                unsafe { Self::load::<STREAM>(sums, at.wrapping_add(unit * Self::BYTES)) };
                // The next load adds to other sums, so that additions do not wait for each other.
                sums.rotate_left(2);
            }
        }

        #[inline(always)]
        unsafe fn store_block<const STREAM: bool>(pattern: &mut Self::Pattern, at: *mut u8) {
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

impl Unit for Quad {
    const BYTES: usize = 16;
    type Pattern = uint64x2_t;
    type Draws = ();

    shared!();

    #[inline(always)]
    unsafe fn load<const STREAM: bool>(sums: &mut [uint64x2_t; 4], at: *const u8) {
        // SAFETY: the caller may read these bytes.
        unsafe {
            if STREAM {
                // `ldnp` of `d` registers clears their upper halves.
                let (low, high): (uint64x2_t, uint64x2_t);
                asm!("ldnp {low:d}, {high:d}, [{at}]", at = in(reg) at,
                    low = out(vreg) low, high = out(vreg) high,
                    options(nostack, preserves_flags, readonly));
                sums[0] = add(sums[0], low);
                sums[1] = add(sums[1], high);
            } else {
                let word: uint64x2_t;
                asm!("ldr {word:q}, [{at}]", at = in(reg) at, word = out(vreg) word,
                    options(nostack, preserves_flags, readonly));
                sums[0] = add(sums[0], word);
            }
        }
    }

    #[inline(always)]
    unsafe fn pattern(offset: usize) -> uint64x2_t {
        pattern_vector(offset)
    }

    #[inline(always)]
    unsafe fn store<const STREAM: bool>(pattern: &mut uint64x2_t, at: *mut u8) {
        // SAFETY: the caller may write these bytes.
        unsafe {
            if STREAM {
                asm!("dup {high:d}, {word:v}.d[1]", "stnp {word:d}, {high:d}, [{at}]",
                    at = in(reg) at, word = in(vreg) *pattern, high = out(vreg) _,
                    options(nostack, preserves_flags));
            } else {
                asm!("str {word:q}, [{at}]", at = in(reg) at, word = in(vreg) *pattern,
                    options(nostack, preserves_flags));
            }
        }
        *pattern = advanced(*pattern, 1);
    }

    #[inline(always)]
    unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller may read the one and write the other.
        unsafe {
            if STREAM {
                asm!("ldp {low:d}, {high:d}, [{from}]", "stnp {low:d}, {high:d}, [{to}]",
                    from = in(reg) from, to = in(reg) to, low = out(vreg) _, high = out(vreg) _,
                    options(nostack, preserves_flags));
            } else {
                asm!("ldr {word:q}, [{from}]", "str {word:q}, [{to}]",
                    from = in(reg) from, to = in(reg) to, word = out(vreg) _,
                    options(nostack, preserves_flags));
            }
        }
    }
}

impl Unit for QuadPair {
    const BYTES: usize = 32;
    type Pattern = [uint64x2_t; 2];
    type Draws = ();

    shared!();

    #[inline(always)]
    unsafe fn load<const STREAM: bool>(sums: &mut [uint64x2_t; 4], at: *const u8) {
        let (low, high): (uint64x2_t, uint64x2_t);
        // SAFETY: the caller may read these bytes.
        unsafe {
            if STREAM {
                asm!("ldnp {low:q}, {high:q}, [{at}]", at = in(reg) at,
                    low = out(vreg) low, high = out(vreg) high,
                    options(nostack, preserves_flags, readonly));
            } else {
                asm!("ldp {low:q}, {high:q}, [{at}]", at = in(reg) at,
                    low = out(vreg) low, high = out(vreg) high,
                    options(nostack, preserves_flags, readonly));
            }
        }
        sums[0] = add(sums[0], low);
        sums[1] = add(sums[1], high);
    }

    #[inline(always)]
    unsafe fn pattern(offset: usize) -> [uint64x2_t; 2] {
        let low = pattern_vector(offset);
        [low, advanced(low, 1)]
    }

    #[inline(always)]
    unsafe fn store<const STREAM: bool>(pattern: &mut [uint64x2_t; 2], at: *mut u8) {
        let [low, high] = *pattern;
        // SAFETY: the caller may write these bytes.
        unsafe {
            if STREAM {
                asm!("stnp {low:q}, {high:q}, [{at}]", at = in(reg) at,
                    low = in(vreg) low, high = in(vreg) high,
                    options(nostack, preserves_flags));
            } else {
                asm!("stp {low:q}, {high:q}, [{at}]", at = in(reg) at,
                    low = in(vreg) low, high = in(vreg) high,
                    options(nostack, preserves_flags));
            }
        }
        *pattern = [advanced(low, 2), advanced(high, 2)];
    }

    #[inline(always)]
    unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller may read the one and write the other.
        unsafe {
            if STREAM {
                asm!("ldp {low:q}, {high:q}, [{from}]", "stnp {low:q}, {high:q}, [{to}]",
                    from = in(reg) from, to = in(reg) to, low = out(vreg) _, high = out(vreg) _,
                    options(nostack, preserves_flags));
            } else {
                asm!("ldp {low:q}, {high:q}, [{from}]", "stp {low:q}, {high:q}, [{to}]",
                    from = in(reg) from, to = in(reg) to, low = out(vreg) _, high = out(vreg) _,
                    options(nostack, preserves_flags));
            }
        }
    }
}
