//! Runs as text: the answer first, then tables.

use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;
use tierloom_record::findings::{of_transactions, ratio_with_range, streams_of};
use tierloom_record::{
    CheckpointsRecord, MergingRecord, NodeShare, StorePartRecord, TierTraffic, TransactionKind,
    TransactionsRecord,
};
use tierloom_text::Bytes;

/// The findings and the tables of all runs.
pub fn tables(records: &[TransactionsRecord]) -> String {
    let mut text = String::new();
    for sentence in of_transactions(records) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{sentence}");
    }
    let _ = writeln!(text, "\n{}", rates(records));
    if records.iter().any(|record| record.merging.is_some()) {
        let _ = writeln!(
            text,
            "merging new versions back to main:\n{}",
            merging(records)
        );
    }
    if records.iter().any(|record| record.beside.is_some()) {
        let _ = writeln!(text, "with streams of queries:\n{}", beside(records));
    }
    for record in records.iter().filter(|record| !record.kinds.is_empty()) {
        let place = &record.placement;
        let _ = writeln!(
            text,
            "\n{} in {place}, measured:\n{}",
            record.workload,
            kinds(&record.kinds)
        );
        if let Some(log) = &record.log {
            let commits: u64 = record.kinds.iter().map(|kind| kind.commits).sum();
            let _ = writeln!(
                text,
                "redo log: {} in {} writes, each flushed; {:.1} commits each",
                Bytes(log.size_bytes).rounded(),
                log.writes,
                commits as f64 / log.writes.max(1) as f64
            );
        }
        if let Some(checkpoints) = &record.checkpoints {
            let _ = writeln!(text, "{}", checkpoints_line(checkpoints));
        }
        if let Some(beside) = &record.beside {
            let _ = writeln!(
                text,
                "beside {}:\n{}",
                streams_of(beside),
                kinds(&beside.kinds)
            );
        }
        for part in &record.parts {
            let _ = writeln!(text, "{}", audit(part));
        }
    }
    text
}

fn checkpoints_line(of: &CheckpointsRecord) -> String {
    if of.taken == 0 {
        return "checkpoints: none in this time".to_owned();
    }
    format!(
        "checkpoints: {} of {}, {:.2} s each; {:.0} logged transactions/s beside them, {:.0} otherwise",
        of.taken,
        Bytes(of.size_bytes).rounded(),
        of.mean_s,
        of.beside_per_s,
        of.otherwise_per_s
    )
}

fn table<const N: usize>(header: [&str; N], first_number: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(header);
    for column in table.column_iter_mut().skip(first_number) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn rates(records: &[TransactionsRecord]) -> Table {
    let mut table = table(
        [
            "machine",
            "placement",
            "clients",
            "transactions/s",
            "traffic",
        ],
        2,
    );
    for record in records {
        let traffic: Vec<String> = record.tiers.iter().filter_map(traffic).collect();
        table.add_row([
            format!("{} ({})", record.machine, record.provenance),
            record.placement.clone(),
            record.clients.to_string(),
            match &record.invalid {
                Some(_) => "invalid".to_owned(),
                None => format!("{:.0}", record.transactions_per_s),
            },
            traffic.join(", "),
        ]);
    }
    table
}

/// What bringing rows back to main takes, by placement, alone and beside streams.
fn merging(records: &[TransactionsRecord]) -> Table {
    let header = [
        "machine",
        "placement",
        "beside",
        "rows",
        "ns per row",
        "bytes per row",
        "of a thread",
    ];
    let mut table = table(header, 3);
    let mut row = |record: &TransactionsRecord, beside: &str, merging: &MergingRecord| {
        table.add_row([
            format!("{} ({})", record.machine, record.provenance),
            record.placement.clone(),
            beside.to_owned(),
            merging.rows.to_string(),
            format!("{:.0}", merging.ns_per_row),
            format!("{:.0}", merging.bytes_per_row),
            format!("{:.1}%", merging.thread_share * 100.0),
        ]);
    };
    for record in records {
        if let Some(merging) = &record.merging {
            row(record, "-", merging);
        }
        let beside = record.beside.as_ref();
        if let Some((beside, merging)) = beside.and_then(|b| Some((b, b.merging.as_ref()?))) {
            row(record, &beside.workload, merging);
        }
    }
    table
}

/// Transactions and streams alone and together: medians of the rounds, ratios with their range.
fn beside(records: &[TransactionsRecord]) -> Table {
    let header = [
        "machine",
        "placement",
        "tables",
        "transactions/s alone",
        "together",
        "ratio",
        "queries/h alone",
        "together",
        "ratio",
        "traffic",
    ];
    let mut table = table(header, 3);
    for record in records {
        let Some(of) = &record.beside else { continue };
        let traffic: Vec<String> = of.tiers.iter().filter_map(traffic).collect();
        table.add_row([
            format!("{} ({})", record.machine, record.provenance),
            record.placement.clone(),
            of.placement.clone(),
            format!("{:.0}", of.transactions_alone_per_s.median),
            format!("{:.0}", of.transactions_beside_per_s.median),
            ratio_with_range(&of.transactions_ratio),
            format!("{:.0}", of.queries_alone_per_hour.median),
            format!("{:.0}", of.queries_beside_per_hour.median),
            ratio_with_range(&of.queries_ratio),
            traffic.join(", "),
        ]);
    }
    table
}

/// What a tier carries; nothing for one that carries nothing.
fn traffic(of: &TierTraffic) -> Option<String> {
    let what = match of.utilisation {
        Some(_) => "",
        None => " accessed",
    };
    let (tier, gbps) = (&of.tier, of.bandwidth_gbps);
    (gbps > 0.0).then(|| format!("{tier}: {gbps:.2} GB/s{what}"))
}

fn kinds(kinds: &[TransactionKind]) -> Table {
    let header = [
        "kind",
        "per second",
        "p50 µs",
        "p99 µs",
        "rolled back",
        "conflicts",
        "retrying",
        "locks",
        "room",
        "log",
    ];
    let mut table = table(header, 1);
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    for kind in kinds {
        table.add_row([
            kind.name.clone(),
            format!("{:.0}", kind.commits_per_s),
            format!("{:.1}", kind.p50_us),
            format!("{:.1}", kind.p99_us),
            kind.rollbacks.to_string(),
            kind.conflicts.to_string(),
            percent(kind.retry_share),
            percent(kind.lock_share),
            percent(kind.room_share),
            percent(kind.log_share),
        ]);
    }
    table
}

fn audit(part: &StorePartRecord) -> String {
    let shares = |shares: &[NodeShare]| {
        let node = |share: &NodeShare| format!("node {} {:.1}%", share.node, share.share * 100.0);
        shares.iter().map(node).collect::<Vec<_>>().join(", ")
    };
    let pages = part
        .audit_after
        .as_ref()
        .map_or_else(String::new, |audit| shares(&audit.actual));
    format!(
        "{} ({}, {}): pages on {pages}; {} accessed",
        part.part,
        part.placement,
        Bytes(part.region_bytes).rounded(),
        Bytes(part.accessed_bytes).rounded()
    )
}
