//! The system catalog with the keys, checks and defaults of tables.
//!
//! ```text
//!  datafusion-pg-catalog: pg_class, pg_attribute, pg_namespace ─┐
//!  tierloom-sql: declarations of tables ────────────────────────┼─► state.rs ─► tables.rs
//!  numbers.rs: numbers of constraints and indexes ──────────────┘        └────► functions.rs
//! ```
//! Tables of the catalog are read anew by each statement. Functions that take a number of it
//! (`pg_get_constraintdef`) know what was there when it was last read.

mod empty;
mod format;
mod functions;
mod numbers;
mod roles;
mod rows;
mod settings;
mod state;
mod tables;
mod types;

pub(crate) use functions::{DEFAULT_OF_COLUMN, NAMES_OF_COLUMNS, PLACES};
pub(crate) use roles::Users;
pub(crate) use rows::VECTOR;

use super::ServeError;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{
    PgCatalogSchemaProvider, PgCatalogStaticTables, PgCatalogTable,
};
use datafusion_pg_catalog::setup_pg_catalog;
use numbers::Numbers;
use state::{CATALOG, Source};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tables::{Made, MadeTable};
use tierloom_sql::{Opaque, SharedEngine};

/// Adds the catalog's tables and functions to all sessions of `engine`.
pub(crate) fn add(engine: &SharedEngine, users: Users) -> std::result::Result<(), ServeError> {
    let context = engine.context();
    setup_pg_catalog(context, CATALOG, EmptyContextProvider).map_err(ServeError::failed)?;
    let catalogs = Arc::clone(context.state().catalog_list());
    let lasting = PgCatalogStaticTables::try_new().map_err(ServeError::failed)?;
    let plain = PgCatalogSchemaProvider::try_new(
        Arc::clone(&catalogs),
        Arc::new(lasting),
        EmptyContextProvider,
    );
    let plain = plain.map_err(ServeError::failed)?;
    let table = |name: &str| {
        let table = plain
            .build_table_by_name(name)
            .map_err(ServeError::failed)?;
        table.ok_or_else(|| ServeError::failed(format!("the catalog has no {name}")))
    };
    let stream = |name: &str| match table(name)? {
        PgCatalogTable::Dynamic(stream) => Ok(stream),
        _ => Err(ServeError::failed(format!("{name} is not as expected"))),
    };
    let numbers = Arc::new(Numbers::new());
    let source = Arc::new(Source {
        classes: stream("pg_class")?,
        namespaces: stream("pg_namespace")?,
        attributes: stream("pg_attribute")?,
        tables: stream("pg_tables")?,
        databases: stream("pg_database")?,
        catalogs: Arc::clone(&catalogs),
        declarations: Opaque::new(engine.declarations()),
        numbers: Arc::clone(&numbers),
    });
    for function in functions::all(&numbers, &engine.declarations()) {
        context.register_udf(function);
    }
    let schemas = [
        (Made::Class, source.classes.schema().clone()),
        (Made::Attribute, source.attributes.schema().clone()),
        (Made::Tables, source.tables.schema().clone()),
        (Made::Database, source.databases.schema().clone()),
        (Made::Constraint, of_constraints(&table("pg_constraint")?)),
        (Made::Index, of_indexes(&table("pg_index")?)),
        (Made::Attrdef, table("pg_attrdef")?.schema()),
    ];
    let made = schemas.map(|(made, schema)| MadeTable {
        made,
        schema,
        source: Arc::clone(&source),
    });
    let roles = roles::tables(table("pg_roles")?.schema(), users);
    let catalog = PgCatalog {
        plain: Arc::new(plain),
        made,
        settings: settings::table().map_err(ServeError::failed)?,
        others: roles.into_iter().chain(empty::tables()).collect(),
    };
    let known = catalogs.catalog(CATALOG);
    let known = known.ok_or_else(|| ServeError::failed("there is no catalog"))?;
    let added = known.register_schema("pg_catalog", Arc::new(catalog));
    added.map(drop).map_err(ServeError::failed)
}

fn of_constraints(plain: &PgCatalogTable) -> SchemaRef {
    let lists = ["conkey", "confkey"].map(|name| (name, DataType::Int16));
    rows::with_lists(&plain.schema(), &lists, false)
}

fn of_indexes(plain: &PgCatalogTable) -> SchemaRef {
    let lists = [
        ("indkey", DataType::Int16),
        ("indcollation", DataType::Int32),
        ("indclass", DataType::Int32),
        ("indoption", DataType::Int16),
    ];
    rows::with_lists(&plain.schema(), &lists, true)
}

/// The schema `pg_catalog`.
struct PgCatalog {
    plain: Arc<dyn SchemaProvider>,
    made: [MadeTable; 7],
    settings: Arc<dyn TableProvider>,
    /// By name: who uses the server, and what there is none of.
    others: Vec<(&'static str, Arc<dyn TableProvider>)>,
}

impl fmt::Debug for PgCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pg_catalog")
    }
}

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        let names = self.plain.table_names().into_iter();
        let others = self.others.iter().map(|(name, _)| (*name).to_owned());
        let all: BTreeSet<String> = names.chain(others).collect();
        all.into_iter().collect()
    }

    async fn table(
        &self,
        name: &str,
    ) -> std::result::Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if name.eq_ignore_ascii_case("pg_settings") {
            return Ok(Some(Arc::clone(&self.settings)));
        }
        let known = self.others.iter().find(|t| name.eq_ignore_ascii_case(t.0));
        if let Some((_, table)) = known {
            return Ok(Some(Arc::clone(table)));
        }
        let made = Made::of(name);
        let made = made.and_then(|made| self.made.iter().find(|table| table.made == made));
        let Some(made) = made else {
            return self.plain.table(name).await;
        };
        let stream: Arc<dyn PartitionStream> = Arc::new(made.clone());
        let table = StreamingTable::try_new(Arc::clone(&made.schema), vec![stream])?;
        Ok(Some(Arc::new(table)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.plain.table_exist(name) || self.others.iter().any(|(known, _)| *known == name)
    }
}
