//! The record of decisions, as shown by the system table `tierloom_decisions`.
//!
//! The latest rows are kept in memory with a bound; the decision log (`tierloom-decisions/1`) has
//! all of them.

use crate::EngineError;
use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::collections::VecDeque;
use std::sync::Arc;
use tierloom_placement::adaptive::TierLatencies;

/// Rows kept in memory; older ones are dropped (the decision log has all).
const KEPT: usize = 10_000;

/// The decision for one phase of one run, with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// Number of the run in this driver, from 1.
    pub run: u64,
    /// Name of the query, the key under which its runs are compared.
    pub query: String,
    /// Name of the phase; "all" if nothing could be decided.
    pub phase: String,
    /// "keep", "move" or "return".
    pub action: String,
    /// Placement that the run used.
    pub layout: String,
    /// Placement that the model proposes.
    pub proposed: String,
    /// Placements tried on parts of the phase, with their shares; empty if none.
    pub tried: String,
    /// Whether the controller learned from the time: the phase ran as decided and to its end.
    pub learned: bool,
    /// Modelled time on the profile as corrected by earlier runs, ms.
    pub expected_ms: f64,
    /// Measured time scaled to the whole phase under its layout, ms; `None` if not learned from.
    pub measured_ms: Option<f64>,
    /// Latencies of the tiers meanwhile; `None` if they were not measured.
    pub latencies: Option<TierLatencies>,
    /// Number of workers that ran the phase.
    pub workers: u64,
    /// Whether hardware prefetchers were switched off for the query.
    pub prefetch_off: bool,
    /// Bytes of columns moved before the run, over all its phases.
    pub moved_bytes: u64,
    /// Why the controller decided so, as text for the user.
    pub reason: String,
    /// What was not done as decided, and why; empty if all was.
    pub note: String,
}

/// The latest decisions, bounded by [`KEPT`].
#[derive(Debug, Default)]
pub(super) struct History {
    rows: VecDeque<Decided>,
    pub runs: u64,
}

impl History {
    pub fn push(&mut self, row: Decided) {
        if self.rows.len() == KEPT {
            self.rows.pop_front();
        }
        self.rows.push_back(row);
    }

    pub fn rows(&self) -> Vec<Decided> {
        self.rows.iter().cloned().collect()
    }
}

/// Columns of the system table `tierloom_decisions`, as [`batch`] fills them.
pub fn schema() -> SchemaRef {
    let field = |name: &str, kind: DataType, null: bool| Field::new(name, kind, null);
    let text = |name: &str| field(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        field("run", DataType::UInt64, false),
        text("query"),
        text("phase"),
        text("action"),
        text("layout"),
        text("wanted"),
        text("tried"),
        field("learned", DataType::Boolean, false),
        field("modelled_ms", DataType::Float64, false),
        field("measured_ms", DataType::Float64, true),
        field("first_tier_latency_ns", DataType::Float64, true),
        field("other_tiers_latency_ns", DataType::Float64, true),
        field("workers", DataType::UInt64, false),
        field("prefetch_off", DataType::Boolean, false),
        field("moved_bytes", DataType::UInt64, false),
        text("reason"),
        text("note"),
    ]))
}

/// Converts decisions to a record batch.
///
/// # Errors
/// Arrow's, if the columns do not match the schema.
pub fn batch(rows: &[Decided]) -> Result<RecordBatch, EngineError> {
    let text = |of: fn(&Decided) -> &str| {
        Arc::new(StringArray::from_iter_values(rows.iter().map(of))) as ArrayRef
    };
    let count = |of: fn(&Decided) -> u64| {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))) as ArrayRef
    };
    let number = |of: fn(&Decided) -> Option<f64>| {
        Arc::new(rows.iter().map(of).collect::<Float64Array>()) as ArrayRef
    };
    let flag = |of: fn(&Decided) -> bool| {
        Arc::new(rows.iter().map(|r| Some(of(r))).collect::<BooleanArray>()) as ArrayRef
    };
    let columns = vec![
        count(|r| r.run),
        text(|r| &r.query),
        text(|r| &r.phase),
        text(|r| &r.action),
        text(|r| &r.layout),
        text(|r| &r.proposed),
        text(|r| &r.tried),
        flag(|r| r.learned),
        number(|r| Some(r.expected_ms)),
        number(|r| r.measured_ms),
        number(|r| Some(r.latencies?.first_ns)),
        number(|r| r.latencies?.others_ns),
        count(|r| r.workers),
        flag(|r| r.prefetch_off),
        count(|r| r.moved_bytes),
        text(|r| &r.reason),
        text(|r| &r.note),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}
