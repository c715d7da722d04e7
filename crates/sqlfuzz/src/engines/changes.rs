//! `INSERT`, `DELETE` and `UPDATE` for plain DataFusion, whose tables cannot be changed by all of
//! them: its rows are queried and a new table is made of the answer.

use super::plain::PlainEngine;
use super::{Answer, Rows};
use crate::step::ChangeText;
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array,
    new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options, concat, concat_batches, take};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use std::sync::Arc;
use std::time::Duration;

/// A column that numbers the rows of a table while the rows that are meant are looked for.
const NUMBER: &str = "row_number_of_the_fuzzer";

impl PlainEngine {
    /// Changes the rows of the table `name`.
    pub fn change(&self, name: &str, change: &ChangeText, limit: Duration) -> Answer {
        let before = self.all_rows(name, limit)?;
        let after = match change {
            ChangeText::Insert { columns, rows } => self.inserted(&before, columns, rows, limit)?,
            ChangeText::Delete { filter } => {
                let found = self.meant(name, &before, &[], filter, limit)?;
                let gone = places(&found, before.num_rows());
                let kept = (0_u64..).zip(gone).filter(|(_, new)| new.is_none());
                let kept = UInt64Array::from_iter_values(kept.map(|(row, _)| row));
                let columns = before
                    .columns()
                    .iter()
                    .map(|column| take(column, &kept, None));
                let columns = columns.collect::<Result<Vec<_>, _>>().map_err(text)?;
                batch(&before, columns, kept.len())?
            }
            ChangeText::Update { set, filter } => {
                self.updated(name, &before, set, filter, limit)?
            }
        };
        let schema = after.schema();
        self.register(name, &schema, vec![vec![after]])
            .map_err(text)?;
        Ok(None)
    }

    fn all_rows(&self, name: &str, limit: Duration) -> Result<RecordBatch, String> {
        joined(&self.rows(&format!("SELECT * FROM {name}"), limit)?)
    }

    fn rows(&self, sql: &str, limit: Duration) -> Result<Rows, String> {
        self.query(sql, limit)?
            .ok_or_else(|| "a query has no rows".to_owned())
    }

    fn inserted(
        &self,
        before: &RecordBatch,
        names: &[String],
        rows: &str,
        limit: Duration,
    ) -> Result<RecordBatch, String> {
        let new = joined(&self.rows(rows, limit)?)?;
        if new.num_columns() != names.len() {
            return Err(format!(
                "{} values for {} columns",
                new.num_columns(),
                names.len()
            ));
        }
        let schema = before.schema();
        let columns = schema.fields().iter().zip(before.columns());
        let columns = columns.map(|(field, old)| {
            let values = match names.iter().position(|name| name == field.name()) {
                Some(index) => Arc::clone(new.column(index)),
                None => new_null_array(field.data_type(), new.num_rows()),
            };
            appended(old, &values)
        });
        let columns = columns.collect::<Result<Vec<_>, String>>()?;
        batch(before, columns, before.num_rows() + new.num_rows())
    }

    fn updated(
        &self,
        name: &str,
        before: &RecordBatch,
        set: &[(String, String)],
        filter: &str,
        limit: Duration,
    ) -> Result<RecordBatch, String> {
        let values: Vec<&str> = set.iter().map(|(_, value)| value.as_str()).collect();
        let found = self.meant(name, before, &values, filter, limit)?;
        let rows = before.num_rows();
        let new = places(&found, rows);
        let from = (0..rows).map(|row| new[row].map_or(row, |new| rows + new) as u64);
        let from = UInt64Array::from_iter_values(from);
        let schema = before.schema();
        let columns = schema.fields().iter().zip(before.columns());
        let columns = columns.map(|(field, old)| {
            match set.iter().position(|(column, _)| column == field.name()) {
                Some(index) => {
                    let both = appended(old, found.column(index + 1))?;
                    take(&both, &from, None).map_err(text)
                }
                None => Ok(Arc::clone(old)),
            }
        });
        let columns = columns.collect::<Result<Vec<_>, String>>()?;
        batch(before, columns, rows)
    }

    /// The numbers of the rows that fulfil `filter`, and the given values in them.
    fn meant(
        &self,
        name: &str,
        before: &RecordBatch,
        values: &[&str],
        filter: &str,
        limit: Duration,
    ) -> Result<RecordBatch, String> {
        let numbers = Int64Array::from_iter_values(0..before.num_rows() as i64);
        let mut fields: Vec<Arc<Field>> = before.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(NUMBER, DataType::Int64, true)));
        let mut columns = before.columns().to_vec();
        columns.push(Arc::new(numbers));
        let schema = Arc::new(Schema::new(fields));
        let numbered = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(text)?;
        self.register(name, &schema, vec![vec![numbered]])
            .map_err(text)?;
        let values = (0..)
            .zip(values)
            .map(|(i, value)| format!(", {value} AS v{i}"));
        let values: String = values.collect();
        let found = self.rows(
            &format!("SELECT {name}.{NUMBER} AS n{values} FROM {name}{filter}"),
            limit,
        );
        // The column must not stay, whatever the query did.
        self.register(name, &before.schema(), vec![vec![before.clone()]])
            .map_err(text)?;
        joined(&found?)
    }
}

/// For each row of the table, its position among the rows found.
fn places(found: &RecordBatch, rows: usize) -> Vec<Option<usize>> {
    let mut places = vec![None; rows];
    let numbers = found.column(0).as_primitive::<Int64Type>();
    for (position, number) in numbers.values().iter().enumerate() {
        places[*number as usize] = Some(position);
    }
    places
}

/// `old` and after it `new`, in the type of `old`.
fn appended(old: &ArrayRef, new: &ArrayRef) -> Result<ArrayRef, String> {
    // Words are put together before keys: each array has a dictionary of its own.
    let plain = match old.data_type() {
        DataType::Dictionary(_, words) => words.as_ref().clone(),
        other => other.clone(),
    };
    let new = match new.data_type() {
        DataType::Dictionary(_, words) => cast(new, words)?,
        _ => Arc::clone(new),
    };
    let (first, second) = (cast(old, &plain)?, cast(&new, &plain)?);
    let both = concat(&[first.as_ref(), second.as_ref()]).map_err(text)?;
    cast(&both, old.data_type())
}

fn cast(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    if values.data_type() == &DataType::Null {
        return Ok(new_null_array(to, values.len()));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(values, to, &options).map_err(text)
}

fn joined(rows: &Rows) -> Result<RecordBatch, String> {
    concat_batches(&rows.schema, &rows.batches).map_err(text)
}

/// A batch with the schema of `like`.
fn batch(like: &RecordBatch, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, String> {
    let fields = like.schema();
    let fields = fields.fields().iter();
    let fields = fields.map(|f| f.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
