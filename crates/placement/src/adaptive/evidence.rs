//! Gains of placements as measured, independent of the model.
//!
//! A run measures a phase under its placement and, on parts of its rows, under others. Both are
//! compared within the run, so that anything that slows a whole run down cancels. Only layouts that
//! were tried exactly can be shown to gain. Trials further out in the same direction may support
//! the gain of a layout: with a growing share of pages on another tier, a phase gets faster up to
//! some share and slower from there on, so where a layout further out gains, one on the way to it
//! does not lose. That is a rule with exceptions: a tier whose latency jumps at some load makes a
//! phase slower with few pages on another tier and faster with more. So a layout's own trials come
//! first, and those further out support it only where its own show no loss.

use super::Layout;
use super::layout::lies_between;
use super::noise::median;

/// Share of the pages below which a move cannot change the time by more than trials are off.
pub(super) const VISIBLE: f64 = 0.02;

/// Number of runs kept per phase.
const REMEMBERED: usize = 40;

/// Standard deviations above the smallest comparable time at which a time is clipped.
const OUTLIER: f64 = 2.5;

/// Asymptotic variance of the median of normal samples over that of their mean (pi / 2).
const OF_MEDIAN: f64 = 1.57;

/// Variance of the maximum of two standard normal samples (1 - 1 / pi).
const OF_LARGER: f64 = 0.68;

/// Times of one run of a phase, as logarithms of ratios to a common reference time.
#[derive(Debug, Clone)]
pub(super) struct PhaseRun {
    /// Placement of the phase, trials excepted.
    pub layout: Layout,
    /// Time of the phase under `layout`, scaled to all rows.
    pub whole: f64,
    /// Time of each trial under its own layout, scaled to all rows.
    pub trials: Vec<(Layout, f64)>,
    /// The same of each scout, with the standard deviation of the time.
    pub scouts: Vec<(Layout, f64, f64)>,
}

impl PhaseRun {
    /// The distinct layouts tried, with the mean of their times and the number of trials of each.
    pub fn each_tried(&self) -> Vec<(&Layout, f64, usize)> {
        let mut each: Vec<(&Layout, f64, usize)> = Vec::new();
        for (layout, time) in &self.trials {
            match each.iter_mut().find(|(l, ..)| *l == layout) {
                Some((_, mean, count)) => {
                    *count += 1;
                    *mean += (time - *mean) / *count as f64;
                }
                None => each.push((layout, *time, 1)),
            }
        }
        each
    }
}

/// Standard deviations of single measurements, log scale: of a phase and of a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct StdDevs {
    pub whole: f64,
    pub trial: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MeasuredGain {
    /// ln(time before / time after).
    pub mean: f64,
    /// Standard deviation of `mean`.
    pub std_dev: f64,
    /// Number of runs that contributed.
    pub runs: usize,
}

impl MeasuredGain {
    /// Lower confidence bound, `certainty` standard deviations below the mean.
    pub fn least(&self, certainty: f64) -> f64 {
        self.mean - certainty * self.std_dev
    }
}

/// The most recent runs of one phase.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    runs: Vec<PhaseRun>,
}

impl Evidence {
    pub fn note(&mut self, run: PhaseRun) {
        self.runs.push(run);
        if self.runs.len() > REMEMBERED {
            self.runs.remove(0);
        }
    }

    /// Discards all trials, because whole runs have contradicted them; gains must be shown anew.
    pub fn forget_trials(&mut self) {
        for run in &mut self.runs {
            run.trials.clear();
            run.scouts.clear();
        }
    }

    /// The most recent run under this layout.
    pub fn last_under(&self, layout: &Layout) -> Option<&PhaseRun> {
        self.runs.iter().rev().find(|r| r.layout == *layout)
    }

    /// Distinct layouts tried while the phase was under `from`, in the order of their first trial.
    pub fn tried(&self, from: &Layout) -> Vec<Layout> {
        distinct(self.under(from).flat_map(|r| &r.trials).map(|(l, _)| l))
    }

    /// Distinct layouts scouted while the phase was under `from`.
    pub fn scouted_layouts(&self, from: &Layout) -> Vec<Layout> {
        distinct(self.under(from).flat_map(|r| &r.scouts).map(|(l, ..)| l))
    }

    fn under(&self, layout: &Layout) -> impl Iterator<Item = &PhaseRun> {
        self.runs.iter().filter(move |r| r.layout == *layout)
    }

    /// Gain of `to` over `from` as scouts have shown it, which bounds the loss of longer trials.
    pub fn scouted(&self, from: &Layout, to: &Layout, std_devs: StdDevs) -> Option<MeasuredGain> {
        let fastest = self
            .under(from)
            .map(|r| r.whole)
            .fold(f64::INFINITY, f64::min);
        let (mut sum, mut variance, mut count) = (0.0, 0.0, 0_usize);
        for run in self.under(from) {
            for (_, time, std_dev) in run.scouts.iter().filter(|(l, ..)| l == to) {
                // As in trials, a run that is slow as a whole makes no scout look fast.
                let whole = run.whole.min(fastest + OUTLIER * std_devs.whole);
                sum += whole - time;
                variance += std_devs.whole.powi(2) + std_dev.powi(2);
                count += 1;
            }
        }
        let runs = count as f64;
        (count > 0).then(|| MeasuredGain {
            mean: sum / runs,
            std_dev: variance.sqrt() / runs,
            runs: count,
        })
    }

    /// Measured gain of `to` over `from`, from trials of `to` alone; `None` if it was never tried.
    pub fn alone(&self, from: &Layout, to: &Layout, std_devs: StdDevs) -> Option<MeasuredGain> {
        self.pooled(from, to, std::slice::from_ref(to), std_devs)
    }

    /// Measured gain of `to` over `from`, supported by trials further out.
    ///
    /// They are used only where they raise the lower confidence bound.
    pub fn shown(
        &self,
        from: &Layout,
        to: &Layout,
        std_devs: StdDevs,
        certainty: f64,
    ) -> Option<MeasuredGain> {
        let mut best = self.alone(from, to, std_devs)?;
        if best.mean <= 0.0 {
            return Some(best);
        }
        let mut beyond = self.tried(from);
        beyond.retain(|l| l != to && lies_between(to, from, l));
        beyond.sort_by(|a, b| to.distance(a).total_cmp(&to.distance(b)));
        let mut pool = vec![to.clone()];
        for layout in beyond {
            let reach = from.distance(to) / from.distance(&layout).max(1e-9);
            pool.push(layout);
            if let Some(shown) = self.pooled(from, to, &pool, std_devs) {
                // Scale down to the shorter distance. By concavity `to` has at least this share of
                // the gain measured further out.
                let shown = MeasuredGain {
                    mean: shown.mean * reach,
                    std_dev: shown.std_dev * reach,
                    ..shown
                };
                if shown.runs >= best.runs && shown.least(certainty) > best.least(certainty) {
                    best = shown;
                }
            }
        }
        Some(best)
    }

    fn pooled(
        &self,
        from: &Layout,
        to: &Layout,
        pool: &[Layout],
        std_devs: StdDevs,
    ) -> Option<MeasuredGain> {
        let with = |r: &&PhaseRun| r.layout == *from && r.trials.iter().any(|(l, _)| l == to);
        let runs: Vec<&PhaseRun> = self.runs.iter().filter(with).collect();
        let before = self
            .runs
            .iter()
            .filter(|r| r.layout == *from)
            .map(|r| r.whole);
        let before = before.fold(f64::INFINITY, f64::min);
        let mut gains: Vec<(f64, f64)> = Vec::new();
        for run in &runs {
            let pooled = run.trials.iter().filter(|(l, _)| pool.contains(l));
            let mut times: Vec<f64> = pooled.map(|(_, time)| *time).collect();
            let count = times.len() as f64;
            // With two times the larger one is used, so that one lucky trial shows no gain.
            let (time, of_trial) = match times.len() {
                1 => (times[0], 1.0),
                2 => (times[0].max(times[1]), OF_LARGER),
                _ => (median(&mut times)?, OF_MEDIAN / count),
            };
            // A run that is slow as a whole must not make its trials look fast in comparison.
            let whole = run.whole.min(before + OUTLIER * std_devs.whole);
            let variance = std_devs.whole.powi(2) + of_trial * std_devs.trial.powi(2);
            gains.push((whole - time, variance));
        }
        // Gains are clipped as times are: one outlier must not pull their mean up.
        let least = gains.iter().map(|(g, _)| *g).fold(f64::INFINITY, f64::min);
        let count = gains.len() as f64;
        let variance = gains.iter().map(|(_, v)| v).sum::<f64>() / count;
        let limit = least + OUTLIER * (2.0 * variance).sqrt();
        let mean = gains.iter().map(|(g, _)| g.min(limit)).sum::<f64>() / count;
        (!gains.is_empty()).then(|| MeasuredGain {
            mean,
            std_dev: (variance / count).sqrt(),
            runs: gains.len(),
        })
    }

    /// Median gain of `at` over control parts in the same run, and the number of runs.
    ///
    /// The gain is ln of the ratio of times; control parts have the columns of `home`.
    pub fn over_control(&self, at: &Layout, home: &Layout) -> Option<(f64, usize)> {
        let runs = self.runs.iter().filter(|r| r.layout == *at);
        let control = runs.filter_map(|run| {
            let at_home = run.trials.iter().find(|(l, _)| l.columns == home.columns)?;
            Some(at_home.1 - run.whole)
        });
        let mut gains: Vec<f64> = control.collect();
        let count = gains.len();
        Some((median(&mut gains)?, count))
    }

    /// Median time of whole runs under a layout, with their number.
    pub fn whole(&self, layout: &Layout) -> Option<(f64, usize)> {
        let runs = self.runs.iter().filter(|r| r.layout == *layout);
        let mut times: Vec<f64> = runs.map(|r| r.whole).collect();
        let count = times.len();
        Some((median(&mut times)?, count))
    }
}

fn distinct<'a>(layouts: impl Iterator<Item = &'a Layout>) -> Vec<Layout> {
    let mut found: Vec<Layout> = Vec::new();
    for layout in layouts {
        if !found.contains(layout) {
            found.push(layout.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::search::SplitMix;

    const STD_DEVS: StdDevs = StdDevs {
        whole: 0.01,
        trial: 0.02,
    };

    fn with(cxl: u32) -> Layout {
        Layout {
            columns: format!("dram {}, cxl {cxl}", 100 - cxl).parse().unwrap(),
            ..Layout::on("dram").unwrap()
        }
    }

    fn evidence(runs: &[(f64, &[(u32, f64)])]) -> Evidence {
        let mut evidence = Evidence::default();
        for (whole, trials) in runs {
            evidence.note(PhaseRun {
                layout: with(0),
                whole: *whole,
                trials: trials
                    .iter()
                    .map(|(cxl, time)| (with(*cxl), *time))
                    .collect(),
                scouts: Vec::new(),
            });
        }
        evidence
    }

    #[test]
    fn one_run_that_was_slow_as_a_whole_shows_no_gain() {
        let evidence = evidence(&[(0.0, &[(10, 0.0)]), (0.26, &[(10, 0.0)])]);
        let shown = evidence.alone(&with(0), &with(10), STD_DEVS).unwrap();
        assert_eq!(shown.runs, 2);
        assert!(shown.mean < 0.02 && shown.least(4.0) < -0.02, "{shown:?}");
        // What slows trials and the rest of the run alike is no loss.
        let both = self::evidence(&[(0.0, &[(10, -0.1)]), (0.02, &[(10, -0.08)])]);
        let shown = both.alone(&with(0), &with(10), STD_DEVS).unwrap();
        assert!((shown.mean - 0.1).abs() < 1e-9, "{shown:?}");
    }

    #[test]
    fn only_what_was_tried_itself_is_shown_and_what_lies_beyond_supports_it() {
        let trials: &[(u32, f64)] = &[(10, -0.05), (12, -0.05), (14, -0.05), (5, 0.2)];
        let evidence = evidence(&[(0.0, trials), (0.0, trials)]);
        assert_eq!(evidence.alone(&with(0), &with(11), STD_DEVS), None);
        assert_eq!(evidence.shown(&with(0), &with(11), STD_DEVS, 4.0), None);
        let alone = evidence.alone(&with(0), &with(10), STD_DEVS).unwrap();
        let shown = evidence.shown(&with(0), &with(10), STD_DEVS, 4.0).unwrap();
        assert!(shown.least(4.0) > alone.least(4.0), "{shown:?} {alone:?}");
        assert!(
            shown.mean <= alone.mean,
            "less of the way, less of the gain"
        );
        let farthest = evidence.alone(&with(0), &with(14), STD_DEVS).unwrap();
        let nothing_beyond = evidence.shown(&with(0), &with(14), STD_DEVS, 4.0);
        assert_eq!(nothing_beyond, Some(farthest));
    }

    #[test]
    fn a_loss_of_one_per_cent_is_hardly_ever_shown_as_a_gain_whatever_the_tails() {
        let mut random = SplitMix::new(11);
        let (mut looks, mut wrong) = (0, 0);
        for _ in 0..20_000 {
            let mut evidence = Evidence::default();
            for runs in 1..=6 {
                let mut slow = |std_dev: f64| {
                    let outlier = if random.uniform() < 0.02 { 0.26 } else { 0.0 };
                    outlier + std_dev * random.normal()
                };
                let whole = slow(0.01);
                let trials = (0..2).map(|_| (with(10), 0.01 + slow(0.02))).collect();
                evidence.note(PhaseRun {
                    layout: with(0),
                    whole,
                    trials,
                    scouts: Vec::new(),
                });
                if runs > 1 {
                    let shown = evidence.alone(&with(0), &with(10), STD_DEVS).unwrap();
                    looks += 1;
                    wrong += u32::from(shown.least(4.0) > -0.005 && shown.mean > 0.01);
                }
            }
        }
        assert!(wrong * 5000 < looks, "{wrong} of {looks}");
    }
}
