//! The controller at the wheel: queries run where it decides, and it learns from how long they took.
//!
//! ```text
//!   plan ── phases of its last run ──> Controller::plan ──> claims: one place per column ──> pages move (nothing else runs)
//!                                                       └─> trials: pages of a part of the fact table
//!   run (no page moves) ──> times of phases and parts ──> Controller::learn;  pages of trials go back
//! ```
//! A plan that was never run is described from the planner's estimates; it runs where everything is and only shows what its phases are. From then on those phases
//! are what is decided on: estimates of processor time would be taken for differences of memory.
//!
//! Queries of one driver that learn run one after the other: times of queries that disturb one another say nothing about placements. With DRAM capped
//! the columns go by heat instead, in the background, and queries run side by side.

mod claims;
mod levers;
mod outcome;
mod pages;
mod prepared;
mod record;
mod tiers;
mod timing;
mod trials;

pub use levers::PrefetchSwitch;
pub use prepared::Prepared;
pub use record::{Decided, batch as decisions_batch, schema as decisions_schema};
pub use timing::{AsMeasured, Timing};

use super::gate::{Gate, Moving};
use super::{ColumnMover, MoverOptions};
use crate::capture::{Captured, HostCosts};
use crate::routing::RoutingOptions;
use crate::session::{Engine, Execution, PlannedQuery};
use crate::star::MorselTimes;
use crate::{EngineError, PlacedTable};
use claims::Claims;
use datafusion::physical_plan::ExecutionPlan;
use levers::{Operators, Prefetchers};
use pages::Columns;
use record::History;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_model::search::Weights;
use tierloom_model::{Machine, Phase, PhaseKind};
use tierloom_placement::adaptive::{Layout, Logged, Prefetching, Settings, SystemClock};
use tierloom_topology::{TierKind, Topology};
use tiers::Tiers;

/// Shortest part of a phase whose time is taken for a trial, ns.
pub const MIN_TRIAL_NS: f64 = 500_000.0;

/// What a driver works with.
#[derive(Debug, Clone)]
pub struct DriverOptions {
    /// The profile that placements are priced on. Tiers that the topology lacks are left out.
    pub machine: Machine,
    /// This machine: which nodes a tier of the profile is.
    pub topology: Topology,
    /// Limits of the controller; `workers` are the session's threads.
    pub settings: Settings,
    /// What memory costs here, for the phases of executions.
    pub host: HostCosts,
    /// Where operator memory goes unless a decision says otherwise; `None` if it is not routed.
    pub routing: Option<RoutingOptions>,
    /// Bytes of columns that the first tier may hold: columns then go by heat. `None` for no limit.
    pub dram_bytes: Option<u64>,
    /// Shortest part of a phase that can be timed, ns; see [`MIN_TRIAL_NS`].
    pub min_trial_ns: f64,
}

impl DriverOptions {
    /// The usual limits for so many threads on `machine`.
    pub fn new(machine: Machine, topology: Topology, threads: usize) -> Self {
        DriverOptions {
            machine,
            topology,
            settings: Settings::new(threads.max(1) as u32),
            host: HostCosts {
                stream_ns_per_byte: 0.0,
                working_set_bytes: 0,
            },
            routing: None,
            dram_bytes: None,
            min_trial_ns: MIN_TRIAL_NS,
        }
    }
}

/// Runs queries where the adaptive controller decides, and tells it how long they took.
///
/// Pages move only between queries, within the controller's migration budget; whatever ends a query, the pages of its trials are brought back before the
/// next one. A move that the machine refuses leaves the query running where its columns are, and is told in [`Decided::note`].
pub struct Driver {
    tiers: Tiers,
    home: Weights,
    options: DriverOptions,
    cannot_move: Option<String>,
    gate: Arc<Gate>,
    /// One query that learns at a time.
    turn: Mutex<()>,
    state: Mutex<State>,
    timing: Box<dyn Timing>,
    prefetchers: Option<Mutex<Prefetchers>>,
    mover: Option<ColumnMover>,
}

struct State {
    controller: Logged,
    log: String,
    queries: BTreeMap<String, Known>,
    claims: Claims,
    columns: Columns,
    operators: Operators,
    history: History,
}

/// What is known of a query.
#[derive(Debug, Default)]
struct Known {
    /// Phases of its first execution; empty before.
    phases: Vec<Phase>,
    /// Times of the morsels of its passes without trials, by phase.
    times: BTreeMap<String, MorselTimes>,
    /// Its time with all workers, by phase, ns; `None` once fewer were tried and were slower.
    all_workers_ns: BTreeMap<String, Option<f64>>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("machine", &self.options.machine.name)
            .field("cannot_move", &self.cannot_move)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver of the queries on `tables`.
    ///
    /// # Errors
    /// [`EngineError::Adaptive`] if this machine has not the profile's first tier; [`EngineError::Adapt`] for an impossible profile;
    /// with DRAM capped those of [`ColumnMover`].
    pub fn new(tables: Vec<Arc<PlacedTable>>, options: DriverOptions) -> Result<Self, EngineError> {
        let (tiers, machine, cannot_move) = Tiers::of(&options.machine, &options.topology)?;
        let options = DriverOptions { machine, ..options };
        let first = options.machine.tiers.first();
        let home = Layout::on(first.map_or("dram", |t| t.name.as_str()))
            .map_err(tierloom_placement::AdaptError::from)?;
        let clock = Box::new(SystemClock::default());
        let mut controller = Logged::new(&options.machine, options.settings.clone(), clock)?;
        let log = controller.take_lines();
        let gate = Arc::new(Gate::default());
        let mover = match (options.dram_bytes, &cannot_move) {
            (Some(bytes), None) => Some(start_mover(&tables, &options.topology, bytes, &gate)?),
            _ => None,
        };
        Ok(Driver {
            state: Mutex::new(State {
                controller,
                log,
                queries: BTreeMap::new(),
                claims: Claims::default(),
                columns: Columns::new(tables),
                operators: Operators::new(options.routing.clone()),
                history: History::default(),
            }),
            tiers,
            home: home.columns,
            options,
            cannot_move,
            gate,
            turn: Mutex::new(()),
            timing: Box::new(AsMeasured),
            prefetchers: None,
            mover,
        })
    }

    /// Lets `timing` say how long phases took.
    #[must_use]
    pub fn with_timing(mut self, timing: Box<dyn Timing>) -> Self {
        self.timing = timing;
        self
    }

    /// Switches the prefetchers for queries that `profiles` say are faster without.
    #[must_use]
    pub fn with_prefetchers(
        mut self,
        profiles: Prefetching,
        switch: Box<dyn PrefetchSwitch>,
    ) -> Self {
        self.prefetchers = Some(Mutex::new(Prefetchers { profiles, switch }));
        self
    }

    /// Other tables from now on. Queries are described anew; what was learned of phases stays.
    pub fn set_tables(&self, tables: Vec<Arc<PlacedTable>>) {
        let mut state = self.state();
        state.columns.set_tables(tables);
        state.queries.clear();
    }

    /// Why nothing can be moved here, if so: queries run with everything on the first tier.
    pub fn cannot_move(&self) -> Option<&str> {
        self.cannot_move.as_deref()
    }

    /// The machine profile without the tiers that are not here.
    pub fn machine(&self) -> &Machine {
        &self.options.machine
    }

    /// Runs a planned query once, as the controller decides.
    ///
    /// # Errors
    /// Those of [`Engine::execute`].
    pub fn execute(
        &self,
        engine: &Engine,
        name: &str,
        query: &PlannedQuery,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Execution, EngineError> {
        let plan = engine.fresh(name, query)?;
        let prepared = self.begin(name, &plan, stop)?;
        let execution = engine.run(name, plan, stop)?;
        prepared.finish(&execution);
        Ok(execution)
    }

    /// Decides for a run of `query` and places its data; the run itself is the caller's. `plan` is what will run, with the state of no earlier run.
    /// A run that does not end well is told by dropping what is answered.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if `stop` says so while pages move.
    pub fn begin(
        &self,
        query: &str,
        plan: &Arc<dyn ExecutionPlan>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Prepared<'_>, EngineError> {
        if self.mover.is_some() {
            return Ok(Prepared::by_heat(self, query));
        }
        Prepared::begin(self, query, plan, stop)
    }

    /// What was decided so far, the oldest first.
    pub fn decisions(&self) -> Vec<Decided> {
        self.state().history.rows()
    }

    /// The lines of the decision log since the last call, `tierloom-decisions/1`.
    pub fn take_log(&self) -> String {
        std::mem::take(&mut self.state().log)
    }

    /// How often the placement of each phase was changed.
    pub fn changes(&self) -> Vec<(String, u32)> {
        let state = self.state();
        let changes = state.controller.controller().changes();
        changes.map(|(key, n)| (key.to_string(), n)).collect()
    }

    /// Why the background moves of a capped run ended, if they did.
    pub fn mover_failure(&self) -> Option<String> {
        self.mover.as_ref().and_then(ColumnMover::failure)
    }

    /// Operator memory goes where the user said again, until the next query.
    pub fn restore_operators(&self) {
        // The router is the process's; if it refuses now, the next engine sets it up anew.
        let _ = self.state().operators.restore(&self.tiers);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is inside is always whole: a panic of a reader is its own.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moving(&self) -> Moving<'_> {
        self.gate.move_pages()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.restore_operators();
    }
}

/// Moves columns by heat in the background, between queries.
fn start_mover(
    tables: &[Arc<PlacedTable>],
    topology: &Topology,
    dram_bytes: u64,
    gate: &Arc<Gate>,
) -> Result<ColumnMover, EngineError> {
    let node = |kind: TierKind| {
        let tier = topology.tier(kind);
        let node = tier.and_then(|t| t.nodes.first().copied());
        node.ok_or_else(|| EngineError::Adaptive {
            problem: format!(
                "a limit on dram needs a tier to move columns to, and this machine has no {kind} tier (see `tierloom topology`; --tiers names tiers yourself)"
            ),
        })
    };
    let options = MoverOptions::new(node(TierKind::Dram)?, node(TierKind::Cxl)?, dram_bytes);
    let mut mover =
        ColumnMover::new(tables.to_vec(), topology.clone(), options)?.with_gate(Arc::clone(gate));
    mover.start()?;
    Ok(mover)
}

/// Whether two lists of phases are of one plan.
fn same_shape(a: &[Phase], b: &[Phase]) -> bool {
    let of = |p: &Phase| -> (String, PhaseKind) { (p.name.clone(), p.kind) };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| of(a) == of(b))
}

/// The phases of an execution that can be decided on, with their CPU times.
fn busy(captured: Captured) -> (Vec<Phase>, Vec<f64>) {
    let times = captured.phases_cpu_ns.into_iter();
    let all = captured.phases.into_iter().zip(times);
    all.filter(|(phase, _)| !phase.is_idle()).unzip()
}
