//! What a phase does next: stay, try, move, or go back.

use super::controller::{Budget, Controller};
use super::{Action, Gain, Layout, PhaseDecision, PhaseKey};
use crate::AdaptError;
use tierloom_model::search::{Moved, Problem, Weights, best};
use tierloom_model::{ModelError, Options, Phase, StructureClass};

/// Most that a placement may lose with the certainty asked for, as a share, before a phase is moved as a whole.
pub(super) const TOLERATED_LOSS: f64 = 0.004;

/// Standard deviations above the expected gain up to which a trial is worth its cost.
const HOPE: f64 = 1.5;

/// Parts of the way to other operator memory, the largest that is safe is taken.
const PARTS: [f64; 6] = [0.75, 0.5, 0.25, 0.12, 0.06, 0.03];

/// Least gain of such a part.
const LEAST_OF_PART: f64 = 0.004;

/// Changes that are not spent on parts of a way.
pub(super) const KEPT_FOR_LAST: u32 = 2;

/// Standard deviations of a trial up to which chance explains that the model and a measured time differ.
const EXPLAINED: f64 = 4.0;

/// Moving the memory of operators too must gain so much over moving columns alone.
const OPERATORS_GAIN: f64 = 0.005;

impl Controller {
    pub(super) fn decide(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        // What is known of another phase does not hold for this one.
        self.looked.clear();
        self.misfit = None;
        let settings = self.settings.clone();
        let state = self.state(&kept.key);
        let may_change = state.changes < settings.max_changes;
        if let Some(back) = state.better_seen().filter(|_| may_change) {
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
        let Some((gain, wanted)) = self.better(&kept, phase, &wanted)? else {
            let why = if wanted == current {
                "the model wants nothing else"
            } else {
                "what the model wants was slower when it was tried"
            };
            return self.explore(kept, phase, budget, why);
        };
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
        match self.careful(&kept, phase)? {
            Some(nearer) => self.step_and_try(kept, nearer, phase, budget),
            None => self.attempt(kept, phase, budget),
        }
    }

    /// What is wanted or, if that gains more, the fastest that was measured; `None` if neither is another placement that was not refused.
    fn better(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        wanted: &Layout,
    ) -> Result<Option<(Gain, Layout)>, AdaptError> {
        let fastest = self.state(&kept.key).fastest().cloned();
        let mut better: Option<(Gain, Layout)> = None;
        for layout in [Some(wanted.clone()), fastest].into_iter().flatten() {
            if layout == kept.layout || self.is_refused(&kept.key, &layout) {
                continue;
            }
            let gain = self.gain(&kept.key, phase, &kept.layout, &layout)?;
            if better
                .as_ref()
                .is_none_or(|(best, _)| gain.mean > best.mean)
            {
                better = Some((gain, layout));
            }
        }
        Ok(better)
    }

    /// Moves the phase a part of the way and, if the wanted columns were not tried, lets them be tried in the same run.
    fn step_and_try(
        &mut self,
        kept: PhaseDecision,
        nearer: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        let moved = self.step(nearer, phase, budget)?;
        let tried = self
            .state(&kept.key)
            .were_columns_tried(&kept.wanted.columns);
        if tried || moved.action != Action::Move {
            return Ok(moved);
        }
        let further = PhaseDecision {
            wanted: kept.wanted,
            ..moved.clone()
        };
        let mut both = self.attempt(further, phase, budget)?;
        both.moved_bytes += moved.moved_bytes;
        both.reason = format!("{}; {}", moved.reason, both.reason);
        Ok(both)
    }

    /// The largest part of the way to what is wanted that cannot lose. Memory of operators cannot be tried by a part of a phase, so a small part
    /// of it is moved in the whole phase instead.
    fn careful(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
    ) -> Result<Option<PhaseDecision>, AdaptError> {
        let changes = self.state(&kept.key).changes;
        let left = self.settings.max_changes.saturating_sub(changes);
        if kept.gain < self.settings.min_gain || left <= KEPT_FOR_LAST {
            return Ok(None);
        }
        let home = self.home.clone();
        for part in PARTS {
            let mut there = self.part_way(&kept.layout, &kept.wanted, part)?;
            if !self.state(&kept.key).were_columns_tried(&there.columns) {
                there.columns = kept.layout.columns.clone();
            }
            if there == kept.layout || self.is_refused(&kept.key, &there) {
                continue;
            }
            let over_home = self.gain(&kept.key, phase, &home, &there)?;
            let gain = self.gain(&kept.key, phase, &kept.layout, &there)?;
            let worst = over_home.mean - self.settings.certainty * over_home.doubt;
            let least = if there.operators == kept.layout.operators {
                self.settings.min_gain
            } else {
                LEAST_OF_PART
            };
            let likely = gain.mean >= gain.doubt.max(least);
            if worst > -TOLERATED_LOSS && likely {
                return Ok(Some(PhaseDecision {
                    wanted: there,
                    gain: gain.mean,
                    doubt: gain.doubt,
                    ..kept.clone()
                }));
            }
        }
        Ok(None)
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

    /// The gain by the corrected model and by what was measured of this phase itself, each by its weight.
    pub(super) fn gain(
        &mut self,
        key: &PhaseKey,
        phase: &Phase,
        from: &Layout,
        to: &Layout,
    ) -> Result<Gain, AdaptError> {
        for layout in [from, to] {
            if !self.looked.iter().any(|(known, _)| known == layout) {
                let workers = self.settings.workers;
                let around = self.belief.around(phase, layout, workers)?;
                self.looked.push((layout.clone(), around));
            }
        }
        let looked = |layout: &Layout| self.looked.iter().find(|(known, _)| known == layout);
        let mut modelled = match (looked(from), looked(to)) {
            (Some((_, before)), Some((_, after))) => self.belief.gain_between(before, after),
            _ => self.belief.gain(phase, from, to, self.settings.workers)?,
        };
        modelled.doubt = modelled.doubt.hypot(self.misfit(key, phase)?);
        let measured = self.states.get(key).and_then(|s| s.measured_gain(from, to));
        Ok(match measured {
            Some(measured) => modelled.with(&measured),
            None => modelled,
        })
    }

    /// By how much placements of this phase were measured slower than the corrected model explains beyond noise, as the logarithm of a factor. A machine that
    /// no numbers make the model fit would else be believed to be known exactly, and what was tried of it be outvoted.
    fn misfit(&mut self, key: &PhaseKey, phase: &Phase) -> Result<f64, AdaptError> {
        if let Some(known) = self.misfit {
            return Ok(known);
        }
        let workers = self.settings.workers;
        let mut worst = 0.0_f64;
        if let Some(state) = self.states.get(key) {
            let reference = self.profile.time_ns(phase, &self.home, workers)?;
            let off = |layout: &Layout, measured: f64| -> Result<f64, ModelError> {
                let modelled = self.belief.time_ns(phase, layout, workers)? / reference;
                Ok(measured - modelled.ln())
            };
            // What is off under all placements alike does not decide between them.
            let at_home = match state.measured_at_home() {
                Some(measured) => off(&self.home, measured)?,
                None => 0.0,
            };
            for (layout, measured) in state.measured_off_home() {
                let slower = off(layout, measured)? - at_home;
                worst = worst.max(slower - EXPLAINED * self.settings.trial_noise);
            }
        }
        self.misfit = Some(worst);
        Ok(worst)
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
        let tried = only_operators || state.were_columns_tried(&kept.wanted.columns);
        Ok(certain && likely && tried)
    }

    /// Moves the phase towards what is wanted, as far as a step and the budget go.
    pub(super) fn step(
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

    pub(super) fn is_refused(&self, key: &PhaseKey, layout: &Layout) -> bool {
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
    pub(super) fn quiet(&mut self, kept: PhaseDecision, why: &str) -> PhaseDecision {
        self.state(&kept.key).quiet_runs += 1;
        because(kept, why)
    }
}

pub(super) fn because(kept: PhaseDecision, why: &str) -> PhaseDecision {
    PhaseDecision {
        reason: why.into(),
        ..kept
    }
}
