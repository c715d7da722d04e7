//! Uncertain numbers of a machine profile, and quantities that depend on them.

use tierloom_model::Figure;
use tierloom_model::search::interval;

#[derive(Debug, Clone)]
pub(super) struct Number {
    pub path: String,
    pub at_profile: f64,
    /// Smallest and largest value that the profile format allows.
    pub possible: (f64, f64),
}

/// A gain with its uncertainty, as the logarithm of a ratio of times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// ln(time before / time after): above 0 is faster.
    pub mean: f64,
    /// Standard deviation of `mean`.
    pub std_dev: f64,
}

impl Gain {
    /// Combines two independent estimates by inverse-variance weighting.
    pub fn with(&self, other: &Gain) -> Gain {
        // A variance of 0 would get an infinite weight.
        let (own, others) = (
            self.std_dev.powi(2).max(1e-12),
            other.std_dev.powi(2).max(1e-12),
        );
        let variance = 1.0 / (1.0 / own + 1.0 / others);
        Gain {
            mean: variance * (self.mean / own + other.mean / others),
            std_dev: variance.sqrt(),
        }
    }
}

/// ln of a modelled time at the current estimate, and with each uncertain number perturbed alone.
#[derive(Debug, Clone)]
pub(super) struct Around {
    /// At the current estimate.
    pub here: f64,
    /// With each number raised and lowered by its step.
    pub sides: Vec<[f64; 2]>,
}

impl Around {
    /// Root of the summed squared second differences: the linearisation error over all steps.
    pub fn curvature(&self) -> f64 {
        let of = |[above, below]: &[f64; 2]| 0.5 * (above + below) - self.here;
        self.sides.iter().map(|s| of(s).powi(2)).sum::<f64>().sqrt()
    }
}

impl Number {
    pub fn of(figure: &Figure) -> Self {
        let widest = Figure {
            // `interval` clamps to what a profile may hold, so a range that is far too wide yields
            // those limits.
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

/// Whether a number is estimated: counts are known exactly, and 0 cannot be scaled by a factor.
pub(super) fn is_uncertain(figure: &Figure) -> bool {
    let counted = figure.is_counted() || figure.key() == "entries";
    figure.value > 0.0 && !counted
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
