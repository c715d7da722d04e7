//! Statistics over repetitions: the precision of the median, and signs of an unsteady machine.
//!
//! Nothing assumes a distribution: times on a shared machine are skewed and often have two modes.

use tierloom_record::{Remark, Spread, StabilityRecord};

use crate::plan::UntilStable;

/// Smallest number of repetitions whose minimum and maximum enclose the median with 95% confidence.
///
/// With six they do so with 1 - 2 / 2^6 = 96.9%.
const FEWEST_FOR_INTERVAL: usize = 6;
/// Range of the repetitions, as a share of the median, above which the record gets a remark.
const WIDE_RANGE: f64 = 0.10;
/// Gap in the sorted repetitions, as a share of the median, above which they have two modes.
///
/// Each side must have at least two values.
const MODE_GAP: f64 = 0.15;

/// Half of the 95% confidence interval of the median, divided by the median.
///
/// `None` for fewer than six values. The endpoints of the interval are order statistics (binomial,
/// no assumption on the distribution): values k and n+1-k, with the largest k for which
/// P(Binomial(n, 1/2) < k) <= 0.025. See Hahn and Meeker, "Statistical Intervals", 1991, section
/// 5.2.
pub fn relative_half_width(values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n < FEWEST_FOR_INTERVAL {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // `term` is P(X = i), by its recurrence. Above 1,074 values 0.5^n is 0 in an `f64`, and the
    // interval comes out too narrow.
    let (mut below, mut term, mut rank) = (0.0, 0.5_f64.powi(n as i32), 0);
    while rank < n / 2 && below + term <= 0.025 {
        below += term;
        term *= (n - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    let (low, high) = (sorted[rank.max(1) - 1], sorted[n - rank.max(1)]);
    let median = Spread::of(sorted)?.median;
    Some((high - low) / 2.0 / median)
}

/// What the repetitions `values` reached of the precision that was asked for.
pub(super) fn stability(asked: &UntilStable, values: &[f64]) -> StabilityRecord {
    let reached = relative_half_width(values);
    StabilityRecord {
        asked_relative_half_width: asked.relative_half_width,
        // Too few values for an interval: 1 means that nothing is known.
        reached_relative_half_width: reached.unwrap_or(1.0),
        stable: reached.is_some_and(|reached| reached <= asked.relative_half_width),
        repeats: values.len() as u32,
    }
}

/// Remarks on the repetitions of the task `what`: two modes, or a wide range.
pub(super) fn remarks(what: &str, spread: &Spread) -> Vec<Remark> {
    let remark = |text| Remark {
        invalidates: false,
        text,
    };
    if let Some((low, high)) = modes(&spread.values) {
        return vec![remark(format!(
            "{what}: two modes of speed in the repetitions, about {low:.1} and {high:.1}; compare only runs that alternate within seconds"
        ))];
    }
    let range = spread.relative_range();
    if range > WIDE_RANGE {
        return vec![remark(format!(
            "{what}: the repetitions are {:.0}% apart; something else used the machine, or its speed changes",
            range * 100.0
        ))];
    }
    Vec::new()
}

/// The means of the two groups that the values form; `None` if they form one.
fn modes(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.len() < FEWEST_FOR_INTERVAL {
        return None;
    }
    let (at, gap) = sorted
        .windows(2)
        .enumerate()
        .map(|(at, pair)| (at + 1, pair[1] - pair[0]))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (low, high) = sorted.split_at(at);
    let range = |part: &[f64]| part[part.len() - 1] - part[0];
    // The gap must exceed the range within each group, or an even spread would count as two modes.
    let apart = low.len() >= 2
        && high.len() >= 2
        && gap > MODE_GAP * sorted[sorted.len() / 2]
        && gap > range(low).max(range(high));
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    apart.then(|| (mean(low), mean(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_are_too_few_and_six_take_the_whole_range() {
        assert_eq!(relative_half_width(&[1.0; 5]), None);
        let width = relative_half_width(&[9.0, 11.0, 10.0, 10.0, 10.0, 10.0]).unwrap();
        assert!((width - 0.1).abs() < 1e-12);
    }

    #[test]
    fn interval_ranks_are_those_of_the_binomial_tables() {
        // n, rank of the lower endpoint: standard table of 95% intervals for the median.
        for (n, rank) in [(8, 1), (9, 2), (12, 3), (20, 6), (30, 10), (50, 18)] {
            let values: Vec<f64> = (1..=n).map(|v| 1000.0 + f64::from(v)).collect();
            let median = 1000.0 + f64::from(n + 1) / 2.0;
            let expected = f64::from(n + 1 - 2 * rank) / 2.0 / median;
            let found = relative_half_width(&values).unwrap();
            assert!((found - expected).abs() < 1e-12, "{n}: {found} {expected}");
        }
    }

    #[test]
    fn one_slow_repetition_does_not_keep_a_calm_run_from_being_stable() {
        let mut values = vec![10.0; 12];
        values[3] = 5.0;
        let asked = UntilStable {
            relative_half_width: 0.02,
            max_repeat: 50,
        };
        assert!(stability(&asked, &values).stable);
        let few = stability(&asked, &values[..4]);
        assert!(!few.stable && few.repeats == 4);
    }

    #[test]
    fn two_modes_are_told_from_a_wide_spread_and_from_calm() {
        let text = |values: &[f64]| {
            let spread = Spread::of(values.to_vec()).unwrap();
            remarks("read", &spread)
                .first()
                .map(|remark| remark.text.clone())
                .unwrap_or_default()
        };
        assert!(text(&[40.0, 41.0, 80.0, 40.5, 81.0, 79.0]).contains("two modes"));
        assert!(text(&[40.0, 44.0, 48.0, 52.0, 56.0, 60.0]).contains("apart"));
        assert_eq!(text(&[40.0, 40.2, 40.1, 40.0, 40.3, 40.1]), "");
    }
}
