//! Uncertainty of the fitted parameters.
//!
//! The objective is taken as quadratic at its minimum. A posterior that is far from normal, as at a
//! kink where a tier saturates, is not detected.

use super::least_squares::{Point, normal, weight};
use super::linear::inverse;
use super::problem::FitProblem;
use crate::error::CalibrateError;

/// Posterior of the parameters, as logarithms, in Gaussian (Laplace) approximation.
pub(super) struct Posterior {
    /// Half of the width of the 90 % credible interval.
    pub half: Vec<f64>,
    /// Posterior over prior standard deviation.
    pub left: Vec<f64>,
    /// Derivatives of the residuals: `[parameter][figure]`.
    pub columns: Vec<Vec<f64>>,
    /// Pairs of parameters of which only a combination is determined, with their correlation.
    pub pairs: Vec<(usize, usize, f64)>,
}

/// Absolute correlation above which only a combination of two parameters is determined.
const TOGETHER: f64 = 0.95;

/// Posterior covariance at the solution: the inverse of the sum of information from figures and
/// priors.
///
/// The information of the figures is divided by the variance of the residuals, which is taken as at
/// least 1, the stated noise. The prior is uniform on a parameter's interval and enters as a normal
/// one of the same variance, `width^2 / 12`; a log-normal prior adds its information.
pub(super) fn spread(
    problem: &mut FitProblem<'_>,
    at: &Point,
) -> Result<Posterior, CalibrateError> {
    let n = at.x.len();
    let (_, _, columns) = normal(problem, at)?;
    let weights: Vec<f64> = at.residuals.iter().map(|r| weight(*r)).collect();
    let squares: f64 = at
        .residuals
        .iter()
        .zip(&weights)
        .map(|(r, w)| r * r * w)
        .sum();
    let freedom = at.residuals.len().saturating_sub(n).max(1) as f64;
    let variance = (squares / freedom).max(1.0);
    let before: Vec<f64> = (0..n)
        .map(|j| {
            let (low, high) = problem.bounds(j);
            let prior = problem
                .prior(j, at.x[j])
                .map_or(0.0, |(_, slope)| slope * slope);
            12.0 / (high - low).powi(2) + prior
        })
        .collect();
    let mut information = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..n {
            let terms = columns[i].iter().zip(&columns[j]).zip(&weights);
            information[i][j] = terms.map(|((p, q), w)| p * q * w).sum::<f64>() / variance;
        }
        information[i][i] += before[i];
    }
    let covariance = inverse(&information).unwrap_or_else(|| {
        // Only rounding errors can make it indefinite; then fall back to the prior.
        let row = |i: usize| {
            (0..n)
                .map(|j| if i == j { 1.0 / before[i] } else { 0.0 })
                .collect()
        };
        (0..n).map(row).collect()
    });
    // A variance that was estimated from residuals has few degrees of freedom, which widens the
    // intervals; the stated noise is exact.
    let quantile = student(if variance > 1.0 {
        freedom
    } else {
        f64::INFINITY
    });
    let sd: Vec<f64> = (0..n).map(|j| covariance[j][j].sqrt()).collect();
    let mut pairs = Vec::new();
    for i in 0..n {
        for j in 0..i {
            let correlation = covariance[i][j] / (sd[i] * sd[j]);
            if correlation.abs() > TOGETHER {
                pairs.push((j, i, correlation));
            }
        }
    }
    Ok(Posterior {
        half: sd.iter().map(|s| quantile * s).collect(),
        left: sd.iter().zip(&before).map(|(s, b)| s * b.sqrt()).collect(),
        columns,
        pairs,
    })
}

/// 95 % quantile of Student's t distribution, for two-sided 90 % intervals.
///
/// First terms of its expansion around the normal quantile (R. A. Fisher, E. A. Cornish, "The
/// Percentile Points of Distributions Having Known Cumulants", 1960).
fn student(freedom: f64) -> f64 {
    const Z: f64 = 1.645;
    Z + (Z.powi(3) + Z) / (4.0 * freedom)
        + (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * freedom * freedom)
}

#[cfg(test)]
mod tests {
    #[test]
    fn quantiles_of_student_are_those_of_the_tables() {
        for (freedom, table) in [
            (5.0, 2.015),
            (10.0, 1.812),
            (30.0, 1.697),
            (f64::INFINITY, 1.645),
        ] {
            assert!((super::student(freedom) - table).abs() < 0.01, "{freedom}");
        }
    }
}
