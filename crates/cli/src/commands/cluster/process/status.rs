//! What `cluster status` prints.

use std::fmt::Write;
use tierloom_cluster::{ClusterMap, Layout, ShuffleReport};
use tierloom_text::Bytes;

/// Where the rows of a table are, as text.
pub(super) fn layout(map: &ClusterMap, name: &str) -> String {
    match map.tables.get(name).map(|table| &table.layout) {
        Some(Layout::Sharded { by, holders }) => {
            let copies = holders.first().map_or(0, Vec::len);
            format!("{} shards by {by} on {copies} nodes each", holders.len())
        }
        _ => "on every node".into(),
    }
}

/// Nodes, tables and shuffles, a line each.
pub(super) fn described(map: &ClusterMap) -> String {
    let mut text = String::new();
    // Writing to a text does not fail.
    for (name, state) in &map.nodes {
        let _ = match state.alive {
            true => writeln!(text, "node {name}: {} threads", state.threads),
            false => writeln!(
                text,
                "node {name}: no report for {} s",
                state.silent_ms / 1000
            ),
        };
        for (table, held) in &state.tables {
            let rows: u64 = held.rows.values().sum();
            let size = Bytes(held.size_bytes).rounded();
            let _ = match &held.error {
                Some(error) => writeln!(text, "  {table}: {error}"),
                None => writeln!(text, "  {table}: {rows} rows, {size}, {}", held.pages),
            };
        }
    }
    for (name, state) in &map.nodes {
        if let Some(shuffle) = &state.shuffle {
            let _ = writeln!(text, "shuffle of {name}: {}", shuffle_described(shuffle));
        }
    }
    for name in map.tables.keys() {
        let _ = match map.usable(name) {
            Ok((_, rows)) => writeln!(text, "table {name}: {rows} rows, {}", layout(map, name)),
            Err(why) => writeln!(text, "table {name}: {why}"),
        };
    }
    text
}

/// Where a node's files are, and what it has written to them.
fn shuffle_described(shuffle: &ShuffleReport) -> String {
    let size = |bytes: u64| Bytes(bytes).rounded();
    let mut text = format!("{}, ", shuffle.file_system);
    // Writing to a text does not fail.
    let _ = match shuffle.files {
        0 => write!(text, "nothing written yet"),
        1 => write!(text, "1 file of {}", size(shuffle.written_bytes)),
        files => write!(text, "{files} files of {}", size(shuffle.written_bytes)),
    };
    if shuffle.checked_bytes > 0 {
        let nodes = shuffle.on_nodes.iter();
        let nodes = nodes.map(|(node, bytes)| format!("{} on node {node}", size(*bytes)));
        let nodes: Vec<String> = nodes.collect();
        let _ = write!(
            text,
            "; pages of {} asked about: {}",
            size(shuffle.checked_bytes),
            nodes.join(", ")
        );
    }
    if shuffle.misplaced_bytes > 0 {
        let _ = write!(
            text,
            ", {} of them misplaced",
            size(shuffle.misplaced_bytes)
        );
    }
    if let Some(error) = &shuffle.error {
        let _ = write!(text, "; {error}");
    }
    text
}
