//! `EXPLAIN ANALYZE PLACEMENT`: class, size and place of each operator's memory.
//!
//! It reports what the router counted for the run; columns of tables are not operator memory and
//! are listed by the session.

use super::exec::RoutedExec;
use super::operator::Operator;
use super::table::{places_text, router_places};
use crate::{Engine, EngineError, Execution};
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use tierloom_memory::router::SYSTEM_PLACE;

/// Runs `sql` and reports each operator's memory, root first.
///
/// Columns: `operator` (indented by depth), `class`, `rows`, `peak_bytes`, `place_wanted`,
/// `place_actual` (with the peak bytes of each place), `allocations` (of 64 KiB and more),
/// `fallbacks`.
///
/// # Errors
/// Errors of planning and running, and [`EngineError::Routing`] if this engine does not route
/// memory.
pub fn explain_analyze(engine: &Engine, sql: &str) -> Result<RecordBatch, EngineError> {
    let query = engine.plan("the query", sql)?;
    let execution = engine.execute("the query", &query, &|| false)?;
    placement_of_execution(&execution)
}

/// Same as [`explain_analyze`], for an execution that has finished.
///
/// # Errors
/// [`EngineError::Routing`] if its operators were not routed.
pub fn placement_of_execution(execution: &Execution) -> Result<RecordBatch, EngineError> {
    let mut lines = Vec::new();
    walk(&execution.plan, 0, &mut lines);
    // Without routing no operator is wrapped.
    if lines.is_empty() {
        return Err(EngineError::Routing {
            problem: "operators are not accounted: routing is off in this session, or the program's allocator is no `TierAllocator`; \
                      run it with the `tierloom` binary and Tierloom's own settings"
                .into(),
        });
    }
    table(&lines)
}

struct Line<'a> {
    operator: &'a Operator,
    depth: usize,
    rows: Option<u64>,
}

fn walk<'a>(plan: &'a Arc<dyn ExecutionPlan>, depth: usize, lines: &mut Vec<Line<'a>>) {
    if let Some(routed) = RoutedExec::of(plan.as_ref()) {
        lines.push(Line {
            operator: routed.operator(),
            depth,
            rows: routed
                .metrics()
                .and_then(|m| m.output_rows())
                .map(|rows| rows as u64),
        });
    }
    for child in plan.children() {
        walk(child, depth + 1, lines);
    }
}

fn table(lines: &[Line<'_>]) -> Result<RecordBatch, EngineError> {
    let usage: Vec<_> = lines.iter().map(|line| line.operator.usage()).collect();
    let text = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
    let count = |values: Vec<u64>| Arc::new(UInt64Array::from(values)) as ArrayRef;
    let name = |line: &Line<'_>| format!("{}{}", "  ".repeat(line.depth), line.operator.name());
    // The first place is the preferred one; the others take the overflow.
    let wanted = |line: &Line<'_>| {
        let places = router_places(line.operator);
        places.first().map_or(SYSTEM_PLACE.into(), String::clone)
    };
    let actual = lines.iter().zip(&usage);
    Ok(RecordBatch::try_from_iter(vec![
        ("operator", text(lines.iter().map(name).collect())),
        (
            "class",
            text(
                lines
                    .iter()
                    .map(|l| l.operator.class().to_string())
                    .collect(),
            ),
        ),
        (
            "rows",
            Arc::new(UInt64Array::from_iter(lines.iter().map(|l| l.rows))) as ArrayRef,
        ),
        (
            "peak_bytes",
            count(usage.iter().map(|u| u.peak_bytes).collect()),
        ),
        ("place_wanted", text(lines.iter().map(wanted).collect())),
        (
            "place_actual",
            text(
                actual
                    .map(|(line, usage)| places_text(line.operator, &usage.peak_by_place, true))
                    .collect(),
            ),
        ),
        (
            "allocations",
            count(usage.iter().map(|u| u.allocations).collect()),
        ),
        (
            "fallbacks",
            count(usage.iter().map(|u| u.fallbacks).collect()),
        ),
    ])?)
}
