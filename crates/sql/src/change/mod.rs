//! Statements that change tables: `INSERT`, `DELETE`, `UPDATE`, `TRUNCATE`, `ALTER TABLE`, `CREATE
//! TABLE` with columns; and schemas.
//!
//! ```text
//!   syntax tree ──► rows that are meant, and their values   (a query over the version before)
//!                      │ assigned: types of the columns
//!                      │ verify:   NOT NULL, keys, checks
//!                      ▼
//!                   a new version ── swap ──► catalog ──► plans, views and sessions from now on
//! ```
//! A version is made beside the one before and takes its place in one step, so a statement takes
//! effect whole or not at all, and what reads the table meanwhile reads one version. Statements
//! that change the same table run one after the other (`shared.rs`).

mod alter;
mod ask;
mod assign;
mod conflict;
mod create;
mod declared;
mod extra;
mod insert;
mod literals;
mod numbered;
mod returning;
mod rows;
mod rules;
mod schemas;
mod spelling;
mod target;
mod verify;
mod version;

use super::error::SqlError;
use super::run::{Outcome, Sink, Watch, said};
use super::session::SqlSession;
use ask::Work;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{ColumnDef, CreateTable, ObjectType, Statement as Ast};
use std::sync::Arc;
use std::time::Instant;
use target::quoted;

pub(super) use assign::assigned;
pub(super) use extra::ExtraTables;
pub(super) use returning::returns;
pub(super) use rules::Rules;

/// Whether a statement is one of those that [`SqlSession::change`] runs.
pub(super) fn is_change(parsed: &Parsed) -> bool {
    let Parsed::Statement(ast) = parsed else {
        return false;
    };
    match ast.as_ref() {
        Ast::Insert(_)
        | Ast::Delete(_)
        | Ast::Update(_)
        | Ast::Truncate(_)
        | Ast::AlterTable(_)
        | Ast::CreateSchema { .. } => true,
        Ast::Drop { object_type, .. } => *object_type == ObjectType::Schema,
        Ast::CreateTable(table) => has_rules(table),
        _ => false,
    }
}

/// Whether a table is declared with columns. DataFusion plans those of a query, if all that is said
/// of them are their types.
fn has_rules(table: &CreateTable) -> bool {
    let declared = |column: &ColumnDef| {
        !column.options.is_empty() || declared::most_chars(&column.data_type).is_some()
    };
    let without_query = table.query.is_none() && !table.columns.is_empty();
    without_query || !table.constraints.is_empty() || table.columns.iter().any(declared)
}

impl SqlSession {
    /// Runs a statement that changes a table; the caller holds the names of its tables.
    pub(super) fn change(
        &mut self,
        parsed: &Parsed,
        start: Instant,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        let parsed = self.spelled(parsed)?;
        let mut work = Work::since(start, watch);
        let Parsed::Statement(ast) = parsed else {
            return Err(SqlError::input("expected a statement that changes a table"));
        };
        let (rows, message) = match ast.as_ref() {
            Ast::Insert(insert) => {
                counted(self.insert(insert, &mut work)?.deliver(sink)?, "inserted")
            }
            Ast::Delete(delete) => {
                counted(self.delete(delete, &mut work)?.deliver(sink)?, "deleted")
            }
            Ast::Update(update) => {
                counted(self.update(update, &mut work)?.deliver(sink)?, "updated")
            }
            Ast::Truncate(truncate) => {
                let names = self.truncate(truncate, &mut work)?;
                (None, format!("emptied {}", names.join(", ")))
            }
            Ast::AlterTable(alter) => (None, self.alter(alter, &mut work)?),
            Ast::CreateSchema {
                schema_name,
                if_not_exists,
                ..
            } => (None, self.create_schema(schema_name, *if_not_exists)?),
            Ast::Drop {
                names,
                if_exists,
                cascade,
                ..
            } => (None, self.drop_schemas(names, *if_exists, *cascade)?),
            Ast::CreateTable(table) => (None, self.create_declared(table, &mut work)?),
            _ => {
                return Err(SqlError::input("expected a statement that changes a table"));
            }
        };
        Ok(Outcome {
            rows,
            message: Some(message),
            timing: work.timing,
        })
    }

    /// `VACUUM table`: all rows into contiguous columns, as all operators take them.
    pub(super) fn vacuum(
        &mut self,
        table: &str,
        start: Instant,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        let _held = self.shared.hold(vec![table.to_owned()], watch)?;
        let target = self.target(&quoted(table).into())?;
        let groups = target.table.groups().count();
        if groups > 1 {
            let next = self.in_one_group(&target, watch)?;
            self.swap(table, next, Arc::clone(&target.rules))?;
        }
        let rows = target.table.all_rows();
        let word = if groups == 1 { "group" } else { "groups" };
        Ok(said(
            format!("table {table}: {rows} rows, from {groups} {word} into one"),
            start,
        ))
    }
}

fn counted(rows: u64, done: &str) -> (Option<u64>, String) {
    let word = if rows == 1 { "row" } else { "rows" };
    (Some(rows), format!("{rows} {word} {done}"))
}

/// Refuses the first part of a statement that is given and not known here.
fn refuse(parts: &[(bool, &str)], statement: &str) -> Result<(), SqlError> {
    match parts.iter().find(|(given, _)| *given) {
        Some((_, what)) => Err(SqlError::input(format!(
            "{statement} with {what} is not supported"
        ))),
        None => Ok(()),
    }
}
