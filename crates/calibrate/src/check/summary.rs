//! Summary statistics of the errors.

use super::distance::HARD;
use crate::figures::Role;
use tierloom_record::{FigureRecord, FigureSummary};

/// Role in a summary of the checks that are nearer than [`HARD`] to a fitted figure.
pub const EASY_CHECK: &str = "easy check";
/// Role in a summary of the other checks.
pub const HARD_CHECK: &str = "hard check";

/// Number of checks below which a publication says little about the model.
pub const FEW_CHECKS: usize = 10;

/// Summaries by role over all publications, then by publication and role.
///
/// Roles are in the order of [`Role::ALL`]; those without figures are left out. Checks are also
/// summarised apart: those near a fitted figure as [`EASY_CHECK`], the others as [`HARD_CHECK`].
pub fn summaries(records: &[FigureRecord]) -> Vec<FigureSummary> {
    let mut made = Vec::new();
    let papers = papers(records);
    for paper in std::iter::once(None).chain(papers.into_iter().map(Some)) {
        for role in Role::ALL {
            let of: Vec<&FigureRecord> = records
                .iter()
                .filter(|r| r.role == role.name() && paper.is_none_or(|p| r.paper == p))
                .collect();
            if of.is_empty() {
                continue;
            }
            made.push(summary(paper, role.name(), &of));
            let distances = [(EASY_CHECK, false), (HARD_CHECK, true)];
            for (name, hard) in distances.into_iter().filter(|_| role == Role::Check) {
                let of: Vec<&FigureRecord> = of
                    .iter()
                    .copied()
                    .filter(|r| is_hard(r) == Some(hard))
                    .collect();
                if !of.is_empty() {
                    made.push(summary(paper, name, &of));
                }
            }
        }
    }
    made
}

/// Whether a figure is at least [`HARD`] from every fitted one; `None` if there is no fitted one.
pub fn is_hard(record: &FigureRecord) -> Option<bool> {
    record.nearest.as_ref().map(|n| n.distance >= HARD)
}

/// Publications with fewer than [`FEW_CHECKS`] checks, and their number.
pub fn few_checks(records: &[FigureRecord]) -> Vec<(&str, usize)> {
    let checks = |paper: &str| {
        let of = records.iter().filter(|r| r.paper == paper);
        of.filter(|r| r.role == Role::Check.name()).count()
    };
    let counted = papers(records).into_iter().map(|p| (p, checks(p)));
    counted.filter(|(_, n)| *n < FEW_CHECKS).collect()
}

fn papers(records: &[FigureRecord]) -> Vec<&str> {
    let mut papers: Vec<&str> = records.iter().map(|r| r.paper.as_str()).collect();
    papers.sort_unstable();
    papers.dedup();
    papers
}

fn summary(paper: Option<&str>, role: &str, of: &[&FigureRecord]) -> FigureSummary {
    let mut errors: Vec<f64> = of.iter().filter_map(|r| r.error).map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    let wrong = of.iter().filter(|r| r.agrees == Some(false));
    FigureSummary {
        paper: paper.map(str::to_owned),
        role: role.to_owned(),
        figures: of.len(),
        with_error: errors.len(),
        median: median(&errors),
        p90: p90(&errors),
        max: errors.last().copied(),
        judged: of.iter().filter(|r| r.agrees.is_some()).count(),
        wrong: wrong.map(|r| r.id.clone()).collect(),
    }
}

/// Median of sorted numbers; `None` if there are none.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    // For odd numbers both middle elements are the same one.
    Some(0.5 * (sorted.get(n.checked_sub(1)? / 2)? + sorted.get(n / 2)?))
}

/// 90th percentile of sorted numbers by nearest rank: the smallest one that at least nine tenths do
/// not exceed.
fn p90(sorted: &[f64]) -> Option<f64> {
    let at = (sorted.len() * 9).div_ceil(10).checked_sub(1)?;
    sorted.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_ninetieth_percentile_are_those_of_reports() {
        assert_eq!((median(&[]), p90(&[])), (None, None));
        assert_eq!((median(&[3.0]), p90(&[3.0])), (Some(3.0), Some(3.0)));
        assert_eq!(median(&[1.0, 2.0, 3.0, 5.0]), Some(2.5));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!((median(&ten), p90(&ten)), (Some(5.5), Some(9.0)));
    }
}
