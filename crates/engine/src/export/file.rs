//! Writes one table's file, under a temporary name until it is complete.
//!
//! Both formats share one interface. The file is renamed after it has been synced, so readers never
//! see part of a table.

use crate::EngineError;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use tierloom_text::WholeFile;
use tierloom_workloads::io_error;

/// File format of an exported table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Arrow's IPC file format, uncompressed: readers can map it.
    Arrow,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

impl FileFormat {
    /// File name extension, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            FileFormat::Arrow => "arrow",
            FileFormat::Parquet => "parquet",
        }
    }
}

enum Writer {
    Arrow(Box<FileWriter<WholeFile>>),
    Parquet(Box<ArrowWriter<WholeFile>>),
}

/// A table's file under its temporary name.
pub struct TableFile {
    path: PathBuf,
    writer: Writer,
}

impl TableFile {
    /// Creates the file and writes the format's header.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(
        path: &Path,
        format: FileFormat,
        schema: &SchemaRef,
    ) -> Result<Self, EngineError> {
        let file = WholeFile::create(path).map_err(io_error("create", path))?;
        let writer = match format {
            FileFormat::Arrow => {
                let writer = FileWriter::try_new(file, schema).map_err(arrow_failed(path))?;
                Writer::Arrow(Box::new(writer))
            }
            FileFormat::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .build();
                let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties));
                Writer::Parquet(Box::new(writer.map_err(parquet_failed(path))?))
            }
        };
        Ok(TableFile {
            path: path.to_owned(),
            writer,
        })
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), EngineError> {
        match &mut self.writer {
            Writer::Arrow(writer) => writer.write(batch).map_err(arrow_failed(&self.path)),
            Writer::Parquet(writer) => writer.write(batch).map_err(parquet_failed(&self.path)),
        }
    }

    /// Writes the footer and renames the file to its final name; returns its size in bytes.
    ///
    /// # Errors
    /// If the file cannot be written or renamed.
    pub fn publish(self) -> Result<u64, EngineError> {
        let path = &self.path;
        let file = match self.writer {
            Writer::Arrow(mut writer) => {
                writer.finish().map_err(arrow_failed(path))?;
                writer.into_inner().map_err(arrow_failed(path))?
            }
            Writer::Parquet(writer) => writer.into_inner().map_err(parquet_failed(path))?,
        };
        Ok(file.finish().map_err(io_error("write", path))?)
    }
}

/// Maps an Arrow error to ours; an operating system error inside keeps its kind.
fn arrow_failed(path: &Path) -> impl FnOnce(ArrowError) -> EngineError {
    let wrap = io_error("write", path);
    move |error| match error {
        ArrowError::IoError(_, cause) => wrap(cause).into(),
        other => wrap(io::Error::other(other)).into(),
    }
}

/// Same as [`arrow_failed`], for Parquet.
fn parquet_failed(path: &Path) -> impl FnOnce(ParquetError) -> EngineError {
    let wrap = io_error("write", path);
    move |error| {
        let cause: Box<dyn Error + Send + Sync> = match error {
            ParquetError::External(cause) => cause,
            other => Box::new(other),
        };
        match cause.downcast::<io::Error>() {
            Ok(cause) => wrap(*cause).into(),
            Err(cause) => wrap(io::Error::other(cause)).into(),
        }
    }
}
