//! System table of the router's counters.
//!
//! The rows are read from the router when a statement is planned, so a query on the table shows one
//! moment.

use super::operator::{Operator, operators};
use crate::system_table::SystemRows;
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use std::sync::Arc;
use tierloom_memory::router::{SYSTEM_PLACE, place_usage};

/// Name of the system table.
pub const TIER_MEMORY: &str = "tier_memory";

/// The system table `tier_memory`: memory use by class, place and operator.
///
/// It has a row per class and place, with NULL for the operator, and a row per operator that
/// allocated memory. Bytes count whole blocks at the time of reading. Peaks of places are since the
/// start of the process, those of operators since the start of their execution.
pub struct TierMemoryTable {
    schema: SchemaRef,
}

impl TierMemoryTable {
    /// Creates the table's schema.
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

impl SystemRows for TierMemoryTable {
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
        // Operators without routed allocations would only fill the table.
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

/// The places where an operator had memory, with the bytes if `with_bytes`.
pub(super) fn places_text(operator: &Operator, peaks: &[u64], with_bytes: bool) -> String {
    let names = router_places(operator);
    // The last entry counts memory that the router left to the system allocator.
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

/// Names of the places of an operator's class.
pub(super) fn router_places(operator: &Operator) -> Vec<String> {
    tierloom_memory::router::places_of(operator.class())
}
