//! Nodes and tables as metrics for Prometheus, at the address of the scheduler.

use crate::map::ClusterMap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNode {
    node: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPart {
    node: String,
    table: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTable {
    table: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfMemory {
    node: String,
    memory_node: u32,
}

/// What is known of all nodes, in the text format of OpenMetrics.
///
/// # Errors
/// None that is known: it writes to a text.
pub(crate) fn exposition(map: &ClusterMap) -> Result<String, fmt::Error> {
    let alive = Family::<OfNode, Gauge>::default();
    let threads = Family::<OfNode, Gauge>::default();
    let rows = Family::<OfPart, Gauge>::default();
    let bytes = Family::<OfPart, Gauge>::default();
    let usable = Family::<OfTable, Gauge>::default();
    let shuffled = Family::<OfNode, Counter>::default();
    let found = Family::<OfMemory, Counter>::default();
    let misplaced = Family::<OfNode, Counter>::default();
    for (name, state) in &map.nodes {
        let node = OfNode { node: name.clone() };
        alive.get_or_create(&node).set(state.alive.into());
        threads.get_or_create(&node).set(state.threads as i64);
        if let Some(shuffle) = &state.shuffle {
            let add = |to: &Family<OfNode, Counter>, bytes| to.get_or_create(&node).inc_by(bytes);
            add(&shuffled, shuffle.written_bytes);
            add(&misplaced, shuffle.misplaced_bytes);
            for (memory_node, bytes) in &shuffle.on_nodes {
                let part = OfMemory {
                    node: name.clone(),
                    memory_node: *memory_node,
                };
                found.get_or_create(&part).inc_by(*bytes);
            }
        }
        for (table, held) in &state.tables {
            let part = OfPart {
                node: name.clone(),
                table: table.clone(),
            };
            let count: u64 = held.rows.values().sum();
            rows.get_or_create(&part).set(count as i64);
            bytes.get_or_create(&part).set(held.size_bytes as i64);
        }
    }
    for name in map.tables.keys() {
        let table = OfTable {
            table: name.clone(),
        };
        let all_there = map.usable(name).is_ok();
        usable.get_or_create(&table).set(all_there.into());
    }
    let mut registry = Registry::with_prefix("tierloom_cluster");
    registry.register("node_alive", "1 if the node has reported lately", alive);
    registry.register("node_threads", "Threads of the node's operators", threads);
    registry.register("table_rows", "Rows of a table that a node holds", rows);
    let help = "Memory of a table's columns on a node";
    registry.register_with_unit("table_memory", help, Unit::Bytes, bytes);
    registry.register(
        "table_usable",
        "1 if live nodes hold all rows of a table",
        usable,
    );
    let help = "Rows that tasks of the node have passed on";
    registry.register_with_unit("shuffle_written", help, Unit::Bytes, shuffled);
    let help = "Of these, in memory, by the memory node where pages were found";
    registry.register_with_unit("shuffle_found", help, Unit::Bytes, found);
    let help = "Of these, on another memory node than was asked for";
    registry.register_with_unit("shuffle_misplaced", help, Unit::Bytes, misplaced);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{HeldTable, NodeState, ShuffleReport};

    #[test]
    fn nodes_and_what_they_hold_are_metrics() {
        let held = HeldTable {
            rows: [(0, 3), (1, 4)].into(),
            size_bytes: 100,
            ..HeldTable::default()
        };
        let state = |alive| NodeState {
            alive,
            silent_ms: 0,
            process: 1,
            threads: 2,
            address: "127.0.0.1:1".into(),
            tables: [("fact".to_owned(), held.clone())].into(),
            shuffle: Some(ShuffleReport {
                written_bytes: 50,
                on_nodes: [(1, 40)].into(),
                ..ShuffleReport::default()
            }),
        };
        let map = ClusterMap {
            nodes: [("a".into(), state(true)), ("b".into(), state(false))].into(),
            ..ClusterMap::default()
        };
        let text = exposition(&map).unwrap();
        for line in [
            "tierloom_cluster_shuffle_written_bytes_total{node=\"a\"} 50",
            "tierloom_cluster_shuffle_found_bytes_total{node=\"b\",memory_node=\"1\"} 40",
            "tierloom_cluster_shuffle_misplaced_bytes_total{node=\"a\"} 0",
            "tierloom_cluster_node_alive{node=\"a\"} 1",
            "tierloom_cluster_node_alive{node=\"b\"} 0",
            "tierloom_cluster_node_threads{node=\"a\"} 2",
            "tierloom_cluster_table_rows{node=\"a\",table=\"fact\"} 7",
            "tierloom_cluster_table_memory_bytes{node=\"b\",table=\"fact\"} 100",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
