//! x86-64: entry points of the loops, cache operations, prefetches and fences.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use super::Job;
use super::cursor::Cursor;
use super::visit::{Counts, visit, visit_words};
use crate::Simd;
use crate::access::{Access, AccessError, CacheOp, Operation};

mod draws;
mod vector;
mod word;

use vector::{Xmm, Ymm, Zmm};
use word::{Word4, Word8};

/// Bytes of the widest instruction of a vector width.
pub(super) fn widest_unit(simd: Simd, _stream: bool) -> usize {
    match simd {
        Simd::Avx512 => 64,
        Simd::Avx2 => 32,
        Simd::Scalar | Simd::Neon => 8,
    }
}

/// Checks that there is a non-temporal instruction for `access` in units of `unit_bytes`.
pub(super) fn check_stream(access: &Access, unit_bytes: usize) -> Result<(), AccessError> {
    if access.operation == Operation::StreamRead && unit_bytes < 16 {
        return Err(AccessError::Unsupported {
            missing: "non-temporal loads of less than 16 bytes",
            next_step: "use access_size 16 or more with simd avx2 or avx512, or operation read"
                .to_owned(),
        });
    }
    Ok(())
}

/// Checks that the processor has the instruction for `cache_op`.
pub(super) fn check_cache_op(cache_op: CacheOp) -> Result<(), AccessError> {
    // CPUID leaf 7 (structured extended features), EBX.
    let features = __cpuid_count(7, 0).ebx;
    let (bit, missing) = match cache_op {
        CacheOp::None | CacheOp::Flush => return Ok(()),
        CacheOp::FlushOpt => (23, "clflushopt"),
        CacheOp::WriteBack => (24, "clwb"),
    };
    if features >> bit & 1 == 1 {
        return Ok(());
    }
    Err(AccessError::Unsupported {
        missing,
        next_step: "use cache_instruction flush, which every x86-64 processor has".to_owned(),
    })
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
    // SAFETY: the caller guarantees it. AVX2 has all that 16-byte units need, and every processor
    // with AVX-512 has AVX2.
    unsafe {
        match (simd, unit_bytes) {
            (Simd::Avx512, 64) => zmm::<C, KIND, STREAM>(job, cursor),
            (Simd::Avx512 | Simd::Avx2, 32) => ymm::<C, KIND, STREAM>(job, cursor),
            (Simd::Avx512 | Simd::Avx2, 16) => xmm::<C, KIND, STREAM>(job, cursor),
            (_, 4) => word4::<C, KIND, STREAM>(job, cursor),
            _ => word8::<C, KIND, STREAM>(job, cursor),
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

/// # Safety
/// Same as [`visit`]; the processor has AVX-512F and AVX-512DQ.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn zmm<C: Cursor, const KIND: u8, const STREAM: bool>(
    job: &Job,
    cursor: &mut C,
) -> Counts {
    // SAFETY: the same contract as this function's.
    unsafe { visit::<Zmm, C, KIND, STREAM>(job, cursor) }
}

/// # Safety
/// Same as [`visit`]; the processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn ymm<C: Cursor, const KIND: u8, const STREAM: bool>(
    job: &Job,
    cursor: &mut C,
) -> Counts {
    // SAFETY: the same contract as this function's.
    unsafe { visit::<Ymm, C, KIND, STREAM>(job, cursor) }
}

/// # Safety
/// Same as [`visit`]; the processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn xmm<C: Cursor, const KIND: u8, const STREAM: bool>(
    job: &Job,
    cursor: &mut C,
) -> Counts {
    // SAFETY: the same contract as this function's.
    unsafe { visit::<Xmm, C, KIND, STREAM>(job, cursor) }
}

/// # Safety
/// Same as [`visit`].
pub(super) unsafe fn word8<C: Cursor, const KIND: u8, const STREAM: bool>(
    job: &Job,
    cursor: &mut C,
) -> Counts {
    // SAFETY: the same contract as this function's.
    unsafe { visit::<Word8, C, KIND, STREAM>(job, cursor) }
}

/// # Safety
/// Same as [`visit`].
pub(super) unsafe fn word4<C: Cursor, const KIND: u8, const STREAM: bool>(
    job: &Job,
    cursor: &mut C,
) -> Counts {
    // SAFETY: the same contract as this function's.
    unsafe { visit::<Word4, C, KIND, STREAM>(job, cursor) }
}

/// Prefetches a line; an unmapped address does nothing.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    // SAFETY: a prefetch is a hint that cannot fault.
    unsafe { asm!("prefetcht0 [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Writes back the line of a byte.
///
/// # Safety
/// The byte is mapped, and the processor has the instruction ([`check_cache_op`]).
#[inline(always)]
pub(super) unsafe fn write_back(at: *mut u8) {
    // SAFETY: contents do not change; the caller guarantees the rest.
    unsafe { asm!("clwb [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Flushes the line of a byte, in order with other flushes.
///
/// # Safety
/// The byte is mapped.
#[inline(always)]
pub(super) unsafe fn flush(at: *mut u8) {
    // SAFETY: as above.
    unsafe { asm!("clflush [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Flushes the line of a byte, in any order.
///
/// # Safety
/// The byte is mapped, and the processor has the instruction ([`check_cache_op`]).
#[inline(always)]
pub(super) unsafe fn flush_opt(at: *mut u8) {
    // SAFETY: as above.
    unsafe { asm!("clflushopt [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
}

/// Orders all NT stores and flushes so far before later stores, which makes a finished batch
/// visible to other threads.
pub(super) fn finish_stores() {
    // SAFETY: a fence accesses nothing.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}
