//! Custom chains: accesses whose places depend on values read before.

use super::single::{self, Single};
use super::timer::{OverheadSpread, TimeSource, Timer};
use super::{Access, AccessError, CacheOp, ChainStep, Operation, Order, SharedBytes, Touched};
use crate::Simd;
use crate::rng::{SplitMix64, mix, scale};

/// Regions that steps can refer to.
const MAX_REGIONS: usize = 2;
/// Offsets between steps are multiples of this.
const LINE_BYTES: usize = 64;

/// A chain of dependent accesses, as in a tree descent with updates, log writes, or
/// read-modify-write.
///
/// The steps follow the custom operations of CXL-Bench (Weisgut, Ritter, Benson and Rabl,
/// "CXL-Bench", 2025):
///
/// * A read goes to a random place of its region, aligned to its size. The place is computed from a
///   random number *and the value of the previous read*, so the read cannot start before that one
///   is complete. Values are carried across writes, and the first read of a chain depends on none:
///   chains overlap as much as the processor can look ahead.
/// * A write with an offset goes to the place of the previous step plus that offset. The place is
///   known when that step starts, so the write does not wait for its data. Further writes are
///   relative to this one. At an end of the region the offset wraps around.
/// * A write without an offset chooses its place as a read does, also depending on the value read
///   last.
/// * After a write with a cache operation, and after non-temporal stores, there is a store fence
///   before the next step.
///
/// Unlike in CXL-Bench, the value of a read is the full word at the start of its last instruction's
/// data, not one byte of it, and the place is computed by a multiplication, not by a division,
/// which would cost more than a cache hit.
#[derive(Debug, Clone)]
pub struct Chain {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    single: Single,
    region: usize,
    write: bool,
    size_bytes: usize,
    offset_bytes: Option<i64>,
    store_fence: bool,
}

/// State of a worker: its stream of random numbers.
#[derive(Debug, Clone)]
pub struct ChainState {
    random: SplitMix64,
}

impl ChainState {
    /// State of one worker; workers of one run have the same `seed` and different numbers.
    pub fn new(seed: u64, worker: u64) -> Self {
        Self {
            random: SplitMix64::new(mix(seed ^ mix(worker))),
        }
    }
}

impl Chain {
    /// Checks that the steps are valid and that this processor can make them; `simd` is the vector
    /// width of all steps.
    ///
    /// # Errors
    /// [`AccessError::Invalid`] with the number of the step (from 1): sizes that are not a power of
    /// two from 8 B to 64 KiB; regions other than 0 and 1; cache operations, non-temporal stores or
    /// offsets on reads; offsets that are not multiples of 64 or have no previous step in the same
    /// region. [`AccessError::Unsupported`] for instructions that are missing.
    pub fn new(steps: &[ChainStep], simd: Simd) -> Result<Self, AccessError> {
        if steps.is_empty() {
            return Err(invalid(
                "no steps; expected at least one, such as m0_r_64".to_owned(),
            ));
        }
        let mut chosen = Vec::with_capacity(steps.len());
        let mut region_before = None;
        for (number, step) in (1..).zip(steps) {
            check(number, step, region_before)?;
            chosen.push(Step::new(number, step, simd)?);
            region_before = Some(step.region);
        }
        Ok(Self { steps: chosen })
    }

    /// Number of regions that [`Self::run`] needs: one more than the highest in any step.
    pub fn regions(&self) -> usize {
        self.steps
            .iter()
            .map(|step| step.region + 1)
            .max()
            .unwrap_or(0)
    }

    /// Checks that all steps fit into these memories.
    ///
    /// # Errors
    /// [`AccessError::Invalid`] with the number of the step that does not fit.
    pub fn check_memories(&self, memories: &[SharedBytes<'_>]) -> Result<(), AccessError> {
        for (number, step) in (1..).zip(&self.steps) {
            let len = memories
                .get(step.region)
                .map_or(0, |memory| single::whole_lines(*memory).len());
            if len < step.size_bytes {
                return Err(invalid(format!(
                    "step {number} accesses {} bytes of m{}, which has {len}; make that region larger",
                    step.size_bytes, step.region
                )));
            }
        }
        Ok(())
    }

    /// Runs `count` chains in `memories` (indexed by region).
    ///
    /// If a step does not fit into its memory, nothing is accessed and nothing is counted.
    pub fn run(&self, memories: &[SharedBytes<'_>], count: u64, state: &mut ChainState) -> Touched {
        let Some(memories) = self.whole_memories(memories) else {
            return Touched::default();
        };
        let mut checksum = 0_u64;
        for _ in 0..count {
            checksum = checksum.wrapping_add(once(&self.steps, &memories, state));
        }
        Touched {
            checksum,
            ..self.touched(count)
        }
    }

    /// Runs one chain and returns its time in ticks, including fences and clock readings; 0 where
    /// [`Self::run`] would do nothing.
    ///
    /// All earlier accesses are complete when the time starts, and all accesses of the chain when
    /// it ends.
    pub fn sample(&self, memories: &[SharedBytes<'_>], state: &mut ChainState) -> u64 {
        match self.whole_memories(memories) {
            Some(memories) => timed(&self.steps, &memories, state),
            None => 0,
        }
    }

    /// Time of a sample of an empty chain; subtract its mean from samples.
    pub fn overhead_ns(&self, timer: &Timer) -> OverheadSpread {
        let nothing = [SharedBytes::new(&mut []); MAX_REGIONS];
        timer.overhead_of(|| timed(&[], &nothing, &mut ChainState::new(0, 0)))
    }

    /// Counts of `count` chains, without a checksum; a chain is one operation.
    pub fn touched(&self, count: u64) -> Touched {
        let bytes = |write: bool| -> u64 {
            let steps = self.steps.iter().filter(|step| step.write == write);
            steps.map(|step| step.size_bytes as u64).sum()
        };
        Touched {
            operations: count,
            read_bytes: count * bytes(false),
            written_bytes: count * bytes(true),
            checksum: 0,
        }
    }

    fn whole_memories<'a>(
        &self,
        memories: &[SharedBytes<'a>],
    ) -> Option<[SharedBytes<'a>; MAX_REGIONS]> {
        self.check_memories(memories).ok()?;
        let region = |index: usize| {
            memories
                .get(index)
                .copied()
                .unwrap_or(SharedBytes::new(&mut []))
        };
        Some([0, 1].map(|index| single::whole_lines(region(index))))
    }
}

impl Step {
    fn new(number: usize, step: &ChainStep, simd: Simd) -> Result<Self, AccessError> {
        let operation = match (step.write, step.stream) {
            (false, _) => Operation::Read,
            (true, false) => Operation::Write,
            (true, true) => Operation::StreamWrite,
        };
        let single = Single::new(Access {
            operation,
            order: Order::Ascending,
            access_bytes: step.size_bytes,
            stride_bytes: step.size_bytes,
            cache_op: step.cache_op,
            prefetch_bytes: 0,
            simd,
        })
        .map_err(|error| match error {
            AccessError::Invalid { problem, .. } => invalid(format!("step {number}: {problem}")),
            unsupported => unsupported,
        })?;
        Ok(Self {
            single,
            region: usize::from(step.region),
            write: step.write,
            size_bytes: step.size_bytes,
            offset_bytes: step.offset_bytes,
            store_fence: step.stream || step.cache_op != CacheOp::None,
        })
    }

    /// Offset of the step in `memory` (which it fits into): relative to `before`, or random.
    #[inline(always)]
    fn offset(
        &self,
        memory: SharedBytes<'_>,
        before: usize,
        value: u64,
        random: &mut SplitMix64,
    ) -> usize {
        let Some(distance) = self.offset_bytes else {
            let places = memory.len() / self.size_bytes;
            // The sum of a uniform number and any independent one is uniform, so the dependency on
            // `value` does not skew the places.
            return scale(random.next().wrapping_add(value), places as u64) as usize
                * self.size_bytes;
        };
        let wanted = before as i64 + distance;
        // The last line at which the access fits; offsets wrap around behind it.
        let last = ((memory.len() - self.size_bytes) / LINE_BYTES * LINE_BYTES) as i64;
        if (0..=last).contains(&wanted) {
            wanted as usize
        } else {
            wanted.rem_euclid(last + LINE_BYTES as i64) as usize
        }
    }
}

fn invalid(problem: String) -> AccessError {
    AccessError::Invalid {
        field: "custom_operations",
        problem,
    }
}

fn check(number: usize, step: &ChainStep, region_before: Option<u8>) -> Result<(), AccessError> {
    let wrong = |problem: &str| Err(invalid(format!("step {number}: {problem}")));
    if usize::from(step.region) >= MAX_REGIONS {
        return wrong("there are the regions m0 and m1 only");
    }
    if step.size_bytes < 8 {
        return wrong("expected a size of 8 bytes or more, which is a value that others depend on");
    }
    if !step.write && (step.cache_op != CacheOp::None || step.stream || step.offset_bytes.is_some())
    {
        return wrong("only writes have cache operations, non-temporal stores and offsets");
    }
    if let Some(offset) = step.offset_bytes {
        if offset % LINE_BYTES as i64 != 0 {
            return wrong("expected an offset that is a multiple of 64");
        }
        if region_before != Some(step.region) {
            return wrong(
                "an offset counts from the step before, which must be in the same region",
            );
        }
    }
    Ok(())
}

/// Runs one chain; returns the value read last.
#[inline(always)]
fn once(steps: &[Step], memories: &[SharedBytes<'_>; MAX_REGIONS], state: &mut ChainState) -> u64 {
    let mut value = 0;
    let mut offset = 0;
    for step in steps {
        // Regions are below MAX_REGIONS (`check`), so the modulo changes nothing; it removes the
        // bounds check.
        let memory = memories[step.region % MAX_REGIONS];
        offset = step.offset(memory, offset, value, &mut state.random);
        let Some(place) = step.single.place(memory, offset) else {
            continue;
        };
        // SAFETY: `place` is inside the memory, and `Single` chose blocks whose instructions this
        // processor has.
        let word = unsafe { (step.single.blocks.word)(place.at, &place) };
        if !step.write {
            value = word;
        }
        if step.store_fence {
            single::store_fence();
        }
    }
    value
}

fn timed(steps: &[Step], memories: &[SharedBytes<'_>; MAX_REGIONS], state: &mut ChainState) -> u64 {
    let clock = TimeSource::detect();
    single::full_fence();
    let start = clock.now();
    std::hint::black_box(once(steps, memories, state));
    single::full_fence();
    clock.now() - start
}

#[cfg(test)]
mod tests;
