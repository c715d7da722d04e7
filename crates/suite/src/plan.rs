//! The resolved and checked plan of a run.
//!
//! Separate from the request because the plan holds parsed values (policies, machines, page size)
//! that every later step relies on without checking again. Everything that can be found wrong is
//! found here, before any page is touched.

use crate::adaptive::Adaptive;
use crate::growth::Growth;
use crate::machine;
use crate::model_scale;
use crate::operator_memory::OperatorMemory;
use crate::workload::{SuiteQuery, Workload};
use crate::{PlannedPlacement, Resize, RunError, StreamPlan, SuiteRequest};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use tierloom_memory::{PageSize, PlacementSpec, Target};
use tierloom_model::Machine;
use tierloom_placement::Policy;
use tierloom_record::{HERE, REFERENCE};
use tierloom_text::Bytes;
use tierloom_topology::{TierKind, Topology};

/// Machines to model when this one lacks a tier and none was named: two published machines on which
/// interleaving has opposite effects.
const DEFAULT_MACHINES: [&str; 2] = ["nus24", "epfl25-full-pf-on"];

/// A run that can be carried out.
#[derive(Debug, Clone)]
pub struct SuitePlan {
    /// Data and queries.
    pub workload: Arc<dyn Workload>,
    /// Queries to run, in this order.
    pub queries: Vec<SuiteQuery>,
    /// If set, measure the throughput of concurrent sessions instead of the time of each query.
    pub streams: Option<StreamPlan>,
    /// Changes of the pool's capacity while streams run on it, in the order of their times.
    pub resizes: Vec<Resize>,
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
        if !request.has_pool && placements.iter().any(|p| p.policy == Policy::Pool) {
            return Err(RunError::refused(
                "--placement pool: no pool is open; name one with --pool",
            ));
        }
        let machines = machines(&request.machines, &placements)?;
        let plan = SuitePlan {
            growth: model_scale::of_machines(&*workload, &machines, request.model_sf)?,
            workload,
            queries,
            streams: request.streams,
            resizes: request.resizes.clone(),
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
        if !self.resizes.is_empty() {
            let resizes: Vec<String> = self.resizes.iter().map(Resize::to_string).collect();
            line("pool's file", resizes.join(", "));
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
        Policy::Uniform(PlacementSpec::Default) | Policy::Pool => vec![],
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
