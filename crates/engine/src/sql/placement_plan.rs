//! `EXPLAIN PLACEMENT` and `EXPLAIN ANALYZE PLACEMENT`.

use super::error::SqlError;
use super::run::{Kept, Timing, Watch};
use super::session::SqlSession;
use super::system;
use crate::scan::PlacedScanExec;
use arrow::array::{RecordBatch, StringArray, UInt64Array};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// One column that a scan reads.
struct ColumnRow {
    operator: String,
    column: String,
    size_bytes: u64,
    /// Bytes that the execution read of it.
    read_bytes: Option<u64>,
    wanted: String,
    actual: String,
}

/// The columns that `query` reads, where they should lie and where their pages are.
pub(super) fn explain(session: &SqlSession, query: &str) -> Result<RecordBatch, SqlError> {
    let plan = session.physical(query)?;
    let mut rows = Vec::new();
    walk(&plan, &mut rows)?;
    batch(&rows, false)
}

/// The same for an execution of `query`, with the bytes that it read.
pub(super) fn explain_analyze(
    session: &mut SqlSession,
    query: &str,
    watch: &dyn Watch,
) -> Result<RecordBatch, SqlError> {
    let plan = session.physical(query)?;
    let before = session.reads.clone();
    let mut kept = Kept::default();
    session.stream(&plan, &mut kept, watch, &mut Timing::default())?;
    let mut rows = Vec::new();
    walk(&plan, &mut rows)?;
    for row in &mut rows {
        let of = |reads: &std::collections::BTreeMap<String, u64>| {
            reads.get(&row.column).copied().unwrap_or(0)
        };
        row.read_bytes = Some(of(&session.reads) - of(&before));
    }
    batch(&rows, true)
}

fn walk(plan: &Arc<dyn ExecutionPlan>, rows: &mut Vec<ColumnRow>) -> Result<(), SqlError> {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        let table = scan.table();
        for &index in scan.projection() {
            let column = &table.columns()[index];
            let mut wanted = system::wanted(column);
            if table.is_staged(index) {
                wanted.push_str(", read through a DRAM working buffer");
            }
            rows.push(ColumnRow {
                operator: format!("scan {}", table.name()),
                column: format!("{}.{}", table.name(), column.name()),
                size_bytes: column.size_bytes(),
                read_bytes: None,
                wanted,
                actual: actual(column)?,
            });
        }
    }
    plan.children()
        .into_iter()
        .try_for_each(|child| walk(child, rows))
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
        ("operator", text(&|r| &r.operator)),
        ("column", text(&|r| &r.column)),
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
