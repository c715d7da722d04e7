//! One workload on several hosts: what a coordinator asks of each of them, and what it is answered.
//!
//! These are plain data, which an agent carries as JSON. A host resolves a [`HostTask`] to a
//! [`SuitePlan`] on its own nodes and tiers, so a placement that it cannot have is its error. A
//! [`HostWorker`](crate::HostWorker) carries out the steps of one command in turn, on data that is
//! loaded once.

use crate::{RunError, SuitePlan, SuiteRequest, Workload, workload};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tierloom_bench::run::Session as Invocation;
use tierloom_memory::PageSize;
use tierloom_memory::router::{PlaceSpec, PlaceTarget};
use tierloom_placement::Policy;
use tierloom_pool::Pool;
use tierloom_record::{Answer, AuditRecord, HostCard};
use tierloom_topology::Topology;

/// A workload by name, to be made again on another host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// `ssb`, `tpch` or `tpcds`.
    pub id: String,
    /// The scale factor of the data.
    pub scale_factor: f64,
    /// The seed of the data, for workloads that have one.
    pub seed: u64,
    /// Folder of expected answers on the host.
    pub answers: Option<PathBuf>,
}

impl WorkloadSpec {
    /// The workload.
    ///
    /// # Errors
    /// Bad input: an unknown name, a scale factor out of range, or no such folder.
    pub fn workload(&self) -> Result<Arc<dyn Workload>, RunError> {
        match self.id.as_str() {
            "ssb" => workload::ssb(self.scale_factor, self.seed),
            "tpch" => workload::tpch(self.scale_factor, self.answers.clone()),
            "tpcds" => workload::tpcds(self.scale_factor, self.answers.clone()),
            other => Err(RunError::refused(format!(
                "workload {other:?}: there are ssb, tpch and tpcds"
            ))),
        }
    }
}

/// Where a host's tables are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlace {
    /// As in `--placement`, without brackets around it.
    pub placement: String,
    /// With placement `pool`: the pool, named by its first member, as a path on the host.
    pub pool: Option<PathBuf>,
}

impl HostPlace {
    /// Reads a placement, or `pool:PATH`; `pool` alone is the pool at `default_pool`.
    ///
    /// # Errors
    /// Bad input; the message says what was expected.
    pub fn parse(text: &str, default_pool: Option<&PathBuf>) -> Result<Self, RunError> {
        if let Some(path) = text.strip_prefix("pool:").filter(|path| !path.is_empty()) {
            return Ok(HostPlace {
                placement: "pool".to_owned(),
                pool: Some(path.into()),
            });
        }
        let wrong =
            |problem: &dyn std::fmt::Display| RunError::refused(format!("{text}: {problem}"));
        let placements = tierloom_text::list(text).map_err(|e| wrong(&e))?;
        let [placement] = &placements[..] else {
            return Err(wrong(&"expected one placement"));
        };
        let policy: Policy = placement.parse().map_err(|e| wrong(&e))?;
        let pool = match policy {
            Policy::Adaptive(_) => {
                return Err(wrong(
                    &"tables that move by themselves would move while they are compared; name a fixed placement",
                ));
            }
            Policy::Pool if default_pool.is_none() => {
                return Err(wrong(&"no pool is named; write pool:PATH or add --pool"));
            }
            Policy::Pool => default_pool.cloned(),
            _ => None,
        };
        Ok(HostPlace {
            placement: placement.clone(),
            pool,
        })
    }
}

impl std::fmt::Display for HostPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.pool {
            Some(path) => write!(f, "pool {}", path.display()),
            None => f.write_str(&self.placement),
        }
    }
}

/// One step of a command on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostStep {
    /// Load the data.
    Load,
    /// Time the queries.
    Timed {
        /// Number of the place of the tables.
        place: usize,
    },
    /// Run the queries over and over until stopped.
    Beside {
        /// Number of the place of the tables.
        place: usize,
        /// The stream whose order of the queries is taken.
        stream: usize,
    },
}

/// What a coordinator asks of a host. Only `step` differs between the requests of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostTask {
    /// Identifier of the command; data that was loaded for it is used again.
    pub command: String,
    /// Name of the host.
    pub host: String,
    /// Data and queries.
    pub workload: WorkloadSpec,
    /// Names of the queries; all of them if there are none.
    pub queries: Vec<String>,
    /// Worker threads; one per CPU that the agent may use if `None`.
    pub threads: Option<usize>,
    /// Timed executions per query.
    pub repeat: u32,
    /// Page size of table data.
    pub pages: String,
    /// Use DataFusion's own operators only.
    pub plain_operators: bool,
    /// Where operator memory is placed, by class.
    pub operator_memory: Option<String>,
    /// Where this host's tables are, by case.
    pub places: Vec<HostPlace>,
    /// What to do now.
    pub step: HostStep,
}

impl HostTask {
    /// Finds what is wrong with the task on every machine, before any host is asked.
    ///
    /// # Errors
    /// Bad input.
    pub fn check(&self, workload: &dyn Workload) -> Result<(), RunError> {
        workload.queries(&self.queries)?;
        let pages: Result<PageSize, _> = self.pages.parse();
        pages.map_err(RunError::refused)?;
        if self.repeat == 0 || self.threads == Some(0) {
            return Err(RunError::refused(
                "--repeat and --threads must be at least 1: nothing could be timed",
            ));
        }
        let Some(text) = &self.operator_memory else {
            return Ok(());
        };
        let wrong = |problem: String| RunError::refused(format!("--operator-memory: {problem}"));
        let classes = PlaceSpec::by_class(text).map_err(|e| wrong(e.to_string()))?;
        let mut places = classes.iter().flat_map(|(_, places)| places);
        match places.any(|place| place.target == PlaceTarget::Pool) {
            true => Err(wrong(
                "with several hosts it is in the memory of each host, not in a pool".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// The plan on a machine.
    ///
    /// # Errors
    /// Bad input, also a placement that the machine cannot have.
    pub fn resolve(&self, topology: Topology) -> Result<SuitePlan, RunError> {
        // In brackets, so that no comma is taken for one between placements.
        let placements: Vec<String> = self
            .places
            .iter()
            .map(|place| format!("[{}]", place.placement))
            .collect();
        let request = SuiteRequest {
            queries: self.queries.clone(),
            threads: self.threads,
            repeat: self.repeat,
            plain_operators: self.plain_operators,
            operator_memory: self.operator_memory.clone(),
            has_pool: self.places.iter().any(|place| place.pool.is_some()),
            ..SuiteRequest::new(placements.join(","), self.pages.clone())
        };
        let mut plan = SuitePlan::resolve(self.workload.workload()?, &request, topology)?;
        for placement in &plan.placements {
            let asked = self.places.iter().any(|p| placement.is(&p.placement));
            if let (true, Some(why)) = (asked, &placement.why_not_here) {
                return Err(RunError::refused(format!(
                    "placement {}: {why}",
                    placement.text
                )));
            }
        }
        // What this machine lacks is not modelled on others instead.
        plan.machines.clear();
        Ok(plan)
    }
}

impl crate::PlannedPlacement {
    /// Whether `text` means this placement.
    pub fn is(&self, text: &str) -> bool {
        text.parse::<Policy>().is_ok_and(|p| p == self.policy)
    }
}

/// What a host answers to a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostResult {
    /// To [`HostStep::Load`].
    Loaded(Box<HostLoaded>),
    /// To the others.
    Ran(Box<HostRan>),
}

/// A host and its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostLoaded {
    /// Processor, memory, tiers and kernel settings.
    pub card: HostCard,
    /// Number of worker threads.
    pub threads: u32,
    /// Bytes of all columns.
    pub column_bytes: u64,
}

/// Queries that a host ran from the agreed start on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRan {
    /// How late it began after the agreed start, by its own clock, ns.
    pub late_ns: u64,
    /// From its first query to the end of its last one, s.
    pub elapsed_s: f64,
    /// Queries that it finished.
    pub executions: u64,
    /// Times and answers, if it was timed.
    pub queries: Vec<HostQuery>,
    /// Page audit before the start.
    pub audit_before: Option<AuditRecord>,
    /// Page audit after the last query.
    pub audit_after: Option<AuditRecord>,
}

/// The timed executions of one query on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostQuery {
    /// Name of the query.
    pub query: String,
    /// Time of each execution, ms.
    pub times_ms: Vec<f64>,
    /// The answer of the last one.
    pub answer: Answer,
}

/// Waits for the agreed start and says how late it is; `None` if it was stopped before.
pub type Begin = Box<dyn FnOnce() -> Option<Duration> + Send>;

/// What a worker needs of the program around it.
pub struct HostServices {
    /// Describes the invocation of the agent.
    pub invocation: Invocation,
    /// Nodes and tiers of this machine.
    pub topology: Topology,
    /// Opens a pool.
    pub open_pool: fn(&Path) -> Result<Pool, RunError>,
    /// Takes remarks.
    pub note: fn(&str),
}
