//! History of one phase: placements, measurements, changes.

use super::evidence::{Evidence, StdDevs};
use super::latency_steps::LatencySteps;
use super::layout::moved_share;
use super::{Gain, Layout, Settings};
use tierloom_model::search::Weights;

/// A placement that a phase was measured under, as a whole or in a trial.
#[derive(Debug, Clone)]
struct MeasuredLayout {
    layout: Layout,
    whole_runs: u32,
    /// Sum of 1 / variance over the measurements.
    precision: f64,
    /// Weighted mean of ln(measured time / profile's time on the first tier).
    ///
    /// The ratio makes runs over different numbers of tuples comparable.
    mean: f64,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    pub current: Layout,
    pub home: Layout,
    seen: Vec<MeasuredLayout>,
    pub evidence: Evidence,
    refused: Vec<Layout>,
    /// The previous placement with its `proven` and `promised`; `None` after a return.
    before: Option<(Layout, f64, f64)>,
    /// Placements taken back once, after a single run.
    taken_back: Vec<Layout>,
    pub changes: u32,
    /// Lower confidence bound of the present placement's gain over the first tier, measured only.
    pub proven: f64,
    /// Expected gain of the present placement over the first tier, from trials.
    pub promised: f64,
    /// Placement of the columns after the last change, apart from steps led by latencies.
    pub tried_columns: Weights,
    /// Runs since the last trials that waited for others.
    pub waits: u32,
    /// Later runs with trials that took more than their share of all queries' time.
    pub paid_attempts: u32,
    /// Runs with trials since the last change.
    pub attempts: u32,
    /// Runs with trials, all together.
    pub all_attempts: u32,
    pub runs_since_change: u32,
    pub quiet_runs: u32,
    /// Runs in which neighbours of the present placement were tried.
    pub polished: u32,
    pub latency: LatencySteps,
}

/// Number of placements kept; beyond it the oldest one that never ran as a whole is dropped.
const REMEMBERED: usize = 40;

/// Distance up to which placements count as one.
///
/// It is a share of all pages plus a share of the pages off the first tier.
const NEAR: (f64, f64) = (0.01, 0.05);

/// Share of the gain shown by trials that whole runs have to confirm.
const KEPT: f64 = 0.25;

/// Runs after a move with a control part on the first tier.
const CONTROLS: usize = 3;

/// Runs with a control part that confirm a gain.
const CONFIRMED: usize = 2;

/// Standard deviations beyond which a difference between whole runs is not attributed to noise.
const SURPRISING: f64 = 1.5;

impl State {
    pub fn new(home: Layout) -> Self {
        State {
            current: home.clone(),
            tried_columns: home.columns.clone(),
            home,
            seen: Vec::new(),
            evidence: Evidence::default(),
            refused: Vec::new(),
            before: None,
            taken_back: Vec::new(),
            changes: 0,
            proven: 0.0,
            promised: 0.0,
            waits: 0,
            paid_attempts: 0,
            attempts: 0,
            all_attempts: 0,
            // Nothing was changed yet, so there is no cooldown.
            runs_since_change: u32::MAX,
            quiet_runs: 0,
            polished: 0,
            latency: LatencySteps::new(),
        }
    }

    /// Whether the phase is left alone from now on.
    ///
    /// The last change is reserved, so that a placement can always be taken back.
    pub fn is_settled(&self, settings: &Settings) -> bool {
        self.quiet_runs >= settings.settle_runs || self.changes + 1 >= settings.max_changes
    }

    /// Records a run under the present placement; `noise` is the standard deviation of `ln_ratio`.
    pub fn note(&mut self, ln_ratio: f64, noise: f64) {
        self.runs_since_change = self.runs_since_change.saturating_add(1);
        let current = self.current.clone();
        self.take(current, ln_ratio, noise).whole_runs += 1;
    }

    /// Records a trial; `noise` is the standard deviation of `ln_ratio`.
    pub fn note_trial(&mut self, layout: Layout, ln_ratio: f64, noise: f64) {
        self.take(layout, ln_ratio, noise);
        let forgotten = self.seen.iter().position(|s| s.whole_runs == 0);
        if let Some(at) = forgotten.filter(|_| self.seen.len() > REMEMBERED) {
            self.seen.remove(at);
        }
    }

    fn take(&mut self, layout: Layout, ln_ratio: f64, noise: f64) -> &mut MeasuredLayout {
        let at = match self.seen.iter().position(|s| s.layout == layout) {
            Some(at) => at,
            None => {
                let (precision, mean) = (0.0, 0.0);
                self.seen.push(MeasuredLayout {
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

    /// Mean and variance of the measurements at and near a placement.
    ///
    /// A measurement near both placements counts for the nearer one only, so that `layout` and
    /// `other` can be compared.
    fn measured(&self, layout: &Layout, other: &Layout) -> Option<(f64, f64)> {
        let far = |s: &&MeasuredLayout, from: &Layout| s.layout.distance(from);
        let nearer = |s: &&MeasuredLayout| s.layout == *layout || far(s, layout) < far(s, other);
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

    /// Measured gain of `to` over `from`; `None` unless both were measured.
    pub fn measured_gain(&self, from: &Layout, to: &Layout) -> Option<Gain> {
        let ((before, doubt_before), (after, doubt_after)) =
            (self.measured(from, to)?, self.measured(to, from)?);
        Some(Gain {
            mean: before - after,
            std_dev: (doubt_before + doubt_after).sqrt(),
        })
    }

    /// Mean with everything on the first tier, on the same scale as [`State::measured_off_home`].
    pub fn measured_at_home(&self) -> Option<f64> {
        let home = self.seen.iter().find(|s| s.layout == self.home);
        home.map(|s| s.mean)
    }

    /// Mean of each other placement: ln(measured time / profile's time on the first tier).
    pub fn measured_off_home(&self) -> impl Iterator<Item = (&Layout, f64)> {
        let off = self.seen.iter().filter(|s| s.layout != self.home);
        off.map(|s| (&s.layout, s.mean))
    }

    fn are_near(&self, a: &Layout, b: &Layout) -> bool {
        let near = |a: &Weights, b: &Weights, home: &Weights| {
            let off = moved_share(home, a).min(moved_share(home, b));
            // No placement is near the one with all pages on the first tier: the first pages on a
            // new tier change the most.
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
        self.tried_columns = to.columns.clone();
        let before = std::mem::replace(&mut self.current, to);
        self.before = Some((before, self.proven, self.promised));
        (self.proven, self.promised) = (proven, promised);
        self.changes += 1;
        self.runs_since_change = 0;
        self.quiet_runs = 0;
        self.polished = 0;
        self.attempts = 0;
    }

    /// Takes a placement back if whole runs do not confirm its gain, and returns the new placement.
    ///
    /// That is the first tier, or the previous placement if there is still a gain over the first
    /// tier. A placement that failed twice, or over more than one run, is refused for good.
    pub fn go_back(&mut self, std_devs: StdDevs) -> Option<Layout> {
        let (to, proven, promised) = if self.disappoints(std_devs) {
            (self.home.clone(), 0.0, 0.0)
        } else {
            self.before
                .clone()
                .filter(|(before, ..)| self.is_slower_than(before, std_devs))?
        };
        let lost = self.current.clone();
        let runs = self.evidence.whole(&lost).map_or(0, |(_, runs)| runs);
        self.change(to.clone(), proven, promised);
        self.before = None;
        self.evidence.forget_trials();
        if runs > 1 || self.taken_back.contains(&lost) {
            self.refused.push(lost);
        } else {
            // A single run may have been disturbed; a second failure after new trials is
            // conclusive.
            self.taken_back.push(lost);
        }
        Some(to)
    }

    /// Raises the proven gain to what whole runs under the present placement have shown since.
    ///
    /// Sums of lower bounds over several moves fall far below the gain of all of them. Parts left
    /// on the first tier show that of the columns within each run; where operator memory has moved
    /// too, the whole runs have to agree.
    pub fn confirm(&mut self, std_devs: StdDevs, certainty: f64) {
        let control = self.evidence.over_control(&self.current, &self.home);
        let (Some((gain, runs)), Some((present, whole_runs)), Some((home, before))) = (
            control,
            self.evidence.whole(&self.current),
            self.evidence.whole(&self.home),
        ) else {
            return;
        };
        let std_dev = std_devs.whole.hypot(std_devs.trial) / (runs as f64).sqrt();
        let mut least = gain - certainty * std_dev;
        if self.current.operators != self.home.operators {
            let of_runs = 1.0 / whole_runs as f64 + 1.0 / before as f64;
            least = least.min(home - present - certainty * std_devs.whole * of_runs.sqrt());
        }
        if runs >= CONFIRMED && self.proven < least {
            self.proven = least;
        }
    }

    fn is_slower_than(&self, before: &Layout, std_devs: StdDevs) -> bool {
        let (present, before) = (
            self.evidence.whole(&self.current),
            self.evidence.whole(before),
        );
        let (Some((present, runs)), Some((before, past))) = (present, before) else {
            return false;
        };
        let std_dev = std_devs.whole * (1.0 / runs as f64 + 1.0 / past as f64).sqrt();
        present - before > SURPRISING * std_dev
    }

    /// Whether the phase has to return to the first tier.
    ///
    /// Its first whole run can already decide that: if the gain is below [`KEPT`] times the
    /// expected one, and below it by more than noise explains.
    fn disappoints(&self, std_devs: StdDevs) -> bool {
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
        let std_dev = std_devs.whole * (1.0 / runs as f64 + 1.0 / before as f64).sqrt();
        // Both limits have to be violated: noise must not explain the shortfall, and a small one is
        // tolerated.
        let is_less = |gain: f64, std_dev: f64| {
            gain < (KEPT * self.promised).min(self.promised - SURPRISING * std_dev)
        };
        // The machine as a whole may have slowed down since the runs on the first tier. A control
        // part in the same run is not affected by that, so it has to agree.
        let control = self.evidence.over_control(&self.current, &self.home);
        let control_agrees = control.is_none_or(|(gain, runs)| {
            is_less(
                gain,
                std_devs.whole.hypot(std_devs.trial) / (runs as f64).sqrt(),
            )
        });
        is_less(home - present, std_dev) && control_agrees
    }

    /// Whether part of the next run should stay on the first tier as a control.
    pub fn wants_control(&self) -> bool {
        let controlled = self.evidence.over_control(&self.current, &self.home);
        self.current.columns != self.home.columns
            && controlled.is_none_or(|(_, runs)| runs < CONTROLS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::PhaseRun;
    use super::*;

    fn layout(columns: &str) -> Layout {
        Layout {
            columns: columns.parse().unwrap(),
            ..Layout::on("dram").unwrap()
        }
    }

    fn run(state: &mut State, whole: f64) {
        state.evidence.note(PhaseRun {
            layout: state.current.clone(),
            whole,
            trials: Vec::new(),
            scouts: Vec::new(),
        });
        state.note(whole, 0.01);
    }

    #[test]
    fn a_first_whole_run_that_is_slower_than_was_shown_is_taken_back_and_the_second_refused() {
        let std_devs = StdDevs {
            whole: 0.01,
            trial: 0.02,
        };
        let there = layout("dram 9, cxl 1");
        let mut state = State::new(layout("dram 1"));
        run(&mut state, 0.0);
        state.change(there.clone(), 0.01, 0.05);
        run(&mut state, -0.04);
        assert_eq!(state.go_back(std_devs), None, "chance explains it");
        let mut state = State::new(layout("dram 1"));
        run(&mut state, 0.0);
        for refused in [false, true] {
            state.change(there.clone(), 0.01, 0.05);
            run(&mut state, 0.02);
            assert_eq!(state.go_back(std_devs), Some(layout("dram 1")));
            assert_eq!(
                state.go_back(std_devs),
                None,
                "nothing is expected of the first tier"
            );
            assert_eq!(state.is_refused(&there), refused);
        }
        assert!(!state.is_refused(&layout("dram 1, cxl 1")));
        assert_eq!(state.changes, 4);
    }
}
