//! The controller: plans runs and learns from their times.

use super::distrust::{Distrust, MeasuredSlowdown};
use super::evidence::{PhaseRun, StdDevs};
use super::noise::Noise;
use super::numbers::Around;
use super::state::State;
use super::{Action, Belief, Layout, Measured, PhaseDecision, PhaseKey, Settings, Trial};
use crate::AdaptError;
use std::collections::{BTreeMap, BTreeSet};
use tierloom_model::search::SplitMix;
use tierloom_model::{Machine, Phase, StructureClass};

/// Decides run by run where the structures of queries are placed.
///
/// ```text
///   phases ── plan ──> layouts, trials   (run)   measured times ── learn ──> belief, states
///               ^                                                                  │
///               └──────────────────────────────────────────────────────────────────┘
/// ```
///
/// Every phase starts on the first tier. Where the model, corrected by all measurements, predicts a
/// gain, a small part of the phase runs under the proposed placement. The part is small enough for
/// its loss to stay below [`Settings::trial_cost`], even if the model is wrong by the required
/// certainty and the tier is as bad as measurements still allow. A phase moves as a whole only if
/// trials alone have shown a gain beyond the measured noise. If whole runs do not confirm the gain,
/// the phase returns to the first tier, possibly after one run. A phase without anything to gain
/// for [`Settings::settle_runs`] runs, or with [`Settings::max_changes`] changes, is left alone, so
/// placements cannot oscillate.
#[derive(Debug, Clone)]
pub struct Controller {
    pub(super) settings: Settings,
    pub(super) profile: Belief,
    pub(super) belief: Belief,
    pub(super) home: Layout,
    pub(super) states: BTreeMap<PhaseKey, State>,
    planned: BTreeMap<String, PlannedRun>,
    /// Phases that read each column.
    readers: BTreeMap<String, BTreeSet<PhaseKey>>,
    /// Noise in the times of whole phases, and in those of trials.
    whole_noise: Noise,
    trial_noise: Noise,
    pub(super) distrust: Distrust,
    pub(super) random: SplitMix,
    /// Cache of modelled times of the phase being decided, around the posterior mean.
    pub(super) looked: Vec<(Layout, Around)>,
    /// Cache of what the method `misfit` returns for that phase.
    pub(super) misfit: Option<f64>,
    /// Bytes that later trials may move; see [`LATER_TRIALS`].
    pub(super) trial_bytes: f64,
}

/// Standard deviations added to a measured slowdown to get its upper confidence bound.
const NOISE_DEVIATIONS: f64 = 3.0;

/// Standard deviations of the modelled slowdown added to it as well.
const MODELLED: f64 = 1.0;

/// Share of all queries' time in which pages may be moved for trials, apart from those of a phase's
/// first [`FIRST_ATTEMPTS`](super::trying::FIRST_ATTEMPTS) and of few that earn what they cost.
///
/// Without this limit pages that moved to and fro took more than a third of the time where gains
/// come and go, as beside another program that reads from DRAM a part of the time: there no trial
/// is the last one.
const LATER_TRIALS: f64 = 0.02;

/// A run that was planned but not measured yet.
#[derive(Debug, Clone)]
struct PlannedRun {
    phases: Vec<Phase>,
    decisions: Vec<PhaseDecision>,
}

/// What one run may still spend on migration, and posterior samples shared by its phases.
pub(super) struct Budget {
    pub migration_bytes: u64,
    /// Expected time of the query, ns.
    pub query_ns: f64,
    /// Machines drawn from the posterior, when the first phase needs them.
    pub drawn: Vec<Machine>,
}

impl Controller {
    /// Creates a controller whose prior is the machine profile.
    ///
    /// # Errors
    /// [`AdaptError::Model`] if the profile is not valid.
    pub fn new(machine: &Machine, settings: Settings) -> Result<Self, AdaptError> {
        let belief = Belief::new(machine, settings.profile_std_dev)?;
        Ok(Controller {
            home: Layout::on(belief.reference_tier())?,
            // Never corrected: its times are the reference that makes runs of a phase comparable.
            profile: belief.clone(),
            belief,
            whole_noise: Noise::new(settings.noise),
            trial_noise: Noise::new(settings.trial_noise),
            distrust: Distrust::new(machine),
            settings,
            states: BTreeMap::new(),
            planned: BTreeMap::new(),
            readers: BTreeMap::new(),
            // A fixed seed, since a replay of the log has to draw the same machines.
            random: SplitMix::new(1),
            looked: Vec::new(),
            misfit: None,
            trial_bytes: 0.0,
        })
    }

    /// The limits that the controller was created with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The machine as corrected by all measurements.
    pub fn machine(&self) -> &Machine {
        self.belief.machine()
    }

    /// Number of placement changes of each phase.
    pub fn changes(&self) -> impl Iterator<Item = (&PhaseKey, u32)> {
        self.states.iter().map(|(key, state)| (key, state.changes))
    }

    /// Decides for every phase of a query's next run, in order.
    ///
    /// # Errors
    /// [`AdaptError::Model`] for phases that the model rejects.
    pub fn plan(
        &mut self,
        query: &str,
        phases: &[Phase],
    ) -> Result<Vec<PhaseDecision>, AdaptError> {
        let workers = self.settings.workers;
        let mut expected = Vec::with_capacity(phases.len());
        for phase in phases {
            phase.check()?;
            self.note_readers(phase);
            let current = self.current(&PhaseKey::of(phase));
            expected.push(match phase.is_idle() {
                true => 0.0,
                false => self.belief.time_ns(phase, &current, workers)?,
            });
        }
        let query_ns: f64 = expected.iter().sum();
        // GB/s are bytes per nanosecond.
        self.trial_bytes += LATER_TRIALS * query_ns * self.settings.migration_gbps;
        let mut budget = Budget {
            migration_bytes: self.settings.migration_bytes_per_run,
            query_ns,
            drawn: Vec::new(),
        };
        let mut decisions: Vec<PhaseDecision> = Vec::with_capacity(phases.len());
        for (phase, expected_ns) in phases.iter().zip(expected) {
            let key = PhaseKey::of(phase);
            // Phases with one key share a state: a second decision in the same run would act twice
            // on the same evidence.
            let again = decisions.iter().any(|d| d.key == key);
            let too_short = expected_ns < self.settings.min_phase_ns
                || expected_ns < self.settings.min_phase_share * query_ns;
            let kept = self.kept(key, phase, expected_ns);
            decisions.push(if again {
                kept.because("decided with the phase of the same kind before")
            } else if too_short {
                kept.because("too short to be worth a change")
            } else {
                self.decide(kept, phase, &mut budget)?
            });
        }
        let planned = PlannedRun {
            phases: phases.to_vec(),
            decisions: decisions.clone(),
        };
        self.planned.insert(query.to_owned(), planned);
        Ok(decisions)
    }

    /// Learns from the last planned run of `query`.
    ///
    /// `measured` has one entry per phase of the plan, `None` for a phase that was not timed.
    ///
    /// # Errors
    /// [`AdaptError::NotPlanned`] without a plan; [`AdaptError::Measured`] if the number of entries
    /// differs from the number of phases, or a time is not a positive number; [`AdaptError::Model`]
    /// if the model rejects a phase.
    pub fn learn(&mut self, query: &str, measured: &[Option<Measured>]) -> Result<(), AdaptError> {
        let Some(planned) = self.planned.get(query) else {
            return Err(AdaptError::NotPlanned {
                query: query.into(),
            });
        };
        // Checked before the plan is removed, so that the caller can report corrected times.
        check(query, &planned.phases, measured)?;
        let Some(planned) = self.planned.remove(query) else {
            return Err(AdaptError::NotPlanned {
                query: query.into(),
            });
        };
        let runs = planned.phases.iter().zip(&planned.decisions).zip(measured);
        for ((phase, decision), measured) in runs {
            if let Some(measured) = measured.as_ref().filter(|_| !phase.is_idle()) {
                self.learn_phase(phase, decision, measured)?;
            }
        }
        Ok(())
    }

    pub(super) fn std_devs(&self) -> StdDevs {
        StdDevs {
            whole: self.whole_noise.std_dev(),
            trial: self.trial_noise.std_dev(),
        }
    }

    fn learn_phase(
        &mut self,
        phase: &Phase,
        decision: &PhaseDecision,
        measured: &Measured,
    ) -> Result<(), AdaptError> {
        let workers = self.settings.workers;
        // Scaled to all tuples, to be comparable with runs without trials.
        let whole_ns = measured.time_ns / decision.rest();
        let reference = self.profile.time_ns(phase, &self.home, workers)?;
        let run = self.as_run(decision, measured, whole_ns, reference);
        // Before the run becomes evidence, as it is compared with the previous run under its
        // layout.
        self.note_noise(&decision.key, &run);
        let std_devs = self.std_devs();
        self.narrow(phase, &run, reference, std_devs)?;
        self.learn_scouts(phase, &run, reference, std_devs)?;
        self.distrust.end_run();
        let settled = self
            .states
            .get(&decision.key)
            .is_some_and(|s| s.is_settled(&self.settings));
        if !settled && decision.expected_ns >= self.settings.min_phase_ns {
            self.belief
                .learn(phase, &decision.layout, workers, whole_ns, std_devs.whole)?;
        }
        // Repeated trials of a layout count as one measurement with less noise.
        for (layout, ratio, parts) in run.each_tried() {
            let alone_ns = ratio.exp() * reference;
            let std_dev = std_devs.trial / (parts as f64).sqrt();
            self.belief
                .learn(phase, layout, workers, alone_ns, std_dev)?;
            self.state(&decision.key)
                .note_trial(layout.clone(), ratio, std_dev);
        }
        let state = self.state(&decision.key);
        state.note(run.whole, std_devs.whole);
        if let Some(latencies) = &measured.latencies {
            state.latency.note(&decision.layout, latencies);
        }
        state.evidence.note(run);
        Ok(())
    }

    /// The measured times over `reference`, ns, the phase's on the first tier by the profile.
    fn as_run(
        &self,
        decision: &PhaseDecision,
        measured: &Measured,
        whole_ns: f64,
        reference: f64,
    ) -> PhaseRun {
        let least = self.settings.min_trial_share;
        let trials = decision.trials.iter().zip(&measured.trials_ns);
        let (scouts, trials): (Vec<_>, Vec<_>) =
            trials.partition(|(trial, _)| trial.is_scout(least));
        let timed = |(trial, ns): (&Trial, &f64)| {
            (trial.layout.clone(), (ns / trial.share / reference).ln())
        };
        // Noise falls with the square root of the time, as that of independent parts does.
        let noise = |trial: &Trial| self.trial_noise.std_dev() * (least / trial.share).sqrt();
        let scouted = |(trial, ns): (&Trial, &f64)| {
            let (layout, ratio) = timed((trial, ns));
            (layout, ratio, noise(trial))
        };
        PhaseRun {
            layout: decision.layout.clone(),
            whole: (whole_ns / reference).ln(),
            trials: trials.into_iter().map(timed).collect(),
            scouts: scouts.into_iter().map(scouted).collect(),
        }
    }

    /// Scouts show what the other tiers are like, but are too short to be evidence of a gain.
    fn learn_scouts(
        &mut self,
        phase: &Phase,
        run: &PhaseRun,
        reference: f64,
        std_devs: StdDevs,
    ) -> Result<(), AdaptError> {
        for (layout, ratio, std_dev) in &run.scouts {
            let alone = PhaseRun {
                trials: vec![(layout.clone(), *ratio)],
                ..run.clone()
            };
            let noisier = StdDevs {
                trial: *std_dev,
                ..std_devs
            };
            self.narrow(phase, &alone, reference, noisier)?;
            let (workers, alone_ns) = (self.settings.workers, ratio.exp() * reference);
            self.belief
                .learn(phase, layout, workers, alone_ns, *std_dev)?;
        }
        Ok(())
    }

    /// Updates the noise estimates: repeated whole runs, and trials of one layout in the same run.
    fn note_noise(&mut self, key: &PhaseKey, run: &PhaseRun) {
        let state = self.states.get(key);
        if let Some(before) = state.and_then(|s| s.evidence.last_under(&run.layout)) {
            self.whole_noise.note(before.whole, run.whole);
        }
        for (index, (layout, time)) in run.trials.iter().enumerate() {
            if let Some((_, other)) = run.trials[..index].iter().find(|(l, _)| l == layout) {
                self.trial_noise.note(*other, *time);
            }
        }
    }

    /// Lowers the safety factors of tiers that the run's trials have loaded.
    fn narrow(
        &mut self,
        phase: &Phase,
        run: &PhaseRun,
        reference: f64,
        std_devs: StdDevs,
    ) -> Result<(), AdaptError> {
        // The furthest trial puts the most load on the other tiers, so it rules out most.
        let furthest = run
            .trials
            .iter()
            .map(|(layout, _)| layout)
            .max_by(|a, b| a.distance(&run.layout).total_cmp(&b.distance(&run.layout)));
        let Some(to) = furthest else {
            return Ok(());
        };
        let workers = self.settings.workers;
        let tried = run.trials.iter().filter(|(layout, _)| layout == to);
        let times = tried.map(|(_, time)| *time);
        let (fastest, slowest) = times.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), time| {
            (a.min(time), b.max(time))
        });
        // A phase that was disturbed makes its trials look fast, so it counts as no slower than
        // expected.
        let expected = self.belief.time_ns(phase, &run.layout, workers)?;
        let whole = run.whole.min((expected / reference).ln());
        let noise = NOISE_DEVIATIONS * std_devs.whole.hypot(std_devs.trial);
        // The slower machine differs from the belief in its factors alone, so what is uncertain of
        // the belief is uncertain of its times too.
        let modelled = MODELLED * self.belief.gain(phase, &run.layout, to, workers)?.std_dev;
        let seen = MeasuredSlowdown {
            phase,
            from: &run.layout,
            to,
            at_least: (fastest - run.whole - noise - modelled).exp(),
            at_most: (slowest - whole + noise + modelled).exp(),
        };
        let machine = self.belief.machine();
        self.distrust.narrow(machine, workers, &seen)?;
        Ok(())
    }

    pub(super) fn state(&mut self, key: &PhaseKey) -> &mut State {
        let home = &self.home;
        self.states
            .entry(key.clone())
            .or_insert_with(|| State::new(home.clone()))
    }

    fn note_readers(&mut self, phase: &Phase) {
        let key = PhaseKey::of(phase);
        for column in columns_of(phase) {
            match self.readers.get_mut(column) {
                Some(readers) if readers.contains(&key) => {}
                Some(readers) => {
                    readers.insert(key.clone());
                }
                None => {
                    let readers = BTreeSet::from([key.clone()]);
                    self.readers.insert(column.to_owned(), readers);
                }
            }
        }
    }

    /// Whether other phases read columns of this one, too.
    pub(super) fn shares_columns(&self, phase: &Phase) -> bool {
        let readers = columns_of(phase).filter_map(|column| self.readers.get(column));
        readers.map(BTreeSet::len).max().unwrap_or(0) > 1
    }

    fn current(&self, key: &PhaseKey) -> Layout {
        let state = self.states.get(key);
        state.map_or_else(|| self.home.clone(), |s| s.current.clone())
    }

    fn kept(&self, key: PhaseKey, phase: &Phase, expected_ns: f64) -> PhaseDecision {
        let current = self.current(&key);
        PhaseDecision {
            phase: phase.name.clone(),
            action: Action::Keep,
            proposed: current.clone(),
            layout: current,
            gain: 0.0,
            std_dev: 0.0,
            trials: Vec::new(),
            expected_ns,
            moved_bytes: 0,
            reason: String::new(),
            key,
        }
    }
}

fn columns_of(phase: &Phase) -> impl Iterator<Item = &str> {
    let columns = phase.accesses.iter();
    let columns = columns.filter(|a| a.class == StructureClass::Column);
    columns.map(|a| a.structure.as_str())
}

fn check(query: &str, phases: &[Phase], measured: &[Option<Measured>]) -> Result<(), AdaptError> {
    let wrong = |reason: String| AdaptError::Measured {
        query: query.into(),
        reason,
    };
    if phases.len() != measured.len() {
        return Err(wrong(format!(
            "{} times for {} phases",
            measured.len(),
            phases.len()
        )));
    }
    for (phase, measured) in phases.iter().zip(measured) {
        let Some(measured) = measured else { continue };
        let mut times = [measured.time_ns]
            .into_iter()
            .chain(measured.trials_ns.iter().copied())
            .chain(
                measured
                    .latencies
                    .iter()
                    .flat_map(|l| [Some(l.first_ns), l.others_ns])
                    .flatten(),
            );
        let impossible = times.find(|t| !(t.is_finite() && *t > 0.0));
        if let Some(time) = impossible.filter(|_| !phase.is_idle()) {
            return Err(wrong(format!("phase {} cannot take {time} ns", phase.name)));
        }
    }
    Ok(())
}
