//! Search for the best weights by measuring: the model proposes points, and every measured point
//! corrects the model.

use super::correct::Factor;
use super::steps::Search;
use super::{Problem, Weights};
use crate::error::ModelError;
use crate::machine::Machine;
use thiserror::Error;

/// Source of measured rates: real tiers, or a simulated machine.
pub trait Probe {
    /// Cause of a failed measurement.
    type Error;

    /// Runs the phases with these weights and returns the rate, in tuples per second.
    ///
    /// Any unit in a fixed ratio to the model's works, because only ratios of rates are used.
    ///
    /// # Errors
    /// Any error that prevents the measurement; it ends the search.
    fn rate(&mut self, weights: &Weights) -> Result<f64, Self::Error>;
}

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
    /// Measured rate, in the unit of the [`Probe`].
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

/// Searches the best weights with few measured points.
///
/// The first two points are the model's best weights and everything on the first tier. After each
/// point a few factors (peaks and latencies of the tiers, lines in flight, processor time) are
/// fitted to all points, the remaining residuals are interpolated around them, and the best weights
/// of this corrected model are measured next. When those have been measured, machines are drawn
/// from the posterior, and the weights with the largest expected improvement are measured. Last,
/// the optimum is bracketed: on either side of the best point there must be a measured one within
/// half of the shares. The search ends when none of these steps asks for a point.
///
/// If the residuals exceed the noise by far, or three points in a row that the model asked for
/// gained nothing, the widest gap beside the best point is halved instead, so that neither a wrong
/// model nor a second maximum goes unnoticed.
///
/// # Errors
/// [`SearchError`] if the model cannot solve the problem, the probe fails or returns no rate, or no
/// point is allowed.
pub fn measured<P: Probe>(
    problem: &Problem<'_>,
    probe: &mut P,
    limits: &SearchLimits,
) -> Result<Searched, SearchError<P::Error>> {
    problem.check()?;
    let mut search = Search::new(problem, limits);
    while search.points.len() < limits.points {
        let Some((weights, why)) = search.next()? else {
            return search.finish(true);
        };
        let rate = probe.rate(&weights).map_err(|cause| SearchError::Probe {
            weights: weights.clone(),
            cause,
        })?;
        if !(rate.is_finite() && rate > 0.0) {
            return Err(SearchError::Rate { weights, rate });
        }
        search.take(weights, rate, why)?;
    }
    // The limit was reached; the result is still final if no further point would have been
    // measured.
    let is_sure = !search.points.is_empty() && search.next()?.is_none();
    search.finish(is_sure)
}
