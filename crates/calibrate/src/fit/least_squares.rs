//! Robust non-linear least squares within bounds: Levenberg-Marquardt with Huber loss and several
//! starts.

use super::linear::{Matrix, solve};
use super::problem::FitProblem;
use crate::error::CalibrateError;

/// Threshold of the Huber loss, in standard deviations: smaller residuals count quadratically,
/// larger ones linearly.
///
/// So a figure that the model cannot reach does not distort the fit of the others (P. J. Huber,
/// "Robust Estimation of a Location Parameter", 1964).
pub(super) const ROBUST: f64 = 3.0;

/// Limit on the steps of one descent.
const STEPS: u32 = 80;
/// Number of starting points besides the given one.
const STARTS: u32 = 8;

/// Parameters (as logarithms) with the residuals and the cost there.
#[derive(Clone)]
pub(super) struct Point {
    pub x: Vec<f64>,
    pub residuals: Vec<f64>,
    pub cost: f64,
}

/// Best point found from several starts; the same input gives the same result.
///
/// Each descent is Levenberg-Marquardt (K. Levenberg, "A Method for the Solution of Certain
/// Non-Linear Problems in Least Squares", 1944; D. W. Marquardt, "An Algorithm for Least-Squares
/// Estimation of Nonlinear Parameters", 1963), alternated with a search along single parameters,
/// which gets over the kinks of the objective where a tier saturates. The objective is not convex,
/// so the global minimum is likely but not certain.
pub(super) fn minimise(problem: &mut FitProblem<'_>) -> Result<Point, CalibrateError> {
    let start = problem.start();
    let first = point(problem, start.clone())?;
    let mut best = polished(problem, first)?;
    for number in 1..=STARTS {
        let x = elsewhere(problem, &start, number);
        // Skip starts at which the model has no solution.
        let Ok(from) = point(problem, x) else {
            continue;
        };
        let found = polished(problem, from)?;
        // Require a real improvement, so that equally good minima do not depend on rounding.
        if found.cost < best.cost * 0.999 - 1e-9 {
            best = found;
        }
    }
    // Leave the problem's library at the result.
    problem.residuals(&best.x)?;
    Ok(best)
}

fn polished(problem: &mut FitProblem<'_>, from: Point) -> Result<Point, CalibrateError> {
    let mut best = descend(problem, from)?;
    for _ in 0..3 {
        let before = best.cost;
        best = probe(problem, best)?;
        best = descend(problem, best)?;
        if best.cost > before * (1.0 - 1e-6) {
            break;
        }
    }
    Ok(best)
}

/// Start number `number`: every parameter is moved up to half way from the given start to one of
/// its bounds.
///
/// The positions are a low-discrepancy sequence (additive recurrence with the square roots of
/// primes), so starts cover the box evenly and parameters do not vary together.
fn elsewhere(problem: &FitProblem<'_>, start: &[f64], number: u32) -> Vec<f64> {
    let mut primes = (2u32..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    let mut x = start.to_vec();
    for (index, value) in x.iter_mut().enumerate() {
        let root = f64::from(primes.next().unwrap_or(2)).sqrt();
        let part = (root * f64::from(number)).fract() - 0.5;
        let (low, high) = problem.bounds(index);
        *value += if part < 0.0 {
            part * (*value - low)
        } else {
            part * (high - *value)
        };
    }
    x
}

fn point(problem: &mut FitProblem<'_>, x: Vec<f64>) -> Result<Point, CalibrateError> {
    let residuals = problem.residuals(&x)?;
    let loss = |r: &f64| {
        let r = r.abs();
        if r <= ROBUST {
            r * r
        } else {
            2.0 * ROBUST * r - ROBUST * ROBUST
        }
    };
    let priors = (0..x.len()).filter_map(|j| problem.prior(j, x[j]));
    let cost = residuals.iter().map(loss).sum::<f64>() + priors.map(|(r, _)| r * r).sum::<f64>();
    Ok(Point { x, residuals, cost })
}

/// Weight of a residual in iteratively reweighted least squares: 1 up to [`ROBUST`], less beyond.
pub(super) fn weight(residual: f64) -> f64 {
    (ROBUST / residual.abs()).min(1.0)
}

/// Normal equations at a point: `JᵀWJ` and `JᵀWr`, priors included, and the columns of `J`.
pub(super) fn normal(
    problem: &mut FitProblem<'_>,
    at: &Point,
) -> Result<(Matrix, Vec<f64>, Matrix), CalibrateError> {
    let n = at.x.len();
    let mut columns: Matrix = Vec::with_capacity(n);
    for j in 0..n {
        columns.push(problem.derivative(&at.x, j)?);
    }
    let weights: Vec<f64> = at.residuals.iter().map(|r| weight(*r)).collect();
    let dot = |a: &[f64], b: &[f64]| -> f64 {
        a.iter()
            .zip(b)
            .zip(&weights)
            .map(|((p, q), w)| p * q * w)
            .sum()
    };
    let mut matrix = vec![vec![0.0; n]; n];
    let mut gradient = vec![0.0; n];
    for i in 0..n {
        for j in 0..=i {
            matrix[i][j] = dot(&columns[i], &columns[j]);
            matrix[j][i] = matrix[i][j];
        }
        gradient[i] = dot(&columns[i], &at.residuals);
        if let Some((r, slope)) = problem.prior(i, at.x[i]) {
            matrix[i][i] += slope * slope;
            gradient[i] += slope * r;
        }
    }
    Ok((matrix, gradient, columns))
}

fn descend(problem: &mut FitProblem<'_>, from: Point) -> Result<Point, CalibrateError> {
    let mut best = from;
    let mut damping = 1e-3;
    for _ in 0..STEPS {
        let (matrix, gradient, _) = normal(problem, &best)?;
        // Active set: parameters at a bound that the gradient pushes outwards are fixed for this
        // step, as are those without effect.
        let free: Vec<usize> = (0..best.x.len())
            .filter(|&j| matrix[j][j] > 1e-12 && !pushes_out(problem, j, best.x[j], gradient[j]))
            .collect();
        if free.is_empty() {
            break;
        }
        let mut better = None;
        while better.is_none() && damping < 1e8 {
            better = step(problem, &best, (&matrix, &gradient), &free, damping)?;
            damping *= if better.is_some() { 0.3 } else { 4.0 };
        }
        let Some(next) = better else {
            break;
        };
        damping = damping.max(1e-9);
        let done = next.cost > best.cost * (1.0 - 1e-10);
        best = next;
        if done {
            break;
        }
    }
    Ok(best)
}

/// Whether a parameter is at a bound and the descent direction points out of it.
fn pushes_out(problem: &FitProblem<'_>, parameter: usize, x: f64, gradient: f64) -> bool {
    let (low, high) = problem.bounds(parameter);
    (x <= low && gradient > 0.0) || (x >= high && gradient < 0.0)
}

/// One damped step of the free parameters; `None` if it is no improvement.
fn step(
    problem: &mut FitProblem<'_>,
    from: &Point,
    (matrix, gradient): (&Matrix, &[f64]),
    free: &[usize],
    damping: f64,
) -> Result<Option<Point>, CalibrateError> {
    let part: Matrix = free
        .iter()
        .map(|&i| {
            // Marquardt's scaling: the damping is relative to the diagonal, so parameters of
            // different influence are damped alike.
            let entry = |&j: &usize| matrix[i][j] * if i == j { 1.0 + damping } else { 1.0 };
            free.iter().map(entry).collect()
        })
        .collect();
    let down: Vec<f64> = free.iter().map(|&i| -gradient[i]).collect();
    let Some(delta) = solve(&part, &down) else {
        return Ok(None);
    };
    let mut x = from.x.clone();
    for (&index, delta) in free.iter().zip(delta) {
        // Limit on a step: a factor of e.
        x[index] += delta.clamp(-1.0, 1.0);
    }
    problem.clamp(&mut x);
    Ok(better(problem, from, x))
}

/// The point at `x` if it is better; a point without a solution of the model is not.
fn better(problem: &mut FitProblem<'_>, than: &Point, x: Vec<f64>) -> Option<Point> {
    point(problem, x).ok().filter(|p| p.cost < than.cost)
}

/// Pattern search along single parameters, with steps of 0.2, 0.05 and 0.01 in the logarithm.
fn probe(problem: &mut FitProblem<'_>, from: Point) -> Result<Point, CalibrateError> {
    let mut best = from;
    for size in [0.2, 0.05, 0.01] {
        for parameter in 0..best.x.len() {
            for direction in [-size, size] {
                while let Some(next) = {
                    let mut x = best.x.clone();
                    x[parameter] += direction;
                    problem.clamp(&mut x);
                    better(problem, &best, x)
                } {
                    let gained = next.cost < best.cost * (1.0 - 1e-6);
                    best = next;
                    if !gained {
                        break;
                    }
                }
            }
        }
    }
    Ok(best)
}
