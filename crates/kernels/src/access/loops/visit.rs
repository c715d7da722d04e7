//! The generic loop that all access loops are instances of.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cursor::Cursor;
use super::{Flushes, Job, Unit, kind, machine};
use crate::access::places::BLOCK_PLACES;

/// Counts of a loop.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Reads of a mix.
    pub(super) reads: u64,
    /// Hundredths of a read that are due afterwards.
    pub(super) reads_due: u32,
    /// Same as in [`Touched`](crate::access::Touched).
    pub(super) checksum: u64,
}

/// Visits the job's places with instructions of one width.
///
/// # Safety
/// The processor has the instructions of `U`, and the caller is compiled with the target features
/// they need. The job's places are inside the memory, and aligned to the unit if `STREAM`.
#[inline(always)]
pub(super) unsafe fn visit<U: Unit, C: Cursor, const KIND: u8, const STREAM: bool>(
    job: &Job,
    cursor: &mut C,
) -> Counts {
    let mut state = LoopState {
        job: *job,
        cursor: cursor.clone(),
        // SAFETY: the caller guarantees it, here and below.
        sums: unsafe { U::no_sums() },
        reads: 0,
        reads_due: job.reads_due,
    };
    let plain = !job.flushes.any;
    // SAFETY: as above.
    unsafe {
        match job.access_bytes {
            bytes if plain && bytes == U::BYTES => {
                all::<U, C, KIND, STREAM, { size::UNIT }>(&mut state)
            }
            LINE_BYTES if plain => all::<U, C, KIND, STREAM, { size::LINE }>(&mut state),
            _ => all::<U, C, KIND, STREAM, { size::ANY }>(&mut state),
        }
    }
    *cursor = state.cursor;
    Counts {
        reads: state.reads,
        reads_due: state.reads_due,
        // SAFETY: as above.
        checksum: unsafe { U::total(state.sums) },
    }
}

/// Working state of a loop, all of it in registers.
struct LoopState<U: Unit, C> {
    job: Job,
    cursor: C,
    sums: U::Sums,
    reads: u64,
    reads_due: u32,
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Sizes of accesses that loops are compiled for, as constants for const generics.
///
/// For short accesses every other instruction counts: at random places, the fewer there are, the
/// more loads fit into the out-of-order window.
mod size {
    /// Any, with cache operations and prefetches.
    pub(super) const ANY: u8 = 0;
    /// One instruction, without cache operation.
    pub(super) const UNIT: u8 = 1;
    /// One cache line, without cache operation.
    pub(super) const LINE: u8 = 2;
}

/// All accesses of the job.
#[inline(always)]
unsafe fn all<U: Unit, C: Cursor, const KIND: u8, const STREAM: bool, const SIZE: u8>(
    state: &mut LoopState<U, C>,
) {
    let count = state.job.count;
    if SIZE == size::ANY {
        for _ in 0..count {
            // SAFETY: the caller guarantees it, here and below.
            unsafe { next_access::<U, C, KIND, STREAM, SIZE>(state) };
        }
        return;
    }
    let mut blocks = count / BLOCK_PLACES as u64;
    // SAFETY: as above.
    if KIND == kind::READ && unsafe { drawn_reads::<U, C, STREAM, SIZE>(state, blocks) } {
        blocks = 0;
    }
    for _ in 0..blocks {
        if let Some((draw, stride)) = state.cursor.uniform() {
            for place in draw.next_block() {
                let offset = (place as usize).wrapping_mul(stride);
                // SAFETY: as above.
                unsafe { access::<U, C, KIND, STREAM, SIZE>(state, offset) };
            }
        } else {
            for _ in 0..BLOCK_PLACES {
                // SAFETY: as above.
                unsafe { next_access::<U, C, KIND, STREAM, SIZE>(state) };
            }
        }
    }
    for _ in 0..count % BLOCK_PLACES as u64 {
        // SAFETY: as above.
        unsafe { next_access::<U, C, KIND, STREAM, SIZE>(state) };
    }
}

/// Addresses that were drawn together.
#[repr(align(64))]
pub(super) struct Drawn(pub(super) [usize; BLOCK_PLACES]);

/// Reads of `count` blocks of places; `false`, with nothing done, if the cursor has no uniform
/// draws or the unit no vectors for them.
///
/// Vector instructions draw the addresses of a block and put them into memory, where the loads find
/// them: taking numbers out of vectors would cost as many instructions as drawing one by one, and
/// each of these is room in the out-of-order window that loads do not get. Loops that write cannot
/// do so, as the addresses would wait in the store buffer behind the stores.
#[inline(always)]
unsafe fn drawn_reads<U: Unit, C: Cursor, const STREAM: bool, const SIZE: u8>(
    state: &mut LoopState<U, C>,
    count: u64,
) -> bool {
    let job = sized::<U, SIZE>(&state.job);
    let Some((draw, stride)) = state.cursor.uniform() else {
        return false;
    };
    let (Some(blocks), Ok(stride)) = (draw.blocks(), u32::try_from(stride)) else {
        return false;
    };
    // SAFETY: the caller guarantees the unit's instructions, here and below.
    let Some(mut draws) = (unsafe { U::draws(&blocks, stride, job.memory.addr()) }) else {
        return false;
    };
    let mut drawn = Drawn([0; BLOCK_PLACES]);
    for _ in 0..count {
        // SAFETY: as above.
        unsafe { U::draw(&mut draws, &mut drawn) };
        for address in black_box(&drawn.0) {
            let at = job.memory.with_addr(*address);
            // SAFETY: the caller guarantees that all of the job's places are inside the memory.
            unsafe { read_span::<U, STREAM>(&mut state.sums, at, &job) };
            // The next loads are added to another sum, so that they do not wait for these.
            state.sums = U::turned(state.sums);
        }
    }
    draw.skip(count.wrapping_mul(BLOCK_PLACES as u64));
    true
}

/// The access at the cursor's next place, and its prefetch.
#[inline(always)]
unsafe fn next_access<U: Unit, C: Cursor, const KIND: u8, const STREAM: bool, const SIZE: u8>(
    state: &mut LoopState<U, C>,
) {
    let offset = state.cursor.next();
    prefetch_place(&sized::<U, SIZE>(&state.job), &state.cursor);
    // SAFETY: the caller guarantees it.
    unsafe { access::<U, C, KIND, STREAM, SIZE>(state, offset) };
}

/// The job with constants for what `SIZE` says, with which the compiler removes loops.
#[inline(always)]
fn sized<U: Unit, const SIZE: u8>(job: &Job) -> Job {
    let mut job = *job;
    if SIZE != size::ANY {
        job.access_bytes = if SIZE == size::UNIT {
            U::BYTES
        } else {
            LINE_BYTES
        };
        job.inner_ahead = 0;
    }
    job
}

/// One access and its cache operation.
#[inline(always)]
unsafe fn access<U: Unit, C: Cursor, const KIND: u8, const STREAM: bool, const SIZE: u8>(
    state: &mut LoopState<U, C>,
    offset: usize,
) {
    let job = sized::<U, SIZE>(&state.job);
    let at = job.memory.wrapping_add(offset);
    // SAFETY: `access_bytes` from here are inside the memory, and so is the image of a copy.
    unsafe {
        match KIND {
            kind::READ => read_span::<U, STREAM>(&mut state.sums, at, &job),
            kind::WRITE => write_span::<U, STREAM>(offset, at, &job),
            kind::COPY => copy_span::<U, STREAM>(at, at.wrapping_add(job.image_distance), &job),
            _ => {
                // Spreads the reads evenly, as Bresenham's algorithm does with the steps of a line:
                // any 100 consecutive accesses have exactly `read_percent` reads.
                state.reads_due = state.reads_due.wrapping_add(job.read_percent);
                if state.reads_due >= 100 {
                    state.reads_due = state.reads_due.wrapping_sub(100);
                    state.reads = state.reads.wrapping_add(1);
                    read_span::<U, false>(&mut state.sums, at, &job);
                } else {
                    write_span::<U, STREAM>(offset, at, &job);
                }
            }
        }
        if SIZE == size::ANY && job.flushes.any {
            flush_span(job.flushes, at, job.access_bytes);
            if KIND == kind::COPY {
                let image = at.wrapping_add(job.image_distance);
                flush_span(job.flushes, image, job.access_bytes);
            }
        }
    }
}

/// Visits the job's places with operations on one word, or none.
///
/// # Safety
/// The job's places are inside the memory and aligned to 8.
#[inline(always)]
pub(super) unsafe fn visit_words<C: Cursor, const KIND: u8>(job: &Job, state: &mut C) -> Counts {
    let (job, mut cursor) = (*job, state.clone());
    let mut checksum = 0_u64;
    for _ in 0..job.count {
        let offset = cursor.next();
        if KIND == kind::NOP {
            // Keeps the compiler from dropping the address computation.
            black_box(offset);
            continue;
        }
        let at = job.memory.wrapping_add(offset);
        prefetch_place(&job, &cursor);
        // SAFETY: the 8 bytes are inside the memory and aligned, and others touch them only by
        // atomics and assembly.
        let word = unsafe { AtomicU64::from_ptr(at.cast()) };
        if KIND == kind::FETCH_ADD {
            checksum = checksum.wrapping_add(word.fetch_add(1, Ordering::SeqCst));
        } else {
            let old = word.load(Ordering::Relaxed);
            let new = old.wrapping_add(1);
            let won = word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
            checksum = checksum.wrapping_add(u64::from(won.is_ok()));
        }
        if job.flushes.any {
            // SAFETY: the place is inside the memory.
            unsafe { flush_span(job.flushes, at, 8) };
        }
    }
    *state = cursor;
    Counts {
        checksum,
        reads_due: job.reads_due,
        ..Counts::default()
    }
}

/// Prefetches the lines of the place that the cursor looks ahead to.
#[inline(always)]
fn prefetch_place(job: &Job, cursor: &impl Cursor) {
    if let Some(ahead) = cursor.ahead() {
        let mut line = 0_usize;
        while line < job.access_bytes {
            machine::prefetch(job.memory.wrapping_add(ahead).wrapping_add(line));
            line = line.wrapping_add(64);
        }
    }
}

/// Prefetches as many lines as a block has, `ahead` bytes from `at`.
#[inline(always)]
fn prefetch_block<U: Unit>(at: *const u8, ahead: usize) {
    if U::BLOCK_BYTES < 64 && !(at as usize).is_multiple_of(64) {
        return;
    }
    let mut line = 0_usize;
    while line < U::BLOCK_BYTES {
        machine::prefetch(at.wrapping_add(ahead.wrapping_add(line)));
        line = line.wrapping_add(64);
    }
}

#[inline(always)]
unsafe fn read_span<U: Unit, const STREAM: bool>(sums: &mut U::Sums, at: *const u8, job: &Job) {
    let mut done = 0_usize;
    while job.access_bytes.wrapping_sub(done) >= U::BLOCK_BYTES {
        let block = at.wrapping_add(done);
        if job.inner_ahead != 0 {
            prefetch_block::<U>(block, job.inner_ahead);
        }
        // SAFETY: the block is inside the access.
        unsafe { U::load_block::<STREAM>(sums, block) };
        done = done.wrapping_add(U::BLOCK_BYTES);
    }
    while done < job.access_bytes {
        // SAFETY: the unit is inside the access, whose size is a multiple of it.
        unsafe { U::load::<STREAM>(sums, at.wrapping_add(done)) };
        done = done.wrapping_add(U::BYTES);
    }
}

#[inline(always)]
unsafe fn write_span<U: Unit, const STREAM: bool>(offset: usize, at: *mut u8, job: &Job) {
    // SAFETY: the caller guarantees the unit's instructions.
    let mut pattern = unsafe { U::pattern(offset) };
    let mut done = 0_usize;
    while job.access_bytes.wrapping_sub(done) >= U::BLOCK_BYTES {
        let block = at.wrapping_add(done);
        if job.inner_ahead != 0 {
            prefetch_block::<U>(block, job.inner_ahead);
        }
        // SAFETY: the block is inside the access.
        unsafe { U::store_block::<STREAM>(&mut pattern, block) };
        done = done.wrapping_add(U::BLOCK_BYTES);
    }
    while done < job.access_bytes {
        // SAFETY: the unit is inside the access, whose size is a multiple of it.
        unsafe { U::store::<STREAM>(&mut pattern, at.wrapping_add(done)) };
        done = done.wrapping_add(U::BYTES);
    }
}

#[inline(always)]
unsafe fn copy_span<U: Unit, const STREAM: bool>(from: *const u8, to: *mut u8, job: &Job) {
    let mut done = 0_usize;
    // Prefetchers that learn the stride of each load instruction do less with eight instructions
    // that load every eighth line each: on a Zen 5 core, one load and one NT store per turn copy
    // 5 to 10% faster. Plain stores gain from blocks.
    while !STREAM && job.access_bytes.wrapping_sub(done) >= U::BLOCK_BYTES {
        let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
        if job.inner_ahead != 0 {
            prefetch_block::<U>(from, job.inner_ahead);
        }
        // SAFETY: the block is inside the access, and its image inside the memory.
        unsafe { U::copy_block::<STREAM>(from, to) };
        done = done.wrapping_add(U::BLOCK_BYTES);
    }
    while done < job.access_bytes {
        // SAFETY: the unit is inside the access, whose size is a multiple of it; the same for the
        // image.
        unsafe { U::copy::<STREAM>(from.wrapping_add(done), to.wrapping_add(done)) };
        done = done.wrapping_add(U::BYTES);
    }
}

/// Writes back or flushes all lines that the `bytes` bytes at `at` are in.
#[inline(always)]
unsafe fn flush_span(flushes: Flushes, at: *mut u8, bytes: usize) {
    // The first line from its first accessed byte, the others from their starts.
    let (mut done, first_line) = (0_usize, 64 - (at as usize) % 64);
    while done < bytes {
        // SAFETY: the byte is inside the memory, and `Kernel::new` checked the instruction.
        unsafe {
            let line = at.wrapping_add(done);
            if flushes.write_back {
                machine::write_back(line);
            }
            if flushes.flush {
                machine::flush(line);
            }
            if flushes.flush_opt {
                machine::flush_opt(line);
            }
        }
        done = if done == 0 {
            first_line
        } else {
            done.wrapping_add(64)
        };
    }
}

/// The pattern's words of `N` lanes, relative to the first one.
#[cfg(target_arch = "x86_64")]
pub(super) const fn lanes<const N: usize>() -> [u64; N] {
    let mut lanes = [0; N];
    let mut lane = 1;
    while lane < N {
        lanes[lane] = crate::access::touched::PATTERN_STEP.wrapping_mul(lane as u64);
        lane += 1;
    }
    lanes
}
