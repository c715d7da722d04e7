//! Fits of model parameters to measured rates and latencies.
//!
//! The model cannot be inverted directly, so its parameters are found by search: a grid over the
//! knee of the loaded-latency curve, bisection over the lines in flight.

use tierloom_model::{Machine, Options, Phase, Placement, TierShares, solve};

/// Exponent of the loaded-latency curve, as most profiles have it; knee and height are fitted.
pub(super) const EXPONENT: f64 = 2.0;
/// Highest knee that is tried.
const HIGHEST_KNEE: f64 = 0.95;
/// Highest number of lines in flight that is tried: in effect no limit.
const MOST_LINES: f64 = 4096.0;

/// A fitted loaded-latency curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Curve {
    /// Latency at full utilisation, divided by idle latency.
    pub(super) ratio_at_peak: f64,
    /// Utilisation above which latency rises.
    pub(super) knee: f64,
    /// Highest utilisation among the measured points.
    pub(super) seen_up_to: f64,
}

/// Fits the model's `LoadedLatency` to points (utilisation, latency over idle latency).
///
/// This is least squares: the knee is searched in steps of 1%, and for each knee the best height
/// has a closed form.
pub(super) fn curve(points: &[(f64, f64)]) -> Option<Curve> {
    let seen_up_to = points.iter().map(|(u, _)| *u).fold(0.0, f64::max);
    let mut best: Option<(f64, Curve)> = None;
    for step in 0..=(HIGHEST_KNEE * 100.0) as u32 {
        let knee = f64::from(step) / 100.0;
        let rise = |u: f64| {
            let above = (u.min(1.0) - knee) / (1.0 - knee);
            above.max(0.0).powf(EXPONENT)
        };
        let (mut xy, mut xx) = (0.0, 0.0);
        for (u, ratio) in points {
            xy += rise(*u) * (ratio - 1.0);
            xx += rise(*u) * rise(*u);
        }
        // Without a point above the knee, the height is undefined.
        if xx <= 1e-9 {
            continue;
        }
        // Noise below idle latency must not give a curve that falls under load.
        let height = (xy / xx).max(0.0);
        let error: f64 = points
            .iter()
            .map(|(u, ratio)| (1.0 + height * rise(*u) - ratio).powi(2))
            .sum();
        // The margin keeps the lowest knee among equally good ones, whatever the rounding.
        if best.is_none_or(|(least, _)| error < least - 1e-12) {
            let fitted = Curve {
                ratio_at_peak: 1.0 + height,
                knee,
                seen_up_to,
            };
            best = Some((error, fitted));
        }
    }
    best.map(|(_, curve)| curve)
}

/// Tuples per ns that the model gives for `phase` with one worker on `tier` and `lines` lines in
/// flight.
fn rate(
    machine: &Machine,
    set: impl Fn(&mut Machine, f64),
    phase: &Phase,
    tier: &str,
    lines: f64,
) -> Option<f64> {
    let mut tried = machine.clone();
    set(&mut tried, lines);
    let placement = Placement::new(TierShares::from_weights(&[(tier, 1.0)]).ok()?);
    let solution = solve(&tried, phase, &placement, 1, &Options::default()).ok()?;
    Some(phase.tuples / solution.time_ns)
}

/// The highest rate that the model gives one worker, without a limit on lines in flight.
pub(super) fn most(
    machine: &Machine,
    set: impl Fn(&mut Machine, f64),
    phase: &Phase,
    tier: &str,
) -> Option<f64> {
    rate(machine, set, phase, tier, MOST_LINES)
}

/// The lines in flight with which the model gives `tuples_per_ns` for one worker on `tier`.
///
/// `set` writes a number of lines into the machine. Where no number reaches the rate, because the
/// tier's peak is lower, the result is the smallest number within 1% of the highest rate.
pub(super) fn lines_in_flight(
    machine: &Machine,
    set: impl Fn(&mut Machine, f64),
    phase: &Phase,
    tier: &str,
    tuples_per_ns: f64,
) -> Option<f64> {
    let rate = |lines: f64| rate(machine, &set, phase, tier, lines);
    let most = rate(MOST_LINES)?;
    let wanted = tuples_per_ns.min(most * 0.99);
    let (mut low, mut high) = (1.0, MOST_LINES);
    if rate(low)? >= wanted {
        return Some(low);
    }
    // The rate never falls with more lines, so bisection finds the point; 40 halvings of this
    // interval leave less than a millionth of a line.
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if rate(middle)? < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::{Access, PhaseKind, profiles};

    #[test]
    fn a_curve_of_the_models_own_form_is_found_again() {
        let points: Vec<(f64, f64)> = (0..=10)
            .map(|step| {
                let u = f64::from(step) / 10.0;
                let above = ((u - 0.4) / 0.6_f64).max(0.0);
                (u, 1.0 + 2.5 * above * above)
            })
            .collect();
        let found = curve(&points).unwrap();
        assert!((found.ratio_at_peak - 3.5).abs() < 1e-6 && (found.knee - 0.4).abs() < 1e-9);
        assert_eq!(found.seen_up_to, 1.0);
    }

    #[test]
    fn noise_below_idle_latency_gives_a_flat_curve_and_no_points_give_none() {
        let flat = curve(&[(0.2, 0.98), (0.5, 1.0), (0.9, 0.97)]).unwrap();
        assert_eq!(flat.ratio_at_peak, 1.0);
        assert_eq!(curve(&[]), None);
        assert_eq!(curve(&[(0.0, 1.0)]), None);
    }

    #[test]
    fn lines_in_flight_give_the_rate_back() {
        let machine = profiles::load("epfl25-full-pf-on").unwrap();
        let phase = Phase::new("read", PhaseKind::Scan, 1e9)
            .access(Access::sequential_read("a", 64.0, 64_000_000_000).vectorised());
        let set = |m: &mut Machine, lines: f64| {
            m.concurrency.sequential_simd = m.concurrency.sequential_simd.with(lines);
        };
        // 10 GB/s of one core are 10/64 lines per nanosecond.
        let lines = lines_in_flight(&machine, set, &phase, "dram", 10.0 / 64.0).unwrap();
        let mut fitted = machine.clone();
        set(&mut fitted, lines);
        let placement = Placement::new(TierShares::from_weights(&[("dram", 1.0)]).unwrap());
        let time_ns = solve(&fitted, &phase, &placement, 1, &Options::default())
            .unwrap()
            .time_ns;
        assert!((64.0 * 1e9 / time_ns - 10.0).abs() < 0.01);
    }
}
