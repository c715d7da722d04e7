//! Tables that one statement alone sees: rows with their positions, rows that are to be inserted,
//! and versions that nobody has yet.

use super::super::error::SqlError;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
    MemorySchemaProvider, SchemaProvider, TableProvider,
};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use std::sync::Arc;

const CATALOG: &str = "datafusion";

/// A schema beside the others; the space keeps it apart from those that somebody would make.
const SCHEMA: &str = "tierloom change";

/// Tables by name, in a schema of their own.
#[derive(Debug, Default)]
pub(in super::super) struct ExtraTables(MemorySchemaProvider);

impl ExtraTables {
    /// One table of that name.
    pub fn of(name: &str, table: Arc<dyn TableProvider>) -> Result<Self, SqlError> {
        let tables = ExtraTables::default();
        tables.add(name, table)?;
        Ok(tables)
    }

    pub fn add(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<(), SqlError> {
        let added = self.0.register_table(name.to_owned(), table);
        added.map(drop).map_err(|e| SqlError::running(&e))
    }

    /// The name of one of them in a statement.
    pub fn name(table: &str) -> ObjectName {
        let quoted = |name: &str| Ident::with_quote('"', name);
        vec![quoted(SCHEMA), quoted(table)].into()
    }

    /// A session's state for planning a statement that sees these tables, too.
    pub fn state(self, context: &SessionContext) -> Result<SessionState, SqlError> {
        let running = |e| SqlError::running(&e);
        let catalog = MemoryCatalogProvider::new();
        if let Some(known) = context.catalog(CATALOG) {
            for name in known.schema_names() {
                if let Some(schema) = known.schema(&name) {
                    catalog.register_schema(&name, schema).map_err(running)?;
                }
            }
        }
        let own: Arc<dyn SchemaProvider> = Arc::new(self.0);
        catalog.register_schema(SCHEMA, own).map_err(running)?;
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
        let config = context.copied_config();
        let config = config.with_create_default_catalog_and_schema(false);
        let builder = SessionStateBuilder::new_from_existing(context.state());
        Ok(builder
            .with_config(config)
            .with_catalog_list(Arc::new(catalogs))
            .build())
    }
}
