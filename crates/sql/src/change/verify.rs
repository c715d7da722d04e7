//! Checks rows against the rules of their table before anybody can find them.

use super::super::error::SqlError;
use super::super::session::SqlSession;
use super::ask::{Work, query};
use super::extra::ExtraTables;
use super::rules::{Check, Key};
use super::target::{Target, quoted};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{Expr, SetExpr, UnaryOperator};
use std::sync::Arc;
use tierloom_engine::{PlacedTable, PlacedTableProvider};

/// Name of the rows that are checked, in the queries that do it.
const ROWS: &str = "rows";

/// Name of the table that they come into.
const BEFORE: &str = "before";

/// A version that nobody has yet, as a table of a query.
pub(super) fn provider(table: &Arc<PlacedTable>) -> Arc<dyn TableProvider> {
    Arc::new(PlacedTableProvider::new(Arc::clone(table)))
}

/// Rows as a table of a query.
pub(super) fn rows_provider(rows: RecordBatch) -> Result<Arc<dyn TableProvider>, SqlError> {
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]]);
    Ok(Arc::new(table.map_err(|e| SqlError::running(&e))?))
}

/// Refuses NULLs in a column that has none, and texts that are longer than it takes.
pub(super) fn check_values(
    target: &Target,
    column: &str,
    values: &ArrayRef,
) -> Result<(), SqlError> {
    if target.rules.not_null.contains(column) && values.logical_null_count() > 0 {
        return Err(SqlError::input(format!(
            "table {}: NULL violates NOT NULL of column {column}",
            target.name
        )));
    }
    match target.rules.most_chars.get(column) {
        Some(most) => check_lengths(target, column, values, *most),
        None => Ok(()),
    }
}

fn check_lengths(
    target: &Target,
    column: &str,
    values: &ArrayRef,
    most: u64,
) -> Result<(), SqlError> {
    let text = cast(values, &DataType::Utf8);
    let text = text.map_err(SqlError::failed)?;
    let text: &StringArray = text.as_string();
    let mut texts = text.iter().flatten();
    match texts.find(|text| text.chars().count() as u64 > most) {
        Some(long) => Err(SqlError::input(format!(
            "table {}: a text of {} characters is too long for column {column}, which takes {most}",
            target.name,
            long.chars().count()
        ))),
        None => Ok(()),
    }
}

impl SqlSession {
    /// Refuses rows for which a check of the table is false.
    pub(super) fn check_conditions(
        &mut self,
        target: &Target,
        checks: &[Check],
        rows: &Arc<dyn TableProvider>,
        work: &mut Work<'_>,
    ) -> Result<(), SqlError> {
        for check in checks {
            let text = format!(
                "SELECT 1 FROM {} AS {} WHERE true LIMIT 1",
                ExtraTables::name(ROWS),
                quoted(&target.short)
            );
            let mut query = query(&text)?;
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.selection = Some(Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(Expr::Nested(Box::new(check.condition.clone()))),
                });
            }
            let extra = ExtraTables::of(ROWS, Arc::clone(rows))?;
            let before = self.running.levels;
            self.running.levels += target.rules.levels;
            let found = self.ask(query, extra, work);
            self.running.levels = before;
            if found?.count() > 0 {
                return Err(SqlError::input(format!(
                    "table {}: a row violates CHECK constraint {} ({})",
                    target.name, check.name, check.condition
                )));
            }
        }
        Ok(())
    }

    /// Refuses rows of which two have the same key.
    pub(super) fn check_unique(
        &mut self,
        target: &Target,
        keys: &[Key],
        rows: &Arc<dyn TableProvider>,
        work: &mut Work<'_>,
    ) -> Result<(), SqlError> {
        for key in keys {
            let names = names(key, "");
            let known: Vec<String> = names.iter().map(|n| format!("{n} IS NOT NULL")).collect();
            let list = names.join(", ");
            let text = format!(
                "SELECT {list} FROM {} WHERE {} GROUP BY {list} HAVING count(*) > 1 LIMIT 1",
                ExtraTables::name(ROWS),
                known.join(" AND ")
            );
            let extra = ExtraTables::of(ROWS, Arc::clone(rows))?;
            self.refuse_any(target, key, &text, extra, work)?;
        }
        Ok(())
    }

    /// Refuses new rows whose keys the table has.
    pub(super) fn check_new_keys(
        &mut self,
        target: &Target,
        rows: &Arc<dyn TableProvider>,
        work: &mut Work<'_>,
    ) -> Result<(), SqlError> {
        for key in &target.rules.keys {
            let (new, old) = (names(key, "n."), names(key, "o."));
            let pairs = new.iter().zip(&old);
            let equal: Vec<String> = pairs.map(|(n, o)| format!("{n} = {o}")).collect();
            let text = format!(
                "SELECT {} FROM {} AS n JOIN {} AS o ON {} LIMIT 1",
                new.join(", "),
                ExtraTables::name(ROWS),
                ExtraTables::name(BEFORE),
                equal.join(" AND ")
            );
            let extra = ExtraTables::of(ROWS, Arc::clone(rows))?;
            extra.add(BEFORE, provider(&target.table))?;
            self.refuse_any(target, key, &text, extra, work)?;
        }
        Ok(())
    }

    fn refuse_any(
        &mut self,
        target: &Target,
        key: &Key,
        text: &str,
        extra: ExtraTables,
        work: &mut Work<'_>,
    ) -> Result<(), SqlError> {
        let found = self.ask(query(text)?, extra, work)?;
        let twice = found.batches.iter().find(|batch| batch.num_rows() > 0);
        match twice {
            Some(row) => Err(SqlError::input(format!(
                "table {}: ({}) would be there twice, which violates constraint {} ({})",
                target.name,
                first_row(row),
                key.name,
                key.words()
            ))),
            None => Ok(()),
        }
    }
}

/// The columns of a key, quoted, each after `before`.
pub(super) fn names(key: &Key, before: &str) -> Vec<String> {
    let columns = key.columns.iter();
    columns
        .map(|column| format!("{before}{}", quoted(column)))
        .collect()
}

fn first_row(batch: &RecordBatch) -> String {
    let options = FormatOptions::default();
    let values = batch.columns().iter().map(|column| {
        let shown = ArrayFormatter::try_new(column.as_ref(), &options);
        shown.map_or_else(|_| "?".to_owned(), |shown| shown.value(0).to_string())
    });
    values.collect::<Vec<_>>().join(", ")
}
