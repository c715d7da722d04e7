//! Published figures against modelled ones.

mod markdown;
mod summary;

pub use markdown::{Cells, cells, heading, headline, markdown, number, percent, wrong_signs};
pub use summary::{FEW_CHECKS, few_checks, summaries};

use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Quantity, Role};
use crate::library::Library;
use crate::price::{price, rate_at_share, solution};
use tierloom_model::{Options, QuerySolution, Terms};
use tierloom_record::FigureRecord;

/// Largest error that is no miss, in either direction.
pub const MISS: f64 = 0.10;

/// Prices a figure and compares.
///
/// # Errors
/// Those of [`price`].
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
    })
}

/// Compares every figure that `wanted` names, in the order of [`Role::ALL`], else in that of the
/// files.
///
/// # Errors
/// Those of [`price`]; nothing is left out quietly.
pub fn validate(
    files: &[FigureFile],
    library: &Library,
    options: &Options,
    wanted: impl Fn(&FigurePoint) -> bool,
) -> Result<Vec<FigureRecord>, CalibrateError> {
    let figures = || files.iter().flat_map(|f| &f.figures).filter(|f| wanted(f));
    library.check(figures())?;
    let of = |role: Role| figures().filter(move |f| f.role == role);
    Role::ALL
        .into_iter()
        .flat_map(of)
        .map(|figure| compare(figure, library, options))
        .collect()
}

/// Whether a figure is off by more than [`MISS`], or a relation or sign is wrong.
pub fn is_miss(record: &FigureRecord) -> bool {
    record.agrees == Some(false) || record.error.is_some_and(|e| e.abs() > MISS)
}

/// What a term of the model contributes to a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct TermEffect {
    /// The term that is switched off.
    pub term: &'static str,
    /// What the model says without it.
    pub modelled: f64,
    /// Its error then.
    pub error: Option<f64>,
}

/// A figure with how the model comes to its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Published against modelled.
    pub record: FigureRecord,
    /// The phases: tiers, shares of time, bottleneck. For best shares, under the best one; for groups, the first group alone.
    pub solution: QuerySolution,
    /// The value with each term off that changes it, largest change first.
    pub terms: Vec<TermEffect>,
}

/// Explains a figure.
///
/// # Errors
/// Those of [`price`].
pub fn explain(
    figure: &FigurePoint,
    library: &Library,
    options: &Options,
) -> Result<Explanation, CalibrateError> {
    let record = compare(figure, library, options)?;
    let mut terms = Vec::new();
    for (term, off) in Terms::SWITCHES {
        let mut without = options.clone();
        off(&mut without.terms);
        let modelled = price(figure, library, &without)?;
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

/// The figure name nearest to a mistyped one, if one is near enough to be meant.
pub fn nearest_id<'a>(id: &str, files: &'a [FigureFile]) -> Option<&'a str> {
    let known = files.iter().flat_map(|f| &f.figures).map(|f| f.id.as_str());
    crate::error::nearest(id, known)
}
