//! Latency samples: the time of a single access.

use super::single::{self, Blocks, Single};
use super::timer::{OverheadSpread, TimeSource, Timer, system_ns};
use super::{Access, AccessError, FenceMode, LineState, SharedBytes};

/// Times single accesses, in ticks of the processor's counter ([`Timer`] converts them to
/// nanoseconds).
///
/// With [`FenceMode::Full`] a sample consists of these steps: bring the lines into the requested
/// state; wait for all earlier instructions; read the clock; make the access and its cache
/// operation; wait until they are complete; read the clock. Complete means for loads and atomics
/// that their values have arrived, and for stores and flushes that they are globally visible:
/// x86-64 waits with `lfence` and `mfence`, aarch64 with `dsb`. With [`FenceMode::None`] only the
/// clock readings wait: x86-64 uses `rdtscp`, which waits until all earlier instructions have
/// executed (stores are then still in the store buffer), aarch64 waits until the loaded value has
/// been used. The access may begin a few cycles before the first reading.
///
/// A sample also contains the clock readings, the fences and the branch on the cache operation.
/// [`Self::overhead_ns`] measures these with the same code around no access; subtract its mean. The
/// rest is accurate to a few nanoseconds, and a single sample not to less than the counter's step
/// ([`Timer::resolution_ns`]). Fences and accesses overlap in part: a fence that waits for a load
/// costs less than one that waits for nothing, so differences for L1 hits can even be negative.
/// Memory latencies are 20 to 1000 times that error. Where less error is needed, use pointer chases
/// ([`crate::ChaseRing`]): thousands of loads between two readings.
///
/// Preloaded and flushed lines also have their translation in the TLB; other lines may not.
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    single: Single,
    line: LineState,
    fence: FenceMode,
    clock: TimeSource,
}

impl Sampler {
    /// A sampler of `access`; order and stride do not matter here.
    ///
    /// # Errors
    /// Same as [`super::Kernel::new`], and [`AccessError::Invalid`] for mixes, which are not a
    /// single access.
    pub fn new(access: Access, line: LineState, fence: FenceMode) -> Result<Self, AccessError> {
        Ok(Self {
            single: Single::new(access)?,
            line,
            fence,
            clock: TimeSource::detect(),
        })
    }

    /// The access that is sampled.
    pub fn access(&self) -> &Access {
        self.single.access()
    }

    /// Makes the access at `offset` untimed, without fences or changes of line state.
    ///
    /// Returns the [`super::Touched::checksum`] of one access.
    ///
    /// Offsets count from the first whole line of the memory. Offsets past the last place go to
    /// that place; non-temporal accesses and atomics go to the aligned place before. Memory smaller
    /// than an access is not touched.
    pub fn touch(&self, memory: SharedBytes<'_>, offset: usize) -> u64 {
        match self.single.place(single::whole_lines(memory), offset) {
            // SAFETY: `place` is inside the memory, and `Single` chose blocks whose instructions
            // this processor has.
            Some(place) => unsafe { (self.single.blocks.sum)(place.at, &place) },
            None => 0,
        }
    }

    /// Makes the same access timed, and returns the ticks with all overhead; 0 for memory smaller
    /// than an access.
    pub fn sample(&self, memory: SharedBytes<'_>, offset: usize) -> u64 {
        let Some(place) = self.single.place(single::whole_lines(memory), offset) else {
            return 0;
        };
        let copies = self.single.copies();
        match self.line {
            LineState::AsIs => {}
            LineState::Preloaded => place.for_each_line(copies, |at| {
                // SAFETY: all lines of the place are inside the memory.
                unsafe { single::preload(at) }
            }),
            LineState::Flushed => {
                place.for_each_line(copies, |at| {
                    // SAFETY: as above.
                    unsafe { single::flush(at) }
                });
                // Needed even if the access itself has no fences: it must not start before the
                // flushes are done.
                single::full_fence();
            }
        }
        let Blocks {
            sum, fenced, free, ..
        } = self.single.blocks;
        if self.clock == TimeSource::System {
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

    /// Ticks of an empty sample of the same kind: the overhead of [`Self::sample`].
    pub fn nop_sample(&self) -> u64 {
        if self.clock == TimeSource::System {
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

    /// Spread of some thousand empty samples; subtract the mean from samples.
    pub fn overhead_ns(&self, timer: &Timer) -> OverheadSpread {
        timer.overhead_of(|| self.nop_sample())
    }
}

/// Times an access with the operating system's clock, where the processor has no usable counter.
/// The timed blocks read the counter themselves, so the untimed block is used.
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

impl Timer {
    /// Overhead of a sample of a load with these fences; subtract the mean from samples.
    ///
    /// For other accesses use [`super::Sampler::overhead_ns`], which uses their fences.
    pub fn overhead_ns(&self, fence: FenceMode) -> OverheadSpread {
        self.overhead_of(|| empty_load_sample(fence))
    }
}

/// Ticks of an empty sample of the kind that loads have.
fn empty_load_sample(fence: FenceMode) -> u64 {
    match fence {
        _ if TimeSource::detect() == TimeSource::System => timed_by_system(fence, || 0),
        FenceMode::Full => single::empty_after_loads(),
        FenceMode::None => single::empty_free(),
    }
}

#[cfg(test)]
mod tests;
