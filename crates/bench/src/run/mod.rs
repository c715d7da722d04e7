//! Runs plans on this machine and turns the results into records.
//!
//! ```text
//!   RunPlan ── check ──> tasks ready: regions, fill, first audit
//!                           │
//!                           ▼
//!           threads: warm-up, repetitions  <── Control: start time, stop, progress
//!                           │                  (this command, or an agent on another host)
//!                           ▼
//!           second audit, data check ──> Part ── parts of all hosts ──> record
//! ```
//!
//! A host runs its own tasks ([`run_part`]); the parts of one run become one record ([`record`]).
//! Connections to agents are not part of this crate.

mod cached;
mod cards;
mod check;
mod coordinate;
mod crew;
mod error;
mod execute;
mod operator;
mod pace;
mod pin;
mod queue;
mod raw;
mod region;
mod samples;
mod stats;
mod task;
mod worker;

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tierloom_counters::{Counters, Selection};
use tierloom_kernels::access::{Access, Kernel, Operation, Places, SharedBytes, Timer};
use tierloom_record::{
    BenchHost, BenchRecord, CounterRecord, Provenance, Remark, SCHEMA, Setting, Spread,
    StabilityRecord, TaskRecord,
};
use tierloom_topology::{Environment, IdSet, SysRoot, Topology, TopologyError};

pub use cards::{audit as audit_record, host_card};
pub use error::BenchError;
pub use region::{HostMemories, Memories};
pub use stats::relative_half_width;

use crate::plan::{RunPlan, TaskPlan, Work};
use execute::Outcome;
use task::{ReadyTask, Tools};

/// The machine that runs tasks, inspected once per process.
#[derive(Debug)]
pub struct Host {
    /// Nodes, tiers, CPUs and limits of the process.
    pub topology: Topology,
    /// Settings of the machine that change figures, such as the CPU frequency governor.
    pub environment: Environment,
    /// The calibrated timer for latency samples.
    pub timer: Timer,
    /// The hardware and kernel counters that this process may open.
    pub counters: Counters,
    /// Source of the regions' memory.
    pub memories: Box<dyn Memories>,
    /// Whether the contents of existing files may be overwritten.
    pub overwrite: bool,
    batch_overhead_ns: OnceLock<f64>,
}

impl Host {
    /// Inspects this machine; takes about 50 ms, most of it to calibrate the timer.
    ///
    /// # Errors
    /// [`TopologyError`] if files under `/sys` or `/proc` are missing or cannot be parsed.
    pub fn look() -> Result<Self, TopologyError> {
        let root = SysRoot::host();
        let topology = Topology::read(&root)?;
        Ok(Self::new(topology, Box::new(HostMemories)))
    }

    /// A machine with the given topology, whose regions come from `memories`.
    pub fn new(topology: Topology, memories: Box<dyn Memories>) -> Self {
        Self {
            environment: Environment::read(&topology.root, &topology),
            counters: Counters::probe(&topology.root),
            timer: Timer::calibrate(),
            topology,
            memories,
            overwrite: false,
            batch_overhead_ns: OnceLock::new(),
        }
    }

    /// Cost of taking and running an empty batch, ns; measured at the first call.
    ///
    /// It is the part of every batch that is due to this program, not to the memory. NaN if it
    /// could not be measured.
    pub fn batch_overhead_ns(&self) -> f64 {
        *self
            .batch_overhead_ns
            .get_or_init(|| empty_batch_ns().unwrap_or(f64::NAN))
    }
}

/// Runs many batches with a kernel that does nothing, through the same loop as real ones.
fn empty_batch_ns() -> Option<f64> {
    const BATCHES: u64 = 20_000;
    let access = Access::sequential(Operation::Nop);
    let mut bytes = vec![0_u8; 4096];
    let memory = SharedBytes::new(&mut bytes);
    let queue = queue::BatchQueue::new(4096, 64, 64);
    queue.restart(Some(BATCHES * 64));
    let mut worker = worker::Worker::Stream(worker::Stream {
        kernel: Kernel::new(access).ok()?,
        memory,
        destination: None,
        queue: &queue,
        places: Places::new(&access, 4096, 0, 0),
        pace: None,
    });
    let until = worker::Until {
        // Only a safeguard: the loop ends by its amount.
        deadline: Some(Instant::now() + std::time::Duration::from_secs(10)),
        halted: &|| false,
    };
    let done = worker
        .repetition(&until, None, &worker::Published::default())
        .ok()?;
    Some(done.seconds() * 1e9 / BATCHES as f64)
}

/// Controls a part of a run: says when to start and when to stop, and receives progress events.
pub trait Control: Sync {
    /// Called once everything is ready; returns the start time by this machine's clock.
    ///
    /// May block, to agree on a time with other hosts. `None` cancels the run.
    fn ready(&self) -> Option<SystemTime> {
        Some(SystemTime::now())
    }

    /// Whether to stop; called for every batch, so it must be cheap.
    fn stopped(&self) -> bool;

    /// Receives a progress event; called on the coordinating thread.
    fn event(&self, _event: Event) {}
}

/// A progress event of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// Regions are being mapped and filled.
    Preparing,
    /// A repetition is complete.
    Repetition {
        /// Number of complete repetitions.
        done: u32,
        /// Largest possible number of repetitions.
        most: u32,
        /// Main figure of this repetition, in GB/s, ns or operations per second, by kind of the
        /// main task.
        figure: Option<f64>,
    },
}

/// What one host contributes to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Description of the host.
    pub host: BenchHost,
    /// Records of its tasks, in plan order.
    pub tasks: Vec<TaskRecord>,
    /// Remarks for the reader of the record; some invalidate it.
    pub remarks: Vec<Remark>,
    /// Precision reached by the main task; `None` without a main task here or without
    /// `until_stable`.
    pub stability: Option<StabilityRecord>,
    /// Start of the part including preparation, RFC 3339.
    pub started_at: String,
    /// Duration including preparation, s.
    pub elapsed_s: f64,
}

/// Checks that this machine can run the tasks of `plan` for `host_name`; touches no memory.
///
/// `None` selects the tasks without a host.
///
/// # Errors
/// [`BenchError`] with file, line and task of the first problem.
pub fn check(plan: &RunPlan, host_name: Option<&str>, host: &Host) -> Result<(), BenchError> {
    own_tasks(plan, host_name).try_for_each(|task| ReadyTask::check(plan, task, host))
}

fn own_tasks<'p>(plan: &'p RunPlan, host_name: Option<&str>) -> impl Iterator<Item = &'p TaskPlan> {
    let name = host_name.map(str::to_owned);
    plan.tasks.iter().filter(move |task| task.host == name)
}

/// Runs the tasks of `plan` for `host_name` on this machine.
///
/// # Errors
/// [`BenchError`] of the check, of preparing memory or of a thread; all regions are unmapped.
pub fn run_part(
    plan: &RunPlan,
    host_name: Option<&str>,
    host: &Host,
    control: &dyn Control,
) -> Result<Part, BenchError> {
    let started_at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let start = Instant::now();
    check(plan, host_name, host)?;
    control.event(Event::Preparing);
    let mut tasks = own_tasks(plan, host_name)
        .map(|task| ReadyTask::make(plan, task, host))
        .collect::<Result<Vec<_>, _>>()?;
    // Counters are inherited by threads that are created later, so they are opened before the
    // threads are.
    let mut running = host.counters.open(Selection::ALL);
    let mut counting = |on: bool| {
        if on {
            running.resume();
        } else {
            running.pause();
        }
    };
    let outcomes = execute::all(plan, &mut tasks, &host.timer, control, &mut counting)?;
    let name = host_name.unwrap_or(tierloom_record::HERE);
    let counters: Vec<CounterRecord> = running
        .stop()
        .into_iter()
        .map(|reading| CounterRecord {
            name: reading.name,
            value: reading.value,
            unit: reading.unit,
            note: reading.note,
        })
        .collect();
    let mut part = Part {
        host: cards::bench_host(name, &host.topology, &host.environment, &host.timer),
        tasks: Vec::new(),
        remarks: Vec::new(),
        stability: None,
        started_at,
        elapsed_s: 0.0,
    };
    for (index, (task, outcome)) in tasks.iter().zip(&outcomes).enumerate() {
        // Counters cover the whole process, so they are reported with its first task.
        let counters = if index == 0 {
            counters.clone()
        } else {
            Vec::new()
        };
        finish(plan, task, outcome, host, name, counters, &mut part);
    }
    part.elapsed_s = start.elapsed().as_secs_f64();
    Ok(part)
}

/// Adds the record of a finished task to `part`.
fn finish(
    plan: &RunPlan,
    task: &ReadyTask<'_>,
    outcome: &Outcome,
    host: &Host,
    host_name: &str,
    counters: Vec<CounterRecord>,
    part: &mut Part,
) {
    let spec = &task.spec;
    let (regions, mut remarks) = task.finish_regions();
    let checked = match &outcome.operator {
        Some(operator) => task.check_operator(operator),
        None => task.check_data(outcome.operations_ever),
    };
    let data_check = checked.map(|checked| match checked {
        Ok(text) => text,
        Err(text) => {
            remarks.push(Remark {
                invalidates: true,
                text: format!("{}: {text}", spec.plan.name),
            });
            text
        }
    });
    if let Some(spread) = Spread::of(outcome.figures().to_vec()) {
        remarks.extend(stats::remarks(&spec.plan.name, &spread));
    }
    if spec.plan.role == crate::plan::TaskRole::Main {
        let made = outcome.figures().len() as u32;
        // An interrupted run keeps the repetitions that it completed.
        if made < plan.repeat {
            remarks.push(Remark {
                invalidates: false,
                text: format!("stopped after {made} of {} repetitions", plan.repeat),
            });
        }
        part.stability = plan
            .until_stable
            .as_ref()
            .map(|until| stats::stability(until, outcome.figures()));
        if let Some(reached) = part.stability.filter(|reached| !reached.stable) {
            remarks.push(Remark {
                invalidates: false,
                text: format!(
                    "not stable: after {} repetitions the median is known to +-{:.1}%, not to +-{:.1}%",
                    reached.repeats,
                    reached.reached_relative_half_width * 100.0,
                    reached.asked_relative_half_width * 100.0
                ),
            });
        }
    }
    remarks.extend(crowded(spec));
    remarks.extend(cached::remark(plan, spec.plan, &host.topology));
    part.remarks.append(&mut remarks);
    // Only zeros means that the task does not have this figure.
    let positive = |values: &[f64]| Spread::of(values.to_vec()).filter(|spread| spread.max > 0.0);
    let bandwidth_gbps = positive(&outcome.gbps);
    let latency = outcome.samples.as_ref().and_then(|samples| {
        samples.record(
            sample_words(&spec.plan.work),
            outcome.overhead_ns,
            outcome.medians_ns.clone(),
        )
    });
    part.tasks.push(TaskRecord {
        name: spec.plan.name.clone(),
        role: match spec.plan.role {
            crate::plan::TaskRole::Main => "main".into(),
            crate::plan::TaskRole::Background => "background".into(),
        },
        host: host_name.to_owned(),
        access: spec.access_words(),
        kind: kind_word(&spec.plan.work).into(),
        regions,
        threads: spec.plan.workers.threads,
        cpus: spec.cpus.iter().map(ToString::to_string).collect(),
        bandwidth_gbps: bandwidth_gbps.clone(),
        operations_per_s: positive(&outcome.operations_per_s),
        bytes_per_operation: spec.bytes_per_operation(),
        operations: outcome.operations,
        // Threads that move no bytes have no bandwidth, which differs from a bandwidth of 0.
        thread_gbps: bandwidth_gbps
            .iter()
            .flat_map(|_| &outcome.thread_gbps)
            .filter_map(|thread| Spread::of(thread.clone()))
            .collect(),
        rate_gbps: spec.plan.rate_gbps,
        latency,
        counters,
        data_check,
        prepare_s: task.prepare_s,
        overhead_per_batch_ns: matches!(spec.tools, Tools::Stream(_))
            .then(|| host.batch_overhead_ns())
            .filter(|ns| ns.is_finite()),
        operator: cards::operator(spec, outcome),
        samples: outcome.raw.clone(),
    });
}

/// A remark if threads share CPUs: the figures then include the scheduler.
fn crowded(spec: &task::Spec<'_>) -> Option<Remark> {
    let cpus: IdSet = spec.cpus.iter().flat_map(IdSet::iter).collect();
    (spec.cpus.len() > cpus.len()).then(|| Remark {
        invalidates: false,
        text: format!(
            "{}: {} threads share {} CPUs",
            spec.plan.name,
            spec.cpus.len(),
            cpus.len()
        ),
    })
}

fn kind_word(work: &Work) -> &'static str {
    match work {
        Work::Throughput { .. } => "throughput",
        Work::Latency { .. } => "latency",
        Work::Chase { .. } => "chase",
        Work::Mapping { .. } => "mapping",
        Work::Custom { .. } => "custom",
        Work::Operator { .. } => "operator",
    }
}

fn sample_words(work: &Work) -> &'static str {
    match work {
        Work::Chase { .. } => "one dependent load, mean of 256 in a row",
        Work::Mapping {
            action: crate::plan::MapAction::Map,
            populate: true,
            ..
        } => "mmap and populate",
        Work::Mapping {
            action: crate::plan::MapAction::Map,
            ..
        } => "mmap",
        Work::Mapping { .. } => "munmap",
        Work::Custom { .. } => "one chain",
        Work::Operator { .. } => "one operation",
        Work::Latency { .. } | Work::Throughput { .. } => "one access",
    }
}

/// Fields that are the same in all records of one invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Identifier, unique to the invocation.
    pub id: String,
    /// Version of the program.
    pub tool_version: String,
    /// Git commit of the build; `None` if unknown.
    pub commit: Option<String>,
    /// Build profile, "release" or "dev".
    pub build: String,
    /// The command line, one element per argument.
    pub command: Vec<String>,
    /// Whether records keep the raw values of each repetition.
    pub samples: bool,
}

/// Combines the parts of a run into one record, the part with the main task first.
///
/// # Errors
/// [`BenchError::Plan`] if the plan cannot be written as JSON.
pub fn record(
    plan: &RunPlan,
    mut parts: Vec<Part>,
    session: &Session,
) -> Result<BenchRecord, BenchError> {
    let has_main = |part: &Part| part.tasks.iter().any(|task| task.role == "main");
    parts.sort_by_key(|part| !has_main(part));
    let plan_json = serde_json::to_value(plan)
        .map_err(|error| BenchError::plan(&plan.workload, format!("plan as JSON: {error}")))?;
    let first = parts.first();
    // Start and duration of the run are those of the host with the main task.
    let started_at = first
        .map(|part| part.started_at.clone())
        .unwrap_or_default();
    let elapsed_s = first.map_or(0.0, |part| part.elapsed_s);
    let stability = first.and_then(|part| part.stability);
    let mut tasks: Vec<TaskRecord> = Vec::new();
    let (mut hosts, mut remarks) = (Vec::new(), Vec::new());
    for part in parts {
        tasks.extend(part.tasks);
        hosts.push(part.host);
        remarks.extend(part.remarks);
    }
    if !session.samples {
        tasks.iter_mut().for_each(|task| task.samples.clear());
    }
    // Parts are in the order of hosts; a record has the order of the plan.
    tasks.sort_by_key(|task| {
        plan.tasks
            .iter()
            .position(|planned| planned.name == task.name)
    });
    Ok(BenchRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Measured,
        run_id: plan.id.clone(),
        session_id: session.id.clone(),
        workload: plan.workload.clone(),
        file: plan.file.clone(),
        line: plan.line,
        varied: plan
            .varied
            .iter()
            .map(|(key, value)| Setting {
                key: key.clone(),
                value: value.clone(),
            })
            .collect(),
        plan: plan_json,
        started_at,
        elapsed_s,
        tool_version: session.tool_version.clone(),
        commit: session.commit.clone(),
        build: session.build.clone(),
        command: session.command.clone(),
        hosts,
        tasks,
        valid: !remarks.iter().any(|remark| remark.invalidates),
        remarks,
        stability,
    })
}
