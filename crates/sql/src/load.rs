//! Creates tables from rows of files or queries, and removes them.
//!
//! A table is built completely before it is registered, so a failed load leaves an existing table
//! of that name in place.

use super::error::SqlError;
use super::run::{Unit, Watch};
use super::session::{Loaded, SqlSession};
use super::source::{CsvOptions, Source};
use super::storage::{Home, least_bytes};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tierloom_engine::breakdown::caught;
use tierloom_engine::load::{LoadOptions, PlaceTimes, load_batches};
use tierloom_engine::{EngineError, PlacedTable};
use tierloom_workloads::Progress;

/// How many more bytes of rows a load holds when it looks again whether they fit: free memory is
/// read from files, which takes longer than to keep a batch.
const CHECKED_BYTES: u64 = 32 << 20;

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
        self.catalog.check_new_name(name, false)?;
        // The table is registered last, so a panic in a reader leaves nothing behind.
        unbroken(path, || {
            let source = Source::open(path, csv)?;
            self.load_source(name, &source, watch)
        })
    }

    /// Loads a folder of files, or several files of one kind in the order given, as table `name`;
    /// with `replace` also over a table of that name, which is there until this one is complete.
    ///
    /// # Errors
    /// Same as [`Self::load_files`]; bad input too if there is no file.
    pub fn load_file_list(
        &mut self,
        name: &str,
        replace: bool,
        files: Vec<PathBuf>,
        csv: CsvOptions,
        watch: &dyn Watch,
    ) -> Result<Loaded, SqlError> {
        self.catalog.check_new_name(name, replace)?;
        let Some(first) = files.first().cloned() else {
            return Err(SqlError::input(format!("table {name} needs a file")));
        };
        unbroken(&first, || {
            let source = match files.as_slice() {
                // Possibly a folder.
                [one] => Source::open(one, csv)?,
                _ => Source::of_files(&first, files, csv)?,
            };
            self.load_source(name, &source, watch)
        })
    }

    /// Loads rows that are in memory already as table `name`; they are copied once. `replace` is
    /// that of [`Self::load_file_list`].
    ///
    /// # Errors
    /// Bad input: a name that is taken, columns that no table can have, or too little memory. The
    /// first error among `batches` is returned as it is.
    pub fn load_batches(
        &mut self,
        name: &str,
        replace: bool,
        schema: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, SqlError>>,
        watch: &dyn Watch,
    ) -> Result<Loaded, SqlError> {
        self.check_new_table(name, replace, schema)?;
        let table = caught(|| self.table_of(name, schema, batches, Home::Placed, watch));
        let table = table.unwrap_or_else(|said| {
            Err(SqlError::failed(format!(
                "table {name}: its rows cannot be loaded ({said})"
            )))
        })?;
        self.register(name, table.0, watch)
    }

    /// Refuses a table with these columns that cannot be, before any of its rows is read.
    pub(super) fn check_new_table(
        &self,
        name: &str,
        replace: bool,
        schema: &SchemaRef,
    ) -> Result<(), SqlError> {
        self.catalog.check_new_name(name, replace)?;
        check_columns(name, schema)?;
        let placement = self.settings.first_placement(&self.storage.topology)?;
        let bytes = least_bytes(schema.fields().len());
        self.storage.check_memory(name, bytes, &placement)
    }

    pub(super) fn load_source(
        &mut self,
        name: &str,
        source: &Source,
        watch: &dyn Watch,
    ) -> Result<Loaded, SqlError> {
        let made = self.table_of_source(name, source, watch)?;
        self.register(name, made, watch)
    }

    /// Builds a table from files, and registers nothing.
    pub(super) fn table_of_source(
        &self,
        name: &str,
        source: &Source,
        watch: &dyn Watch,
    ) -> Result<Arc<PlacedTable>, SqlError> {
        let columns_bytes = least_bytes(source.schema().fields().len());
        let placement = self.settings.first_placement(&self.storage.topology)?;
        let bytes = source.array_bytes() + columns_bytes;
        self.storage.check_memory(name, bytes, &placement)?;
        watch.begin(&format!("loading {name}"), source.file_bytes(), Unit::Bytes);
        let advance = |bytes| watch.advance(bytes);
        let batches = source.batches(&advance);
        let made = self.table_of(name, source.schema(), batches, Home::Placed, watch);
        watch.end();
        made.map(|(table, _)| table)
    }

    /// Builds a table from the rows of `batches`, and says what took how long.
    pub(super) fn table_of(
        &self,
        name: &str,
        schema: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, SqlError>>,
        home: Home,
        watch: &dyn Watch,
    ) -> Result<(Arc<PlacedTable>, PlaceTimes), SqlError> {
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
        let (mut placer, placement) = self.storage.placer_for(home, &self.settings)?;
        let due_bytes = AtomicU64::new(0);
        let check = |held_bytes| {
            if held_bytes < due_bytes.load(Ordering::Relaxed) {
                return Ok(());
            }
            due_bytes.store(held_bytes + CHECKED_BYTES, Ordering::Relaxed);
            self.storage.check_room(name, held_bytes)
        };
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
            None => Ok((Arc::new(made?), placer.times())),
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
        // Placements and read counts of a replaced table do not apply to the new one. The old table
        // keeps its name until the new one has it, because other sessions may use it meanwhile.
        self.forget_about(name);
        let loaded = Loaded {
            name: name.to_owned(),
            rows: table.all_rows() as u64,
            size_bytes: table.size_bytes(),
        };
        self.catalog.insert(name, table)?;
        self.bind(name);
        self.drive_tables()?;
        Ok(loaded)
    }

    /// Removes a table with what the session knows of it.
    pub(super) fn forget(&mut self, name: &str) -> Result<(), SqlError> {
        self.catalog.remove(name)?;
        self.forget_about(name);
        self.drive_tables()
    }

    /// Forgets placements and reads of a table, and its place in a pool.
    fn forget_about(&mut self, name: &str) {
        self.pool.forget(name);
        self.settings.forget_placements(name);
        self.shared.forget(name);
    }
}

/// Refuses rows without columns and with two of one name, which files cannot have.
fn check_columns(table: &str, schema: &SchemaRef) -> Result<(), SqlError> {
    if schema.fields().is_empty() {
        return Err(SqlError::input(format!("table {table} has no columns")));
    }
    let mut seen = BTreeSet::new();
    let mut names = schema.fields().iter().map(|field| field.name());
    names
        .find(|name| !seen.insert(*name))
        .map_or(Ok(()), |name| {
            Err(SqlError::input(format!(
                "table {table} has two columns named {name}"
            )))
        })
}

/// Reads a file; a panic of its reader becomes an error.
pub(super) fn unbroken<T>(
    path: &Path,
    read: impl FnOnce() -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    caught(read).unwrap_or_else(|said| {
        let path = path.display();
        Err(SqlError::failed(format!(
            "{path}: its reader broke down ({said}); please report this file"
        )))
    })
}

/// Forwards cancellation to a loader whose progress is reported by its source.
pub(super) struct Cancellation<'a>(pub &'a dyn Watch);

impl Progress for Cancellation<'_> {
    fn advance(&self, _: u64) {}

    fn cancelled(&self) -> bool {
        self.0.stopped()
    }
}
