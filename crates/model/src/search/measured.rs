//! Search for the best weights by measuring: the model proposes points, and every measured point
//! corrects the model.

use super::searched::{SearchError, SearchLimits, Searched};
use super::steps::Search;
use super::{Problem, Weights};

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
