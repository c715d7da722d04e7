//! Address generation, inlined into the loops.
//!
//! Arrays of precomputed addresses would add memory traffic of their own to the measurement.

use crate::access::places::Uniform;
use crate::access::zipf::Zipf;
use crate::rng::SplitMix64;

/// Most places that random loops prefetch ahead.
const MAX_AHEAD: usize = 64;

/// Iterator over offsets of places. Loops work on a local copy, so that the state is in registers;
/// arithmetic wraps, so that no build adds overflow checks to the loops.
pub(super) trait Cursor: Clone {
    /// Offset of the next place.
    fn next(&mut self) -> usize;

    /// The random stream and the distance of places, if places are drawn uniformly and nothing is
    /// prefetched: then a block at a time is faster than calls of [`Self::next`].
    #[inline(always)]
    fn uniform(&mut self) -> Option<(&mut Uniform, usize)> {
        None
    }

    /// Offset to prefetch after the last [`Self::next`]. It may be outside the memory, where a
    /// prefetch does nothing.
    fn ahead(&self) -> Option<usize>;
}

/// Places at a fixed distance.
#[derive(Clone)]
pub(super) struct Line {
    /// Offset of the next place.
    pub(super) at: usize,
    /// Distance from one place to the next; wraps, so it can be negative.
    pub(super) step: usize,
    /// Prefetch distance in the direction of the steps; 0 for none.
    pub(super) ahead: usize,
    /// Of several places in a line, only the first one prefetches.
    pub(super) sparse: usize,
}

impl Line {
    /// Places from `at`, `step` bytes apart, with prefetches about `ahead_bytes` ahead.
    pub(super) fn new(at: usize, step: isize, ahead_bytes: usize) -> Self {
        // Gaps between places are not prefetched: the distance is rounded up to a place.
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

/// Uniformly random places without prefetch: the shortest loop.
#[derive(Clone)]
pub(super) struct Anywhere {
    pub(super) draw: Uniform,
    pub(super) stride: usize,
}

impl Cursor for Anywhere {
    #[inline(always)]
    fn uniform(&mut self) -> Option<(&mut Uniform, usize)> {
        Some((&mut self.draw, self.stride))
    }

    #[inline(always)]
    fn next(&mut self) -> usize {
        (self.draw.next() as usize).wrapping_mul(self.stride)
    }

    #[inline(always)]
    fn ahead(&self) -> Option<usize> {
        None
    }
}

/// Skewed places drawn at a time, so that the loads of a block follow each other closely.
const SKEWED_PLACES: usize = 32;

/// Zipf-distributed places without prefetch.
///
/// A draw takes about 40 instructions. Between any two loads, they would fill the processor's
/// out-of-order window and leave room for few loads, so places are drawn in blocks (256 bytes on
/// the stack). The rest of a block is discarded when a batch ends.
#[derive(Clone)]
pub(super) struct Skewed<'a> {
    table: &'a Zipf,
    /// State of the random stream after the block.
    pub(super) random: SplitMix64,
    stride: usize,
    block: [usize; SKEWED_PLACES],
    /// Index in the block of the next place; 0 also if the block is used up.
    turn: usize,
}

impl<'a> Skewed<'a> {
    pub(super) fn new(table: &'a Zipf, random: SplitMix64, stride: usize) -> Self {
        Self {
            table,
            random,
            stride,
            block: [0; SKEWED_PLACES],
            turn: 0,
        }
    }
}

impl Cursor for Skewed<'_> {
    #[inline(always)]
    fn next(&mut self) -> usize {
        let slot = self.turn % SKEWED_PLACES;
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

/// Random places that are drawn and prefetched some accesses before they are used.
#[derive(Clone)]
pub(super) struct Ahead<C> {
    /// Source of the places.
    pub(super) source: C,
    ring: [usize; MAX_AHEAD],
    /// Index in the ring of the next place.
    turn: usize,
    /// Number of places in the ring.
    places: usize,
    /// The place last drawn from the source.
    newest: usize,
}

impl<C: Cursor> Ahead<C> {
    /// Places of `source`, prefetched as many accesses ahead as fit into `ahead_bytes`, 1 to 64.
    /// The first places, which fill the ring, are not prefetched.
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
        // The modulo removes the bounds check.
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
