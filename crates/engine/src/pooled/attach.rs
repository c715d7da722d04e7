//! Makes a table of one in a pool, over its mapped bytes.

use super::content::{
    Content, READ_FORMATS, StoredColumn, StoredDomain, StoredForm, array, bounds_at, contradiction,
    schema_at,
};
use super::{Guard, Guarded, VerifiedBytes};
use crate::EngineError;
use crate::coded::{CodedColumn, Domain};
use crate::column::{ColumnFacts, PlacedColumn};
use crate::table::PlacedTable;
use arrow::datatypes::DataType;
use serde_json::Value;
use std::sync::Arc;
use tierloom_pool::{Attached, Pool};

/// When the bytes of a table are checked against its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verification {
    /// Where they are first used.
    #[default]
    FirstUse,
    /// All, when the table is attached.
    All,
    /// Not at all: only what describes the table is checked.
    Manifest,
}

/// A table of a pool that is attached.
#[derive(Debug, Clone)]
pub struct PooledTable {
    table: Arc<PlacedTable>,
    attached: Arc<Attached>,
    note: Value,
}

/// Attaches the table `name` of a pool: no byte of its data is copied, and none is read but by
/// [`Verification::All`].
///
/// # Errors
/// [`EngineError::Pool`] if there is no such table or it is damaged; [`EngineError::Table`] if it
/// was written in another column format.
pub fn attach(
    pool: &Pool,
    name: &str,
    verification: Verification,
) -> Result<PooledTable, EngineError> {
    let attached = Arc::new(pool.attach(name)?);
    let format = &attached.content()["column_format"];
    let number = format
        .as_u64()
        .and_then(|number| u32::try_from(number).ok());
    if number.is_none_or(|number| !READ_FORMATS.contains(&number)) {
        return Err(EngineError::Table {
            table: name.to_owned(),
            problem: format!(
                "has column format {format} in the pool, and this version reads {} to {}; load it \
                 again",
                READ_FORMATS.start(),
                READ_FORMATS.end()
            ),
        });
    }
    let content: Content = serde::Deserialize::deserialize(attached.content())
        .map_err(|e| contradiction(&format!("{name} is described wrongly: {e}")))?;
    if verification == Verification::All {
        attached.verify_all()?;
    }
    let schema = schema_at(attached.attachment(), &content.schema)?;
    let columns = content.columns.len();
    let bounds = bounds_at(attached.attachment(), content.bounds.as_ref(), columns)?;
    if schema.fields().len() != columns {
        return Err(contradiction("has other columns than types"));
    }
    let maker = ColumnMaker {
        table: name,
        attached: &attached,
        rows: content.rows as usize,
        believe: verification != Verification::FirstUse,
    };
    let columns = content.columns.into_iter().zip(schema.fields()).zip(bounds);
    let columns = columns.map(|((stored, field), bounds)| {
        let facts = stored.facts(bounds);
        maker.column(stored, field.data_type(), facts)
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(PooledTable {
        table: Arc::new(PlacedTable::new(name, columns)?),
        attached,
        note: content.note,
    })
}

struct ColumnMaker<'a> {
    table: &'a str,
    attached: &'a Arc<Attached>,
    rows: usize,
    believe: bool,
}

impl ColumnMaker<'_> {
    fn column(
        &self,
        stored: StoredColumn,
        data_type: &DataType,
        facts: ColumnFacts,
    ) -> Result<PlacedColumn, EngineError> {
        let name = format!("{}.{}", self.table, stored.name);
        let region = Arc::new(self.attached.region(&name, stored.bytes.clone())?);
        let guard = |fixed| {
            let attached = Arc::clone(self.attached);
            Arc::new(Guard::new(
                attached,
                stored.bytes.clone(),
                fixed,
                self.believe,
            ))
        };
        match stored.form {
            StoredForm::Plain(array) => {
                if array.rows() != self.rows {
                    return Err(contradiction("has columns of different lengths"));
                }
                let guard = guard(array.fixed(data_type));
                let array = Guarded::stored(guard, data_type.clone(), array, Arc::clone(&region));
                let (nullable, size_bytes) = (stored.nullable, stored.size_bytes);
                let name = &stored.name;
                Ok(PlacedColumn::guarded(
                    name, array, nullable, size_bytes, region, facts,
                ))
            }
            StoredForm::Codes(domain) => {
                let domain = match domain {
                    StoredDomain::Offset { base, last, unit } => {
                        Domain::Offset { base, last, unit }
                    }
                    StoredDomain::Values(at) => {
                        Domain::Values(array(self.attached.attachment(), &at)?)
                    }
                };
                let data_type = data_type.clone();
                let nullable = stored.nullable;
                let column =
                    CodedColumn::new(&name, data_type, region, self.rows, nullable, domain)?;
                let guard = guard(Some((0, column.width().bytes() as u64)));
                Ok(PlacedColumn::guarded_codes(
                    &stored.name,
                    column,
                    guard,
                    facts,
                ))
            }
        }
    }
}

impl PooledTable {
    /// The table over the pool's memory, which stays attached as long as anything of it is used.
    pub fn table(&self) -> &Arc<PlacedTable> {
        &self.table
    }

    /// The pool's view of it.
    pub fn attached(&self) -> &Arc<Attached> {
        &self.attached
    }

    /// Checks all data, with all CPUs.
    ///
    /// # Errors
    /// [`EngineError::Pool`] for bytes that are not those that were sealed.
    pub fn verify_all(&self) -> Result<(), EngineError> {
        Ok(self.attached.verify_all()?)
    }

    /// How much of its data was checked.
    pub fn verified(&self) -> VerifiedBytes {
        VerifiedBytes::of(&self.attached, 0..self.attached.bytes().len() as u64)
    }

    /// What was said about it when it was written.
    pub fn note(&self) -> &Value {
        &self.note
    }
}
