//! What a fit found.

use super::least_squares::{Point, minimise};
use super::parameters::{Calibration, Parameter, Target, rounded};
use super::problem::Problem;
use super::uncertainty::{Spread, spread};
use crate::check::compare;
use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Role};
use crate::library::Library;
use serde::Serialize;
use tierloom_model::{Options, SourceKind, Value};
use tierloom_record::FigureRecord;

/// A change of a parameter by a factor of e that moves all figures together by less than this (in noises) is none.
const SILENT: f64 = 0.05;
/// Share of a parameter's uncertainty that is left by figures from which it counts as weakly determined.
const WEAK: f64 = 0.7;
/// Figures named with a parameter.
const NAMED: usize = 3;

/// What figures say about a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Knowledge {
    /// They determine it.
    Determined,
    /// They narrow it down by less than a third.
    Weak,
    /// They do not depend on it; it stays at its start.
    Undetermined,
}

/// A parameter after the fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FittedParameter {
    /// Its name.
    pub name: String,
    /// Where the search began.
    pub start: f64,
    /// What was found.
    pub fitted: f64,
    /// Lower end of the 90% interval, within the bounds.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// "low" or "high" if it was stopped by a bound.
    pub at_bound: Option<&'static str>,
    /// What figures say about it.
    pub knowledge: Knowledge,
    /// Figures whose residual depends on it.
    pub figures: usize,
    /// Those that depend on it most.
    pub informed_by: Vec<String>,
    /// What it is.
    pub why: String,
}

/// A finished fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The calibration file's short name.
    pub calibration: String,
    /// Keys of the publications whose figures were used.
    pub papers: Vec<String>,
    /// The parameters in the order of the file.
    pub parameters: Vec<FittedParameter>,
    /// The figures with the numbers of the profiles before.
    pub before: Vec<FigureRecord>,
    /// The same figures after.
    pub after: Vec<FigureRecord>,
    /// What a reader has to know before trusting the numbers.
    pub warnings: Vec<String>,
    /// The numbers to be written.
    pub values: Vec<(Target, Value)>,
    /// The library with these numbers.
    pub library: Library,
}

/// Fits the parameters to the figures of role fitted in `files`; no others are looked at.
///
/// Minimised is the sum over figures of `(ln(modelled / published) / noise)^2` (linear beyond three noises; relations count by their distance)
/// and over parameters with an expectation of `(ln(parameter / start) / prior)^2`, within the bounds. The same input gives the same answer,
/// whatever numbers the profiles hold for the parameters.
///
/// # Errors
/// [`CalibrateError`]: no figure of role fitted, a machine, number or constant that is not there, a
/// figure that cannot be priced at the start.
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
    let mut problem = Problem::new(
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

/// Constants that the library lacks, at their parameter's start.
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

/// Puts numbers into a library.
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

/// Parameters that no figure depends on, neither where they are nor at their start, go back to their start.
fn back_to_start(
    problem: &mut Problem<'_>,
    best: Point,
) -> Result<(Point, Vec<bool>), CalibrateError> {
    let start = problem.start();
    let mut x = best.x.clone();
    let mut silent = vec![false; x.len()];
    for j in 0..x.len() {
        let mut at_start = x.clone();
        at_start[j] = start[j];
        let norm = |slope: Vec<f64>| slope.iter().map(|s| s * s).sum::<f64>().sqrt();
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
    problem: &Problem<'_>,
    j: usize,
    best: &Point,
    known: &Spread,
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

/// The numbers that the parameters set, with their origin.
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
                Value::new(number, SourceKind::Fitted, source).within(low, high)
            };
            values.push((set.target.clone(), value));
        }
    }
    values
}

fn warnings(parameters: &[FittedParameter], known: &Spread) -> Vec<String> {
    let mut warnings = Vec::new();
    for p in parameters {
        match p.knowledge {
            Knowledge::Undetermined => warnings.push(format!(
                "{}: no figure depends on it; it stays at {} and is marked `assumed`",
                p.name, p.start
            )),
            Knowledge::Weak => warnings.push(format!(
                "{}: figures add little to what was expected of it; it may lie anywhere from {} to {}",
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
