//! What tables demand of their rows, in the words of SQL, and their sizes: for catalogs that
//! clients read.

use super::catalog::KnownRules;
use super::change::Rules;
use super::elsewhere::{Elsewhere, TableSize};
use super::sessions::SharedEngine;
use super::system::Tables;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// The declarations and sizes of an engine's tables, as they are when somebody asks.
#[derive(Clone)]
pub struct Declarations {
    rules: KnownRules,
    tables: Tables,
    elsewhere: Option<Arc<dyn Elsewhere>>,
}

/// What a table demands of its rows; nothing, if it was loaded from files or made by a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declaration {
    /// Columns without NULLs.
    pub not_null: Vec<String>,
    /// What a column gets if a statement does not say it, as an expression.
    pub defaults: BTreeMap<String, String>,
    /// Most characters of a text, by column.
    pub most_chars: BTreeMap<String, u64>,
    /// The primary key and unique columns, in the order in which they were declared.
    pub keys: Vec<DeclaredKey>,
    /// Conditions that must not be false.
    pub checks: Vec<DeclaredCheck>,
}

/// Columns whose values together are there once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredKey {
    /// Name of the constraint.
    pub name: String,
    /// Its columns in their order.
    pub columns: Vec<String>,
    /// Whether it is the primary key.
    pub primary: bool,
}

/// A condition of a table's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredCheck {
    /// Name of the constraint.
    pub name: String,
    /// The condition as an expression.
    pub condition: String,
    /// The names in it; columns of the table among others.
    pub names: Vec<String>,
}

impl SharedEngine {
    /// What the tables demand of their rows, and their sizes.
    pub fn declarations(&self) -> Declarations {
        let catalog = &self.session_state().catalog;
        Declarations {
            rules: catalog.known_rules(),
            tables: catalog.known_tables(),
            elsewhere: catalog.elsewhere().cloned(),
        }
    }
}

impl Declarations {
    /// The declaration of a table in a schema.
    pub fn of(&self, schema: &str, table: &str) -> Declaration {
        // Rules are inserted and removed whole, so a panic elsewhere leaves the map consistent.
        let known = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = known.get(&key(schema, table)).cloned();
        drop(known);
        rules.map(|rules| shown(&rules)).unwrap_or_default()
    }

    /// The size of a table; `None` for views and system tables.
    pub fn size_of(&self, schema: &str, table: &str) -> Option<TableSize> {
        let name = key(schema, table);
        let known = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let table = known.get(&name).cloned();
        drop(known);
        let here = table.map(|table| TableSize {
            rows: table.all_rows() as u64,
            bytes: table.size_bytes(),
        });
        here.or_else(|| self.elsewhere.as_ref()?.size_of(&name))
    }

    /// Bytes of the columns of all tables.
    pub fn all_bytes(&self) -> u64 {
        let known = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|table| table.size_bytes()).sum()
    }
}

/// The name that the catalog knows a table by.
fn key(schema: &str, table: &str) -> String {
    match schema {
        "public" => table.to_owned(),
        schema => format!("{schema}.{table}"),
    }
}

fn shown(rules: &Rules) -> Declaration {
    let defaults = rules.defaults.iter();
    let keys = rules.keys.iter().map(|key| DeclaredKey {
        name: key.name.clone(),
        columns: key.columns.clone(),
        primary: key.primary,
    });
    let checks = rules.checks.iter().map(|check| DeclaredCheck {
        name: check.name.clone(),
        condition: check.condition.to_string(),
        names: check.names(),
    });
    Declaration {
        not_null: rules.not_null.iter().cloned().collect(),
        defaults: defaults.map(|(c, d)| (c.clone(), d.to_string())).collect(),
        most_chars: rules.most_chars.clone(),
        keys: keys.collect(),
        checks: checks.collect(),
    }
}
