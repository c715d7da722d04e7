//! Numbers of a profile that may be wrong, and what hangs on them.

use tierloom_model::Figure;
use tierloom_model::search::interval;

/// A number of the profile that may be wrong.
#[derive(Debug, Clone)]
pub(super) struct Number {
    pub path: String,
    pub at_profile: f64,
    /// The smallest and largest that may stand there.
    pub possible: (f64, f64),
}

/// A gain with its doubt, both as logarithms of a ratio of times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// ln(time before / time after): above 0 is faster.
    pub mean: f64,
    /// Standard deviation of it.
    pub doubt: f64,
}

impl Gain {
    /// Both estimates together, each weighted by one over its variance.
    pub fn with(&self, other: &Gain) -> Gain {
        let (own, others) = (
            self.doubt.powi(2).max(1e-12),
            other.doubt.powi(2).max(1e-12),
        );
        let variance = 1.0 / (1.0 / own + 1.0 / others);
        Gain {
            mean: variance * (self.mean / own + other.mean / others),
            doubt: variance.sqrt(),
        }
    }
}

/// ln of a time on the machine, and with each uncertain number by itself higher and lower.
#[derive(Debug, Clone)]
pub(super) struct Around {
    /// On the machine.
    pub here: f64,
    /// Above and below, number by number.
    pub sides: Vec<[f64; 2]>,
}

impl Around {
    /// How far the answer is from a straight line over the doubt of all numbers together.
    pub fn bend(&self) -> f64 {
        let of = |[above, below]: &[f64; 2]| 0.5 * (above + below) - self.here;
        self.sides.iter().map(|s| of(s).powi(2)).sum::<f64>().sqrt()
    }
}

impl Number {
    pub fn of(figure: &Figure) -> Self {
        let widest = Figure {
            low: Some(figure.value * 1e-3),
            high: Some(figure.value * 1e3),
            ..figure.clone()
        };
        Number {
            path: figure.path.clone(),
            at_profile: figure.value,
            possible: interval(&widest),
        }
    }
}

/// Counts are known, and what is 0 has no factor.
pub(super) fn is_uncertain(figure: &Figure) -> bool {
    let counted = matches!(
        figure.path.rsplit('.').next(),
        Some("capacity_bytes" | "devices" | "smt" | "page_bytes" | "cores" | "entries")
    );
    figure.value > 0.0 && !counted
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
