//! Opens files as tables: CSV, Parquet and Arrow IPC.
//!
//! A source is one file, or a directory of files with one schema.
//!
//! ```text
//!   path ─► files ─► one Part each (schema, rows, bytes) ─► common schema ─► batches, file by file
//! ```
//! Errors name the file, and the line where the format has lines.

mod csv;
mod declared;
mod files;
mod fingerprint;
mod instants;
mod int96;
mod ipc;
mod parquet;
mod schema;
mod views;

use super::error::SqlError;
use ::arrow::array::RecordBatch;
use ::arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use declared::Declared;
use declared::Shape;
pub(crate) use fingerprint::Fingerprint;
pub use views::{in_views, with_views};

/// Rows per batch that is read.
const BATCH_ROWS: usize = 64 * 1024;

/// How CSV is parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsvOptions {
    /// Field separator; `None` for a comma, or a tab in files named `.tsv`.
    pub delimiter: Option<u8>,
    /// Whether the first line has column names.
    pub header: bool,
    /// Rows per file from which types are inferred; 0 for all.
    pub infer_rows: usize,
    /// Texts that mean NULL, besides the empty field.
    pub nulls: Vec<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            delimiter: None,
            header: true,
            infer_rows: 10_000,
            nulls: Vec::new(),
        }
    }
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SourceFormat {
    Csv,
    Parquet,
    Ipc,
}

impl SourceFormat {
    fn name(self) -> &'static str {
        match self {
            SourceFormat::Csv => "CSV",
            SourceFormat::Parquet => "Parquet",
            SourceFormat::Ipc => "Arrow IPC",
        }
    }

    /// Detects the format by the first bytes, else by the file name.
    fn of(path: &Path) -> Result<SourceFormat, SqlError> {
        let mut magic = [0u8; 6];
        let mut file = std::fs::File::open(path).map_err(|e| unreadable(path, &e))?;
        let mut filled = 0;
        while filled < magic.len() {
            // `read_exact` would fail on a file shorter than the magic number.
            match file.read(&mut magic[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) => return Err(unreadable(path, &e)),
            }
        }
        if magic.starts_with(b"PAR1") {
            return Ok(SourceFormat::Parquet);
        }
        if &magic == b"ARROW1" {
            return Ok(SourceFormat::Ipc);
        }
        SourceFormat::of_name(path).ok_or_else(|| {
            SqlError::input(format!(
                "{}: neither its name nor its content shows its format; expected .csv, .tsv, .parquet or .arrow",
                path.display()
            ))
        })
    }

    fn of_name(path: &Path) -> Option<SourceFormat> {
        let ending = path.extension()?.to_string_lossy().to_ascii_lowercase();
        match ending.as_str() {
            "csv" | "tsv" => Some(SourceFormat::Csv),
            "parquet" | "pq" => Some(SourceFormat::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Some(SourceFormat::Ipc),
            _ => None,
        }
    }
}

/// What is known about a file before its rows are read.
struct FileSummary {
    schema: SchemaRef,
    /// Approximate bytes of its rows as Arrow arrays.
    array_bytes: u64,
    file_bytes: u64,
    /// Number of rows, if the format records it.
    rows: Option<u64>,
}

/// Files that together form one table.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    kind: SourceFormat,
    files: Vec<SourceFile>,
    /// The columns that files are read with.
    file_schema: SchemaRef,
    /// The columns of the table.
    schema: SchemaRef,
    shape: Option<Arc<Shape>>,
    array_bytes: u64,
    rows: Option<u64>,
    csv: CsvOptions,
}

/// A file of a source.
#[derive(Debug)]
struct SourceFile {
    path: PathBuf,
    bytes: u64,
    /// The values of partitions, in the order of their columns.
    partitions: Vec<Option<String>>,
}

impl Source {
    /// Inspects `path`, a file or directory, without reading its rows.
    ///
    /// Of CSV, it reads as many rows as types are inferred from.
    ///
    /// # Errors
    /// Bad input: nothing there, a file that cannot be parsed, files of several formats, or files
    /// whose columns differ.
    pub fn open(path: &Path, csv: CsvOptions) -> Result<Source, SqlError> {
        Source::of_files(path, files::at(path)?, csv)
    }

    /// Same for `files`, of which there is at least one, that `path` stands for in messages.
    pub(super) fn of_files(
        path: &Path,
        files: Vec<PathBuf>,
        csv: CsvOptions,
    ) -> Result<Source, SqlError> {
        Source::of(path, files, csv, None)
    }

    /// Same for the files at `locations`, of which there is at least one; they may be patterns.
    pub(super) fn external(
        locations: &[PathBuf],
        csv: CsvOptions,
        declared: Declared,
    ) -> Result<Source, SqlError> {
        let partitioned = !declared.partitions.is_empty();
        let mut found = Vec::new();
        for location in locations {
            let files = files::meant(location, partitioned)?;
            if partitioned {
                let names = declared.partitions.iter();
                let names: Vec<&str> = names.map(|field| field.name().as_str()).collect();
                files::check_folders(location, &files, &names)?;
            }
            found.extend(files);
        }
        let plain = declared.columns.is_none() && !partitioned;
        Source::of(&locations[0], found, csv, (!plain).then_some(declared))
    }

    fn of(
        path: &Path,
        files: Vec<PathBuf>,
        mut csv: CsvOptions,
        declared: Option<Declared>,
    ) -> Result<Source, SqlError> {
        let kind = SourceFormat::of(&files[0])?;
        let columns = declared.as_ref().and_then(|d| d.columns.clone());
        if columns.is_some() {
            // The first line is enough to count the columns.
            csv.infer_rows = 1;
        }
        let mut parts = Vec::new();
        for file in &files {
            let this = SourceFormat::of(file)?;
            if this != kind {
                return Err(SqlError::input(format!(
                    "{} is {}, but {} is {}; the files of a table are of one kind",
                    file.display(),
                    this.name(),
                    files[0].display(),
                    kind.name()
                )));
            }
            let mut part = match kind {
                SourceFormat::Csv => csv::inspect(file, &csv)?,
                SourceFormat::Parquet => parquet::inspect(file)?,
                SourceFormat::Ipc => ipc::inspect(file)?,
            };
            match &columns {
                Some(columns) if kind == SourceFormat::Csv => {
                    part.schema = declared::of_csv(file, &part.schema, csv.header, columns)?;
                }
                Some(columns) => declared::check(kind, &part.schema, columns, file)?,
                None => {}
            }
            parts.push(part);
        }
        if columns.is_some() {
            // Declared types need no advice on inferring them.
            csv.infer_rows = 0;
        }
        let file_schema = schema::common(&files, &parts, kind)?;
        let names = declared.iter().flat_map(|d| &d.partitions);
        let names: Vec<&str> = names.map(|field| field.name().as_str()).collect();
        let of_path = |(path, part): (PathBuf, &FileSummary)| {
            Ok(SourceFile {
                partitions: files::partition_values(&path, &names)?,
                bytes: part.file_bytes,
                path,
            })
        };
        let files = files.into_iter().zip(&parts).map(of_path);
        let files = files.collect::<Result<_, SqlError>>()?;
        let shape = match declared {
            Some(declared) => Some(Arc::new(Shape::new(declared, &file_schema)?)),
            None => None,
        };
        let read = shape.as_ref().map_or(&file_schema, |shape| shape.schema());
        Ok(Source {
            path: path.to_owned(),
            kind,
            schema: with_views(read),
            array_bytes: parts.iter().map(|p| p.array_bytes).sum(),
            // `None` as soon as one part has no count.
            rows: parts.iter().map(|p| p.rows).sum(),
            files,
            shape,
            file_schema,
            csv,
        })
    }

    /// The path as given to [`Self::open`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The columns of the table.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Approximate bytes of the rows as Arrow arrays; exact sizes are only known after reading.
    pub fn array_bytes(&self) -> u64 {
        self.array_bytes
    }

    /// Number of rows; `None` if a file does not record it.
    pub fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// Bytes of all files on disk.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Description of the files for messages, such as "3 Parquet files".
    pub fn describe(&self) -> String {
        match self.files.len() {
            1 => format!("a {} file", self.kind.name()),
            n => format!("{n} {} files", self.kind.name()),
        }
    }

    /// The format's name in `STORED AS`.
    pub fn kind_word(&self) -> &'static str {
        match self.kind {
            SourceFormat::Csv => "csv",
            SourceFormat::Parquet => "parquet",
            SourceFormat::Ipc => "arrow",
        }
    }

    /// The rows, file by file. `advance` receives the bytes of files as they are consumed.
    pub fn batches<'a>(
        &'a self,
        advance: &'a dyn Fn(u64),
    ) -> impl Iterator<Item = Result<RecordBatch, SqlError>> + 'a {
        self.files.iter().flat_map(move |file| {
            let rows = match self.open_file(file) {
                Ok(rows) => rows,
                // The error becomes the iterator's only item, so that it is reported in order.
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
            Counted {
                rows,
                left_bytes: file.bytes,
                bytes_per_row: self.bytes_per_row(),
                advance,
            }
        })
    }

    fn open_file(&self, file: &SourceFile) -> Result<Batches, SqlError> {
        let (path, schema) = (&file.path, &self.file_schema);
        let rows = match self.kind {
            SourceFormat::Csv => csv::read(path, schema, &self.csv)?,
            SourceFormat::Parquet => parquet::read(path, schema)?,
            SourceFormat::Ipc => ipc::read(path, schema)?,
        };
        let (shape, path) = (self.shape.clone(), path.clone());
        let (partitions, schema) = (file.partitions.clone(), Arc::clone(&self.schema));
        let kind = self.kind;
        Ok(Box::new(rows.map(move |batch| {
            let batch = match &shape {
                Some(shape) => shape.rows(&path, &batch?, &partitions)?,
                None => batch?,
            };
            in_views(&batch, &schema).map_err(|error| broken(&path, kind, error))
        })))
    }

    /// File bytes per row, for the progress display; 0 if the number of rows is unknown.
    fn bytes_per_row(&self) -> u64 {
        match self.rows {
            Some(rows) => self.file_bytes() / rows.max(1),
            None => 0,
        }
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, SqlError>>>;

/// Batches of a file that report how much of it was consumed.
struct Counted<'a> {
    rows: Batches,
    left_bytes: u64,
    /// 0 if the number of rows is unknown; a batch's memory is then counted instead.
    bytes_per_row: u64,
    advance: &'a dyn Fn(u64),
}

impl Iterator for Counted<'_> {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.rows.next();
        let used = match &next {
            Some(Ok(batch)) if self.bytes_per_row > 0 => {
                batch.num_rows() as u64 * self.bytes_per_row
            }
            Some(Ok(batch)) => batch.get_array_memory_size() as u64,
            Some(Err(_)) => 0,
            // At the end of a file the progress is exact again.
            None => self.left_bytes,
        };
        let used = used.min(self.left_bytes);
        self.left_bytes -= used;
        (self.advance)(used);
        next
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> SqlError {
    SqlError::input(format!("cannot read {}: {error}", path.display()))
}

/// The error for a file that cannot be parsed as its format.
fn broken(path: &Path, kind: SourceFormat, error: impl std::fmt::Display) -> SqlError {
    let text = error.to_string().replace('\n', " ");
    let text = [
        "Parquet error: ",
        "Parser error: ",
        "Csv error: ",
        "Ipc error: ",
    ]
    .iter()
    .find_map(|p| text.strip_prefix(p))
    .unwrap_or(&text)
    .to_owned();
    SqlError::input(format!(
        "{} cannot be read as {}: {text}",
        path.display(),
        kind.name()
    ))
}
