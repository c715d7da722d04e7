//! What is remembered of a phase.

use super::layout::moved_share;
use super::{Gain, Layout, Settings};
use tierloom_model::search::Weights;

/// A placement that a phase was measured under, as a whole or in part.
#[derive(Debug, Clone)]
struct Seen {
    layout: Layout,
    whole_runs: u32,
    /// Sum of 1 / variance of the measurements.
    precision: f64,
    /// Mean of ln(measured time / time on the profile's first tier): comparable between runs over more or fewer tuples.
    mean: f64,
}

/// One phase's past.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub current: Layout,
    pub home: Layout,
    seen: Vec<Seen>,
    refused: Vec<Layout>,
    pub changes: u32,
    pub runs_since_change: u32,
    pub quiet_runs: u32,
    /// Runs in which neighbours of the present placement were tried.
    pub polished: u32,
}

/// Placements remembered; of more, the one that was tried first and never run as a whole is forgotten.
const REMEMBERED: usize = 40;

/// Placements this close, as a share of the pages, are taken as one; and of what is off the first tier, this share more.
const NEAR: (f64, f64) = (0.01, 0.05);

impl State {
    pub fn new(home: Layout) -> Self {
        State {
            current: home.clone(),
            home,
            seen: Vec::new(),
            refused: Vec::new(),
            changes: 0,
            // Nothing was changed, so nothing has to cool down.
            runs_since_change: u32::MAX,
            quiet_runs: 0,
            polished: 0,
        }
    }

    /// Settled phases are left alone. The last change is kept for going back.
    pub fn is_settled(&self, settings: &Settings) -> bool {
        self.quiet_runs >= settings.settle_runs || self.changes + 1 >= settings.max_changes
    }

    /// A run of the whole phase under its present placement, with the standard deviation of `ln_ratio`.
    pub fn note(&mut self, ln_ratio: f64, noise: f64) {
        self.runs_since_change = self.runs_since_change.saturating_add(1);
        let current = self.current.clone();
        self.take(current, ln_ratio, noise).whole_runs += 1;
    }

    /// A trial.
    pub fn note_trial(&mut self, layout: Layout, ln_ratio: f64, noise: f64) {
        self.take(layout, ln_ratio, noise);
        let forgotten = self.seen.iter().position(|s| s.whole_runs == 0);
        if let Some(at) = forgotten.filter(|_| self.seen.len() > REMEMBERED) {
            self.seen.remove(at);
        }
    }

    fn take(&mut self, layout: Layout, ln_ratio: f64, noise: f64) -> &mut Seen {
        let at = match self.seen.iter().position(|s| s.layout == layout) {
            Some(at) => at,
            None => {
                let (precision, mean) = (0.0, 0.0);
                self.seen.push(Seen {
                    layout,
                    whole_runs: 0,
                    precision,
                    mean,
                });
                self.seen.len() - 1
            }
        };
        let seen = &mut self.seen[at];
        let added = 1.0 / (noise * noise);
        seen.precision += added;
        seen.mean += (ln_ratio - seen.mean) * added / seen.precision;
        seen
    }

    /// Mean and variance of what was measured at and near a placement; of what is near `other` too, only what is nearer to `layout`.
    fn measured(&self, layout: &Layout, other: &Layout) -> Option<(f64, f64)> {
        let far = |s: &&Seen, from: &Layout| s.layout.distance(from);
        let nearer = |s: &&Seen| s.layout == *layout || far(s, layout) < far(s, other);
        let near = self
            .seen
            .iter()
            .filter(|s| self.are_near(&s.layout, layout));
        let near = near
            .filter(nearer)
            .filter(|s| s.layout != *other || layout == other);
        let (sum, precision) = near.fold((0.0, 0.0), |(sum, precision), s| {
            (sum + s.precision * s.mean, precision + s.precision)
        });
        (precision > 0.0).then(|| (sum / precision, 1.0 / precision))
    }

    /// Whether this placement, or one near it, was measured.
    pub fn was_tried(&self, layout: &Layout) -> bool {
        self.seen.iter().any(|s| self.are_near(&s.layout, layout))
    }

    /// Whether columns placed so, or nearly so, were measured, wherever the memory of operators was.
    pub fn were_columns_tried(&self, columns: &Weights) -> bool {
        let so = |s: &Seen| Layout {
            columns: columns.clone(),
            operators: s.layout.operators.clone(),
        };
        self.seen.iter().any(|s| self.are_near(&s.layout, &so(s)))
    }

    /// The gain of `to` over `from` as measured, if both were.
    pub fn measured_gain(&self, from: &Layout, to: &Layout) -> Option<Gain> {
        let ((before, doubt_before), (after, doubt_after)) =
            (self.measured(from, to)?, self.measured(to, from)?);
        Some(Gain {
            mean: before - after,
            doubt: (doubt_before + doubt_after).sqrt(),
        })
    }

    /// What was measured with everything on the first tier, in the same terms as [`State::measured_off_home`].
    pub fn measured_at_home(&self) -> Option<f64> {
        let home = self.seen.iter().find(|s| s.layout == self.home);
        home.map(|s| s.mean)
    }

    /// What was measured under placements that are not all on the first tier: ln(time / time of the profile there).
    pub fn measured_off_home(&self) -> impl Iterator<Item = (&Layout, f64)> {
        let off = self.seen.iter().filter(|s| s.layout != self.home);
        off.map(|s| (&s.layout, s.mean))
    }

    /// The placement whose time was least so far, tried ones included.
    pub fn fastest(&self) -> Option<&Layout> {
        let home = &self.home;
        let mean = |s: &Seen| {
            self.measured(&s.layout, home)
                .map_or(f64::INFINITY, |(mean, _)| mean)
        };
        let fastest = self.seen.iter().min_by(|a, b| mean(a).total_cmp(&mean(b)));
        fastest.map(|s| &s.layout)
    }

    fn are_near(&self, a: &Layout, b: &Layout) -> bool {
        let near = |a: &Weights, b: &Weights, home: &Weights| {
            let off = moved_share(home, a).min(moved_share(home, b));
            // Nothing is near to all on the first tier but itself: where a tier begins to be used, most changes.
            let reach = if off == 0.0 {
                0.0
            } else {
                NEAR.0 + NEAR.1 * off
            };
            moved_share(a, b) <= reach
        };
        near(&a.columns, &b.columns, &self.home.columns)
            && near(&a.operators, &b.operators, &self.home.operators)
    }

    pub fn is_refused(&self, layout: &Layout) -> bool {
        self.refused.iter().any(|r| self.are_near(r, layout))
    }

    pub fn change(&mut self, to: Layout) {
        self.current = to;
        self.changes += 1;
        self.runs_since_change = 0;
        self.quiet_runs = 0;
        self.polished = 0;
    }

    /// The best placement that was run as a whole, if the present one is slower by more than noise explains: two standard deviations of the difference.
    pub fn better_seen(&self) -> Option<Layout> {
        let whole = |s: &&Seen| s.whole_runs > 0;
        let present = self
            .seen
            .iter()
            .filter(whole)
            .find(|s| s.layout == self.current)?;
        let others = self
            .seen
            .iter()
            .filter(whole)
            .filter(|s| s.layout != self.current);
        let best = others.min_by(|a, b| a.mean.total_cmp(&b.mean))?;
        let doubt = (1.0 / best.precision + 1.0 / present.precision).sqrt();
        (present.mean - best.mean > 2.0 * doubt).then(|| best.layout.clone())
    }

    /// Goes back to `to` and does not come here again.
    pub fn give_up_for(&mut self, to: Layout) {
        let lost = self.current.clone();
        self.change(to);
        if lost != self.home {
            self.refused.push(lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(columns: &str) -> Layout {
        Layout {
            columns: columns.parse().unwrap(),
            ..Layout::on("dram").unwrap()
        }
    }

    #[test]
    fn a_loss_beyond_noise_is_given_up_and_not_tried_again() {
        let mut state = State::new(layout("dram 1"));
        state.note(0.0, 0.01);
        state.change(layout("dram 9, cxl 1"));
        state.note(0.02, 0.01);
        assert_eq!(state.better_seen(), None, "noise explains it");
        state.note(0.06, 0.01);
        let back = state.better_seen().expect("4% is more than noise");
        assert_eq!(back, layout("dram 1"));
        state.give_up_for(back);
        assert!(state.is_refused(&layout("dram 91, cxl 9")));
        assert!(!state.is_refused(&layout("dram 1, cxl 1")));
        assert_eq!(state.changes, 2);
    }
}
