//! What is remembered of a phase.

use super::evidence::{Evidence, Spreads};
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
    /// Mean of ln(measured time / time on the profile's first tier): comparable between runs over
    /// more or fewer tuples.
    mean: f64,
}

/// One phase's past.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub current: Layout,
    pub home: Layout,
    seen: Vec<Seen>,
    pub evidence: Evidence,
    refused: Vec<Layout>,
    /// The placement before the last change, with what it was shown to gain.
    before: Option<(Layout, f64, f64)>,
    /// Placements that one run spoke against.
    doubted: Vec<Layout>,
    pub changes: u32,
    /// What the present placement gains over the first tier at least, by measurements alone.
    pub proven: f64,
    /// What it is expected to gain.
    pub promised: f64,
    /// Runs with trials since the last change.
    pub attempts: u32,
    pub runs_since_change: u32,
    pub quiet_runs: u32,
    /// Runs in which neighbours of the present placement were tried.
    pub polished: u32,
}

/// Placements remembered; of more, the one that was tried first and never run as a whole is
/// forgotten.
const REMEMBERED: usize = 40;

/// Placements this close, as a share of the pages, are taken as one; and of what is off the first
/// tier, this share more.
const NEAR: (f64, f64) = (0.01, 0.05);

/// Part of the gain that trials have shown which a whole run has to keep.
const KEPT: f64 = 0.25;

/// Runs in which a part stays on the first tier.
const CONTROLS: usize = 3;

/// Standard deviations of the difference of whole runs from which on it is not chance.
const SURPRISING: f64 = 1.5;

impl State {
    pub fn new(home: Layout) -> Self {
        State {
            current: home.clone(),
            home,
            seen: Vec::new(),
            evidence: Evidence::default(),
            refused: Vec::new(),
            before: None,
            doubted: Vec::new(),
            changes: 0,
            proven: 0.0,
            promised: 0.0,
            attempts: 0,
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

    /// A run of the whole phase under its present placement, with the standard deviation of
    /// `ln_ratio`.
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

    /// Mean and variance of what was measured at and near a placement; of what is near `other` too,
    /// only what is nearer to `layout`.
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

    /// The gain of `to` over `from` as measured, if both were.
    pub fn measured_gain(&self, from: &Layout, to: &Layout) -> Option<Gain> {
        let ((before, doubt_before), (after, doubt_after)) =
            (self.measured(from, to)?, self.measured(to, from)?);
        Some(Gain {
            mean: before - after,
            doubt: (doubt_before + doubt_after).sqrt(),
        })
    }

    /// What was measured with everything on the first tier, in the same terms as
    /// [`State::measured_off_home`].
    pub fn measured_at_home(&self) -> Option<f64> {
        let home = self.seen.iter().find(|s| s.layout == self.home);
        home.map(|s| s.mean)
    }

    /// What was measured under placements that are not all on the first tier: ln(time / time of the
    /// profile there).
    pub fn measured_off_home(&self) -> impl Iterator<Item = (&Layout, f64)> {
        let off = self.seen.iter().filter(|s| s.layout != self.home);
        off.map(|s| (&s.layout, s.mean))
    }

    fn are_near(&self, a: &Layout, b: &Layout) -> bool {
        let near = |a: &Weights, b: &Weights, home: &Weights| {
            let off = moved_share(home, a).min(moved_share(home, b));
            // Nothing is near to all on the first tier but itself: where a tier begins to be used,
            // most changes.
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

    pub fn change(&mut self, to: Layout, proven: f64, promised: f64) {
        let before = std::mem::replace(&mut self.current, to);
        self.before = Some((before, self.proven, self.promised));
        (self.proven, self.promised) = (proven, promised);
        self.changes += 1;
        self.runs_since_change = 0;
        self.quiet_runs = 0;
        self.polished = 0;
        self.attempts = 0;
    }

    /// Goes back, if what was changed to does not keep what was shown of it, and says where to: to
    /// the first tier, or, where the gain over that is kept, to the placement before. A placement
    /// that more than one run speaks against is not taken again.
    pub fn go_back(&mut self, spreads: Spreads) -> Option<Layout> {
        let (to, proven, promised) = if self.disappoints(spreads) {
            (self.home.clone(), 0.0, 0.0)
        } else {
            self.before
                .clone()
                .filter(|(before, ..)| self.is_slower_than(before, spreads))?
        };
        let lost = self.current.clone();
        let runs = self.evidence.whole(&lost).map_or(0, |(_, runs)| runs);
        self.change(to.clone(), proven, promised);
        self.before = None;
        self.evidence.forget_trials();
        if runs > 1 || self.doubted.contains(&lost) {
            self.refused.push(lost);
        } else {
            // One run may have been disturbed; a second one, after new trials, was not.
            self.doubted.push(lost);
        }
        Some(to)
    }

    fn is_slower_than(&self, before: &Layout, spreads: Spreads) -> bool {
        let (present, before) = (
            self.evidence.whole(&self.current),
            self.evidence.whole(before),
        );
        let (Some((present, runs)), Some((before, past))) = (present, before) else {
            return false;
        };
        let doubt = spreads.whole * (1.0 / runs as f64 + 1.0 / past as f64).sqrt();
        present - before > SURPRISING * doubt
    }

    /// Whether the phase has to go back to the first tier: its first run as a whole already, if it
    /// gained less than [`KEPT`] of what trials had shown, and chance does not explain it.
    fn disappoints(&self, spreads: Spreads) -> bool {
        if self.current == self.home {
            return false;
        }
        let (present, home) = (
            self.evidence.whole(&self.current),
            self.evidence.whole(&self.home),
        );
        let (Some((present, runs)), Some((home, before))) = (present, home) else {
            return false;
        };
        let doubt = spreads.whole * (1.0 / runs as f64 + 1.0 / before as f64).sqrt();
        let is_less = |gain: f64, doubt: f64| {
            gain < (KEPT * self.promised).min(self.promised - SURPRISING * doubt)
        };
        // The machine as a whole may have become slower since: what a part on the first tier takes
        // now tells.
        let control = self.evidence.over_control(&self.current, &self.home);
        let control_agrees = control.is_none_or(|(gain, runs)| {
            is_less(
                gain,
                spreads.whole.hypot(spreads.trial) / (runs as f64).sqrt(),
            )
        });
        is_less(home - present, doubt) && control_agrees
    }

    /// Whether parts on the first tier shall tell what the present placement gains.
    pub fn wants_control(&self) -> bool {
        let controlled = self.evidence.over_control(&self.current, &self.home);
        self.current.columns != self.home.columns
            && controlled.is_none_or(|(_, runs)| runs < CONTROLS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Run;
    use super::*;

    fn layout(columns: &str) -> Layout {
        Layout {
            columns: columns.parse().unwrap(),
            ..Layout::on("dram").unwrap()
        }
    }

    fn run(state: &mut State, whole: f64) {
        state.evidence.note(Run {
            layout: state.current.clone(),
            whole,
            trials: Vec::new(),
        });
        state.note(whole, 0.01);
    }

    #[test]
    fn a_first_whole_run_that_is_slower_than_was_shown_is_taken_back_and_the_second_refused() {
        let spreads = Spreads {
            whole: 0.01,
            trial: 0.02,
        };
        let there = layout("dram 9, cxl 1");
        let mut state = State::new(layout("dram 1"));
        run(&mut state, 0.0);
        state.change(there.clone(), 0.01, 0.05);
        run(&mut state, -0.04);
        assert_eq!(state.go_back(spreads), None, "chance explains it");
        let mut state = State::new(layout("dram 1"));
        run(&mut state, 0.0);
        for refused in [false, true] {
            state.change(there.clone(), 0.01, 0.05);
            run(&mut state, 0.02);
            assert_eq!(state.go_back(spreads), Some(layout("dram 1")));
            assert_eq!(
                state.go_back(spreads),
                None,
                "nothing is expected of the first tier"
            );
            assert_eq!(state.is_refused(&there), refused);
        }
        assert!(!state.is_refused(&layout("dram 1, cxl 1")));
        assert_eq!(state.changes, 4);
    }
}
