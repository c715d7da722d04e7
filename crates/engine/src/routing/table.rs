//! What the router counts, as a table.

use super::exec::operators;
use crate::as_now::Rows;
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use std::sync::Arc;
use tierloom_memory::router::{SYSTEM_PLACE, place_usage};

/// Name of the table.
pub const TIER_MEMORY: &str = "tier_memory";

/// The system table `tier_memory`: a row per class and place, with NULL for the operator, and a row per operator that had memory.
///
/// Bytes are those of whole blocks, as they are when the table is read. Peaks of places count from the start of the process, those of operators
/// from the start of their execution.
pub struct TierMemoryTable {
    schema: SchemaRef,
}

impl TierMemoryTable {
    /// The table.
    pub fn new() -> Self {
        let text = |name: &str, null: bool| Field::new(name, DataType::Utf8, null);
        let count = |name: &str, null: bool| Field::new(name, DataType::UInt64, null);
        TierMemoryTable {
            schema: Arc::new(Schema::new(vec![
                text("class", false),
                text("operator", true),
                text("place", false),
                count("limit_bytes", true),
                count("current_bytes", false),
                count("peak_bytes", false),
                count("held_bytes", true),
                count("allocations", false),
                count("fallbacks", false),
                text("refused", true),
            ])),
        }
    }
}

impl Rows for TierMemoryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self) -> Result<RecordBatch> {
        let rows: Vec<Row> = of_places().chain(of_operators()).collect();
        let text = |of: fn(&Row) -> Option<&str>| {
            Arc::new(StringArray::from_iter(rows.iter().map(of))) as ArrayRef
        };
        let count = |of: fn(&Row) -> Option<u64>| {
            Arc::new(UInt64Array::from_iter(rows.iter().map(of))) as ArrayRef
        };
        let columns = vec![
            text(|r| Some(&r.class)),
            text(|r| r.operator.as_deref()),
            text(|r| Some(&r.place)),
            count(|r| r.limit_bytes),
            count(|r| Some(r.current_bytes)),
            count(|r| Some(r.peak_bytes)),
            count(|r| r.held_bytes),
            count(|r| Some(r.allocations)),
            count(|r| Some(r.fallbacks)),
            text(|r| r.refused.as_deref()),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl Default for TierMemoryTable {
    fn default() -> Self {
        Self::new()
    }
}

struct Row {
    class: String,
    operator: Option<String>,
    place: String,
    limit_bytes: Option<u64>,
    current_bytes: u64,
    peak_bytes: u64,
    held_bytes: Option<u64>,
    allocations: u64,
    fallbacks: u64,
    refused: Option<String>,
}

fn of_places() -> impl Iterator<Item = Row> {
    place_usage().into_iter().map(|usage| Row {
        class: usage.class.to_string(),
        operator: None,
        place: usage.place,
        limit_bytes: usage.limit_bytes,
        current_bytes: usage.current_bytes,
        peak_bytes: usage.peak_bytes,
        held_bytes: Some(usage.held_bytes),
        allocations: usage.allocations,
        fallbacks: usage.fallbacks,
        refused: usage.refused,
    })
}

fn of_operators() -> impl Iterator<Item = Row> {
    let all = operators().into_iter();
    all.filter_map(|operator| {
        let usage = operator.usage();
        (usage.allocations > 0).then(|| Row {
            class: operator.class().to_string(),
            operator: Some(format!(
                "{}#{}",
                operator.name(),
                operator.scope().operator.number()
            )),
            place: places_text(&operator, &usage.peak_by_place, false),
            limit_bytes: None,
            current_bytes: usage.current_bytes,
            peak_bytes: usage.peak_bytes,
            held_bytes: None,
            allocations: usage.allocations,
            fallbacks: usage.fallbacks,
            refused: None,
        })
    })
}

/// The places that an operator had memory at, with the bytes if `with_bytes`.
pub(super) fn places_text(
    operator: &super::exec::Operator,
    peaks: &[u64],
    with_bytes: bool,
) -> String {
    let names = router_places(operator);
    let system = peaks.len().saturating_sub(1);
    let used = peaks.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    let texts: Vec<String> = used
        .map(|(place, bytes)| {
            let name = if place == system {
                SYSTEM_PLACE
            } else {
                names.get(place).map_or(SYSTEM_PLACE, String::as_str)
            };
            if with_bytes {
                format!("{name} {bytes}")
            } else {
                name.to_owned()
            }
        })
        .collect();
    texts.join(", ")
}

/// The named places of an operator's class.
pub(super) fn router_places(operator: &super::exec::Operator) -> Vec<String> {
    tierloom_memory::router::places_of(operator.class())
}
