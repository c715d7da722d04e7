//! The coordinating thread of a run: start, warm-up, repetitions, figures.
//!
//! It never accesses regions. It starts each repetition of the main tasks through two barriers, and
//! reads what background tasks do meanwhile from their published counts.

use std::time::{Duration, Instant, SystemTime};

use tierloom_record::RepetitionSamples;

use super::crew::{Crew, add_counts};
use super::execute::{
    FINISH_POLL, HEAD_START, OperatorOutcome, Order, Outcome, Stage, Team, WINDOW, take,
};
use super::samples::Samples;
use super::worker::ThreadResult;
use super::{BenchError, Event, raw, stats};
use crate::plan::{Amount, RunPlan};

/// Leads the threads of `teams` through the run, and returns one outcome per team.
pub(super) fn coordinate(
    run: &RunPlan,
    teams: &[Team<'_>],
    stage: &Stage<'_>,
    counting: &mut dyn FnMut(bool),
) -> Result<Vec<Outcome>, BenchError> {
    stage.ready.wait();
    // Taken between the two waits: all threads have set up or failed, and none has started.
    let setup_failed = teams
        .iter()
        .flat_map(|team| &team.slots)
        .find_map(|slot| take(slot)?.err());
    if setup_failed.is_none() {
        match stage.control.ready() {
            Some(start) => sleep_until(start, stage),
            None => stage.end(),
        }
    } else {
        stage.end();
    }
    stage.ready.wait();
    let mut outcomes: Vec<Outcome> = teams
        .iter()
        .map(|team| Outcome {
            overhead_ns: team.overhead_ns,
            operator: team.crew.as_ref().map(OperatorOutcome::new),
            ..Outcome::default()
        })
        .collect();
    let led = match setup_failed {
        Some(error) => Err(error),
        None if teams.iter().any(Team::is_main) => {
            lead_main(run, teams, stage, &mut outcomes, counting)
        }
        None => {
            watch(teams, stage, &mut outcomes, counting);
            Ok(())
        }
    };
    // In all cases, threads that still wait must be released.
    stage.give(Order::Finish);
    stage.end();
    stage.main.wait();
    led?;
    gather_background(teams, stage, &mut outcomes)?;
    Ok(outcomes)
}

fn sleep_until(start: SystemTime, stage: &Stage<'_>) {
    while !stage.halted() {
        let Ok(left) = start.duration_since(SystemTime::now()) else {
            return;
        };
        if left.is_zero() {
            return;
        }
        // The last stretch spins, because a sleep may last longer than asked for.
        if left > Duration::from_millis(2) {
            std::thread::sleep((left - Duration::from_millis(1)).min(FINISH_POLL));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Warm-up and repetitions of the main tasks.
fn lead_main(
    run: &RunPlan,
    teams: &[Team<'_>],
    stage: &Stage<'_>,
    outcomes: &mut [Outcome],
    counting: &mut dyn FnMut(bool),
) -> Result<(), BenchError> {
    let main = teams.iter().find(|team| team.is_main());
    let stopped = || BenchError::Stopped {
        place: main.map_or_else(String::new, |team| team.spec.place.clone()),
    };
    if stage.halted() {
        return Err(stopped());
    }
    // The first repetition must meet background tasks at full speed.
    if !teams.iter().all(Team::is_main) {
        std::thread::sleep(HEAD_START);
    }
    if run.warmup_s > 0.0 && run.warmup_s.is_finite() {
        let limit = Duration::from_secs_f64(run.warmup_s.min(3600.0));
        one(teams, stage, Some(limit))?;
    }
    // After the warm-up, so that its page faults and cache misses are not counted.
    counting(true);
    let (least, most) = match &run.until_stable {
        Some(until) => (run.repeat.max(1), until.max_repeat.max(run.repeat).max(1)),
        None => (run.repeat.max(1), run.repeat.max(1)),
    };
    let limit = match main.map(|team| team.spec.plan.amount) {
        Some(Amount::Seconds(seconds)) => Some(Duration::from_secs_f64(seconds.clamp(1e-6, 1e6))),
        _ => None,
    };
    for repetition in 0..most {
        let windows: Vec<_> = teams.iter().map(Team::totals).collect();
        let begun = Instant::now();
        let done = one(teams, stage, limit)?;
        let elapsed_s = begun.elapsed().as_secs_f64();
        // An incomplete repetition has no comparable figure.
        if stage.control.stopped() {
            break;
        }
        for (((team, outcome), before), done) in
            teams.iter().zip(&mut *outcomes).zip(windows).zip(done)
        {
            if team.is_main() {
                outcome.add(&done, limit.is_some());
            } else {
                outcome.add_window(team, before, elapsed_s);
            }
        }
        let figures = outcomes
            .iter()
            .zip(teams)
            .find(|(_, team)| team.is_main())
            .map(|(outcome, _)| outcome.figures())
            .unwrap_or_default();
        stage.control.event(Event::Repetition {
            done: repetition + 1,
            most,
            figure: figures.last().copied(),
        });
        let enough = repetition + 1 >= least
            && run
                .until_stable
                .as_ref()
                .is_none_or(|until| stats::stability(until, figures).stable);
        if enough {
            break;
        }
    }
    counting(false);
    let complete = outcomes
        .iter()
        .zip(teams)
        .any(|(outcome, team)| team.is_main() && !outcome.gbps.is_empty());
    if complete { Ok(()) } else { Err(stopped()) }
}

/// One repetition of the main tasks.
///
/// Returns what each team's threads did; empty for background teams.
fn one(
    teams: &[Team<'_>],
    stage: &Stage<'_>,
    limit: Option<Duration>,
) -> Result<Vec<Vec<ThreadResult>>, BenchError> {
    for team in teams.iter().filter(|team| team.is_main()) {
        team.restart(limit.is_some());
    }
    stage.give(Order::Work {
        deadline: limit.map(|limit| Instant::now() + limit),
    });
    // The first wait starts the threads, the second one waits until all of them are done.
    stage.main.wait();
    stage.main.wait();
    teams
        .iter()
        .map(|team| {
            if !team.is_main() {
                return Ok(Vec::new());
            }
            team.slots.iter().filter_map(take).collect()
        })
        .collect()
}

/// Counts fixed windows until stopped, on a host that only has background tasks.
fn watch(
    teams: &[Team<'_>],
    stage: &Stage<'_>,
    outcomes: &mut [Outcome],
    counting: &mut dyn FnMut(bool),
) {
    counting(true);
    while !stage.control.stopped() {
        let windows: Vec<_> = teams.iter().map(Team::totals).collect();
        let begun = Instant::now();
        while begun.elapsed() < WINDOW && !stage.control.stopped() {
            std::thread::sleep(FINISH_POLL);
        }
        let elapsed_s = begun.elapsed().as_secs_f64();
        // A window cut short by the end counts only if it is the only one.
        if stage.control.stopped() && outcomes.iter().any(|outcome| !outcome.gbps.is_empty()) {
            break;
        }
        for ((team, outcome), before) in teams.iter().zip(&mut *outcomes).zip(windows) {
            outcome.add_window(team, before, elapsed_s);
        }
    }
    counting(false);
}

/// Waits for background threads and collects their samples.
fn gather_background(
    teams: &[Team<'_>],
    stage: &Stage<'_>,
    outcomes: &mut [Outcome],
) -> Result<(), BenchError> {
    for (team, outcome) in teams.iter().zip(outcomes) {
        if !team.is_main() {
            for slot in &team.slots {
                let done = loop {
                    if let Some(done) = take(slot) {
                        break done?;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                };
                outcome.add_samples(done.samples.as_ref());
                if let Some(operator) = &mut outcome.operator {
                    add_counts(&mut operator.counts, &done.counts);
                }
            }
            // Background threads run through all repetitions, so they have one median over
            // everything.
            if let Some(samples) = &outcome.samples {
                outcome.medians_ns.push(samples.median_ns());
            }
        }
        outcome.operations_ever = team.totals().1;
        if let (Some(operator), Some(crew)) = (&mut outcome.operator, &team.crew) {
            (operator.wrong, operator.complete) = (crew.wrong(), crew.is_complete());
        }
    }
    debug_assert!(stage.halted());
    Ok(())
}

impl Outcome {
    /// Adds a repetition of a main task.
    fn add(&mut self, done: &[ThreadResult], by_time: bool) {
        let bytes: u64 = done.iter().map(|d| d.bytes).sum();
        let operations: u64 = done.iter().map(|d| d.operations).sum();
        let begun = done.iter().map(|d| d.begun).min();
        let ended = done.iter().map(|d| d.ended).max();
        let wall_s = match (begun, ended) {
            (Some(begun), Some(ended)) => ended
                .duration_since(begun)
                .max(Duration::from_nanos(1))
                .as_secs_f64(),
            _ => return,
        };
        // Threads that end by time stop at different moments, each after its last batch, so the sum
        // of their own rates is the rate of the task. Threads that share an amount are done when
        // the last one is.
        let rate = |of: fn(&ThreadResult) -> u64, all: u64| {
            if by_time {
                done.iter().map(|d| of(d) as f64 / d.seconds()).sum()
            } else {
                all as f64 / wall_s
            }
        };
        let phases = self
            .operator
            .as_ref()
            .map_or(0, |operator| operator.phases.len());
        self.raw.push(raw::of_threads(done, wall_s, phases));
        self.gbps.push(rate(|d| d.bytes, bytes) / 1e9);
        // Phases that only prepare a pass are no part of an operator's time.
        let operator_s = self.operator.as_mut().map(|operator| operator.add(done));
        self.operations_per_s.push(match operator_s {
            Some(seconds) => operations as f64 / seconds,
            None => rate(|d| d.operations, operations),
        });
        self.thread_gbps.resize(done.len(), Vec::new());
        for (thread, done) in self.thread_gbps.iter_mut().zip(done) {
            thread.push(done.bytes as f64 / done.seconds() / 1e9);
        }
        self.operations += operations;
        let mut own: Option<Samples> = None;
        for samples in done.iter().filter_map(|d| d.samples.as_ref()) {
            own.get_or_insert_with(Samples::new).merge(samples);
        }
        if let Some(own) = own.filter(|own| own.count() > 0) {
            self.medians_ns.push(own.median_ns());
            self.add_samples(Some(&own));
        }
    }

    /// Adds what background threads did between `before` and now.
    fn add_window(&mut self, team: &Team<'_>, before: (u64, u64), elapsed_s: f64) {
        let after = team.totals();
        let (bytes, operations) = (after.0 - before.0, after.1 - before.1);
        self.raw.push(RepetitionSamples {
            seconds: elapsed_s,
            operations,
            bytes,
            threads: Vec::new(),
        });
        self.gbps.push(bytes as f64 / elapsed_s / 1e9);
        self.operations_per_s.push(operations as f64 / elapsed_s);
        self.operations += operations;
    }

    fn add_samples(&mut self, samples: Option<&Samples>) {
        if let Some(samples) = samples {
            self.samples.get_or_insert_with(Samples::new).merge(samples);
        }
    }

    /// The main figure of each repetition.
    ///
    /// It is the median latency where latencies were timed, otherwise the bandwidth, and operations
    /// per second for work that moves no bytes. Operators have the last one in any case: they time
    /// some of their operations besides.
    pub(super) fn figures(&self) -> &[f64] {
        if self.operator.is_some() {
            &self.operations_per_s
        } else if !self.medians_ns.is_empty() {
            &self.medians_ns
        } else if self.gbps.iter().any(|gbps| *gbps > 0.0) {
            &self.gbps
        } else {
            &self.operations_per_s
        }
    }
}

impl OperatorOutcome {
    fn new(crew: &Crew<'_>) -> Self {
        Self {
            phases: crew.phases.clone(),
            seconds: vec![Vec::new(); crew.phases.len()],
            tuples: crew.tuples,
            passes: crew.passes,
            counts: Vec::new(),
            wrong: None,
            complete: false,
        }
    }

    /// Adds a repetition; returns the time of its counted phases, s.
    ///
    /// A phase lasts from its first thread's begin to its last thread's end.
    fn add(&mut self, done: &[ThreadResult]) -> f64 {
        done.iter()
            .for_each(|done| add_counts(&mut self.counts, &done.counts));
        let mut seconds = vec![0.0; self.phases.len()];
        let spans = done.iter().map(|d| d.phases.len()).min().unwrap_or(0);
        for at in 0..spans {
            let begun = done.iter().map(|d| d.phases[at].begun).min();
            let ended = done.iter().map(|d| d.phases[at].ended).max();
            if let (Some(begun), Some(ended)) = (begun, ended) {
                seconds[at % self.phases.len()] += ended.duration_since(begun).as_secs_f64();
            }
        }
        let counted = self.phases.iter().zip(&seconds);
        let counted = counted.filter(|(phase, _)| phase.counted);
        let all = counted.map(|(_, seconds)| seconds).sum::<f64>();
        for (phase, seconds) in self.seconds.iter_mut().zip(seconds) {
            phase.push(seconds);
        }
        all.max(1e-9)
    }
}
