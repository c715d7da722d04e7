//! How far the model is off, in few numbers.

use tierloom_record::FigureRecord;

/// Figures of one role, of all publications or of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Key of the publication; `None` for all together.
    pub paper: Option<String>,
    /// "calibration" or "check".
    pub role: String,
    /// Figures.
    pub figures: usize,
    /// Figures with an error.
    pub with_error: usize,
    /// Median of the absolute errors, 0 to 1; `None` without any.
    pub median: Option<f64>,
    /// Their 90th percentile.
    pub p90: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// Figures with a relation or a sign.
    pub judged: usize,
    /// Names of those that do not agree.
    pub wrong: Vec<String>,
}

/// Summaries by role over all publications, then by publication and role; those without figures are left out.
pub fn summaries(records: &[FigureRecord]) -> Vec<Summary> {
    let mut papers: Vec<Option<&str>> = vec![None];
    for record in records {
        if !papers.contains(&Some(&record.paper)) {
            papers.push(Some(&record.paper));
        }
    }
    papers[1..].sort_unstable();
    let mut made = Vec::new();
    for paper in papers {
        for role in ["calibration", "check"] {
            let of: Vec<&FigureRecord> = records
                .iter()
                .filter(|r| r.role == role && paper.is_none_or(|p| r.paper == p))
                .collect();
            if !of.is_empty() {
                made.push(summary(paper, role, &of));
            }
        }
    }
    made
}

fn summary(paper: Option<&str>, role: &str, of: &[&FigureRecord]) -> Summary {
    let mut errors: Vec<f64> = of.iter().filter_map(|r| r.error).map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    let wrong = of.iter().filter(|r| r.agrees == Some(false));
    Summary {
        paper: paper.map(str::to_owned),
        role: role.to_owned(),
        figures: of.len(),
        with_error: errors.len(),
        median: quantile(&errors, 0.5),
        p90: quantile(&errors, 0.9),
        max: errors.last().copied(),
        judged: of.iter().filter(|r| r.agrees.is_some()).count(),
        wrong: wrong.map(|r| r.id.clone()).collect(),
    }
}

/// Quantile of sorted numbers, linear between neighbours; `None` of none.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let at = q * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_numbers_and_none_have_none() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.9), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 5.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.9), Some(9.0));
    }
}
