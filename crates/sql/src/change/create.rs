//! `CREATE TABLE t (columns) [AS query]`.

use super::super::catalog::check_names;
use super::super::error::SqlError;
use super::super::session::SqlSession;
use super::super::storage::Home;
use super::super::tables::check_either;
use super::ask::Work;
use super::declared::rules_of;
use super::rules::Rules;
use super::target::{Target, reference};
use super::verify::provider;
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{ColumnDef, CreateTable, Statement as Ast};
use std::sync::Arc;

impl SqlSession {
    /// Makes a table of declared columns; the message says what was made.
    pub(super) fn create_declared(
        &mut self,
        table: &CreateTable,
        work: &mut Work<'_>,
    ) -> Result<String, SqlError> {
        let named = reference(&table.name)?;
        let name = self.catalog.key(&named)?;
        check_either(table.or_replace, table.if_not_exists)?;
        if table.if_not_exists && self.catalog.get(&name).is_some() {
            return Ok(format!("table {name} exists already"));
        }
        self.catalog.check_new_name(&name, table.or_replace)?;
        let schema = self.declared_schema(table)?;
        check_names(schema.fields().iter().map(|field| field.name()))?;
        let mut rules = rules_of(named.table(), &table.columns, &table.constraints)?;
        rules.levels = self.running.levels;
        rules.owner = self.running.owner;
        let table_name = (name.as_str(), named.table());
        let target = self.new_target(table_name, &schema, rules, work)?;
        self.check_declared(&target, work)?;
        let made = match &table.query {
            None => Arc::clone(&target.table),
            Some(query) => {
                let columns: Vec<usize> = (0..schema.fields().len()).collect();
                let rows = self.rows_of(&target, &columns, query.as_ref().clone(), work)?;
                self.verify_new(&target, &rows, work)?;
                self.with_new(&target, rows, work)?
            }
        };
        let count = made.all_rows();
        self.register(&name, made, work.watch)?;
        self.catalog.set_rules(&name, target.rules);
        Ok(format!("table {name}: {count} rows"))
    }

    /// The columns of a declaration, in the types that the planner makes of them.
    fn declared_schema(&self, table: &CreateTable) -> Result<SchemaRef, SqlError> {
        let mut plain = table.clone();
        plain.query = None;
        plain.constraints.clear();
        for column in &mut plain.columns {
            column.options.clear();
        }
        let parsed = Parsed::Statement(Box::new(Ast::CreateTable(plain)));
        match self.planner().logical(parsed)? {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(made)) => {
                Ok(Arc::clone(made.input.schema().inner()))
            }
            _ => Err(SqlError::failed(
                "CREATE TABLE was planned as something else",
            )),
        }
    }

    /// The type of one more column of a table.
    pub(super) fn declared_column(
        &self,
        like: &CreateTable,
        column: &ColumnDef,
    ) -> Result<SchemaRef, SqlError> {
        let mut table = like.clone();
        table.columns = vec![column.clone()];
        self.declared_schema(&table)
    }

    /// A table without rows that nobody can find yet.
    fn new_target(
        &self,
        (name, short): (&str, &str),
        schema: &SchemaRef,
        rules: Rules,
        work: &Work<'_>,
    ) -> Result<Target, SqlError> {
        let no_rows = std::iter::empty();
        let (table, _) = self.table_of(name, schema, no_rows, Home::Temp, work.watch)?;
        Ok(Target {
            name: name.to_owned(),
            short: short.to_owned(),
            table,
            rules: Arc::new(rules),
        })
    }

    /// Tries the defaults and checks of a table, so that wrong ones fail now.
    pub(super) fn check_declared(
        &mut self,
        target: &Target,
        work: &mut Work<'_>,
    ) -> Result<(), SqlError> {
        for (column, default) in &target.rules.defaults {
            let index = target.index_of(column)?;
            let data_type = target.schema().field(index).data_type().clone();
            self.defaults(default.clone(), column, &data_type, 1, work)?;
        }
        let rules = Arc::clone(&target.rules);
        self.check_conditions(target, &rules.checks, &provider(&target.table), work)
    }
}
