//! `INSERT ... ON CONFLICT`: rows whose key the table has already are left out, or change it.

use super::super::error::SqlError;
use super::super::session::SqlSession;
use super::ask::{Work, query, select};
use super::extra::ExtraTables;
use super::insert::{NewRows, batch};
use super::numbered::{NUMBERED, numbered_rows};
use super::returning::{Changed, Meant, Returning};
use super::rows::{assigning, new_values, replaced};
use super::rules::{Key, name_of};
use super::target::{Target, quoted};
use super::verify::{names, rows_provider};
use super::version::Replaced;
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, DoUpdate, Ident, OnConflict, OnConflictAction, Query, SetExpr,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Name of the rows that were to be inserted, as PostgreSQL has it.
const EXCLUDED: &str = "excluded";

/// Name of the column of their numbers.
const NUMBER: &str = "tierloom number";

impl SqlSession {
    /// Inserts rows with what the statement says of those whose keys are there.
    pub(super) fn insert_unless(
        &mut self,
        target: &Target,
        rows: NewRows,
        conflict: &OnConflict,
        returning: Returning<'_>,
        work: &mut Work<'_>,
    ) -> Result<Changed, SqlError> {
        let keys = keys_of(target, conflict)?;
        match &conflict.action {
            OnConflictAction::DoNothing => {
                let there = self.there(target, &rows, &keys, work)?;
                let stays = first_of_each(target, &keys, &rows, &there)?;
                let rows = without(rows, &stays)?;
                self.append(target, rows, returning, work)
            }
            OnConflictAction::DoUpdate(update) => {
                let [key] = keys.as_slice() else {
                    return Err(SqlError::input(
                        "ON CONFLICT DO UPDATE takes the columns of one key: ON CONFLICT (column)",
                    ));
                };
                self.insert_or_update(target, rows, (key, update), returning, work)
            }
        }
    }

    fn insert_or_update(
        &mut self,
        target: &Target,
        rows: NewRows,
        (key, update): (&Key, &DoUpdate),
        returning: Returning<'_>,
        work: &mut Work<'_>,
    ) -> Result<Changed, SqlError> {
        let keys = [key.clone()];
        let there = self.there(target, &rows, &keys, work)?;
        let firsts = first_of_each(target, &keys, &rows, &vec![false; rows.count])?;
        if firsts.iter().any(|is_first| !is_first) {
            return Err(SqlError::input(format!(
                "ON CONFLICT DO UPDATE cannot change a row of table {} twice; two of the new rows \
                 have the same {}",
                target.name,
                key.columns.join(", ")
            )));
        }
        let changed = self.changes(target, &rows, (key, update), &returning.alias, work)?;
        let is_new: Vec<bool> = there.iter().map(|is_there| !is_there).collect();
        let rows = without(rows, &is_new)?;
        let mut positions: Vec<u64> = changed.rows.iter().map(|(row, _)| *row).collect();
        let count = positions.len() + rows.count;
        let before = target.table.all_rows() as u64;
        positions.extend(before..before + rows.count as u64);
        let mut next = Arc::clone(&target.table);
        if !changed.rows.is_empty() {
            next = self.with_changed(target, &changed, work.watch)?;
            let fields = target.schema().fields();
            let columns = changed.columns.iter();
            let names = columns.map(|new| fields[new.column].name().as_str());
            self.verify_next(target, &next, &names.collect::<Vec<_>>(), work)?;
        }
        if rows.count > 0 {
            let changed = Target {
                name: target.name.clone(),
                short: target.short.clone(),
                table: next,
                rules: Arc::clone(&target.rules),
            };
            self.verify_new(&changed, &rows, work)?;
            next = self.with_new(&changed, rows, work)?;
        }
        let returned = self.returned(returning, &next, Meant::At(positions), work)?;
        if count > 0 {
            self.swap(&target.name, next, Arc::clone(&target.rules))?;
        }
        let rows = count as u64;
        Ok(Changed { rows, returned })
    }

    /// Which of the new rows have a key that the table has.
    fn there(
        &mut self,
        target: &Target,
        rows: &NewRows,
        keys: &[Key],
        work: &mut Work<'_>,
    ) -> Result<Vec<bool>, SqlError> {
        let mut there = vec![false; rows.count];
        for key in keys {
            let alias = quoted("o");
            let number = format!("{EXCLUDED}.{}", quoted(NUMBER));
            let asked = query(&format!("SELECT {number} FROM {}", pairs(key, &alias)))?;
            let found = self.ask(asked, tables(target, rows)?, work)?;
            for number in found.column(0)?.as_primitive::<UInt64Type>().values() {
                there[*number as usize] = true;
            }
        }
        Ok(there)
    }

    /// What the rows that are there get.
    fn changes(
        &mut self,
        target: &Target,
        rows: &NewRows,
        (key, update): (&Key, &DoUpdate),
        alias: &Ident,
        work: &mut Work<'_>,
    ) -> Result<Replaced, SqlError> {
        let values = new_values(target, &update.assignments)?;
        let from: Query = query(&format!("SELECT 1 FROM {}", pairs(key, alias)))?;
        let SetExpr::Select(from) = *from.body else {
            return Err(SqlError::failed("a query without FROM"));
        };
        let projection = assigning(alias, &values);
        let asked = select(projection, from.from, update.selection.clone())?;
        let found = self.ask(asked, tables(target, rows)?, work)?;
        replaced(target, &values, &found)
    }
}

/// The keys that a statement names, all of the table's if it names none.
fn keys_of(target: &Target, conflict: &OnConflict) -> Result<Vec<Key>, SqlError> {
    let keys = &target.rules.keys;
    let named = |is_named: &dyn Fn(&Key) -> bool, words: String| {
        let found: Vec<Key> = keys.iter().filter(|key| is_named(key)).cloned().collect();
        match found.is_empty() {
            true => Err(SqlError::input(format!(
                "table {} has no primary or unique key {words} for ON CONFLICT",
                target.name
            ))),
            false => Ok(found),
        }
    };
    match &conflict.conflict_target {
        None => Ok(keys.clone()),
        Some(ConflictTarget::Columns(columns)) => {
            let columns: Vec<String> = columns.iter().map(name_of).collect();
            let same: HashSet<&String> = columns.iter().collect();
            let words = format!("({})", columns.join(", "));
            named(
                &|key| key.columns.iter().collect::<HashSet<_>>() == same,
                words,
            )
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let words = name.to_string();
            let wanted = words.trim_matches('"').to_owned();
            named(&|key| key.name == wanted, words)
        }
    }
}

/// `numbered AS alias JOIN excluded ON` the columns of a key.
fn pairs(key: &Key, alias: &Ident) -> String {
    let (new, old) = (
        names(key, &format!("{EXCLUDED}.")),
        names(key, &format!("{alias}.")),
    );
    let equal: Vec<String> = new
        .iter()
        .zip(&old)
        .map(|(new, old)| format!("{new} = {old}"))
        .collect();
    format!(
        "{} AS {alias} JOIN {} AS {EXCLUDED} ON {}",
        ExtraTables::name(NUMBERED),
        ExtraTables::name(EXCLUDED),
        equal.join(" AND ")
    )
}

/// The rows of the table with their positions, and the new ones with their numbers.
fn tables(target: &Target, rows: &NewRows) -> Result<ExtraTables, SqlError> {
    let new = batch(target, rows)?;
    let mut fields: Vec<Arc<Field>> = new.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(NUMBER, DataType::UInt64, false)));
    let mut columns = new.columns().to_vec();
    columns.push(Arc::new(UInt64Array::from_iter_values(
        0..rows.count as u64,
    )));
    let numbered = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    let extra = numbered_rows(&target.table)?;
    extra.add(
        EXCLUDED,
        rows_provider(numbered.map_err(SqlError::failed)?)?,
    )?;
    Ok(extra)
}

/// For each new row, whether it stays: the table has none of its keys (`there`), and neither has a
/// row before it that stays. A key with a NULL is equal to none.
fn first_of_each(
    target: &Target,
    keys: &[Key],
    new: &NewRows,
    there: &[bool],
) -> Result<Vec<bool>, SqlError> {
    let mut of_keys = Vec::new();
    for key in keys {
        let indices = key.columns.iter().map(|column| target.index_of(column));
        let columns = indices.map(|index| Ok(Arc::clone(&new.columns[index?])));
        let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
        let fields = columns
            .iter()
            .map(|c| SortField::new(c.data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(SqlError::failed)?;
        let rows = converter.convert_columns(&columns);
        of_keys.push((columns, rows.map_err(SqlError::failed)?, HashSet::new()));
    }
    let mut stays = Vec::with_capacity(there.len());
    for (row, is_there) in there.iter().enumerate() {
        let is_null = |columns: &[ArrayRef]| columns.iter().any(|column| column.is_null(row));
        let is_taken = of_keys.iter().any(|(columns, rows, taken)| {
            !is_null(columns) && taken.contains(rows.row(row).as_ref())
        });
        let is_first = !is_there && !is_taken;
        if is_first {
            for (columns, rows, taken) in &mut of_keys {
                if !is_null(columns) {
                    taken.insert(rows.row(row).as_ref().to_vec());
                }
            }
        }
        stays.push(is_first);
    }
    Ok(stays)
}

/// The rows that stay.
fn without(rows: NewRows, stays: &[bool]) -> Result<NewRows, SqlError> {
    let stays = BooleanArray::from(stays.to_vec());
    let columns = rows.columns.iter().map(|column| filter(column, &stays));
    let columns = columns.collect::<Result<Vec<_>, _>>();
    Ok(NewRows {
        columns: columns.map_err(SqlError::failed)?,
        count: stays.true_count(),
    })
}
