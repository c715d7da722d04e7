//! Nodes and tables as metrics for Prometheus, at the address of the scheduler.

use crate::map::ClusterMap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
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
    for (name, state) in &map.nodes {
        let node = OfNode { node: name.clone() };
        alive.get_or_create(&node).set(state.alive.into());
        threads.get_or_create(&node).set(state.threads as i64);
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
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{HeldTable, NodeState};

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
        };
        let map = ClusterMap {
            nodes: [("a".into(), state(true)), ("b".into(), state(false))].into(),
            ..ClusterMap::default()
        };
        let text = exposition(&map).unwrap();
        for line in [
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
