//! Samples of all probes over all rounds, and the profile values computed from them.
//!
//! A profile value is the median of all repetitions of all rounds, with an interval that contains
//! all of them and more.

use tierloom_model::{SourceKind, Value};
use tierloom_record::{Spread, TaskRecord};

/// Smallest margin on each side of an interval, as a share of the median.
///
/// Repetitions that happen to agree do not prove more precision than this.
const LEAST_MARGIN: f64 = 0.03;

/// All samples of all probes; both vectors are indexed by probe.
#[derive(Debug)]
pub(super) struct Gathered {
    figures: Vec<Vec<f64>>,
    beside_gbps: Vec<Vec<f64>>,
}

impl Gathered {
    pub(super) fn new(probes: usize) -> Self {
        Self {
            figures: vec![Vec::new(); probes],
            beside_gbps: vec![Vec::new(); probes],
        }
    }

    /// Adds one round of a probe: latencies if they were timed, else bandwidths.
    pub(super) fn add(&mut self, probe: usize, main: &TaskRecord, beside_gbps: f64) {
        let values = match (&main.latency, &main.bandwidth_gbps) {
            (Some(latency), _) => &latency.median_ns.values,
            (None, Some(bandwidth)) => &bandwidth.values,
            (None, None) => return,
        };
        self.figures[probe].extend(values);
        let own_gbps = match (&main.latency, &main.bandwidth_gbps) {
            (Some(_), Some(bandwidth)) => bandwidth.median,
            _ => 0.0,
        };
        // The chase itself moves data too; at low load that is a visible part of the utilisation.
        self.beside_gbps[probe].push(beside_gbps + own_gbps);
    }

    /// The figure of a probe over all rounds; `None` if no round gave one.
    pub(super) fn figure(&self, probe: usize) -> Option<Spread> {
        Spread::of(self.figures[probe].clone())
    }

    /// Bandwidth of all tasks together while the probe ran, GB/s.
    pub(super) fn load_gbps(&self, probe: usize) -> Option<Spread> {
        Spread::of(self.beside_gbps[probe].clone())
    }
}

/// The interval of a spread: minimum to maximum, widened on each side by half its width or 3%.
///
/// The larger of the two margins applies.
pub(super) fn interval(spread: &Spread) -> (f64, f64) {
    let margin = ((spread.max - spread.min) / 2.0).max(spread.median * LEAST_MARGIN);
    ((spread.min - margin).max(0.0), spread.max + margin)
}

/// A measured value with its interval and a source that says how often it was measured.
pub(super) fn value(spread: &Spread, what: &str) -> Value {
    let (low, high) = interval(spread);
    let source = format!(
        "{what}; median of {}, {} to {}",
        spread.values.len(),
        digits(spread.min),
        digits(spread.max)
    );
    Value::new(round(spread.median), SourceKind::Measured, source).within(round(low), round(high))
}

/// Rounds to four significant digits: the measurement is not more precise.
pub(super) fn round(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let scale = 10_f64.powi(3 - x.abs().log10().floor() as i32);
    (x * scale).round() / scale
}

fn digits(x: f64) -> String {
    format!("{}", round(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_enclose_all_repetitions_and_never_shrink_to_a_point() {
        let spread = Spread::of(vec![10.0, 12.0, 11.0]).unwrap();
        assert_eq!(interval(&spread), (9.0, 13.0));
        let calm = Spread::of(vec![10.0; 3]).unwrap();
        let (low, high) = interval(&calm);
        assert!((low - 9.7).abs() < 1e-9 && (high - 10.3).abs() < 1e-9);
        let value = value(&spread, "read");
        assert_eq!(value.source, "read; median of 3, 10 to 12");
        assert_eq!(
            (value.value, value.low, value.high),
            (11.0, Some(9.0), Some(13.0))
        );
    }

    #[test]
    fn rounding_keeps_four_digits_of_any_size() {
        for (x, rounded) in [
            (123_456.0, 123_500.0),
            (0.001_234_56, 0.001_235),
            (0.0, 0.0),
            (99.999, 100.0),
        ] {
            assert!((round(x) - rounded).abs() < 1e-9 * rounded.max(1.0), "{x}");
        }
    }
}
