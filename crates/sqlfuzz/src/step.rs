//! Statements as text, in the dialects of the engines.

use crate::ast::{Dialect, Statement};

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
    /// Creates or drops a view, or drops a table.
    Define,
    /// Runs on Tierloom only.
    Own,
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
            Statement::CreateView { .. } | Statement::Drop { .. } => step,
            Statement::Own(_) => Step {
                does: Does::Own,
                duck: None,
                ..step
            },
        }
    }
}
