//! Statements as text, in the dialects of the engines.

use crate::ast::{Change, Dialect, Statement, where_sql};
use serde::{Deserialize, Serialize};

/// A statement as text, with what is needed to compare its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The kind of statement.
    pub does: Does,
    /// The text for Tierloom and DataFusion.
    pub sql: String,
    /// The text for DuckDB; `None` if DuckDB must not run it.
    pub duck: Option<String>,
    /// For each column, whether its last digits depend on the order of additions.
    pub inexact: Vec<bool>,
    /// Whether the query has a total order, so that rows are compared in order.
    pub ordered: bool,
}

/// The kinds of statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// Returns rows, which are compared.
    Query,
    /// Creates the table of this name from the rows of this query.
    CreateTable(String, String),
    /// Changes the rows of the table of this name.
    Change(String, ChangeText),
    /// Creates or drops a view, or drops a table.
    Define,
    /// Runs on Tierloom only.
    Own,
}

/// A change of a table's rows, as parts of statements in DataFusion's dialect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeText {
    /// Adds the rows of a query.
    Insert {
        /// The columns that get values.
        columns: Vec<String>,
        /// The query.
        rows: String,
    },
    /// Removes rows.
    Delete {
        /// The clause `WHERE`, if there is one.
        filter: String,
    },
    /// Changes rows.
    Update {
        /// Columns and their new values.
        set: Vec<(String, String)>,
        /// The clause `WHERE`, if there is one.
        filter: String,
    },
}

impl ChangeText {
    fn of(change: &Change) -> ChangeText {
        let dialect = Dialect::DataFusion;
        match change {
            Change::Insert { columns, rows } => ChangeText::Insert {
                columns: columns.clone(),
                rows: rows.sql(dialect),
            },
            Change::Delete { filters } => ChangeText::Delete {
                filter: where_sql(filters, dialect),
            },
            Change::Update { set, filters } => ChangeText::Update {
                set: set
                    .iter()
                    .map(|(c, v)| (c.clone(), v.sql(dialect)))
                    .collect(),
                filter: where_sql(filters, dialect),
            },
        }
    }
}

impl Step {
    /// Prints a statement in both dialects.
    pub fn of(statement: &Statement) -> Step {
        let sql = statement.sql(Dialect::DataFusion);
        let in_duck = Some(statement.sql(Dialect::DuckDb));
        let step = Step {
            does: Does::Define,
            sql,
            duck: in_duck,
            inexact: vec![],
            ordered: false,
        };
        match statement {
            Statement::Query { query, duck } => Step {
                does: Does::Query,
                duck: step.duck.filter(|_| *duck),
                inexact: query.inexact(),
                ordered: query.order.len() >= query.items().len(),
                ..step
            },
            Statement::CreateTable { name, query } => {
                let rows = query.sql(Dialect::DataFusion);
                Step {
                    does: Does::CreateTable(name.clone(), rows),
                    ..step
                }
            }
            Statement::Change { name, change, duck } => Step {
                does: Does::Change(name.clone(), ChangeText::of(change)),
                duck: step.duck.filter(|_| *duck),
                ..step
            },
            Statement::CreateView { .. } | Statement::Drop { .. } => step,
            Statement::Own(_) => Step {
                does: Does::Own,
                duck: None,
                ..step
            },
        }
    }
}
