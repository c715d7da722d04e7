//! Evaluates a finished run: times for the controller, a row per phase for the record.
//!
//! Times are only learned if the run had the phases that were decided on and its data was placed as
//! decided. Everything else is recorded with the reason why it was not learned from.

use super::prepared::{Prepared, PreparedPhase};
use super::record::Decided;
use super::timing::measured;
use super::trials::pass_of;
use super::{Driver, QueryHistory, State, busy, same_shape};
use crate::EngineError;
use crate::capture::capture;
use crate::session::Execution;
use crate::star::StarExec;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use tierloom_placement::adaptive::{Action, Measured, RanPhase, TierLatencies};

/// Factor of a phase's time with all workers that it may take with fewer.
///
/// Beyond it, all workers are used again.
const SLOWER_WITH_FEWER: f64 = 1.05;

impl Prepared<'_> {
    /// Reports a successful run and learns from its times.
    pub fn finish(mut self, execution: &Execution) {
        self.done = true;
        let watch = self.watch.take();
        self.release();
        let driver = self.driver;
        let captured = capture(execution, &driver.options.host);
        if let Some(mover) = &driver.mover {
            mover.note(&captured.column_reads);
            return;
        }
        let (phases, seen) = busy(captured, watch);
        let phases = driver.timing.of_run(phases);
        let mut state = driver.state();
        // Times are attributed to phases by position, which is only valid if the run had the phases
        // that were decided on.
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
            let seen = seen.get(index).copied().filter(|_| same);
            times.push(
                seen.and_then(|seen| {
                    learned(driver, &mut state, &self.query, one, seen, execution)
                }),
            );
        }
        if !same {
            // A first run, or another plan for the same text: what was known of the phases does not
            // apply.
            let known = QueryHistory {
                phases,
                ..QueryHistory::default()
            };
            state.queries.insert(self.query.clone(), known);
            remember_times(&mut state, &self.query, &execution.plan);
        }
        self.learn(&mut state, &times);
    }

    /// Passes times to the controller and records the decisions.
    pub(super) fn learn(&mut self, state: &mut State, times: &[Option<Measured>]) {
        let ran = self.phases.iter().map(|one| self.ran(one)).collect();
        let off = self.prefetch_off;
        let logged = state
            .controller
            .ran(&self.query, ran, off, self.moved_bytes);
        let learned = logged.and_then(|()| state.controller.learn(&self.query, times));
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
            proposed: decision.proposed.to_string(),
            tried: tried.collect::<Vec<_>>().join("; "),
            learned: time.is_some(),
            expected_ms: decision.expected_ns / 1e6,
            measured_ms: time.map(|t| t.time_ns / decision.rest() / 1e6),
            latencies: time.and_then(|t| t.latencies),
            workers: one.workers.unwrap_or(all) as u64,
            prefetch_off: self.prefetch_off,
            moved_bytes: self.moved_bytes,
            reason: decision.reason.clone(),
            note: one.note.clone(),
        }
    }

    /// The record of a run that nothing could be decided for.
    pub(super) fn undecided(&self, why: &EngineError) -> Decided {
        let all = u64::from(self.driver.options.settings.workers);
        Decided {
            run: self.run,
            query: self.query.clone(),
            phase: "all".into(),
            action: "keep".into(),
            layout: String::new(),
            proposed: String::new(),
            tried: String::new(),
            learned: false,
            expected_ms: 0.0,
            measured_ms: None,
            latencies: None,
            workers: all,
            prefetch_off: false,
            moved_bytes: 0,
            reason: "nothing could be decided".into(),
            note: why.to_string(),
        }
    }
}

/// The measured times of a phase if it ran as decided. Also keeps what later trials need.
fn learned(
    driver: &Driver,
    state: &mut State,
    query: &str,
    one: &mut PreparedPhase,
    (cpu_ns, latencies): (f64, Option<TierLatencies>),
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
    // Trial and control morsels ran under other placements, so such a pass is no baseline.
    if let Some(times) = times
        && one.trials.is_empty()
        && one.control.is_none()
    {
        known.times.insert(one.phase.name.clone(), times);
    }
    // Where columns are not as decided, reads of the whole phase say nothing about the decision.
    let found = Measured {
        latencies: latencies.filter(|_| one.follows),
        ..found
    };
    let timed = driver.timing.of_phase(&one.phase, &one.decision, found);
    let whole_ns = timed.time_ns / one.decision.rest();
    let before = known.all_workers_ns.get(&one.phase.name).copied();
    match (one.workers, before) {
        // Fewer workers cost time after all, so this phase is never limited again.
        (Some(_), Some(Some(before_ns))) if whole_ns > SLOWER_WITH_FEWER * before_ns => {
            known.all_workers_ns.insert(one.phase.name.clone(), None);
            one.note("not learned from: fewer workers were slower; all work from now on");
            return None;
        }
        // The reference is the latest run with all workers under the decided placement.
        (None, None | Some(Some(_))) if one.follows => {
            let name = one.phase.name.clone();
            known.all_workers_ns.insert(name, Some(whole_ns));
        }
        _ => {}
    }
    // A time under another placement must not be attributed to the decided one.
    (one.follows || one.control.is_some()).then_some(timed)
}

/// Keeps the morsel times of a first run as the baseline of later trials.
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
