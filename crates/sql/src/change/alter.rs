//! `ALTER TABLE`: columns, names, defaults and constraints.

use super::super::error::SqlError;
use super::super::planner::Planner;
use super::super::session::SqlSession;
use super::ask::Work;
use super::assign::assigned;
use super::declared::{add_column, add_constraint, check_columns};
use super::rules::{Rules, name_of};
use super::target::{Target, reference};
use super::verify::{check_values, provider};
use arrow::array::{ArrayRef, new_null_array};
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, CreateTable,
    DataType as SqlType, RenameTableNameKind, Statement as Ast,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::sync::Arc;
use tierloom_engine::PlacedTable;
use tierloom_engine::load::{Chunks, MadeColumn, NextColumn};

impl SqlSession {
    /// Changes a table as all operations of a statement say; the message says what was done.
    pub(super) fn alter(
        &mut self,
        alter: &AlterTable,
        work: &mut Work<'_>,
    ) -> Result<String, SqlError> {
        let named = reference(&alter.name)?;
        let name = self.catalog.key(&named)?;
        if alter.if_exists && self.catalog.info(&name).is_none() {
            return Ok(format!("there is no table {name}"));
        }
        if self.views.contains(&name) {
            return self.rename_view(&name, &named, &alter.operations);
        }
        let target = self.target(&alter.name)?;
        let table = self.in_one_group(&target, work.watch)?;
        let mut target = Target { table, ..target };
        let mut renamed = None;
        for operation in &alter.operations {
            match operation {
                AlterTableOperation::RenameTable { table_name } => {
                    renamed = Some(self.new_name(table_name, &named)?);
                }
                other => target = self.altered(target, other, work)?,
            }
        }
        match renamed {
            None => self.swap(&name, target.table, target.rules)?,
            Some(new) => {
                self.rename(&name, &new, &target, work)?;
                return Ok(format!("table {name} is now {new}"));
            }
        }
        Ok(format!("table {name} altered"))
    }

    /// The name that a table gets, in the schema of `old` unless it names another.
    fn new_name(
        &self,
        name: &RenameTableNameKind,
        old: &TableReference,
    ) -> Result<String, SqlError> {
        let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = name;
        let name = match (reference(name)?, old.schema()) {
            (TableReference::Bare { table }, Some(schema)) => {
                TableReference::partial(schema, table)
            }
            (name, _) => name,
        };
        let name = self.catalog.key(&name)?;
        self.catalog.check_new_name(&name, false)?;
        Ok(name)
    }

    /// A view has a name and nothing else to change: its columns are those of its query.
    fn rename_view(
        &mut self,
        name: &str,
        named: &TableReference,
        operations: &[AlterTableOperation],
    ) -> Result<String, SqlError> {
        let [AlterTableOperation::RenameTable { table_name }] = operations else {
            return Err(SqlError::input(format!(
                "{name} is a view, of which ALTER changes only the name (RENAME TO); \
                 CREATE OR REPLACE VIEW changes its query"
            )));
        };
        let new = self.new_name(table_name, named)?;
        let planner = Planner::new(&self.catalog, &self.running);
        self.views.rename(planner, name, &new)?;
        self.bind(name);
        self.bind(&new);
        Ok(format!("view {name} is now {new}"))
    }

    fn rename(
        &mut self,
        old: &str,
        new: &str,
        target: &Target,
        work: &mut Work<'_>,
    ) -> Result<(), SqlError> {
        let columns = target.table.columns().to_vec();
        let table = Arc::new(PlacedTable::new(new, columns)?);
        self.register(new, table, work.watch)?;
        self.catalog.set_rules(new, Arc::clone(&target.rules));
        self.forget(old)?;
        self.bind(old);
        Ok(())
    }

    /// The table after one operation.
    fn altered(
        &mut self,
        target: Target,
        operation: &AlterTableOperation,
        work: &mut Work<'_>,
    ) -> Result<Target, SqlError> {
        use AlterTableOperation as Op;
        match operation {
            Op::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => {
                let there = target.schema().index_of(&name_of(&column_def.name)).is_ok();
                match there && *if_not_exists {
                    true => Ok(target),
                    false => self.with_column(target, column_def, work),
                }
            }
            Op::DropColumn {
                column_names,
                if_exists,
                ..
            } => {
                let mut target = target;
                for column in column_names {
                    let column = name_of(column);
                    if !*if_exists || target.schema().index_of(&column).is_ok() {
                        target = self.without_column(target, &column, work)?;
                    }
                }
                Ok(target)
            }
            Op::RenameColumn {
                old_column_name,
                new_column_name,
            } => self.with_new_name(
                target,
                &name_of(old_column_name),
                &name_of(new_column_name),
                work,
            ),
            Op::AlterColumn { column_name, op } => {
                self.with_altered(target, &name_of(column_name), op, work)
            }
            other => self.with_constraint(target, other, work),
        }
    }

    fn with_column(
        &mut self,
        target: Target,
        column: &ColumnDef,
        work: &mut Work<'_>,
    ) -> Result<Target, SqlError> {
        let name = name_of(&column.name);
        if target.schema().index_of(&name).is_ok() {
            return Err(SqlError::input(format!(
                "table {} has a column {name} already",
                target.name
            )));
        }
        let schema = self.declared_column(&template()?, column)?;
        let data_type = schema.field(0).data_type().clone();
        let mut rules = target.rules.as_ref().clone();
        rules.levels = rules.levels.max(self.running.levels);
        add_column(&mut rules, &target.short, column)?;
        let rows = target.table.rows();
        let values = match rules.defaults.get(&name) {
            Some(default) => {
                // Also if there are no rows, so that a wrong one is found now.
                let count = rows.max(1);
                let values = self.defaults(default.clone(), &name, &data_type, count, work)?;
                values.slice(0, rows)
            }
            None => new_null_array(&data_type, rows),
        };
        let target = with_rules(target, rules);
        check_values(&target, &name, &values)?;
        let mut columns = kept(&target);
        columns.push(NextColumn::Made(MadeColumn {
            placement: self.placement_of_new(&target, &name)?,
            data_type: values.data_type().clone(),
            name,
            chunks: Box::new(move || Ok(vec![values])),
        }));
        let target = self.next(target, columns, work)?;
        self.check_all(&target, work)?;
        Ok(target)
    }

    fn without_column(
        &mut self,
        target: Target,
        column: &str,
        work: &mut Work<'_>,
    ) -> Result<Target, SqlError> {
        let index = target.index_of(column)?;
        if target.schema().fields().len() == 1 {
            return Err(SqlError::input(format!(
                "{column} is the only column of table {}; DROP TABLE drops it",
                target.name
            )));
        }
        let mut rules = target.rules.as_ref().clone();
        rules.drop_column(column);
        let mut columns = kept(&target);
        columns.remove(index);
        let target = self.next(target, columns, work)?;
        Ok(with_rules(target, rules))
    }

    fn with_new_name(
        &mut self,
        target: Target,
        from: &str,
        to: &str,
        work: &mut Work<'_>,
    ) -> Result<Target, SqlError> {
        let index = target.index_of(from)?;
        if target.schema().index_of(to).is_ok() {
            return Err(SqlError::input(format!(
                "table {} has a column {to} already",
                target.name
            )));
        }
        let mut rules = target.rules.as_ref().clone();
        rules.rename_column(from, to);
        let mut columns = kept(&target);
        columns[index] = NextColumn::Kept(Box::new(target.table.columns()[index].renamed(to)));
        let target = self.next(target, columns, work)?;
        Ok(with_rules(target, rules))
    }

    fn with_altered(
        &mut self,
        target: Target,
        column: &str,
        operation: &AlterColumnOperation,
        work: &mut Work<'_>,
    ) -> Result<Target, SqlError> {
        use AlterColumnOperation as Op;
        target.index_of(column)?;
        let mut rules = target.rules.as_ref().clone();
        match operation {
            Op::SetNotNull => {
                rules.not_null.insert(column.to_owned());
                let target = with_rules(target, rules);
                self.check_column(&target, column)?;
                return Ok(target);
            }
            Op::DropNotNull => {
                if rules
                    .keys
                    .iter()
                    .any(|k| k.primary && k.columns.iter().any(|c| c == column))
                {
                    return Err(SqlError::input(format!(
                        "column {column} is in the primary key of table {}",
                        target.name
                    )));
                }
                rules.not_null.remove(column);
            }
            Op::SetDefault { value } => {
                rules.defaults.insert(column.to_owned(), value.clone());
                rules.levels = rules.levels.max(self.running.levels);
                let target = with_rules(target, rules);
                self.check_declared(&target, work)?;
                return Ok(target);
            }
            Op::DropDefault => {
                rules.defaults.remove(column);
            }
            Op::SetDataType {
                data_type,
                using: None,
                ..
            } => return self.with_type(target, column, data_type, work),
            other => {
                return Err(SqlError::input(format!(
                    "ALTER COLUMN {column} {other} is not known here"
                )));
            }
        }
        Ok(with_rules(target, rules))
    }

    fn with_type(
        &mut self,
        target: Target,
        column: &str,
        data_type: &SqlType,
        work: &mut Work<'_>,
    ) -> Result<Target, SqlError> {
        let index = target.index_of(column)?;
        let declaration = ColumnDef {
            name: super::target::quoted(column),
            data_type: data_type.clone(),
            options: Vec::new(),
        };
        let schema = self.declared_column(&template()?, &declaration)?;
        let wanted = schema.field(0).data_type().clone();
        let mut rules = target.rules.as_ref().clone();
        rules.most_chars.remove(column);
        add_column(&mut rules, &target.short, &declaration)?;
        let target = with_rules(target, rules);
        let values = whole_column(&target, index)?;
        let values = assigned(&values, column, &wanted)?;
        check_values(&target, column, &values)?;
        let mut columns = kept(&target);
        let chunks: Chunks<'_> = {
            let values = Arc::clone(&values);
            Box::new(move || Ok(vec![values]))
        };
        columns[index] = NextColumn::Made(MadeColumn {
            placement: self.placement_of_new(&target, column)?,
            data_type: values.data_type().clone(),
            name: column.to_owned(),
            chunks,
        });
        let target = self.next(target, columns, work)?;
        self.check_declared(&target, work)?;
        self.check_all(&target, work)?;
        Ok(target)
    }

    fn with_constraint(
        &mut self,
        target: Target,
        operation: &AlterTableOperation,
        work: &mut Work<'_>,
    ) -> Result<Target, SqlError> {
        use AlterTableOperation as Op;
        let mut rules = target.rules.as_ref().clone();
        match operation {
            Op::AddConstraint {
                constraint,
                not_valid: false,
            } => {
                add_constraint(&mut rules, &target.short, constraint)?;
                rules.levels = rules.levels.max(self.running.levels);
                let names: Vec<String> = {
                    let fields = target.schema().fields().iter();
                    fields.map(|field| field.name().clone()).collect()
                };
                check_columns(&rules, &target.name, &names)?;
                let target = with_rules(target, rules);
                for column in &target.rules.not_null {
                    self.check_column(&target, column)?;
                }
                self.check_all(&target, work)?;
                Ok(target)
            }
            Op::DropConstraint {
                name, if_exists, ..
            } => {
                let name = name_of(name);
                match rules.drop_constraint(&name) || *if_exists {
                    true => Ok(with_rules(target, rules)),
                    false => Err(SqlError::input(format!(
                        "table {} has no constraint {name}",
                        target.name
                    ))),
                }
            }
            other => Err(SqlError::input(format!(
                "ALTER TABLE ... {other} is not known here; it adds, drops, renames and alters \
                 columns, adds and drops constraints, and renames tables"
            ))),
        }
    }

    /// Refuses a column of the table that violates a rule of its own.
    fn check_column(&self, target: &Target, column: &str) -> Result<(), SqlError> {
        let index = target.index_of(column)?;
        check_values(target, column, &whole_column(target, index)?)
    }

    /// Refuses a table of which rows violate checks and keys.
    fn check_all(&mut self, target: &Target, work: &mut Work<'_>) -> Result<(), SqlError> {
        let rules = Arc::clone(&target.rules);
        let whole = provider(&target.table);
        self.check_conditions(target, &rules.checks, &whole, work)?;
        self.check_unique(target, &rules.keys, &whole, work)
    }

    /// The table with these columns.
    fn next(
        &self,
        target: Target,
        columns: Vec<NextColumn<'_>>,
        work: &Work<'_>,
    ) -> Result<Target, SqlError> {
        let table = self.group(&target, columns, work.watch)?;
        Ok(Target { table, ..target })
    }
}

fn with_rules(target: Target, rules: Rules) -> Target {
    Target {
        rules: Arc::new(rules),
        ..target
    }
}

/// All columns as they are.
fn kept(target: &Target) -> Vec<NextColumn<'static>> {
    let columns = target.table.columns().iter();
    columns
        .map(|column| NextColumn::Kept(Box::new(column.clone())))
        .collect()
}

fn whole_column(target: &Target, index: usize) -> Result<ArrayRef, SqlError> {
    let column = &target.table.columns()[index];
    Ok(column.slice(0, column.rows())?)
}

/// A declaration into which that of a column is put.
fn template() -> Result<CreateTable, SqlError> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql("CREATE TABLE t (a INT)");
    let statement = parser.and_then(|mut parser| parser.parse_statement());
    match statement.map_err(SqlError::failed)? {
        Ast::CreateTable(table) => Ok(table),
        _ => Err(SqlError::failed(
            "CREATE TABLE was parsed as something else",
        )),
    }
}
