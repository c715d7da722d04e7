//! Comparison of memory benchmarks.
//!
//! Figures are paired by run id (a hash of the resolved plan), task and quantity. What remains is
//! paired by workload, varied settings and task, and then the differences of the plans are
//! reported. Repetitions of several records of one run are pooled.

use super::{Comparison, SIGNIFICANT_BELOW};
use crate::bench::figure::{BenchMetric, Figure};
use crate::words;
use tierloom_record::{BenchRecord, Spread, geometric_mean, rank_test, smallest_p};

/// Whether a figure of a benchmark changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BenchVerdict {
    /// Significantly better (more bandwidth or operations, less latency) by 1% or more.
    Better,
    /// Significantly worse by 1% or more.
    Worse,
    /// No significant change, although repetitions agree well enough to show one; or below 1%.
    Same,
    /// Not decidable: too few repetitions, a wide range of repetitions, or an invalid run.
    Unclear,
}

impl std::fmt::Display for BenchVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            BenchVerdict::Better => "better",
            BenchVerdict::Worse => "worse",
            BenchVerdict::Same => "same",
            BenchVerdict::Unclear => "unclear",
        })
    }
}

/// One figure that is in both sets.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchRow {
    /// Run id in the first set.
    pub run_id: String,
    /// Whether the run in the second set has the same id and so the same plan.
    pub same_plan: bool,
    /// Name of the workload.
    pub workload: String,
    /// The varied settings, "threads 4, operation read"; empty if none vary.
    pub settings: String,
    /// Name of the task.
    pub task: String,
    /// What the figures are, and their unit.
    pub quantity: BenchMetric,
    /// Repetitions in the first set: GB/s, ns or operations per second.
    pub before: Spread,
    /// Repetitions in the second set, in the same unit.
    pub after: Spread,
    /// Median after divided by median before.
    pub ratio: f64,
    /// The same change in per cent.
    pub change_percent: f64,
    /// Whether the change is significant, and whether it is an improvement.
    pub verdict: BenchVerdict,
    /// Why the verdict is [`BenchVerdict::Unclear`]; `None` for other verdicts.
    pub why_unclear: Option<String>,
    /// Two-sided p-value of the rank test; `None` if no test was made.
    pub p_value: Option<f64>,
}

/// The change of one workload over its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchMean {
    /// Name of the workload.
    pub workload: String,
    /// What its figures are.
    pub quantity: BenchMetric,
    /// Geometric mean of after divided by before, over figures of valid runs.
    pub ratio: f64,
    /// Number of figures in the mean.
    pub figures: usize,
}

/// The result of comparing two sets of memory benchmarks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchComparison {
    /// Figures in both sets, in the order of the first set.
    pub rows: Vec<BenchRow>,
    /// Geometric means, by workload and quantity.
    pub means: Vec<BenchMean>,
    /// Figures that only the first set has.
    pub only_before: Vec<String>,
    /// Figures that only the second set has.
    pub only_after: Vec<String>,
}

/// Column headings of [`BenchComparison::to_text_rows`].
pub const BENCH_TEXT_HEADER: [&str; 9] = [
    "workload", "settings", "task", "", "before", "after", "ratio", "change", "verdict",
];

/// All repetitions of one task of one run.
struct Pooled<'a> {
    record: &'a BenchRecord,
    task: &'a str,
    quantity: BenchMetric,
    spread: Spread,
    /// Whether all records in the pool are valid.
    valid: bool,
}

fn pools(records: &[BenchRecord]) -> Vec<Pooled<'_>> {
    let mut pools: Vec<Pooled<'_>> = Vec::new();
    for record in records {
        for task in &record.tasks {
            let Some(figure) = Figure::of(task) else {
                continue;
            };
            let known = pools.iter_mut().find(|p| {
                (&p.record.run_id, p.task, p.quantity)
                    == (&record.run_id, task.name.as_str(), figure.quantity)
            });
            match known {
                Some(pool) => {
                    let all = pool.spread.values.iter().chain(&figure.spread.values);
                    if let Some(spread) = Spread::of(all.copied().collect()) {
                        pool.spread = spread;
                    }
                    // One invalid record makes the pooled repetitions unusable.
                    pool.valid &= record.valid;
                }
                None => pools.push(Pooled {
                    record,
                    task: &task.name,
                    quantity: figure.quantity,
                    spread: figure.spread.clone(),
                    valid: record.valid,
                }),
            }
        }
    }
    pools
}

impl Pooled<'_> {
    fn settings(&self) -> String {
        let sentences = self.record.varied.iter();
        let sentences: Vec<String> = sentences
            .map(|s| format!("{} {}", s.key, s.value))
            .collect();
        sentences.join(", ")
    }

    fn name(&self) -> String {
        let settings = self.settings();
        let with = if settings.is_empty() {
            String::new()
        } else {
            format!(" with {settings}")
        };
        format!(
            "{} of the task {} of {}{with} (run {})",
            self.quantity.name(),
            self.task,
            self.record.workload,
            self.record.run_id
        )
    }

    fn same_run(&self, other: &Pooled<'_>) -> bool {
        (&self.record.run_id, self.task, self.quantity)
            == (&other.record.run_id, other.task, other.quantity)
    }

    fn same_place(&self, other: &Pooled<'_>) -> bool {
        (
            &self.record.workload,
            &self.record.varied,
            self.task,
            self.quantity,
        ) == (
            &other.record.workload,
            &other.record.varied,
            other.task,
            other.quantity,
        )
    }
}

/// Compares the benchmarks of two sets, and adds the result and its notes to `into`.
pub(super) fn compare_benches(
    before: &[BenchRecord],
    after: &[BenchRecord],
    into: &mut Comparison,
) {
    let (old, new) = (pools(before), pools(after));
    let mut taken = vec![false; new.len()];
    let mut partner: Vec<Option<usize>> = vec![None; old.len()];
    // Equal plans are paired first, so that a run with another plan cannot take their place.
    for (place, pool) in old.iter().enumerate() {
        partner[place] = new.iter().position(|other| pool.same_run(other));
        partner[place].inspect(|found| taken[*found] = true);
    }
    for (place, pool) in old.iter().enumerate() {
        if partner[place].is_none() {
            let free =
                |(index, other): (usize, &Pooled<'_>)| !taken[index] && pool.same_place(other);
            partner[place] = new.iter().enumerate().position(free);
            partner[place].inspect(|found| taken[*found] = true);
        }
    }
    let mut result = BenchComparison::default();
    for (pool, partner) in old.iter().zip(&partner) {
        match partner.map(|place| row(pool, &new[place])) {
            Some(Some(row)) => result.rows.push(row),
            Some(None) => into.notes.push(format!(
                "{}: a figure of zero cannot be compared; left out.",
                pool.name()
            )),
            None => result.only_before.push(pool.name()),
        }
    }
    let alone = new.iter().zip(&taken).filter(|(_, taken)| !**taken);
    result.only_after = alone.map(|(pool, _)| pool.name()).collect();
    result.means = means(&result.rows);
    let pairs = old.iter().zip(&partner);
    let pairs: Vec<(&BenchRecord, &BenchRecord)> = pairs
        .filter_map(|(pool, place)| Some((pool.record, new[(*place)?].record)))
        .collect();
    super::settings::compare_bench_settings(&pairs, into);
    into.benches = result;
}

fn row(before: &Pooled<'_>, after: &Pooled<'_>) -> Option<BenchRow> {
    let ratio = after.spread.median / before.spread.median;
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    let (verdict, why_unclear, p_value) = judge(before, after, ratio);
    Some(BenchRow {
        run_id: before.record.run_id.clone(),
        same_plan: before.record.run_id == after.record.run_id,
        workload: before.record.workload.clone(),
        settings: before.settings(),
        task: before.task.into(),
        quantity: before.quantity,
        before: before.spread.clone(),
        after: after.spread.clone(),
        ratio,
        change_percent: (ratio - 1.0) * 100.0,
        verdict,
        why_unclear,
        p_value,
    })
}

fn judge(
    before: &Pooled<'_>,
    after: &Pooled<'_>,
    ratio: f64,
) -> (BenchVerdict, Option<String>, Option<f64>) {
    for (which, pool) in [("before", before), ("after", after)] {
        if !pool.valid {
            return (
                BenchVerdict::Unclear,
                Some(format!("invalid {which}")),
                None,
            );
        }
    }
    let (old, new) = (&before.spread, &after.spread);
    if smallest_p(old.values.len(), new.values.len()) >= SIGNIFICANT_BELOW {
        let why = "too few repetitions".to_string();
        return (BenchVerdict::Unclear, Some(why), None);
    }
    let p = rank_test(&old.values, &new.values);
    let small = (ratio - 1.0).abs() < words::SAME_WITHIN;
    // The noisier side decides whether a change could have been seen.
    let noise = old.relative_range().max(new.relative_range());
    if p < SIGNIFICANT_BELOW && !small {
        let better = (ratio > 1.0) == before.quantity.more_is_better();
        let verdict = if better {
            BenchVerdict::Better
        } else {
            BenchVerdict::Worse
        };
        return (verdict, None, Some(p));
    }
    // No change was found. That means something only if the repetitions are close enough to show
    // one.
    if p < SIGNIFICANT_BELOW || noise <= words::NOISY_RELATIVE_RANGE {
        return (BenchVerdict::Same, None, Some(p));
    }
    let why = format!(
        "repetitions lie {} of their median apart",
        words::share(noise)
    );
    (BenchVerdict::Unclear, Some(why), Some(p))
}

fn means(rows: &[BenchRow]) -> Vec<BenchMean> {
    let mut parts: Vec<(&str, BenchMetric)> = Vec::new();
    for row in rows {
        if !parts.contains(&(&row.workload, row.quantity)) {
            parts.push((&row.workload, row.quantity));
        }
    }
    let mean = |(workload, quantity): (&str, BenchMetric)| {
        let usable = |row: &&BenchRow| {
            // Figures of invalid runs are recognised by the reason that `judge` gives.
            let invalid = row
                .why_unclear
                .as_ref()
                .is_some_and(|w| w.starts_with("invalid"));
            row.workload == workload && row.quantity == quantity && !invalid
        };
        let ratios: Vec<f64> = rows.iter().filter(usable).map(|r| r.ratio).collect();
        Some(BenchMean {
            workload: workload.into(),
            quantity,
            ratio: geometric_mean(ratios.iter().copied())?,
            figures: ratios.len(),
        })
    };
    parts.into_iter().filter_map(mean).collect()
}

impl BenchRow {
    /// How many times better than before: the ratio, or its inverse for latency.
    pub fn gain(&self) -> f64 {
        if self.quantity.more_is_better() {
            self.ratio
        } else {
            1.0 / self.ratio
        }
    }

    fn to_text(&self) -> [String; 9] {
        let p = self.p_value.map(|p| format!("p {p:.3}"));
        let why: Vec<String> = self.why_unclear.iter().cloned().chain(p).collect();
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(" ({})", why.join(", "))
        };
        [
            self.workload.clone(),
            self.settings.clone(),
            self.task.clone(),
            format!("{}, measured", self.quantity.name()),
            self.quantity.spread(&self.before),
            self.quantity.spread(&self.after),
            words::ratio(self.ratio),
            words::change(self.change_percent),
            format!("{}{why}", self.verdict),
        ]
    }
}

impl BenchComparison {
    /// Whether neither set has a benchmark.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.only_before.is_empty() && self.only_after.is_empty()
    }

    /// Number of rows with this verdict.
    pub fn count(&self, verdict: BenchVerdict) -> usize {
        self.rows.iter().filter(|r| r.verdict == verdict).count()
    }

    /// The rows as text, under the headings [`BENCH_TEXT_HEADER`].
    pub fn to_text_rows(&self) -> Vec<[String; 9]> {
        self.rows.iter().map(BenchRow::to_text).collect()
    }

    /// The result as sentences, the most important first; empty without benchmarks.
    pub fn sentences(&self) -> Vec<String> {
        if self.is_empty() {
            return Vec::new();
        }
        if self.rows.is_empty() {
            return vec!["No figure of a benchmark is in both sets (same run, or same workload, settings and task), so none can be compared.".into()];
        }
        let count = |verdict| self.count(verdict);
        let mut sentences = vec![format!(
            "{} figures of benchmarks are in both sets: {} better, {} worse, {} the same, {} unclear.",
            self.rows.len(),
            count(BenchVerdict::Better),
            count(BenchVerdict::Worse),
            count(BenchVerdict::Same),
            count(BenchVerdict::Unclear)
        )];
        sentences.extend(self.means.iter().map(|mean| {
            format!(
                "{}: {} {} (geometric mean over {}).",
                mean.workload,
                mean.quantity.name(),
                words::change((mean.ratio - 1.0) * 100.0),
                words::figures(mean.figures)
            )
        }));
        let tested = self.rows.iter().filter(|r| r.p_value.is_some()).count();
        sentences.push(format!(
            "Better and worse: the two-sided Mann-Whitney rank test at 5% finds a change and it is 1% or more; if nothing had changed at all, about {} of the {tested} tested would still be found changed. Same: no change found, or one below 1%, and repetitions within 10% of their median. Unclear: too few repetitions (3 against 3 can never be significant: use 5 or more), repetitions farther apart, or an invalid run.",
            words::number((tested as f64 * SIGNIFICANT_BELOW * 10.0).round() / 10.0)
        ));
        sentences
    }
}
