//! The time of one access.

use super::single::{self, Blocks, Single};
use super::timer::{Clock, OverheadSpread, Timer, system_ns};
use super::{Access, AccessError, FenceMode, LineState, SharedBytes};

/// Times single accesses, in ticks of the processor's counter ([`Timer`] turns them into
/// nanoseconds).
///
/// With [`FenceMode::Full`] a sample is: bring the lines into the wanted state; wait for everything
/// before; read the clock; the access and its cache operation; wait until they are complete; read
/// the clock. Complete means for loads and atomics that their values are there, and for stores and
/// flushes that everybody sees them: x86-64 waits with `lfence` and `mfence`, aarch64 with `dsb`.
/// With [`FenceMode::None`] nothing waits but the clock itself: x86-64 reads it with `rdtscp`, when
/// all instructions before have executed (stores are then in the store buffer, on their way);
/// aarch64 when the value loaded has been looked at. The access may begin a few cycles before the
/// first reading.
///
/// What of a sample is not the access: reading the clock, the fences, and the branch that looks for
/// a cache operation. [`Self::overhead_ns`] measures that with the same code around no access.
/// Subtract its mean. What remains is good to a few nanoseconds, not better, and single samples not
/// to less than the counter's step ([`Timer::resolution_ns`]): fences and accesses overlap in part,
/// so a fence that waits for a load costs less than one that waits for nothing, and differences
/// below zero can come out for hits in the first-level cache. Latencies of memory are 20 to 1000
/// times that. Where less error is wanted, chase pointers ([`crate::ChaseRing`]): thousands of
/// loads between two readings.
///
/// Preloaded and flushed lines also have their address translation in the TLB; lines as they are
/// may not.
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    single: Single,
    line: LineState,
    fence: FenceMode,
    clock: Clock,
}

impl Sampler {
    /// A sampler of `access`; its order and stride do not matter here.
    ///
    /// # Errors
    /// [`AccessError`] as of [`super::Kernel::new`], and for mixes, which are not one access.
    pub fn new(access: Access, line: LineState, fence: FenceMode) -> Result<Self, AccessError> {
        Ok(Self {
            single: Single::new(access)?,
            line,
            fence,
            clock: Clock::detect(),
        })
    }

    /// What is sampled.
    pub fn access(&self) -> &Access {
        self.single.access()
    }

    /// Makes the access at `offset` untimed: no fences, and lines as they are. Answers what
    /// [`super::Touched::checksum`] says of one access.
    ///
    /// Offsets count from the first whole line of the memory; those past the last place are that
    /// place, and non-temporal accesses and atomics go to the aligned place before. Memory smaller
    /// than an access is left alone.
    pub fn touch(&self, memory: SharedBytes<'_>, offset: usize) -> u64 {
        match self.single.place(single::whole_lines(memory), offset) {
            // SAFETY: `place` keeps inside the memory, and `Single` chose blocks that this
            // processor has.
            Some(place) => unsafe { (self.single.blocks.sum)(place.at, &place) },
            None => 0,
        }
    }

    /// Makes the same access timed, and answers how long it took with everything around, ticks; 0
    /// for memory smaller than an access.
    pub fn sample(&self, memory: SharedBytes<'_>, offset: usize) -> u64 {
        let Some(place) = self.single.place(single::whole_lines(memory), offset) else {
            return 0;
        };
        let copies = self.single.copies();
        match self.line {
            LineState::AsIs => {}
            LineState::Preloaded => place.for_each_line(copies, |at| {
                // SAFETY: all lines are inside the memory.
                unsafe { single::preload(at) }
            }),
            LineState::Flushed => {
                place.for_each_line(copies, |at| {
                    // SAFETY: as above.
                    unsafe { single::flush(at) }
                });
                // Also without fences around the access: it must not begin before the lines are
                // gone.
                single::full_fence();
            }
        }
        let Blocks {
            sum, fenced, free, ..
        } = self.single.blocks;
        if self.clock == Clock::System {
            return timed_by_system(self.fence, || {
                // SAFETY: as in `touch`.
                unsafe { sum(place.at, &place) }
            });
        }
        let block = match self.fence {
            FenceMode::Full => fenced,
            FenceMode::None => free,
        };
        // SAFETY: as in `touch`.
        unsafe { block(place.at, &place) }
    }

    /// A sample of nothing by the same code, ticks: what [`Self::sample`] has besides the access.
    pub fn nop_sample(&self) -> u64 {
        if self.clock == Clock::System {
            return timed_by_system(self.fence, || 0);
        }
        let Blocks {
            empty_fenced,
            empty_free,
            ..
        } = self.single.blocks;
        match self.fence {
            FenceMode::Full => empty_fenced(),
            FenceMode::None => empty_free(),
        }
    }

    /// What [`Self::nop_sample`] costs, of some thousand: subtract the mean from samples.
    pub fn overhead_ns(&self, timer: &Timer) -> OverheadSpread {
        timer.overhead_of(|| self.nop_sample())
    }
}

/// Where the processor has no counter to trust: the blocks read it themselves, so the access is
/// made untimed between two looks at the clock.
fn timed_by_system(fence: FenceMode, access: impl FnOnce() -> u64) -> u64 {
    let wait = || {
        if fence == FenceMode::Full {
            single::full_fence();
        }
    };
    wait();
    let start = system_ns();
    std::hint::black_box(access());
    wait();
    system_ns() - start
}

/// A sample of nothing, as loads are sampled, ticks.
pub(super) fn empty_load_sample(fence: FenceMode) -> u64 {
    match fence {
        _ if Clock::detect() == Clock::System => timed_by_system(fence, || 0),
        FenceMode::Full => single::empty_after_loads(),
        FenceMode::None => single::empty_free(),
    }
}

#[cfg(test)]
mod tests;
