//! How far figures are off, taken together.

use tierloom_record::FigureRecord;

/// The role of figures that say how good the model is.
pub(super) const CHECK: &str = "check";

/// Roles of figures and what they are called, in reading order; the last one is of older records.
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

/// Errors of some figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Errors {
    /// Figures.
    pub figures: usize,
    /// Sizes of the relative errors of those that have one, ascending.
    pub absolute: Vec<f64>,
    /// Figures with a sign or relation.
    pub relations: usize,
    /// Those where the model says otherwise.
    pub broken: usize,
}

/// What stands for many errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// Half of the figures are not worse.
    pub median: f64,
    /// Nine of ten are not worse.
    pub p90: f64,
    /// None is worse.
    pub max: f64,
}

impl Errors {
    /// The errors of `figures`.
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

    /// `None` if no figure has a value.
    pub fn spread(&self) -> Option<Spread> {
        let n = self.absolute.len();
        let max = *self.absolute.last()?;
        // The smallest one that at least nine tenths do not exceed.
        let p90 = self.absolute[(n * 9).div_ceil(10) - 1];
        let median = 0.5 * (self.absolute[(n - 1) / 2] + self.absolute[n / 2]);
        Some(Spread { median, p90, max })
    }
}

/// A share of 1 as "4.2%".
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errors: &[f64]) -> Option<Spread> {
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
