//! Best weights by the model, next to those of the kernel and of plain interleaving.
//!
//! Real-valued shares are optimised first and rounded to whole weights afterwards, because weights
//! with different sums form no smooth search space.

use super::optimum::{Peak, RateOf, climb, compositions};
use super::weights::gcd;
use super::{Problem, Weights};
use crate::error::ModelError;
use crate::machine::Machine;
use crate::solve::Bottleneck;
use std::collections::HashSet;

/// Relative loss of rate that is accepted for simpler weights: 3:2 rather than 59:41.
pub const SIMPLER_WITHIN: f64 = 1e-3;

/// Limit on the sum of the weights that the kernel computes itself (`weightiness` in
/// `mm/mempolicy.c`, Linux 6.16).
const KERNEL_WEIGHTINESS: f64 = 32.0;

/// Best weights and, for comparison, the usual choices.
///
/// All rates are modelled, in tuples per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// Recommended weights, over [`Problem::tiers`].
    pub weights: Weights,
    /// Share of the moved pages that is not on the first tier, 0 to 1.
    pub share: f64,
    /// Modelled rate with `weights`, tuples per second.
    pub rate: f64,
    /// Rate with all that moves on the first tier.
    pub dram_rate: f64,
    /// Weights that the kernel computes itself: see [`kernel_weights`].
    pub kernel_weights: Weights,
    /// Modelled rate with `kernel_weights`, tuples per second.
    pub kernel_rate: f64,
    /// One page per device in turn, as plain `numactl --interleave`: see [`equal_weights`].
    pub equal_weights: Weights,
    /// Modelled rate with `equal_weights`, tuples per second.
    pub equal_rate: f64,
    /// Component that takes the largest part of the time with `weights`.
    pub bottleneck: Bottleneck,
}

impl Best {
    /// Rate over that with everything on the first tier; 1 means no gain.
    pub fn gain_over_dram(&self) -> f64 {
        self.rate / self.dram_rate
    }

    /// Rate over that with equal weights.
    pub fn gain_over_equal(&self) -> f64 {
        self.rate / self.equal_rate
    }

    fn of(problem: &Problem<'_>, weights: Weights) -> Result<Self, ModelError> {
        let solution = problem.solution(&weights)?;
        let kernel_weights = kernel_weights(problem.machine, &problem.tiers)?;
        let equal_weights = equal_weights(problem.machine, &problem.tiers)?;
        Ok(Best {
            share: 1.0 - weights.share(&problem.tiers[0]),
            rate: problem.tuples() / solution.time_ns * 1e9,
            dram_rate: problem.rate(&problem.on_first()?)?,
            kernel_rate: problem.rate(&kernel_weights)?,
            kernel_weights,
            equal_rate: problem.rate(&equal_weights)?,
            equal_weights,
            bottleneck: solution.bottleneck,
            weights,
        })
    }
}

/// Weights that Linux computes itself since 6.16 while `weighted_interleave/auto` is on.
///
/// Each node gets 32 times its share of the bandwidth that firmware reports (HMAT, CDAT), rounded
/// down, at least 1; then the greatest common divisor is removed. Here every device of a tier
/// counts as a node with an equal part of the tier's peak, and the read peak represents what
/// firmware would report.
///
/// # Errors
/// [`ModelError::Weights`] if `tiers` has no tier of the machine; tiers that the machine lacks get
/// no weight.
pub fn kernel_weights(machine: &Machine, tiers: &[String]) -> Result<Weights, ModelError> {
    let known = || tiers.iter().filter_map(|name| machine.tier(name));
    let sum: f64 = known().map(|t| t.read_gbps.value).sum();
    let node =
        |gbps: f64, devices: f64| (KERNEL_WEIGHTINESS * gbps / devices / sum).floor().max(1.0);
    Weights::new(known().map(|t| {
        let devices = t.devices.value.max(1.0);
        let weight = node(t.read_gbps.value, devices) * devices;
        (t.name.clone(), weight as u32)
    }))
}

/// One page per node in turn, every device of a tier counted as a node.
///
/// This is what `numactl --interleave` does, and kernels without bandwidth tables from firmware.
///
/// # Errors
/// Same as [`kernel_weights`].
pub fn equal_weights(machine: &Machine, tiers: &[String]) -> Result<Weights, ModelError> {
    let known = tiers.iter().filter_map(|name| machine.tier(name));
    Weights::new(known.map(|t| (t.name.clone(), t.devices.value.max(1.0) as u32)))
}

/// Best weights, found by search: tens of solutions of the model for two tiers, some hundreds for
/// four.
///
/// Everything on the first tier is chosen if it comes within [`SIMPLER_WITHIN`] of the best rate,
/// else the weights with the smallest sum that do.
///
/// # Errors
/// Same as [`Problem::solution`], and [`ModelError::UnknownTier`] for tiers that the machine lacks.
pub fn best(problem: &Problem<'_>) -> Result<Best, ModelError> {
    problem.check()?;
    let mut rate = |shares: &[f64]| problem.rate_on(problem.machine, shares);
    let peak = climb(problem.tiers.len(), &mut rate)?;
    let (tiers, max) = (&problem.tiers, problem.max_weight);
    let weights = simplest(tiers, max, &peak, SIMPLER_WITHIN, &mut rate)?;
    Best::of(problem, weights)
}

/// Weights with the smallest sum within `tolerance` of the peak rate; if none are, the best of
/// those tried.
pub(super) fn simplest(
    tiers: &[String],
    max_weight: u32,
    peak: &Peak,
    tolerance: f64,
    rate: &mut RateOf<'_>,
) -> Result<Weights, ModelError> {
    let enough = peak.rate * (1.0 - tolerance);
    let mut first = vec![0; tiers.len()];
    first[0] = 1;
    let mut found = (f64::NEG_INFINITY, first.clone());
    // Sums grow with the number of tiers, but beyond four tiers more of them would only cost time.
    let largest = max_weight.saturating_mul(tiers.len().min(4) as u32);
    let rounded = (1..=largest).flat_map(|total| roundings(&peak.shares, total));
    // Everything on the first tier is tried first, because it needs no interleaving at all.
    for weights in std::iter::once(first).chain(rounded) {
        // Multiples of smaller weights give the same shares again.
        let is_reduced = weights.iter().fold(0, |d, w| gcd(d, *w)) == 1;
        if !is_reduced || weights.iter().any(|w| *w > max_weight) {
            continue;
        }
        let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
        let shares: Vec<f64> = weights.iter().map(|w| f64::from(*w) / sum).collect();
        let here = rate(&shares)?;
        if here > found.0 {
            found = (here, weights);
        }
        if here >= enough {
            break;
        }
    }
    Weights::new(tiers.iter().cloned().zip(found.1))
}

/// Integers with this sum near the shares: both neighbours for two tiers, else by largest
/// remainders.
fn roundings(shares: &[f64], total: u32) -> Vec<Vec<u32>> {
    let exact: Vec<f64> = shares.iter().map(|s| s * f64::from(total)).collect();
    let mut floor: Vec<u32> = exact.iter().map(|x| x.floor() as u32).collect();
    if let [_, second] = floor[..] {
        let second = second.min(total);
        let near = vec![total - second, second];
        return if second < total {
            vec![near, vec![total - second - 1, second + 1]]
        } else {
            vec![near]
        };
    }
    let mut by_remainder: Vec<usize> = (0..exact.len()).collect();
    by_remainder.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let missing = total.saturating_sub(floor.iter().sum());
    for i in by_remainder.into_iter().cycle().take(missing as usize) {
        floor[i] += 1;
    }
    vec![floor]
}

/// Best weights by exhaustive search, as a reference for [`best`].
///
/// Two tiers: every reduced N:M up to the largest weight. Three tiers: all weights with a sum of up
/// to 24; four or more: up to 14. Slow (thousands of solutions).
///
/// # Errors
/// Same as [`best`].
pub fn exhaustive(problem: &Problem<'_>) -> Result<Best, ModelError> {
    problem.check()?;
    let (tiers, max) = (problem.tiers.len(), problem.max_weight);
    // The limits on the sums keep the number of weights at about 3000 for three and four tiers.
    let all: Vec<Vec<u32>> = match tiers {
        1 => vec![vec![1]],
        2 => (0..=max)
            .flat_map(|n| (0..=max).map(move |m| vec![n, m]))
            .filter(|w| gcd(w[0], w[1]) == 1)
            .collect(),
        3 => (1..=24).flat_map(|total| compositions(3, total)).collect(),
        n => (1..=14).flat_map(|total| compositions(n, total)).collect(),
    };
    let mut seen = HashSet::new();
    let mut best: Option<(f64, Weights)> = None;
    for counts in all.into_iter().filter(|w| w.iter().all(|w| *w <= max)) {
        let weights = Weights::new(problem.tiers.iter().cloned().zip(counts))?;
        if !seen.insert(weights.clone()) {
            continue;
        }
        let rate = problem.rate_on(problem.machine, &weights.shares_of(&problem.tiers))?;
        if best.as_ref().is_none_or(|(b, _)| rate > *b) {
            best = Some((rate, weights));
        }
    }
    let weights = match best {
        Some((_, weights)) => weights,
        None => problem.on_first()?,
    };
    Best::of(problem, weights)
}

/// Rate over the share that is not on the first tier, from 0 to 1 in `steps` steps, for a chart.
///
/// With more than two tiers, all but the first are used in the ratio of their read peaks.
///
/// # Errors
/// Same as [`best`].
pub fn curve(problem: &Problem<'_>, steps: u32) -> Result<Vec<(f64, f64)>, ModelError> {
    problem.check()?;
    let peak = |tier: &String| {
        problem
            .machine
            .tier(tier)
            .map_or(0.0, |t| t.read_gbps.value)
    };
    let others = problem.tiers.get(1..).unwrap_or_default();
    let sum: f64 = others.iter().map(peak).sum();
    let last = if others.is_empty() { 0 } else { steps.max(1) };
    (0..=last)
        .map(|step| {
            let share = if last == 0 {
                0.0
            } else {
                f64::from(step) / f64::from(last)
            };
            let mut shares = vec![1.0 - share];
            shares.extend(others.iter().map(|t| share * peak(t) / sum));
            Ok((share, problem.rate_on(problem.machine, &shares)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::work::{Stream, Work};
    use crate::{Options, SourceKind, Tier, Value, profiles};

    fn reads(machine: &Machine, dram_gbps: f64, cxl_gbps: f64) -> Machine {
        let mut machine = machine.clone();
        machine.tiers = vec![
            Tier::plain("dram", dram_gbps, 100.0, "test"),
            Tier::plain("cxl", cxl_gbps, 200.0, "test"),
        ];
        machine
    }

    #[test]
    fn the_kernels_weights_are_its_own_arithmetic() {
        let machine = profiles::load("nus24").unwrap();
        let tiers: Vec<String> = vec!["dram".into(), "cxl".into()];
        let weights = |dram, cxl| {
            kernel_weights(&reads(&machine, dram, cxl), &tiers)
                .unwrap()
                .to_string()
        };
        // 32 x 224 / 288 = 24.9, 32 x 64 / 288 = 7.1; 32 x 300 / 302 = 31.8, 0.2.
        assert_eq!(weights(224.0, 64.0), "dram 24, cxl 7");
        assert_eq!(weights(300.0, 2.0), "dram 31, cxl 1");
        assert_eq!(weights(60.0, 60.0), "dram 1, cxl 1");
        let mut four = reads(&machine, 270.0, 184.0);
        four.tiers[1].devices = Value::new(4.0, SourceKind::Assumed, "test");
        // Four nodes of 46 GB/s get 3 each, one of 270 gets 19.
        assert_eq!(
            kernel_weights(&four, &tiers).unwrap().to_string(),
            "dram 19, cxl 12"
        );
        assert_eq!(
            equal_weights(&four, &tiers).unwrap().to_string(),
            "dram 1, cxl 4"
        );
    }

    #[test]
    fn saturated_reads_are_split_in_the_ratio_of_the_peaks_in_small_numbers() {
        let machine = reads(&profiles::load("nus24").unwrap(), 30.0, 20.0);
        let (phases, options) = (
            Work::Read(Stream::default()).phases(32).unwrap(),
            Options::default(),
        );
        let problem = Problem::new(&machine, &phases, 32, &options);
        let found = best(&problem).unwrap();
        assert_eq!(found.weights.to_string(), "dram 3, cxl 2");
        assert!((found.gain_over_dram() - 5.0 / 3.0).abs() < 1e-6);
        assert!((found.gain_over_equal() - 5.0 / 4.0).abs() < 1e-6);
    }

    #[test]
    fn without_a_gain_everything_stays_on_the_first_tier() {
        let machine = profiles::load("epfl25-full-pf-on").unwrap();
        let (phases, options) = (
            Work::Read(Stream::default()).phases(1).unwrap(),
            Options::default(),
        );
        let found = best(&Problem::new(&machine, &phases, 1, &options)).unwrap();
        assert_eq!(
            (found.weights.to_string().as_str(), found.share),
            ("dram 1", 0.0)
        );
        assert_eq!(found.gain_over_dram(), 1.0);
    }

    #[test]
    fn a_curve_begins_at_dram_and_ends_off_it() {
        let machine = profiles::load("nus24").unwrap();
        let (phases, options) = (
            Work::Read(Stream::default()).phases(32).unwrap(),
            Options::default(),
        );
        let problem = Problem::new(&machine, &phases, 32, &options);
        let curve = curve(&problem, 10).unwrap();
        let rate = |text| {
            problem
                .rate(&Weights::parse(text, &problem.tiers).unwrap())
                .unwrap()
        };
        assert_eq!(curve.len(), 11);
        assert_eq!(
            (curve[0], curve[10]),
            ((0.0, rate("1:0")), (1.0, rate("0:1")))
        );
        assert_eq!(curve[5], (0.5, rate("1:1")));
    }
}
