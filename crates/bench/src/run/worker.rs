//! The loop of one thread in one repetition, for each kind of work.
//!
//! Loops check the clock and the stop flag once per batch or every few hundred accesses, so that
//! neither is visible in the figures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tierloom_kernels::ChaseRing;
use tierloom_kernels::access::{
    Chain, ChainState, Kernel, Places, Sampler, SharedBytes, Timer, Touched,
};
use tierloom_memory::MemoryError;
use tierloom_memory::mapping::{MapRequest, timed_unmap};

use super::crew::{Count, CrewMember, Span};
use super::pace::Pace;
use super::queue::BatchQueue;
use super::samples::Samples;
use crate::plan::MapAction;

/// Dependent loads per sample of a chase.
///
/// With this many, the cost of the timer is far below one per cent of a sample.
pub(super) const CHASE_STEPS: u64 = 256;
/// Number of single accesses between two checks of the clock.
const CLOCK_EVERY: u64 = 256;

/// When a repetition ends.
pub(super) struct Until<'a> {
    /// Time at which it ends; `None` if it ends by amount.
    pub(super) deadline: Option<Instant>,
    /// Whether to end now, because of the user or because the main task is done.
    pub(super) halted: &'a (dyn Fn() -> bool + Sync),
}

impl Until<'_> {
    pub(super) fn over(&self) -> bool {
        (self.halted)() || self.deadline.is_some_and(|at| Instant::now() >= at)
    }
}

/// Progress of one thread, read by others while it works.
///
/// Aligned so that no two threads write to the same cache line or pair of lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Published {
    bytes: AtomicU64,
    operations: AtomicU64,
}

impl Published {
    pub(super) fn add(&self, bytes: u64, operations: u64) {
        // There is one writer, so plain loads and stores are enough.
        self.bytes.store(
            self.bytes.load(Ordering::Relaxed) + bytes,
            Ordering::Relaxed,
        );
        self.operations.store(
            self.operations.load(Ordering::Relaxed) + operations,
            Ordering::Relaxed,
        );
    }

    /// Bytes and operations so far.
    pub(super) fn read(&self) -> (u64, u64) {
        (
            self.bytes.load(Ordering::Relaxed),
            self.operations.load(Ordering::Relaxed),
        )
    }
}

/// What one thread did in one repetition.
#[derive(Debug, Clone)]
pub(super) struct ThreadResult {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    pub(super) samples: Option<Samples>,
    /// The phases of an operator, pass after pass; empty for all other work.
    pub(super) phases: Vec<Span>,
    /// Events of an operator, of all threads; only the first one has them.
    pub(super) counts: Vec<Count>,
}

impl ThreadResult {
    /// Duration of the work, s; never 0.
    pub(super) fn seconds(&self) -> f64 {
        self.ended
            .duration_since(self.begun)
            .max(Duration::from_nanos(1))
            .as_secs_f64()
    }
}

/// The state of one thread, kept over all repetitions.
pub(super) enum Worker<'a> {
    Stream(Stream<'a>),
    Single(Single<'a>),
    Chase(Chase<'a>),
    Mapping(MappingWork<'a>),
    Custom(Custom<'a>),
    Operator(CrewMember<'a>),
}

impl Worker<'_> {
    /// Runs one repetition.
    ///
    /// `quota` is the number of operations of this thread; `None` for no limit. Streams ignore it:
    /// their limit is in the queue. Operators make whole passes.
    pub(super) fn repetition(
        &mut self,
        until: &Until<'_>,
        quota: Option<u64>,
        published: &Published,
    ) -> Result<ThreadResult, MemoryError> {
        let limited = quota.is_some();
        let quota = quota.unwrap_or(u64::MAX);
        let begun = Instant::now();
        let (mut phases, mut counts) = (Vec::new(), Vec::new());
        let (touched, samples) = match self {
            Worker::Stream(stream) => (stream.run(until, published), None),
            Worker::Single(single) => {
                let (touched, samples) = single.run(until, quota, published);
                (touched, Some(samples))
            }
            Worker::Chase(chase) => {
                let (touched, samples) = chase.run(until, quota, published);
                (touched, Some(samples))
            }
            Worker::Mapping(mapping) => {
                let (touched, samples) = mapping.run(until, quota, published)?;
                (touched, Some(samples))
            }
            Worker::Custom(custom) => custom.run(until, quota, published),
            Worker::Operator(member) => {
                let work = member.run(until, limited, published);
                (phases, counts) = (work.spans, work.counts);
                let touched = Touched {
                    operations: work.tuples,
                    ..Touched::default()
                };
                (touched, work.samples)
            }
        };
        Ok(ThreadResult {
            operations: touched.operations,
            bytes: touched.read_bytes + touched.written_bytes,
            begun,
            ended: Instant::now(),
            samples,
            phases,
            counts,
        })
    }
}

/// Throughput: whole batches at full speed or at a limited rate.
pub(super) struct Stream<'a> {
    pub(super) kernel: Kernel,
    pub(super) memory: SharedBytes<'a>,
    /// Where copies go to; `None` if to the second half of `memory`.
    pub(super) destination: Option<SharedBytes<'a>>,
    pub(super) queue: &'a BatchQueue,
    pub(super) places: Places,
    pub(super) pace: Option<Pace>,
}

impl Stream<'_> {
    fn run(&mut self, until: &Until<'_>, published: &Published) -> Touched {
        let mut all = Touched::default();
        while !until.over() {
            let Some(batch) = self.queue.next() else {
                break;
            };
            let (kernel, places) = (&self.kernel, &mut self.places);
            let touched = match self.destination {
                Some(destination) => kernel.run_across(self.memory, destination, batch, places),
                None => kernel.run(self.memory, batch, places),
            };
            let bytes = touched.read_bytes + touched.written_bytes;
            published.add(bytes, touched.operations);
            all += touched;
            if let Some(pace) = &mut self.pace {
                pace.wait(bytes, || until.over());
            }
        }
        all
    }
}

/// Latency: single accesses, some of them timed.
pub(super) struct Single<'a> {
    pub(super) sampler: Sampler,
    pub(super) memory: SharedBytes<'a>,
    pub(super) places: Places,
    pub(super) sample_every: u64,
    pub(super) timer: &'a Timer,
    pub(super) overhead_ns: f64,
    pub(super) access_bytes: u64,
}

impl Single<'_> {
    fn run(&mut self, until: &Until<'_>, quota: u64, published: &Published) -> (Touched, Samples) {
        // A new histogram per repetition: the spread over repetitions is part of the record.
        let mut samples = Samples::new();
        let mut touched = Touched::default();
        while touched.operations < quota && !until.over() {
            let turn = CLOCK_EVERY.min(quota - touched.operations);
            for step in 0..turn {
                let offset = self.places.next_offset();
                if (touched.operations + step).is_multiple_of(self.sample_every) {
                    let ticks = self.sampler.sample(self.memory, offset);
                    samples.add(self.timer.ticks_to_ns(ticks) - self.overhead_ns);
                } else {
                    touched.checksum = touched
                        .checksum
                        .wrapping_add(self.sampler.touch(self.memory, offset));
                }
            }
            touched.operations += turn;
            touched.read_bytes += turn * self.access_bytes;
            published.add(turn * self.access_bytes, turn);
        }
        (touched, samples)
    }
}

/// Chase: dependent loads through a ring.
pub(super) struct Chase<'a> {
    pub(super) ring: ChaseRing<'a>,
    pub(super) at: usize,
    pub(super) timer: &'a Timer,
    pub(super) overhead_ns: f64,
}

impl Chase<'_> {
    fn run(&mut self, until: &Until<'_>, quota: u64, published: &Published) -> (Touched, Samples) {
        let mut samples = Samples::new();
        let mut touched = Touched::default();
        while touched.operations < quota && !until.over() {
            let steps = CHASE_STEPS.min(quota - touched.operations);
            let start = self.timer.now();
            self.at = self.ring.walk(self.at, steps);
            let ticks = self.timer.now() - start;
            samples.add((self.timer.ticks_to_ns(ticks) - self.overhead_ns) / steps as f64);
            touched.operations += steps;
            touched.read_bytes += steps * 64;
            published.add(steps * 64, steps);
        }
        touched.checksum = self.at as u64;
        (touched, samples)
    }
}

/// Mapping: `mmap` and `munmap` of a whole region.
pub(super) struct MappingWork<'a> {
    pub(super) request: &'a MapRequest,
    pub(super) action: MapAction,
}

impl MappingWork<'_> {
    fn run(
        &mut self,
        until: &Until<'_>,
        quota: u64,
        published: &Published,
    ) -> Result<(Touched, Samples), MemoryError> {
        let mut samples = Samples::new();
        let mut touched = Touched::default();
        // At least one operation, even if it takes longer than the repetition: large mappings take
        // seconds.
        while touched.operations < quota && (touched.operations == 0 || !until.over()) {
            let (mapped, map_time) = self.request.timed_map()?;
            let unmap_time = timed_unmap(mapped)?;
            let time = match self.action {
                MapAction::Map => map_time,
                MapAction::Unmap => unmap_time,
            };
            samples.add(time.as_nanos() as f64);
            touched.operations += 1;
            published.add(0, 1);
        }
        Ok((touched, samples))
    }
}

/// Custom: chains of dependent accesses.
pub(super) struct Custom<'a> {
    pub(super) chain: &'a Chain,
    pub(super) memories: Vec<SharedBytes<'a>>,
    pub(super) state: ChainState,
    pub(super) sample_every: u64,
    pub(super) timer: &'a Timer,
    pub(super) overhead_ns: f64,
}

impl Custom<'_> {
    fn run(
        &mut self,
        until: &Until<'_>,
        quota: u64,
        published: &Published,
    ) -> (Touched, Option<Samples>) {
        let mut samples = (self.sample_every > 0).then(Samples::new);
        let mut all = Touched::default();
        while all.operations < quota && !until.over() {
            let before = all.operations;
            let mut turn = CLOCK_EVERY.min(quota - before);
            // The first chain of each turn is the timed one, so turns must not exceed the sampling
            // interval.
            if let Some(samples) = &mut samples {
                turn = turn.min(self.sample_every);
                let ticks = self.chain.sample(&self.memories, &mut self.state);
                samples.add(self.timer.ticks_to_ns(ticks) - self.overhead_ns);
                all += self.chain.touched(1);
                turn -= 1;
            }
            let touched = self.chain.run(&self.memories, turn, &mut self.state);
            all += touched;
            published.add(
                touched.read_bytes + touched.written_bytes,
                all.operations - before,
            );
        }
        (all, samples)
    }
}
