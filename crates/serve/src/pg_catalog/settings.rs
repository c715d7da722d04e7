//! `pg_settings`: the variables of a session as it begins.

use super::rows::{Columns, filled, text};
use crate::variables::Variables;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::Result;
use std::sync::Arc;

/// Limits that drivers ask for: names of variables that cannot be set or shown here, as PostgreSQL
/// has them.
const LIMITS: [(&str, &str); 2] = [("max_function_args", "100"), ("max_index_keys", "32")];

const TEXTS: [&str; 15] = [
    "name",
    "setting",
    "unit",
    "category",
    "short_desc",
    "extra_desc",
    "context",
    "vartype",
    "source",
    "min_val",
    "max_val",
    "enumvals",
    "boot_val",
    "reset_val",
    "sourcefile",
];

/// The table.
pub(super) fn table() -> Result<Arc<dyn TableProvider>> {
    let columns = TEXTS.map(|name| Field::new(name, DataType::Utf8, true));
    let others = [
        Field::new("sourceline", DataType::Int32, true),
        Field::new("pending_restart", DataType::Boolean, false),
    ];
    let columns: Vec<Field> = columns.into_iter().chain(others).collect();
    let schema = Arc::new(Schema::new(columns));
    let variables = Variables::default();
    let limits = LIMITS.iter().copied();
    let (names, values): (Vec<&str>, Vec<&str>) = variables.all().chain(limits).unzip();
    let count = names.len();
    let values = text(values);
    let given = Columns::from([
        ("name", text(names)),
        ("setting", Arc::clone(&values)),
        ("category", text(vec!["Tierloom"; count])),
        ("context", text(vec!["user"; count])),
        ("vartype", text(vec!["string"; count])),
        ("source", text(vec!["default"; count])),
        ("boot_val", Arc::clone(&values)),
        ("reset_val", values),
    ]);
    let rows = filled(&schema, count, &given)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![rows]])?))
}
