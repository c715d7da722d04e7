//! Runs prepared tasks together: threads, common start, repetitions, end.
//!
//! ```text
//!   all workers:   bind to CPUs, set up ──┬── ready ──┬── start
//!   coordinator:                          └── waits ──┴── start time, then per repetition:
//!   main workers:  [ barrier | work | barrier ] x (warm-up + repetitions), until Order::Finish
//!   background:    work all the time; counts at both ends of a repetition give their share
//! ```
//!
//! A worker that fails still passes all barriers, or the others would wait for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tierloom_kernels::ChaseRing;
use tierloom_kernels::access::{ChainState, FenceMode, Places, SharedBytes, Timer};
use tierloom_operators::PhaseInfo;
use tierloom_record::RepetitionSamples;

use super::crew::{Count, Crew, CrewMember};
use super::pace::Pace;
use super::queue::BatchQueue;
use super::samples::Samples;
use super::task::{ReadyTask, Spec, Tools};
use super::worker::{
    Chase, Custom, MappingWork, Published, Single, Stream, ThreadResult, Until, Worker,
};
use super::{BenchError, Control, coordinate, pin};
use crate::plan::{RunPlan, Sharing, TaskRole, Work};

/// Length of the windows in which a host without main tasks counts its background tasks.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
/// Largest batch of background tasks, bytes.
///
/// Counts are published per batch, so small batches make the counts at the ends of a window
/// precise.
const FINE_BATCH_BYTES: u64 = 1 << 20;
/// Largest batch of tasks with a limited rate, bytes; small batches make the load even.
const PACED_BATCH_BYTES: u64 = 16 << 10;
/// Time that background tasks run before the first repetition.
pub(super) const HEAD_START: Duration = Duration::from_millis(50);
/// Interval at which a waiting coordinator checks for the end.
pub(super) const FINISH_POLL: Duration = Duration::from_millis(5);

/// What a task did over all repetitions.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Bandwidth of all threads together, GB/s, per repetition.
    pub(super) gbps: Vec<f64>,
    /// Operations per second of all threads together, per repetition.
    pub(super) operations_per_s: Vec<f64>,
    /// Bandwidth of each thread, GB/s, per repetition.
    pub(super) thread_gbps: Vec<Vec<f64>>,
    /// Number of operations in timed repetitions.
    pub(super) operations: u64,
    /// Number of all operations, including warm-up.
    pub(super) operations_ever: u64,
    /// Samples of all repetitions; `None` if none were taken.
    pub(super) samples: Option<Samples>,
    /// Median of the samples of each repetition, ns.
    pub(super) medians_ns: Vec<f64>,
    /// Timer overhead that was subtracted from each sample, ns.
    pub(super) overhead_ns: f64,
    /// What an operator did; `None` for all other work.
    pub(super) operator: Option<OperatorOutcome>,
    /// The raw values of each repetition.
    pub(super) raw: Vec<RepetitionSamples>,
}

/// What an operator did over all repetitions.
#[derive(Debug)]
pub(super) struct OperatorOutcome {
    pub(super) phases: Vec<PhaseInfo>,
    /// Seconds of each phase, all passes of a repetition together, per repetition.
    pub(super) seconds: Vec<Vec<f64>>,
    /// Tuples of a pass.
    pub(super) tuples: u64,
    /// Passes of a repetition.
    pub(super) passes: u64,
    /// Events of all repetitions.
    pub(super) counts: Vec<Count>,
    /// The first wrong result.
    pub(super) wrong: Option<String>,
    /// Whether the structures hold what a complete pass leaves in them.
    pub(super) complete: bool,
}

/// Result of a thread's last repetition, or the error that stopped it.
pub(super) type Slot = Mutex<Option<Result<ThreadResult, BenchError>>>;

/// What the threads of one task share.
pub(super) struct Team<'a> {
    pub(super) spec: &'a Spec<'a>,
    queues: Vec<BatchQueue>,
    published: Vec<Published>,
    /// What the threads of an operator share.
    pub(super) crew: Option<Crew<'a>>,
    pub(super) slots: Vec<Slot>,
    pub(super) overhead_ns: f64,
}

/// What all threads of the run share.
pub(super) struct Stage<'a> {
    /// All workers and the coordinator: passed once after set-up and once at the start.
    pub(super) ready: Barrier,
    /// Main workers and the coordinator: passed before and after every repetition.
    pub(super) main: Barrier,
    order: Mutex<Order>,
    ended: AtomicBool,
    pub(super) control: &'a dyn Control,
    timer: &'a Timer,
    seed: u64,
}

/// What main workers do next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Work { deadline: Option<Instant> },
    Finish,
}

impl Stage<'_> {
    pub(super) fn halted(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.control.stopped()
    }

    fn order(&self) -> Order {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all work: background tasks stop at their next batch.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn give(&self, order: Order) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
    }
}

impl<'a> Team<'a> {
    fn new(spec: &'a Spec<'a>, crew: Option<Crew<'a>>, timer: &Timer) -> Self {
        let threads = spec.plan.workers.threads as usize;
        let overhead = match &spec.tools {
            Tools::Single(sampler) => sampler.overhead_ns(timer),
            Tools::Custom(chain) => chain.overhead_ns(timer),
            _ => timer.overhead_ns(FenceMode::Full),
        };
        Self {
            spec,
            queues: queues(spec),
            crew,
            published: (0..threads).map(|_| Published::default()).collect(),
            slots: (0..threads).map(|_| Mutex::new(None)).collect(),
            // The mean, because with a coarse counter the median jumps from step to step.
            overhead_ns: overhead.mean,
        }
    }

    pub(super) fn is_main(&self) -> bool {
        self.spec.plan.role == TaskRole::Main
    }

    pub(super) fn totals(&self) -> (u64, u64) {
        self.published
            .iter()
            .map(Published::read)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Sets the queues to the amount of one repetition, or to no limit.
    pub(super) fn restart(&self, endless: bool) {
        let Work::Throughput { access, .. } = &self.spec.plan.work else {
            return;
        };
        let operations = if endless {
            None
        } else {
            self.spec.operations()
        };
        let bytes = operations.map(|n| n.saturating_mul(access.stride_bytes as u64));
        // With partitions, each thread gets an equal part of the amount, rounded up to whole
        // accesses.
        let parts = self.queues.len() as u64;
        for queue in &self.queues {
            let stride = access.stride_bytes as u64;
            queue.restart(bytes.map(|bytes| (bytes / stride).div_ceil(parts) * stride));
        }
    }

    /// Number of operations of worker `index` in one repetition; `None` if it ends by time.
    ///
    /// The remainder goes to the first workers.
    fn quota(&self, index: usize) -> Option<u64> {
        let threads = self.spec.plan.workers.threads as u64;
        self.spec
            .operations()
            .map(|all| all / threads + u64::from((index as u64) < all % threads))
    }
}

fn queues(spec: &Spec<'_>) -> Vec<BatchQueue> {
    let (
        Work::Throughput {
            access,
            batch_bytes,
            sharing,
        },
        Tools::Stream(kernel),
    ) = (&spec.plan.work, &spec.tools)
    else {
        return Vec::new();
    };
    let most = match (spec.plan.rate_gbps, spec.plan.role) {
        (Some(_), _) => PACED_BATCH_BYTES,
        (None, TaskRole::Background) => FINE_BATCH_BYTES,
        (None, TaskRole::Main) => u64::MAX,
    };
    let batch = (*batch_bytes).min(most) as usize;
    let count = match sharing {
        Sharing::Queue => 1,
        Sharing::Partitioned => spec.plan.workers.threads as usize,
    };
    let span = kernel.span_bytes(spec.places_bytes(spec.part_bytes()));
    (0..count)
        .map(|_| BatchQueue::new(span, batch, access.stride_bytes))
        .collect()
}

/// The memory of one worker: a slice of its own, or memory shared with the others.
enum Memory<'a> {
    Own(&'a mut [u8]),
    Shared(Vec<SharedBytes<'a>>),
}

/// Distributes the memory of a task to its workers.
fn deal<'a>(spec: &Spec<'_>, slices: Vec<&'a mut [u8]>) -> Vec<Memory<'a>> {
    let threads = spec.plan.workers.threads as usize;
    // A chase writes its ring into the memory, so each worker needs a slice of its own.
    if matches!(spec.tools, Tools::Chase) {
        let part_bytes = spec.part_bytes();
        return slices
            .into_iter()
            .take(1)
            .flat_map(|slice| slice.chunks_mut(part_bytes))
            .take(threads)
            .map(Memory::Own)
            .collect();
    }
    let shared: Vec<SharedBytes<'a>> = slices.into_iter().map(SharedBytes::new).collect();
    let part_bytes = spec.part_bytes();
    (0..threads)
        .map(|index| match &spec.plan.work {
            Work::Throughput {
                sharing: Sharing::Partitioned,
                ..
            } => Memory::Shared(
                shared
                    .iter()
                    .map(|all| all.part(index * part_bytes, part_bytes))
                    .collect(),
            ),
            _ => Memory::Shared(shared.clone()),
        })
        .collect()
}

/// Creates a worker's state on the worker's own thread, so that its allocations are local.
fn worker<'a>(
    team: &'a Team<'_>,
    index: usize,
    memory: Memory<'a>,
    timer: &'a Timer,
    seed: u64,
) -> Result<Worker<'a>, BenchError> {
    let spec = team.spec;
    let number = index as u64;
    let first = |memories: &[SharedBytes<'a>]| {
        let memory = memories.first().copied();
        memory.ok_or_else(|| BenchError::plan(&spec.place, "no memory region"))
    };
    Ok(match (&spec.tools, &spec.plan.work, memory) {
        (Tools::Stream(kernel), Work::Throughput { access, .. }, Memory::Shared(memories)) => {
            let memory = first(&memories)?;
            let threads = f64::from(spec.plan.workers.threads);
            Worker::Stream(Stream {
                kernel: *kernel,
                memory,
                destination: memories.get(1).copied().filter(|_| spec.copies_across()),
                queue: &team.queues[index % team.queues.len()],
                places: Places::new(access, spec.places_bytes(memory.len()), seed, number),
                pace: spec.plan.rate_gbps.map(|rate| Pace::new(rate / threads)),
            })
        }
        (
            Tools::Single(sampler),
            Work::Latency {
                access,
                sample_every,
                ..
            },
            Memory::Shared(memories),
        ) => {
            let memory = first(&memories)?;
            Worker::Single(Single {
                sampler: *sampler,
                memory,
                places: Places::new(access, memory.len(), seed, number),
                sample_every: *sample_every,
                timer,
                overhead_ns: team.overhead_ns,
                access_bytes: spec.bytes_per_operation(),
            })
        }
        (Tools::Chase, Work::Chase { locality }, Memory::Own(slice)) => Worker::Chase(Chase {
            // Each worker has a different cycle.
            ring: ChaseRing::build_with(slice, *locality, 64, seed ^ number),
            at: 0,
            timer,
            overhead_ns: team.overhead_ns,
        }),
        (Tools::Mapping(request), Work::Mapping { action, .. }, _) => {
            Worker::Mapping(MappingWork {
                request,
                action: *action,
            })
        }
        (Tools::Custom(chain), Work::Custom { sample_every, .. }, Memory::Shared(memories)) => {
            chain
                .check_memories(&memories)
                .map_err(|error| BenchError::access(&spec.place, error))?;
            Worker::Custom(Custom {
                chain,
                memories,
                state: ChainState::new(seed, number),
                sample_every: *sample_every,
                timer,
                overhead_ns: team.overhead_ns,
            })
        }
        // Not reached: tools and memory are chosen by the kind of work, and `all` checks the size.
        _ => {
            return Err(BenchError::plan(
                &spec.place,
                "the region is too small for that many threads; expected at least 4 KiB each",
            ));
        }
    })
}

/// A worker thread from start to end.
fn work(stage: &Stage<'_>, team: &Team<'_>, index: usize, memory: Memory<'_>) {
    let spec = team.spec;
    let bound = pin::bind(&spec.cpus[index]).map_err(|source| BenchError::Thread {
        place: spec.place.clone(),
        action: format!("bind a thread to CPUs {}", spec.cpus[index]),
        source,
    });
    let made = guarded(&spec.place, || {
        bound.and_then(|()| match &team.crew {
            Some(crew) => Ok(Worker::Operator(CrewMember {
                crew,
                index,
                timer: stage.timer,
                overhead_ns: team.overhead_ns,
            })),
            None => worker(team, index, memory, stage.timer, stage.seed),
        })
    });
    let mut worker = match made {
        Ok(worker) => Some(worker),
        Err(error) => {
            put(&team.slots[index], Err(error));
            None
        }
    };
    // The first wait ends set-up; the coordinator then looks for errors and releases the second
    // one.
    stage.ready.wait();
    stage.ready.wait();
    let halted = || stage.halted();
    if !team.is_main() {
        let until = Until {
            deadline: None,
            halted: &halted,
        };
        if let Some(worker) = &mut worker {
            let done = repetition(team, index, worker, &until, None);
            put(&team.slots[index], done);
        }
        return;
    }
    loop {
        stage.main.wait();
        let Order::Work { deadline } = stage.order() else {
            return;
        };
        let until = Until {
            deadline,
            halted: &halted,
        };
        if let Some(worker) = &mut worker {
            let done = repetition(team, index, worker, &until, team.quota(index));
            put(&team.slots[index], done);
        }
        stage.main.wait();
    }
}

fn repetition(
    team: &Team<'_>,
    index: usize,
    worker: &mut Worker<'_>,
    until: &Until<'_>,
    quota: Option<u64>,
) -> Result<ThreadResult, BenchError> {
    let place = &team.spec.place;
    guarded(place, || {
        worker
            .repetition(until, quota, &team.published[index])
            .map_err(|error| BenchError::memory(place, error))
    })
}

/// Runs `job` and turns a panic into an error.
///
/// Other threads wait for this one at a barrier, which it must reach even after a panic.
fn guarded<T>(place: &str, job: impl FnOnce() -> Result<T, BenchError>) -> Result<T, BenchError> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(BenchError::Worker {
            place: place.to_owned(),
            problem: said.unwrap_or_else(|| "panicked".into()),
        })
    })
}

fn put(slot: &Slot, done: Result<ThreadResult, BenchError>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
}

pub(super) fn take(slot: &Slot) -> Option<Result<ThreadResult, BenchError>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Runs all `tasks` until the main tasks are done or, without one here, until stopped.
///
/// `counting` is called with true when the timed part starts, and with false when it ends.
///
/// # Errors
/// [`BenchError`] if a worker fails, or if the run is stopped before its first complete repetition.
pub(super) fn all(
    run: &RunPlan,
    tasks: &mut [ReadyTask<'_>],
    timer: &Timer,
    control: &dyn Control,
    counting: &mut dyn FnMut(bool),
) -> Result<Vec<Outcome>, BenchError> {
    let mut specs = Vec::new();
    let (mut memories, mut crews) = (Vec::new(), Vec::new());
    for task in tasks.iter_mut() {
        let slices: Vec<&mut [u8]> = task
            .regions
            .iter_mut()
            .map(|ready| ready.region.as_mut_slice())
            .collect();
        let threads = task.spec.plan.workers.threads;
        match &task.filled {
            Some(filled) => {
                let job = filled.job(slices, threads as usize);
                crews.push(Some(task.spec.crew(job)));
                memories.push(deal(&task.spec, Vec::new()));
            }
            None => {
                crews.push(None);
                memories.push(deal(&task.spec, slices));
            }
        }
        specs.push(&task.spec);
    }
    let teams: Vec<Team<'_>> = specs
        .iter()
        .zip(crews)
        .map(|(spec, crew)| Team::new(spec, crew, timer))
        .collect();
    let count = |main_only: bool| {
        let threads = |team: &Team<'_>| team.spec.plan.workers.threads as usize;
        teams
            .iter()
            .filter(|team| !main_only || team.is_main())
            .map(threads)
            .sum::<usize>()
    };
    let stage = Stage {
        ready: Barrier::new(count(false) + 1),
        main: Barrier::new(count(true) + 1),
        order: Mutex::new(Order::Finish),
        ended: AtomicBool::new(false),
        control,
        timer,
        seed: run.seed,
    };
    for (team, memory) in teams.iter().zip(&memories) {
        // Only a chase can have too few slices: its parts have at least one page.
        if memory.len() != team.spec.plan.workers.threads as usize {
            return Err(BenchError::plan(
                &team.spec.place,
                "the region is too small for that many threads; expected at least 4 KiB each",
            ));
        }
        team.restart(!team.is_main());
    }
    std::thread::scope(|scope| {
        for (team, memory) in teams.iter().zip(memories) {
            for (index, memory) in memory.into_iter().enumerate() {
                let stage = &stage;
                scope.spawn(move || work(stage, team, index, memory));
            }
        }
        coordinate::coordinate(run, &teams, &stage, counting)
    })
}
