//! Writes generated data to files that other engines read quickly: Arrow IPC and Parquet.
//!
//! ```text
//!   chunks of lineorder ─────┐
//!   columns of a dimension ──┴─► batches ─► Arrow IPC or Parquet ─► draft ─► renamed when complete
//! ```
//! Integers are `Int32`, text is `Utf8`, and the two text columns of lineorder with few values are
//! `Dictionary(UInt8, Utf8)`.

mod batches;
mod file;

pub use batches::{dimension_batch, lineorder_batch, schema};
pub use file::FileFormat;

use crate::EngineError;
use file::TableFile;
use std::fs;
use std::path::Path;
use tierloom_workloads::ssb::{ExportedTable, Lineorder, SsbConfig, TableSpec, tables};
use tierloom_workloads::{Progress, WorkloadError, io_error};

/// Chunks of lineorder per batch: about 131,072 rows, also a usual row group size.
const CHUNKS_PER_BATCH: usize = 16;

/// Writes every table of the Star Schema Benchmark to `directory/TABLE.arrow` or `.parquet`.
///
/// The directory is created if it is missing. A file gets its name only when it is complete and on
/// disk; an existing one is replaced. One batch of the fact table is in memory at a time.
/// `progress` counts the rows of all tables.
///
/// # Errors
/// [`EngineError::Workload`] for a scale factor out of range, a file that cannot be written, or a
/// cancellation; tables completed before stay. [`EngineError::Arrow`] if columns do not match the
/// schema.
pub fn write_ssb(
    config: &SsbConfig,
    format: FileFormat,
    directory: &Path,
    progress: &dyn Progress,
) -> Result<Vec<ExportedTable>, EngineError> {
    let lineorder = Lineorder::plan(config)?;
    fs::create_dir_all(directory).map_err(io_error("create", directory))?;
    // Dimensions first: they are small, so a path that cannot be written shows early.
    tables()
        .iter()
        .rev()
        .map(|spec| {
            let path = directory.join(format!("{}.{}", spec.name, format.extension()));
            let mut file = TableFile::create(&path, format, &schema(spec))?;
            let rows = if spec.name == "lineorder" {
                write_lineorder(&lineorder, spec, &mut file, progress)?
            } else {
                write_dimension(config, spec, &mut file, progress)?
            };
            Ok(ExportedTable {
                table: spec.name,
                size_bytes: file.publish()?,
                path,
                rows,
            })
        })
        .collect()
}

fn write_dimension(
    config: &SsbConfig,
    spec: &TableSpec,
    file: &mut TableFile,
    progress: &dyn Progress,
) -> Result<u64, EngineError> {
    if progress.cancelled() {
        return Err(WorkloadError::Cancelled.into());
    }
    let batch = dimension_batch(config, spec)?;
    file.write(&batch)?;
    let rows = batch.num_rows() as u64;
    progress.advance(rows);
    Ok(rows)
}

fn write_lineorder(
    lineorder: &Lineorder,
    spec: &TableSpec,
    file: &mut TableFile,
    progress: &dyn Progress,
) -> Result<u64, EngineError> {
    for first in (0..lineorder.chunks()).step_by(CHUNKS_PER_BATCH) {
        if progress.cancelled() {
            return Err(WorkloadError::Cancelled.into());
        }
        let chunks = first..lineorder.chunks().min(first + CHUNKS_PER_BATCH);
        let batch = lineorder_batch(lineorder, spec, chunks)?;
        file.write(&batch)?;
        progress.advance(batch.num_rows() as u64);
    }
    Ok(lineorder.rows() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::to_text;
    use arrow::array::RecordBatch;
    use arrow::ipc::reader::FileReader;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use std::fs::File;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tierloom_workloads::Silent;
    use tierloom_workloads::ssb::write_csv;

    /// A directory for one test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("tierloom-export-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("a folder");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn read(path: &Path, format: FileFormat) -> Vec<RecordBatch> {
        let file = File::open(path).expect("the file is there");
        match format {
            FileFormat::Arrow => FileReader::try_new(file, None)
                .expect("an Arrow file")
                .collect::<Result<_, _>>()
                .expect("whole batches"),
            FileFormat::Parquet => ParquetRecordBatchReaderBuilder::try_new(file)
                .expect("a Parquet file")
                .build()
                .expect("a reader")
                .collect::<Result<_, _>>()
                .expect("whole batches"),
        }
    }

    #[test]
    fn every_format_holds_the_rows_of_the_csv_files() {
        let config = SsbConfig::new(0.03, 7).expect("a small scale factor");
        let folder = Folder::new("formats");
        write_csv(&config, &folder.0, &Silent).expect("written");
        for format in [FileFormat::Arrow, FileFormat::Parquet] {
            let written = write_ssb(&config, format, &folder.0, &Silent).expect("written");
            assert_eq!(written.len(), 5);
            for table in written {
                let batches = read(&table.path, format);
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                assert_eq!(rows as u64, table.rows, "{}", table.table);
                let csv = folder.0.join(format!("{}.csv", table.table));
                let expected = fs::read_to_string(csv).expect("the CSV file is there");
                let text = to_text(&batches).expect("all types have a text form");
                assert!(text == expected, "{} differs as {format:?}", table.table);
            }
        }
    }

    /// Cancels after some rows.
    struct Stopping(AtomicU64);

    impl Progress for Stopping {
        fn advance(&self, rows: u64) {
            self.0.fetch_add(rows, Ordering::Relaxed);
        }

        fn cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 150_000
        }
    }

    #[test]
    fn a_cancelled_export_leaves_whole_files_only() {
        let config = SsbConfig::new(0.1, 1).expect("a small scale factor");
        let folder = Folder::new("cancelled");
        let stopping = Stopping(AtomicU64::new(0));
        let failed = write_ssb(&config, FileFormat::Arrow, &folder.0, &stopping);
        assert!(matches!(
            failed,
            Err(EngineError::Workload(WorkloadError::Cancelled))
        ));
        let mut left: Vec<_> = fs::read_dir(&folder.0)
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name().display().to_string())
            .collect();
        left.sort();
        let dimensions = ["customer", "date", "part", "supplier"];
        assert_eq!(left, dimensions.map(|name| format!("{name}.arrow")));
    }
}
