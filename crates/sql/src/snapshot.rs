//! The state of a shared engine as plain data, for metrics.

use super::sessions::SharedEngine;
use super::system::add_bytes;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tierloom_engine::PlacedTable;
use tierloom_engine::adapt::Decided;
use tierloom_memory::AuditMode;
use tierloom_memory::router::{PlaceUsage, place_usage};
use tierloom_metrics::{ClassUse, Decision, NodePart, NodeUse, Snapshot, TableUse};
use tierloom_topology::Topology;

/// Number of pages per region that the kernel is asked about.
///
/// A scrape of 400 columns then asks about some ten thousand pages, which takes milliseconds.
const AUDITED_PAGES: u64 = 32;

/// Decisions of adaptive placement that are shown.
const MOST_DECISIONS: usize = 50;

impl SharedEngine {
    /// The state now; what sessions, ended statements and hardware counters say is for the server
    /// to add.
    ///
    /// Asks the kernel about a sample of the pages of all tables.
    pub fn snapshot(&self) -> Snapshot {
        let first = self.session_state();
        let reads = first.shared.reads();
        let tables: Vec<TableUse> = first
            .catalog
            .placed()
            .iter()
            .map(|table| table_use(table, &reads))
            .collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let (running, waiting) = self.load();
        let decisions = first.drive.get().map(|driver| driver.decisions());
        Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at_seconds: now.unwrap_or_default().as_secs_f64(),
            uptime_seconds: 0.0,
            nodes: nodes(&first.storage.topology, &tables),
            traffic: Vec::new(),
            tables,
            classes: place_usage().into_iter().map(class_use).collect(),
            running: running as u64,
            waiting: waiting as u64,
            statements: Vec::new(),
            counted: first.counts.sums(),
            sessions: None,
            decisions: decisions.map(|all| {
                let skipped = all.len().saturating_sub(MOST_DECISIONS);
                all.into_iter().skip(skipped).map(decision).collect()
            }),
        }
    }
}

fn nodes(topology: &Topology, tables: &[TableUse]) -> Vec<NodeUse> {
    let columns_bytes = |node: u32| {
        let parts = tables.iter().flat_map(|table| &table.nodes);
        parts
            .filter(|part| part.node == node)
            .map(|part| part.size_bytes)
            .sum()
    };
    let with_memory = topology.memory_nodes().into_iter();
    let known = with_memory.filter_map(|id| topology.node(id));
    let node_use = known.map(|node| NodeUse {
        node: node.id.0,
        tier: topology.tier_of(node.id).map(|tier| tier.to_string()),
        size_bytes: node.mem_total_bytes,
        free_bytes: topology.free_now(node.id),
        columns_bytes: columns_bytes(node.id.0),
    });
    node_use.collect()
}

fn table_use(table: &PlacedTable, reads: &BTreeMap<String, u64>) -> TableUse {
    let inside = format!("{}.", table.name());
    let of_table = reads
        .iter()
        .filter(|(column, _)| column.starts_with(&inside));
    let mut nodes: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut checked, mut misplaced) = (0, 0);
    let columns = table.groups().flat_map(|group| group.columns().iter());
    for region in columns.flat_map(|column| column.regions()) {
        let mode = AuditMode::Sampled {
            pages: AUDITED_PAGES,
        };
        // A region that cannot be looked up has no part in the sums; a scrape is no place to fail.
        let Ok(audit) = region.audit(mode) else {
            continue;
        };
        checked += audit.pages_checked;
        misplaced += audit.misplaced_pages;
        add_bytes(&mut nodes, &audit);
    }
    let part = |(node, size_bytes)| NodePart { node, size_bytes };
    TableUse {
        table: table.name().to_owned(),
        rows: table.rows() as u64,
        size_bytes: table.size_bytes(),
        read_bytes: of_table.map(|(_, bytes)| bytes).sum(),
        nodes: nodes.into_iter().map(part).collect(),
        misplaced: (checked > 0).then(|| misplaced as f64 / checked as f64),
    }
}

fn class_use(usage: PlaceUsage) -> ClassUse {
    ClassUse {
        class: usage.class.to_string(),
        place: usage.place,
        limit_bytes: usage.limit_bytes,
        current_bytes: usage.current_bytes,
        peak_bytes: usage.peak_bytes,
        fallbacks: usage.fallbacks,
        refused: usage.refused,
    }
}

fn decision(decided: Decided) -> Decision {
    Decision {
        run: decided.run,
        phase: decided.phase,
        action: decided.action,
        layout: decided.layout,
        expected_ms: decided.expected_ms,
        measured_ms: decided.measured_ms,
        reason: decided.reason,
    }
}
