//! A state of a server as text for a terminal, in the words of the page.

use crate::{SessionUse, Snapshot, TableUse, TrafficUse};
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;
use tierloom_text::Bytes;

/// Tables that are shown, those that take most.
const MOST_TABLES: usize = 12;

/// Decisions that are shown, the latest.
const MOST_DECISIONS: usize = 8;

/// Characters of a statement that are shown.
const MOST_OF_STATEMENT: usize = 70;

/// The state `now`; rates since `before`.
pub fn screen(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let mut text = headline(now, before);
    let mut part = |title: &str, table: Option<Table>| {
        if let Some(table) = table {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{title}\n{table}\n");
        }
    };
    part("nodes", Some(nodes(now)));
    part("memory traffic", Some(traffic(now, before)));
    part("operator memory", classes(now));
    part("clients", sessions(now));
    part("tables", tables(now, before));
    part("decisions of adaptive placement", decisions(now));
    text
}

fn headline(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let ended = |snapshot: &Snapshot, end: &str| -> u64 {
        let counts = snapshot.statements.iter().filter(|count| count.end == end);
        counts.map(|count| count.count).sum()
    };
    let rate = before.and_then(|before| {
        let done = ended(now, "done").checked_sub(ended(before, "done"))?;
        Some(format!(
            ", {:.1} a second",
            done as f64 / seconds_between(before, now)?
        ))
    });
    format!(
        "tierloom {}, up for {}: {} running, {} waiting, {} clients; {} answered{}, {} failed, {} stopped\n",
        now.version,
        time(now.uptime_seconds),
        now.running,
        now.waiting,
        now.sessions.as_ref().map_or(0, Vec::len),
        ended(now, "done"),
        rate.unwrap_or_default(),
        ended(now, "failed"),
        ended(now, "stopped"),
    )
}

fn seconds_between(before: &Snapshot, now: &Snapshot) -> Option<f64> {
    let seconds = now.at_seconds - before.at_seconds;
    // A server that was started again counts from zero.
    (seconds > 0.0 && now.uptime_seconds > before.uptime_seconds).then_some(seconds)
}

/// An empty table whose columns with these numbers have numbers.
fn table<const N: usize>(header: [&str; N], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(header);
    for number in numbers {
        if let Some(column) = table.column_mut(*number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn size(bytes: u64) -> String {
    Bytes(bytes).rounded()
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 3600.0 => format!(
            "{:.0} h {:.0} min",
            (s / 3600.0).floor(),
            (s % 3600.0) / 60.0
        ),
        s if s >= 60.0 => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
        s => format!("{s:.1} s"),
    }
}

fn nodes(now: &Snapshot) -> Table {
    let header = ["node", "tier", "memory", "free", "columns"];
    let mut table = table(header, &[0, 2, 3, 4]);
    for node in &now.nodes {
        table.add_row([
            node.node.to_string(),
            node.tier.clone().unwrap_or_else(|| "none".to_owned()),
            size(node.size_bytes),
            node.free_bytes.map_or_else(|| "not known".to_owned(), size),
            size(node.columns_bytes),
        ]);
    }
    table
}

/// Traffic of each socket and device; one that cannot be counted says why.
fn traffic(now: &Snapshot, before: Option<&Snapshot>) -> Table {
    let header = ["place", "direction", "now", "since the start", ""];
    let mut table = table(header, &[2, 3]);
    for used in &now.traffic {
        let missing = || format!("not available: {}", used.missing.as_deref().unwrap_or(""));
        table.add_row([
            printable(&used.place),
            used.direction.clone(),
            flow(used, before, now).unwrap_or_default(),
            used.bytes.map_or_else(String::new, |b| size(b as u64)),
            used.bytes.map_or_else(missing, |_| String::new()),
        ]);
    }
    if now.traffic.is_empty() {
        table.add_row(["not counted"]);
    }
    table
}

/// Bytes per second between the two states.
fn flow(used: &TrafficUse, before: Option<&Snapshot>, now: &Snapshot) -> Option<String> {
    let before = before?;
    let same = |last: &&TrafficUse| last.place == used.place && last.direction == used.direction;
    let bytes = used.bytes? - before.traffic.iter().find(same)?.bytes?;
    let rate = bytes.max(0.0) / seconds_between(before, now)?;
    Some(format!("{}/s", size(rate.round() as u64)))
}

fn classes(now: &Snapshot) -> Option<Table> {
    let header = [
        "class",
        "place",
        "in use",
        "most",
        "limit",
        "from another place",
        "refused",
    ];
    let mut table = table(header, &[2, 3, 4, 5]);
    for class in &now.classes {
        table.add_row([
            class.class.clone(),
            class.place.clone(),
            size(class.current_bytes),
            size(class.peak_bytes),
            class.limit_bytes.map_or_else(String::new, size),
            class.fallbacks.to_string(),
            class.refused.clone().unwrap_or_default(),
        ]);
    }
    (!now.classes.is_empty()).then_some(table)
}

fn sessions(now: &Snapshot) -> Option<Table> {
    let sessions = now.sessions.as_ref().filter(|all| !all.is_empty())?;
    let header = [
        "client",
        "user",
        "application",
        "address",
        "runs for",
        "statement",
    ];
    let mut table = table(header, &[0, 4]);
    for session in sessions {
        table.add_row([
            session.pid.to_string(),
            printable(&session.user),
            printable(&session.application),
            printable(&session.address),
            session.running_seconds.map_or_else(String::new, time),
            statement(session),
        ]);
    }
    Some(table)
}

fn statement(session: &SessionUse) -> String {
    let text = match (&session.statement, session.running_seconds) {
        (Some(text), _) => text.as_str(),
        (None, Some(_)) => "(not shown without a token)",
        (None, None) => "",
    };
    let line = printable(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match line.char_indices().nth(MOST_OF_STATEMENT) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Without what would change the terminal: names and statements come from clients.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

fn tables(now: &Snapshot, before: Option<&Snapshot>) -> Option<Table> {
    let header = [
        "table",
        "rows",
        "size",
        "nodes",
        "misplaced",
        "read",
        "a second",
    ];
    let mut table = table(header, &[1, 2, 4, 5, 6]);
    let mut largest: Vec<&TableUse> = now.tables.iter().collect();
    largest.sort_by_key(|table| std::cmp::Reverse(table.size_bytes));
    for used in largest.iter().take(MOST_TABLES) {
        let nodes = used.nodes.iter();
        let nodes: Vec<String> = nodes
            .map(|n| format!("{}: {}", n.node, size(n.size_bytes)))
            .collect();
        table.add_row([
            printable(&used.table),
            used.rows.to_string(),
            size(used.size_bytes),
            nodes.join(", "),
            used.misplaced
                .map_or_else(String::new, |m| format!("{:.1}%", 100.0 * m)),
            size(used.read_bytes),
            read_rate(used, before, now).unwrap_or_default(),
        ]);
    }
    if largest.len() > MOST_TABLES {
        let more = format!("and {} more", largest.len() - MOST_TABLES);
        table.add_row([more]);
    }
    (!now.tables.is_empty()).then_some(table)
}

fn read_rate(used: &TableUse, before: Option<&Snapshot>, now: &Snapshot) -> Option<String> {
    let before = before?;
    let last = before.tables.iter().find(|last| last.table == used.table)?;
    let read = used.read_bytes.checked_sub(last.read_bytes)?;
    Some(size((read as f64 / seconds_between(before, now)?) as u64))
}

fn decisions(now: &Snapshot) -> Option<Table> {
    let all = now.decisions.as_ref().filter(|all| !all.is_empty())?;
    let header = [
        "run",
        "phase",
        "action",
        "placement",
        "modelled ms",
        "measured ms",
    ];
    let mut table = table(header, &[0, 4, 5]);
    for decision in all.iter().rev().take(MOST_DECISIONS) {
        let measured = decision.measured_ms;
        table.add_row([
            decision.run.to_string(),
            printable(&decision.phase),
            decision.action.clone(),
            decision.layout.clone(),
            format!("{:.2}", decision.expected_ms),
            measured.map_or_else(String::new, |ms| format!("{ms:.2}")),
        ]);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeUse, StatementCount};

    fn at(seconds: f64, done: u64, read_bytes: u64) -> Snapshot {
        Snapshot {
            version: "1".into(),
            at_seconds: seconds,
            uptime_seconds: seconds,
            nodes: vec![NodeUse {
                node: 0,
                tier: Some("dram".into()),
                size_bytes: 8 << 30,
                free_bytes: None,
                columns_bytes: 3 << 20,
            }],
            tables: vec![TableUse {
                table: "t\u{1b}[2J".into(),
                rows: 10,
                size_bytes: 4 << 20,
                read_bytes,
                nodes: Vec::new(),
                misplaced: Some(0.25),
            }],
            statements: vec![StatementCount {
                kind: "query".into(),
                end: "done".into(),
                count: done,
                seconds: 0.0,
            }],
            sessions: Some(vec![SessionUse {
                pid: 7,
                user: "ada".into(),
                application: String::new(),
                address: "local".into(),
                running_seconds: Some(61.0),
                statement: Some(format!("SELECT\n  {}", "x, ".repeat(60))),
            }]),
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_states() {
        let text = screen(&at(12.0, 30, 5 << 20), Some(&at(10.0, 20, 1 << 20)));
        assert!(text.contains("30 answered, 5.0 a second"), "{text}");
        assert!(text.contains("2 MiB"), "{text}");
        let first = screen(&at(12.0, 30, 5 << 20), None);
        assert!(!first.contains("a second,"), "{first}");
        // Started again: its counts are smaller and rates are not known.
        let again = screen(&at(13.0, 1, 0), Some(&at(12.0, 30, 1)));
        assert!(again.contains("1 answered, 0 failed"), "{again}");
    }

    #[test]
    fn what_clients_send_cannot_change_the_terminal() {
        let text = screen(&at(1.0, 0, 0), None);
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(
            text.contains("t?[2J") && text.contains("SELECT x, x,"),
            "{text}"
        );
        assert!(text.contains("...") && text.contains("1 min 1 s"), "{text}");
        assert!(
            text.contains("not known") && text.contains("25.0%"),
            "{text}"
        );
    }
}
