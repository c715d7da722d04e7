//! Error statistics over several figures.

use tierloom_record::FigureRecord;

/// The role of figures that show how good the model is.
pub(super) const CHECK: &str = "check";

/// Roles and their headings, in reading order; the last one occurs in records of earlier versions.
pub(super) const GROUPS: [(&str, &str); 5] = [
    (CHECK, "Checks (nothing was chosen with them in view)"),
    ("fitted", "Fitted figures (a fit used them)"),
    (
        "chosen",
        "Chosen figures (a number or a definition was chosen by hand with them in view)",
    ),
    ("implied", "Implied figures (they follow from fitted ones)"),
    (
        "calibration",
        "Calibration figures (a fit may have seen them)",
    ),
];

/// Errors of a set of figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Errors {
    /// Number of figures.
    pub figures: usize,
    /// Absolute relative errors of the figures that have one, ascending.
    pub absolute: Vec<f64>,
    /// Number of figures with a sign or a relation.
    pub relations: usize,
    /// Number of those that the model contradicts.
    pub broken: usize,
}

/// Statistics of absolute errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ErrorQuantiles {
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    pub max: f64,
}

impl Errors {
    pub fn of<'a>(figures: impl IntoIterator<Item = &'a FigureRecord>) -> Errors {
        let mut errors = Errors::default();
        for figure in figures {
            errors.figures += 1;
            errors.absolute.extend(figure.error.map(f64::abs));
            errors.relations += usize::from(figure.agrees.is_some());
            errors.broken += usize::from(figure.agrees == Some(false));
        }
        errors.absolute.sort_by(f64::total_cmp);
        errors
    }

    /// Statistics of the errors; `None` if no figure has one.
    pub fn spread(&self) -> Option<ErrorQuantiles> {
        let n = self.absolute.len();
        let max = *self.absolute.last()?;
        // The smallest error that at least nine tenths do not exceed.
        let p90 = self.absolute[(n * 9).div_ceil(10) - 1];
        let median = 0.5 * (self.absolute[(n - 1) / 2] + self.absolute[n / 2]);
        Some(ErrorQuantiles { median, p90, max })
    }
}

/// A fraction as "4.2%".
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errors: &[f64]) -> Option<ErrorQuantiles> {
        let mut absolute: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
        absolute.sort_by(f64::total_cmp);
        let figures = errors.len();
        let all = Errors {
            figures,
            absolute,
            ..Errors::default()
        };
        all.spread()
    }

    #[test]
    fn median_and_ninetieth_percentile_are_those_of_sizes() {
        assert_eq!(of(&[]), None);
        let one = of(&[-0.3]).unwrap();
        assert_eq!((one.median, one.p90, one.max), (0.3, 0.3, 0.3));
        let two = of(&[-0.2, 0.1]).unwrap();
        assert!((two.median - 0.15).abs() < 1e-12 && two.p90 == 0.2);
        let ten: Vec<f64> = (1..=10).map(|i| f64::from(i) / 100.0).collect();
        let ten = of(&ten).unwrap();
        assert_eq!((ten.p90, ten.max), (0.09, 0.10));
        assert!((ten.median - 0.055).abs() < 1e-12);
    }
}
