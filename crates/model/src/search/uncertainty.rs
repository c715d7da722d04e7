//! Robustness of a recommendation against errors of the profile.
//!
//! Varies the numbers of the profile within their intervals and repeats the search on each machine.
//! Errors of the model's structure are not covered.

use super::optimum::climb;
use super::random::SplitMix;
use super::{Best, Problem, SIMPLER_WITHIN};
use crate::error::ModelError;
use crate::machine::{Figure, Machine, SourceKind};

/// Extremes over all machines that were tried within the profile's uncertainty.
///
/// They are the smallest and largest values found, not a confidence interval: no probability
/// belongs to them, and they are as good as the intervals of the profile.
#[derive(Debug, Clone, PartialEq)]
pub struct GainRange {
    /// Best share off the first tier: smallest and largest.
    pub best_share: (f64, f64),
    /// Rate with the recommended weights over the rate on the first tier only, on the same machine:
    /// smallest and largest.
    pub gain: (f64, f64),
    /// Largest relative loss of the recommended weights against each machine's own best shares, 0
    /// to 1.
    pub regret: f64,
    /// Number of the machine that alone changes the gain most ("cxl read bandwidth"); `None` if
    /// none changes it.
    pub decisive: Option<String>,
    /// Number of machines tried, the unchanged one included.
    pub machines: usize,
}

/// Samples of the Latin hypercube.
const SAMPLES: usize = 64;

/// Interval in which a number of a profile is taken to be.
///
/// Its `low` and `high` where the profile has them, else 5 % to both sides if it is published,
/// derived or measured, 10 % if fitted and 20 % if assumed. Ends that are impossible (a knee of 1)
/// are moved to the nearest possible value.
pub fn interval(figure: &Figure) -> (f64, f64) {
    let part = match figure.kind {
        SourceKind::Published | SourceKind::Derived | SourceKind::Measured => 0.05,
        SourceKind::Fitted => 0.1,
        SourceKind::Assumed => 0.2,
    };
    let low = figure.low.unwrap_or(figure.value * (1.0 - part));
    let high = figure.high.unwrap_or(figure.value * (1.0 + part));
    (possible(&figure.path, low), possible(&figure.path, high))
}

/// Nearest number that is valid at this path of a profile.
pub(super) fn possible(path: &str, x: f64) -> f64 {
    match path.rsplit('.').next().unwrap_or(path) {
        "cores" | "near_cores" | "smt" | "devices" | "entries" => x.round().max(1.0),
        "ratio_at_peak" | "smt_yield" | "walkers" => x.max(1.0),
        _ if path.starts_with("concurrency.") => x.max(1.0),
        "knee" | "overload_loss" => x.clamp(0.0, 0.99),
        "overlap" | "duplex" => x.clamp(0.0, 1.0),
        "random_share" | "prefetched_share" => x.clamp(1e-3, 1.0),
        _ => x,
    }
}

/// Tests the recommendation on other machines within the profile's uncertainty.
///
/// Every number alone is put to both ends of its [`interval`]; then 64 machines are sampled with
/// all numbers different at once (a seeded Latin hypercube: each number takes every 64th part of
/// its interval once; McKay, Beckman, Conover, "A Comparison of Three Methods for Selecting Values
/// of Input Variables", Technometrics 21(2), 1979). The result is the same in every run.
///
/// # Errors
/// Same as [`super::best`].
pub fn robust(problem: &Problem<'_>, best: &Best) -> Result<GainRange, ModelError> {
    problem.check()?;
    let figures = problem.machine.figures();
    let varied: Vec<Varied> = figures.iter().filter_map(Varied::of).collect();
    let mut tried = Tried::new(problem, best)?;
    let mut machine = problem.machine.clone();
    let mut decisive: Option<(f64, &str)> = None;
    for figure in &varied {
        let mut moved = 0.0_f64;
        for x in [figure.low, figure.high] {
            set(&mut machine, figure.path, x)?;
            let gain = tried.on(&machine)?;
            moved = moved.max((gain / best.gain_over_dram()).ln().abs());
        }
        set(&mut machine, figure.path, figure.value)?;
        // Changes of the gain below 0.01 % are not worth naming a number for.
        if moved > decisive.map_or(1e-4, |(most, _)| most) {
            decisive = Some((moved, figure.label));
        }
    }
    // The interval of each number is split into as many strata as samples; a random permutation per
    // number pairs them independently.
    let mut random = SplitMix::new(1);
    let strata: Vec<Vec<usize>> = varied.iter().map(|_| random.shuffled(SAMPLES)).collect();
    for sample in 0..SAMPLES {
        for (figure, strata) in varied.iter().zip(&strata) {
            let part = (strata[sample] as f64 + random.uniform()) / SAMPLES as f64;
            let x = figure.low + part * (figure.high - figure.low);
            set(&mut machine, figure.path, possible(figure.path, x))?;
        }
        tried.on(&machine)?;
    }
    tried.range.decisive = decisive.map(|(_, label)| label.to_owned());
    Ok(tried.range)
}

/// A number with an interval of positive width.
struct Varied<'a> {
    path: &'a str,
    label: &'a str,
    value: f64,
    low: f64,
    high: f64,
}

impl<'a> Varied<'a> {
    fn of(figure: &'a Figure) -> Option<Self> {
        let (low, high) = interval(figure);
        // Other numbers of cores are tried too.
        let is_certain = figure.is_counted() && figure.key() != "cores";
        (low < high && !is_certain).then_some(Varied {
            path: &figure.path,
            label: &figure.label,
            value: figure.value,
            low,
            high,
        })
    }
}

fn set(machine: &mut Machine, path: &str, x: f64) -> Result<(), ModelError> {
    match machine.number(path).map(|v| v.with(x)) {
        // An optional number that is absent stays absent.
        Some(value) => machine.set_number(path, value),
        None => Ok(()),
    }
}

struct Tried<'p> {
    problem: &'p Problem<'p>,
    /// Shares of the recommended weights, and of everything on the first tier.
    shares: Vec<f64>,
    first: Vec<f64>,
    range: GainRange,
}

impl<'p> Tried<'p> {
    fn new(problem: &'p Problem<'p>, best: &Best) -> Result<Self, ModelError> {
        let gain = best.gain_over_dram();
        let mut tried = Tried {
            problem,
            shares: best.weights.shares_of(&problem.tiers),
            first: problem.on_first()?.shares_of(&problem.tiers),
            range: GainRange {
                best_share: (best.share, best.share),
                gain: (gain, gain),
                regret: 0.0,
                decisive: None,
                machines: 0,
            },
        };
        tried.on(problem.machine)?;
        Ok(tried)
    }

    /// Tries one more machine and returns the gain on it.
    fn on(&mut self, machine: &Machine) -> Result<f64, ModelError> {
        let problem = self.problem;
        let mut rate = |shares: &[f64]| problem.rate_on(machine, shares);
        let (with, without) = (rate(&self.shares)?, rate(&self.first)?);
        let peak = climb(problem.tiers.len(), &mut rate)?;
        let enough = peak.rate * (1.0 - SIMPLER_WITHIN);
        // If the first tier alone, or the recommended weights, are about as good as the peak, the
        // peak's share is not a better answer: flat maxima would make the range look wide.
        let share = if without >= enough {
            0.0
        } else if with >= enough {
            1.0 - self.shares[0]
        } else {
            1.0 - peak.shares[0]
        };
        let (range, gain) = (&mut self.range, with / without);
        range.best_share = (range.best_share.0.min(share), range.best_share.1.max(share));
        range.gain = (range.gain.0.min(gain), range.gain.1.max(gain));
        range.regret = range.regret.max(1.0 - with / peak.rate.max(with));
        range.machines += 1;
        Ok(gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::work::{Stream, Work};
    use crate::search::best;
    use crate::{Options, Value, profiles};

    fn range(machine: &Machine) -> GainRange {
        let (phases, options) = (
            Work::Read(Stream::default()).phases(32).unwrap(),
            Options::default(),
        );
        let problem = Problem::new(machine, &phases, 32, &options);
        let found = best(&problem).unwrap();
        robust(&problem, &found).unwrap()
    }

    #[test]
    fn an_exact_profile_gives_no_range() {
        let mut machine = profiles::load("nus24").unwrap();
        for figure in machine.figures() {
            let sure =
                Value::new(figure.value, figure.kind, "sure").within(figure.value, figure.value);
            machine.set_number(&figure.path, sure).unwrap();
        }
        let range = range(&machine);
        assert_eq!(range.best_share.0, range.best_share.1);
        assert!(
            range.regret < SIMPLER_WITHIN && range.decisive.is_none(),
            "{range:?}"
        );
    }

    #[test]
    fn a_less_certain_peak_widens_the_range_and_is_named() {
        let mut machine = profiles::load("nus24").unwrap();
        let narrow = range(&machine);
        let peak = machine.number("tiers[cxl].read_gbps").unwrap().clone();
        let (low, high) = (peak.value * 0.5, peak.value * 1.5);
        machine
            .set_number("tiers[cxl].read_gbps", peak.within(low, high))
            .unwrap();
        let wide = range(&machine);
        assert!(
            wide.gain.0 < narrow.gain.0 && wide.regret > narrow.regret,
            "{narrow:?} {wide:?}"
        );
        assert!(wide.best_share.0 < narrow.best_share.0 && wide.best_share.1 > narrow.best_share.1);
        assert_eq!(wide.decisive.as_deref(), Some("cxl read bandwidth"));
        assert_eq!(range(&machine), wide, "not the same in every run");
    }

    #[test]
    fn every_end_of_every_interval_is_a_machine() {
        for name in profiles::builtin_names() {
            let mut machine = profiles::load(name).unwrap();
            for figure in machine.figures() {
                let (low, high) = interval(&figure);
                assert!(low <= high, "{name}: {figure:?}");
                for x in [low, high] {
                    set(&mut machine, &figure.path, x).unwrap();
                    machine.check().unwrap();
                }
                set(&mut machine, &figure.path, figure.value).unwrap();
            }
        }
    }
}
