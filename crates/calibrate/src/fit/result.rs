//! Result of a fit.
//!
//! Runs the search, estimates the uncertainty, and turns parameters into numbers with sources.
//! Writing the files is left to the caller.

use super::least_squares::{Point, minimise};
use super::parameters::{Calibration, Parameter, Target, rounded};
use super::problem::FitProblem;
use super::uncertainty::{Posterior, spread};
use crate::check::compare;
use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Role};
use crate::library::Library;
use serde::Serialize;
use tierloom_model::{Options, SourceKind, Value};
use tierloom_record::FigureRecord;

/// A parameter is irrelevant if a change by a factor of e moves all figures together by less than
/// this, in standard deviations.
const SILENT: f64 = 0.05;
/// Ratio of posterior to prior standard deviation above which a parameter is weakly determined.
const WEAK: f64 = 0.7;
/// Number of figures that are named per parameter.
const NAMED: usize = 3;

/// How much the figures say about a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Knowledge {
    /// They reduce its standard deviation by at least 30 %.
    Determined,
    /// They reduce its standard deviation by less than 30 %.
    Weak,
    /// None depends on it; it stays at its start.
    Undetermined,
}

/// A parameter with its fitted value and interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FittedParameter {
    /// Name, as in the calibration file.
    pub name: String,
    /// Starting value of the search, from the calibration file.
    pub start: f64,
    /// Fitted value, six significant digits.
    pub fitted: f64,
    /// Lower end of the 90 % credible interval, cut off at the bounds.
    pub low: f64,
    /// Upper end of the same interval.
    pub high: f64,
    /// "low" or "high" if the fitted value is at a bound, where figures would take it further.
    pub at_bound: Option<&'static str>,
    /// How much the figures say about it.
    pub knowledge: Knowledge,
    /// Number of figures whose residual depends on it.
    pub figures: usize,
    /// Names of the figures that depend on it most, at most three.
    pub informed_by: Vec<String>,
    /// Meaning of the parameter, from the calibration file.
    pub why: String,
}

/// Result of a fit, ready to be reported and written to files.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Short name of the calibration file.
    pub calibration: String,
    /// Keys of the publications whose figures were used.
    pub papers: Vec<String>,
    /// Parameters in the order of the calibration file.
    pub parameters: Vec<FittedParameter>,
    /// Comparison of the fitted figures with the numbers that the profiles had before.
    pub before: Vec<FigureRecord>,
    /// Comparison of the same figures with the fitted numbers.
    pub after: Vec<FigureRecord>,
    /// Parameters that are not or only jointly determined, or that are at a bound, in sentences.
    pub warnings: Vec<String>,
    /// Numbers to be written into profiles and constants.
    pub values: Vec<(Target, Value)>,
    /// The library with these numbers.
    pub library: Library,
}

/// Fits the parameters to the figures of role fitted in `files`; no others are used.
///
/// The objective is the sum over figures of `(ln(modelled / published) / noise)^2` with Huber loss
/// (linear beyond three standard deviations; relations count by their distance), plus the sum over
/// parameters with a log-normal prior of `(ln(parameter / start) / prior)^2`, within the bounds.
/// The same input gives the same result, whatever numbers the profiles hold for the parameters.
///
/// # Errors
/// [`CalibrateError`] if there is no figure of role fitted, a machine, number or constant is
/// missing, or a figure cannot be computed at the start.
pub fn fit(
    calibration: &Calibration,
    files: &[FigureFile],
    library: &Library,
) -> Result<Fit, CalibrateError> {
    let all = files.iter().flat_map(|f| &f.figures);
    let figures: Vec<&FigurePoint> = all.filter(|f| f.role == Role::Fitted).collect();
    if figures.is_empty() {
        return Err(CalibrateError::Fit {
            file: calibration.file.clone(),
            problem: "its figures files hold no figure of role fitted".into(),
            hint: "give some figures `role: fitted`".into(),
        });
    }
    let mut papers: Vec<String> = Vec::new();
    for figure in &figures {
        if !papers.contains(&figure.paper) {
            papers.push(figure.paper.clone());
        }
    }
    let mut problem = FitProblem::new(
        &calibration.file,
        figures.clone(),
        &calibration.parameters,
        library,
    )?;
    let best = minimise(&mut problem)?;
    let (best, silent) = back_to_start(&mut problem, best)?;
    let known = spread(&mut problem, &best)?;
    let parameters: Vec<FittedParameter> = (0..best.x.len())
        .map(|j| fitted(&problem, j, &best, &known, silent[j]))
        .collect();
    let name = calibration.short_name();
    let values = values(&calibration.parameters, &parameters, &papers, &name);
    let started = with_starts(library, &calibration.parameters);
    let mut done = started.clone();
    apply(&values, &mut done)?;
    let options = Options::default();
    let records = |library: &Library| -> Result<Vec<FigureRecord>, CalibrateError> {
        figures
            .iter()
            .map(|f| compare(f, library, &options))
            .collect()
    };
    Ok(Fit {
        calibration: name,
        before: records(&started)?,
        after: records(&done)?,
        warnings: warnings(&parameters, &known),
        papers,
        parameters,
        values,
        library: done,
    })
}

/// The library with missing constants at their parameter's start.
fn with_starts(library: &Library, parameters: &[Parameter]) -> Library {
    let mut library = library.clone();
    for parameter in parameters {
        for set in &parameter.sets {
            if let Target::Constant(name) = &set.target {
                let value = Value::new(
                    set.value(parameter.start),
                    SourceKind::Assumed,
                    parameter.why.clone(),
                );
                library.constants.entry(name.clone()).or_insert(value);
            }
        }
    }
    library
}

/// Sets numbers of a library.
fn apply(values: &[(Target, Value)], library: &mut Library) -> Result<(), CalibrateError> {
    for (target, value) in values {
        match target {
            Target::Constant(name) => {
                library.constants.insert(name.clone(), value.clone());
            }
            Target::Number { machine, path } => {
                if let Some(found) = library.machines.get_mut(machine) {
                    found
                        .set_number(path, value.clone())
                        .map_err(|e| CalibrateError::Fit {
                            file: machine.clone(),
                            problem: e.to_string(),
                            hint: "correct the path".into(),
                        })?;
                }
            }
        }
    }
    Ok(())
}

/// Resets parameters that no figure depends on, neither at the result nor at the start, to their
/// start.
fn back_to_start(
    problem: &mut FitProblem<'_>,
    best: Point,
) -> Result<(Point, Vec<bool>), CalibrateError> {
    let start = problem.start();
    let mut x = best.x.clone();
    let mut silent = vec![false; x.len()];
    for j in 0..x.len() {
        let mut at_start = x.clone();
        at_start[j] = start[j];
        let norm = |slope: Vec<f64>| slope.iter().map(|s| s * s).sum::<f64>().sqrt();
        // Both places are tested, because beyond a kink (a tier that is not full) a figure may not
        // depend on a parameter that matters elsewhere.
        let here = norm(problem.derivative(&x, j)?);
        if here < SILENT && norm(problem.derivative(&at_start, j)?) < SILENT {
            silent[j] = true;
            x = at_start;
        }
    }
    let residuals = problem.residuals(&x)?;
    Ok((
        Point {
            x,
            residuals,
            cost: best.cost,
        },
        silent,
    ))
}

fn fitted(
    problem: &FitProblem<'_>,
    j: usize,
    best: &Point,
    known: &Posterior,
    silent: bool,
) -> FittedParameter {
    let p = &problem.parameters[j];
    let x = best.x[j];
    let (low, high) = problem.bounds(j);
    let knowledge = match known.left[j] {
        _ if silent => Knowledge::Undetermined,
        left if left > WEAK => Knowledge::Weak,
        _ => Knowledge::Determined,
    };
    let slopes = &known.columns[j];
    let mut order: Vec<usize> = (0..slopes.len())
        .filter(|&i| slopes[i].abs() > SILENT)
        .collect();
    order.sort_by(|&a, &b| slopes[b].abs().total_cmp(&slopes[a].abs()).then(a.cmp(&b)));
    let at_bound = match x {
        x if x <= low + 1e-6 => Some("low"),
        x if x >= high - 1e-6 => Some("high"),
        _ => None,
    };
    // Without information the interval is the whole range between the bounds.
    let half = if silent { f64::INFINITY } else { known.half[j] };
    FittedParameter {
        name: p.name.clone(),
        start: p.start,
        fitted: if silent { p.start } else { rounded(x.exp(), 6) },
        low: rounded((x - half).max(low).exp(), 4),
        high: rounded((x + half).min(high).exp(), 4),
        at_bound: at_bound.filter(|_| !silent),
        knowledge,
        figures: order.len(),
        informed_by: order
            .iter()
            .take(NAMED)
            .map(|&i| problem.figures[i].id.clone())
            .collect(),
        why: p.why.clone(),
    }
}

/// The numbers that the parameters set, with their sources.
fn values(
    parameters: &[Parameter],
    fitted: &[FittedParameter],
    papers: &[String],
    name: &str,
) -> Vec<(Target, Value)> {
    let papers = papers.join(", ");
    let mut values = Vec::new();
    for (parameter, found) in parameters.iter().zip(fitted) {
        for set in &parameter.sets {
            let number = set.value(found.fitted);
            let value = if found.knowledge == Knowledge::Undetermined {
                let source = format!(
                    "{}; no fitted figure of {papers} depends on it ({name})",
                    parameter.why
                );
                Value::new(number, SourceKind::Assumed, source)
            } else {
                let plural = if found.figures == 1 {
                    "figure"
                } else {
                    "figures"
                };
                let source = format!(
                    "fitted to {} {plural} of {papers} by {name}: {}",
                    found.figures, parameter.why
                );
                let (low, high) = (
                    rounded(set.exact(found.low), 4),
                    rounded(set.exact(found.high), 4),
                );
                // Rounding may put an end on the wrong side of the number; `within` corrects that.
                Value::new(number, SourceKind::Fitted, source).within(low, high)
            };
            values.push((set.target.clone(), value));
        }
    }
    values
}

fn warnings(parameters: &[FittedParameter], known: &Posterior) -> Vec<String> {
    let mut warnings = Vec::new();
    for p in parameters {
        match p.knowledge {
            Knowledge::Undetermined => warnings.push(format!(
                "{}: no figure depends on it; it stays at {} and is marked `assumed`",
                p.name, p.start
            )),
            Knowledge::Weak => warnings.push(format!(
                "{}: figures add little to what was expected of it; it may be anything from {} to {}",
                p.name, p.low, p.high
            )),
            Knowledge::Determined => {}
        }
        if let Some(bound) = p.at_bound {
            warnings.push(format!(
                "{}: stopped at its {bound} end, {}; figures would take it further",
                p.name, p.fitted
            ));
        }
    }
    for &(a, b, correlation) in &known.pairs {
        let how = if correlation > 0.0 {
            "rise together"
        } else {
            "make up for each other"
        };
        warnings.push(format!(
            "{} and {}: {how} (correlation {correlation:.2}); only their combination is determined",
            parameters[a].name, parameters[b].name
        ));
    }
    warnings
}
