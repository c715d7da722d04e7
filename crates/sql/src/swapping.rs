//! The schema `public`: unlike DataFusion's own, it replaces a table in one step, so that other
//! sessions find either the old or the new one.

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::runtime::Handle;

/// Tables, views and system tables by name.
#[derive(Debug, Default)]
pub(super) struct Swapping(RwLock<HashMap<String, Arc<dyn TableProvider>>>);

impl Swapping {
    /// Makes it the schema of `context`, with the tables that are there.
    pub fn install(context: &SessionContext, handle: &Handle) -> Result<()> {
        let Some(catalog) = context.catalog("datafusion") else {
            return Ok(());
        };
        let schema = Swapping::default();
        if let Some(before) = catalog.schema("public") {
            for name in before.table_names() {
                if let Some(table) = handle.block_on(before.table(&name))? {
                    schema.register_table(name, table)?;
                }
            }
        }
        catalog.register_schema("public", Arc::new(schema))?;
        Ok(())
    }
}

#[async_trait]
impl SchemaProvider for Swapping {
    fn table_names(&self) -> Vec<String> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Ok(tables.get(name).cloned())
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Ok(tables.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Ok(tables.remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.contains_key(name)
    }
}
