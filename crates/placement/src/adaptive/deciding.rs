//! What a phase does next: stay, try, move, or go back.

use super::controller::{Budget, Controller};
use super::{Action, Gain, Layout, PhaseDecision, PhaseKey, Trial};
use crate::AdaptError;
use tierloom_model::search::{Moved, Problem, Weights, best};
use tierloom_model::{ModelError, Options, Phase, StructureClass, solve};

/// Most that a placement may lose with the certainty asked for, as a share, before a phase is moved as a whole.
const TOLERATED_LOSS: f64 = 0.004;

/// Standard deviations above the expected gain up to which a trial is worth its cost.
const HOPE: f64 = 1.5;

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

/// Parts of the way to other operator memory, the largest that is safe is taken.
const PARTS: [f64; 6] = [0.75, 0.5, 0.25, 0.12, 0.06, 0.03];

/// Least gain of such a part.
const LEAST_OF_PART: f64 = 0.004;

/// Changes that are not spent on parts of a way.
const KEPT_FOR_LAST: u32 = 2;

/// Moving the memory of operators too must gain so much over moving columns alone.
const OPERATORS_GAIN: f64 = 0.005;

impl Controller {
    pub(super) fn decide(
        &mut self,
        kept: PhaseDecision,
        phase: &Phase,
        budget: &mut Budget,
    ) -> Result<PhaseDecision, AdaptError> {
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
        let fastest = self.state(&kept.key).fastest().cloned();
        let mut better: Option<(Gain, Layout)> = None;
        for layout in [Some(wanted.clone()), fastest].into_iter().flatten() {
            if layout == current || self.is_refused(&kept.key, &layout) {
                continue;
            }
            let gain = self.gain(&kept.key, phase, &current, &layout)?;
            if better
                .as_ref()
                .is_none_or(|(best, _)| gain.mean > best.mean)
            {
                better = Some((gain, layout));
            }
        }
        let Some((gain, wanted)) = better else {
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
            Some(nearer) => {
                let moved = self.step(nearer, phase, budget)?;
                let tried = self
                    .state(&kept.key)
                    .were_columns_tried(&kept.wanted.columns);
                if tried || moved.action != Action::Move {
                    return Ok(moved);
                }
                // What the columns gain is found out in the same run.
                let mut both = self.attempt(
                    PhaseDecision {
                        wanted: kept.wanted,
                        ..moved.clone()
                    },
                    phase,
                    budget,
                )?;
                both.moved_bytes += moved.moved_bytes;
                both.reason = format!("{}; {}", moved.reason, both.reason);
                Ok(both)
            }
            None => self.attempt(kept, phase, budget),
        }
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
        let tried = only_operators || state.were_columns_tried(&kept.wanted.columns);
        Ok(certain && likely && tried)
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

pub(super) fn because(kept: PhaseDecision, why: &str) -> PhaseDecision {
    PhaseDecision {
        reason: why.into(),
        ..kept
    }
}
