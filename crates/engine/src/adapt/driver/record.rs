//! What was decided for each phase of each run, and what came of it.

use crate::EngineError;
use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows kept; of more, the oldest are forgotten (the decision log keeps all).
const KEPT: usize = 10_000;

/// One phase of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The run, from 1.
    pub run: u64,
    /// The query.
    pub query: String,
    /// The phase.
    pub phase: String,
    /// "keep", "move" or "return".
    pub action: String,
    /// The placement of the run.
    pub layout: String,
    /// What the model wants.
    pub wanted: String,
    /// What parts of the phase tried; empty if nothing.
    pub tried: String,
    /// Whether the time of the run was learned from: it ran as decided and to its end.
    pub learned: bool,
    /// Modelled time on the corrected profile, ms.
    pub expected_ms: f64,
    /// Measured time of the whole phase under its layout, ms.
    pub measured_ms: Option<f64>,
    /// Workers that it was given.
    pub workers: u64,
    /// Whether hardware prefetchers were switched off for the query.
    pub prefetch_off: bool,
    /// Bytes of columns that were moved before the run, for all its phases.
    pub moved_bytes: u64,
    /// Why it was decided so.
    pub reason: String,
    /// What was not done as decided, and why; empty if all was.
    pub note: String,
}

/// The latest decisions.
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

/// Columns of [`batch`].
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
        field("workers", DataType::UInt64, false),
        field("prefetch_off", DataType::Boolean, false),
        field("moved_bytes", DataType::UInt64, false),
        text("reason"),
        text("note"),
    ]))
}

/// Decisions as rows.
///
/// # Errors
/// Those of Arrow.
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
        text(|r| &r.wanted),
        text(|r| &r.tried),
        flag(|r| r.learned),
        number(|r| Some(r.expected_ms)),
        number(|r| r.measured_ms),
        count(|r| r.workers),
        flag(|r| r.prefetch_off),
        count(|r| r.moved_bytes),
        text(|r| &r.reason),
        text(|r| &r.note),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}
