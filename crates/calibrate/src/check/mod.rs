//! Comparison of published figures with modelled ones.
//!
//! Every figure is computed with the given library and compared with what was published; the errors
//! of checks are those of a hold-out set. Nothing is fitted here.

mod distance;
mod markdown;
mod summary;

pub use distance::HARD;
pub use markdown::{
    Cells, cells, distance, heading, headline, markdown, number, percent, wrong_signs,
};
pub(crate) use summary::median;
pub use summary::{EASY_CHECK, FEW_CHECKS, HARD_CHECK, few_checks, is_hard, summaries};

use crate::builtin;
use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Quantity, Role};
use crate::library::Library;
use crate::price::{price, rate_at_share, solution};
use tierloom_model::{Options, QuerySolution, Terms};
use tierloom_record::FigureRecord;

/// Largest error, in either direction, that does not count as a miss.
pub const MISS: f64 = 0.10;

/// Computes a figure and compares it with the published value.
///
/// # Errors
/// Same as [`price`].
pub fn compare(
    figure: &FigurePoint,
    library: &Library,
    options: &Options,
) -> Result<FigureRecord, CalibrateError> {
    let modelled = price(figure, library, options)?;
    let quantity = figure.quantity;
    let error = figure.published.and_then(|p| quantity.error(p, modelled));
    let sign = figure
        .published
        .and_then(|p| quantity.same_sign(p, modelled, figure.noise_percent));
    let holds = figure.relation.map(|relation| relation.holds(modelled));
    let agrees = match (sign, holds) {
        (Some(sign), Some(holds)) => Some(sign && holds),
        (sign, holds) => sign.or(holds),
    };
    let mut remarks: Vec<String> = figure.remark.iter().cloned().collect();
    // The rate is flat around the best share, so a large error of the share may cost little: report
    // the cost.
    if let (Quantity::BestShare, Some(published)) = (quantity, figure.published) {
        let lost = 1.0 - rate_at_share(figure, published, library, options)?;
        remarks.push(format!(
            "modelled, the published share is {:.1}% slower than the best one",
            lost * 100.0
        ));
    }
    Ok(FigureRecord {
        id: figure.id.clone(),
        paper: figure.paper.clone(),
        what: figure.what.clone(),
        series: figure.series.clone(),
        x: figure.x.as_ref().map(|(_, x)| *x),
        x_name: figure
            .x
            .as_ref()
            .map_or_else(String::new, |(axis, _)| axis.clone()),
        role: figure.role.to_string(),
        because: figure.because.clone(),
        machine: figure.setting.machine.clone(),
        unit: quantity.unit().into(),
        published: figure.published,
        relation: figure.relation.map(|r| r.to_string()),
        modelled,
        error,
        agrees,
        remark: (!remarks.is_empty()).then(|| remarks.join("; ")),
        nearest: None,
    })
}

/// Compares every figure that `wanted` selects, ordered by role as in [`Role::ALL`], then as in the
/// files.
///
/// # Errors
/// Same as [`price`], for the first figure that fails; none is skipped.
pub fn validate(
    files: &[FigureFile],
    library: &Library,
    options: &Options,
    wanted: impl Fn(&FigurePoint) -> bool,
) -> Result<Vec<FigureRecord>, CalibrateError> {
    let figures = || files.iter().flat_map(|f| &f.figures).filter(|f| wanted(f));
    library.check(figures())?;
    let of = |role: Role| figures().filter(move |f| f.role == role);
    let builtin = builtin::figures()?;
    let fitted = distance::fitted(files, &builtin);
    let compared = |figure: &FigurePoint| {
        let record = compare(figure, library, options)?;
        Ok(FigureRecord {
            nearest: distance::nearest(figure, &fitted),
            ..record
        })
    };
    Role::ALL.into_iter().flat_map(of).map(compared).collect()
}

/// Whether the error exceeds [`MISS`], or a relation or sign is wrong.
pub fn is_miss(record: &FigureRecord) -> bool {
    record.agrees == Some(false) || record.error.is_some_and(|e| e.abs() > MISS)
}

/// Effect of one term of the model on a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct TermEffect {
    /// Term that is switched off.
    pub term: &'static str,
    /// Modelled value without it, in the unit of the figure.
    pub modelled: f64,
    /// Error without it; `None` if no value was published.
    pub error: Option<f64>,
}

/// A figure with a breakdown of its modelled value.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Comparison of the published with the modelled value.
    pub record: FigureRecord,
    /// Phases with tier loads, time shares and bottleneck.
    ///
    /// For best shares it is the solution with the best one; for groups, that of the first group
    /// alone.
    pub solution: QuerySolution,
    /// The value without each term that changes it, largest change first.
    pub terms: Vec<TermEffect>,
}

/// Breaks a figure's modelled value down; `files` have the fitted figures that are near it.
///
/// # Errors
/// Same as [`price`].
pub fn explain(
    figure: &FigurePoint,
    files: &[FigureFile],
    library: &Library,
    options: &Options,
) -> Result<Explanation, CalibrateError> {
    let builtin = builtin::figures()?;
    let fitted = distance::fitted(files, &builtin);
    let record = FigureRecord {
        nearest: distance::nearest(figure, &fitted),
        ..compare(figure, library, options)?
    };
    let mut terms = Vec::new();
    for (term, off) in Terms::SWITCHES {
        let mut without = options.clone();
        off(&mut without.terms);
        let modelled = price(figure, library, &without)?;
        // Smaller changes are rounding errors of the solver.
        if (modelled - record.modelled).abs() > 1e-9 * record.modelled.abs() {
            let error = figure
                .published
                .and_then(|p| figure.quantity.error(p, modelled));
            terms.push(TermEffect {
                term,
                modelled,
                error,
            });
        }
    }
    let change = |t: &TermEffect| (t.modelled - record.modelled).abs();
    terms.sort_by(|a, b| change(b).total_cmp(&change(a)));
    Ok(Explanation {
        solution: solution(figure, library, options)?,
        record,
        terms,
    })
}

/// Name of the figure that is most similar to a misspelt one; `None` if none is similar enough.
pub fn nearest_id<'a>(id: &str, files: &'a [FigureFile]) -> Option<&'a str> {
    let known = files.iter().flat_map(|f| &f.figures).map(|f| f.id.as_str());
    tierloom_text::nearest(id, known)
}
