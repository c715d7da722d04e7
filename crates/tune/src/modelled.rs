//! Best weights of a phase by the model, as a record. Nothing is measured here.

use tierloom_model::reference::work::Work;
use tierloom_model::search::{self, Best, GainRange, Moved, Problem, SplitMix, Weights};
use tierloom_model::{Machine, ModelError, Options, Phase, PhaseKind, StructureClass, Value};
use tierloom_record::{Provenance, SCHEMA, TierWeight, TunePoint, TuneRecord};

use crate::work::{self, RateUnit};

/// Resolution of the curve: one point per 5% of the share off the first tier.
const CURVE_STEPS: u32 = 20;
/// Random machines that form the band around the curve.
const BAND_MACHINES: usize = 24;

/// Machine, work and tiers for [`tune`].
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// Profile of the machine.
    pub machine: &'a Machine,
    /// Name of the phase in the record.
    pub name: &'a str,
    /// Work of the phase.
    pub work: &'a Work,
    /// Number of workers that execute the phase.
    pub workers: u32,
    /// Tiers to use, at least two; without interleaving everything is on the first.
    pub tiers: &'a [String],
    /// Structures that get the weights; all others stay on the first tier.
    pub moved: Moved,
}

/// Time and program version for a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Time of the record, RFC 3339.
    pub made_at: String,
    /// Version of the program that made the record.
    pub tool_version: String,
}

/// Result of [`tune`]; every rate is modelled.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// Best weights, with rates in tuples per second.
    pub best: Best,
    /// Best weights and gains over the uncertainty of the profile.
    pub range: GainRange,
    /// Kind of the phase; of the last one if the work has several.
    pub kind: PhaseKind,
    /// Classes of the structures that get the weights.
    pub classes: Vec<StructureClass>,
    /// The result as a record, with rates in the unit of the work.
    pub record: TuneRecord,
}

/// Finds the best weights.
///
/// # Errors
/// [`ModelError`] for a tier that the machine lacks, a structure that the phase does not access, or
/// a parameter of the work that is not valid.
pub fn tune(question: &Question<'_>, stamp: &Stamp) -> Result<Tuned, ModelError> {
    let phases = question.work.phases(question.workers)?;
    let options = Options::default();
    let problem = problem(question, &phases, &options);
    let best = search::best(&problem)?;
    let range = search::robust(&problem, &best)?;
    let unit = RateUnit::of(question.work);
    let shown = |rate: f64| unit.shown(rate, question.work, &problem);
    let curve = search::curve(&problem, CURVE_STEPS)?;
    let band = band(&problem, &curve)?;
    let points = curve
        .iter()
        .zip(band)
        .map(|((share, rate), (low, high))| TunePoint {
            share: *share,
            rate: shown(*rate),
            low: Some(shown(low)),
            high: Some(shown(high)),
            provenance: Provenance::Modelled,
        })
        .collect();
    let record = TuneRecord {
        schema: SCHEMA.into(),
        provenance: Provenance::Modelled,
        made_at: stamp.made_at.clone(),
        tool_version: stamp.tool_version.clone(),
        machine: question.machine.name.clone(),
        phase: question.name.to_owned(),
        what: work::describe(question.work),
        workers: question.workers,
        unit: unit.name().into(),
        points,
        best: tier_weights(&best.weights),
        best_rate: shown(best.rate),
        dram_rate: shown(best.dram_rate),
        kernel: tier_weights(&best.kernel_weights),
        kernel_rate: shown(best.kernel_rate),
        best_share_range: Some(range.best_share),
        gain_range: Some(range.gain),
        warnings: search::warnings(&problem, &best, &range)?,
    };
    Ok(Tuned {
        kind: kind(&phases),
        classes: moved_classes(&phases, &question.moved),
        best,
        range,
        record,
    })
}

/// The search problem; what does not move is on the first tier.
fn problem<'a>(question: &Question<'a>, phases: &'a [Phase], options: &'a Options) -> Problem<'a> {
    let mut problem = Problem::new(question.machine, phases, question.workers, options);
    let home = question.tiers.first().cloned().unwrap_or_default();
    problem.base = tierloom_model::Placement::new(tierloom_model::TierShares::all(home));
    problem.tiers = question.tiers.to_vec();
    problem.moved = question.moved.clone();
    problem
}

/// Minimum and maximum rate at each point of `curve`, over random machines.
///
/// They are the profile and [`BAND_MACHINES`] machines like it.
///
/// Each number of a machine is drawn uniformly from its [`search::interval`], with a fixed seed, so
/// that results are reproducible. The ends of the band have no probability attached.
fn band(problem: &Problem<'_>, curve: &[(f64, f64)]) -> Result<Vec<(f64, f64)>, ModelError> {
    let mut band: Vec<(f64, f64)> = curve.iter().map(|(_, rate)| (*rate, *rate)).collect();
    let mut random = SplitMix::new(1);
    for _ in 0..BAND_MACHINES {
        let mut machine = problem.machine.clone();
        for figure in problem.machine.figures() {
            if figure.is_counted() {
                continue;
            }
            let (low, high) = search::interval(&figure);
            let x = low + random.uniform() * (high - low);
            // A number whose interval has whole ends must itself be whole (TLB entries).
            let is_whole = [low, high, figure.value].iter().all(|x| x.fract() == 0.0);
            let x = if is_whole { x.round() } else { x };
            machine.set_number(
                &figure.path,
                Value::new(x, figure.kind, "within its interval"),
            )?;
        }
        let other = Problem {
            machine: &machine,
            ..problem.clone()
        };
        for (ends, (_, rate)) in band.iter_mut().zip(search::curve(&other, CURVE_STEPS)?) {
            *ends = (ends.0.min(rate), ends.1.max(rate));
        }
    }
    Ok(band)
}

/// Weights in the form of records.
pub fn tier_weights(weights: &Weights) -> Vec<TierWeight> {
    let one = |(tier, weight): (&str, u32)| TierWeight {
        tier: tier.to_owned(),
        weight,
    };
    weights.iter().map(one).collect()
}

/// Kind of the main phase: the last one, as earlier ones prepare it.
pub fn kind(phases: &[Phase]) -> PhaseKind {
    phases.last().map_or(PhaseKind::Other, |phase| phase.kind)
}

/// Distinct classes of the structures that `moved` selects, in order.
pub fn moved_classes(phases: &[Phase], moved: &Moved) -> Vec<StructureClass> {
    let moves = |access: &&tierloom_model::Access| match moved {
        Moved::All => true,
        Moved::Structures(names) => names.contains(&access.structure),
        Moved::Classes(classes) => classes.contains(&access.class),
    };
    let touched = phases.iter().flat_map(|phase| &phase.accesses);
    let mut classes: Vec<_> = touched.filter(moves).map(|access| access.class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_model::profiles;

    fn stamp() -> Stamp {
        Stamp {
            made_at: "2026-01-01T00:00:00Z".into(),
            tool_version: "0".into(),
        }
    }

    fn tuned(name: &str, workers: u32, moved: Moved) -> Tuned {
        let machine = profiles::load("nus24").unwrap();
        let question = Question {
            machine: &machine,
            name,
            work: &work::named(name).unwrap(),
            workers,
            tiers: &["dram".to_owned(), "cxl".to_owned()],
            moved,
        };
        tune(&question, &stamp()).unwrap()
    }

    #[test]
    fn a_record_tells_the_same_rates_as_the_search_in_its_unit() {
        let tuned = tuned("read", 32, Moved::All);
        let (best, record) = (&tuned.best, &tuned.record);
        assert_eq!(
            (record.provenance, record.unit.as_str()),
            (Provenance::Modelled, "GB/s")
        );
        // A tuple of a stream is a line.
        assert!((record.best_rate - best.rate * 64e-9).abs() < 1e-9 * record.best_rate);
        let gain = record.best_rate / record.dram_rate;
        assert!(
            (gain - best.gain_over_dram()).abs() < 1e-9 && gain > 1.1,
            "{gain}"
        );
        assert_eq!(record.points.len(), CURVE_STEPS as usize + 1);
        assert!((record.points[0].rate - record.dram_rate).abs() < 1e-9 * record.dram_rate);
        for point in &record.points {
            let (low, high) = point.low.zip(point.high).unwrap();
            assert!(
                low <= point.rate && point.rate <= high && low < high,
                "{point:?}"
            );
        }
        let (low, high) = record.best_share_range.unwrap();
        assert!((0.0..=1.0).contains(&low) && low <= high && high <= 1.0);
    }

    #[test]
    fn passes_that_prepare_a_phase_do_not_count_its_rows_twice() {
        let tuned = tuned("partition", 8, Moved::All);
        let work = work::named("partition").unwrap();
        let rows_per_s = tuned.record.best_rate * 1e9 / work.bytes_per_tuple().unwrap();
        // Two passes over the same rows: the search counts the tuples of both.
        assert!((rows_per_s * 2.0 / tuned.best.rate - 1.0).abs() < 1e-9);
        assert_eq!(tuned.kind, PhaseKind::Partition);
    }

    #[test]
    fn only_classes_of_what_moved_are_told() {
        let moved = Moved::Structures(vec!["table".into()]);
        assert_eq!(
            tuned("probe", 8, moved).classes,
            [StructureClass::HashTable]
        );
        let all = tuned("probe", 8, Moved::All).classes;
        assert_eq!(all, [StructureClass::Column, StructureClass::HashTable]);
    }
}
