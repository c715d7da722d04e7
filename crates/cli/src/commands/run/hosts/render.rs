//! Queries on several hosts as text: the answer first, then a table per case and its page audits.

use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write as _;
use tierloom_record::findings::of_interference;
use tierloom_record::{
    HostInCase, HostRun, Interference, InterferenceCase, InterferenceRecord, NodeShare,
    QueryOnHost, Spread,
};

/// The whole record.
pub fn text(record: &InterferenceRecord) -> String {
    let mut text = String::new();
    for sentence in of_interference(std::slice::from_ref(record)) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{sentence}");
    }
    for case in &record.cases {
        let _ = writeln!(
            text,
            "\n{} {}, {}",
            record.workload, record.scale_factor, case.case
        );
        let _ = writeln!(
            text,
            "measured; median ms [min..max] of {} executions; {} build",
            record.repeat, record.build
        );
        let _ = writeln!(text, "{}", table(case));
        for host in &case.hosts {
            text.push_str(&runs(host));
        }
    }
    text
}

/// Queries as rows, host after host.
fn table(case: &InterferenceCase) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let header = [
        "host",
        "query",
        "alone",
        "together",
        "ratio",
        "beyond the spread",
    ];
    table.set_header(header);
    for host in &case.hosts {
        for query in &host.queries {
            table.add_row(row(host, query));
        }
    }
    for column in 2..5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(host: &HostInCase, query: &QueryOnHost) -> [String; 6] {
    let ratio = &query.ratio;
    let verdict = match query.interference() {
        Interference::Slower => "slower",
        Interference::Faster => "faster",
        Interference::WithinSpread => "no",
        Interference::TooFew => "too few repetitions",
    };
    [
        host.host.clone(),
        query.query.clone(),
        shown(&query.alone_ms),
        shown(&query.together_ms),
        format!("{:.2}x [{:.2}..{:.2}]", ratio.median, ratio.min, ratio.max),
        verdict.to_owned(),
    ]
}

fn shown(time: &Spread) -> String {
    format!("{:.2} [{:.2}..{:.2}]", time.median, time.min, time.max)
}

/// Start, company and pages of one host, alone and together.
fn runs(host: &HostInCase) -> String {
    let mut text = String::new();
    for run in [&host.alone, &host.together] {
        let _ = writeln!(text, "{}: {}", host.host, company(run));
        if let Some(audit) = &run.audit_after {
            let _ = writeln!(
                text,
                "  page audit: requested {}; actual {} ({} pages checked)",
                shares(&audit.requested),
                shares(&audit.actual),
                audit.pages_checked
            );
        }
    }
    text
}

fn company(run: &HostRun) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    let mut text = match run.beside.is_empty() {
        true => "alone".to_owned(),
        false => "beside ".to_owned(),
    };
    let others: Vec<String> = run
        .beside
        .iter()
        .map(|other| {
            format!(
                "{}, which finished {} queries",
                other.host, other.executions
            )
        })
        .collect();
    text.push_str(&others.join(" and "));
    let apart = run.beside.iter().map(|other| {
        us(other.clock_uncertainty_ns + run.clock_uncertainty_ns)
            + us(other.late_ns.max(run.late_ns))
    });
    let apart = apart.fold(0.0, f64::max);
    let _ = match run.beside.is_empty() {
        true => write!(text, ", for {:.2} s", run.elapsed_s),
        false => write!(
            text,
            ", for {:.2} s; starts at most {apart:.0} µs apart",
            run.elapsed_s
        ),
    };
    text
}

fn shares(shares: &[NodeShare]) -> String {
    let of = |share: &NodeShare| format!("node {} {:.2}%", share.node, share.share * 100.0);
    let all: Vec<String> = shares.iter().map(of).collect();
    all.join(", ")
}
