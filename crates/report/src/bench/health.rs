//! Overheads of the measurement, results of the data check, and hardware counters.

use super::figure::BenchMetric;
use super::summary::folded;
use super::view::{GroupedRun, RunGroup};
use crate::section::missing;
use crate::words;
use maud::{Markup, html};
use tierloom_record::{BenchRecord, CounterRecord, Spread, TaskRecord};

pub(super) fn section(records: &[BenchRecord], groups: &[RunGroup<'_>]) -> Markup {
    html! {
        section #b-health {
            h2 { "Overheads, data check and counters" }
            h3 { "What measuring costs" }
            (overheads(groups))
            h3 { "Data check" }
            (data_check(records))
            @let repeated: Vec<&BenchRecord> = records.iter().filter(|r| r.stability.is_some()).collect();
            @if !repeated.is_empty() { h3 { "Repeating until stable" } (folded(repeated.len(), stability(&repeated))) }
            h3 { "Hardware counters" }
            (counters(groups))
        }
    }
}

fn tasks<'a>(group: &'a RunGroup<'a>) -> impl Iterator<Item = &'a TaskRecord> {
    group.runs.iter().flat_map(|run| &run.record.tasks)
}

fn overheads(groups: &[RunGroup<'_>]) -> Markup {
    let spread = |values: Vec<f64>| Spread::of(values);
    let ns = |s: Option<Spread>| match s {
        Some(s) => BenchMetric::Latency.spread(&s),
        None => "not used".into(),
    };
    html! {
        p.note { "Over all tasks of a workload: median, and in brackets the smallest and the largest. The cost per batch is that of the framework with an empty kernel; the cost of taking a time is subtracted from every sample." }
        div.scroll {
            table {
                thead { tr { th { "workload" } th.n { "framework, per batch" } th.n { "taking a time, per sample" } th.n { "making the memory, per task" } th.n { "whole run" } } }
                tbody {
                    @for group in groups {
                        @let batch = spread(tasks(group).filter_map(|t| t.overhead_per_batch_ns).collect());
                        @let timer = spread(tasks(group).filter_map(|t| Some(t.latency.as_ref()?.timer_overhead_ns)).collect());
                        @let prepare = spread(tasks(group).map(|t| t.prepare_s * 1e9).collect());
                        @let whole = spread(group.runs.iter().map(|r| r.record.elapsed_s * 1e9).collect());
                        tr {
                            th { (group.title()) }
                            td.n { (ns(batch)) } td.n { (ns(timer)) } td.n { (ns(prepare)) } td.n { (ns(whole)) }
                        }
                    }
                }
            }
        }
    }
}

fn data_check(records: &[BenchRecord]) -> Markup {
    let mut checks: Vec<(&str, usize)> = Vec::new();
    let mut unchecked = 0;
    for task in records.iter().flat_map(|r| &r.tasks) {
        let Some(text) = task.data_check.as_deref() else {
            unchecked += 1;
            continue;
        };
        match checks.iter_mut().find(|(known, _)| *known == text) {
            Some((_, times)) => *times += 1,
            None => checks.push((text, 1)),
        }
    }
    html! {
        ul {
            @for (text, times) in &checks { li { (text) " (" (times) " " (if *times == 1 { "task" } else { "tasks" }) ")" } }
            @if unchecked > 0 { li { "not checked (" (unchecked) " " (if unchecked == 1 { "task" } else { "tasks" }) ")" } }
        }
    }
}

fn stability(records: &[&BenchRecord]) -> Markup {
    html! {
        p.note { "Half width of the 95% confidence interval of the median, over the median." }
        div.scroll {
            table {
                thead { tr { th { "workload" } th { "run" } th.n { "asked for" } th.n { "reached" } th.n { "repeats" } th { "verdict" } } }
                tbody {
                    @for record in records {
                        @if let Some(s) = record.stability {
                            tr {
                                th { (record.workload) } td { code { (record.run_id) } }
                                td.n { (words::exact_share(s.asked_relative_half_width)) } td.n { (words::exact_share(s.reached_relative_half_width)) }
                                td.n { (s.repeats) }
                                td { @if s.stable { "stable" } @else { span.flag.doubtful { "not stable" } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The values of counters per run, and why others are unavailable.
fn counters(groups: &[RunGroup<'_>]) -> Markup {
    let mut missing_ones: Vec<(String, Vec<&str>)> = Vec::new();
    let all = groups
        .iter()
        .flat_map(|g| &g.runs)
        .flat_map(|r| &r.record.tasks);
    let mut any = false;
    for counter in all.flat_map(|t| &t.counters) {
        any = true;
        if counter.value.is_some() {
            continue;
        }
        let why = counter
            .note
            .clone()
            .unwrap_or_else(|| "no reason was recorded".into());
        match missing_ones.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) if names.contains(&counter.name.as_str()) => {}
            Some((_, names)) => names.push(&counter.name),
            None => missing_ones.push((why, vec![&counter.name])),
        }
    }
    html! {
        @if !any { (missing("No counter was read.")) }
        @if !missing_ones.is_empty() {
            p { "Unavailable:" }
            ul { @for (why, names) in &missing_ones { li { (words::list(names)) ": " (why) } } }
        }
        @for group in groups { (counter_table(group)) }
    }
}

fn counter_table(group: &RunGroup<'_>) -> Markup {
    let mut columns: Vec<(&str, &str)> = Vec::new();
    let known = || {
        tasks(group)
            .flat_map(|t| &t.counters)
            .filter(|c| c.value.is_some())
    };
    for counter in known() {
        // A counter may have different units on different machines: each is a column.
        let column = (counter.name.as_str(), counter.unit.as_str());
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let mut notes: Vec<(&str, &str)> = known()
        .filter_map(|c| Some((c.name.as_str(), c.note.as_deref()?)))
        .collect();
    notes.sort_unstable();
    notes.dedup();
    let rows: Vec<(&GroupedRun<'_>, &TaskRecord)> = group
        .runs
        .iter()
        .flat_map(|run| run.record.tasks.iter().map(move |task| (run, task)))
        .filter(|(_, task)| task.counters.iter().any(|c| c.value.is_some()))
        .collect();
    html! {
        @if !rows.is_empty() {
            h4 { (group.title()) ", all timed repetitions" }
            (folded(rows.len(), html! {
                div.scroll {
                    table {
                        thead { tr { th { "run" } th { "task" } @for (name, unit) in &columns { th.n { (name) @if !unit.is_empty() && *unit != "1" { span.sub { (unit) } } } } } }
                        tbody {
                            @for (run, task) in &rows {
                                tr {
                                    th { (group.name_of(run)) } td { (task.name) }
                                    @for column in &columns { td.n { (value(&task.counters, column)) } }
                                }
                            }
                        }
                    }
                }
            }))
            @for (name, note) in &notes { p.note { (name) ": " (note) } }
        }
    }
}

fn value(counters: &[CounterRecord], (name, unit): &(&str, &str)) -> String {
    let found = counters.iter().find(|c| c.name == *name && c.unit == *unit);
    match found.and_then(|c| c.value) {
        Some(value) => words::ms(value),
        None => "not read".into(),
    }
}
