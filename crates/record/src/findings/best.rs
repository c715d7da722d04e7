//! The best placement of each machine, and whether its lead exceeds the noise.
//!
//! Placements are compared by the geometric mean over the queries of a run, one mean per
//! repetition, or by the throughput of concurrent sessions. A measured difference counts if the
//! rank test on the repetitions finds it and it is at least 1%. Modelled times of one repetition
//! share the captured execution, so they are compared pair by pair: a difference counts if all
//! pairs show it.

use super::{SIGNIFICANT_BELOW, machines, warnings};
use crate::means::{REFERENCE, SAME_WITHIN};
use crate::rank::{rank_test, smallest_p};
use crate::{EngineKind, HERE, Provenance, QueryRecord, RunSet, ThroughputRecord, geometric_mean};

/// How many times as fast one placement is as another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedRatio {
    /// Ratio of the medians.
    pub median: f64,
    /// Ratio that the repetitions leave possible at least.
    pub min: f64,
    /// Ratio that the repetitions leave possible at most.
    pub max: f64,
}

/// What the figures of one machine say.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementVerdict {
    /// No other placement can be compared with this one.
    Alone {
        /// The only placement with all figures.
        placement: String,
    },
    /// One placement is better beyond the noise.
    Better {
        /// The fastest placement.
        placement: String,
        /// The placement that it is compared with: `dram`, or the next where `dram` is fastest.
        over: String,
        /// Its speed over that placement's.
        ratio: SpeedRatio,
        /// Placements that cannot be told from the fastest.
        equals: Vec<String>,
    },
    /// No placement is better than this one beyond the noise.
    NoneBetter {
        /// `dram`, or the fastest placement if there are no figures of `dram`.
        than: String,
        /// The fastest of the others.
        next: String,
        /// The speed of that one over `than`'s.
        ratio: SpeedRatio,
    },
    /// Too few repetitions for any difference to exceed the noise.
    TooFewRepetitions {
        /// The placement with the least median.
        fastest: String,
        /// The placement that it is compared with.
        over: String,
        /// Its speed over that placement's.
        ratio: SpeedRatio,
    },
}

/// The best placement of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct BestPlacement {
    /// [`HERE`], or the name of a machine profile.
    pub machine: String,
    /// Whether its figures were measured or modelled.
    pub provenance: Provenance,
    /// What they say.
    pub outcome: PlacementVerdict,
}

/// One placement on one machine.
struct Candidate<'a> {
    placement: &'a str,
    provenance: Provenance,
    /// Time per query, from the medians; the unit is the same for all candidates of a machine.
    cost: f64,
    /// The same for each repetition.
    repetitions: Vec<f64>,
}

/// The best placement of each machine with figures of Tierloom's engine.
///
/// Empty if no conclusion may be drawn: answers differ, or the processor is emulated.
pub(super) fn of(set: &RunSet) -> Vec<BestPlacement> {
    if warnings::no_conclusion(set).is_some() {
        return Vec::new();
    }
    let misplaced = warnings::misplaced(set);
    let used = |machine: &str, placement: &str| {
        machine != HERE || !misplaced.iter().any(|(name, _)| *name == placement)
    };
    let verdict = |machine: &str| {
        let mut candidates = by_query(set, machine);
        if candidates.is_empty() {
            candidates = by_throughput(&set.throughputs, machine);
        }
        candidates.retain(|c| used(machine, c.placement));
        Some(BestPlacement {
            machine: machine.to_owned(),
            provenance: candidates.first()?.provenance,
            outcome: outcome(candidates)?,
        })
    };
    machines(set).into_iter().filter_map(verdict).collect()
}

/// Placements with a figure of every query that any placement of this machine has.
fn by_query<'a>(set: &'a RunSet, machine: &str) -> Vec<Candidate<'a>> {
    let of = set.queries.iter();
    let of: Vec<&QueryRecord> = of
        .filter(|q| q.machine == machine && q.engine == EngineKind::Tierloom)
        .collect();
    let mut groups: Vec<(&str, Vec<&QueryRecord>)> = Vec::new();
    for record in of {
        match groups.iter_mut().find(|(p, _)| *p == record.placement) {
            Some((_, members)) => members.push(record),
            None => groups.push((&record.placement, vec![record])),
        }
    }
    let all = groups.iter().map(|(_, m)| m.len()).max().unwrap_or(0);
    groups
        .into_iter()
        .filter(|(_, members)| members.len() == all)
        .filter_map(|(placement, members)| {
            let fewest = members.iter().map(|r| r.time_ms.values.len()).min()?;
            let repetition = |i: usize| geometric_mean(members.iter().map(|r| r.time_ms.values[i]));
            Some(Candidate {
                placement,
                provenance: members.first()?.provenance,
                cost: geometric_mean(members.iter().map(|r| r.time_ms.median))?,
                repetitions: (0..fewest).filter_map(repetition).collect(),
            })
        })
        .collect()
}

fn by_throughput<'a>(records: &'a [ThroughputRecord], machine: &str) -> Vec<Candidate<'a>> {
    let candidate = |record: &'a ThroughputRecord| {
        let rates = &record.per_stream_queries_per_hour.values;
        let cost = 1.0 / record.queries_per_hour;
        (cost.is_finite() && cost > 0.0).then(|| Candidate {
            placement: &record.placement,
            provenance: record.provenance,
            cost,
            // The rates of the sessions, each as if all sessions had it.
            repetitions: rates
                .iter()
                .map(|rate| 1.0 / (rate * rates.len() as f64))
                .filter(|cost| cost.is_finite())
                .collect(),
        })
    };
    records
        .iter()
        .filter(|r| r.machine == machine && r.engine == EngineKind::Tierloom)
        .filter_map(candidate)
        .collect()
}

/// How many times as fast `a` is as `b`.
fn ratio(a: &Candidate<'_>, b: &Candidate<'_>) -> SpeedRatio {
    let median = b.cost / a.cost;
    let extremes = |ratios: &mut dyn Iterator<Item = f64>| {
        // The ratio of the medians belongs to the range, even where it is not that of a repetition.
        ratios.fold((median, median), |(low, high), r| (low.min(r), high.max(r)))
    };
    let paired = a.provenance == Provenance::Modelled && a.repetitions.len() == b.repetitions.len();
    let (min, max) = if paired {
        let pairs = a.repetitions.iter().zip(&b.repetitions);
        extremes(&mut pairs.map(|(a, b)| b / a))
    } else {
        let ends = |c: &Candidate<'_>| {
            let fold = |f: fn(f64, f64) -> f64| c.repetitions.iter().copied().fold(c.cost, f);
            (fold(f64::min), fold(f64::max))
        };
        let ((a_min, a_max), (b_min, b_max)) = (ends(a), ends(b));
        extremes(&mut [b_min / a_max, b_max / a_min].into_iter())
    };
    SpeedRatio { median, min, max }
}

/// Whether `a` and `b` differ beyond the noise.
fn differ(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    let ratio = ratio(a, b);
    let noticeable = (ratio.median - 1.0).abs() >= SAME_WITHIN;
    noticeable
        && match a.provenance {
            Provenance::Modelled => ratio.min > 1.0 || ratio.max < 1.0,
            Provenance::Measured => rank_test(&a.repetitions, &b.repetitions) < SIGNIFICANT_BELOW,
        }
}

fn too_few(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    a.provenance == Provenance::Measured
        && smallest_p(a.repetitions.len(), b.repetitions.len()) >= SIGNIFICANT_BELOW
}

fn outcome(mut candidates: Vec<Candidate<'_>>) -> Option<PlacementVerdict> {
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let (fastest, others) = candidates.split_first()?;
    let Some(second) = others.first() else {
        let placement = fastest.placement.to_owned();
        return Some(PlacementVerdict::Alone { placement });
    };
    let dram = candidates.iter().find(|c| c.placement == REFERENCE);
    let equals: Vec<&Candidate<'_>> = others.iter().filter(|c| !differ(fastest, c)).collect();
    let name = |c: &Candidate<'_>| c.placement.to_owned();
    // A placement other than dram must be better than dram; dram must be better than the next.
    let over = dram.filter(|d| d.placement != fastest.placement);
    let over = over.unwrap_or(second);
    Some(if too_few(fastest, over) {
        PlacementVerdict::TooFewRepetitions {
            fastest: name(fastest),
            over: name(over),
            ratio: ratio(fastest, over),
        }
    } else if equals.iter().any(|c| c.placement == over.placement) {
        let than = dram.unwrap_or(fastest);
        let next = if than.placement == fastest.placement {
            second
        } else {
            fastest
        };
        PlacementVerdict::NoneBetter {
            than: name(than),
            next: name(next),
            ratio: ratio(next, than),
        }
    } else {
        PlacementVerdict::Better {
            placement: name(fastest),
            over: name(over),
            ratio: ratio(fastest, over),
            equals: equals.into_iter().map(name).collect(),
        }
    })
}
