//! Trials: which layouts are tried on parts of a phase, and how much of it they get.

use super::controller::{Budget, Controller};
use super::deciding::{MOST_ATTEMPTS, UPPER_BOUND};
use super::{Layout, PhaseDecision, Trial};
use crate::AdaptError;
use tierloom_model::search::Weights;
use tierloom_model::{Machine, ModelError, Options, Phase, solve};

/// Number of posterior samples used for exploration.
const DRAWN: usize = 8;

/// Shares of the columns moved from one tier to another in layouts for exploration.
const AROUND: [f64; 6] = [0.02, 0.04, 0.07, 0.11, 0.16, 0.3];

/// Scale factors on the proposed share off the first tier.
///
/// [`FAR`] applies until a layout near the proposal was tried, [`CLOSE`] afterwards.
const FAR: [f64; 4] = [0.6, 1.6, 0.8, 1.25];
const CLOSE: [f64; 4] = [0.88, 1.14, 0.75, 1.3];

/// Smaller scale factors, for when all others could lose too much.
const NEARER: [f64; 5] = [0.5, 0.35, 0.2, 0.1, 0.05];

/// Number of layouts tried earlier that are repeated, and of trials per run.
const AGAIN: usize = 3;
const MOST_TRIALS: usize = 6;

/// Factor by which the loss on the worst machine may exceed the limit; such a machine is unlikely.
const UNLIKELY: f64 = 1.25;

/// Assumed loss of an untried layout, however certain the model is: slope, limit, minimum slope.
///
/// The loss is the first slope times the share of pages moved, up to the limit, but at least the
/// last slope times that share. With the default settings, two trials of minimum size at the limit
/// use 2 x 1% x 0.29 of the `trial_cost` of 0.6%.
const UNTRIED: (f64, f64, f64) = (2.0, 0.29, 1.2);

/// Number of trials per run of layouts that were never tried.
const MOST_UNTRIED: usize = 2;

/// Minimum loss assumed for any trial.
const LEAST_RISK: f64 = 0.02;

/// Runs with trials of a phase for which pages move whatever it costs: most phases need no more.
pub(super) const FIRST_ATTEMPTS: u32 = 4;

/// Runs that try neighbours of a placement although the model proposes no change.
///
/// The model may be wrong about where a tier saturates.
const POLISHED: u32 = 2;

impl Controller {
    /// Plans a trial if some machine drawn from the posterior would gain from other columns.
    ///
    /// Without that, a pessimistic estimate of a tier that was never loaded would never be
    /// corrected.
    pub(super) fn explore(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
        why: &str,
    ) -> Result<PhaseDecision, AdaptError> {
        let state = self.state(&kept.key);
        // After a move, refine the placement locally before exploring others.
        if kept.layout != state.home && state.polished < POLISHED {
            state.polished += 1;
            let around = PhaseDecision {
                proposed: kept.layout.clone(),
                ..kept
            };
            return self.attempt(around, phase, budget);
        }
        if budget.drawn.is_empty() {
            budget.drawn = self.belief.sample(DRAWN, &mut self.random);
        }
        let mut hoped: Vec<(f64, Layout)> = Vec::new();
        for layout in self.around(&kept.layout)? {
            if self.is_refused(&kept.key, &layout) {
                continue;
            }
            // The most optimistic sample decides, which directs trials to tiers that are still
            // uncertain.
            let mut most = f64::NEG_INFINITY;
            for machine in &budget.drawn {
                let time = |layout: &Layout| -> Result<f64, ModelError> {
                    let placement = layout.placement(self.belief.reference_tier());
                    let workers = self.settings.workers;
                    Ok(solve(machine, phase, &placement, workers, &Options::default())?.time_ns)
                };
                most = most.max((time(&kept.layout)? / time(&layout)?).ln());
            }
            if most >= self.settings.min_gain {
                hoped.push((most, layout));
            }
        }
        hoped.sort_by(|a, b| b.0.total_cmp(&a.0));
        if let Some((_, layout)) = hoped.into_iter().next() {
            let gain = self.gain(&kept.key, phase, &kept.layout, &layout)?;
            let asked = PhaseDecision {
                gain: gain.mean,
                std_dev: gain.std_dev,
                proposed: layout,
                ..kept
            };
            return self.attempt(asked, phase, budget);
        }
        Ok(self.quiet(kept, why))
    }

    /// Layouts that differ from this one in a share of the columns moved between two tiers.
    fn around(&self, layout: &Layout) -> Result<Vec<Layout>, ModelError> {
        let tiers: Vec<&str> = self.tiers();
        let mut found = Vec::new();
        for from in &tiers {
            let others = tiers.iter().filter(|to| *to != from);
            for (to, part) in others.flat_map(|to| AROUND.map(|part| (to, part))) {
                let moved = |weights: &Weights| -> Result<Option<Weights>, ModelError> {
                    let share = |tier: &str| weights.share(tier) + change(tier, from, to, part);
                    if share(from) < 0.0 || share(to) > 1.0 {
                        return Ok(None);
                    }
                    let percent =
                        |tier: &&str| ((*tier).to_owned(), (100.0 * share(tier)).round() as u32);
                    Weights::new(tiers.iter().map(percent)).map(Some)
                };
                if let Some(columns) = moved(&layout.columns)? {
                    let operators = layout.operators.clone();
                    found.push(Layout { columns, operators });
                }
            }
        }
        Ok(found)
    }

    /// Tiers that a search may use: all but the other socket's memory.
    pub(super) fn tiers(&self) -> Vec<&str> {
        let names = self.belief.machine().tiers.iter().map(|t| t.name.as_str());
        names
            .filter(|name| *name != "remote" || *name == self.belief.reference_tier())
            .collect()
    }

    /// Plans trials of the best layouts so far, of the proposed one, and of its neighbours.
    ///
    /// The first of them gets two trials per run: their difference is a sample of the noise.
    pub(super) fn attempt(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
        if self.state(&kept.key).attempts >= MOST_ATTEMPTS {
            return Ok(self.quiet(kept, "trials have not shown a gain"));
        }
        let candidates = self.candidates(&kept)?;
        let trials = self.trials(&kept, phase, candidates)?;
        let (mut moved_bytes, mut within) = (0, Vec::new());
        let later = self.state(&kept.key).all_attempts >= FIRST_ATTEMPTS;
        let waits = later && !trials.is_empty();
        // Pages of trials are moved before the run as well, so they count against the budget.
        for trial in trials {
            let bytes = kept.layout.moved_bytes(&trial.layout, phase) as f64 * trial.share;
            // Back again, too.
            let both_ways = 2.0 * bytes;
            if bytes as u64 <= budget.migration_bytes && (!later || both_ways <= self.trial_bytes) {
                if later {
                    self.trial_bytes -= both_ways;
                }
                budget.migration_bytes -= bytes as u64;
                moved_bytes += bytes as u64;
                within.push(trial);
            }
        }
        let trials = within;
        if trials.is_empty() && waits {
            return Ok(kept.because("pages have moved enough for trials"));
        }
        if trials.is_empty() {
            return Ok(self.quiet(kept, "a trial could lose too much"));
        }
        let state = self.state(&kept.key);
        state.quiet_runs = 0;
        state.attempts += 1;
        state.all_attempts += 1;
        let reason = format!(
            "{} may gain {:.1}% (known to {:.1}%): {:.1}% of the phase try {}",
            kept.proposed,
            100.0 * (kept.gain.exp() - 1.0),
            100.0 * kept.std_dev,
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

    /// Layouts worth trying, most valuable first.
    fn candidates(&self, kept: &PhaseDecision) -> Result<Vec<Layout>, AdaptError> {
        let columns_only = |columns: Weights| Layout {
            columns,
            operators: kept.layout.operators.clone(),
        };
        let first = self.belief.reference_tier();
        let proposed = columns_only(kept.proposed.columns.clone());
        let std_devs = self.std_devs();
        let state = self.states.get(&kept.key);
        let mut candidates: Vec<Layout> = Vec::new();
        let mut near = false;
        if state.is_some_and(|s| s.wants_control()) {
            candidates.push(columns_only(self.home.columns.clone()));
        }
        if let Some(state) = state {
            near = state.was_tried(&proposed);
            // Repeat promising trials: evidence counts only for exactly the same layout.
            let tried = state.evidence.tried(&kept.layout).into_iter();
            let mut tried: Vec<(f64, Layout)> = tried
                .filter_map(|layout| {
                    let shown = state.evidence.alone(&kept.layout, &layout, std_devs)?;
                    let hope = shown.mean + UPPER_BOUND * shown.std_dev;
                    let control = layout.columns == self.home.columns;
                    (hope > self.settings.min_gain && !control).then(|| (shown.least(0.5), layout))
                })
                .collect();
            tried.sort_by(|a, b| b.0.total_cmp(&a.0));
            candidates.extend(tried.into_iter().take(AGAIN).map(|(_, layout)| layout));
        }
        candidates.dedup();
        let mut more = vec![proposed.clone()];
        for factor in if near { CLOSE } else { FAR } {
            more.push(columns_only(scaled(&proposed.columns, first, factor)?));
        }
        // Fallbacks in case all of the above are too risky.
        for factor in NEARER {
            more.push(columns_only(scaled(&proposed.columns, first, factor)?));
        }
        for layout in more {
            if !candidates.contains(&layout) {
                candidates.push(layout);
            }
        }
        candidates.retain(|c| *c != kept.layout && !self.is_refused(&kept.key, c));
        Ok(candidates)
    }

    /// Assigns a share of the phase to each layout, within the cost limit of trials.
    ///
    /// All worst-case losses together stay below
    /// [`Settings::trial_cost`](super::Settings::trial_cost).
    ///
    /// In order, each layout gets the smallest share that can be timed. What is left of the cost
    /// enlarges the trials of layouts that were tried before.
    fn trials(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        layouts: Vec<Layout>,
    ) -> Result<Vec<Trial>, AdaptError> {
        let settings = self.settings.clone();
        let least = settings.min_trial_share;
        let mut cost = settings.trial_cost;
        let mut chosen: Vec<(Layout, Risk)> = Vec::new();
        for layout in layouts {
            if chosen.len() >= MOST_TRIALS || least * LEAST_RISK > cost {
                break;
            }
            let risk = self.risk(kept, phase, &layout, cost / least)?;
            let controls = chosen.iter().all(|(l, _)| l.columns == self.home.columns);
            let parts = if controls && layout.columns != self.home.columns {
                2
            } else {
                1
            };
            for _ in 0..parts {
                let untried = chosen.iter().filter(|(_, risk)| !risk.measured).count();
                let is_one_too_many = !risk.measured && untried >= MOST_UNTRIED;
                if least * risk.loss <= cost && chosen.len() < MOST_TRIALS && !is_one_too_many {
                    cost -= least * risk.loss;
                    chosen.push((layout.clone(), risk));
                }
            }
        }
        let more = cost / chosen.len().max(1) as f64;
        let trial = |(layout, risk): (Layout, Risk)| Trial {
            layout,
            // An untried layout gets no more than the minimum: its loss is a guess.
            share: match risk.measured {
                true => (least + more / risk.loss).min(settings.max_trial_share),
                false => least,
            },
        };
        Ok(chosen.into_iter().map(trial).collect())
    }

    /// Worst-case loss of a trial, as a share of the trial's own time.
    ///
    /// It comes from measurements of the layout if there are any. Otherwise it is the largest of
    /// the posterior's upper confidence bound, [`UNTRIED`], and the loss on the worst machine that
    /// was not ruled out. A loss above `limit` need not be exact.
    fn risk(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        layout: &Layout,
        limit: f64,
    ) -> Result<Risk, AdaptError> {
        let certainty = self.settings.certainty;
        let state = self.states.get(&kept.key);
        let measured = state.and_then(|s| s.evidence.alone(&kept.layout, layout, self.std_devs()));
        if let Some(shown) = measured {
            let hidden = self.hidden_loss(kept, phase)?;
            let loss = (hidden - shown.least(certainty)).exp() - 1.0;
            let loss = loss.max(LEAST_RISK);
            return Ok(Risk {
                loss,
                measured: true,
            });
        }
        let far = kept.layout.distance(layout);
        let untried = (UNTRIED.0 * far).min(UNTRIED.1).max(UNTRIED.2 * far);
        let worst = self.distrust.worst(self.belief.machine());
        let distrusted = self.loss_on(&worst, phase, &kept.layout, layout)?;
        let mut loss = untried.max(distrusted / UNLIKELY).max(LEAST_RISK);
        // The confidence bound is expensive (two model evaluations per number and layout), so it is
        // computed only if it can decide.
        if loss <= limit {
            let gain = self.gain(&kept.key, phase, &kept.layout, layout)?;
            loss = loss.max((certainty * gain.std_dev - gain.mean).exp() - 1.0);
        }
        Ok(Risk {
            loss,
            measured: false,
        })
    }

    /// Loss of trials that a disturbed run of their phase may have hidden, log scale.
    ///
    /// It is the excess of the run over the expected time while there is one run only; the fastest
    /// of several runs is not a disturbed one.
    fn hidden_loss(&self, kept: &PhaseDecision, phase: &Phase) -> Result<f64, AdaptError> {
        let state = self.states.get(&kept.key);
        let Some((only, 1)) = state.and_then(|s| s.evidence.whole(&kept.layout)) else {
            return Ok(0.0);
        };
        Ok(self.over_expected(kept, phase, only)?.max(0.0))
    }

    /// Excess of a measured time of a phase under its layout over the expected one, log scale.
    fn over_expected(
        &self,
        kept: &PhaseDecision,
        phase: &Phase,
        measured: f64,
    ) -> Result<f64, ModelError> {
        let workers = self.settings.workers;
        let reference = self.profile.time_ns(phase, &self.home, workers)?;
        let expected = self.belief.time_ns(phase, &kept.layout, workers)?;
        Ok(measured - (expected / reference).ln())
    }

    /// The worst machine for operator memory, of which nothing was measured off the first tier.
    ///
    /// Its first tier is as fast as the phase's own runs have shown. The corrected profile fits all
    /// phases, and for this one it may expect longer times.
    pub(super) fn worst_for_operators(
        &self,
        kept: &PhaseDecision,
        phase: &Phase,
    ) -> Result<Machine, ModelError> {
        let state = self.states.get(&kept.key);
        let faster = match state.and_then(|s| s.evidence.whole(&kept.layout)) {
            Some((measured, _)) => (-self.over_expected(kept, phase, measured)?).exp(),
            None => 1.0,
        };
        Ok(self
            .distrust
            .worst_unmeasured(self.belief.machine(), faster))
    }

    /// Extra time of `to` over `from` on a bad machine, relative to the expected time of `from`.
    pub(super) fn loss_on(
        &self,
        worst: &Machine,
        phase: &Phase,
        from: &Layout,
        to: &Layout,
    ) -> Result<f64, ModelError> {
        let workers = self.settings.workers;
        let time = |layout: &Layout| -> Result<f64, ModelError> {
            let placement = layout.placement(self.belief.reference_tier());
            Ok(solve(worst, phase, &placement, workers, &Options::default())?.time_ns)
        };
        let believed = self.belief.time_ns(phase, from, workers)?;
        Ok((time(to)? - time(from)?) / believed)
    }
}

/// Worst-case loss of a trial, as a share of the trial's own time.
#[derive(Debug, Clone, Copy)]
struct Risk {
    loss: f64,
    /// Whether the loss stems from measurements of this layout.
    measured: bool,
}

/// Multiplies the share off the first tier by `factor`, up to 1, in whole per cent.
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
    // Rounding may bring the others above 100.
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
