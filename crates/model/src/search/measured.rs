//! The best weights found by measuring: the model says where, every measured point corrects the model.

use super::correct::Factor;
use super::steps::Search;
use super::{Problem, Weights};
use crate::error::ModelError;
use crate::machine::Machine;
use thiserror::Error;

/// Something that can be asked for the rate at some weights: real tiers, or a simulated machine.
pub trait Probe {
    /// Why it could not answer.
    type Error;

    /// Runs the phases with what moves in these weights; tuples per second (or any unit in a fixed ratio to what the model says).
    ///
    /// # Errors
    /// Whatever keeps it from measuring; the search ends with it.
    fn rate(&mut self, weights: &Weights) -> Result<f64, Self::Error>;
}

/// How long to search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchLimits {
    /// Points measured at most.
    pub points: usize,
    /// Relative standard deviation of one measured rate, from repetitions.
    pub noise: f64,
    /// A gain below this share of the rate is not worth another point.
    pub enough: f64,
}

impl Default for SearchLimits {
    /// Twelve points, noise of 2%, nothing done for less than 0.5%.
    fn default() -> Self {
        SearchLimits {
            points: 12,
            noise: 0.02,
            enough: 0.005,
        }
    }
}

/// Why a point was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The model's best weights before anything was measured.
    Model,
    /// Everything on the first tier, what gains are counted from.
    First,
    /// The best weights of the model corrected by the points before.
    Corrected,
    /// The best weights of machines that the points do not rule out yet.
    Doubt,
    /// Beside the best point, in case the model is wrong there.
    Beside,
}

/// A measured point.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredPoint {
    /// The weights.
    pub weights: Weights,
    /// Measured rate.
    pub rate: f64,
    /// Rate by the model as it was before any point.
    pub modelled: f64,
    /// Why it was measured.
    pub why: Why,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Searched {
    /// The best of the measured weights.
    pub weights: Weights,
    /// Its measured rate.
    pub rate: f64,
    /// All points, in the order of measuring.
    pub points: Vec<MeasuredPoint>,
    /// Factors that bring the model to the points.
    pub factors: Vec<Factor>,
    /// The profile with these factors.
    pub machine: Machine,
    /// What the corrected model still misses the points by: root of the mean square of the relative errors.
    pub misfit: f64,
    /// The search ended because no further point promised a gain, not because the points ran out.
    pub is_sure: bool,
}

/// Why a search ended without a result.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SearchError<E> {
    /// The model cannot price the problem.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The probe failed.
    #[error("cannot measure the rate with weights {weights}: {cause}")]
    Probe {
        /// The weights asked for.
        weights: Weights,
        /// What the probe said.
        cause: E,
    },
    /// The probe gave a number that is no rate.
    #[error("measured rate with weights {weights} is {rate}; expected a finite number above 0")]
    Rate {
        /// The weights asked for.
        weights: Weights,
        /// The number.
        rate: f64,
    },
    /// Nothing may be measured.
    #[error("a search needs at least one point; allow more points")]
    NoPoints,
}

/// Searches the best weights with few measured points.
///
/// The first points are the model's best weights and everything on the first tier. After each point a few factors (peaks and latencies of
/// the tiers, lines in flight, processor time) are fitted so that the model meets all points within their noise, what it still misses is
/// taken over to the neighbourhood, and the best weights of this corrected model are measured next. Once they have been, machines are
/// drawn that the points leave possible, and the weights that are expected to gain most over them are measured. Last, the best
/// point has to hold its own: on either side of it a point must have been measured within half of the shares. The search ends when nothing
/// of this asks for another point.
///
/// Where the model misses the points by much more than their noise, or three points that it asked for gained nothing, the widest gap beside the best point is
/// halved instead, so that neither a wrong model nor a second hill goes unseen.
///
/// # Errors
/// [`SearchError`].
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
    // The points ran out; was another one asked for?
    let is_sure = !search.points.is_empty() && search.next()?.is_none();
    search.finish(is_sure)
}
