//! Formats the results of a run as tables for a terminal.

use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write as _;
use tierloom_record::findings::{RunFindings, conclude};
use tierloom_record::{
    AuditRecord, EngineKind, HERE, PlacementCard, Provenance, QueryRecord, REFERENCE, RunSet,
    SummaryRecord, ThroughputRecord,
};
use tierloom_suite::SuitePlan;
use tierloom_text::words::number;

/// A run as text: the answer in three sentences, the tables, and what else was found. Empty
/// without a summary: there is nothing to show.
pub fn tables(plan: &SuitePlan, set: &RunSet) -> String {
    let Some(summary) = &set.summary else {
        return String::new();
    };
    let found = conclude(set);
    let mut text = format!("{}\n\n", found.answer.join("\n"));
    if plan.streams.is_some() {
        if !set.throughputs.is_empty() {
            text.push_str(&throughput(plan, &set.throughputs));
        }
        text.push_str(&others(&found));
    } else {
        text.push_str(&latencies(plan, set, summary, &found));
    }
    text
}

/// Warnings, cautions and evidence, a sentence a line.
fn others(found: &RunFindings) -> String {
    let behind = found.warnings.iter().chain(&found.cautions);
    let lines = behind.chain(&found.evidence);
    lines.map(|sentence| format!("* {sentence}\n")).collect()
}

/// The tables of single queries: one per machine and engine, queries as rows and placements as
/// columns; then audits, findings and times.
fn latencies(
    plan: &SuitePlan,
    set: &RunSet,
    summary: &SummaryRecord,
    found: &RunFindings,
) -> String {
    let mut text = String::new();
    let machines = std::iter::once(HERE).chain(plan.machines.iter().map(|m| m.name.as_str()));
    for machine in machines {
        for engine in [EngineKind::Tierloom, EngineKind::Datafusion] {
            text.push_str(&machine_table(plan, machine, engine, set, summary).unwrap_or_default());
        }
    }
    text.push_str(&audit_lines(&summary.placements));
    text.push_str(&others(found));
    let times = &summary.times;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\ntime: {:.1} s in all; generating {:.2}, placing {:.2}, planning {:.3}, executing {:.2}, auditing {:.3}, probing {:.3}, modelling {:.3}, recording {:.3}",
        times.total_s,
        times.generate_s,
        times.place_s,
        times.plan_s,
        times.execute_s,
        times.audit_s,
        times.probe_s,
        times.model_s,
        times.record_s
    );
    text
}

fn machine_table(
    plan: &SuitePlan,
    machine: &str,
    engine: EngineKind,
    set: &RunSet,
    summary: &SummaryRecord,
) -> Option<String> {
    let of: Vec<&QueryRecord> = set
        .queries
        .iter()
        .filter(|r| r.machine == machine && r.engine == engine)
        .collect();
    let provenance = of.first()?.provenance;
    let placements: Vec<&str> = plan
        .placements
        .iter()
        .map(|p| p.text.as_str())
        .filter(|p| of.iter().any(|r| r.placement == *p))
        .collect();
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(
        std::iter::once("query".to_owned())
            .chain(placements.iter().map(|p| format!("{p}\n{provenance}"))),
    );
    for query in &plan.queries {
        let cells = placements.iter().map(|p| {
            of.iter()
                .find(|r| r.query == query.id && r.placement == *p)
                .map_or("-".into(), |r| cell(r))
        });
        table.add_row(std::iter::once(query.id.to_owned()).chain(cells));
    }
    let mean = |p: &&str| {
        let mean = summary
            .means
            .iter()
            .find(|m| m.machine == machine && m.engine == engine && m.placement == **p);
        mean.map_or("-".into(), |m| {
            format!(
                "{:.2} ms{}",
                m.geomean_ms,
                m.speedup_over_dram
                    .filter(|_| m.placement != REFERENCE)
                    .map(|s| format!("  {s:.2}x"))
                    .unwrap_or_default()
            )
        })
    };
    table.add_row(std::iter::once("geo mean".to_owned()).chain(placements.iter().map(mean)));
    for column in 1..=placements.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let title = plan
        .machines
        .iter()
        .find(|m| m.name == machine)
        .map_or_else(
            || format!("this machine, {engine}"),
            |m| {
                let scale_factor = number(set.scale_factor_on(machine));
                format!("{}, scale factor {scale_factor}: {}", m.name, m.title)
            },
        );
    let what = match provenance {
        Provenance::Measured => "measured; median ms [min..max]",
        Provenance::Modelled => {
            "modelled from the work measured here; ms and speed-up over dram [min..max of repeats]"
        }
    };
    Some(format!("{title}\n{what}\n{table}\n\n"))
}

fn cell(record: &QueryRecord) -> String {
    let speedup = record
        .speedup_over_dram
        .filter(|_| record.placement != REFERENCE)
        .map(|s| format!(" {s:.2}x"))
        .unwrap_or_default();
    let time = &record.time_ms;
    format!(
        "{:.2}{speedup} [{:.2}..{:.2}]",
        time.median, time.min, time.max
    )
}

fn audit_lines(placements: &[PlacementCard]) -> String {
    let mut text = String::new();
    for card in placements {
        let Some(audit) = card.audit_after.as_ref().or(card.audit_before.as_ref()) else {
            continue;
        };
        let shares = |shares: &[tierloom_record::NodeShare]| {
            shares
                .iter()
                .map(|s| format!("node {} {:.2}%", s.node, s.share * 100.0))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let AuditRecord {
            pages_checked,
            requested,
            effective,
            actual,
            ..
        } = audit;
        let _ = writeln!(
            text,
            "page audit {}: requested {}; effective {}; actual {} ({pages_checked} pages checked)",
            card.placement,
            shares(requested),
            shares(effective),
            shares(actual)
        );
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The table of streams.
fn throughput(plan: &SuitePlan, records: &[ThroughputRecord]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "placement",
        "engine",
        "queries",
        "queries/h",
        "per stream\nmedian [min..max]",
        "against dram",
    ]);
    for record in records {
        let dram = records
            .iter()
            .find(|r| r.placement == REFERENCE && r.engine == record.engine);
        let spread = &record.per_stream_queries_per_hour;
        table.add_row([
            record.placement.clone(),
            record.engine.to_string(),
            record.queries.to_string(),
            format!("{:.0}", record.queries_per_hour),
            format!(
                "{:.0} [{:.0}..{:.0}]",
                spread.median, spread.min, spread.max
            ),
            dram.map_or("-".into(), |d| {
                format!("{:.2}x", record.queries_per_hour / d.queries_per_hour)
            }),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let streams = records.first().map_or(0, |r| r.streams.len());
    format!(
        "{}: {streams} streams on {} threads, this machine\nmeasured; every answer was checked before where one is stored\n{table}\n",
        plan.workload.title(),
        plan.threads,
    )
}
