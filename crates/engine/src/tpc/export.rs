//! Writes generated tables to Parquet files for other engines.
//!
//! A file is written under a temporary name and renamed when it is complete.

use crate::EngineError;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::path::Path;
use tierloom_text::WholeFile;
use tierloom_tpc::Source;
use tierloom_workloads::{Progress, WorkloadError};

/// Rows per generated batch.
const BATCH_ROWS: usize = 16 * 1024;

/// Generates `source` into the Parquet file `path`; returns the number of rows.
///
/// Compressed with Snappy, with the types of [`Source::schema`]. The file appears under its name
/// when it is complete.
///
/// # Errors
/// A file that cannot be written, or [`WorkloadError::Cancelled`] if `progress` cancels; no file is
/// left behind then.
pub fn write_parquet(
    source: &Source,
    path: &Path,
    threads: usize,
    progress: &dyn Progress,
) -> Result<u64, EngineError> {
    let failed = |e: std::io::Error| EngineError::export(path, e);
    let file = WholeFile::create(path).map_err(failed)?;
    let (file, rows) = write(source, file, path, threads, progress)?;
    file.finish().map_err(failed)?;
    Ok(rows)
}

fn write(
    source: &Source,
    file: WholeFile,
    path: &Path,
    threads: usize,
    progress: &dyn Progress,
) -> Result<(WholeFile, u64), EngineError> {
    let failed = |e: ParquetError| EngineError::export(path, e);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer =
        ArrowWriter::try_new(file, source.schema(), Some(properties)).map_err(failed)?;
    let mut rows = 0;
    for batch in source.batches(BATCH_ROWS, threads) {
        if progress.cancelled() {
            return Err(WorkloadError::Cancelled.into());
        }
        let batch = batch?;
        writer.write(&batch).map_err(failed)?;
        rows += batch.num_rows() as u64;
        progress.advance(batch.num_rows() as u64);
    }
    let file = writer.into_inner().map_err(failed)?;
    Ok((file, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use std::fs::File;
    use std::path::PathBuf;
    use tierloom_tpc::Benchmark;
    use tierloom_workloads::Silent;

    struct Cancelled;

    impl Progress for Cancelled {
        fn advance(&self, _rows: u64) {}

        fn cancelled(&self) -> bool {
            true
        }
    }

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("tierloom-export-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_has_the_rows_and_types_that_were_generated() {
        let folder = folder("whole");
        for (benchmark, table) in [(Benchmark::TpcH, "supplier"), (Benchmark::TpcDs, "store")] {
            let source = benchmark.source(table, 0.01).unwrap();
            let path = folder.join(format!("{table}.parquet"));
            let rows = write_parquet(&source, &path, 2, &Silent).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap());
            let read: Vec<_> = reader
                .unwrap()
                .build()
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let made: Vec<_> = source.batches(BATCH_ROWS, 1).map(Result::unwrap).collect();
            assert_eq!(
                rows as usize,
                read.iter().map(|b| b.num_rows()).sum::<usize>()
            );
            let whole = |batches: &[arrow::array::RecordBatch]| {
                arrow::compute::concat_batches(&source.schema(), batches).unwrap()
            };
            assert!(whole(&read).columns() == whole(&made).columns(), "{table}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_cancelled_export_leaves_nothing() {
        let folder = folder("cancelled");
        let source = Benchmark::TpcH.source("orders", 0.01).unwrap();
        let ended = write_parquet(&source, &folder.join("orders.parquet"), 2, &Cancelled);
        assert!(matches!(
            ended,
            Err(EngineError::Workload(WorkloadError::Cancelled))
        ));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
