//! What a measured search is given and what it finds.

use super::Weights;
use super::correct::Factor;
use crate::error::ModelError;
use crate::machine::Machine;
use thiserror::Error;

/// When to stop searching.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchLimits {
    /// Limit on the number of measured points, at least 1.
    pub points: usize,
    /// Relative standard deviation of one measured rate, from repetitions.
    pub noise: f64,
    /// Relative gain below which another point is not worth measuring.
    pub enough: f64,
}

impl Default for SearchLimits {
    /// 12 points, noise of 2 %, and no point for a gain of less than 0.5 %.
    fn default() -> Self {
        SearchLimits {
            points: 12,
            noise: 0.02,
            enough: 0.005,
        }
    }
}

/// Reason for measuring a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Best weights of the uncorrected model.
    Model,
    /// Everything on the first tier, the reference for gains.
    First,
    /// Best weights of the model corrected by the points before.
    Corrected,
    /// Largest expected improvement over draws from the posterior.
    ExpectedImprovement,
    /// In the gap beside the best point, in case the model is wrong there.
    Beside,
}

/// One measured point of a search, with the model's rate for comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredPoint {
    /// Weights that were measured.
    pub weights: Weights,
    /// Measured rate, in the unit of the [`super::Probe`].
    pub rate: f64,
    /// Rate by the uncorrected model, tuples per second.
    pub modelled: f64,
    /// Reason for measuring it.
    pub why: Why,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// Best of the measured weights, with measured rates shrunk towards the corrected model as
    /// noise requires.
    pub weights: Weights,
    /// Measured rate with `weights`.
    pub rate: f64,
    /// All points, in the order of measurement.
    pub points: Vec<MeasuredPoint>,
    /// Fitted factors on the profile.
    pub factors: Vec<Factor>,
    /// Profile with the factors applied.
    pub machine: Machine,
    /// Root mean square of the residuals (logarithms of rates) of the corrected model.
    pub misfit: f64,
    /// True if the search ended because no further point promised a gain, false if the limit on
    /// points ended it.
    pub is_sure: bool,
}

/// Reason why a search ended without a result.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SearchError<E> {
    /// The model cannot solve the problem.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The probe returned an error, which ends the search.
    #[error("cannot measure the rate with weights {weights}: {cause}")]
    Probe {
        /// Weights that were to be measured.
        weights: Weights,
        /// Error of the probe.
        cause: E,
    },
    /// The probe returned a number that is not a rate.
    #[error("measured rate with weights {weights} is {rate}; expected a finite number above 0")]
    Rate {
        /// Weights that were measured.
        weights: Weights,
        /// Number that the probe returned.
        rate: f64,
    },
    /// The search may not measure anything: [`SearchLimits::points`] is 0.
    #[error("a search needs at least one point; allow more points")]
    NoPoints,
}
