//! Address generation, inlined into the loops: no vectors of addresses, whose own traffic would
//! spoil the figures.

use crate::access::places::Uniform;
use crate::access::zipf::Zipf;
use crate::rng::SplitMix64;

/// Most places that random loops prefetch ahead.
const MAX_AHEAD: usize = 64;

/// Yields offsets of places. Loops work on a copy of their own, so that the state is in registers;
/// arithmetic wraps, so that no build has checks in loops.
pub(super) trait Cursor: Clone {
    /// The next place.
    fn next(&mut self) -> usize;

    /// The place to prefetch after the last [`Self::next`]; it may lie outside of the memory, where
    /// a prefetch does nothing.
    fn ahead(&self) -> Option<usize>;
}

/// Places at a fixed distance.
#[derive(Clone)]
pub(super) struct Line {
    /// Where the next place is.
    pub(super) at: usize,
    /// From one place to the next; wraps, so that it may be negative.
    pub(super) step: usize,
    /// How far ahead to prefetch in the direction of the steps; 0 for not.
    pub(super) ahead: usize,
    /// Of places smaller than a line only the first of a line prefetches.
    pub(super) sparse: usize,
}

impl Line {
    /// Places from `at`, `step` bytes apart, with prefetches about `ahead_bytes` ahead.
    pub(super) fn new(at: usize, step: isize, ahead_bytes: usize) -> Self {
        // A place that is far enough away, if they are not neighbours in lines.
        let stride = step.unsigned_abs();
        let ahead_bytes = if stride > 64 {
            ahead_bytes.next_multiple_of(stride)
        } else {
            ahead_bytes
        };
        Self {
            at,
            step: step as usize,
            ahead: if step < 0 {
                ahead_bytes.wrapping_neg()
            } else {
                ahead_bytes
            },
            sparse: stride.min(64),
        }
    }
}

impl Cursor for Line {
    #[inline(always)]
    fn next(&mut self) -> usize {
        let at = self.at;
        self.at = at.wrapping_add(self.step);
        at
    }

    #[inline(always)]
    fn ahead(&self) -> Option<usize> {
        let at = self.at.wrapping_sub(self.step);
        (self.ahead != 0 && at % 64 < self.sparse).then(|| at.wrapping_add(self.ahead))
    }
}

/// Uniformly random places without prefetch: the fastest loop.
#[derive(Clone)]
pub(super) struct Anywhere {
    pub(super) draw: Uniform,
    pub(super) stride: usize,
}

impl Cursor for Anywhere {
    #[inline(always)]
    fn next(&mut self) -> usize {
        (self.draw.next() as usize).wrapping_mul(self.stride)
    }

    #[inline(always)]
    fn ahead(&self) -> Option<usize> {
        None
    }
}

/// Places that are drawn in one go, so that the loads of a block follow one another closely.
const BLOCK_PLACES: usize = 32;

/// Zipf-distributed places without prefetch.
///
/// To draw one takes about 40 instructions. If they stood between any two loads, the processor's
/// window would hold few loads at a time; so places are drawn in blocks (256 bytes on the stack).
/// What is left of a block when a batch ends is not used.
#[derive(Clone)]
pub(super) struct Skewed<'a> {
    table: &'a Zipf,
    /// The random stream, after the block.
    pub(super) random: SplitMix64,
    stride: usize,
    block: [usize; BLOCK_PLACES],
    /// Where in the block the next place is; 0 also if there is none.
    turn: usize,
}

impl<'a> Skewed<'a> {
    pub(super) fn new(table: &'a Zipf, random: SplitMix64, stride: usize) -> Self {
        Self {
            table,
            random,
            stride,
            block: [0; BLOCK_PLACES],
            turn: 0,
        }
    }
}

impl Cursor for Skewed<'_> {
    #[inline(always)]
    fn next(&mut self) -> usize {
        let slot = self.turn % BLOCK_PLACES;
        if slot == 0 {
            for place in &mut self.block {
                *place = (self.table.next(&mut self.random) as usize).wrapping_mul(self.stride);
            }
        }
        self.turn = slot.wrapping_add(1);
        self.block[slot]
    }

    #[inline(always)]
    fn ahead(&self) -> Option<usize> {
        None
    }
}

/// Random places, known and prefetched some accesses before they come up.
#[derive(Clone)]
pub(super) struct Ahead<C> {
    /// Where places come from.
    pub(super) source: C,
    ring: [usize; MAX_AHEAD],
    /// Where in the ring the next place is.
    turn: usize,
    /// Places in the ring.
    places: usize,
    /// The place that came last from the source.
    newest: usize,
}

impl<C: Cursor> Ahead<C> {
    /// Places of `source`, prefetched as many accesses ahead as fit into `ahead_bytes`, 1 to 64.
    /// The ring's own places are not prefetched.
    pub(super) fn new(mut source: C, access_bytes: usize, ahead_bytes: usize) -> Self {
        let places = (ahead_bytes / access_bytes).clamp(1, MAX_AHEAD);
        let mut ring = [0; MAX_AHEAD];
        for place in &mut ring[..places] {
            *place = source.next();
        }
        Self {
            source,
            ring,
            turn: 0,
            places,
            newest: 0,
        }
    }
}

impl<C: Cursor> Cursor for Ahead<C> {
    #[inline(always)]
    fn next(&mut self) -> usize {
        // The mask tells the compiler that the index is in range.
        let slot = self.turn % MAX_AHEAD;
        self.newest = self.source.next();
        let now = std::mem::replace(&mut self.ring[slot], self.newest);
        let next = slot.wrapping_add(1);
        self.turn = if next == self.places { 0 } else { next };
        now
    }

    #[inline(always)]
    fn ahead(&self) -> Option<usize> {
        Some(self.newest)
    }
}
