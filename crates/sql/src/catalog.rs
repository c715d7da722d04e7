//! The tables of a session, and the engine that they are registered with.

use super::adaptive::SharedDriver;
use super::change::Rules;
use super::counts::SharedCounts;
use super::elsewhere::Elsewhere;
use super::error::SqlError;
use super::pool::SharedPool;
use super::replay::Replay;
use super::swapping::Swapping;
use super::system::{self, Tables};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::CatalogProvider;
use datafusion::common::TableReference;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_engine::{Engine, PlacedColumn, PlacedTable, PlacedTableProvider};

/// Name and kind of one table, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Name in schema `public`.
    pub name: String,
    /// "table", "view" or "system".
    pub kind: &'static str,
    /// Number of rows; `None` for views and system tables.
    pub rows: Option<u64>,
}

/// How deep brackets, CASE, NOT and signs may nest.
pub(super) const MOST_NESTED: usize = 400;

/// Schemas that are not made and dropped by statements.
pub(super) const OWN_SCHEMAS: [&str; 3] = ["public", "information_schema", "pg_catalog"];

/// The rules of tables by name.
pub(super) type KnownRules = Arc<Mutex<BTreeMap<String, Arc<Rules>>>>;

/// Tables that hold rows; views and system tables are known to the engine alone.
///
/// A table is known by its name, after that of its schema if this is not `public` ("s.t").
pub(super) struct Catalog {
    engine: Engine,
    /// Shared with system tables, and with the catalogs of other sessions of the engine.
    tables: Tables,
    /// What tables demand of their rows; those without an entry demand nothing.
    rules: KnownRules,
    /// The pool that a system table shows.
    pool: SharedPool,
    /// The driver whose decisions a system table lists.
    drive: SharedDriver,
    /// What a system table lists of the last statement.
    counts: SharedCounts,
    /// Who has the tables, if it is somebody else.
    elsewhere: Option<Arc<dyn Elsewhere>>,
}

impl Catalog {
    /// A catalog without tables.
    pub fn new(
        engine: Engine,
        pool: SharedPool,
        drive: SharedDriver,
        counts: SharedCounts,
    ) -> Result<Self, SqlError> {
        let catalog = Catalog {
            engine,
            tables: Arc::default(),
            rules: Arc::default(),
            pool,
            drive,
            counts,
            elsewhere: None,
        };
        catalog.prepare_engine()?;
        Ok(catalog)
    }

    /// The same tables for a session with another engine on the same workers.
    pub fn beside(other: &Catalog, engine: Engine, counts: SharedCounts) -> Self {
        Catalog {
            engine,
            tables: Arc::clone(&other.tables),
            rules: Arc::clone(&other.rules),
            pool: other.pool.clone(),
            drive: other.drive.clone(),
            counts,
            elsewhere: other.elsewhere.clone(),
        }
    }

    /// From now on, has the tables of somebody else.
    pub fn use_elsewhere(&mut self, elsewhere: Arc<dyn Elsewhere>) {
        self.elsewhere = Some(elsewhere);
    }

    /// Who has the tables, if it is somebody else.
    pub fn elsewhere(&self) -> Option<&Arc<dyn Elsewhere>> {
        self.elsewhere.as_ref()
    }

    /// From now on, plans with another engine that has the same tables.
    pub fn use_engine(&mut self, engine: Engine) {
        self.engine = engine;
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn get(&self, name: &str) -> Option<Arc<PlacedTable>> {
        self.lock().get(name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<PlacedTable>>> {
        // Tables are inserted and removed whole, so a panic elsewhere leaves the map consistent.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All tables that hold rows.
    pub fn placed(&self) -> Vec<Arc<PlacedTable>> {
        self.lock().values().cloned().collect()
    }

    /// Applies the settings that every engine of a session needs and registers the system tables.
    fn prepare_engine(&self) -> Result<(), SqlError> {
        let context = self.engine.context();
        Swapping::install(context, self.engine.handle()).map_err(|e| SqlError::running(&e))?;
        {
            let state = context.state_ref();
            let mut state = state.write();
            let config = state.config_mut().options_mut();
            // Gives planning errors their position in the script.
            config.sql_parser.collect_spans = true;
            // DataFusion's 50 brackets are few; planning time grows with the square of them.
            let depth = datafusion::common::config::ConfigNonZeroUsize::try_new(MOST_NESTED);
            config.sql_parser.recursion_limit = depth.map_err(|e| SqlError::running(&e))?;
            config.catalog.information_schema = true;
        }
        system::register(context, &self.tables, &self.pool, &self.drive, &self.counts)
            .map_err(|e| SqlError::running(&e))
    }

    /// Replaces the engine by one that has its tables, views and lasting statements.
    pub fn replace_engine(&mut self, engine: Engine, replay: &Replay) -> Result<(), SqlError> {
        let old = std::mem::replace(&mut self.engine, engine);
        let moved = self.take_over(&old).and_then(|()| replay.run(&self.engine));
        if moved.is_err() {
            // The old engine keeps its tables and settings; the process-wide routing was
            // configured anew and is set back.
            self.engine = old;
            if let Some(routing) = &self.engine.options().routing {
                let _ = tierloom_engine::routing::start(routing);
            }
        }
        moved
    }

    fn take_over(&self, old: &Engine) -> Result<(), SqlError> {
        self.prepare_engine()?;
        let running = |e| SqlError::running(&e);
        let context = self.engine.context().clone();
        let schema = old.context().catalog("datafusion");
        let Some(known) = schema else {
            return Ok(());
        };
        for name in made_schemas(old) {
            if let (Some(schema), Some(here)) = (known.schema(&name), self.datafusion()) {
                here.register_schema(&name, schema).map_err(running)?;
            }
        }
        let Some(schema) = known.schema("public") else {
            return Ok(());
        };
        self.engine.handle().block_on(async {
            for name in schema.table_names() {
                // System tables belong to the new engine and must not be replaced by the old one's.
                let known = context.table_exist(name.as_str()).map_err(running)?;
                if let (false, Some(table)) = (known, schema.table(&name).await.map_err(running)?) {
                    context
                        .register_table(TableReference::bare(name), table)
                        .map_err(running)?;
                }
            }
            Ok(())
        })
    }

    /// What a table demands of its rows.
    pub fn rules(&self, name: &str) -> Arc<Rules> {
        self.lock_rules().get(name).cloned().unwrap_or_default()
    }

    /// The tables that end with a session, by name.
    pub fn owned_by(&self, owner: u64) -> Vec<String> {
        let rules = self.lock_rules();
        let owned = rules.iter().filter(|(_, rules)| rules.owner == Some(owner));
        owned.map(|(name, _)| name.clone()).collect()
    }

    /// The rules of all tables, as they will be.
    pub fn known_rules(&self) -> KnownRules {
        Arc::clone(&self.rules)
    }

    /// The tables that hold rows, as they will be.
    pub fn known_tables(&self) -> Tables {
        Arc::clone(&self.tables)
    }

    pub fn set_rules(&self, name: &str, rules: Arc<Rules>) {
        self.lock_rules().insert(name.to_owned(), rules);
    }

    fn lock_rules(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Rules>>> {
        // Rules are inserted and removed whole, so a panic elsewhere leaves the map consistent.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another version of a table in its place, in one step.
    pub fn swap(
        &mut self,
        name: &str,
        table: Arc<PlacedTable>,
        rules: Arc<Rules>,
    ) -> Result<(), SqlError> {
        self.put(name, table)?;
        self.set_rules(name, rules);
        Ok(())
    }

    /// Registers a table without rules; another of that name is replaced in one step.
    pub fn insert(&mut self, name: &str, table: Arc<PlacedTable>) -> Result<(), SqlError> {
        self.put(name, table)?;
        self.lock_rules().remove(name);
        Ok(())
    }

    fn put(&mut self, name: &str, table: Arc<PlacedTable>) -> Result<(), SqlError> {
        let provider = Arc::new(PlacedTableProvider::new(Arc::clone(&table)));
        self.engine
            .context()
            .register_table(self.reference(name), provider)
            .map_err(|e| SqlError::running(&e))?;
        // Cached plans hold references to a table that was replaced and would keep its memory.
        self.engine.forget_all_plans();
        let before = self.lock().insert(name.to_owned(), table);
        // Without the lock: its memory may be freed now.
        drop(before);
        Ok(())
    }

    /// Unregisters what has this name; whether it was a table that holds rows.
    ///
    /// A table's memory is freed when the last result that refers to it is dropped.
    pub fn remove(&mut self, name: &str) -> Result<bool, SqlError> {
        self.engine
            .context()
            .deregister_table(self.reference(name))
            .map_err(|e| SqlError::running(&e))?;
        // Cached plans hold references to the table and would keep its memory.
        self.engine.forget_all_plans();
        let removed = self.lock().remove(name);
        self.lock_rules().remove(name);
        Ok(removed.is_some())
    }

    /// Tables, views and system tables by name.
    pub fn list(&self) -> Vec<TableInfo> {
        let mut names = self.tables_of("public");
        for schema in self.schemas() {
            let tables = self.tables_of(&schema).into_iter();
            names.extend(tables.map(|table| format!("{schema}.{table}")));
        }
        names.sort();
        let infos = names.into_iter().map(|name| {
            let here = self.get(&name).map(|table| table.all_rows() as u64);
            let there = || self.elsewhere.as_ref()?.size_of(&name);
            let rows = here.or_else(|| there().map(|size| size.rows));
            let kind = match rows {
                Some(_) => "table",
                None if system::NAMES.contains(&name.as_str()) => "system",
                None => "view",
            };
            TableInfo { kind, rows, name }
        });
        infos.collect()
    }

    fn datafusion(&self) -> Option<Arc<dyn CatalogProvider>> {
        self.engine.context().catalog("datafusion")
    }

    /// The names of the tables and views of a schema.
    pub fn tables_of(&self, schema: &str) -> Vec<String> {
        let schema = self.datafusion().and_then(|c| c.schema(schema));
        schema.map(|s| s.table_names()).unwrap_or_default()
    }

    /// The schemas that statements have made.
    pub fn schemas(&self) -> Vec<String> {
        made_schemas(&self.engine)
    }

    pub fn make_schema(&self, name: &str) -> Result<(), SqlError> {
        let catalog = self.datafusion();
        let catalog = catalog.ok_or_else(|| SqlError::failed("there is no catalog"))?;
        let schema = Arc::new(Swapping::default());
        let made = catalog.register_schema(name, schema);
        made.map(drop).map_err(|e| SqlError::running(&e))
    }

    /// Drops a schema without tables.
    pub fn drop_schema(&self, name: &str) -> Result<(), SqlError> {
        let catalog = self.datafusion();
        let catalog = catalog.ok_or_else(|| SqlError::failed("there is no catalog"))?;
        let dropped = catalog.deregister_schema(name, false);
        dropped.map(drop).map_err(|e| SqlError::running(&e))
    }

    /// The name under which a table is known, or would be.
    pub fn key(&self, name: &TableReference) -> Result<String, SqlError> {
        let table = name.table();
        match name.schema().unwrap_or("public") {
            _ if name
                .catalog()
                .is_some_and(|catalog| catalog != "datafusion") =>
            {
                Err(SqlError::input(format!(
                    "{name}: there is one catalog; leave out what comes before the schema"
                )))
            }
            "public" => match self.reference(table) {
                TableReference::Bare { .. } => Ok(table.to_owned()),
                other => Err(SqlError::input(format!(
                    "\"{table}\" in schema public cannot be told from {other}; choose another name"
                ))),
            },
            schema if self.schemas().iter().any(|known| known == schema) => {
                Ok(format!("{schema}.{table}"))
            }
            schema => Err(SqlError::input(format!(
                "{name}: there is no schema {schema}; there are {}",
                [vec!["public".to_owned()], self.schemas()]
                    .concat()
                    .join(", ")
            ))),
        }
    }

    /// How the engine finds a table that is known as `key`.
    pub fn reference(&self, key: &str) -> TableReference {
        match key.split_once('.') {
            Some((schema, table)) if self.schemas().iter().any(|known| known == schema) => {
                TableReference::partial(schema, table)
            }
            _ => TableReference::bare(key),
        }
    }

    pub fn info(&self, name: &str) -> Option<TableInfo> {
        self.list().into_iter().find(|t| t.name == name)
    }

    /// That there is no such table, and which there are.
    pub fn unknown(&self, table: &str) -> String {
        let names: Vec<String> = self.list().into_iter().map(|t| t.name).collect();
        format!("there is no table {table}; there are {}", names.join(", "))
    }

    /// The columns of a table or view.
    pub fn schema_of(&self, table: &str) -> Result<SchemaRef, SqlError> {
        let context = self.engine.context().clone();
        let name = self.reference(table);
        let provider = self.engine.handle().block_on(context.table_provider(name));
        provider
            .map(|p| p.schema())
            .map_err(|_| SqlError::input(self.unknown(table)))
    }

    /// The type of the first column of that name.
    pub fn type_of(&self, column: &str) -> Option<DataType> {
        let tables = self.lock();
        tables.values().find_map(|table| {
            let field = table.schema().field_with_name(column).ok()?;
            Some(field.data_type().clone())
        })
    }

    /// Refuses a name that a new table cannot have.
    pub fn check_new_name(&self, name: &str, replace: bool) -> Result<(), SqlError> {
        if name.is_empty() {
            return Err(SqlError::input("a table needs a name"));
        }
        if system::NAMES.contains(&name) {
            return Err(SqlError::input(format!(
                "{name} is the name of a system table; choose another"
            )));
        }
        let replaceable = self.get(name).is_some();
        if self.info(name).is_some() && !(replace && replaceable) {
            return Err(SqlError::input(format!(
                "there is a table {name} already; choose another name, DROP it first, or CREATE OR REPLACE TABLE"
            )));
        }
        Ok(())
    }

    /// Refuses to change `setting` while tables use the places of class `temp`.
    ///
    /// The tables would stay where they are but be counted at the new places.
    pub fn check_no_temp_tables(&self, setting: &str) -> Result<(), SqlError> {
        let tables = self.lock();
        let temporary = tables.iter().filter(|(_, table)| is_temp(table));
        let there: Vec<&str> = temporary.map(|(name, _)| name.as_str()).collect();
        if there.is_empty() {
            return Ok(());
        }
        Err(SqlError::input(format!(
            "{setting} cannot change while tables are at the places of memory class temp ({}); DROP them first",
            there.join(", ")
        )))
    }
}

/// Whether a table is stored at the places of class `temp`.
pub(super) fn is_temp(table: &PlacedTable) -> bool {
    table.columns().iter().any(PlacedColumn::is_of_class)
}

/// Refuses duplicate column names.
pub(super) fn check_names<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), SqlError> {
    let mut seen = HashSet::new();
    let mut names = names;
    match names.find(|name| !seen.insert(*name)) {
        Some(twice) => Err(SqlError::input(format!(
            "two columns are named {twice}; the columns of a table have different names (AS)"
        ))),
        None => Ok(()),
    }
}

/// The schemas of an engine that statements have made, by name.
fn made_schemas(engine: &Engine) -> Vec<String> {
    let catalog = engine.context().catalog("datafusion");
    let mut names = catalog.map(|c| c.schema_names()).unwrap_or_default();
    names.retain(|name| !OWN_SCHEMAS.contains(&name.as_str()));
    names.sort();
    names
}
