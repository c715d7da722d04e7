//! Writes a table into a pool.

use super::content::{
    COLUMN_FORMAT, Content, DistinctCount, StoredColumn, StoredDomain, StoredForm, append,
    append_bounds, append_schema,
};
use super::stored::{Positions, StoredArray};
use crate::EngineError;
use crate::coded::{CodedColumn, Domain};
use crate::column::{ColumnFacts, PlacedColumn};
use crate::table::PlacedTable;
use arrow::buffer::Buffer;
use serde_json::Value;
use std::ops::Range;
use tierloom_pool::{Finished, Pool, Spread, TableSpec};

/// Columns of this size begin at a chunk of their own, so that reading one checks no other.
const CHUNK_BYTES: u64 = 2 << 20;

const PAGE_BYTES: u64 = 4096;

/// Bytes on one member before the next one is used, so that scans use the bandwidth of all.
const STRIPE_BYTES: u64 = 64 << 20;

/// Writes `table` into the pool as `name`; [`Pool::seal_together`] makes it visible.
///
/// `note` is kept as it is, and attaching gives it back.
///
/// # Errors
/// [`EngineError::Pool`] if the pool is full or refuses the name; [`EngineError::Table`] for a
/// column of a type that cannot be kept.
pub fn write(
    pool: &Pool,
    name: &str,
    table: &PlacedTable,
    note: Value,
) -> Result<Finished, EngineError> {
    let facts = facts(table)?;
    let mut attachment = Vec::new();
    let schema = append_schema(name, table.schema(), &mut attachment)?;
    let bounds = append_bounds(&facts, &mut attachment)?;
    let mut data = Data::default();
    let columns = table.columns().iter().zip(&facts);
    let columns = columns.map(|(column, facts)| stored(column, facts, &mut data, &mut attachment));
    let content = Content {
        column_format: COLUMN_FORMAT,
        tierloom: env!("CARGO_PKG_VERSION").to_owned(),
        rows: table.rows() as u64,
        columns: columns.collect::<Result<_, _>>()?,
        schema,
        bounds,
        note,
    };
    let content = serde_json::to_value(&content).map_err(|e| EngineError::Table {
        table: name.to_owned(),
        problem: format!("cannot be described: {e}"),
    })?;
    let mut draft = pool.reserve(&TableSpec {
        name: name.to_owned(),
        data_bytes: data.end,
        content_bytes: (content.to_string().len() + attachment.len()) as u64,
        spread: Spread::Stripe(STRIPE_BYTES),
    })?;
    data.copy_to(draft.bytes_mut());
    Ok(draft.finish(&content, &attachment)?)
}

/// What the planner knows about the columns now. `ANALYZE` may have computed it again.
fn facts(table: &PlacedTable) -> Result<Vec<ColumnFacts>, EngineError> {
    let columns = table.columns().iter();
    match table.has_statistics_of_load() {
        true => Ok(columns.map(|column| column.facts().clone()).collect()),
        false => columns.map(PlacedColumn::measured_facts).collect(),
    }
}

/// The bytes of all columns, in the order of their positions.
#[derive(Default)]
struct Data {
    end: u64,
    buffers: Vec<(u64, Buffer)>,
}

impl Data {
    /// Gives a column its place; returns it.
    fn add(&mut self, column: Positions, bytes: u64) -> Range<u64> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let start = match bytes >= CHUNK_BYTES {
            true => self.end.next_multiple_of(CHUNK_BYTES),
            false => self.end,
        };
        self.end = start + bytes;
        let buffers = column.buffers.into_iter();
        self.buffers
            .extend(buffers.map(|(at, buffer)| (start + at, buffer)));
        start..self.end
    }

    /// Copies the buffers, and clears what lies between them: the pool's memory may hold anything.
    fn copy_to(&self, out: &mut [u8]) {
        let mut filled = 0;
        for (start, buffer) in &self.buffers {
            let start = *start as usize;
            out[filled..start].fill(0);
            filled = start + buffer.len();
            out[start..filled].copy_from_slice(buffer);
        }
        out[filled..].fill(0);
    }
}

fn stored(
    column: &PlacedColumn,
    facts: &ColumnFacts,
    data: &mut Data,
    attachment: &mut Vec<u8>,
) -> Result<StoredColumn, EngineError> {
    // What is in a pool already may not have been used before.
    column.check_rows(0..column.rows())?;
    let mut positions = Positions::default();
    let (form, needed_bytes) = match column.coded() {
        Some(coded) => codes(coded, &mut positions, attachment)?,
        None => {
            let array = StoredArray::of(&column.whole()?.to_data(), &mut positions);
            (StoredForm::Plain(array), 0)
        }
    };
    let end = positions.end().max(needed_bytes);
    Ok(StoredColumn {
        name: column.name().to_owned(),
        nullable: column.nullable(),
        size_bytes: column.size_bytes(),
        bytes: data.add(positions, end),
        form,
        null_count: facts.null_count,
        distinct: DistinctCount::of(facts.distinct),
    })
}

/// The codes with the padding that kernels may read, and their domain.
fn codes(
    column: &CodedColumn,
    positions: &mut Positions,
    attachment: &mut Vec<u8>,
) -> Result<(StoredForm, u64), EngineError> {
    let bytes = column.width().size_bytes(column.rows());
    let used = column.width().bytes() * column.rows();
    positions.add(&crate::column::buffer_of(column.region(), 0, used)?);
    let domain = match column.domain() {
        Domain::Offset { base, last, unit } => StoredDomain::Offset {
            base: *base,
            last: *last,
            unit: *unit,
        },
        Domain::Values(values) => StoredDomain::Values(append(values, attachment)?),
    };
    Ok((StoredForm::Codes(domain), bytes as u64))
}
