//! Trials: which layouts are tried on parts of a phase, and how much of it they get.

use super::controller::{Budget, Controller};
use super::deciding::{MOST_ATTEMPTS, UPPER_BOUND};
use super::evidence::VISIBLE;
use super::layout::moved_share;
use super::risks::Risk;
use super::{Layout, PhaseDecision, Trial};
use crate::AdaptError;
use tierloom_model::search::Weights;
use tierloom_model::{ModelError, Options, Phase, solve};

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

/// Number of trials per run of layouts that were never tried.
const MOST_UNTRIED: usize = 1;

/// Share of the cost of trials that is for a scout, and the smallest and the largest share of a
/// scout over the smallest one of other trials.
///
/// A scout is a trial of a layout of which other trials would cost too much. It is too short to
/// show a gain, but shows whether the other tiers are as bad as they might be.
const SCOUTING: f64 = 0.4;
const LEAST_SCOUT: f64 = 0.1;
const LARGEST_SCOUT: f64 = 0.5;

/// Runs in which a later trial has to earn what its pages cost, the standard deviations by which
/// its gain may be smaller than expected, and the number of such trials of a phase.
const PAYBACK_RUNS: f64 = 10.0;
const UNLIKELY_GAIN: f64 = 2.0;
const MOST_PAID: u32 = 8;

/// Runs in a row in which a phase waits until pages may move for its trials.
const MOST_WAITS: u32 = 8;

/// Share of the pages off the first tier within which a layout that was tried stands for the
/// proposed one.
const CLOSE_ENOUGH: f64 = 0.25;

/// Runs with trials of a phase in which several layouts are tried on larger parts. Afterwards each
/// byte counts: the most promising layout is tried as often as it has to be.
const LARGE_ATTEMPTS: u32 = 3;

/// Runs with trials of a phase for which pages move whatever it costs: most phases need no more.
pub(super) const FIRST_ATTEMPTS: u32 = 10;

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
        let kept = self.with_known_proposal(kept);
        let candidates = self.candidates(&kept)?;
        let mut trials = self.trials(&kept, phase, candidates)?;
        if self.state(&kept.key).all_attempts >= LARGE_ATTEMPTS {
            trials = fewest(trials, &self.home, self.settings.min_trial_share);
        }
        // Pages of trials are moved before the run as well, so they count against the budget.
        let moved =
            |trial: &Trial| kept.layout.moved_bytes(&trial.layout, phase) as f64 * trial.share;
        if !self.may_move(&kept, trials.iter().map(moved).sum()) {
            let state = self.state(&kept.key);
            state.waits += 1;
            // What does not pay for a trial in so many runs is not worth one.
            let is_over = state.waits > MOST_WAITS;
            let why = "pages have moved enough for trials";
            return Ok(match is_over {
                true => self.quiet(kept, why),
                false => kept.because(why),
            });
        }
        trials.retain(|trial| {
            let bytes = moved(trial) as u64;
            let affordable = bytes <= budget.migration_bytes;
            budget.migration_bytes -= if affordable { bytes } else { 0 };
            affordable
        });
        if trials.is_empty() {
            return Ok(self.quiet(kept, "a trial could lose too much"));
        }
        let moved_bytes = trials.iter().map(|trial| moved(trial) as u64).sum();
        let state = self.state(&kept.key);
        state.quiet_runs = 0;
        state.waits = 0;
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

    /// Whether trials may move this many bytes there and back; spends them.
    ///
    /// The first trials of a phase may move any number. Later ones have a share of the time of all
    /// queries, and some may take what their gain, if it is what is likely, earns in
    /// [`PAYBACK_RUNS`].
    fn may_move(&mut self, kept: &PhaseDecision, bytes: f64) -> bool {
        let both_ways = 2.0 * bytes;
        let cost_ns = both_ways / self.settings.migration_gbps;
        let likely = kept.gain - UNLIKELY_GAIN * kept.std_dev;
        let earned_ns = PAYBACK_RUNS * likely * kept.expected_ns;
        let min_gain = self.settings.min_gain;
        let within = both_ways <= self.trial_bytes;
        let state = self.state(&kept.key);
        if state.all_attempts < FIRST_ATTEMPTS {
            return true;
        }
        if !within {
            let pays = likely > min_gain && cost_ns <= earned_ns;
            if !pays || state.paid_attempts >= MOST_PAID {
                return false;
            }
            state.paid_attempts += 1;
        }
        self.trial_bytes -= both_ways;
        true
    }

    /// The decision with a layout in the place of the proposed one that was tried already and is
    /// not far from it: evidence counts for exactly one layout, and gains hardly differ near the
    /// best.
    fn with_known_proposal(&self, kept: PhaseDecision) -> PhaseDecision {
        let first = self.belief.reference_tier();
        let Some(state) = self.states.get(&kept.key) else {
            return kept;
        };
        let off = |layout: &Layout| 1.0 - layout.columns.share(first);
        let wanted = off(&kept.proposed);
        let apart = |layout: &Layout| moved_share(&layout.columns, &kept.proposed.columns);
        let tried = state.evidence.tried(&kept.layout).into_iter();
        let scouted = state.evidence.scouted_layouts(&kept.layout);
        let near = tried
            .chain(scouted)
            .filter(|l| l.operators == kept.layout.operators && !state.is_refused(l))
            .filter(|l| *l != kept.layout && apart(l) <= CLOSE_ENOUGH * wanted)
            .min_by(|a, b| apart(a).total_cmp(&apart(b)));
        match near {
            Some(proposed) => PhaseDecision { proposed, ..kept },
            None => kept,
        }
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
            let tried = tried.into_iter().map(|(_, layout)| layout);
            let tried = tried.filter(|layout| *layout != proposed);
            candidates.extend(tried.take(AGAIN));
        }
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
        // So few pages cannot change the time by more than trials are off.
        let is_visible = |c: &Layout| {
            *c == proposed || c.columns == self.home.columns || kept.layout.distance(c) >= VISIBLE
        };
        candidates.retain(is_visible);
        Ok(candidates)
    }

    /// The layouts of which a smallest trial costs at most `cost`, the most promising first, and a
    /// scout of the first other one that costs at most `reserved`.
    fn safe_first(
        &mut self,
        kept: &PhaseDecision,
        phase: &Phase,
        layouts: Vec<Layout>,
        cost: f64,
        reserved: f64,
    ) -> Result<SafeLayouts, AdaptError> {
        let least = self.settings.min_trial_share;
        let mut scout: Option<Trial> = None;
        let mut safe: Vec<(f64, Layout, Risk)> = Vec::new();
        for layout in layouts {
            if layout.columns == self.home.columns {
                // First of all: it takes as long as on DRAM only, of which a loss is counted.
                safe.push((f64::INFINITY, layout, Risk::NONE));
                continue;
            }
            let risk = self.risk(kept, phase, &layout, cost / least)?;
            if least * risk.loss <= cost {
                let gain = self.gain(&kept.key, phase, &kept.layout, &layout)?;
                safe.push((gain.mean, layout, risk));
            } else if scout.is_none() && !risk.measured {
                let share = (reserved / risk.of_scout).min(LARGEST_SCOUT * least);
                if share >= LEAST_SCOUT * least {
                    scout = Some(Trial { layout, share });
                }
            }
        }
        // What may gain most is seen most easily.
        safe.sort_by(|a, b| b.0.total_cmp(&a.0));
        let layouts = safe.into_iter().map(|(_, layout, risk)| (layout, risk));
        Ok(SafeLayouts {
            layouts: layouts.collect(),
            scout,
        })
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
        // Kept for a scout while there is something for it to rule out.
        let reserved = match self.distrust.is_open() {
            true => SCOUTING * settings.trial_cost,
            false => 0.0,
        };
        let mut cost = settings.trial_cost - reserved;
        let SafeLayouts { layouts, scout } =
            self.safe_first(kept, phase, layouts, cost, reserved)?;
        let mut chosen: Vec<(Layout, Risk)> = Vec::new();
        for (layout, risk) in layouts {
            if chosen.len() >= MOST_TRIALS {
                break;
            }
            let controls = chosen.iter().all(|(l, _)| l.columns == self.home.columns);
            let parts = if controls && layout.columns != self.home.columns {
                2
            } else {
                1
            };
            for _ in 0..parts {
                // A control part is no risk.
                let untried = chosen
                    .iter()
                    .filter(|(_, risk)| !risk.measured && risk.loss > 0.0)
                    .count();
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
        // The scout is last: it is the first that a machine cannot try.
        Ok(chosen.into_iter().map(trial).chain(scout).collect())
    }
}

/// Layouts of which a smallest trial is safe, and a trial that shows whether another one is.
struct SafeLayouts {
    layouts: Vec<(Layout, Risk)>,
    scout: Option<Trial>,
}

/// The control part, two trials of the first layout that is no control, and the scout, as small as
/// they can be.
fn fewest(trials: Vec<Trial>, home: &Layout, least: f64) -> Vec<Trial> {
    let is_control = |trial: &Trial| trial.layout.columns == home.columns;
    let main = trials.iter().find(|t| !is_control(t) && !t.is_scout(least));
    let main = main.map(|t| t.layout.clone());
    let keeps = |t: &Trial| is_control(t) || t.is_scout(least) || Some(&t.layout) == main.as_ref();
    let trials = trials.into_iter().filter(keeps);
    let smaller = trials.map(|t| Trial {
        share: t.share.min(least),
        ..t
    });
    smaller.collect()
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
