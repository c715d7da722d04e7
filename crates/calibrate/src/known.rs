//! How well a kind of work is known: what the model misses on the published figures that are
//! checks.
//!
//! Ranges from the intervals of a profile's numbers do not contain errors of the model's form.
//! These errors do show where a published figure of the same kind of work was not used.

use crate::check::compare;
use crate::error::CalibrateError;
use crate::figures::{FigureFile, FigurePoint, Quantity, Role};
use crate::library::Library;
use std::fmt;
use tierloom_model::Options;

/// Whether a rate or a comparison of two rates is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A rate or a time.
    Rate,
    /// A rate over another one.
    Gain,
}

/// What the checks say about the model's answers on a kind of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Kind of work ("probe"); `None` if none of its figures is a check, so that the errors are
    /// those of the checks of all kinds.
    pub kind: Option<String>,
    /// Checks with a value.
    pub figures: usize,
    /// Median of the absolute errors (0.05 is 5 %).
    pub median: f64,
    /// Largest absolute error.
    pub worst: f64,
    /// Smallest and largest signed error, `modelled / published - 1`; (0, 0) without checks.
    pub errors: (f64, f64),
    /// Smallest and largest error of best shares, as shares of the data; (0, 0) without such
    /// checks.
    pub share_errors: (f64, f64),
    /// Checks with a sign or relation, and those that the model has wrong.
    pub relations: (usize, usize),
}

/// Compares the checks of one kind of work ([`Work::name`](tierloom_model::reference::work::Work))
/// with the model.
///
/// For a comparison the checks that compare count; if there are none, all of that kind. If no check
/// is of that kind, or `kind` is `None`, the checks of all kinds count, for a comparison those that
/// compare.
///
/// # Errors
/// Same as [`crate::price`].
pub fn known(
    kind: Option<&str>,
    asked: Asked,
    files: &[FigureFile],
    library: &Library,
) -> Result<Known, CalibrateError> {
    let checks = || {
        let all = files.iter().flat_map(|f| &f.figures);
        all.filter(|f| f.role == Role::Check)
    };
    let of_kind = |f: &&FigurePoint| kind.is_some_and(|kind| f.setting.work.name() == kind);
    let compares = |f: &&FigurePoint| f.quantity.is_relative() || f.quantity.is_gain();
    let own: Vec<&FigurePoint> = checks().filter(of_kind).collect();
    let has_value = |f: &&&FigurePoint| f.published.is_some() && !f.quantity.is_share();
    let comparing: Vec<&FigurePoint> = own.iter().copied().filter(compares).collect();
    if asked == Asked::Gain && comparing.iter().any(|f| has_value(&f)) {
        // Errors of best shares are kept: they are about the same question.
        let shares = own.iter().copied().filter(|f| f.quantity.is_share());
        return Known::of(kind, comparing.iter().copied().chain(shares), library);
    }
    if own.iter().any(|f| has_value(&f)) {
        return Known::of(kind, own.iter().copied(), library);
    }
    let like = |f: &&FigurePoint| asked == Asked::Rate || compares(f) || f.quantity.is_share();
    Known::of(None, checks().filter(like), library)
}

impl Known {
    fn of<'a>(
        kind: Option<&str>,
        figures: impl Iterator<Item = &'a FigurePoint>,
        library: &Library,
    ) -> Result<Known, CalibrateError> {
        let (mut errors, mut shares, mut relations) = (Vec::new(), Vec::new(), (0, 0));
        for figure in figures {
            let record = compare(figure, library, &Options::default())?;
            if let Some(agrees) = record.agrees {
                relations.0 += 1;
                relations.1 += usize::from(!agrees);
            }
            match (record.error, figure.quantity) {
                (Some(error), Quantity::BestShare) => shares.push(error),
                (_, Quantity::BestAddedShare) | (None, _) => {}
                (Some(error), _) => errors.push(error),
            }
        }
        let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        Ok(Known {
            kind: kind.map(str::to_owned),
            figures: errors.len(),
            median: crate::check::median(&sizes).unwrap_or(0.0),
            worst: sizes.last().copied().unwrap_or(0.0),
            errors: ends(&errors),
            share_errors: ends(&shares),
            relations,
        })
    }

    /// The range of `answer` widened to what the checks show: an error of `e` means that the truth
    /// was `modelled / (1 + e)`.
    pub fn widen(&self, answer: f64, low: f64, high: f64) -> (f64, f64) {
        let (least, most) = self.errors;
        (
            low.min(answer / (1.0 + most)),
            high.max(answer / (1.0 + least)),
        )
    }

    /// The same for the best share of the second tier, 0 to 1.
    pub fn widen_share(&self, share: f64, low: f64, high: f64) -> (f64, f64) {
        let (least, most) = self.share_errors;
        (
            low.min(share - most).max(0.0),
            high.max(share - least).min(1.0),
        )
    }
}

/// Smallest and largest number, with 0 among them.
fn ends(numbers: &[f64]) -> (f64, f64) {
    let all = numbers.iter().copied();
    (all.clone().fold(0.0, f64::min), all.fold(0.0, f64::max))
}

/// "checked on 14 figures: median error 5%, worst 18%", with the kind of work before it.
impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |x: f64| format!("{:.0}%", x * 100.0);
        match &self.kind {
            Some(kind) => write!(f, "{kind}: checked")?,
            None => write!(
                f,
                "no check of this kind of work has such a value; all kinds: checked"
            )?,
        }
        let s = if self.figures == 1 { "" } else { "s" };
        write!(
            f,
            " on {} figure{s}: median error {}, worst {}",
            self.figures,
            percent(self.median),
            percent(self.worst)
        )?;
        match self.relations {
            (0, _) => Ok(()),
            (all, 0) => write!(f, "; {all} of {all} signs and relations right"),
            (all, wrong) => write!(f, "; {} of {all} signs and relations right", all - wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use proptest::prelude::*;

    fn made(checks: &str) -> Vec<FigureFile> {
        let text = format!(
            "schema: tierloom-figures/2\npaper: P\ncitation: c\ndefaults: {{ role: check, what: w, machine: nus24, work: {{ read: {{}} }}, quantity: gbps }}\nfigures:\n{checks}"
        );
        vec![FigureFile::from_yaml(&text, "f.yaml").unwrap()]
    }

    fn library() -> Library {
        Library::builtin(builtin::constants().unwrap()).unwrap()
    }

    #[test]
    fn the_range_of_a_kind_of_work_contains_every_published_value_of_its_checks() {
        let (files, library) = (builtin::figures().unwrap(), library());
        for figure in files.iter().flat_map(|f| &f.figures) {
            let wanted = figure.role == Role::Check && !figure.quantity.is_share();
            let Some(published) = figure.published.filter(|_| wanted) else {
                continue;
            };
            let asked = if figure.quantity.is_relative() || figure.quantity.is_gain() {
                Asked::Gain
            } else {
                Asked::Rate
            };
            let known = known(Some(figure.setting.work.name()), asked, &files, &library).unwrap();
            let modelled = crate::price(figure, &library, &Options::default()).unwrap();
            let factor = |x: f64| match figure.quantity.is_gain() {
                true => 1.0 + x / 100.0,
                false => x,
            };
            let (modelled, published) = (factor(modelled), factor(published));
            let (low, high) = known.widen(modelled, modelled, modelled);
            assert!(
                (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(&published),
                "{figure}: {published} is outside of {low} to {high}"
            );
        }
    }

    #[test]
    fn only_checks_of_the_kind_count_and_the_sentence_says_so() {
        let files = made(
            "  - { id: a, placement: dram, published: 25 }\n  - { id: b, placement: cxl, published: 20.1 }\n  - { id: c, role: fitted, placement: dram, published: 1 }\n",
        );
        let read = known(Some("read"), Asked::Rate, &files, &library()).unwrap();
        assert_eq!(
            read.to_string(),
            "read: checked on 2 figures: median error 6%, worst 13%"
        );
        let other = known(Some("probe"), Asked::Rate, &files, &library()).unwrap();
        assert!(
            other
                .to_string()
                .starts_with("no check of this kind of work has such a value; all kinds: ")
        );
        assert_eq!(other.errors, read.errors);
    }

    #[test]
    fn a_comparison_is_judged_by_comparisons_where_there_are_some() {
        let files = made(
            "  - { id: a, placement: dram, published: 14 }\n  - { id: b, placement: '3:2', quantity: ratio, published: 1.6, versus: { placement: dram } }\n  - { id: s, quantity: best_share, published: 30 }\n",
        );
        let gain = known(Some("read"), Asked::Gain, &files, &library()).unwrap();
        assert_eq!(gain.figures, 1);
        assert!(gain.worst < 0.1 && gain.share_errors.1 > 0.05, "{gain:?}");
        let rate = known(Some("read"), Asked::Rate, &files, &library()).unwrap();
        assert!(rate.worst > 0.9, "{rate:?}");
    }

    proptest! {
        #[test]
        fn widening_never_narrows(low in 0.1..1.0, high in 1.0..10.0, least in -0.9..0.0, most in 0.0..3.0) {
            let known = Known { kind: None, figures: 1, median: 0.0, worst: 0.0, errors: (least, most), share_errors: (least, most), relations: (0, 0) };
            let (a, b) = known.widen(1.0, low, high);
            prop_assert!(a <= low && b >= high);
            let (a, b) = known.widen_share(0.5, 0.5 * low, 0.5);
            prop_assert!((0.0..=0.5).contains(&a) && (0.5..=1.0).contains(&b));
        }
    }
}
