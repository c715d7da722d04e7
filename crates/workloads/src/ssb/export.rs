//! Writes the five tables as CSV files, for other engines.

use super::columns::ColumnValues;
use super::config::SsbConfig;
use super::dimensions::dimension;
use super::lineorder::Lineorder;
use super::memory::OwnedColumns;
use super::schema::{TableSpec, tables};
use crate::{Progress, WorkloadError, io_error};
use rayon::prelude::*;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tierloom_text::WholeFile;

/// Lineorder chunks per thread of the pool that are formatted before they are written.
///
/// Formatting runs in parallel, writing does not; this bounds the memory in between.
const CHUNKS_PER_THREAD: usize = 4;

/// One file written by [`write_csv`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedTable {
    /// Name of the table.
    pub table: &'static str,
    /// Path of the file.
    pub path: PathBuf,
    /// Number of rows, without the header.
    pub rows: u64,
    /// Size of the file, bytes.
    pub size_bytes: u64,
}

/// Writes every table to `directory/TABLE.csv`, with a header line.
///
/// Fields are separated by commas and quoted where needed; lines end with LF.
///
/// The folder is created if it is missing. Each file is written under a temporary name, flushed to
/// disk and renamed, so a file of the final name is always complete; an existing one is replaced.
/// `progress` counts the rows of all tables.
///
/// # Errors
/// [`WorkloadError::ScaleFactor`], [`WorkloadError::Io`], or [`WorkloadError::Cancelled`]. The
/// temporary file is removed; tables that were finished before remain.
pub fn write_csv(
    config: &SsbConfig,
    directory: &Path,
    progress: &dyn Progress,
) -> Result<Vec<ExportedTable>, WorkloadError> {
    let lineorder = Lineorder::plan(config)?;
    fs::create_dir_all(directory).map_err(io_error("create", directory))?;
    // Dimensions come first: they are small, so a path that cannot be written is detected early.
    tables()
        .iter()
        .rev()
        .map(|spec| {
            let path = directory.join(format!("{}.csv", spec.name));
            let file = WholeFile::create(&path).map_err(io_error("create", &path))?;
            let mut file = Csv { path: &path, file };
            let rows = if spec.name == "lineorder" {
                write_lineorder(&lineorder, spec, &mut file, progress)?
            } else {
                write_dimension(config, spec, &mut file, progress)?
            };
            let size_bytes = file.file.finish().map_err(io_error("write", &path))?;
            Ok(ExportedTable {
                table: spec.name,
                path,
                rows,
                size_bytes,
            })
        })
        .collect()
}

/// A file with its path, for errors.
struct Csv<'a> {
    path: &'a Path,
    file: WholeFile,
}

impl Csv<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), WorkloadError> {
        let written = self.file.write_all(bytes);
        written.map_err(io_error("write", self.path))
    }
}

fn write_dimension(
    config: &SsbConfig,
    spec: &TableSpec,
    csv: &mut Csv<'_>,
    progress: &dyn Progress,
) -> Result<u64, WorkloadError> {
    if progress.cancelled() {
        return Err(WorkloadError::Cancelled);
    }
    let columns = dimension(config, spec.name)?;
    let rows = columns.first().map_or(0, ColumnValues::len);
    csv.put(&header(spec))?;
    let lines = format_rows(&columns, rows).map_err(io_error("format", csv.path))?;
    csv.put(&lines)?;
    progress.advance(rows as u64);
    Ok(rows as u64)
}

fn write_lineorder(
    lineorder: &Lineorder,
    spec: &TableSpec,
    csv: &mut Csv<'_>,
    progress: &dyn Progress,
) -> Result<u64, WorkloadError> {
    csv.put(&header(spec))?;
    let step = rayon::current_num_threads().max(1) * CHUNKS_PER_THREAD;
    for first in (0..lineorder.chunks()).step_by(step) {
        if progress.cancelled() {
            return Err(WorkloadError::Cancelled);
        }
        let chunks = first..lineorder.chunks().min(first + step);
        let formatted: Vec<Vec<u8>> = chunks
            .clone()
            .into_par_iter()
            .map(|chunk| {
                let rows = lineorder.chunk_rows(chunk).len();
                let mut columns = OwnedColumns::new(rows);
                lineorder.fill_chunk(chunk, &mut columns.borrow())?;
                format_rows(&columns.into_values()?, rows).map_err(io_error("format", csv.path))
            })
            .collect::<Result<_, WorkloadError>>()?;
        for (chunk, bytes) in chunks.zip(formatted) {
            csv.put(&bytes)?;
            progress.advance(lineorder.chunk_rows(chunk).len() as u64);
        }
    }
    Ok(lineorder.rows() as u64)
}

fn header(spec: &TableSpec) -> Vec<u8> {
    let names: Vec<_> = spec.columns.iter().map(|column| column.name).collect();
    (names.join(",") + "\n").into_bytes()
}

/// Formats rows as CSV lines.
fn format_rows(columns: &[ColumnValues], rows: usize) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(Vec::with_capacity(rows * 100));
    let mut digits = Vec::with_capacity(16);
    for row in 0..rows {
        for column in columns {
            match column {
                ColumnValues::Int32(values) => {
                    digits.clear();
                    write!(digits, "{}", values[row])?;
                    writer.write_field(&digits)?;
                }
                ColumnValues::Dict8 { codes, values } => {
                    writer.write_field(&values[usize::from(codes[row])])?
                }
                ColumnValues::Text(text) => {
                    writer.write_field(text.get(row).unwrap_or_default())?
                }
            }
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.into_inner().map_err(|error| error.into_error())
}
