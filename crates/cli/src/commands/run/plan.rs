//! The resolved and checked plan of a run.
//!
//! Separate from [`super::args`] because the plan holds parsed values (policies, machines, page
//! size) that every later step relies on without checking again. Everything that can be found wrong
//! is found here, before any page is touched.

use super::adaptive::Adaptive;
use super::args::RunOptions;
use super::operator_memory::OperatorMemory;
use super::workload::{RunQuery, Workload};
use crate::failure::Failure;
use crate::machine;
use std::fmt::Write as _;
use std::path::PathBuf;
use tierloom_memory::{PageSize, PlacementSpec, Target};
use tierloom_model::Machine;
use tierloom_placement::Policy;
use tierloom_record::HERE;
use tierloom_text::Bytes;
use tierloom_topology::{TierKind, Topology};

/// Machines to model when this one lacks a tier and none was named: two published machines on which
/// interleaving has opposite effects.
const DEFAULT_MACHINES: [&str; 2] = ["nus24", "epfl25-full-pf-on"];

/// The placement that all others are compared with.
pub const REFERENCE: &str = "dram";

/// Format of the results on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Tables for reading.
    Tables,
    Json,
    JsonLines,
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
    pub duration: std::time::Duration,
}

#[cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "only the SQL engine carries plans out")
)]
pub struct RunPlan {
    pub workload: Workload,
    pub queries: Vec<RunQuery>,
    /// If set, measure the throughput of concurrent sessions instead of the time of each query.
    pub streams: Option<StreamPlan>,
    pub placements: Vec<PlannedPlacement>,
    pub machines: Vec<Machine>,
    pub threads: usize,
    pub repeat: u32,
    pub page_size: PageSize,
    pub model_workers: Option<u32>,
    pub time_per_tuple_ns: Option<f64>,
    pub baseline: bool,
    /// Use DataFusion's own operators only.
    pub plain_operators: bool,
    pub output: OutputMode,
    pub records: Option<PathBuf>,
    pub report: Option<PathBuf>,
    pub operator_memory: OperatorMemory,
    /// Settings of the adaptive placement, if the run has one.
    pub adaptive: Option<Adaptive>,
    pub topology: Topology,
    /// "here", or "there" if the plan is for a machine read from `--sysroot`.
    pub place: &'static str,
}

impl RunPlan {
    /// Resolves and checks the arguments.
    ///
    /// # Errors
    /// Bad input; the message names what was requested, what exists and what to do.
    pub fn resolve(
        workload: Workload,
        queries: &[String],
        streams: Option<StreamPlan>,
        args: &RunOptions,
    ) -> Result<RunPlan, Failure> {
        let queries = workload.queries(queries)?;
        if args.here.sysroot.is_some() && !args.dry_run {
            return Err(Failure::input(
                "--sysroot describes another machine, and queries can only be measured on this one; add --dry-run to see the plan for it",
            ));
        }
        // Placements are resolved on the topology; machines are resolved after them, because the
        // default list depends on which placements this machine lacks a tier for.
        let topology = args.here.read()?;
        let placements = placements(&args.placement, &topology)?;
        let machines = machines(&args.machine, &placements)?;
        let adaptive = Adaptive::resolve(args, &placements, &topology, streams.is_some())?;
        let plan = RunPlan {
            workload,
            queries,
            streams,
            placements,
            machines,
            threads: threads(args.threads, &topology)?,
            repeat: args.repeat,
            page_size: args.pages.parse().map_err(Failure::input)?,
            model_workers: args.model_workers,
            time_per_tuple_ns: args.time_per_tuple,
            baseline: args.baseline,
            plain_operators: args.plain_operators,
            output: if args.json {
                OutputMode::Json
            } else if args.jsonl {
                OutputMode::JsonLines
            } else {
                OutputMode::Tables
            },
            records: args.records.clone(),
            report: args.report.clone(),
            adaptive,
            operator_memory: OperatorMemory::resolve(&args.operator_memory, &topology)?,
            place: if args.here.sysroot.is_some() {
                "there"
            } else {
                "here"
            },
            topology,
        };
        plan.check()?;
        Ok(plan)
    }

    /// The placement that the data is loaded under: DRAM if it is measured, that is, wherever a
    /// DRAM tier exists.
    #[cfg(feature = "sql")]
    pub fn loaded_under(&self) -> &PlannedPlacement {
        let reference = self.measured().find(|p| p.text == REFERENCE);
        reference
            .or_else(|| self.measured().next())
            .unwrap_or(&self.placements[0])
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
                .map_or(format!("measured {}", self.place), |why| {
                    format!("not {}: {why}", self.place)
                });
            line(
                "placement",
                format!("{}: {}; {here}", placement.text, placement.policy.meaning()),
            );
        }
        for machine in &self.machines {
            line(
                "modelled on",
                format!("{}: {}", machine.name, machine.title),
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

fn threads(asked: Option<usize>, topology: &Topology) -> Result<usize, Failure> {
    let allowed = topology.limits.cpus_allowed.len().max(1);
    match asked {
        Some(0) => Err(Failure::input("--threads 0: at least one worker is needed")),
        // The factor leaves room for experiments with oversubscription and stops a mistyped number.
        Some(n) if n > 4 * allowed => Err(Failure::input(format!(
            "--threads {n}: this process may use {allowed} CPUs; at most {} threads make sense",
            4 * allowed
        ))),
        Some(n) => Ok(n),
        None => Ok(allowed),
    }
}

fn placements(text: &str, topology: &Topology) -> Result<Vec<PlannedPlacement>, Failure> {
    let mut texts = tierloom_text::list(text)
        .map_err(|problem| Failure::input(format!("--placement: {problem}")))?;
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

fn planned(text: String, topology: &Topology) -> Result<PlannedPlacement, Failure> {
    let policy: Policy = text
        .parse()
        .map_err(|e| Failure::input(format!("--placement {text}: {e}")))?;
    let missing = needed_tiers(&policy)
        .into_iter()
        .find(|kind| topology.tier(*kind).is_none());
    // A missing tier is not an error: the placement is then only modelled.
    let why_not_here = missing.map(|kind| format!("this machine has no {kind} tier"));
    if let (Policy::Uniform(spec), None) = (&policy, &why_not_here) {
        spec.resolve(topology)
            .map_err(|e| Failure::input(format!("--placement {text}: {e}")))?;
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

fn machines(names: &[String], placements: &[PlannedPlacement]) -> Result<Vec<Machine>, Failure> {
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
            return Err(Failure::input(format!(
                "{name}: a machine profile cannot be named {HERE:?}: that stands for what was measured on this machine"
            )));
        }
        if machines.iter().any(|m| m.name == machine.name) {
            return Err(Failure::input(format!(
                "--machine: {} is named twice",
                machine.name
            )));
        }
        machines.push(machine);
    }
    Ok(machines)
}
