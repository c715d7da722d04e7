//! What is remembered of a phase.

use super::{Layout, Settings};
use std::collections::VecDeque;

/// A placement that a phase was measured under.
#[derive(Debug, Clone)]
struct Seen {
    layout: Layout,
    runs: u32,
    /// Mean of ln(measured time / time on the profile's first tier): comparable between runs over more or fewer tuples.
    mean: f64,
}

/// One phase's past.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub current: Layout,
    home: Layout,
    seen: Vec<Seen>,
    /// Trials: what was tried, and ln(time under the layout of the rest / time of the trial), per tuple; the last ones.
    trials: VecDeque<(Layout, f64)>,
    refused: Vec<Layout>,
    pub changes: u32,
    pub runs_since_change: u32,
    pub quiet_runs: u32,
}

/// Trials kept.
const TRIALS: usize = 8;

/// Placements closer than this share of the pages are taken as one.
pub(super) const NEAR: f64 = 0.12;

impl State {
    pub fn new(home: Layout) -> Self {
        State {
            current: home.clone(),
            home,
            seen: Vec::new(),
            trials: VecDeque::new(),
            refused: Vec::new(),
            changes: 0,
            // Nothing was changed, so nothing has to cool down.
            runs_since_change: u32::MAX,
            quiet_runs: 0,
        }
    }

    /// Settled phases are left alone.
    pub fn is_settled(&self, settings: &Settings) -> bool {
        self.quiet_runs >= settings.settle_runs || self.changes >= settings.max_changes
    }

    pub fn note(&mut self, ln_ratio: f64) {
        self.runs_since_change = self.runs_since_change.saturating_add(1);
        let current = self.current.clone();
        match self.seen.iter_mut().find(|s| s.layout == current) {
            Some(seen) => {
                seen.runs += 1;
                seen.mean += (ln_ratio - seen.mean) / f64::from(seen.runs);
            }
            None => self.seen.push(Seen { layout: current, runs: 1, mean: ln_ratio }),
        }
    }

    pub fn note_trial(&mut self, layout: Layout, gain: f64) {
        self.trials.push_back((layout, gain));
        if self.trials.len() > TRIALS {
            self.trials.pop_front();
        }
    }

    /// Mean measured gain of trials near `layout`, if there was any.
    pub fn tried(&self, layout: &Layout) -> Option<f64> {
        let near = self.trials.iter().filter(|(tried, _)| {
            super::layout::moved_share(&tried.columns, &layout.columns) <= NEAR
        });
        let gains: Vec<f64> = near.map(|(_, gain)| *gain).collect();
        (!gains.is_empty()).then(|| gains.iter().sum::<f64>() / gains.len() as f64)
    }

    pub fn is_refused(&self, layout: &Layout) -> bool {
        self.refused.iter().any(|r| r.distance(layout) <= NEAR)
    }

    pub fn change(&mut self, to: Layout) {
        self.current = to;
        self.changes += 1;
        self.runs_since_change = 0;
        self.quiet_runs = 0;
    }

    /// The best placement measured, if the present one is slower than it by more than noise explains: two standard deviations of the difference.
    pub fn better_seen(&self, noise: f64) -> Option<Layout> {
        let present = self.seen.iter().find(|s| s.layout == self.current)?;
        let others = self.seen.iter().filter(|s| s.layout != self.current);
        let best = others.min_by(|a, b| a.mean.total_cmp(&b.mean))?;
        let doubt = noise * (1.0 / f64::from(best.runs) + 1.0 / f64::from(present.runs)).sqrt();
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
        state.note(0.0);
        state.change(layout("dram 9, cxl 1"));
        state.note(0.02);
        assert_eq!(state.better_seen(0.01), None, "noise explains it");
        state.note(0.06);
        let back = state.better_seen(0.01).expect("4% is more than noise");
        assert_eq!(back, layout("dram 1"));
        state.give_up_for(back);
        assert!(state.is_refused(&layout("dram 85, cxl 15")));
        assert!(!state.is_refused(&layout("dram 1, cxl 1")));
        assert_eq!(state.changes, 2);
    }
}
