//! aarch64: which loops there are, flushes, prefetches and barriers.
//!
//! `dc cvac` and `dc civac` are privileged by default, but Linux lets programs use them (it sets
//! `SCTLR_EL1.UCI`), as it does with the counter; there is nothing to look up.

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

/// Bytes of the widest instruction of a width: pairs of 128-bit registers.
pub(super) fn widest_unit(simd: Simd, _stream: bool) -> usize {
    match simd {
        Simd::Neon => 32,
        _ => 8,
    }
}

/// Whether there is a non-temporal instruction for units of `unit_bytes`: they move pairs of
/// registers, of 4 bytes at least.
pub(super) fn check_stream(_access: &Access, unit_bytes: usize) -> Result<(), AccessError> {
    if unit_bytes < 8 {
        return Err(AccessError::Unsupported {
            missing: "non-temporal accesses of 4 bytes",
            next_step: "use access_size 8 or more".to_owned(),
        });
    }
    Ok(())
}

/// Whether the processor has the instruction for `cache_op`; all have all.
pub(super) fn check_cache_op(_cache_op: CacheOp) -> Result<(), AccessError> {
    Ok(())
}

/// Runs the loop of a width and unit.
///
/// # Safety
/// As of [`visit`]; `simd` is available and `unit_bytes` one of its.
pub(super) unsafe fn run<C: Cursor, const KIND: u8, const STREAM: bool>(
    simd: Simd,
    unit_bytes: usize,
    job: &Job,
    cursor: &mut C,
) -> Counts {
    // SAFETY: as the caller promises; all of it is part of every aarch64 processor that Linux runs
    // on.
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
/// As of [`visit_words`].
pub(super) unsafe fn run_words<C: Cursor, const KIND: u8>(job: &Job, cursor: &mut C) -> Counts {
    // SAFETY: as the caller promises.
    unsafe { visit_words::<C, KIND>(job, cursor) }
}

/// Asks for a line, wherever it is; an address without memory does nothing.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    // SAFETY: prefetches never fault.
    unsafe { asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Writes back the line of a byte.
///
/// # Safety
/// The byte is mapped.
#[inline(always)]
pub(super) unsafe fn write_back(at: *mut u8) {
    // SAFETY: this changes no byte; the rest as the caller promises.
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

/// The same: there is one instruction for both.
///
/// # Safety
/// As of [`flush`].
#[inline(always)]
pub(super) unsafe fn flush_opt(at: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe { flush(at) };
}

/// Waits until all stores and flushes so far are done.
pub(super) fn finish_stores() {
    // SAFETY: a barrier touches nothing.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
}
