//! The adaptive driver: runs queries under the controller's decisions and feeds their times back.
//!
//! ```text
//!   plan ── phases of its last run ──> Controller::plan ─┬─> claims: one placement per column
//!                                                        │   pages move while nothing else runs
//!                                                        └─> trials: pages of a part of the fact
//! table
//!   run (no page moves) ── times of phases and parts ──> Controller::learn;  trial pages go back
//! ```
//! A plan that has never run is described from the planner's estimates. Its first run changes no
//! placement and only shows its phases. Decisions start with the second run, because the controller
//! would take errors in estimated CPU time for effects of memory.
//!
//! Queries that learn run one at a time: concurrent queries share bandwidth and caches, and their
//! times would say nothing about placements. With DRAM capped ([`DriverOptions::dram_bytes`])
//! nothing is learned from times. A [`ColumnMover`] then places columns by heat in the background,
//! and queries run concurrently.

mod latencies;
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
use crate::session::{Engine, EngineOptions, Execution, PlannedQuery};
use crate::star::MorselTimes;
use crate::{EngineError, PlacedTable};
use datafusion::physical_plan::ExecutionPlan;
use latencies::{LatencyMeter, LatencyWatch};
use levers::{Operators, PrefetchLever};
use pages::Columns;
use record::History;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_counters::latencies::LatencyReader;
use tierloom_model::search::Weights;
use tierloom_model::{Machine, Phase, PhaseKind};
use tierloom_placement::adaptive::{
    Claims, Layout, Logged, Prefetching, Settings, SystemClock, TierLatencies,
};
use tierloom_topology::{TierKind, Topology};
use tiers::Tiers;

/// Shortest part of a phase that is timed as a trial, ns.
pub const MIN_TRIAL_NS: f64 = 500_000.0;

/// Configuration of a [`Driver`].
#[derive(Debug, Clone)]
pub struct DriverOptions {
    /// The profile that placements are priced on. Tiers that the topology lacks are left out.
    pub machine: Machine,
    /// Topology of this machine; maps the profile's tiers to nodes.
    pub topology: Topology,
    /// Limits of the controller. `workers` is the number of threads of the session.
    pub settings: Settings,
    /// Memory costs of this host, used to derive phases from executions.
    pub host: HostCosts,
    /// Placement of operator memory in the absence of a decision; `None` if it is not routed.
    pub routing: Option<RoutingOptions>,
    /// Bytes of columns that the first tier may hold; columns then go by heat. `None` for no limit.
    pub dram_bytes: Option<u64>,
    /// Shortest part of a phase that is timed, ns; [`MIN_TRIAL_NS`] by default.
    pub min_trial_ns: f64,
}

impl DriverOptions {
    /// Default limits for `threads` workers on `machine`: no routing, no cap on DRAM.
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

    /// The same for the queries of an engine: its workers, and its places of operator memory.
    ///
    /// At most `migration_bytes` of columns migrate before a run of a query (`None` for the default
    /// limit), and the first tier holds at most `dram_bytes` of them (`None` for no limit).
    pub fn for_engine(
        machine: Machine,
        topology: Topology,
        engine: &EngineOptions,
        migration_bytes: Option<u64>,
        dram_bytes: Option<u64>,
    ) -> Self {
        let mut options = DriverOptions::new(machine, topology, engine.threads);
        if let Some(bytes) = migration_bytes {
            options.settings.migration_bytes_per_run = bytes;
        }
        options.routing = engine.routing.clone();
        options.dram_bytes = dram_bytes;
        options
    }
}

/// Runs queries under the adaptive controller's decisions and feeds their times back to it.
///
/// Pages move only between queries and within the controller's migration budget. However a query
/// ends, its trial pages are moved back before the next one starts. If the machine refuses a move,
/// the query runs with the columns where they are and [`Decided::note`] says so.
pub struct Driver {
    tiers: Tiers,
    home: Weights,
    options: DriverOptions,
    cannot_move: Option<String>,
    // Lock order: `turn`, `gate`, `state`. `begin` takes all three, `release` the last two.
    gate: Arc<Gate>,
    /// Serialises the queries that learn.
    turn: Mutex<()>,
    state: Mutex<State>,
    timing: Box<dyn Timing>,
    prefetchers: Option<Mutex<PrefetchLever>>,
    /// Counters of the tiers' latencies, or why there are none.
    latencies: Result<LatencyMeter, String>,
    mover: Option<ColumnMover>,
}

struct State {
    controller: Logged,
    log: String,
    queries: BTreeMap<String, QueryHistory>,
    claims: Claims,
    columns: Columns,
    operators: Operators,
    history: History,
}

/// What earlier runs of a query showed.
#[derive(Debug, Default)]
struct QueryHistory {
    /// Measured phases of the plan; empty before its first run.
    phases: Vec<Phase>,
    /// Morsel times of the latest pass without trials, by phase name.
    times: BTreeMap<String, MorselTimes>,
    /// Time with all workers by phase name, ns; `None` once fewer workers turned out slower.
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
    /// Creates a driver for queries on `tables`.
    ///
    /// # Errors
    /// [`EngineError::Adaptive`] if this machine lacks the profile's first tier,
    /// [`EngineError::Adapt`] for an impossible profile; with DRAM capped, also the errors of
    /// [`ColumnMover::new`] and [`ColumnMover::start`].
    pub fn new(tables: Vec<Arc<PlacedTable>>, options: DriverOptions) -> Result<Self, EngineError> {
        let (tiers, machine, cannot_move) = Tiers::of(&options.machine, &options.topology)?;
        // From here on the profile only has tiers that exist here, so decisions never name a
        // missing one.
        let options = DriverOptions { machine, ..options };
        let first = options.machine.tiers.first();
        let home = Layout::on(first.map_or("dram", |t| t.name.as_str()))
            .map_err(tierloom_placement::AdaptError::from)?;
        let clock = Box::new(SystemClock::default());
        let mut controller = Logged::new(&options.machine, options.settings.clone(), clock)?;
        let log = controller.take_lines();
        let gate = Arc::new(Gate::default());
        // With no tier to move to, a cap on DRAM has no effect.
        let mover = match (options.dram_bytes, &cannot_move) {
            (Some(bytes), None) => Some(start_mover(&tables, &options.topology, bytes, &gate)?),
            _ => None,
        };
        let latencies = match (&mover, &cannot_move, &options.routing) {
            (None, None, Some(_)) => LatencyMeter::open(&options.topology),
            (None, None, None) => Err("operators are not accounted (tierloom.routing is off), so \
                 that phases cannot be told apart"
                .to_owned()),
            _ => Err("nothing is learned that would need them".to_owned()),
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
            latencies,
            mover,
        })
    }

    /// Replaces the measured times by those that `timing` returns.
    #[must_use]
    pub fn with_timing(mut self, timing: Box<dyn Timing>) -> Self {
        self.timing = timing;
        self
    }

    /// Lets the driver turn prefetchers off for queries that run faster without, by `profiles`.
    #[must_use]
    pub fn with_prefetchers(
        mut self,
        profiles: Prefetching,
        switch: Box<dyn PrefetchSwitch>,
    ) -> Self {
        self.prefetchers = Some(Mutex::new(PrefetchLever { profiles, switch }));
        self
    }

    /// Measures the latencies of the tiers with `reader`, in place of this machine's counters.
    #[must_use]
    pub fn with_latencies(mut self, reader: Box<dyn LatencyReader>) -> Self {
        self.latencies = Ok(LatencyMeter::of(reader, &self.options.topology));
        self
    }

    /// Why latencies of the tiers are not measured here, where they would be of use; phases then
    /// move by their times alone.
    pub fn no_latencies(&self) -> Option<&str> {
        let learns = self.mover.is_none() && self.cannot_move.is_none();
        self.latencies
            .as_ref()
            .err()
            .filter(|_| learns)
            .map(String::as_str)
    }

    /// Replaces the tables. Queries are described anew; what was learned about phases is kept.
    pub fn set_tables(&self, tables: Vec<Arc<PlacedTable>>) {
        let mut state = self.state();
        state.columns.set_tables(tables);
        // The phases of a query name columns of the old tables.
        state.queries.clear();
    }

    /// Why no column can be moved here; queries then run with everything on the first tier.
    pub fn cannot_move(&self) -> Option<&str> {
        self.cannot_move.as_deref()
    }

    /// The machine profile, restricted to the tiers of this machine.
    pub fn machine(&self) -> &Machine {
        &self.options.machine
    }

    /// Runs a planned query once under the controller's decisions.
    ///
    /// # Errors
    /// Same as [`Engine::execute`].
    pub fn execute(
        &self,
        engine: &Engine,
        name: &str,
        query: &PlannedQuery,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Execution, EngineError> {
        let plan = engine.fresh(name, query)?;
        let mut prepared = self.begin(name, &plan, stop)?;
        let counting = prepared.counting(None);
        let execution = engine.run(name, plan, counting.as_ref(), stop)?;
        prepared.finish(&execution);
        Ok(execution)
    }

    /// Decides for a run of `query` and places its data; the caller runs it.
    ///
    /// `plan` is the plan that will run, without state of an earlier run. The caller reports a
    /// successful run by [`Prepared::finish`]; dropping the result means that the run failed.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if `stop` returns true while pages move.
    pub fn begin(
        &self,
        query: &str,
        plan: &Arc<dyn ExecutionPlan>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Prepared<'_>, EngineError> {
        // Under a cap the mover places columns by heat and the controller is not consulted.
        if self.mover.is_some() {
            return Ok(Prepared::by_heat(self, query));
        }
        Prepared::begin(self, query, plan, stop)
    }

    /// The latest decisions, oldest first.
    pub fn decisions(&self) -> Vec<Decided> {
        self.state().history.rows()
    }

    /// Returns and clears the decision log, `tierloom-decisions/1`.
    pub fn take_log(&self) -> String {
        std::mem::take(&mut self.state().log)
    }

    /// How often the placement of each phase has changed.
    pub fn changes(&self) -> Vec<(String, u32)> {
        let state = self.state();
        let changes = state.controller.controller().changes();
        changes.map(|(key, n)| (key.to_string(), n)).collect()
    }

    /// Why the background mover of a capped run stopped; `None` while it runs or without a cap.
    pub fn mover_failure(&self) -> Option<String> {
        self.mover.as_ref().and_then(ColumnMover::failure)
    }

    /// Restores the user's placement of operator memory until the next query.
    pub fn restore_operators(&self) {
        // Routing belongs to the process. If it refuses now, the next engine sets it up again.
        let _ = self.state().operators.restore(&self.tiers);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every update of the state completes before the lock is released, so a panic elsewhere
        // leaves it consistent.
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
        // The process-wide router outlives the driver.
        self.restore_operators();
    }
}

/// Starts the background mover that places columns by heat.
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

/// Whether two lists of phases come from the same plan: same names and kinds, in order.
fn same_shape(a: &[Phase], b: &[Phase]) -> bool {
    let of = |p: &Phase| -> (String, PhaseKind) { (p.name.clone(), p.kind) };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| of(a) == of(b))
}

/// The phases of an execution that do any work, with their CPU times in ns and the latencies that
/// `watch` has seen in them.
fn busy(
    captured: Captured,
    watch: Option<LatencyWatch>,
) -> (Vec<Phase>, Vec<(f64, Option<TierLatencies>)>) {
    let seen = watch.zip(captured.counted.as_ref());
    let mut latencies = seen.map_or_else(Vec::new, |(watch, run)| watch.finish(run));
    latencies.resize(captured.phases.len(), None);
    let times = captured.phases_cpu_ns.into_iter().zip(latencies);
    let all = captured.phases.into_iter().zip(times);
    all.filter(|(phase, _)| !phase.is_idle()).unzip()
}
