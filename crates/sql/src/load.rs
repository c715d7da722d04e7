//! Creates tables from rows of files or queries, and removes them.
//!
//! A table is built completely before it is registered, so a failed load leaves an existing table
//! of that name in place.

use super::error::SqlError;
use super::free_memory::least_bytes;
use super::run::{Unit, Watch};
use super::session::{Loaded, SqlSession};
use super::source::{CsvOptions, Source};
use super::system;
use super::temp::Home;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_engine::breakdown::caught;
use tierloom_engine::load::{ColumnPlacer, LoadOptions, load_batches};
use tierloom_engine::{EngineError, PlacedTable, PlacedTableProvider};
use tierloom_workloads::Progress;

impl SqlSession {
    /// Loads a file or a directory of files as table `name`.
    ///
    /// # Errors
    /// Bad input: a name that is taken, files that cannot be parsed, or too little memory.
    pub fn load_files(
        &mut self,
        name: &str,
        path: &Path,
        csv: CsvOptions,
        watch: &dyn Watch,
    ) -> Result<Loaded, SqlError> {
        self.check_new_name(name, false)?;
        // The table is registered last, so a panic in a reader leaves nothing behind.
        let loaded = caught(|| {
            let source = Source::open(path, csv)?;
            self.load_source(name, &source, watch)
        });
        loaded.unwrap_or_else(|said| {
            let path = path.display();
            Err(SqlError::failed(format!(
                "{path}: its reader broke down ({said}); please report this file"
            )))
        })
    }

    pub(super) fn load_source(
        &mut self,
        name: &str,
        source: &Source,
        watch: &dyn Watch,
    ) -> Result<Loaded, SqlError> {
        let columns_bytes = least_bytes(source.schema().fields().len());
        self.check_memory(name, source.array_bytes() + columns_bytes)?;
        watch.begin(&format!("loading {name}"), source.file_bytes(), Unit::Bytes);
        let advance = |bytes| watch.advance(bytes);
        let batches = source.batches(&advance);
        let made = self.table_of(name, source.schema(), batches, Home::Placed, watch);
        watch.end();
        self.register(name, made?, watch)
    }

    pub(super) fn placer(&self) -> ColumnPlacer<'_> {
        ColumnPlacer::new(
            Arc::clone(&self.backend),
            &self.topology,
            self.page_size,
            self.settings.engine.threads,
        )
    }

    /// Builds a table from the rows of `batches`.
    pub(super) fn table_of(
        &self,
        name: &str,
        schema: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, SqlError>>,
        home: Home,
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        // The loader only passes engine errors on, so the original error is kept here.
        let failure: Mutex<Option<SqlError>> = Mutex::new(None);
        let rows = batches.map(|batch| {
            let error = match batch {
                _ if watch.stopped() => SqlError::Interrupted,
                Ok(batch) => return Ok(batch),
                Err(error) => error,
            };
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            Err(EngineError::Interrupted)
        });
        let (mut placer, placement) = self.placer_for(home)?;
        let check = |held_bytes| self.check_room(name, held_bytes);
        let options = LoadOptions {
            check_memory: Some(&check),
        };
        let made = load_batches(
            name,
            Arc::clone(schema),
            rows,
            &mut placer,
            &|_| placement.clone(),
            &Cancellation(watch),
            &options,
        );
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(error) => Err(error),
            None => Ok(Arc::new(made?)),
        }
    }

    /// Registers a table under `name`, replacing one of the same name.
    pub(super) fn register(
        &mut self,
        name: &str,
        table: Arc<PlacedTable>,
        watch: &dyn Watch,
    ) -> Result<Loaded, SqlError> {
        self.settle(&table, watch)?;
        // Placements and read counts of a replaced table do not apply to the new one.
        self.forget(name)?;
        let provider = Arc::new(PlacedTableProvider::new(Arc::clone(&table)));
        self.engine
            .context()
            .register_table(TableReference::bare(name), provider)
            .map_err(|e| SqlError::running(&e))?;
        let loaded = Loaded {
            name: name.to_owned(),
            rows: table.rows() as u64,
            size_bytes: table.size_bytes(),
        };
        self.tables.insert(name.to_owned(), table);
        self.show_tables();
        self.bind_views(name);
        self.drive_tables()?;
        Ok(loaded)
    }

    /// Unregisters a table; its memory is freed when the last result that refers to it is dropped.
    pub(super) fn forget(&mut self, name: &str) -> Result<bool, SqlError> {
        self.engine
            .context()
            .deregister_table(TableReference::bare(name))
            .map_err(|e| SqlError::running(&e))?;
        // Cached plans hold references to the table and would keep its memory.
        self.engine.forget_plans();
        let known = self.tables.remove(name).is_some();
        let inside = format!("{name}.");
        self.settings
            .placements
            .retain(|n, _| n != name && !n.starts_with(&inside));
        self.reads.retain(|n, _| !n.starts_with(&inside));
        self.show_tables();
        self.drive_tables()?;
        Ok(known)
    }

    fn show_tables(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone_from(&self.tables);
    }

    /// Refuses a name that a new table cannot have.
    pub(super) fn check_new_name(&self, name: &str, replace: bool) -> Result<(), SqlError> {
        if name.is_empty() {
            return Err(SqlError::input("a table needs a name"));
        }
        if system::NAMES.contains(&name) {
            return Err(SqlError::input(format!(
                "{name} is the name of a system table; choose another"
            )));
        }
        let taken = self.tables().iter().any(|t| t.name == name);
        let replaceable = self.tables.contains_key(name);
        if taken && !(replace && replaceable) {
            return Err(SqlError::input(format!(
                "there is a table {name} already; choose another name, DROP it first, or CREATE OR REPLACE TABLE"
            )));
        }
        Ok(())
    }
}

/// Forwards cancellation to a loader whose progress is reported by its source.
struct Cancellation<'a>(&'a dyn Watch);

impl Progress for Cancellation<'_> {
    fn advance(&self, _: u64) {}

    fn cancelled(&self) -> bool {
        self.0.stopped()
    }
}
