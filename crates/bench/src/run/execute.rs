//! Running ready tasks together: threads, the agreed start, repetitions, the end.
//!
//! ```text
//!   all workers:   bind to CPUs, set up ──┬── ready ──┬── go
//!   coordinator:                          └─ waits ───┴─ agreed start, then per repetition of the main task:
//!   main workers:  [ wait begin | work | wait end ] x (warm-up + repetitions), until told to finish
//!   background:    works all the time; what it did in a repetition's window is read from its published counts
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tierloom_kernels::ChaseRing;
use tierloom_kernels::access::{ChainState, FenceMode, Places, SharedBytes, Timer};

use super::pace::Pace;
use super::queue::BatchQueue;
use super::samples::Samples;
use super::task::{ReadyTask, Spec, Tools};
use super::worker::{Chase, Custom, Done, MappingWork, Published, Single, Stream, Until, Worker};
use super::{BenchError, Control, coordinate, pin};
use crate::plan::{Role, RunPlan, Sharing, Work};

/// Windows in which a host without a main task counts what its background tasks do.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
/// Batches of background and paced tasks are cut to this, so that what they did in a window is known finely.
const FINE_BATCH_BYTES: u64 = 1 << 20;
/// Batches of paced tasks: small, so that the load is even.
const PACED_BATCH_BYTES: u64 = 16 << 10;
/// Background tasks run at least this long before the first repetition.
pub(super) const HEAD_START: Duration = Duration::from_millis(50);
/// How often the end of a wait is looked for.
pub(super) const FINISH_POLL: Duration = Duration::from_millis(5);

/// What a task did over all repetitions.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// GB/s of all workers together, per repetition.
    pub(super) gbps: Vec<f64>,
    /// Operations per second, per repetition.
    pub(super) operations_per_s: Vec<f64>,
    /// GB/s per thread, per repetition.
    pub(super) thread_gbps: Vec<Vec<f64>>,
    /// Operations of timed repetitions.
    pub(super) operations: u64,
    /// Operations ever made, warm-up included.
    pub(super) operations_ever: u64,
    /// All samples, if there are any.
    pub(super) samples: Option<Samples>,
    /// Median of each repetition's samples, ns.
    pub(super) medians_ns: Vec<f64>,
    /// Timer cost that was taken off each sample, ns.
    pub(super) overhead_ns: f64,
}

/// A main worker's slot: its last repetition, or what stopped it.
pub(super) type Slot = Mutex<Option<Result<Done, BenchError>>>;

/// What the workers of one task share.
pub(super) struct Team<'a> {
    pub(super) spec: &'a Spec<'a>,
    queues: Vec<BatchQueue>,
    published: Vec<Published>,
    pub(super) slots: Vec<Slot>,
    pub(super) overhead_ns: f64,
}

/// What all threads of the run share.
pub(super) struct Stage<'a> {
    /// All workers and the coordinator: once when set-up is done, once more to go.
    pub(super) ready: Barrier,
    /// Main workers and the coordinator.
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
    fn new(spec: &'a Spec<'a>, timer: &Timer) -> Self {
        let threads = spec.plan.workers.threads as usize;
        let overhead = match &spec.tools {
            Tools::Single(sampler) => sampler.overhead_ns(timer),
            Tools::Custom(chain) => chain.overhead_ns(timer),
            _ => timer.overhead_ns(FenceMode::Full),
        };
        Self {
            spec,
            queues: queues(spec),
            published: (0..threads).map(|_| Published::default()).collect(),
            slots: (0..threads).map(|_| Mutex::new(None)).collect(),
            // Where the counter moves in coarse steps a median jumps from step to step.
            overhead_ns: overhead.mean,
        }
    }

    pub(super) fn is_main(&self) -> bool {
        self.spec.plan.role == Role::Main
    }

    pub(super) fn totals(&self) -> (u64, u64) {
        self.published
            .iter()
            .map(Published::read)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Sets the queues to the amount of one repetition, or to no end.
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
        let parts = self.queues.len() as u64;
        for queue in &self.queues {
            let stride = access.stride_bytes as u64;
            queue.restart(bytes.map(|bytes| (bytes / stride).div_ceil(parts) * stride));
        }
    }

    /// Operations of worker `index` in one repetition, where workers have a share of their own.
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
        (None, Role::Background) => FINE_BATCH_BYTES,
        (None, Role::Main) => u64::MAX,
    };
    let batch = (*batch_bytes).min(most) as usize;
    let count = match sharing {
        Sharing::Queue => 1,
        Sharing::Partitioned => spec.plan.workers.threads as usize,
    };
    let span = kernel.span_bytes(spec.part_bytes());
    (0..count)
        .map(|_| BatchQueue::new(span, batch, access.stride_bytes))
        .collect()
}

/// What one worker is given: its own slice of memory, or memory shared with the others.
enum Memory<'a> {
    Own(&'a mut [u8]),
    Shared(Vec<SharedBytes<'a>>),
}

/// Deals the memory of a task to its workers.
fn deal<'a>(spec: &Spec<'_>, slices: Vec<&'a mut [u8]>) -> Vec<Memory<'a>> {
    let threads = spec.plan.workers.threads as usize;
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

/// Makes a worker's state; on the worker's own thread, so that what it allocates is near it.
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
        memories
            .first()
            .copied()
            .ok_or_else(|| BenchError::plan(&spec.place, "no memory region"))
    };
    Ok(match (&spec.tools, &spec.plan.work, memory) {
        (Tools::Stream(kernel), Work::Throughput { access, .. }, Memory::Shared(memories)) => {
            let memory = first(&memories)?;
            let threads = f64::from(spec.plan.workers.threads);
            Worker::Stream(Stream {
                kernel: *kernel,
                memory,
                queue: &team.queues[index % team.queues.len()],
                places: Places::new(access, memory.len(), seed, number),
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
        _ => {
            return Err(BenchError::plan(
                &spec.place,
                "the region is too small for that many threads; expected at least 4 KiB each",
            ));
        }
    })
}

/// A worker thread from beginning to end.
fn work(stage: &Stage<'_>, team: &Team<'_>, index: usize, memory: Memory<'_>) {
    let spec = team.spec;
    let bound = pin::bind(&spec.cpus[index]).map_err(|source| BenchError::Thread {
        place: spec.place.clone(),
        action: format!("bind a thread to CPUs {}", spec.cpus[index]),
        source,
    });
    let made = guarded(&spec.place, || {
        bound.and_then(|()| worker(team, index, memory, stage.timer, stage.seed))
    });
    let mut worker = match made {
        Ok(worker) => Some(worker),
        Err(error) => {
            put(&team.slots[index], Err(error));
            None
        }
    };
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
) -> Result<Done, BenchError> {
    let place = &team.spec.place;
    guarded(place, || {
        worker
            .repetition(until, quota, &team.published[index])
            .map_err(|error| BenchError::memory(place, error))
    })
}

/// Others wait for this thread at a barrier: a panic must not keep it from getting there.
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

fn put(slot: &Slot, done: Result<Done, BenchError>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
}

pub(super) fn take(slot: &Slot) -> Option<Result<Done, BenchError>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Runs all `tasks` until the main one is done, or, without one here, until told to stop. `counting` is called with true when the timed
/// part begins and with false when it is over.
///
/// # Errors
/// [`BenchError`] if a worker cannot work, or nothing was complete when it was stopped.
pub(super) fn all(
    run: &RunPlan,
    tasks: &mut [ReadyTask<'_>],
    timer: &Timer,
    control: &dyn Control,
    counting: &mut dyn FnMut(bool),
) -> Result<Vec<Outcome>, BenchError> {
    let mut specs = Vec::new();
    let mut memories = Vec::new();
    for task in tasks.iter_mut() {
        let slices: Vec<&mut [u8]> = task
            .regions
            .iter_mut()
            .map(|ready| ready.region.as_mut_slice())
            .collect();
        memories.push(deal(&task.spec, slices));
        specs.push(&task.spec);
    }
    let teams: Vec<Team<'_>> = specs.iter().map(|spec| Team::new(spec, timer)).collect();
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
