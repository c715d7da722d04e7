//! Findings of benchmarks as text, and a table of all figures.

use super::figure::{BenchMetric, Figure};
use super::view::{GroupedRun, RunGroup};
use crate::section::{missing, tag};
use crate::words;
use maud::{Markup, html};
use tierloom_record::{BenchRecord, Provenance};

/// Number of rows above which a table is folded.
pub(crate) const OPEN_UP_TO: usize = 40;

pub(super) fn section(records: &[BenchRecord], groups: &[RunGroup<'_>]) -> Markup {
    let reasons = reasons(records);
    let invalid = records.iter().filter(|r| !r.valid).count();
    html! {
        section #b-summary {
            h2 { "Summary" }
            p.note { (made_by(records, groups)) }
            @if invalid > 0 {
                div.box.bad {
                    p { b { (words::runs(invalid)) " of " (records.len()) " " (if invalid == 1 { "is" } else { "are" }) " invalid." } " Their figures must not be used; they are marked wherever they stand, and no line or sentence counts them." }
                    ul { @for (reason, times) in &reasons { li { (reason) " (" (words::runs(*times)) ")" } } }
                }
            }
            @for caution in cautions(records) { p.box.warn { (caution) } }
            ul.findings {
                @for group in groups { @if let Some(sentence) = finding(group) { li { (sentence) } } }
                li { (noise(records)) }
                @if let Some(sentence) = stability(records) { li { (sentence) } }
            }
            p.note { "Every figure here is " (tag(Provenance::Measured)) ": timed on the machine that its record names. A figure is the median of its repetitions; in brackets the smallest and the largest of them." }
        }
    }
}

fn made_by(records: &[BenchRecord], groups: &[RunGroup<'_>]) -> String {
    let distinct = |of: fn(&BenchRecord) -> String| {
        let mut all: Vec<String> = records.iter().map(of).collect();
        all.sort();
        all.dedup();
        all
    };
    let workloads = distinct(|r| r.workload.clone()).len();
    let versions = distinct(|r| {
        let commit = r.commit.as_deref().unwrap_or("commit not known");
        format!("{} ({commit}), {} build", r.tool_version, r.build)
    });
    // RFC 3339 times in UTC sort in order of time.
    let started = distinct(|r| r.started_at.clone());
    let period = match started.as_slice() {
        [] => "never".into(),
        [one] => one.clone(),
        [first, .., last] => format!("{first} to {last}"),
    };
    let plural = if workloads == 1 { "" } else { "s" };
    let sessions = distinct(|r| r.session_id.clone()).len();
    let sessions = if sessions > 1 {
        format!(" in {sessions} sessions")
    } else {
        String::new()
    };
    let elapsed: f64 = records.iter().map(|r| r.elapsed_s).sum();
    debug_assert!(groups.len() >= workloads.min(1));
    format!(
        "{} of {workloads} workload{plural}{sessions}, started {period}, {} s of runs with preparation, Tierloom {}.",
        words::runs(records.len()),
        words::ms(elapsed),
        versions.join("; ")
    )
}

/// Why runs are invalid, with the number of runs, most frequent first.
fn reasons(records: &[BenchRecord]) -> Vec<(&str, usize)> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for record in records.iter().filter(|r| !r.valid) {
        let mut described = record
            .remarks
            .iter()
            .filter(|r| r.invalidates)
            .map(|r| r.text.as_str())
            .peekable();
        // An invalid record without a reason must still be counted.
        let silent = described
            .peek()
            .is_none()
            .then_some("no reason was recorded");
        for text in described.chain(silent) {
            match reasons.iter_mut().find(|(known, _)| *known == text) {
                Some((_, times)) => *times += 1,
                None => reasons.push((text, 1)),
            }
        }
    }
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    reasons
}

fn cautions(records: &[BenchRecord]) -> Vec<String> {
    let mut cautions = Vec::new();
    let count = |test: &dyn Fn(&&BenchRecord) -> bool| records.iter().filter(test).count();
    let unoptimised = count(&|r| r.build != "release");
    if unoptimised > 0 {
        cautions.push(format!(
            "{} made with a build that is not a release: the loops were not optimised, so these figures say nothing about the memory.",
            words::runs_were(unoptimised)
        ));
    }
    let once = count(&|r| Figure::of_run(r).is_some_and(|f| f.spread.values.len() < 3));
    if once > 0 {
        cautions.push(format!(
            "{} repeated less than three times: their spread is not known.",
            words::runs_were(once)
        ));
    }
    let doubtful = count(&|r| r.valid && !r.remarks.is_empty());
    if doubtful > 0 {
        cautions.push(format!(
            "{} valid but with remarks: read them before you use the figures.",
            words::runs_are(doubtful)
        ));
    }
    cautions
}

/// The best and the worst figure among a group's valid runs.
fn finding(group: &RunGroup<'_>) -> Option<String> {
    let quantity = group.quantity?;
    let mut figures: Vec<(&GroupedRun<'_>, Figure<'_>)> = group
        .runs
        .iter()
        .filter(|run| run.record.valid)
        .filter_map(|run| Some((run, Figure::of_run(run.record)?)))
        .collect();
    if figures.is_empty() {
        return Some(format!("{}: no valid figure.", group.title()));
    }
    figures.sort_by(|a, b| a.1.spread.median.total_cmp(&b.1.spread.median));
    if quantity.more_is_better() {
        figures.reverse();
    }
    let (best, worst) = (&figures[0], &figures[figures.len() - 1]);
    let described = |(run, figure): &(&GroupedRun<'_>, Figure<'_>)| {
        let with = if group.keys.is_empty() {
            String::new()
        } else {
            format!(" with {}", group.name_of(run))
        };
        format!("{}{with}", quantity.spread(figure.spread))
    };
    let word = if quantity.more_is_better() {
        "highest"
    } else {
        "lowest"
    };
    Some(if figures.len() == 1 {
        format!(
            "{}: {} {}.",
            group.workload,
            quantity.name(),
            described(best)
        )
    } else {
        let other = if quantity.more_is_better() {
            "lowest"
        } else {
            "highest"
        };
        format!(
            "{}: {word} {} {}; {other} {}.",
            group.workload,
            quantity.name(),
            described(best),
            described(worst)
        )
    })
}

fn noise(records: &[BenchRecord]) -> String {
    let ranges: Vec<(f64, &BenchRecord)> = records
        .iter()
        .filter(|r| r.valid)
        .filter_map(|r| Some((Figure::of_run(r)?.spread, r)))
        .filter(|(spread, _)| spread.values.len() > 1 && spread.median > 0.0)
        .map(|(spread, r)| (spread.relative_range(), r))
        .collect();
    let noisy = ranges
        .iter()
        .filter(|(range, _)| *range > words::NOISY_RELATIVE_RANGE)
        .count();
    let worst = ranges.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    match worst {
        None => "No valid figure was measured more than once, so noise is not known.".into(),
        Some((range, _)) if noisy == 0 => format!(
            "Quiet: in all {} repeated figures the repetitions lie within {} of their median.",
            ranges.len(),
            words::share(range.max(0.01))
        ),
        Some((range, record)) => format!(
            "Noisy: in {noisy} of {} repeated figures smallest and largest repetition lie more than 10% of the median apart; the worst is a run of {} (id {}) with {}.",
            ranges.len(),
            record.workload,
            record.run_id,
            words::share(*range)
        ),
    }
}

fn stability(records: &[BenchRecord]) -> Option<String> {
    let asked: Vec<_> = records.iter().filter_map(|r| r.stability).collect();
    let reached = asked.iter().filter(|s| s.stable).count();
    (!asked.is_empty()).then(|| {
        format!(
            "{} repeated until stable: {reached} reached the confidence interval asked for, {} gave up before.",
            words::runs_were(asked.len()),
            asked.len() - reached
        )
    })
}

pub(super) fn figures(groups: &[RunGroup<'_>]) -> Markup {
    html! {
        section #b-figures {
            h2 { "Figures" }
            @for group in groups {
                h3 id=(format!("{}-figures", group.prefix())) { (group.title()) }
                (about(group))
                (folded(group.runs.len(), table(group)))
            }
        }
    }
}

/// The table, folded if it is long.
pub(super) fn folded(rows: usize, table: Markup) -> Markup {
    html! {
        @if rows > OPEN_UP_TO { details { summary { "All " (rows) " rows" } (table) } } @else { (table) }
    }
}

/// What all runs of a group have in common: access, threads, memory.
fn about(group: &RunGroup<'_>) -> Markup {
    let tasks = || group.runs.iter().filter_map(|r| r.record.tasks.first());
    let common = |of: &dyn Fn(&tierloom_record::TaskRecord) -> String| {
        let mut all: Vec<String> = tasks().map(of).collect();
        all.dedup();
        (all.len() == 1).then(|| all.remove(0))
    };
    let region = |t: &tierloom_record::TaskRecord| {
        let described = t.regions.iter().map(|r| {
            format!(
                "{} of {}, {} pages, {}",
                words::short_bytes(r.size_bytes as f64),
                r.memory,
                r.page_size,
                placed(&r.placement, &r.resolved)
            )
        });
        described.collect::<Vec<_>>().join("; ")
    };
    let parts = [
        common(&|t| t.access.clone()),
        common(&|t| words::threads(t.threads)),
        common(&region),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .flatten()
        .filter(|t| !t.is_empty())
        .collect();
    html! {
        p.note {
            @if !group.file.is_empty() { code { (group.file) } ": " }
            @if parts.is_empty() { "the runs have neither access nor threads nor memory in common" } @else { (parts.join("; ")) }
            "."
        }
    }
}

/// "3:2 (weights 0:3, 1:2)", or only the first if both are equal.
pub(super) fn placed(placement: &str, resolved: &str) -> String {
    if resolved.is_empty() || placement == resolved {
        placement.into()
    } else {
        format!("{placement} ({resolved})")
    }
}

fn table(group: &RunGroup<'_>) -> Markup {
    let others = group.runs.iter().any(|run| run.record.tasks.len() > 1);
    let rate = group.quantity == Some(BenchMetric::Bandwidth)
        && group.runs.iter().any(|run| operations(run).is_some());
    if group.quantity.is_none() {
        return missing("These runs gave no figure.");
    }
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for key in &group.keys { th { (key.name) } }
                        @if group.keys.is_empty() { th { "run" } }
                        th.n {
                            (group.quantity.map_or("figure", BenchMetric::name))
                            span.sub { "median [min..max]" }
                        }
                        th {}
                        th.n { "repeats" } th.n { "spread" span.sub { "of the median" } }
                        @if rate { th.n { "operations" } }
                        @if others { th { "other tasks" } }
                        th { "verdict" } th { "run id" } th { "remarks" }
                    }
                }
                tbody { @for run in &group.runs { (row(group, run, rate, others)) } }
            }
        }
    }
}

fn operations(run: &GroupedRun<'_>) -> Option<String> {
    let task = run.record.tasks.first()?;
    Some(BenchMetric::Operations.text(task.operations_per_s.as_ref()?.median))
}

fn row(group: &RunGroup<'_>, run: &GroupedRun<'_>, rate: bool, others: bool) -> Markup {
    let record = run.record;
    let figure = Figure::of_run(record);
    html! {
        tr class=(if record.valid { "" } else { "invalid" }) {
            @for (key, value) in group.keys.iter().zip(&run.at) { th { (key.label(*value)) } }
            @if group.keys.is_empty() { th { (group.workload) } }
            @if let Some(figure) = figure {
                td.n { span.figure { (figure.quantity.spread(figure.spread)) } }
                td { (tag(record.provenance)) }
                td.n { (figure.spread.values.len()) }
                td.n { @if figure.spread.values.len() > 1 && figure.spread.median > 0.0 { (words::share(figure.spread.relative_range())) } @else { span.note { "not known" } } }
            } @else { td { "no figure" } td {} td {} td {} }
            @if rate { td.n { (operations(run).unwrap_or_default()) } }
            @if others { td { (other_tasks(record)) } }
            td { (verdict(record)) }
            td { code.id { (record.run_id) } }
            td.remarks { @for remark in &record.remarks { div { (remark.text) } } }
        }
    }
}

fn other_tasks(record: &BenchRecord) -> Markup {
    html! {
        @for task in record.tasks.iter().skip(1) {
            div {
                (task.name) ": "
                @if let Some(figure) = Figure::of(task) { (figure.quantity.spread(figure.spread)) } @else { "no figure" }
                @if let Some(asked) = task.rate_gbps {
                    span.sub { "asked for " (BenchMetric::Bandwidth.text(asked)) }
                }
            }
        }
    }
}

/// Whether the figures of a run may be used.
pub(super) fn verdict(record: &BenchRecord) -> Markup {
    html! {
        @if !record.valid { span.flag.invalid { "invalid" } }
        @else if !record.remarks.is_empty() { span.flag.doubtful { "valid, see remarks" } }
        @else { "valid" }
    }
}
