//! The resolved and checked plan of a run.
//!
//! Separate from the request because the plan holds parsed values (policies, machines, page size)
//! that every later step relies on without checking again. Everything that can be found wrong is
//! found here, before any page is touched.

use crate::RunError;
use crate::adaptive::Adaptive;
use crate::growth::{self, Growth};
use crate::machine;
use crate::operator_memory::OperatorMemory;
use crate::workload::{SuiteQuery, Workload};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tierloom_memory::{PageSize, PlacementSpec, Target};
use tierloom_model::Machine;
use tierloom_placement::Policy;
use tierloom_record::{HERE, REFERENCE};
use tierloom_text::Bytes;
use tierloom_topology::{TierKind, Topology};

/// Machines to model when this one lacks a tier and none was named: two published machines on which
/// interleaving has opposite effects.
const DEFAULT_MACHINES: [&str; 2] = ["nus24", "epfl25-full-pf-on"];

/// Limit on streams: each has its plans and at least one thread, so a higher number is a typing
/// error.
const MOST_STREAMS: usize = 1000;

/// What to run, as the options of `tierloom run` say it.
#[derive(Debug, Clone)]
pub struct SuiteRequest {
    /// Names of queries; all of the workload's if there are none.
    pub queries: Vec<String>,
    /// Measure the throughput of concurrent sessions instead of the time of each query.
    pub streams: Option<StreamPlan>,
    /// Worker threads; by default one per CPU that this process may use.
    pub threads: Option<usize>,
    /// Placements of table data, separated by commas.
    pub placement: String,
    /// Machine profiles to model: built-in names or YAML files.
    pub machines: Vec<String>,
    /// Timed executions per query and placement.
    pub repeat: u32,
    /// Page size of table data.
    pub pages: String,
    /// Worker threads assumed on modelled machines; by default one per core.
    pub model_workers: Option<u32>,
    /// Scale factor that figures are modelled for; by default one that fits each machine.
    pub model_sf: Option<f64>,
    /// CPU time per fact row that the model assumes instead of the measured one, ns.
    pub time_per_tuple_ns: Option<f64>,
    /// Also run plain DataFusion on the same data.
    pub baseline: bool,
    /// Use DataFusion's own operators only.
    pub plain_operators: bool,
    /// File for the decisions of adaptive placement.
    pub decisions: Option<PathBuf>,
    /// Limit on the bytes of columns that adaptive placement keeps in dram, as a size.
    pub dram_limit: Option<String>,
    /// Profile of this machine with its prefetchers off: adaptive placement may switch them.
    pub prefetch_off: Option<String>,
    /// Where operator memory is placed, by class.
    pub operator_memory: Option<String>,
    /// File for the audit of operator memory.
    pub memory_audit: Option<PathBuf>,
    /// The topology is of another machine, so the plan is not to be carried out.
    pub elsewhere: bool,
}

/// One placement of the run.
#[derive(Debug, Clone)]
pub struct PlannedPlacement {
    /// As given on the command line.
    pub text: String,
    /// As parsed.
    pub policy: Policy,
    /// Why it cannot be measured here; `None` if it can.
    pub why_not_here: Option<String>,
}

/// Settings of a throughput run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPlan {
    /// Number of concurrent sessions.
    pub count: usize,
    /// How long sessions start new queries.
    pub duration: Duration,
}

impl StreamPlan {
    /// Checks the number of streams and their duration.
    ///
    /// # Errors
    /// Bad input: no stream or too many, or no time.
    pub fn new(count: usize, duration: Duration) -> Result<Self, RunError> {
        if count == 0 || count > MOST_STREAMS {
            return Err(RunError::refused(format!(
                "--streams {count}: expected 1 to {MOST_STREAMS}"
            )));
        }
        if duration.is_zero() {
            return Err(RunError::refused("--duration 0s: nothing could run"));
        }
        Ok(StreamPlan { count, duration })
    }
}

/// A run that can be carried out.
#[derive(Debug, Clone)]
pub struct SuitePlan {
    /// Data and queries.
    pub workload: Arc<dyn Workload>,
    /// Queries to run, in this order.
    pub queries: Vec<SuiteQuery>,
    /// If set, measure the throughput of concurrent sessions instead of the time of each query.
    pub streams: Option<StreamPlan>,
    /// Placements of table data, the reference among them.
    pub placements: Vec<PlannedPlacement>,
    /// Machines to model.
    pub machines: Vec<Machine>,
    /// By machine: how captured work grows to the scale factor that it is modelled for. Machines
    /// without one are modelled for that of the run.
    pub growth: BTreeMap<String, Growth>,
    /// Worker threads.
    pub threads: usize,
    /// Timed executions per query and placement.
    pub repeat: u32,
    /// Page size of table data.
    pub page_size: PageSize,
    /// Worker threads assumed on modelled machines; `None` for all their cores.
    pub model_workers: Option<u32>,
    /// CPU time per fact row that the model assumes instead of the measured one, ns.
    pub time_per_tuple_ns: Option<f64>,
    /// Also run plain DataFusion on the same data.
    pub baseline: bool,
    /// Use DataFusion's own operators only.
    pub plain_operators: bool,
    /// Where operators' memory is placed.
    pub operator_memory: OperatorMemory,
    /// Settings of the adaptive placement, if the run has one.
    pub adaptive: Option<Adaptive>,
    /// The machine.
    pub topology: Topology,
    /// The topology is of another machine, so the plan is not to be carried out.
    pub elsewhere: bool,
}

impl SuitePlan {
    /// Resolves a request on a machine and checks it.
    ///
    /// # Errors
    /// Bad input; the message names what was requested, what exists and what to do.
    pub fn resolve(
        workload: Arc<dyn Workload>,
        request: &SuiteRequest,
        topology: Topology,
    ) -> Result<SuitePlan, RunError> {
        let queries = workload.queries(&request.queries)?;
        // Placements are resolved on the topology; machines are resolved after them, because the
        // default list depends on which placements this machine lacks a tier for.
        let placements = placements(&request.placement, &topology)?;
        let machines = machines(&request.machines, &placements)?;
        let plan = SuitePlan {
            growth: growth::of_machines(&*workload, &machines, request.model_sf)?,
            workload,
            queries,
            streams: request.streams,
            adaptive: Adaptive::resolve(request, &placements, &topology)?,
            placements,
            machines,
            threads: threads(request.threads, &topology)?,
            repeat: request.repeat,
            page_size: request.pages.parse().map_err(RunError::refused)?,
            model_workers: request.model_workers,
            time_per_tuple_ns: request.time_per_tuple_ns,
            baseline: request.baseline,
            plain_operators: request.plain_operators,
            operator_memory: OperatorMemory::resolve(request, &topology)?,
            topology,
            elsewhere: request.elsewhere,
        };
        plan.check()?;
        Ok(plan)
    }

    /// Placements that can be measured on this machine.
    pub fn measured(&self) -> impl Iterator<Item = &PlannedPlacement> {
        self.placements.iter().filter(|p| p.why_not_here.is_none())
    }

    /// Estimated bytes of the columns.
    pub fn estimated_bytes(&self) -> u64 {
        self.workload.estimated_bytes()
    }

    /// The plan as text, for `--dry-run`.
    pub fn describe(&self) -> String {
        let place = if self.elsewhere { "there" } else { "here" };
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<18} {value}");
        };
        line("workload", self.workload.title());
        line(
            "data",
            format!(
                "about {} of columns, {} pages",
                Bytes(self.estimated_bytes()).rounded(),
                self.page_size
            ),
        );
        line(
            "queries",
            self.queries
                .iter()
                .map(|q| q.id)
                .collect::<Vec<_>>()
                .join(" "),
        );
        line("threads", self.threads.to_string());
        match &self.streams {
            Some(streams) => line(
                "streams",
                format!(
                    "{} at once, for {} per placement, after each query once",
                    streams.count,
                    humantime::format_duration(streams.duration)
                ),
            ),
            None => line(
                "timed executions",
                format!("{} per query and placement, after one untimed", self.repeat),
            ),
        }
        for placement in &self.placements {
            let here = placement
                .why_not_here
                .as_ref()
                .map_or(format!("measured {place}"), |why| {
                    format!("not {place}: {why}")
                });
            line(
                "placement",
                format!("{}: {}; {here}", placement.text, placement.policy.meaning()),
            );
        }
        for machine in &self.machines {
            let growth = self.growth.get(&machine.name);
            let size = growth.map_or("scale factor of the run".into(), Growth::describe);
            line(
                "modelled on",
                format!("{}: {}; {size}", machine.name, machine.title),
            );
        }
        if let Some(adaptive) = &self.adaptive {
            line("adaptive", adaptive.describe());
        }
        if let Some(text) = &self.operator_memory.text {
            line("operator memory", text.clone());
        }
        if self.plain_operators {
            line("operators", "DataFusion's own only".into());
        }
        if self.baseline {
            line(
                "baseline",
                "plain DataFusion on a MemTable of the same data, alternating".into(),
            );
        }
        text
    }
}

fn threads(asked: Option<usize>, topology: &Topology) -> Result<usize, RunError> {
    let allowed = topology.limits.cpus_allowed.len().max(1);
    match asked {
        Some(0) => Err(RunError::refused(
            "--threads 0: at least one worker is needed",
        )),
        // The factor leaves room for experiments with oversubscription and stops a mistyped number.
        Some(n) if n > 4 * allowed => Err(RunError::refused(format!(
            "--threads {n}: this process may use {allowed} CPUs; at most {} threads make sense",
            4 * allowed
        ))),
        Some(n) => Ok(n),
        None => Ok(allowed),
    }
}

fn placements(text: &str, topology: &Topology) -> Result<Vec<PlannedPlacement>, RunError> {
    let mut texts = tierloom_text::list(text)
        .map_err(|problem| RunError::refused(format!("--placement: {problem}")))?;
    // Speed-ups are relative to dram, so it is measured even if it was not asked for.
    if !texts.iter().any(|t| t.eq_ignore_ascii_case(REFERENCE)) {
        texts.insert(0, REFERENCE.into());
    }
    let mut found: Vec<PlannedPlacement> = Vec::new();
    for text in texts {
        let placement = planned(text, topology)?;
        // `3:2` and `dram:3,cxl:2` are the same placement and are measured once.
        if !found.iter().any(|f| f.policy == placement.policy) {
            found.push(placement);
        }
    }
    Ok(found)
}

fn planned(text: String, topology: &Topology) -> Result<PlannedPlacement, RunError> {
    let policy: Policy = text
        .parse()
        .map_err(|e| RunError::refused(format!("--placement {text}: {e}")))?;
    let missing = needed_tiers(&policy)
        .into_iter()
        .find(|kind| topology.tier(*kind).is_none());
    // A missing tier is not an error: the placement is then only modelled.
    let why_not_here = missing.map(|kind| format!("this machine has no {kind} tier"));
    if let (Policy::Uniform(spec), None) = (&policy, &why_not_here) {
        spec.resolve(topology)
            .map_err(|e| RunError::refused(format!("--placement {text}: {e}")))?;
    }
    Ok(PlannedPlacement {
        text: text.to_ascii_lowercase(),
        policy,
        why_not_here,
    })
}

fn needed_tiers(policy: &Policy) -> Vec<TierKind> {
    let tier = |target: &Target| match target {
        Target::Tier(kind) => Some(*kind),
        Target::Node(_) => None,
    };
    match policy {
        Policy::Tier | Policy::TopColumns(_) => vec![TierKind::Dram, TierKind::Cxl],
        // Without a CXL tier adaptive placement runs too; everything then stays in dram.
        Policy::Adaptive(_) => vec![TierKind::Dram],
        Policy::Uniform(PlacementSpec::Default) => vec![],
        Policy::Uniform(PlacementSpec::Bind(target)) => tier(target).into_iter().collect(),
        Policy::Uniform(PlacementSpec::Weighted(parts)) => parts
            .iter()
            .filter(|(_, w)| *w > 0)
            .filter_map(|(t, _)| tier(t))
            .collect(),
        Policy::Uniform(PlacementSpec::Partitioned(parts)) => parts
            .iter()
            .filter(|(_, s)| *s > 0.0)
            .filter_map(|(t, _)| tier(t))
            .collect(),
    }
}

fn machines(names: &[String], placements: &[PlannedPlacement]) -> Result<Vec<Machine>, RunError> {
    let all_here = placements.iter().all(|p| p.why_not_here.is_none());
    let names: Vec<&str> = match names {
        [] if all_here => vec![],
        [] => DEFAULT_MACHINES.to_vec(),
        named => named.iter().map(|n| n.trim()).collect(),
    };
    let mut machines: Vec<Machine> = Vec::new();
    for name in names {
        let machine = machine::load(name)?;
        // Records tell measured from modelled results by the machine's name.
        if machine.name == HERE {
            return Err(RunError::refused(format!(
                "{name}: a machine profile cannot be named {HERE:?}: that stands for what was measured on this machine"
            )));
        }
        if machines.iter().any(|m| m.name == machine.name) {
            return Err(RunError::refused(format!(
                "--machine: {} is named twice",
                machine.name
            )));
        }
        machines.push(machine);
    }
    Ok(machines)
}
