//! `EXPLAIN PLACEMENT` and `EXPLAIN ANALYZE PLACEMENT`.

use super::error::SqlError;
use super::run::{Flow, Sink, Timing, Watch};
use super::session::SqlSession;
use super::system;
use crate::table::PlacedTable;
use arrow::array::{RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One column that a plan reads.
struct ColumnRow {
    column: String,
    encoding: String,
    size_bytes: u64,
    /// Bytes that the execution read of it.
    read_bytes: Option<u64>,
    wanted: String,
    actual: String,
}

/// The columns that `query` reads, where they should lie and where their pages are.
pub(super) fn explain(session: &SqlSession, query: &str) -> Result<RecordBatch, SqlError> {
    batch(&columns(session, query)?, false)
}

/// The same for an execution of `query`, with the bytes that it read.
pub(super) fn explain_analyze(
    session: &mut SqlSession,
    query: &str,
    watch: &dyn Watch,
) -> Result<RecordBatch, SqlError> {
    let plan = session.physical(query)?;
    let before = session.reads.clone();
    session.stream(&plan, &mut Counted, watch, &mut Timing::default())?;
    let mut rows = columns(session, query)?;
    for row in &mut rows {
        let of = |reads: &BTreeMap<String, u64>| reads.get(&row.column).copied().unwrap_or(0);
        row.read_bytes = Some(of(&session.reads) - of(&before));
    }
    batch(&rows, true)
}

/// The columns that the optimised logical plan scans: what the operators below it are does not matter for them.
fn columns(session: &SqlSession, query: &str) -> Result<Vec<ColumnRow>, SqlError> {
    let plan = session.optimised(query)?;
    let mut scans: BTreeMap<(String, usize), ()> = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = session.tables.get(scan.table_name.table())
        {
            let all = (0..table.columns().len()).collect();
            for index in scan.projection.clone().unwrap_or(all) {
                scans.insert((scan.table_name.table().to_owned(), index), ());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(|e| SqlError::planning(&e))?;
    scans
        .into_keys()
        .filter_map(|(name, index)| Some((session.tables.get(&name)?, index)))
        .map(|(table, index)| row(table, index))
        .collect()
}

fn row(table: &PlacedTable, index: usize) -> Result<ColumnRow, SqlError> {
    let column = &table.columns()[index];
    let mut wanted = system::wanted(column);
    if table.is_staged(index) {
        wanted.push_str(", read through a DRAM working buffer");
    }
    Ok(ColumnRow {
        column: format!("{}.{}", table.name(), column.name()),
        encoding: column.encoding(),
        size_bytes: column.size_bytes(),
        read_bytes: None,
        wanted,
        actual: actual(column)?,
    })
}

/// Takes rows and forgets them.
struct Counted;

impl Sink for Counted {
    fn begin(&mut self, _: &SchemaRef) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, _: &RecordBatch) -> Result<Flow, SqlError> {
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
}

/// "node 0: 100%".
fn actual(column: &crate::PlacedColumn) -> Result<String, SqlError> {
    let parts = system::parts(column).map_err(|e| SqlError::running(&e))?;
    let all: u64 = parts.iter().map(|p| p.bytes).sum();
    let words = parts.iter().map(|part| match part.node {
        Some(node) => format!(
            "node {node}: {:.1}%",
            100.0 * part.bytes as f64 / all.max(1) as f64
        ),
        None => "no page is present".into(),
    });
    Ok(words.collect::<Vec<_>>().join(", "))
}

fn batch(rows: &[ColumnRow], ran: bool) -> Result<RecordBatch, SqlError> {
    let text = |of: &dyn Fn(&ColumnRow) -> &str| {
        Arc::new(rows.iter().map(|r| Some(of(r))).collect::<StringArray>()) as _
    };
    let sizes: UInt64Array = rows.iter().map(|r| Some(r.size_bytes)).collect();
    let mut columns = vec![
        ("column", text(&|r| &r.column)),
        ("encoding", text(&|r| &r.encoding)),
        ("size_bytes", Arc::new(sizes) as _),
        ("wanted", text(&|r| &r.wanted)),
        ("actual", text(&|r| &r.actual)),
    ];
    if ran {
        let reads: UInt64Array = rows.iter().map(|r| r.read_bytes).collect();
        columns.insert(3, ("read_bytes", Arc::new(reads) as _));
    }
    RecordBatch::try_from_iter(columns).map_err(SqlError::failed)
}
