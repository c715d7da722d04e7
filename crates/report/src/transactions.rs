//! Transactions on placed parts: rates, times and waits by placement.

use crate::section::tag;
use crate::words;
use maud::{Markup, html};
use tierloom_record::findings::of_transactions;
use tierloom_record::{TierTraffic, TransactionKind, TransactionsRecord};

/// All runs as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[TransactionsRecord], alone: bool) -> Markup {
    html! {
        article #x {
            @if !alone { h2 { (title_of(records)) } }
            ul { @for finding in of_transactions(records) { li { (finding) } } }
            p.note {
                "Transactions that committed, per second. The traffic of measured rows is what transactions accessed, before caches; that of modelled rows is the traffic of the machine's memory. Waits are shares of the time from the first try to the end."
            }
            div.scroll {
                table {
                    thead { tr {
                        th { "workload" } th { "machine" } th { "placement" } th { "kind" }
                        th.n { "per second" } th.n { "p50, µs" } th.n { "p99, µs" }
                        th.n { "conflicts" } th.n { "waiting" } th { "traffic" } th {}
                    } }
                    tbody { @for record in records { (rows(record)) } }
                }
            }
        }
    }
}

/// The title of a report on transactions.
pub(crate) fn title_of(records: &[TransactionsRecord]) -> String {
    let mut placements: Vec<&str> = Vec::new();
    for record in records {
        if !placements.contains(&record.placement.as_str()) {
            placements.push(&record.placement);
        }
    }
    format!("Transactions in {}", words::list(&placements))
}

fn rows(record: &TransactionsRecord) -> Markup {
    let traffic: Vec<String> = record.tiers.iter().map(traffic).collect();
    html! {
        tr {
            td { (record.workload) " " (record.scale) }
            td { (record.machine) }
            td { (record.placement) }
            td { "all" }
            td.n { (format!("{:.0}", record.transactions_per_s)) }
            td.n {} td.n {} td.n {} td.n {}
            td { (record.invalid.as_ref().map_or(traffic.join(", "), |why| format!("invalid: {why}"))) }
            td { (tag(record.provenance)) }
        }
        @for kind in &record.kinds { (kind_row(kind)) }
    }
}

fn kind_row(kind: &TransactionKind) -> Markup {
    let waiting = kind.retry_share + kind.lock_share + kind.room_share + kind.log_share;
    html! {
        tr {
            td {} td {} td {}
            td { (kind.name) }
            td.n { (format!("{:.0}", kind.commits_per_s)) }
            td.n { (format!("{:.1}", kind.p50_us)) }
            td.n { (format!("{:.1}", kind.p99_us)) }
            td.n { (kind.conflicts) }
            td.n { (format!("{:.1}%", waiting * 100.0)) }
            td {} td {}
        }
    }
}

fn traffic(of: &TierTraffic) -> String {
    format!("{}: {:.2} GB/s", of.tier, of.bandwidth_gbps)
}
