//! Pointer chases: each load's address is the result of the load before, so the time per step is
//! the memory latency.
//!
//! A ring is the sequence P(0), P(1), ... P(n - 1), P(0) of its lines, where P is a keyed bijection
//! of 0..n. The successor of a line is computed from that line alone, so a ring is written front to
//! back, by all processors, without a table beside the buffer.

mod permutation;
mod walk;

use std::thread;

use crate::access::ChaseLocality;
use crate::rng::mix;
use permutation::Permutation;

/// Size of a cache line.
pub const LINE_BYTES: usize = 64;
/// Most chains that [`ChaseRing::walk_many`] follows in parallel.
pub const MAX_CHASE_CHAINS: usize = 64;
/// Size of a group of [`ChaseLocality::Pages`]: 64 base pages of 4 KiB.
///
/// A first-level TLB has about 64 entries or more, so there is at most one TLB miss per page and
/// group.
pub const CHASE_GROUP_BYTES: usize = 64 * 4096;
/// Rings of this size or more are built by several threads.
const PARALLEL_FROM_BYTES: usize = 64 << 20;

/// A random cycle through cache lines of a buffer; each line holds the address of the next, so one
/// step is one load.
#[derive(Debug)]
pub struct ChaseRing<'a> {
    buffer: &'a [u8],
    order: Cycle,
}

impl<'a> ChaseRing<'a> {
    /// A cycle of all lines in random order: [`Self::build_with`] with [`ChaseLocality::Random`]
    /// and a stride of one line.
    pub fn build(buffer: &'a mut [u8], seed: u64) -> Self {
        Self::build_with(buffer, ChaseLocality::Random, LINE_BYTES, seed)
    }

    /// Writes a cycle of lines into `buffer`, determined by `seed`: one line out of every
    /// `line_stride_bytes` (rounded up to whole lines, at least one).
    ///
    /// The line within a stride varies, so that wide strides still use all cache sets and memory
    /// channels. The first 8 bytes of the lines of the cycle are overwritten; all else is left
    /// alone, including bytes before the first aligned line and after the last whole stride.
    /// Building takes no extra memory and one pass over the buffer, about as long as filling it.
    /// Large buffers are written by as many threads as there are available processors.
    ///
    /// With [`ChaseLocality::Pages`] the cycle goes through all lines of a group of
    /// [`CHASE_GROUP_BYTES`] (counted from the first line of the buffer) before the next group; the
    /// order of the groups is random too.
    pub fn build_with(
        buffer: &'a mut [u8],
        locality: ChaseLocality,
        line_stride_bytes: usize,
        seed: u64,
    ) -> Self {
        let stride_bytes = line_stride_bytes
            .max(LINE_BYTES)
            .checked_next_multiple_of(LINE_BYTES)
            .unwrap_or(LINE_BYTES);
        let skip_bytes = buffer.as_ptr().align_offset(LINE_BYTES).min(buffer.len());
        let buffer = &mut buffer[skip_bytes..];
        let count = buffer.len() / stride_bytes;
        let buffer = &mut buffer[..count * stride_bytes];
        let order = Cycle::new(count, stride_bytes, locality, seed);
        // The ring stores addresses as integers. Exposing the provenance allows the pointers that
        // are loaded from it to access the buffer.
        let base = buffer.as_ptr().expose_provenance();
        let threads = if buffer.len() < PARALLEL_FROM_BYTES {
            1
        } else {
            thread::available_parallelism().map_or(1, usize::from)
        };
        // At least 1, as a chunk size of 0 panics.
        let share = count.div_ceil(threads).max(1);
        thread::scope(|scope| {
            let order = &order;
            for (part, bytes) in buffer.chunks_mut(share * stride_bytes).enumerate() {
                let mut write = move || order.write(bytes, part * share, base);
                if threads == 1 {
                    write();
                } else {
                    scope.spawn(write);
                }
            }
        });
        Self { buffer, order }
    }

    /// Number of lines in the cycle.
    pub fn lines(&self) -> usize {
        self.order.count
    }

    /// Bytes of the lines that the cycle goes through; without the gaps of wide strides.
    pub fn footprint_bytes(&self) -> usize {
        self.lines() * LINE_BYTES
    }

    /// Same as [`Self::walk`]: a chase of one chain.
    pub fn follow(&self, start: usize, steps: u64) -> usize {
        self.walk(start, steps)
    }

    /// Follows the cycle from line `start` (modulo the number of lines) and returns the line it
    /// ends on; 0 if there are no lines.
    ///
    /// Lines are numbered by address, from 0.
    ///
    /// A step is one load of 8 bytes and nothing else: its result is the address of the next.
    pub fn walk(&self, start: usize, steps: u64) -> usize {
        let Some(line) = start.checked_rem(self.lines()) else {
            return 0;
        };
        let mut pointer = [self.pointer(line)];
        // SAFETY: as in `walk_many`.
        unsafe { walk::walk(&mut pointer, steps) };
        self.line_of(pointer[0])
    }

    /// Follows the cycle from all lines in `at` in turn, `steps` loads each, and stores the end
    /// positions there.
    ///
    /// The chains are independent, so up to `at.len()` loads are in flight: this sets the
    /// memory-level parallelism. Chains beyond [`MAX_CHASE_CHAINS`] are not moved; up to 12 are
    /// kept in registers. Chains that are close together on the cycle find lines that others have
    /// just loaded: use [`Self::starts`] to space them.
    pub fn walk_many(&self, at: &mut [usize], steps: u64) {
        if self.lines() == 0 {
            at.fill(0);
            return;
        }
        let chains = at.len().min(MAX_CHASE_CHAINS);
        let mut pointers = [std::ptr::null::<u8>(); MAX_CHASE_CHAINS];
        for (pointer, start) in pointers.iter_mut().zip(&*at) {
            *pointer = self.pointer(start % self.lines());
        }
        // SAFETY: each pointer is to a line of the ring. `build_with` wrote into every line the
        // address of another line of the same buffer, which this ring has borrowed since, so
        // nothing has changed it.
        unsafe { walk::walk(&mut pointers[..chains], steps) };
        for (pointer, at) in pointers.iter().zip(at).take(chains) {
            *at = self.line_of(*pointer);
        }
    }

    fn pointer(&self, line: usize) -> *const u8 {
        self.buffer[self.order.offset(line)..].as_ptr()
    }

    fn line_of(&self, pointer: *const u8) -> usize {
        (pointer.addr() - self.buffer.as_ptr().addr()) / self.order.stride_bytes
    }

    /// Lines that divide the cycle into `chains` (at least one) parts of equal length, for
    /// [`Self::walk_many`].
    ///
    /// Walks of up to `lines() / chains` steps from there visit no line twice.
    pub fn starts(&self, chains: usize) -> Vec<usize> {
        let chains = chains.max(1);
        (0..chains)
            .map(|chain| {
                let position = chain as u128 * self.lines() as u128 / chains as u128;
                self.order.line_at(position as usize)
            })
            .collect()
    }
}

/// Order of the lines of a ring; computed, not stored.
#[derive(Debug)]
struct Cycle {
    count: usize,
    stride_bytes: usize,
    seed: u64,
    /// Lines per group; without locality, all lines are one group.
    group_lines: usize,
    groups: Permutation,
}

impl Cycle {
    fn new(count: usize, stride_bytes: usize, locality: ChaseLocality, seed: u64) -> Self {
        let group_lines = match locality {
            ChaseLocality::Random => count,
            ChaseLocality::Pages => CHASE_GROUP_BYTES / stride_bytes,
        }
        .max(1);
        let groups = Permutation::new(count.div_ceil(group_lines) as u64, mix(!seed));
        Self {
            count,
            stride_bytes,
            seed,
            group_lines,
            groups,
        }
    }

    /// Offset of a line in the buffer, in bytes.
    fn offset(&self, line: usize) -> usize {
        let slots = self.stride_bytes / LINE_BYTES;
        let slot = mix(self.seed ^ line as u64) % slots as u64;
        line * self.stride_bytes + slot as usize * LINE_BYTES
    }

    /// Permutation within a group; the last group may be shorter.
    fn within(&self, group: usize) -> Permutation {
        let first = group * self.group_lines;
        let lines = self.group_lines.min(self.count - first);
        Permutation::new(lines as u64, mix(self.seed).wrapping_add(group as u64))
    }

    /// First line of the cycle in a group.
    fn entry(&self, group: usize) -> usize {
        group * self.group_lines + self.within(group).at(0) as usize
    }

    /// Writes the successors of the lines from `first` on into `bytes`, which start with the stride
    /// of line `first`.
    fn write(&self, bytes: &mut [u8], first: usize, base: usize) {
        let mut line = first;
        let last = first + bytes.len() / self.stride_bytes;
        while line < last {
            let group = line / self.group_lines;
            let group_first = group * self.group_lines;
            let order = self.within(group);
            // Once per group: only its last line continues in the next group.
            let next_group = self
                .groups
                .at(self.groups.after(self.groups.position(group as u64)));
            let entry = self.entry(next_group as usize);
            for line in line..last.min(group_first + order.len() as usize) {
                let position = order.position((line - group_first) as u64);
                let next = if position + 1 == order.len() {
                    entry
                } else {
                    group_first + order.at(position + 1) as usize
                };
                let at = self.offset(line) - first * self.stride_bytes;
                let address = base + self.offset(next);
                let place = bytes[at..at + size_of::<usize>()].as_mut_ptr();
                // SAFETY: the slice has the size of an address, and every line starts at a multiple
                // of 64.
                unsafe { place.cast::<usize>().write(address) };
            }
            line = group_first + order.len() as usize;
        }
    }

    /// The line at a position of the cycle, counted from the first line of the first group in
    /// order.
    fn line_at(&self, position: usize) -> usize {
        let mut rest = position;
        let mut turn = 0;
        // All groups but the one at the end of memory are full, and that one can be anywhere in the
        // order.
        let full = self.group_lines;
        let short = self.count % full;
        let groups = self.groups.len();
        if groups == 0 {
            return 0;
        }
        let short_turn = (short > 0).then(|| self.groups.position(groups - 1) as usize);
        match short_turn {
            Some(short_turn) if position >= short_turn * full + short => {
                rest -= short;
                turn += 1 + rest / full;
                rest %= full;
            }
            Some(short_turn) if position >= short_turn * full => {
                turn = short_turn;
                rest -= short_turn * full;
            }
            _ => {
                turn += rest / full;
                rest %= full;
            }
        }
        let group = self.groups.at(turn as u64) as usize;
        group * full + self.within(group).at(rest as u64) as usize
    }
}

#[cfg(test)]
mod tests;
