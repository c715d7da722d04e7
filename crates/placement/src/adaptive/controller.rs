//! The controller: plans a run, learns from it.

use super::state::State;
use super::{Action, Belief, Gain, Layout, Measured, PhaseDecision, PhaseKey, Settings, Trial};
use crate::AdaptError;
use std::collections::BTreeMap;
use tierloom_model::search::{Moved, Problem, SplitMix, Weights, best};
use tierloom_model::{Machine, ModelError, Options, Phase, StructureClass, solve};

/// Most that a placement may lose with the certainty asked for, as a share, before a phase is moved as a whole.
const TOLERATED_LOSS: f64 = 0.004;

/// Standard deviations above the expected gain up to which a trial is worth its cost.
const HOPE: f64 = 1.5;

/// Machines that are asked what else might gain.
const DRAWN: usize = 8;

/// Shares of the columns that are moved from one tier to another to see whether a drawn machine gains by it.
const AROUND: [f64; 6] = [0.02, 0.04, 0.07, 0.11, 0.16, 0.3];

/// What is tried beside the wanted placement, as factors on its share off the first tier: far away while nothing near it was tried, close by after.
const FAR: [f64; 2] = [0.6, 1.6];
const CLOSE: [f64; 2] = [0.88, 1.14];

/// Runs in which the neighbours of a placement are tried although the model wants nothing else: it may be wrong about where a tier is full.
const POLISHED: u32 = 2;

/// Moving the memory of operators too must gain so much over moving columns alone.
const OPERATORS_GAIN: f64 = 0.005;

/// Decides where the structures of queries lie, run by run.
///
/// ```text
///   phases ── plan ──> decisions: layout, trial    (run)    measured times ── learn ──> belief, memory of each phase
///               ^                                                                          │
///               └──────────────────────────────────────────────────────────────────────────┘
/// ```
///
/// Every phase starts on the first tier. Where the model, corrected by all that was measured, sees a gain, a small part of the phase runs under the
/// wanted placement: so small that a loss stays below [`Settings::trial_cost`] even where the model is wrong by the certainty asked for. Only
/// when measurements leave no doubt is the phase moved as a whole, in bounded steps and within the migration budget. A step that
/// loses is taken back and not repeated. A phase that has nothing to gain for [`Settings::settle_runs`] runs, or has
/// changed [`Settings::max_changes`] times, is left alone, so placements cannot oscillate.
#[derive(Debug, Clone)]
pub struct Controller {
    settings: Settings,
    profile: Belief,
    belief: Belief,
    home: Layout,
    states: BTreeMap<PhaseKey, State>,
    planned: BTreeMap<String, Planned>,
    random: SplitMix,
}

/// A run that was planned and not yet measured.
#[derive(Debug, Clone)]
struct Planned {
    phases: Vec<Phase>,
    decisions: Vec<PhaseDecision>,
}

/// What one run may still spend.
struct Budget {
    migration_bytes: u64,
    /// Machines drawn from what is believed, once a phase asks for them.
    drawn: Vec<Machine>,
}

impl Controller {
    /// A controller that knows nothing but the machine's profile.
    ///
    /// # Errors
    /// [`AdaptError::Model`] if the profile is impossible.
    pub fn new(machine: &Machine, settings: Settings) -> Result<Self, AdaptError> {
        let belief = Belief::new(machine, settings.profile_doubt)?;
        Ok(Controller {
            home: Layout::on(belief.first())?,
            profile: belief.clone(),
            belief,
            settings,
            states: BTreeMap::new(),
            planned: BTreeMap::new(),
            random: SplitMix::new(1),
        })
    }

    /// The limits it works in.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The machine as corrected by all measurements.
    pub fn machine(&self) -> &Machine {
        self.belief.machine()
    }

    /// How often the placement of each phase was changed.
    pub fn changes(&self) -> impl Iterator<Item = (&PhaseKey, u32)> {
        self.states.iter().map(|(key, state)| (key, state.changes))
    }

    /// Decides for every phase of a query's next run, in their order.
    ///
    /// # Errors
    /// [`AdaptError::Model`] for phases that the model cannot price.
    pub fn plan(
        &mut self,
        query: &str,
        phases: &[Phase],
    ) -> Result<Vec<PhaseDecision>, AdaptError> {
        let workers = self.settings.workers;
        let mut expected = Vec::with_capacity(phases.len());
        for phase in phases {
            phase.check()?;
            let current = self.current(&PhaseKey::of(phase));
            expected.push(match phase.is_idle() {
                true => 0.0,
                false => self.belief.time_ns(phase, &current, workers)?,
            });
        }
        let query_ns: f64 = expected.iter().sum();
        let mut budget = Budget {
            migration_bytes: self.settings.migration_bytes_per_run,
            drawn: Vec::new(),
        };
        let mut decisions: Vec<PhaseDecision> = Vec::with_capacity(phases.len());
        for (phase, expected_ns) in phases.iter().zip(expected) {
            let key = PhaseKey::of(phase);
            let again = decisions.iter().any(|d| d.key == key);
            let too_short = expected_ns < self.settings.min_phase_ns
                || expected_ns < self.settings.min_phase_share * query_ns;
            let kept = self.kept(key, phase, expected_ns);
            decisions.push(if again {
                because(kept, "decided with the phase of the same kind before")
            } else if too_short {
                because(kept, "too short to be worth a change")
            } else {
                self.decide(kept, phase, &mut budget)?
            });
        }
        let planned = Planned {
            phases: phases.to_vec(),
            decisions: decisions.clone(),
        };
        self.planned.insert(query.to_owned(), planned);
        Ok(decisions)
    }

    /// Learns from the run that was planned last for `query`; one time per phase, `None` for a phase that was not timed.
    ///
    /// # Errors
    /// [`AdaptError::NotPlanned`] without a plan; [`AdaptError::Measured`] for another number of phases or an impossible time.
    pub fn learn(&mut self, query: &str, measured: &[Option<Measured>]) -> Result<(), AdaptError> {
        let Some(planned) = self.planned.get(query) else {
            return Err(AdaptError::NotPlanned {
                query: query.into(),
            });
        };
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

    fn learn_phase(
        &mut self,
        phase: &Phase,
        decision: &PhaseDecision,
        measured: &Measured,
    ) -> Result<(), AdaptError> {
        let (workers, noise) = (self.settings.workers, self.settings.noise);
        let whole_ns = measured.time_ns / decision.rest();
        let reference = self.profile.time_ns(phase, &self.home, workers)?;
        let settled = self
            .states
            .get(&decision.key)
            .is_some_and(|s| s.is_settled(&self.settings));
        if !settled && decision.expected_ns >= self.settings.min_phase_ns {
            self.belief
                .learn(phase, &decision.layout, workers, whole_ns, noise)?;
        }
        for (trial, trial_ns) in decision.trials.iter().zip(&measured.trials_ns) {
            let alone_ns = trial_ns / trial.share;
            let noise = self.settings.trial_noise;
            self.belief
                .learn(phase, &trial.layout, workers, alone_ns, noise)?;
            let ratio = (alone_ns / reference).ln();
            self.state(&decision.key)
                .note_trial(trial.layout.clone(), ratio, noise);
        }
        self.state(&decision.key)
            .note((whole_ns / reference).ln(), noise);
        Ok(())
    }

    fn state(&mut self, key: &PhaseKey) -> &mut State {
        let home = &self.home;
        self.states
            .entry(key.clone())
            .or_insert_with(|| State::new(home.clone()))
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
            wanted: current.clone(),
            layout: current,
            gain: 0.0,
            doubt: 0.0,
            trials: Vec::new(),
            expected_ns,
            moved_bytes: 0,
            reason: String::new(),
            key,
        }
    }

    fn decide(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        let settings = self.settings.clone();
        let state = self.state(&kept.key);
        if let Some(back) = state.better_seen() {
            state.give_up_for(back.clone());
            return self.back(kept, phase, back);
        }
        if state.is_settled(&settings) {
            return Ok(because(kept, "settled"));
        }
        if state.runs_since_change < settings.cool_down_runs {
            return Ok(because(kept, "cools down after a change"));
        }
        let current = kept.layout.clone();
        let wanted = self.wanted(phase)?;
        if wanted == current {
            return self.explore(kept, phase, budget, "the model wants nothing else");
        }
        if self.is_refused(&kept.key, &wanted) {
            let why = "what the model wants was slower when it was tried";
            return self.explore(kept, phase, budget, why);
        }
        let mut gain = self.gain(&kept.key, phase, &current, &wanted)?;
        let mut wanted = wanted;
        let fastest = self
            .states
            .get(&kept.key)
            .and_then(|s| s.fastest().cloned());
        if let Some(fastest) = fastest.filter(|f| *f != current && *f != wanted) {
            let other = self.gain(&kept.key, phase, &current, &fastest)?;
            if other.mean > gain.mean && !self.is_refused(&kept.key, &fastest) {
                (gain, wanted) = (other, fastest);
            }
        }
        let kept = PhaseDecision {
            wanted,
            gain: gain.mean,
            doubt: gain.doubt,
            ..kept
        };
        if gain.mean + HOPE * gain.doubt < settings.min_gain {
            let why = "less to gain than is worth a change";
            return self.explore(kept, phase, budget, why);
        }
        if self.is_shown(&kept, phase)? {
            return self.step(kept, phase, budget);
        }
        self.attempt(kept, phase, budget)
    }

    /// The best placement by the corrected machine.
    fn wanted(&self, phase: &Phase) -> Result<Layout, AdaptError> {
        let options = Options::default();
        let phases = std::slice::from_ref(phase);
        let workers = self.settings.workers;
        let problem = Problem::new(self.belief.machine(), phases, workers, &options);
        let has_columns = phase
            .accesses
            .iter()
            .any(|a| a.class == StructureClass::Column);
        if !has_columns {
            return Ok(self.home.clone());
        }
        let columns = Problem {
            moved: Moved::Classes(vec![StructureClass::Column]),
            ..problem.clone()
        };
        let (columns, all) = (best(&columns)?.weights, best(&problem)?.weights);
        let alone = Layout {
            columns,
            operators: self.home.operators.clone(),
        };
        let together = Layout {
            columns: all.clone(),
            operators: all,
        };
        let time = |layout: &Layout| self.belief.time_ns(phase, layout, workers);
        let better = time(&together)? < time(&alone)? * (1.0 - OPERATORS_GAIN);
        Ok(if better { together } else { alone })
    }

    /// Looks whether a machine that may be the true one gains by other columns, and lets a part of the phase try it: what is believed of a
    /// tier that nothing has loaded yet would else never be put right.
    fn explore(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
        why: &str,
    ) -> Result<PhaseDecision, AdaptError> {
        let state = self.state(&kept.key);
        if kept.layout != state.home && state.polished < POLISHED {
            state.polished += 1;
            let around = PhaseDecision {
                wanted: kept.layout.clone(),
                ..kept
            };
            return self.attempt(around, phase, budget);
        }
        if budget.drawn.is_empty() {
            budget.drawn = self.belief.sample(DRAWN, &mut self.random)?;
        }
        let mut most: Option<(f64, Layout)> = None;
        let around = self.around(&kept.layout)?;
        for machine in &budget.drawn {
            let time = |layout: &Layout| -> Result<f64, ModelError> {
                let placement = layout.placement(self.belief.first());
                let workers = self.settings.workers;
                Ok(solve(machine, phase, &placement, workers, &Options::default())?.time_ns)
            };
            let now = time(&kept.layout)?;
            for layout in &around {
                let gain = (now / time(layout)?).ln();
                if most.as_ref().is_none_or(|(best, _)| gain > *best) {
                    most = Some((gain, layout.clone()));
                }
            }
        }
        match most {
            Some((hoped, layout))
                if hoped >= self.settings.min_gain && !self.is_refused(&kept.key, &layout) =>
            {
                let gain = self.gain(&kept.key, phase, &kept.layout, &layout)?;
                let asked = PhaseDecision {
                    wanted: layout,
                    gain: gain.mean,
                    doubt: gain.doubt,
                    ..kept
                };
                self.attempt(asked, phase, budget)
            }
            _ => Ok(self.quiet(kept, why)),
        }
    }

    /// Layouts with a part of the columns moved from one tier to another.
    fn around(&self, layout: &Layout) -> Result<Vec<Layout>, ModelError> {
        let tiers: Vec<&str> = self.tiers();
        let mut found = Vec::new();
        for from in &tiers {
            let others = tiers.iter().filter(|to| *to != from);
            for (to, part) in others.flat_map(|to| AROUND.map(|part| (to, part))) {
                let share = |tier: &str| layout.columns.share(tier) + change(tier, from, to, part);
                if share(from) < 0.0 || share(to) > 1.0 {
                    continue;
                }
                let percent =
                    |tier: &&str| ((*tier).to_owned(), (100.0 * share(tier)).round() as u32);
                found.push(Layout {
                    columns: Weights::new(tiers.iter().map(percent))?,
                    operators: layout.operators.clone(),
                });
            }
        }
        Ok(found)
    }

    /// Tiers that may be used: those of a search.
    fn tiers(&self) -> Vec<&str> {
        let names = self.belief.machine().tiers.iter().map(|t| t.name.as_str());
        names
            .filter(|name| *name != "remote" || *name == self.belief.first())
            .collect()
    }

    /// The gain by the corrected model and by what was measured of this phase itself, each by its weight.
    fn gain(
        &mut self,
        key: &PhaseKey,
        phase: &Phase,
        from: &Layout,
        to: &Layout,
    ) -> Result<Gain, AdaptError> {
        let modelled = self.belief.gain(phase, from, to, self.settings.workers)?;
        let measured = self.states.get(key).and_then(|s| s.measured_gain(from, to));
        Ok(match measured {
            Some(measured) => modelled.with(&measured),
            None => modelled,
        })
    }

    /// Whether measurements leave no doubt that the wanted placement does not lose against the first tier, and make it likely that it gains
    /// over the present one.
    fn is_shown(&mut self, kept: &PhaseDecision, phase: &Phase) -> Result<bool, AdaptError> {
        let home = self.home.clone();
        let over_home = if kept.wanted == home {
            Gain {
                mean: 0.0,
                doubt: 0.0,
            }
        } else {
            self.gain(&kept.key, phase, &home, &kept.wanted)?
        };
        let certain = over_home.mean - self.settings.certainty * over_home.doubt > -TOLERATED_LOSS;
        let likely = kept.gain >= self.settings.min_gain && kept.gain >= kept.doubt;
        let only_operators = kept.wanted.columns == kept.layout.columns;
        let state = self.state(&kept.key);
        let tried = state.measured_gain(&home, &kept.wanted).is_some();
        let was_home = kept.layout == home;
        Ok(certain && likely && (tried || only_operators || !was_home))
    }

    /// Moves the phase towards what is wanted, as far as a step and the budget go.
    fn step(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        let settings = &self.settings;
        let (from, wanted) = (kept.layout.clone(), kept.wanted.clone());
        let bytes = from.moved_bytes(&wanted, phase);
        let saved_ns = kept.expected_ns * (1.0 - (-kept.gain).exp());
        let cost_ns = bytes as f64 / settings.migration_gbps;
        if saved_ns * settings.expected_runs < cost_ns {
            return Ok(self.quiet(kept, "moving the pages costs more than it will save"));
        }
        let by_step = settings.max_step / from.distance(&wanted).max(1e-9);
        let by_budget = budget.migration_bytes as f64 / (bytes as f64).max(1.0);
        let part = by_step.min(by_budget).min(1.0);
        let to = if part < 1.0 {
            self.part_way(&from, &wanted, part)?
        } else {
            wanted
        };
        if to == from {
            return Ok(because(kept, "waits for the migration budget"));
        }
        let moved_bytes = from.moved_bytes(&to, phase);
        budget.migration_bytes = budget.migration_bytes.saturating_sub(moved_bytes);
        let expected_ns = self.belief.time_ns(phase, &to, self.settings.workers)?;
        self.state(&kept.key).change(to.clone());
        let reason = format!(
            "{to} is {:.1}% faster than {from}, known to {:.1}%",
            100.0 * (kept.gain.exp() - 1.0),
            100.0 * kept.doubt
        );
        Ok(PhaseDecision {
            action: Action::Move,
            layout: to,
            expected_ns,
            moved_bytes,
            reason,
            ..kept
        })
    }

    fn part_way(&self, from: &Layout, to: &Layout, part: f64) -> Result<Layout, ModelError> {
        let tiers = &self.belief.machine().tiers;
        let between = |from: &Weights, to: &Weights| {
            Weights::new(tiers.iter().map(|t| {
                let (a, b) = (from.share(&t.name), to.share(&t.name));
                (
                    t.name.clone(),
                    (100.0 * (a + part * (b - a))).round() as u32,
                )
            }))
        };
        Ok(Layout {
            columns: between(&from.columns, &to.columns)?,
            operators: between(&from.operators, &to.operators)?,
        })
    }

    /// Lets parts of the phase try what is wanted and what lies to both sides of it, as large as their risks allow.
    fn attempt(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        let columns_only = |columns: Weights| Layout {
            columns,
            operators: kept.layout.operators.clone(),
        };
        let first = self.belief.first().to_owned();
        let wanted = columns_only(kept.wanted.columns.clone());
        let mut trials = Vec::new();
        let (mut moved_bytes, mut too_risky) = (0, false);
        let near = self
            .states
            .get(&kept.key)
            .is_some_and(|s| s.was_tried(&wanted));
        let beside = if near { CLOSE } else { FAR };
        let beside = beside
            .iter()
            .map(|factor| scaled(&wanted.columns, &first, *factor));
        for columns in [Ok(wanted.columns.clone())].into_iter().chain(beside) {
            let layout = columns_only(columns?);
            let known = trials.iter().any(|t: &Trial| t.layout == layout);
            if known || layout == kept.layout || self.is_refused(&kept.key, &layout) {
                continue;
            }
            let share = self.trial_share(&kept, phase, &layout)?;
            let bytes = (kept.layout.moved_bytes(&layout, phase) as f64 * share) as u64;
            if share < self.settings.min_trial_share {
                too_risky = true;
            } else if bytes <= budget.migration_bytes {
                budget.migration_bytes -= bytes;
                moved_bytes += bytes;
                trials.push(Trial { layout, share });
            }
        }
        if trials.is_empty() && too_risky {
            return Ok(self.quiet(kept, "a trial could lose too much"));
        }
        if trials.is_empty() {
            return Ok(self.quiet(kept, "nothing is left that a part of the phase could try"));
        }
        self.state(&kept.key).quiet_runs = 0;
        let reason = format!(
            "{wanted} may gain {:.1}% (known to {:.1}%): {:.1}% of the phase try {}",
            100.0 * (kept.gain.exp() - 1.0),
            100.0 * kept.doubt,
            100.0 * trials.iter().map(|t| t.share).sum::<f64>(),
            trials
                .iter()
                .map(|t| t.layout.columns.to_string())
                .collect::<Vec<_>>()
                .join(" or ")
        );
        Ok(PhaseDecision {
            trials,
            moved_bytes,
            reason,
            ..kept
        })
    }

    /// How much of the phase may try `layout`: all that it could lose stays below its part of the cost of trials.
    fn trial_share(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        layout: &Layout,
    ) -> Result<f64, AdaptError> {
        let settings = self.settings.clone();
        let gain = self.gain(&kept.key, phase, &kept.layout, layout)?;
        let worst = gain.mean - settings.certainty * gain.doubt;
        let risk = ((-worst).exp() - 1.0).max(1e-9);
        let cost = settings.trial_cost / (1 + FAR.len()) as f64;
        Ok((cost / risk).min(settings.max_trial_share))
    }

    fn is_refused(&self, key: &PhaseKey, layout: &Layout) -> bool {
        self.states.get(key).is_some_and(|s| s.is_refused(layout))
    }

    fn back(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        to: Layout,
    ) -> Result<PhaseDecision, AdaptError> {
        let reason = format!("{} was measured slower than {to}", kept.layout);
        Ok(PhaseDecision {
            action: Action::Return,
            moved_bytes: kept.layout.moved_bytes(&to, phase),
            expected_ns: self.belief.time_ns(phase, &to, self.settings.workers)?,
            wanted: to.clone(),
            layout: to,
            reason,
            ..kept
        })
    }

    /// Nothing happens, and if that goes on the phase is settled.
    fn quiet(&mut self, kept: PhaseDecision, why: &str) -> PhaseDecision {
        self.state(&kept.key).quiet_runs += 1;
        because(kept, why)
    }
}

/// The weights with `factor` times as much off the first tier, in whole per cent.
fn scaled(weights: &Weights, first: &str, factor: f64) -> Result<Weights, ModelError> {
    let off = (1.0 - weights.share(first)).max(0.0);
    let factor = if off > 0.0 {
        factor.min(1.0 / off)
    } else {
        1.0
    };
    let others = weights.iter().filter(|(tier, _)| *tier != first);
    let percent = |share: f64| (100.0 * share).round() as u32;
    let mut scaled: Vec<(&str, u32)> = others
        .map(|(tier, _)| (tier, percent(factor * weights.share(tier))))
        .collect();
    let moved: u32 = scaled.iter().map(|(_, w)| w).sum();
    scaled.insert(0, (first, 100_u32.saturating_sub(moved)));
    Weights::new(scaled)
}

fn change(tier: &str, from: &str, to: &str, part: f64) -> f64 {
    match tier {
        tier if tier == from => -part,
        tier if tier == to => part,
        _ => 0.0,
    }
}

fn because(kept: PhaseDecision, why: &str) -> PhaseDecision {
    PhaseDecision {
        reason: why.into(),
        ..kept
    }
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
            .chain(measured.trials_ns.iter().copied());
        let impossible = times.find(|t| !(t.is_finite() && *t > 0.0));
        if let Some(time) = impossible.filter(|_| !phase.is_idle()) {
            return Err(wrong(format!("phase {} cannot take {time} ns", phase.name)));
        }
    }
    Ok(())
}
