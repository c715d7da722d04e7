//! Next action of a phase: keep its placement, try others, move, or return.
//!
//! The order of the checks is the policy: a placement that failed is taken back even in a settled
//! phase; measured gains come before what the model proposes; operator memory is considered only
//! when no trial shows a further gain; exploration comes last.

use super::controller::{Budget, Controller};
use super::evidence::{MeasuredGain, VISIBLE};
use super::{Action, Gain, Layout, PhaseDecision, PhaseKey};
use crate::AdaptError;
use tierloom_model::search::{Moved, Problem, Weights, best};
use tierloom_model::{ModelError, Options, Phase, StructureClass};

/// Largest loss against the first tier that a move may risk, as a share, at [`CERTAINTY`].
const TOLERATED_LOSS: f64 = 0.005;

/// Standard deviations by which the measurements must exclude a larger loss.
///
/// Under normal noise the chance to be wrong is one in thirty thousand.
pub(super) const CERTAINTY: f64 = 4.0;

/// Standard deviations by which the gain must exceed 0.
const LIKELY: f64 = 2.0;

/// Runs that must show a gain; one is enough where the proven gain is above [`ONE_RUN_ABOVE`].
const LEAST_RUNS: usize = 2;
const ONE_RUN_ABOVE: f64 = 0.03;

/// Runs with trials but no move after which trials end.
pub(super) const MOST_ATTEMPTS: u32 = 8;

/// Standard deviations of the upper confidence bound that decides whether a trial is worthwhile.
pub(super) const UPPER_BOUND: f64 = 1.5;

/// Standard deviations of a trial within which a residual is attributed to noise.
const EXPLAINED: f64 = 4.0;

impl Controller {
    pub(super) fn decide(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        // The caches hold times of another phase.
        self.looked.clear();
        self.misfit = None;
        let settings = self.settings.clone();
        let std_devs = self.std_devs();
        let state = self.state(&kept.key);
        // A return counts as a change too, so the limit also bounds how often placements are taken
        // back.
        let may_change = state.changes < settings.max_changes;
        if may_change && let Some(to) = state.go_back(std_devs) {
            return self.back(kept, to, phase);
        }
        state.confirm(std_devs, CERTAINTY);
        // Checked after the return: a settled phase can still be taken back.
        let is_settled = state.is_settled(&settings);
        if (is_settled || self.has_few_columns(phase))
            && let Some(step) = self.latency_step(&kept, phase, budget.query_ns)?
        {
            return Ok(step);
        }
        if is_settled {
            return Ok(kept.because("settled"));
        }
        let state = self.state(&kept.key);
        if state.runs_since_change < settings.cool_down_runs {
            return Ok(kept.because("cools down after a change"));
        }
        // Measured gains come first: they do not depend on the model.
        if let Some((shown, to)) = self.shown(&kept) {
            let kept = PhaseDecision {
                proposed: to,
                gain: shown.mean,
                std_dev: shown.std_dev,
                ..kept
            };
            return self.step_and_try(kept, shown, phase, budget);
        }
        if let Some((hoped, to)) = self.operators(&kept, phase)? {
            let kept = PhaseDecision {
                proposed: to,
                gain: hoped.mean,
                std_dev: hoped.std_dev,
                ..kept
            };
            return self.step_and_try(kept, hoped, phase, budget);
        }
        let proposed = self.proposed(phase, &kept.layout)?;
        let is_near = kept.layout.distance(&proposed) < VISIBLE;
        if is_near || self.is_refused(&kept.key, &proposed) {
            let why = if is_near {
                "the model wants nothing else"
            } else {
                "what the model wants was slower when it was tried"
            };
            return self.explore(kept, phase, budget, why);
        }
        let gain = self.gain(&kept.key, phase, &kept.layout, &proposed)?;
        let kept = PhaseDecision {
            proposed,
            gain: gain.mean,
            std_dev: gain.std_dev,
            ..kept
        };
        // An upper confidence bound: an uncertain proposal deserves a trial even if its expected
        // gain is small.
        if gain.mean + UPPER_BOUND * gain.std_dev < settings.min_gain {
            let why = "less to gain than is worth a change";
            return self.explore(kept, phase, budget, why);
        }
        self.attempt(kept, phase, budget)
    }

    /// The placement with the best measured gain.
    ///
    /// Only placements whose lower confidence bound excludes a loss against the first tier qualify.
    fn shown(&self, kept: &PhaseDecision) -> Option<(MeasuredGain, Layout)> {
        let (state, std_devs) = (self.states.get(&kept.key)?, self.std_devs());
        let mut best: Option<(f64, MeasuredGain, Layout)> = None;
        for to in state.evidence.tried(&kept.layout) {
            if to == kept.layout || state.is_refused(&to) {
                continue;
            }
            let evidence = &state.evidence;
            let Some(shown) = evidence.shown(&kept.layout, &to, std_devs, CERTAINTY) else {
                continue;
            };
            // The loss is bounded against the first tier, so gains proven earlier may be put at
            // risk again.
            let certain = state.proven + shown.least(CERTAINTY) > -TOLERATED_LOSS;
            let likely = shown.mean >= self.settings.min_gain && shown.least(LIKELY) > 0.0;
            // Scouts of earlier runs agree.
            let scouted = evidence.scouted(&kept.layout, &to, std_devs);
            let is_scouted = scouted.is_some_and(|scouted| scouted.least(LIKELY) > 0.0);
            let runs = match state.proven > ONE_RUN_ABOVE || is_scouted {
                true => 1,
                false => LEAST_RUNS,
            };
            if !(certain && likely && shown.runs >= runs) {
                continue;
            }
            // Scored without the support of trials further out: that support would favour layouts
            // close to the current one.
            let alone = evidence.alone(&kept.layout, &to, std_devs);
            let score = alone.map_or(0.0, |alone| alone.least(1.0));
            if best.as_ref().is_none_or(|(most, ..)| score > *most) {
                best = Some((score, shown, to));
            }
        }
        best.map(|(_, shown, to)| (shown, to))
    }

    /// Best weights of the columns on the corrected machine, operator memory left where it is.
    fn proposed(&self, phase: &Phase, current: &Layout) -> Result<Layout, AdaptError> {
        let columns = self.best_of(phase, current, &[StructureClass::Column])?;
        Ok(Layout {
            columns: columns.unwrap_or_else(|| self.home.columns.clone()),
            operators: current.operators.clone(),
        })
    }

    /// Best weights for structures of these classes, all others fixed; `None` if there are none.
    pub(super) fn best_of(
        &self,
        phase: &Phase,
        current: &Layout,
        classes: &[StructureClass],
    ) -> Result<Option<Weights>, ModelError> {
        let mut classes = classes.to_vec();
        classes.retain(|class| phase.accesses.iter().any(|a| a.class == *class));
        if classes.is_empty() {
            return Ok(None);
        }
        let options = Options::default();
        let phases = std::slice::from_ref(phase);
        let problem = Problem {
            moved: Moved::Classes(classes),
            base: current.placement(self.belief.reference_tier()),
            ..Problem::new(
                self.belief.machine(),
                phases,
                self.settings.workers,
                &options,
            )
        };
        Ok(Some(best(&problem)?.weights))
    }

    /// Modelled and measured gain of this phase, combined by inverse variance.
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
        modelled.std_dev = modelled.std_dev.hypot(self.misfit(key, phase)?);
        let measured = self.states.get(key).and_then(|s| s.measured_gain(from, to));
        Ok(match measured {
            Some(measured) => modelled.with(&measured),
            None => modelled,
        })
    }

    /// Largest log-scale excess of a placement's measured time over the model, beyond noise.
    ///
    /// It is added to the model's uncertainty. Where no values of the numbers make the model fit
    /// the machine, the posterior would otherwise become narrow around a wrong estimate and
    /// outweigh the trials.
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
            // An offset common to all placements does not affect their comparison.
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

    /// Moves the phase and plans trials for the same run.
    ///
    /// They include a control part on the first tier, which shows the gain within one run.
    fn step_and_try(
        &mut self,
        kept: PhaseDecision,
        shown: MeasuredGain,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        let moved = self.step(kept, shown, phase, budget)?;
        if moved.action != Action::Move {
            return Ok(moved);
        }
        // The move may have stopped halfway or changed operator memory, so the best columns are
        // computed again from where it ended.
        let further = PhaseDecision {
            proposed: self.proposed(phase, &moved.layout)?,
            ..moved.clone()
        };
        let tried = self.attempt(further, phase, budget)?;
        if tried.trials.is_empty() {
            return Ok(moved);
        }
        Ok(PhaseDecision {
            moved_bytes: moved.moved_bytes + tried.moved_bytes,
            reason: format!("{}; {}", moved.reason, tried.reason),
            ..tried
        })
    }

    /// Moves the phase towards the proposed placement, limited by step size and migration budget.
    fn step(
        &mut self,
        kept: PhaseDecision,
        shown: MeasuredGain,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        let settings = &self.settings;
        let (from, proposed) = (kept.layout.clone(), kept.proposed.clone());
        let bytes = from.moved_bytes(&proposed, phase);
        let saved_ns = kept.expected_ns * (1.0 - (-kept.gain).exp());
        // Bytes over GB/s are nanoseconds.
        let cost_ns = bytes as f64 / settings.migration_gbps;
        if saved_ns * settings.expected_runs < cost_ns {
            return Ok(self.quiet(kept, "moving the pages costs more than it will save"));
        }
        let by_step = settings.max_step / from.distance(&proposed).max(1e-9);
        let by_budget = budget.migration_bytes as f64 / (bytes as f64).max(1.0);
        let part = by_step.min(by_budget).min(1.0);
        let to = if part < 1.0 {
            self.part_way(&from, &proposed, part)?
        } else {
            proposed
        };
        if to == from {
            return Ok(kept.because("waits for the migration budget"));
        }
        let moved_bytes = from.moved_bytes(&to, phase);
        budget.migration_bytes = budget.migration_bytes.saturating_sub(moved_bytes);
        let expected_ns = self.belief.time_ns(phase, &to, self.settings.workers)?;
        let state = self.state(&kept.key);
        // Interpolation: part of the way counts as that part of the gain, not more.
        let part = part.min(1.0);
        let proven = state.proven + part * shown.least(CERTAINTY).min(shown.mean);
        let promised = state.promised + part * shown.mean;
        state.change(to.clone(), proven, promised);
        let reason = format!(
            "{to} is {:.1}% faster than {from}, known to {:.1}%",
            100.0 * (kept.gain.exp() - 1.0),
            100.0 * kept.std_dev
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

    pub(super) fn part_way(
        &self,
        from: &Layout,
        to: &Layout,
        part: f64,
    ) -> Result<Layout, ModelError> {
        let tiers = &self.belief.machine().tiers;
        // Weights are integers, so shares are rounded to whole per cent; a tiny step may come out
        // as none.
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
        to: Layout,
        phase: &Phase,
    ) -> Result<PhaseDecision, AdaptError> {
        let reason = format!("{} did not keep what trials had shown", kept.layout);
        Ok(PhaseDecision {
            action: Action::Return,
            moved_bytes: kept.layout.moved_bytes(&to, phase),
            expected_ns: self.belief.time_ns(phase, &to, self.settings.workers)?,
            proposed: to.clone(),
            layout: to,
            reason,
            ..kept
        })
    }

    /// Keeps the placement and counts a run without action; enough of them settle the phase.
    pub(super) fn quiet(&mut self, kept: PhaseDecision, why: &str) -> PhaseDecision {
        self.state(&kept.key).quiet_runs += 1;
        kept.because(why)
    }
}
