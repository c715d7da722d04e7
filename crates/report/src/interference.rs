//! Queries on several hosts: how long they take alone, and with all hosts at once.

use crate::section::tag;
use crate::words;
use maud::{Markup, html};
use tierloom_record::findings::of_interference;
use tierloom_record::{
    AuditRecord, HostInCase, HostRun, Interference, InterferenceCase, InterferenceRecord,
    QueryOnHost, Spread,
};

/// All records as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[InterferenceRecord], alone: bool) -> Markup {
    html! {
        article #i {
            @if !alone { h2 { (title_of(records)) } }
            ul { @for finding in of_interference(records) { li { (finding) } } }
            p.note {
                "Times are median, least and most of the repetitions, in ms. Each host is timed alone, then while the other hosts run the same queries over and over from an agreed start on. A difference is beyond the spread if no repetition of one side is as fast, or as slow, as any of the other."
            }
            @for record in records {
                @for case in &record.cases { (queries(record, case)) (runs(case)) }
            }
        }
    }
}

/// The title of a report on hosts at once.
pub(crate) fn title_of(records: &[InterferenceRecord]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for host in records.iter().flat_map(|record| &record.hosts) {
        if !names.contains(&host.name.as_str()) {
            names.push(&host.name);
        }
    }
    format!("Interference of the hosts {}", words::list(&names))
}

/// The queries of one case, one row per query and host.
fn queries(record: &InterferenceRecord, case: &InterferenceCase) -> Markup {
    html! {
        h3 { (record.workload) " " (record.scale_factor) ", " (case.case) }
        div.scroll {
            table {
                thead { tr {
                    th { "host" } th { "query" } th.n { "alone" } th.n { "together" }
                    th.n { "together / alone" } th { "beyond the spread" }
                    th { "answer" } th {}
                } }
                tbody {
                    @for host in &case.hosts {
                        @for query in &host.queries { (query_row(record, host, query)) }
                    }
                }
            }
        }
    }
}

fn query_row(record: &InterferenceRecord, host: &HostInCase, query: &QueryOnHost) -> Markup {
    let verdict = match query.interference() {
        Interference::Slower => "slower",
        Interference::Faster => "faster",
        Interference::WithinSpread => "no",
        Interference::TooFew => "too few repetitions",
    };
    let ratio = &query.ratio;
    html! {
        tr {
            td { (host.host) }
            td { (query.query) }
            td.n { (shown(&query.alone_ms)) }
            td.n { (shown(&query.together_ms)) }
            td.n { (format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.min, ratio.max)) }
            td { (verdict) }
            td { (query.answer.rows) " rows; " (query.answer.check) }
            td { (tag(record.provenance)) }
        }
    }
}

/// Placements, starts and page audits of one case, one row per host, alone and together.
fn runs(case: &InterferenceCase) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr {
                    th { "host" } th { "tables" } th { "with" }
                    th.n { "late, µs" } th.n { "clock ±, µs" }
                    th { "pages requested" } th { "pages before" } th { "pages after" }
                } }
                tbody {
                    @for host in &case.hosts {
                        @for run in [&host.alone, &host.together] { (run_row(host, run)) }
                    }
                }
            }
        }
    }
}

fn run_row(host: &HostInCase, run: &HostRun) -> Markup {
    let us = |ns: u64| format!("{:.0}", ns as f64 / 1e3);
    let with: Vec<String> = run
        .beside
        .iter()
        .map(|other| format!("{} ({} queries)", other.host, other.executions))
        .collect();
    let pages = |audit: &Option<AuditRecord>, shares: fn(&AuditRecord) -> String| {
        audit.as_ref().map_or("not reported".to_owned(), shares)
    };
    html! {
        tr {
            td { (host.host) }
            td { (host.placement) @if let Some(pool) = &host.pool { " " (pool) } }
            td { @if with.is_empty() { "nobody" } @else { (with.join(", ")) } }
            td.n { (us(run.late_ns)) }
            td.n { (us(run.clock_uncertainty_ns)) }
            td { (pages(&run.audit_before, |audit| nodes(&audit.requested))) }
            td { (pages(&run.audit_before, |audit| nodes(&audit.actual))) }
            td { (pages(&run.audit_after, |audit| nodes(&audit.actual))) }
        }
    }
}

fn nodes(shares: &[tierloom_record::NodeShare]) -> String {
    let of = |share: &tierloom_record::NodeShare| {
        format!("node {}: {:.1}%", share.node, share.share * 100.0)
    };
    let all: Vec<String> = shares.iter().map(of).collect();
    all.join(", ")
}

fn shown(spread: &Spread) -> String {
    format!(
        "{:.2} ({:.2} to {:.2})",
        spread.median, spread.min, spread.max
    )
}
