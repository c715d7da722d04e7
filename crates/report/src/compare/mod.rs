//! Comparison of two sets of records: what changed, and whether the change exceeds noise.
//!
//! Figures are paired by query, placement, machine, engine and provenance. Measured pairs are
//! judged by the Mann-Whitney rank test on their repetitions ([`rank_test`]); modelled ones are
//! computed without noise and need no test. A change only means something if both sets were made
//! with the same settings on the same machine and data, so every difference is listed. Concurrent
//! sessions, validations, weights and prices are not compared.

mod bench;
mod bench_page;
mod page;
mod settings;

pub use bench::{BENCH_TEXT_HEADER, BenchComparison, BenchMean, BenchRow, BenchVerdict};
pub use page::render_comparison;

use crate::words;
use std::collections::BTreeMap;
pub(crate) use tierloom_record::findings::SIGNIFICANT_BELOW;
use tierloom_record::{
    EngineKind, Provenance, QueryRecord, RecordSet, Spread, geometric_mean, rank_test, smallest_p,
};

/// Whether a figure changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Significantly faster (measured), or at least 1% faster (modelled).
    Faster,
    /// Significantly slower (measured), or at least 1% slower (modelled).
    Slower,
    /// No change that noise could not explain.
    NoDifference,
    /// Too few repeats for any change, however large, to be significant.
    TooFewSamples,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoDifference => "no difference",
            Verdict::TooFewSamples => "too few samples",
        })
    }
}

/// One figure that is in both sets.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonRow {
    /// Name of the query.
    pub query: String,
    /// Placement as given on the command line.
    pub placement: String,
    /// `here`, or the name of a machine profile.
    pub machine: String,
    /// The engine that ran the query.
    pub engine: EngineKind,
    /// Whether both times were measured or modelled.
    pub provenance: Provenance,
    /// Times in the first set, ms; repetitions of several runs are pooled.
    pub before: Spread,
    /// Times in the second set, ms.
    pub after: Spread,
    /// Median after divided by median before; below 1 is faster.
    pub ratio: f64,
    /// The same change in per cent; negative is faster.
    pub change_percent: f64,
    /// Whether the change is significant, and in which direction.
    pub verdict: Verdict,
    /// Two-sided p-value of the rank test; `None` for modelled figures and too few repetitions.
    pub p_value: Option<f64>,
}

/// The change of one placement on one machine over its queries.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanChange {
    /// Placement as given on the command line.
    pub placement: String,
    /// `here`, or the name of a machine profile.
    pub machine: String,
    /// The engine that ran the queries.
    pub engine: EngineKind,
    /// Whether the times were measured or modelled.
    pub provenance: Provenance,
    /// Geometric mean of the ratios of median times, after over before; below 1 is faster.
    pub ratio: f64,
    /// Number of queries in the mean.
    pub queries: usize,
}

/// The result of comparing two sets of records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// Figures in both sets, in the order of the first set.
    pub rows: Vec<ComparisonRow>,
    /// Geometric means over the queries, by placement, machine, engine and provenance.
    pub means: Vec<MeanChange>,
    /// Figures that only the first set has.
    pub only_before: Vec<String>,
    /// Figures that only the second set has.
    pub only_after: Vec<String>,
    /// Every differing property of settings, machine or data: "settings.threads: 2 before, 4
    /// after".
    pub differences_in_settings: Vec<String>,
    /// Those of them that make the sets incomparable; empty if none does.
    ///
    /// Examples are another machine, other data, and another number of workers.
    pub not_comparable: Vec<String>,
    /// Comparison of memory benchmarks; empty if neither set has any.
    pub benches: BenchComparison,
    /// Remarks: pooled runs, and figures that were left out.
    pub notes: Vec<String>,
}

/// Column headings of [`Comparison::to_text_rows`].
pub const TEXT_HEADER: [&str; 9] = [
    "query",
    "placement",
    "machine",
    "engine",
    "",
    "before ms",
    "after ms",
    "change",
    "verdict",
];

type Key<'a> = (&'a str, &'a str, &'a str, EngineKind, Provenance);

fn key(record: &QueryRecord) -> Key<'_> {
    (
        &record.query,
        &record.placement,
        &record.machine,
        record.engine,
        record.provenance,
    )
}

fn name((query, placement, machine, engine, provenance): &Key<'_>) -> String {
    format!("{query} under {placement} on {machine} by {engine}, {provenance}")
}

/// Figures of all runs of a set, in the order of their first occurrence.
///
/// Repetitions of several runs are pooled.
fn pooled(set: &RecordSet) -> Vec<(Key<'_>, Spread)> {
    // The map only finds positions; the vector keeps the order of first occurrence.
    let mut places: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    let mut figures: Vec<(Key<'_>, Spread)> = Vec::new();
    for record in set.runs.iter().flat_map(|run| &run.queries) {
        match places.get(&key(record)) {
            Some(place) => {
                let spread = &mut figures[*place].1;
                let all: Vec<f64> = spread
                    .values
                    .iter()
                    .chain(&record.time_ms.values)
                    .copied()
                    .collect();
                *spread = Spread::of(all).unwrap_or_else(|| spread.clone());
            }
            None => {
                places.insert(key(record), figures.len());
                figures.push((key(record), record.time_ms.clone()));
            }
        }
    }
    figures
}

/// Compares two sets of records.
pub fn compare(before: &RecordSet, after: &RecordSet) -> Comparison {
    let (old, new) = (pooled(before), pooled(after));
    let find =
        |figures: &[(Key<'_>, Spread)], key: &Key<'_>| figures.iter().position(|(k, _)| k == key);
    let mut result = Comparison::default();
    for (key, spread) in &old {
        match find(&new, key).map(|place| row(key, spread, &new[place].1)) {
            Some(Some(row)) => result.rows.push(row),
            Some(None) => result.notes.push(format!(
                "{}: a time of zero cannot be compared; left out.",
                name(key)
            )),
            None => result.only_before.push(name(key)),
        }
    }
    result.only_after = new
        .iter()
        .filter(|(key, _)| find(&old, key).is_none())
        .map(|(key, _)| name(key))
        .collect();
    result.means = means(&result.rows);
    settings::compare_settings(before, after, &mut result);
    bench::compare_benches(&before.benches, &after.benches, &mut result);
    for (which, set) in [("before", before), ("after", after)] {
        if set.runs.len() > 1 {
            result.notes.push(format!(
                "The set {which} holds {} runs; their repeats are pooled.",
                set.runs.len()
            ));
        }
        let compared = set.validations.len() + set.tunes.len() + set.costs.len();
        let left = compared + set.restarts.len();
        if left > 0 {
            result.notes.push(format!(
                "The set {which} holds {left} records of comparisons with publications, weights, prices or starts: these are not compared."
            ));
        }
    }
    result
}

fn row(key: &Key<'_>, before: &Spread, after: &Spread) -> Option<ComparisonRow> {
    let (query, placement, machine, engine, provenance) = *key;
    let ratio = after.median / before.median;
    // A median of zero has no ratio.
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    let (verdict, p_value) = judge(provenance, before, after, ratio);
    Some(ComparisonRow {
        query: query.into(),
        placement: placement.into(),
        machine: machine.into(),
        engine,
        provenance,
        before: before.clone(),
        after: after.clone(),
        ratio,
        change_percent: (ratio - 1.0) * 100.0,
        verdict,
        p_value,
    })
}

fn judge(
    provenance: Provenance,
    before: &Spread,
    after: &Spread,
    ratio: f64,
) -> (Verdict, Option<f64>) {
    let direction = if ratio < 1.0 {
        Verdict::Faster
    } else {
        Verdict::Slower
    };
    if provenance == Provenance::Modelled {
        let same = (ratio - 1.0).abs() < words::SAME_WITHIN;
        return (
            if same {
                Verdict::NoDifference
            } else {
                direction
            },
            None,
        );
    }
    // With three repetitions against three, even complete separation is not significant.
    if smallest_p(before.values.len(), after.values.len()) >= SIGNIFICANT_BELOW {
        return (Verdict::TooFewSamples, None);
    }
    let p = rank_test(&before.values, &after.values);
    // With equal medians there is no direction to report, whatever the test says.
    let significant = p < SIGNIFICANT_BELOW && ratio != 1.0;
    (
        if significant {
            direction
        } else {
            Verdict::NoDifference
        },
        Some(p),
    )
}

fn means(rows: &[ComparisonRow]) -> Vec<MeanChange> {
    let mut means: Vec<MeanChange> = Vec::new();
    for row in rows {
        let same = |r: &ComparisonRow| {
            r.placement == row.placement
                && r.machine == row.machine
                && r.engine == row.engine
                && r.provenance == row.provenance
        };
        let known = means.iter().any(|m| {
            m.placement == row.placement
                && m.machine == row.machine
                && m.engine == row.engine
                && m.provenance == row.provenance
        });
        if known {
            continue;
        }
        let ratios: Vec<f64> = rows.iter().filter(|r| same(r)).map(|r| r.ratio).collect();
        if let Some(ratio) = geometric_mean(ratios.iter().copied()) {
            let (placement, machine) = (row.placement.clone(), row.machine.clone());
            means.push(MeanChange {
                placement,
                machine,
                engine: row.engine,
                provenance: row.provenance,
                ratio,
                queries: ratios.len(),
            });
        }
    }
    means
}

impl Comparison {
    /// Whether a change of the figures can be attributed to the program.
    pub fn is_comparable(&self) -> bool {
        self.not_comparable.is_empty()
    }

    /// Number of rows with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    }

    /// The rows as text, under the headings [`TEXT_HEADER`].
    pub fn to_text_rows(&self) -> Vec<[String; 9]> {
        self.rows.iter().map(ComparisonRow::to_text).collect()
    }

    /// The result as sentences, the most important first.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = self.benches.sentences();
        let queries =
            !(self.rows.is_empty() && self.only_before.is_empty() && self.only_after.is_empty());
        // Sets of benchmarks alone have nothing to say about queries.
        if !queries && !sentences.is_empty() {
            return sentences;
        }
        if self.rows.is_empty() {
            sentences.push("No figure is in both sets (same query, placement, machine, engine and provenance), so nothing can be compared.".into());
            return sentences;
        }
        sentences.push(format!(
            "{} figures are in both sets: {} faster, {} slower, {} without a difference that noise could not explain, {} with too few repeats to tell.",
            self.rows.len(),
            self.count(Verdict::Faster),
            self.count(Verdict::Slower),
            self.count(Verdict::NoDifference),
            self.count(Verdict::TooFewSamples)
        ));
        let changed = |mean: &&MeanChange| {
            mean.provenance == Provenance::Measured
                || (mean.ratio - 1.0).abs() >= words::SAME_WITHIN
        };
        for MeanChange {
            placement,
            machine,
            engine,
            provenance,
            ratio,
            queries,
        } in self.means.iter().filter(changed)
        {
            let (change, queries) = (
                words::change((ratio - 1.0) * 100.0),
                words::queries(*queries),
            );
            sentences.push(format!("{placement} on {machine} by {engine}, {provenance}: time {change} (geometric mean over {queries})."));
        }
        let unchanged = self.means.iter().filter(|mean| !changed(mean)).count();
        if unchanged > 0 {
            sentences.push(format!(
                "{unchanged} modelled geometric means change by less than 1%."
            ));
        }
        sentences.push(self.test_sentence());
        sentences
    }

    fn test_sentence(&self) -> String {
        let tested = self.rows.iter().filter(|row| row.p_value.is_some()).count();
        let few = self.count(Verdict::TooFewSamples);
        let mut text = if tested > 0 {
            let by_chance = tested as f64 * SIGNIFICANT_BELOW;
            format!(
                "Measured figures are judged by the two-sided Mann-Whitney rank test at 5%; if nothing had changed at all, about {} of the {tested} tested would still look changed.",
                words::number((by_chance * 10.0).round() / 10.0)
            )
        } else {
            "No measured figure could be tested.".into()
        };
        if few > 0 {
            text.push_str(" 3 repeats against 3 can never be significant (even if all of one side are faster, chance does that in 1 of 10 cases): use 5 or more on both sides.");
        }
        text.push_str(" Repeats of one run share its memory layout; only several runs on both sides show how much runs differ. Modelled figures carry no noise: 1% or more counts as a change.");
        text
    }
}

impl ComparisonRow {
    fn to_text(&self) -> [String; 9] {
        let p = self
            .p_value
            .map(|p| format!(" (p {p:.3})"))
            .unwrap_or_default();
        [
            self.query.clone(),
            self.placement.clone(),
            self.machine.clone(),
            self.engine.to_string(),
            self.provenance.to_string(),
            words::spread_ms(&self.before),
            words::spread_ms(&self.after),
            words::change(self.change_percent),
            format!("{}{p}", self.verdict),
        ]
    }
}
