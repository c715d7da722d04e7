//! Access loops: one generic loop ([`visit`]), parameterised by the instructions of a vector width
//! ([`Unit`]) and the order of the places ([`cursor`]).
//!
//! The loop is Rust; memory is touched only by blocks of inline assembly, which the compiler can
//! neither drop, merge nor change. Everything is monomorphised into functions with the target
//! features of their width, so that the blocks are inlined and accumulators stay in registers.

mod cursor;
mod visit;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(all(test, target_arch = "x86_64"))]
mod machine_code;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use aarch64 as machine;
#[cfg(target_arch = "x86_64")]
use x86 as machine;

use cursor::{Ahead, Anywhere, Cursor, Line, Skewed};
use visit::{Counts, Drawn};

use super::places::{BlockDraws, Draw};
use super::{Access, AccessError, CacheOp, Operation, Order, Places, SharedBytes, Touched};
use crate::Simd;

/// Instructions of one width. Addresses must be valid for the bytes that are accessed; for
/// non-temporal instructions they must be aligned to `BYTES`.
///
/// # Safety
/// For all functions: the processor has the instructions (see the implementing type), and the bytes
/// at the addresses may be accessed.
trait Unit {
    /// Bytes that one instruction moves.
    const BYTES: usize;
    /// Bytes of an unrolled block.
    const BLOCK_BYTES: usize = Self::BYTES * 8;
    /// Sums of the loaded words; several, so that additions do not wait for each other.
    type Sums: Copy;
    /// The words of the pattern at the current offset.
    type Pattern: Copy;
    /// Vectors that draw addresses.
    type Draws;

    /// Sums to start with.
    unsafe fn no_sums() -> Self::Sums;
    /// The total of all sums.
    unsafe fn total(sums: Self::Sums) -> u64;
    /// The addresses of the places of `blocks`, `stride` bytes apart from `base` on; `None` if the
    /// unit has no vector instructions to draw them with.
    unsafe fn draws(_blocks: &BlockDraws, _stride: u32, _base: usize) -> Option<Self::Draws> {
        None
    }
    /// The addresses of the next block.
    unsafe fn draw(_draws: &mut Self::Draws, _drawn: &mut Drawn) {}
    /// The sums in another order.
    #[inline(always)]
    fn turned(sums: Self::Sums) -> Self::Sums {
        sums
    }
    /// One load, added to the first sum.
    unsafe fn load<const STREAM: bool>(sums: &mut Self::Sums, at: *const u8);
    /// Eight unrolled loads, added to the sums.
    unsafe fn load_block<const STREAM: bool>(sums: &mut Self::Sums, at: *const u8);
    /// The pattern at `offset`.
    unsafe fn pattern(offset: usize) -> Self::Pattern;
    /// One store; advances the pattern.
    unsafe fn store<const STREAM: bool>(pattern: &mut Self::Pattern, at: *mut u8);
    /// Eight stores; advances the pattern.
    unsafe fn store_block<const STREAM: bool>(pattern: &mut Self::Pattern, at: *mut u8);
    /// One load, and a store of the loaded bytes.
    unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8);
    /// Eight unrolled copies.
    unsafe fn copy_block<const STREAM: bool>(from: *const u8, to: *mut u8);
}

/// Kinds of loops, as constants for const generics.
mod kind {
    pub(super) const READ: u8 = 0;
    pub(super) const WRITE: u8 = 1;
    pub(super) const COPY: u8 = 2;
    pub(super) const MIX: u8 = 3;
    pub(super) const COMPARE_AND_SWAP: u8 = 4;
    pub(super) const FETCH_ADD: u8 = 5;
    pub(super) const NOP: u8 = 6;
}

/// The places of one batch, and what happens there besides the operation. All places (and images)
/// are inside the memory.
#[derive(Clone, Copy)]
struct Job {
    /// First byte of the memory, aligned to 64.
    memory: *mut u8,
    /// Number of places to visit.
    count: u64,
    /// Bytes per access, a multiple of the unit's.
    access_bytes: usize,
    /// Distance from a place to its image.
    image_distance: usize,
    flushes: Flushes,
    /// Distance of prefetches within an access, in bytes; 0 for none.
    inner_ahead: usize,
    /// Reads per 100 accesses of a mix.
    read_percent: u32,
    /// Hundredths of a read that are due before the first access.
    reads_due: u32,
}

/// A [`CacheOp`] as flags: three well-predicted branches cost less in a loop than the jump table of
/// a `match`.
#[derive(Clone, Copy)]
struct Flushes {
    any: bool,
    write_back: bool,
    flush: bool,
    flush_opt: bool,
}

impl Flushes {
    fn new(cache_op: CacheOp) -> Self {
        Self {
            any: cache_op != CacheOp::None,
            write_back: cache_op == CacheOp::WriteBack,
            flush: cache_op == CacheOp::Flush,
            flush_opt: cache_op == CacheOp::FlushOpt,
        }
    }
}

/// Bytes per instruction: the widest one of the vector width that is not wider than an access.
pub(super) fn unit_bytes(access: &Access) -> usize {
    machine::widest_unit(access.simd, access.operation.is_stream()).min(access.access_bytes)
}

/// Checks that there is a non-temporal instruction for `access`.
pub(super) fn check_stream(access: &Access, unit_bytes: usize) -> Result<(), AccessError> {
    machine::check_stream(access, unit_bytes)
}

/// Checks that the processor has the instruction for `cache_op`.
pub(super) fn check_cache_op(cache_op: CacheOp) -> Result<(), AccessError> {
    machine::check_cache_op(cache_op)
}

/// Runs a batch of `count` places (not 0) that starts at `start`. `places` are those of `access`
/// and of this memory, which begins with a whole line. Images of copies are `image_distance` bytes
/// further on, in this memory or in another one.
pub(super) fn run(
    access: &Access,
    memory: SharedBytes<'_>,
    image_distance: usize,
    start: usize,
    count: u64,
    places: &mut Places,
) -> Touched {
    let mut job = Job {
        memory: memory.as_ptr(),
        count,
        access_bytes: access.access_bytes,
        image_distance,
        flushes: Flushes::new(access.cache_op),
        inner_ahead: 0,
        read_percent: match access.operation {
            Operation::Mix { read_percent, .. } => u32::from(read_percent),
            _ => 0,
        },
        reads_due: places.reads_due,
    };
    let counts = match (access.order, &mut places.draw) {
        (Order::Ascending, _) if access.is_seamless() => {
            // Adjacent accesses without anything between them are one large access: the unrolled
            // blocks then run across their borders.
            job.count = 1;
            job.access_bytes = access.access_bytes * count as usize;
            job.inner_ahead = access.prefetch_bytes;
            dispatch(access, &job, &mut Line::new(start, 0, 0))
        }
        (Order::Ascending, _) => {
            let step = access.stride_bytes as isize;
            let mut line = Line::new(start, step, access.prefetch_bytes);
            dispatch(access, &job, &mut line)
        }
        (Order::Descending, _) => {
            let step = access.stride_bytes as isize;
            let last = start + (count as usize - 1) * access.stride_bytes;
            let mut line = Line::new(last, -step, access.prefetch_bytes);
            dispatch(access, &job, &mut line)
        }
        (Order::Random(_), Draw::Uniform(uniform)) => {
            let mut anywhere = Anywhere {
                draw: *uniform,
                stride: access.stride_bytes,
            };
            let counts = run_random(access, &job, &mut anywhere);
            *uniform = anywhere.draw;
            counts
        }
        (Order::Random(_), Draw::Zipf { table, random }) => {
            let mut skewed = Skewed::new(table, random.clone(), access.stride_bytes);
            let counts = run_random(access, &job, &mut skewed);
            *random = skewed.random;
            counts
        }
    };
    places.reads_due = counts.reads_due;
    if access.operation.is_stream() || access.cache_op != CacheOp::None {
        machine::finish_stores();
    }
    touched(access, count, counts)
}

/// Runs a batch at random places, with software prefetches if requested.
fn run_random<C: Cursor>(access: &Access, job: &Job, cursor: &mut C) -> Counts {
    if access.prefetch_bytes == 0 {
        return dispatch(access, job, cursor);
    }
    let mut ahead = Ahead::new(cursor.clone(), access.access_bytes, access.prefetch_bytes);
    let counts = dispatch(access, job, &mut ahead);
    *cursor = ahead.source;
    counts
}

fn touched(access: &Access, operations: u64, counts: Counts) -> Touched {
    let bytes = operations * access.access_bytes as u64;
    let (read_bytes, written_bytes) = match access.operation {
        Operation::Read | Operation::StreamRead => (bytes, 0),
        Operation::Write | Operation::StreamWrite => (0, bytes),
        Operation::Copy | Operation::StreamCopy => (bytes, bytes),
        Operation::Mix { .. } => {
            let read_bytes = counts.reads * access.access_bytes as u64;
            (read_bytes, bytes - read_bytes)
        }
        Operation::CompareAndSwap | Operation::FetchAdd => (operations * 8, operations * 8),
        Operation::Nop => (0, 0),
    };
    Touched {
        operations,
        read_bytes,
        written_bytes,
        checksum: counts.checksum,
    }
}

/// Selects the compiled loop for an operation.
fn dispatch<C: Cursor>(access: &Access, job: &Job, cursor: &mut C) -> Counts {
    use Operation as Op;
    let unit = unit_bytes(access);
    let simd: Simd = access.simd;
    // SAFETY: `Kernel::new` checked that the processor has the instructions of `access`, and that
    // strides are aligned where instructions need it. The job's places are inside the memory:
    // `Kernel` limits batches to it, and `Places` were made for it. Images are inside the memory
    // that copies go to, which has as many bytes.
    unsafe {
        match access.operation {
            Op::Read => machine::run::<C, { kind::READ }, false>(simd, unit, job, cursor),
            Op::StreamRead => machine::run::<C, { kind::READ }, true>(simd, unit, job, cursor),
            Op::Write => machine::run::<C, { kind::WRITE }, false>(simd, unit, job, cursor),
            Op::StreamWrite => machine::run::<C, { kind::WRITE }, true>(simd, unit, job, cursor),
            Op::Copy => machine::run::<C, { kind::COPY }, false>(simd, unit, job, cursor),
            Op::StreamCopy => machine::run::<C, { kind::COPY }, true>(simd, unit, job, cursor),
            Op::Mix { stream: false, .. } => {
                machine::run::<C, { kind::MIX }, false>(simd, unit, job, cursor)
            }
            Op::Mix { stream: true, .. } => {
                machine::run::<C, { kind::MIX }, true>(simd, unit, job, cursor)
            }
            Op::CompareAndSwap => machine::run_words::<C, { kind::COMPARE_AND_SWAP }>(job, cursor),
            Op::FetchAdd => machine::run_words::<C, { kind::FETCH_ADD }>(job, cursor),
            Op::Nop => machine::run_words::<C, { kind::NOP }>(job, cursor),
        }
    }
}
