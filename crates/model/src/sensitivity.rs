//! Sensitivity of a result to the numbers of the profile, their uncertainty, and the terms of the
//! model.
//!
//! A result ("answer") is any positive number that the model gives for a machine: a throughput, or
//! the ratio of two. The analysis is one at a time: the result is recomputed with one number
//! changed, so interactions between numbers are not seen.
//!
//! ```
//! use tierloom_model::{sensitivity, *};
//! let machine = profiles::load("nus24")?;
//! let scan = Phase::new("scan", PhaseKind::Scan, 1e9)
//!     .access(Access::sequential_read("fact.price", 4.0, 4_000_000_000).vectorised());
//! let dram = Placement::new(TierShares::all("dram"));
//! let rate = |machine: &Machine| {
//!     Ok(solve(machine, &scan, &dram, 32, &Options::default())?.tuples_per_s)
//! };
//! // The scan is bound by the bandwidth of DRAM: 10 % more of it gives 10 % more throughput.
//! let effects = sensitivity::effects(&machine, rate)?;
//! assert_eq!(effects[0].figure.path, "tiers[0].read_gbps");
//! assert!((effects[0].up / effects[0].answer - 1.1).abs() < 0.01);
//! // Range of the result over the uncertainty of the profile.
//! let range = sensitivity::uncertainty(&machine, rate)?;
//! assert!(range.low < range.answer && range.answer < range.high);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::error::ModelError;
use crate::machine::{Figure, Machine};
use crate::search::interval;
use crate::solve::Terms;

/// Relative change of every number by [`effects`].
pub const CHANGE: f64 = 0.1;

/// Relative changes of a result below this are rounding errors of the solver.
const NOTHING: f64 = 1e-9;

/// Effect of one number of the machine on a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The changed number with its kind and source.
    pub figure: Figure,
    /// Result with the unchanged profile.
    pub answer: f64,
    /// The number 10 % smaller, or the nearest valid number (whole cores, shares of at most 1).
    pub smaller: f64,
    /// The number 10 % larger, or the nearest valid number.
    pub larger: f64,
    /// Result with the smaller number.
    pub down: f64,
    /// Result with the larger number.
    pub up: f64,
}

impl Effect {
    /// Elasticity: per cent that the result changes per per cent of the number.
    ///
    /// It is `ln(up / down) / ln(larger / smaller)`: 1 for a bandwidth that is the bottleneck, -1
    /// for a latency that is, 0 for a number without effect; `None` if the number cannot be changed
    /// by a ratio (it is 0).
    pub fn elasticity(&self) -> Option<f64> {
        let moved = (self.larger / self.smaller).ln();
        let answered = (self.up / self.down).ln();
        (moved.is_finite() && moved > 0.0 && answered.is_finite()).then(|| answered / moved)
    }

    /// Larger of the two relative changes of the result, without sign.
    pub fn size(&self) -> f64 {
        let change = |x: f64| (x / self.answer - 1.0).abs();
        change(self.up).max(change(self.down))
    }

    /// Whether the number has any effect on this result.
    pub fn matters(&self) -> bool {
        self.size() > NOTHING
    }
}

/// Effect of every number of the machine when it is 10 % smaller or larger, the largest effect
/// first.
///
/// # Errors
/// Any error of `answer`.
pub fn effects(
    machine: &Machine,
    mut answer: impl FnMut(&Machine) -> Result<f64, ModelError>,
) -> Result<Vec<Effect>, ModelError> {
    let unchanged = answer(machine)?;
    let mut changed = machine.clone();
    let mut effects = Vec::new();
    for figure in machine.figures() {
        let (smaller, larger) = around(&figure);
        let down = answer_with(&mut changed, &figure, smaller, &mut answer)?;
        let up = answer_with(&mut changed, &figure, larger, &mut answer)?;
        effects.push(Effect {
            figure,
            answer: unchanged,
            smaller,
            larger,
            down,
            up,
        });
    }
    // The sort is stable: numbers of equal effect stay in the order of the profile.
    effects.sort_by(|a, b| b.size().total_cmp(&a.size()));
    Ok(effects)
}

/// 10 % to both sides of a number, limited to valid values.
fn around(figure: &Figure) -> (f64, f64) {
    interval(&Figure {
        low: Some(figure.value * (1.0 - CHANGE)),
        high: Some(figure.value * (1.0 + CHANGE)),
        ..figure.clone()
    })
}

/// Result with another number at the figure's path; the machine is restored afterwards.
fn answer_with(
    machine: &mut Machine,
    figure: &Figure,
    x: f64,
    answer: &mut impl FnMut(&Machine) -> Result<f64, ModelError>,
) -> Result<f64, ModelError> {
    let Some(own) = machine.number(&figure.path).cloned() else {
        return answer(machine);
    };
    machine.set_number(&figure.path, own.with(x))?;
    // Restore the number before an error is returned.
    let answered = answer(machine);
    machine.set_number(&figure.path, own)?;
    answered
}

/// Effect of the uncertainty of one number on a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// The uncertain number with its kind and source.
    pub figure: Figure,
    /// Smallest result with the number at the ends of its interval and unchanged.
    pub low: f64,
    /// Largest result of the same three.
    pub high: f64,
}

impl Contribution {
    /// Ratio of the largest to the smallest result, at least 1.
    pub fn factor(&self) -> f64 {
        self.high / self.low
    }
}

/// Uncertainty of a result that comes from the profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncertainty {
    /// Result with the unchanged profile.
    pub answer: f64,
    /// Lower end of the combined range.
    pub low: f64,
    /// Upper end of the combined range.
    pub high: f64,
    /// Numbers that change the result, the one with the widest range first.
    pub contributions: Vec<Contribution>,
}

/// Range of a result over the uncertainty of the profile's numbers.
///
/// Each number alone is put to both ends of its interval ([`interval`]: `low` and `high` of the
/// profile, else 5 % for published, derived and measured ones, 10 % for fitted and 20 % for assumed
/// ones). The rises of the result are combined as independent errors, by the root of the sum of the
/// squares of their logarithms (so that half and double count the same); the falls likewise. The
/// range covers errors of the profile, not errors of the model's structure: those only show in
/// comparisons with measurements. Counts (cores, devices, page sizes) are taken as exact.
///
/// # Errors
/// Any error of `answer`.
pub fn uncertainty(
    machine: &Machine,
    mut answer: impl FnMut(&Machine) -> Result<f64, ModelError>,
) -> Result<Uncertainty, ModelError> {
    let unchanged = answer(machine)?;
    let mut changed = machine.clone();
    let (mut contributions, mut below, mut above) = (Vec::new(), 0.0, 0.0);
    for figure in machine.figures() {
        let (from, to) = interval(&figure);
        if figure.is_counted() || from == to {
            continue;
        }
        let ends = [
            answer_with(&mut changed, &figure, from, &mut answer)?,
            answer_with(&mut changed, &figure, to, &mut answer)?,
        ];
        let low = ends.into_iter().fold(unchanged, f64::min);
        let high = ends.into_iter().fold(unchanged, f64::max);
        below += (unchanged / low).ln().powi(2);
        above += (high / unchanged).ln().powi(2);
        if high / low - 1.0 > NOTHING {
            contributions.push(Contribution { figure, low, high });
        }
    }
    contributions.sort_by(|a, b| b.factor().total_cmp(&a.factor()));
    Ok(Uncertainty {
        answer: unchanged,
        low: unchanged * (-below.sqrt()).exp(),
        high: unchanged * above.sqrt().exp(),
        contributions,
    })
}

/// Effect of one term of the model on a result (ablation).
#[derive(Debug, Clone, PartialEq)]
pub struct TermEffect {
    /// Name of the term among [`Terms::SWITCHES`].
    pub term: &'static str,
    /// Result with all given terms.
    pub with: f64,
    /// Result without this term.
    pub without: f64,
}

impl TermEffect {
    /// Relative change of the result when the term is switched off.
    pub fn change(&self) -> f64 {
        self.without / self.with - 1.0
    }
}

/// Effect of each term when it alone is switched off, in the order of [`Terms::SWITCHES`].
///
/// Terms that are off in `terms` are left out.
///
/// # Errors
/// Any error of `answer`.
pub fn terms(
    terms: Terms,
    mut answer: impl FnMut(Terms) -> Result<f64, ModelError>,
) -> Result<Vec<TermEffect>, ModelError> {
    let with = answer(terms)?;
    let mut effects = Vec::new();
    for (term, off) in Terms::SWITCHES {
        let mut fewer = terms;
        off(&mut fewer);
        if fewer != terms {
            let without = answer(fewer)?;
            effects.push(TermEffect {
                term,
                with,
                without,
            });
        }
    }
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::work::{Chase, Join, Stream, Work};
    use crate::{Options, Placement, SourceKind, TierShares, Value, profiles, solve_all};

    /// Throughput of a benchmark with everything on DRAM.
    fn rate(
        work: &Work,
        workers: u32,
        terms: Terms,
    ) -> impl Fn(&Machine) -> Result<f64, ModelError> {
        let (phases, tuples) = (work.phases(workers).unwrap(), work.tuples());
        let options = Options {
            terms,
            ..Options::default()
        };
        move |machine| {
            let dram = Placement::new(TierShares::all("dram"));
            let solution = solve_all(machine, &phases, &dram, workers, &options)?;
            Ok(tuples / solution.time_ns * 1e9)
        }
    }

    fn plain(work: &Work, workers: u32) -> impl Fn(&Machine) -> Result<f64, ModelError> {
        rate(work, workers, Terms::default())
    }

    fn elasticity(effects: &[Effect], path: &str) -> f64 {
        let found = effects.iter().find(|e| e.figure.path == path);
        found.and_then(Effect::elasticity).expect(path)
    }

    #[test]
    fn a_saturated_stream_hangs_on_the_peak_and_a_lone_chase_on_the_latency() {
        let machine = profiles::load("nus24").unwrap();
        let stream = effects(&machine, plain(&Work::Read(Stream::default()), 32)).unwrap();
        assert!((elasticity(&stream, "tiers[0].read_gbps") - 1.0).abs() < 0.02);
        assert!(elasticity(&stream, "tiers[1].read_gbps") == 0.0);
        let chase = effects(&machine, plain(&Work::Chase(Chase::default()), 1)).unwrap();
        let latency = elasticity(&chase, "tiers[0].idle_latency_ns");
        assert!((-1.0..-0.5).contains(&latency), "{latency}");
        // The latency and the lines in flight that share it, nothing else as much.
        let first: Vec<&str> = chase[..2].iter().map(|e| e.figure.path.as_str()).collect();
        assert!(first.contains(&"tiers[0].idle_latency_ns"), "{first:?}");
        assert!(first.contains(&"concurrency.dependent"), "{first:?}");
    }

    #[test]
    fn every_number_is_asked_about_once_largest_effect_first() {
        for name in profiles::builtin_names() {
            let machine = profiles::load(name).unwrap();
            let all = effects(&machine, plain(&Work::Probe(Join::default()), 8)).unwrap();
            assert!(all.is_sorted_by(|a, b| a.size() >= b.size()), "{name}");
            let mut paths: Vec<String> = all.iter().map(|e| e.figure.path.clone()).collect();
            let mut figures: Vec<String> = machine.figures().into_iter().map(|f| f.path).collect();
            paths.sort();
            figures.sort();
            assert_eq!(paths, figures);
        }
    }

    #[test]
    fn numbers_stay_possible_and_a_zero_has_no_elasticity() {
        let mut machine = profiles::load("nus24").unwrap();
        let value = |x| Value::new(x, SourceKind::Assumed, "test");
        machine.overlap = Some(value(0.0));
        machine.tiers[0].duplex = Some(value(1.0));
        let all = effects(&machine, plain(&Work::Copy(Stream::default()), 32)).unwrap();
        let of = |path: &str| all.iter().find(|e| e.figure.path == path).expect(path);
        assert_eq!(of("overlap").elasticity(), None);
        assert_eq!(
            (of("tiers[0].duplex").smaller, of("tiers[0].duplex").larger),
            (0.9, 1.0)
        );
        assert_eq!((of("cores").smaller, of("cores").larger), (29.0, 35.0));
    }

    #[test]
    fn independent_uncertainties_add_up_as_squares() {
        let mut machine = profiles::load("nus24").unwrap();
        for figure in machine.figures() {
            let sure =
                Value::new(figure.value, figure.kind, "sure").within(figure.value, figure.value);
            machine.set_number(&figure.path, sure).unwrap();
        }
        // An answer that is known: the product of two numbers.
        let product = |m: &Machine| Ok(m.tiers[0].read_gbps.value * m.tiers[1].read_gbps.value);
        let sure = uncertainty(&machine, product).unwrap();
        assert_eq!(
            (sure.low, sure.high, sure.contributions.len()),
            (sure.answer, sure.answer, 0)
        );
        let (three, four) = (0.03f64, 0.04f64);
        for (path, part) in [("tiers[0].read_gbps", three), ("tiers[1].read_gbps", four)] {
            let x = machine.number(path).unwrap().value;
            let assumed = Value::new(x, SourceKind::Assumed, "assumed")
                .within(x * (-part).exp(), x * part.exp());
            machine.set_number(path, assumed).unwrap();
        }
        let both = uncertainty(&machine, product).unwrap();
        let (down, up) = (both.answer / both.low, both.high / both.answer);
        assert!((up.ln() - 0.05).abs() < 1e-9 && (down.ln() - 0.05).abs() < 1e-9);
        assert_eq!(both.contributions[0].figure.path, "tiers[1].read_gbps");
    }

    #[test]
    fn counts_are_certain_and_the_range_holds_the_answer() {
        for name in profiles::builtin_names() {
            let machine = profiles::load(name).unwrap();
            let range = uncertainty(&machine, plain(&Work::Probe(Join::default()), 16)).unwrap();
            assert!(
                range.low < range.answer && range.answer < range.high,
                "{name}: {range:?}"
            );
            assert!(range.contributions.iter().all(|d| d.figure.path != "cores"));
            let widest = &range.contributions[0];
            assert!(
                range.low <= widest.low * (1.0 + 1e-12)
                    && range.high >= widest.high * (1.0 - 1e-12)
            );
        }
    }

    #[test]
    fn a_term_shows_what_it_explains_and_is_not_switched_off_twice() {
        let machine = profiles::load("nus24").unwrap();
        let work = Work::Write(Stream::default());
        let ask = |base: Terms| terms(base, |t| rate(&work, 32, t)(&machine)).unwrap();
        let all = ask(Terms::default());
        assert_eq!(all.len(), Terms::SWITCHES.len());
        let rfo = all.iter().find(|e| e.term == "rfo").unwrap();
        assert!(
            rfo.change() > 0.3,
            "a store without ownership is faster: {rfo:?}"
        );
        let fewer = ask(Terms::without("rfo").unwrap());
        assert!(fewer.len() == all.len() - 1 && fewer.iter().all(|e| e.term != "rfo"));
        assert_eq!(fewer[0].with, rfo.without);
    }
}
