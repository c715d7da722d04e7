//! aarch64: entry points of the loops, cache operations, prefetches and barriers.
//!
//! `dc cvac` and `dc civac` are privileged by default. Linux lets programs use them (it sets
//! `SCTLR_EL1.UCI`), and the counter as well, so there is nothing to detect.

use std::arch::asm;

use super::Job;
use super::cursor::Cursor;
use super::visit::{Counts, visit, visit_words};
use crate::Simd;
use crate::access::{Access, AccessError, CacheOp};

mod vector;
mod word;

use vector::{Quad, QuadPair};
use word::{Word4, Word8};

/// Bytes of the widest instruction of a vector width: a pair of 128-bit registers.
pub(super) fn widest_unit(simd: Simd, _stream: bool) -> usize {
    match simd {
        Simd::Neon => 32,
        _ => 8,
    }
}

/// Checks that there is a non-temporal instruction for units of `unit_bytes`: they move pairs of
/// registers of at least 4 bytes each.
pub(super) fn check_stream(_access: &Access, unit_bytes: usize) -> Result<(), AccessError> {
    if unit_bytes < 8 {
        return Err(AccessError::Unsupported {
            missing: "non-temporal accesses of 4 bytes",
            next_step: "use access_size 8 or more".to_owned(),
        });
    }
    Ok(())
}

/// Checks that the processor has the instruction for `cache_op`; all processors have all of them.
pub(super) fn check_cache_op(_cache_op: CacheOp) -> Result<(), AccessError> {
    Ok(())
}

/// Runs the loop of a vector width and unit.
///
/// # Safety
/// Same as [`visit`]; `simd` is available and has units of `unit_bytes`.
pub(super) unsafe fn run<C: Cursor, const KIND: u8, const STREAM: bool>(
    simd: Simd,
    unit_bytes: usize,
    job: &Job,
    cursor: &mut C,
) -> Counts {
    // SAFETY: the caller guarantees it; every aarch64 processor that Linux runs on has these
    // instructions.
    unsafe {
        match (simd, unit_bytes) {
            (Simd::Neon, 32) => visit::<QuadPair, C, KIND, STREAM>(job, cursor),
            (Simd::Neon, 16) => visit::<Quad, C, KIND, STREAM>(job, cursor),
            (_, 4) => visit::<Word4, C, KIND, STREAM>(job, cursor),
            _ => visit::<Word8, C, KIND, STREAM>(job, cursor),
        }
    }
}

/// Runs the loop of an operation on words.
///
/// # Safety
/// Same as [`visit_words`].
pub(super) unsafe fn run_words<C: Cursor, const KIND: u8>(job: &Job, cursor: &mut C) -> Counts {
    // SAFETY: the same contract as this function's.
    unsafe { visit_words::<C, KIND>(job, cursor) }
}

/// Prefetches a line; an unmapped address does nothing.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    // SAFETY: a prefetch is a hint that cannot fault.
    unsafe { asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Writes back the line of a byte.
///
/// # Safety
/// The byte is mapped.
#[inline(always)]
pub(super) unsafe fn write_back(at: *mut u8) {
    // SAFETY: contents do not change; the caller guarantees the rest.
    unsafe { asm!("dc cvac, {at}", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Flushes the line of a byte.
///
/// # Safety
/// The byte is mapped.
#[inline(always)]
pub(super) unsafe fn flush(at: *mut u8) {
    // SAFETY: as above.
    unsafe { asm!("dc civac, {at}", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Same as [`flush`]: there is one instruction for both.
///
/// # Safety
/// Same as [`flush`].
#[inline(always)]
pub(super) unsafe fn flush_opt(at: *mut u8) {
    // SAFETY: the same contract as this function's.
    unsafe { flush(at) };
}

/// Waits until all stores and flushes so far are complete.
pub(super) fn finish_stores() {
    // SAFETY: a barrier accesses nothing.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
}
