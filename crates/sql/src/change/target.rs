//! The table that a statement changes.

use super::super::error::SqlError;
use super::super::session::SqlSession;
use super::rules::{Rules, name_of};
use arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use std::sync::Arc;
use tierloom_engine::PlacedTable;

/// A table as it was when the statement began; readers keep it while the statement runs.
pub(super) struct Target {
    /// The name under which it is known.
    pub name: String,
    /// The name without its schema.
    pub short: String,
    pub table: Arc<PlacedTable>,
    pub rules: Arc<Rules>,
}

impl Target {
    pub fn schema(&self) -> &SchemaRef {
        self.table.schema()
    }

    /// The position of a column.
    pub fn index_of(&self, column: &str) -> Result<usize, SqlError> {
        self.schema().index_of(column).map_err(|_| {
            let fields = self.schema().fields().iter();
            let names: Vec<&str> = fields.map(|f| f.name().as_str()).collect();
            SqlError::input(format!(
                "No field named {column} in table {}; it has {}",
                self.name,
                names.join(", ")
            ))
        })
    }
}

impl SqlSession {
    /// Finds a table whose rows or columns a statement changes.
    pub(super) fn target(&self, name: &ObjectName) -> Result<Target, SqlError> {
        let named = reference(name)?;
        let short = named.table().to_owned();
        let name = self.catalog.key(&named)?;
        let Some(table) = self.catalog.get(&name) else {
            return Err(match self.catalog.info(&name) {
                Some(info) if info.kind == "view" => {
                    SqlError::input(format!("{name} is a view; change the tables that it reads"))
                }
                Some(_) => {
                    SqlError::input(format!("{name} is a system table, which nobody can change"))
                }
                None => SqlError::input(self.catalog.unknown(&name)),
            });
        };
        if table
            .columns()
            .iter()
            .any(|column| column.pooled().is_some())
        {
            return Err(SqlError::input(format!(
                "table {name} is in a pool, where it is sealed and never changes; change a copy \
                 (CREATE TABLE other AS SELECT * FROM {name}), or load it without --pool"
            )));
        }
        let rules = self.catalog.rules(&name);
        Ok(Target {
            name,
            short,
            table,
            rules,
        })
    }
}

/// A name of up to three parts as the planner normalises it.
pub(super) fn reference(name: &ObjectName) -> Result<TableReference, SqlError> {
    let parts: Option<Vec<String>> = name
        .0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Some(name_of(ident)),
            ObjectNamePart::Function(_) => None,
        })
        .collect();
    match parts.as_deref() {
        Some([table]) => Ok(TableReference::bare(table.clone())),
        Some([schema, table]) => Ok(TableReference::partial(schema.clone(), table.clone())),
        Some([catalog, schema, table]) if catalog == "datafusion" => {
            Ok(TableReference::partial(schema.clone(), table.clone()))
        }
        _ => Err(SqlError::input(format!(
            "{name} is not the name of a table"
        ))),
    }
}

/// The name of a column in a list or an assignment; a table's name before it is passed over.
pub(super) fn column_name(name: &ObjectName) -> Result<String, SqlError> {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(ident)) if name.0.len() <= 2 => Ok(name_of(ident)),
        _ => Err(SqlError::input(format!(
            "{name} is not the name of a column"
        ))),
    }
}

/// A name in double quotes, which no normalisation changes.
pub(super) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}
