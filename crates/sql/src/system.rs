//! System tables of the session: `tier_columns`, `tierloom_counters`, `tierloom_decisions`,
//! `tier_memory` and `tier_pool`.
//!
//! Their rows are read while a statement is planned, from the session's tables, the adaptive driver
//! and the router.

use super::adaptive::SharedDriver;
use super::counts::SharedCounts;
use super::pool::{SharedPool, TIER_POOL, TierPool};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_engine::routing::TIER_MEMORY;
use tierloom_engine::{PlacedColumn, PlacedTable, SystemRows, SystemTable};
use tierloom_memory::{Audit, AuditMode, Placing};

/// Names of the system tables, which no other table may have.
pub(super) const NAMES: [&str; 6] = [
    COUNTERS,
    DECISIONS,
    TIER_COLUMNS,
    TIER_MEMORY,
    TIER_POOL,
    SESSIONS,
];

const COUNTERS: &str = "tierloom_counters";

/// Of servers alone, which list their clients in it.
const SESSIONS: &str = "tierloom_sessions";

const DECISIONS: &str = "tierloom_decisions";

const TIER_COLUMNS: &str = "tier_columns";

/// Number of pages per region that the kernel is asked about.
///
/// A sample, because regions can have millions of pages.
pub(super) const AUDITED_PAGES: u64 = 4096;

/// The tables of an engine by name.
pub(super) type Tables = Arc<Mutex<BTreeMap<String, Arc<PlacedTable>>>>;

/// Registers the system tables in `context`.
pub(super) fn register(
    context: &SessionContext,
    tables: &Tables,
    pool: &SharedPool,
    drive: &SharedDriver,
    counts: &SharedCounts,
) -> Result<()> {
    let columns = TierColumns {
        tables: Arc::clone(tables),
        schema: TierColumns::columns(),
    };
    context.register_table(TIER_COLUMNS, Arc::new(SystemTable(columns)))?;
    let pool = TierPool::new(pool.clone());
    context.register_table(TIER_POOL, Arc::new(SystemTable(pool)))?;
    context.register_table(COUNTERS, Arc::new(SystemTable(counts.clone())))?;
    context.register_table(DECISIONS, Arc::new(SystemTable(drive.clone())))?;
    Ok(())
}

/// System table `tier_columns`: a row per column, group of rows, and node that has pages of it.
struct TierColumns {
    tables: Tables,
    schema: SchemaRef,
}

/// A node's share of a column's pages.
pub(super) struct NodePart {
    /// The node; `None` if no page is present.
    pub node: Option<u32>,
    /// Bytes of the column's regions on the node, extrapolated from the sampled pages.
    pub bytes: u64,
}

impl TierColumns {
    fn columns() -> SchemaRef {
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        Arc::new(Schema::new(vec![
            text("table_name"),
            text("column_name"),
            text("data_type"),
            text("encoding"),
            Field::new("size_bytes", DataType::UInt64, false),
            text("wanted"),
            Field::new("staged", DataType::Boolean, false),
            Field::new("node", DataType::UInt32, true),
            Field::new("node_bytes", DataType::UInt64, false),
        ]))
    }
}

impl SystemRows for TierColumns {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self) -> Result<RecordBatch> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = Vec::new();
        for (name, table) in tables.iter() {
            let columns = table
                .groups()
                .flat_map(|group| group.columns().iter().enumerate());
            for (index, column) in columns {
                // Asks the kernel, so the table shows where pages are and not where they should be.
                for part in parts(column)? {
                    rows.push((name, column, table.is_staged(index), part));
                }
            }
        }
        let text = |of: &dyn Fn(&PlacedColumn) -> String| -> ArrayRef {
            let values = rows.iter().map(|(_, column, _, _)| Some(of(column)));
            Arc::new(values.collect::<StringArray>())
        };
        let names: StringArray = rows.iter().map(|(name, ..)| Some(name.as_str())).collect();
        let sizes: UInt64Array = rows.iter().map(|(_, c, ..)| Some(c.size_bytes())).collect();
        let staged: BooleanArray = rows.iter().map(|(_, _, staged, _)| Some(*staged)).collect();
        let nodes: UInt32Array = rows.iter().map(|(.., part)| part.node).collect();
        let bytes: UInt64Array = rows.iter().map(|(.., part)| Some(part.bytes)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(names),
            text(&|c| c.name().to_owned()),
            text(&|c| c.data_type().to_string()),
            text(&|c| c.encoding()),
            Arc::new(sizes),
            text(&wanted),
            Arc::new(staged),
            Arc::new(nodes),
            Arc::new(bytes),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// The placement requested for a column's regions.
pub(super) fn wanted(column: &PlacedColumn) -> String {
    let first = column.regions().first();
    first.map_or_else(
        || "nothing".into(),
        |region| match region.placing() {
            Placing::ByClass { class } => format!("class {class}"),
            Placing::Pool { place } => format!("pool {place}"),
            Placing::Fixed { place } => format!("device of pool {place}"),
            _ => region.placement().to_string(),
        },
    )
}

/// Adds the bytes of a region to those of the nodes, by the shares of its sampled pages.
pub(super) fn add_bytes(nodes: &mut BTreeMap<u32, u64>, audit: &Audit) {
    for share in &audit.actual {
        *nodes.entry(share.node.0).or_default() +=
            (audit.size_bytes as f64 * share.share).round() as u64;
    }
}

/// Actual distribution of a column's pages, as the kernel reports it.
pub(super) fn parts(column: &PlacedColumn) -> Result<Vec<NodePart>> {
    let mut nodes: BTreeMap<u32, u64> = BTreeMap::new();
    for region in column.regions() {
        let mode = AuditMode::Sampled {
            pages: AUDITED_PAGES,
        };
        let audit = region
            .audit(mode)
            .map_err(|e| DataFusionError::External(Box::new(e)))?;
        add_bytes(&mut nodes, &audit);
    }
    if nodes.is_empty() {
        return Ok(vec![NodePart {
            node: None,
            bytes: 0,
        }]);
    }
    let parts = nodes.into_iter().map(|(node, bytes)| NodePart {
        node: Some(node),
        bytes,
    });
    Ok(parts.collect())
}
