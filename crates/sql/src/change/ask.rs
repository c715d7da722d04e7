//! The queries that a change consists of.

use super::super::error::SqlError;
use super::super::run::{CollectedRows, StatementTiming, Watch};
use super::super::session::SqlSession;
use super::extra::ExtraTables;
use arrow::array::{ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::concat;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Expr, Query, SelectItem, SetExpr, Statement as Ast, TableWithJoins,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::time::Instant;

/// A statement that runs: who watches it, and how long its parts took so far.
pub(super) struct Work<'w> {
    pub watch: &'w dyn Watch,
    pub timing: StatementTiming,
}

impl<'w> Work<'w> {
    /// `start` is when the statement was begun.
    pub fn since(start: Instant, watch: &'w dyn Watch) -> Self {
        Work {
            watch,
            timing: StatementTiming {
                planning: start.elapsed(),
                ..StatementTiming::default()
            },
        }
    }

    /// Counts the time since `from` as running.
    pub fn ran(&mut self, from: Instant) {
        self.timing.running += from.elapsed();
    }
}

impl SqlSession {
    /// Runs a query that sees `extra`, and keeps its rows.
    pub(super) fn ask(
        &mut self,
        query: Query,
        extra: ExtraTables,
        work: &mut Work<'_>,
    ) -> Result<CollectedRows, SqlError> {
        let planning = Instant::now();
        let parsed = Parsed::Statement(Box::new(Ast::Query(Box::new(query))));
        let logical = self.planner().logical_with(parsed, extra)?;
        let plan = self.planner().plan_of(logical, work.watch)?;
        work.timing.planning += planning.elapsed();
        let mut rows = CollectedRows::default();
        self.stream(&plan, &mut rows, work.watch, &mut work.timing)?;
        Ok(rows)
    }
}

impl CollectedRows {
    /// All values of a column.
    pub(in super::super) fn column(&self, index: usize) -> Result<ArrayRef, SqlError> {
        let chunks: Vec<&dyn arrow::array::Array> = self
            .batches
            .iter()
            .map(|batch| batch.column(index).as_ref())
            .collect();
        match (chunks.as_slice(), &self.schema) {
            ([], Some(schema)) => Ok(new_empty_array(schema.field(index).data_type())),
            ([], None) => Err(SqlError::failed("a query without columns")),
            (several, _) => concat(several).map_err(SqlError::failed),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Parses a query made by this program, in which names are in double quotes.
pub(super) fn query(text: &str) -> Result<Query, SqlError> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
    let query = parser.and_then(|mut parser| parser.parse_query());
    query.map(|query| *query).map_err(SqlError::failed)
}

/// `SELECT projection FROM from WHERE selection`.
pub(super) fn select(
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Result<Query, SqlError> {
    let mut query = query("SELECT 1")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = projection;
        select.from = from;
        select.selection = selection;
    }
    Ok(query)
}
