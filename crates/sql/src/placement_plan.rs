//! `EXPLAIN PLACEMENT` and `EXPLAIN ANALYZE PLACEMENT` of a session.
//!
//! Columns are taken from the optimised logical plan, operators from the router's account of a run.
//! With a machine profile, the modelled table of [`tierloom_engine::adapt`] is returned instead.

use super::error::SqlError;
use super::run::{NoRows, StatementTiming, Watch};
use super::session::SqlSession;
use super::system;
use arrow::array::{Array, AsArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::UInt64Type;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tierloom_corrections::WalkAll;
use tierloom_engine::adapt::explain_placement;
use tierloom_engine::pooled::{PooledState, VerifiedBytes};
use tierloom_engine::routing::placement_of_execution;
use tierloom_engine::{Execution, PlacedTable};
use tierloom_model::profiles;
use tierloom_placement::Policy;

/// An output row: a column that a plan reads, or an operator that it ran.
#[derive(Default)]
struct PlanRow {
    kind: &'static str,
    name: String,
    /// Encoding of a column, or memory class of an operator.
    what: String,
    rows: Option<u64>,
    /// Size of a column, or peak memory of an operator.
    bytes: u64,
    /// Bytes that the execution read from a column.
    read_bytes: Option<u64>,
    wanted: String,
    actual: String,
    /// Allocations of an operator that did not get their preferred place.
    fallbacks: Option<u64>,
}

/// Lists the columns that `query` reads, with requested and actual placement.
///
/// If a machine profile is set, it lists modelled placements per pipeline and structure instead.
pub(super) fn explain(
    session: &SqlSession,
    query: &str,
    watch: &dyn Watch,
) -> Result<RecordBatch, SqlError> {
    if let Some(elsewhere) = session.catalog.elsewhere() {
        let logical = session.planner().read(query)?;
        if let Some(batch) = elsewhere.placement(&logical, &|| watch.stopped())? {
            return Ok(batch);
        }
    }
    if let Some(name) = &session.settings.machine {
        let machine = profiles::load(name).map_err(SqlError::input)?;
        // Plans with `watch` and caches the plan; `explain_placement` then finds it and need not be
        // cancelled.
        session.planner().physical(query, watch)?;
        let policy = Policy::Adaptive(None);
        return Ok(explain_placement(
            session.catalog.engine(),
            query,
            &machine,
            &policy,
        )?);
    }
    batch(&columns(session, query, watch)?)
}

/// Same for an execution of `query`: with bytes read, and operator memory if that is routed.
pub(super) fn explain_analyze(
    session: &mut SqlSession,
    query: &str,
    watch: &dyn Watch,
) -> Result<RecordBatch, SqlError> {
    let plan = session.planner().physical(query, watch)?;
    let before = session.shared.reads();
    let ran = session.stream(&plan, &mut NoRows, watch, &mut StatementTiming::default())?;
    let execution = Execution {
        batches: Vec::new(),
        time: Duration::ZERO,
        plan: ran.plan,
    };
    // Without routing there are no operator lines; columns are listed all the same.
    let mut lines = placement_of_execution(&execution)
        .map(|batch| operators(&batch))
        .unwrap_or_default();
    let mut columns = columns(session, query, watch)?;
    for line in &mut columns {
        let of = |reads: &BTreeMap<String, u64>| reads.get(&line.name).copied().unwrap_or(0);
        // The session's counts only grow, so the difference belongs to this execution.
        line.read_bytes = Some(of(&session.shared.reads()) - of(&before));
    }
    lines.append(&mut columns);
    batch(&lines)
}

/// Converts the router's account of an execution to output rows.
fn operators(batch: &RecordBatch) -> Vec<PlanRow> {
    let text = |name: &str, row: usize| {
        let column = batch.column_by_name(name);
        let values = column.and_then(|c| c.as_string_opt::<i32>());
        values.map_or_else(String::new, |v| v.value(row).to_owned())
    };
    let count = |name: &str, row: usize| {
        let column = batch.column_by_name(name);
        let values = column.and_then(|c| c.as_primitive_opt::<UInt64Type>());
        values.and_then(|v| v.is_valid(row).then(|| v.value(row)))
    };
    (0..batch.num_rows())
        .map(|row| PlanRow {
            kind: "operator",
            name: text("operator", row),
            what: text("class", row),
            rows: count("rows", row),
            bytes: count("peak_bytes", row).unwrap_or(0),
            read_bytes: None,
            wanted: text("place_wanted", row),
            actual: text("place_actual", row),
            fallbacks: count("fallbacks", row),
        })
        .collect()
}

/// The columns that the optimised logical plan scans; which operators read them is irrelevant here.
fn columns(session: &SqlSession, query: &str, watch: &dyn Watch) -> Result<Vec<PlanRow>, SqlError> {
    let plan = session.planner().optimised(query, watch)?;
    let mut scans: BTreeSet<(String, usize)> = BTreeSet::new();
    plan.each_of_all(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(name) = session.catalog.key(&scan.table_name)
            && let Some(table) = session.catalog.get(&name)
        {
            let all = (0..table.columns().len()).collect();
            let read = scan.projection.clone().unwrap_or(all);
            scans.extend(read.into_iter().map(|index| (name.clone(), index)));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(|e| SqlError::planning(&e))?;
    scans
        .into_iter()
        .filter_map(|(name, index)| Some((session.catalog.get(&name)?, index)))
        .map(|(table, index)| column(&table, index))
        .collect()
}

fn column(table: &PlacedTable, index: usize) -> Result<PlanRow, SqlError> {
    let column = &table.columns()[index];
    let mut wanted = system::wanted(column);
    if table.is_staged(index) {
        wanted.push_str(", read through a DRAM working buffer");
    }
    Ok(PlanRow {
        kind: "column",
        name: format!("{}.{}", table.name(), column.name()),
        what: column.encoding(),
        rows: Some(table.rows() as u64),
        bytes: column.size_bytes(),
        wanted,
        actual: actual(column)?,
        ..PlanRow::default()
    })
}

/// Actual placement as text, such as "node 0: 100%".
fn actual(column: &tierloom_engine::PlacedColumn) -> Result<String, SqlError> {
    let parts = system::parts(column).map_err(|e| SqlError::running(&e))?;
    let all: u64 = parts.iter().map(|p| p.bytes).sum();
    let words = parts.iter().map(|part| match part.node {
        Some(node) => format!(
            "node {node}: {:.1}%",
            100.0 * part.bytes as f64 / all.max(1) as f64
        ),
        None => "no page is present".into(),
    });
    let pages = words.collect::<Vec<_>>().join(", ");
    Ok(match column.pooled() {
        Some(state) => format!("{}; {pages}", in_pool(&state)),
        None => pages,
    })
}

/// Member and state of a column in a pool, such as "member 0, 3 of 8 chunks verified".
fn in_pool(state: &PooledState) -> String {
    let members: Vec<String> = state.members.iter().map(u32::to_string).collect();
    let word = if members.len() == 1 {
        "member"
    } else {
        "members"
    };
    let verified = match state.verified {
        Some(VerifiedBytes { chunks, of_chunks }) => {
            format!("{chunks} of {of_chunks} chunks verified")
        }
        None => "not verified".into(),
    };
    let damaged = if state.damaged {
        ", its table is damaged"
    } else {
        ""
    };
    format!("{word} {}, {verified}{damaged}", members.join(", "))
}

fn batch(lines: &[PlanRow]) -> Result<RecordBatch, SqlError> {
    let text = |of: &dyn Fn(&PlanRow) -> &str| {
        Arc::new(lines.iter().map(|l| Some(of(l))).collect::<StringArray>()) as _
    };
    let count = |of: &dyn Fn(&PlanRow) -> Option<u64>| {
        Arc::new(lines.iter().map(of).collect::<UInt64Array>()) as _
    };
    RecordBatch::try_from_iter([
        ("kind", text(&|l| l.kind)),
        ("name", text(&|l| &l.name)),
        ("encoding_or_class", text(&|l| &l.what)),
        ("rows", count(&|l| l.rows)),
        ("bytes", count(&|l| Some(l.bytes))),
        ("read_bytes", count(&|l| l.read_bytes)),
        ("wanted", text(&|l| &l.wanted)),
        ("actual", text(&|l| &l.actual)),
        ("fallbacks", count(&|l| l.fallbacks)),
    ])
    .map_err(SqlError::failed)
}
