//! One run of a query: decide, place, set workers and prefetchers, learn, undo the trials.
//!
//! A run goes through `begin` (decide and place, with queries locked out), the caller's execution
//! (no page moves) and `finish` or `drop` (trial pages go back). A failure to place never fails the
//! query; it is noted and the run is not learned from.

use super::latencies::LatencyWatch;
use super::pages::{Columns, PageRange, Stop};
use super::tiers::{Tiers, are_near};
use super::trials::{self, PlannedTrial, TrialInputs, pass_of};
use super::{Driver, State};
use crate::EngineError;
use crate::adapt::describe;
use crate::adapt::gate::{Gate, RunGuard};
use crate::counting::Counting;
use crate::star::{PassOptions, StarExec};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, MutexGuard, PoisonError};
use tierloom_model::{Phase, StructureClass};
use tierloom_placement::adaptive::{PhaseDecision, fewest_workers};

/// Reason that the controller gives for a phase in which it has nothing left to learn.
const SETTLED: &str = "settled";

/// The model may choose the workers of a phase whose time it predicts within this |ln(ratio)|.
const EXPLAINED: f64 = 0.1;

/// A run whose phases are decided and whose data is placed accordingly.
///
/// No page moves while it exists. [`Prepared::finish`] reports a successful run. Dropping it
/// earlier means that the run failed or was stopped, and nothing is learned. Either way the trial
/// pages are moved back.
pub struct Prepared<'a> {
    pub(super) driver: &'a Driver,
    pub(super) query: String,
    pub(super) run: u64,
    pub(super) phases: Vec<PreparedPhase>,
    /// Whether the plan has run before, so that its phases are measured ones.
    pub(super) known: bool,
    /// Trial pages, to be moved back.
    tried: Vec<PageRange>,
    pub(super) moved_bytes: u64,
    pub(super) prefetch_off: bool,
    running: Option<RunGuard<'a>>,
    /// Held from the decision until the run's times are learned.
    turn: Option<MutexGuard<'a, ()>>,
    /// Samples the latencies of the tiers while the query runs.
    pub(super) watch: Option<LatencyWatch>,
    pub(super) done: bool,
}

pub(super) struct PreparedPhase {
    pub(super) phase: Phase,
    pub(super) decision: PhaseDecision,
    pub(super) trials: Vec<PlannedTrial>,
    /// The control part, timed in place of the whole phase if its columns are elsewhere.
    pub(super) control: Option<PlannedTrial>,
    /// Operator memory is placed as decided.
    pub(super) operators_follow: bool,
    /// Operator memory and columns are placed as decided.
    pub(super) follows: bool,
    /// Number of workers if fewer than all.
    pub(super) workers: Option<usize>,
    pub(super) note: String,
}

impl PreparedPhase {
    fn new((phase, decision): (Phase, PhaseDecision)) -> Self {
        PreparedPhase {
            phase,
            decision,
            trials: Vec::new(),
            control: None,
            operators_follow: false,
            follows: false,
            workers: None,
            note: String::new(),
        }
    }

    /// Whether the phase is measured on a control part.
    ///
    /// It is if its columns are elsewhere and there is more to learn.
    fn needs_control(&self) -> bool {
        !self.follows && self.decision.reason != SETTLED
    }

    pub(super) fn note(&mut self, text: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text);
    }
}

impl<'a> Prepared<'a> {
    /// A run whose columns are placed by heat; nothing is decided or learned.
    pub(super) fn by_heat(driver: &'a Driver, query: &str) -> Self {
        let mut prepared = Prepared::empty(driver, query);
        prepared.running = Some(driver.gate.run());
        prepared
    }

    fn empty(driver: &'a Driver, query: &str) -> Self {
        Prepared {
            driver,
            query: query.to_owned(),
            run: 0,
            phases: Vec::new(),
            known: false,
            tried: Vec::new(),
            moved_bytes: 0,
            prefetch_off: false,
            running: None,
            turn: None,
            watch: None,
            done: false,
        }
    }

    pub(super) fn begin(
        driver: &'a Driver,
        query: &str,
        plan: &Arc<dyn ExecutionPlan>,
        stop: Stop<'_>,
    ) -> Result<Self, EngineError> {
        let mut prepared = Prepared::empty(driver, query);
        prepared.turn = Some(driver.turn());
        // From here until the downgrade below, no query runs and no other move can interfere.
        let moving = driver.moving();
        let mut state = driver.state();
        state.history.runs += 1;
        prepared.run = state.history.runs;
        if let Err(error) = prepared.decide(&mut state, plan) {
            // The query runs regardless, with its data where it is.
            let untold = prepared.undecided(&error);
            state.history.push(untold);
        }
        let placed = prepared.place(&mut state, plan, stop);
        prepared.pull_levers(&mut state, plan);
        drop(state);
        prepared.running = Some(Gate::run_after(moving));
        // On an error, dropping `prepared` moves the trial pages back.
        placed.map(|()| prepared)
    }

    /// What the run has to be counted with: `own` if the session counts it, or what tells the
    /// driver in which phase latencies were measured. From now on they are.
    pub fn counting(&mut self, own: Option<&Arc<Counting>>) -> Option<Arc<Counting>> {
        let driver = self.driver;
        if let (true, Ok(meter)) = (self.known, &driver.latencies) {
            self.watch = Some(meter.watch(own));
        }
        let watched = self.watch.as_ref().map(LatencyWatch::counting);
        watched.or(own).cloned()
    }

    /// Asks the controller for a decision per phase.
    fn decide(
        &mut self,
        state: &mut State,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<(), EngineError> {
        let known = state.queries.get(&self.query);
        let known = known.map_or_else(Vec::new, |known| known.phases.clone());
        self.known = !known.is_empty();
        let phases = if self.known {
            known
        } else {
            describe(plan).into_iter().map(|d| d.phase).collect()
        };
        let decisions = state.controller.plan(&self.query, &phases)?;
        state.log += &state.controller.take_lines();
        self.phases = phases
            .into_iter()
            .zip(decisions)
            .map(PreparedPhase::new)
            .collect();
        Ok(())
    }

    /// Places columns, operator memory and trial pages.
    fn place(
        &mut self,
        state: &mut State,
        plan: &Arc<dyn ExecutionPlan>,
        stop: Stop<'_>,
    ) -> Result<(), EngineError> {
        let driver = self.driver;
        // Estimated phases are not decided on: their CPU times would be compared with measured
        // ones.
        if !self.known {
            let why = "not learned from: the first run of a plan shows what its phases are";
            self.phases.iter_mut().for_each(|p| p.note(why));
            return Ok(());
        }
        for one in &self.phases {
            // All claims are filed before any is settled, so the order of the phases does not
            // matter.
            state.claims.note(&one.phase, &one.decision);
        }
        if driver.cannot_move.is_none() {
            let budget = driver.options.settings.migration_bytes_per_run;
            let State {
                claims, columns, ..
            } = state;
            let brought = columns.bring(claims.settle(), &driver.tiers, budget, stop)?;
            self.moved_bytes += brought.moved_bytes;
            for problem in &brought.problems {
                self.phases.iter_mut().for_each(|p| p.note(problem));
            }
        }
        let (phases, decisions): (Vec<Phase>, Vec<PhaseDecision>) = self
            .phases
            .iter()
            .map(|p| (p.phase.clone(), p.decision.clone()))
            .unzip();
        let operators = &mut state.operators;
        if let Err(error) = operators.place(&phases, &decisions, &driver.tiers, &driver.home) {
            let problem = error.to_string();
            self.phases.iter_mut().for_each(|p| p.note(&problem));
        }
        for one in &mut self.phases {
            follows(driver, state, one);
        }
        self.place_trials(state, plan, stop)
    }

    fn place_trials(
        &mut self,
        state: &mut State,
        plan: &Arc<dyn ExecutionPlan>,
        stop: Stop<'_>,
    ) -> Result<(), EngineError> {
        let driver = self.driver;
        for one in &mut self.phases {
            let controlled = one.needs_control();
            for part in parts(driver, state, &self.query, one, plan) {
                let columns = &mut state.columns;
                let tried = &mut self.tried;
                let (moved, problem) = put(&part, columns, &driver.tiers, stop, tried)?;
                self.moved_bytes += moved;
                if let Some(problem) = problem {
                    // An incompletely placed part would be timed under a mix of placements.
                    one.note(&format!("not tried: {problem}"));
                    break;
                }
                // `parts` lists the control part first.
                if controlled && one.control.is_none() {
                    one.control = Some(part);
                } else {
                    one.trials.push(part);
                }
            }
        }
        Ok(())
    }

    /// Sets workers, timing and prefetchers.
    fn pull_levers(&mut self, state: &mut State, plan: &Arc<dyn ExecutionPlan>) {
        let driver = self.driver;
        let workers = driver.options.settings.workers;
        for one in &mut self.phases {
            let Some(star) = pass_of(plan, &one.phase) else {
                continue;
            };
            one.workers = fewer_workers(driver, state, &self.query, one);
            star.set_pass(PassOptions {
                workers: one.workers,
                timed: true,
            });
        }
        if !self.known {
            // The first run has estimated phases, whose names may differ from those of its passes.
            set_timed(plan);
        }
        let Some(prefetchers) = &driver.prefetchers else {
            return;
        };
        let prefetchers = prefetchers.lock().unwrap_or_else(PoisonError::into_inner);
        let (phases, decisions): (Vec<Phase>, Vec<PhaseDecision>) = self
            .phases
            .iter()
            .map(|p| (p.phase.clone(), p.decision.clone()))
            .unzip();
        let min_gain = driver.options.settings.min_gain;
        let pays = prefetchers.off_pays(&phases, &decisions, workers, min_gain);
        if self.known && pays.unwrap_or(false) {
            match prefetchers.switch.set(false) {
                Ok(()) => self.prefetch_off = true,
                Err(why) => self.phases.iter_mut().for_each(|p| p.note(&why)),
            }
        }
    }

    /// Lets pages move again, turns the prefetchers on and moves the trial pages back.
    pub(super) fn release(&mut self) {
        let driver = self.driver;
        // The read side of the gate is released first: moving pages takes the write side.
        drop(self.running.take());
        if let (true, Some(prefetchers)) = (self.prefetch_off, &driver.prefetchers) {
            let prefetchers = prefetchers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(why) = prefetchers.switch.set(true) {
                self.phases.iter_mut().for_each(|p| p.note(&why));
            }
        }
        // Without trial pages there is no need to wait for running queries.
        if self.tried.is_empty() {
            return;
        }
        let _moving = driver.moving();
        let tried = std::mem::take(&mut self.tried);
        let problems = driver.state().columns.take_back(&tried, &driver.tiers);
        for problem in &problems {
            self.phases.iter_mut().for_each(|p| p.note(problem));
        }
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.release();
        if self.turn.is_some() && !self.phases.is_empty() {
            // Reported without times, so that the controller and the log know that the run has
            // ended.
            let nothing = vec![None; self.phases.len()];
            let why = "not learned from: the run did not end well";
            self.phases.iter_mut().for_each(|p| p.note(why));
            let driver = self.driver;
            self.learn(&mut driver.state(), &nothing);
        }
    }
}

/// The separately placed parts of a phase in row order: control part, if needed, then trials.
fn parts(
    driver: &Driver,
    state: &State,
    query: &str,
    one: &mut PreparedPhase,
    plan: &Arc<dyn ExecutionPlan>,
) -> Vec<PlannedTrial> {
    let controlled = one.needs_control();
    if !one.operators_follow || one.decision.trials.is_empty() && !controlled {
        return Vec::new();
    }
    if let Some(why) = &driver.cannot_move {
        one.note(&format!("not tried: {why}"));
        return Vec::new();
    }
    if pass_of(plan, &one.phase).is_none() {
        one.note("not tried: only a star join's pass over its fact table can be timed in part");
        return Vec::new();
    }
    let known = state.queries.get(query);
    let place = TrialInputs {
        columns: &state.columns,
        tiers: &driver.tiers,
        before: known.and_then(|k| k.times.get(&one.phase.name)),
        min_time_ns: driver.options.min_trial_ns,
    };
    let mut parts = Vec::new();
    if controlled {
        let share = driver.options.settings.max_trial_share;
        match trials::control(&one.phase, &one.decision, share, &place) {
            Ok(part) => parts.push(part),
            Err(why) => {
                one.note(&why);
                return parts;
            }
        }
    }
    // Trials start behind the control part, because a page has only one placement.
    let start = parts.first().map_or(0, |control| control.rows.end);
    let (planned, why) = trials::plan(&one.phase, &one.decision, start, &place);
    if let Some(why) = why {
        one.note(&why);
    }
    parts.extend(planned);
    parts
}

/// Places the pages of a part; returns the bytes moved and the first problem.
fn put(
    planned: &PlannedTrial,
    columns: &mut Columns,
    tiers: &Tiers,
    stop: Stop<'_>,
    tried: &mut Vec<PageRange>,
) -> Result<(u64, Option<String>), EngineError> {
    let (mut moved, mut problems) = (0, Vec::new());
    for (part, to) in &planned.parts {
        // Recorded before the move: pages of an incomplete move have to go back too.
        tried.push(part.clone());
        moved += columns.go(part, to, tiers, stop, &mut problems)?;
    }
    Ok((moved, problems.into_iter().next()))
}

/// Finds out whether what a phase uses is placed as decided.
fn follows(driver: &Driver, state: &State, one: &mut PreparedPhase) {
    let layout = one.decision.layout.clone();
    let operators = &state.operators;
    one.operators_follow = operators.follow(&one.phase, &layout.operators, &driver.home);
    if !one.operators_follow {
        one.note("not learned from: memory of its operators is elsewhere");
        return;
    }
    if driver.cannot_move.is_none() {
        let columns = one.phase.accesses.iter();
        let columns = columns.filter(|a| a.class == StructureClass::Column);
        let names = columns.map(|a| a.structure.as_str());
        let bytes = state.columns.bytes(&driver.tiers, names);
        if !bytes.is_some_and(|b| are_near(&b, &layout.columns)) {
            one.note("its columns are placed as other phases request");
            return;
        }
    }
    one.follows = true;
}

/// Turns on morsel timing for every star join pass of a plan.
fn set_timed(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(star) = plan.downcast_ref::<StarExec>() {
        star.set_pass(PassOptions {
            workers: None,
            timed: true,
        });
    }
    plan.children().into_iter().for_each(set_timed);
}

/// The fewest workers that are as fast as the best number by the model; `None` to use all.
///
/// All are used as well if fewer were tried before and were slower.
fn fewer_workers(
    driver: &Driver,
    state: &State,
    query: &str,
    one: &PreparedPhase,
) -> Option<usize> {
    let all = driver.options.settings.workers;
    let known = state.queries.get(query)?;
    // The model is trusted only where it predicts the measured time with all workers.
    let measured_ns = (*known.all_workers_ns.get(&one.phase.name)?)?;
    let explained = (measured_ns / one.decision.expected_ns).ln().abs() < EXPLAINED;
    if !explained || !one.trials.is_empty() || !one.follows {
        return None;
    }
    let machine = state.controller.controller().machine();
    let first = machine.tiers.first().map_or("dram", |t| t.name.as_str());
    let placement = one.decision.layout.placement(first);
    let enough = fewest_workers(machine, &one.phase, &placement, all).ok()?;
    (enough < all).then_some(enough as usize)
}
