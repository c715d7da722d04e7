//! Command lines and resolved plans of benchmarks: what is needed to repeat them.

use crate::section::command_line;
use crate::words;
use maud::{Markup, html};
use tierloom_record::BenchRecord;

/// Number of plans that are shown; the raw records contain all of them.
const MOST_PLANS: usize = 12;

/// The sessions, and one resolved plan per workload.
pub(super) fn section(records: &[BenchRecord]) -> Markup {
    let mut sessions: Vec<(&BenchRecord, usize)> = Vec::new();
    for record in records {
        match sessions
            .iter_mut()
            .find(|(first, _)| first.session_id == record.session_id)
        {
            Some((_, runs)) => *runs += 1,
            None => sessions.push((record, 1)),
        }
    }
    let mut plans: Vec<&BenchRecord> = Vec::new();
    for record in records {
        if !plans
            .iter()
            .any(|p| (&p.workload, &p.file) == (&record.workload, &record.file))
        {
            plans.push(record);
        }
    }
    html! {
        section #b-settings {
            h2 { "Settings" }
            @for (first, runs) in &sessions { (session(first, *runs)) }
            h3 { "Resolved plans" }
            p.note {
                "The first run of each workload as it was resolved. The raw records hold the plan of every run; saved as a file, a plan runs again with "
                code { "tierloom bench --plan FILE" } "."
            }
            @for record in plans.iter().take(MOST_PLANS) {
                details { summary { (record.workload) ", run " (record.run_id) (place(record)) } pre { (pretty(record)) } }
            }
            @if plans.len() > MOST_PLANS { p.note { (plans.len() - MOST_PLANS) " more workloads: see the raw records." } }
        }
    }
}

fn session(first: &BenchRecord, runs: usize) -> Markup {
    html! {
        h3 { "Session " (first.session_id) }
        p { code { (command_line(&first.command)) } }
        dl {
            dt { "runs" } dd { (words::count(runs as u64)) }
            dt { "first started" } dd { (first.started_at) }
            dt { "Tierloom" } dd { (first.tool_version) ", commit " (first.commit.as_deref().unwrap_or("not known")) ", " (first.build) " build" }
            dt { "record schema" } dd { (first.schema) }
        }
    }
}

fn place(record: &BenchRecord) -> String {
    match (record.file.as_str(), record.line) {
        ("", _) => String::new(),
        (file, 0) => format!(", {file}"),
        (file, line) => format!(", {file}:{line}"),
    }
}

fn pretty(record: &BenchRecord) -> String {
    // Serializing a JSON value cannot fail in practice; the compact form is a substitute.
    serde_json::to_string_pretty(&record.plan).unwrap_or_else(|_| record.plan.to_string())
}
