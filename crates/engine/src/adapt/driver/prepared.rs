//! One run: decided, placed, timed, learned from.

use super::pages::{Columns, Part, Stop};
use super::record::Decided;
use super::tiers::{Tiers, are_near};
use super::timing::measured;
use super::trials::{self, Place, Planned, pass_of};
use super::{Driver, Known, State, busy, same_shape};
use crate::EngineError;
use crate::adapt::describe;
use crate::adapt::gate::{Gate, Running};
use crate::capture::capture;
use crate::session::Execution;
use crate::star::{PassOptions, StarExec};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, MutexGuard, PoisonError};
use tierloom_model::{Phase, StructureClass};
use tierloom_placement::adaptive::{Action, Measured, PhaseDecision, RanPhase, fewest_workers};

/// A run with fewer workers may take so much longer than with all of them; beyond, all work again.
const SLOWER_WITH_FEWER: f64 = 1.05;

/// What the controller says of a phase that it leaves alone.
const SETTLED: &str = "settled";

/// The model's word on workers is taken for a phase whose time it tells this well, ln of the ratio.
const EXPLAINED: f64 = 0.1;

/// A run that was decided on and whose data lies as decided.
///
/// No page moves while it exists. [`Prepared::finish`] tells the driver how the run went; dropped before, it is a run that failed or was stopped: nothing
/// is learned. Either way the pages of trials go back.
pub struct Prepared<'a> {
    driver: &'a Driver,
    query: String,
    run: u64,
    phases: Vec<PreparedPhase>,
    /// The plan had run before, so its phases are known.
    known: bool,
    /// Pages that lie elsewhere than their columns.
    tried: Vec<Part>,
    moved_bytes: u64,
    prefetch_off: bool,
    running: Option<Running<'a>>,
    /// Held from the decision to what is learned.
    turn: Option<MutexGuard<'a, ()>>,
    done: bool,
}

/// One phase of it.
struct PreparedPhase {
    phase: Phase,
    decision: PhaseDecision,
    trials: Vec<Planned>,
    /// The part that stands for the whole, if the columns lie elsewhere.
    control: Option<Planned>,
    /// Memory of operators is where the decision wants it.
    operators_follow: bool,
    /// And so are the columns.
    follows: bool,
    /// Fewer workers than all.
    workers: Option<usize>,
    note: String,
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

    fn note(&mut self, text: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text);
    }
}

impl<'a> Prepared<'a> {
    /// A run whose columns go by heat.
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
        let moving = driver.moving();
        let mut state = driver.state();
        state.history.runs += 1;
        prepared.run = state.history.runs;
        if let Err(error) = prepared.decide(&mut state, plan) {
            // The query runs all the same, where everything is.
            let untold = prepared.undecided(&error);
            state.history.push(untold);
        }
        let placed = prepared.place(&mut state, plan, stop);
        prepared.pull_levers(&mut state, plan);
        drop(state);
        prepared.running = Some(Gate::run_after(moving));
        // Dropping what was prepared brings back what was tried.
        placed.map(|()| prepared)
    }

    /// Asks the controller.
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

    /// Brings columns, operator memory and the pages of trials to their places.
    fn place(
        &mut self,
        state: &mut State,
        plan: &Arc<dyn ExecutionPlan>,
        stop: Stop<'_>,
    ) -> Result<(), EngineError> {
        let driver = self.driver;
        if !self.known {
            let why = "not learned from: the first run of a plan shows what its phases are";
            self.phases.iter_mut().for_each(|p| p.note(why));
            return Ok(());
        }
        for one in &self.phases {
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
            // A settled phase has nothing more to learn.
            let controlled = !one.follows && one.decision.reason != SETTLED;
            if !one.operators_follow || one.decision.trials.is_empty() && !controlled {
                continue;
            }
            if let Some(why) = &driver.cannot_move {
                one.note(&format!("not tried: {why}"));
                continue;
            }
            if pass_of(plan, &one.phase).is_none() {
                one.note(
                    "not tried: only a star join's pass over its fact table can be timed in part",
                );
                continue;
            }
            let known = state.queries.get(&self.query);
            let place = Place {
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
                        continue;
                    }
                }
            }
            let start = parts.first().map_or(0, |control| control.rows.end);
            let (planned, why) = trials::plan(&one.phase, &one.decision, start, &place);
            parts.extend(planned);
            if let Some(why) = why {
                one.note(&why);
            }
            for part in parts {
                let columns = &mut state.columns;
                let tried = &mut self.tried;
                let (moved, problem) = put(&part, columns, &driver.tiers, stop, tried)?;
                self.moved_bytes += moved;
                if let Some(problem) = problem {
                    one.note(&format!("not tried: {problem}"));
                    break;
                }
                if controlled && one.control.is_none() {
                    one.control = Some(part);
                } else {
                    one.trials.push(part);
                }
            }
        }
        Ok(())
    }

    /// Workers, timing and prefetchers.
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
            // The first run's phases are estimates, whose names need not be those of its passes.
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

    /// The run ended well: what it took is learned.
    pub fn finish(mut self, execution: &Execution) {
        self.done = true;
        self.release();
        let driver = self.driver;
        let captured = capture(execution, &driver.options.host);
        if let Some(mover) = &driver.mover {
            mover.note(&captured.column_reads);
            return;
        }
        let (phases, cpu_ns) = busy(captured);
        let mut state = driver.state();
        let same = self.known
            && phases.len() == self.phases.len()
            && same_shape(
                &phases,
                &self
                    .phases
                    .iter()
                    .map(|p| p.phase.clone())
                    .collect::<Vec<_>>(),
            );
        let mut times = Vec::with_capacity(self.phases.len());
        for (index, one) in self.phases.iter_mut().enumerate() {
            let cpu_ns = cpu_ns.get(index).copied().filter(|_| same);
            times.push(
                cpu_ns.and_then(|ns| learned(driver, &mut state, &self.query, one, ns, execution)),
            );
        }
        if !same {
            let known = Known {
                phases,
                ..Known::default()
            };
            state.queries.insert(self.query.clone(), known);
            remember_times(&mut state, &self.query, &execution.plan);
        }
        self.learn(&mut state, &times);
    }

    /// Tells the controller, and writes down what was decided.
    fn learn(&mut self, state: &mut State, times: &[Option<Measured>]) {
        let ran = self.phases.iter().map(|one| self.ran(one)).collect();
        let off = self.prefetch_off;
        let told = state
            .controller
            .ran(&self.query, ran, off, self.moved_bytes);
        let learned = told.and_then(|()| state.controller.learn(&self.query, times));
        state.log += &state.controller.take_lines();
        if let Err(error) = learned {
            let problem = error.to_string();
            self.phases.iter_mut().for_each(|p| p.note(&problem));
        }
        for (one, time) in self.phases.iter().zip(times) {
            state.history.push(self.decided(one, time.as_ref()));
        }
    }

    fn ran(&self, one: &PreparedPhase) -> RanPhase {
        let all = self.driver.options.settings.workers;
        RanPhase {
            phase: one.decision.phase.clone(),
            workers: one.workers.map_or(all, |n| n as u32),
            trials: one.trials.len() as u32,
            note: one.note.clone(),
        }
    }

    fn decided(&self, one: &PreparedPhase, time: Option<&Measured>) -> Decided {
        let decision = &one.decision;
        let tried = decision.trials.iter().take(one.trials.len());
        let tried = tried.map(|t| format!("{:.1}%: {}", 100.0 * t.share, t.layout.columns));
        let all = self.driver.options.settings.workers as usize;
        Decided {
            run: self.run,
            query: self.query.clone(),
            phase: decision.phase.clone(),
            action: match decision.action {
                Action::Keep => "keep",
                Action::Move => "move",
                Action::Return => "return",
            }
            .into(),
            layout: decision.layout.to_string(),
            wanted: decision.wanted.to_string(),
            tried: tried.collect::<Vec<_>>().join("; "),
            learned: time.is_some(),
            expected_ms: decision.expected_ns / 1e6,
            measured_ms: time.map(|t| t.time_ns / decision.rest() / 1e6),
            workers: one.workers.unwrap_or(all) as u64,
            prefetch_off: self.prefetch_off,
            moved_bytes: self.moved_bytes,
            reason: decision.reason.clone(),
            note: one.note.clone(),
        }
    }

    /// A run that nothing could be decided for.
    fn undecided(&self, why: &EngineError) -> Decided {
        let all = u64::from(self.driver.options.settings.workers);
        Decided {
            run: self.run,
            query: self.query.clone(),
            phase: "all".into(),
            action: "keep".into(),
            layout: String::new(),
            wanted: String::new(),
            tried: String::new(),
            learned: false,
            expected_ms: 0.0,
            measured_ms: None,
            workers: all,
            prefetch_off: false,
            moved_bytes: 0,
            reason: "nothing could be decided".into(),
            note: why.to_string(),
        }
    }

    /// Lets pages move again, and brings back those of trials.
    fn release(&mut self) {
        let driver = self.driver;
        drop(self.running.take());
        if let (true, Some(prefetchers)) = (self.prefetch_off, &driver.prefetchers) {
            let prefetchers = prefetchers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(why) = prefetchers.switch.set(true) {
                self.phases.iter_mut().for_each(|p| p.note(&why));
            }
        }
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
            let nothing = vec![None; self.phases.len()];
            let why = "not learned from: the run did not end well";
            self.phases.iter_mut().for_each(|p| p.note(why));
            let driver = self.driver;
            self.learn(&mut driver.state(), &nothing);
        }
    }
}

/// Places the pages of a part. Answers the bytes that were moved, and what did not work.
fn put(
    planned: &Planned,
    columns: &mut Columns,
    tiers: &Tiers,
    stop: Stop<'_>,
    tried: &mut Vec<Part>,
) -> Result<(u64, Option<String>), EngineError> {
    let (mut moved, mut problems) = (0, Vec::new());
    for (part, to) in &planned.parts {
        // Noted first: what moves, even in part, has to go back.
        tried.push(part.clone());
        moved += columns.go(part, to, tiers, stop, &mut problems)?;
    }
    Ok((moved, problems.into_iter().next()))
}

/// Finds out whether what a phase uses is where its decision wants it.
fn follows(driver: &Driver, state: &State, one: &mut PreparedPhase) {
    let layout = one.decision.layout.clone();
    let operators = &state.operators;
    one.operators_follow = operators.follow(&one.phase, &layout.operators, &driver.home);
    if !one.operators_follow {
        one.note("not learned from: memory of its operators lies elsewhere");
        return;
    }
    if driver.cannot_move.is_none() {
        let columns = one.phase.accesses.iter();
        let columns = columns.filter(|a| a.class == StructureClass::Column);
        let names = columns.map(|a| a.structure.as_str());
        let bytes = state.columns.bytes(&driver.tiers, names);
        if !bytes.is_some_and(|b| are_near(&b, &layout.columns)) {
            one.note("its columns lie where other phases want them");
            return;
        }
    }
    one.follows = true;
}

/// The fewest workers that are enough by the model, unless they were tried and were not.
fn fewer_workers(
    driver: &Driver,
    state: &State,
    query: &str,
    one: &PreparedPhase,
) -> Option<usize> {
    let all = driver.options.settings.workers;
    let known = state.queries.get(query)?;
    // Before anything is limited it must be known what all of them take.
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

/// The times of a phase, if it ran as decided; what is needed for later trials is remembered.
fn learned(
    driver: &Driver,
    state: &mut State,
    query: &str,
    one: &mut PreparedPhase,
    cpu_ns: f64,
    execution: &Execution,
) -> Option<Measured> {
    let times = pass_of(&execution.plan, &one.phase)
        .and_then(StarExec::observed)
        .and_then(|seen| seen.times);
    let all = driver.options.settings.workers as usize;
    let control = one.control.as_ref();
    let found = measured(
        &one.decision,
        cpu_ns,
        times.as_ref(),
        &one.trials,
        control,
        all,
    )?;
    let known = state.queries.entry(query.to_owned()).or_default();
    if let Some(times) = times
        && one.trials.is_empty()
        && one.control.is_none()
    {
        known.times.insert(one.phase.name.clone(), times);
    }
    let timed = driver.timing.of_phase(&one.phase, &one.decision, found);
    let whole_ns = timed.time_ns / one.decision.rest();
    let before = known.all_workers_ns.get(&one.phase.name).copied();
    match (one.workers, before) {
        (Some(_), Some(Some(before_ns))) if whole_ns > SLOWER_WITH_FEWER * before_ns => {
            known.all_workers_ns.insert(one.phase.name.clone(), None);
            one.note("not learned from: fewer workers were slower; all work from now on");
            return None;
        }
        (None, None | Some(Some(_))) if one.follows => {
            let name = one.phase.name.clone();
            known.all_workers_ns.insert(name, Some(whole_ns));
        }
        _ => {}
    }
    (one.follows || one.control.is_some()).then_some(timed)
}

/// Keeps the morsel times of a first run.
fn remember_times(state: &mut State, query: &str, plan: &Arc<dyn ExecutionPlan>) {
    let Some(known) = state.queries.get_mut(query) else {
        return;
    };
    for phase in &known.phases {
        let times = pass_of(plan, phase)
            .and_then(StarExec::observed)
            .and_then(|seen| seen.times);
        if let Some(times) = times {
            known.times.insert(phase.name.clone(), times);
        }
    }
}

/// Times the morsels of every pass of a plan.
fn set_timed(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(star) = plan.downcast_ref::<StarExec>() {
        star.set_pass(PassOptions {
            workers: None,
            timed: true,
        });
    }
    plan.children().into_iter().for_each(set_timed);
}
