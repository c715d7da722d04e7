//! What parts of a phase try, and what else might gain.

use super::controller::{Budget, Controller};
use super::deciding::{KEPT_FOR_LAST, TOLERATED_LOSS};
use super::{Layout, PhaseDecision, Trial};
use crate::AdaptError;
use tierloom_model::search::Weights;
use tierloom_model::{ModelError, Options, Phase, solve};

/// Machines that are asked what else might gain.
const DRAWN: usize = 8;

/// Shares of the columns that are moved from one tier to another to see whether a drawn machine gains by it.
const AROUND: [f64; 6] = [0.02, 0.04, 0.07, 0.11, 0.16, 0.3];

/// Layouts of them that are looked at closer, the most promising ones.
const MOST_ASKED: usize = 4;

/// What is tried beside the wanted placement, as factors on its share off the first tier: far away while nothing near it was tried, close by after.
const FAR: [f64; 4] = [0.6, 1.6, 0.8, 1.25];
const CLOSE: [f64; 4] = [0.88, 1.14, 0.75, 1.3];

/// Runs in which the neighbours of a placement are tried although the model wants nothing else: it may be wrong about where a tier is full.
const POLISHED: u32 = 2;

impl Controller {
    /// Looks whether a machine that may be the true one gains by other columns, and lets a part of the phase try it: what is believed of a
    /// tier that nothing has loaded yet would else never be put right.
    pub(super) fn explore(
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
            budget.drawn = self.belief.sample(DRAWN, &mut self.random);
        }
        let mut hoped: Vec<(f64, Layout)> = Vec::new();
        for layout in self.around(&kept.layout)? {
            if self.is_refused(&kept.key, &layout) {
                continue;
            }
            let mut most = f64::NEG_INFINITY;
            for machine in &budget.drawn {
                let time = |layout: &Layout| -> Result<f64, ModelError> {
                    let placement = layout.placement(self.belief.first());
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
        let left = self
            .settings
            .max_changes
            .saturating_sub(self.state(&kept.key).changes);
        for (_, layout) in hoped.into_iter().take(MOST_ASKED) {
            let gain = self.gain(&kept.key, phase, &kept.layout, &layout)?;
            let asked = PhaseDecision {
                gain: gain.mean,
                doubt: gain.doubt,
                wanted: layout,
                ..kept.clone()
            };
            if asked.wanted.operators == kept.layout.operators {
                return self.attempt(asked, phase, budget);
            }
            let worst = gain.mean - self.settings.certainty * gain.doubt;
            if worst > -TOLERATED_LOSS && left > KEPT_FOR_LAST {
                return self.step(asked, phase, budget);
            }
        }
        Ok(self.quiet(kept, why))
    }

    /// Layouts with a part of the columns, or of the memory of operators, moved from one tier to another.
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
                if let Some(operators) = moved(&layout.operators)? {
                    let columns = layout.columns.clone();
                    found.push(Layout { columns, operators });
                }
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

    /// Lets parts of the phase try what is wanted and what lies to both sides of it, as large as their risks allow.
    pub(super) fn attempt(
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
        let near = self
            .states
            .get(&kept.key)
            .is_some_and(|s| s.was_tried(&wanted));
        let beside = if near { CLOSE } else { FAR };
        let mut candidates = vec![wanted.clone()];
        for factor in beside {
            let layout = columns_only(scaled(&wanted.columns, &first, factor)?);
            if !candidates.contains(&layout) {
                candidates.push(layout);
            }
        }
        candidates.retain(|c| *c != kept.layout && !self.is_refused(&kept.key, c));
        let (trials, too_risky) = self.trials(&kept, phase, candidates)?;
        let (mut moved_bytes, mut within) = (0, Vec::new());
        for trial in trials {
            let bytes = kept.layout.moved_bytes(&trial.layout, phase) as f64 * trial.share;
            if bytes as u64 <= budget.migration_bytes {
                budget.migration_bytes -= bytes as u64;
                moved_bytes += bytes as u64;
                within.push(trial);
            }
        }
        let trials = within;
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

    /// How much of the phase may try each layout: all that they could lose together stays below the cost of trials. The first ones come first, each
    /// with the smallest part that can be timed; what is left of the cost makes all parts larger. Also whether one was too risky.
    fn trials(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        layouts: Vec<Layout>,
    ) -> Result<(Vec<Trial>, bool), AdaptError> {
        let settings = self.settings.clone();
        let (least, most) = (settings.min_trial_share, settings.max_trial_share);
        let (mut cost, mut too_risky) = (settings.trial_cost, false);
        let mut chosen = Vec::new();
        for layout in layouts {
            let gain = self.gain(&kept.key, phase, &kept.layout, &layout)?;
            let worst = gain.mean - settings.certainty * gain.doubt;
            let risk = ((-worst).exp() - 1.0).max(1e-9);
            if least * risk <= cost {
                cost -= least * risk;
                chosen.push((layout, risk));
            } else {
                too_risky = true;
            }
        }
        let more = cost / chosen.len().max(1) as f64;
        let trial = |(layout, risk): (Layout, f64)| Trial {
            layout,
            share: (least + more / risk).min(most),
        };
        Ok((chosen.into_iter().map(trial).collect(), too_risky))
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
