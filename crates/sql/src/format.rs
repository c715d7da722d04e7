//! The formats that rows are written in, and their options.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Format in which result rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header line; both NULL and the empty string are empty fields.
    Csv,
    /// One array of objects.
    ///
    /// NULL is `null`, NaN and infinities are the strings "NaN", "Infinity" and "-Infinity".
    Json,
    /// One JSON object per line, with the values of [`Format::Json`].
    JsonLines,
    /// Arrow IPC: the stream format on a stream, the file format in a file.
    Arrow,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

/// Format names as typed by the user.
const NAMES: [(&str, Format); 5] = [
    ("csv", Format::Csv),
    ("json", Format::Json),
    ("jsonl", Format::JsonLines),
    ("arrow", Format::Arrow),
    ("parquet", Format::Parquet),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(text));
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("no format is named {text:?}; expected {}", names.join(", "))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, format)| format == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl Format {
    /// The format for a file name's extension.
    ///
    /// # Errors
    /// An unknown extension; the text names the alternatives.
    pub fn of_path(path: &str) -> Result<Self, String> {
        let ending = Path::new(path)
            .extension()
            .map(|e| e.to_string_lossy().to_ascii_lowercase())
            .unwrap_or_default();
        match ending.as_str() {
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            "jsonl" | "ndjson" => Ok(Format::JsonLines),
            "arrow" | "arrows" | "ipc" | "feather" => Ok(Format::Arrow),
            "parquet" | "pq" => Ok(Format::Parquet),
            _ => Err(format!(
                "the name {path:?} does not tell the format; add (FORMAT csv), or json, jsonl, arrow, parquet"
            )),
        }
    }
}

/// Options of a [`super::BatchWriter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Format of the rows; decides which of the other options apply.
    pub format: Format,
    /// Field separator of CSV, one ASCII character.
    pub delimiter: u8,
    /// Whether CSV starts with a line of column names.
    pub header: bool,
    /// Whether the bytes go to a file; Arrow then uses its random-access file format.
    pub to_file: bool,
}

impl WriteOptions {
    /// The format with its defaults: comma and header.
    pub fn new(format: Format, to_file: bool) -> Self {
        WriteOptions {
            format,
            delimiter: b',',
            header: true,
            to_file,
        }
    }

    /// Whether consecutive results on a stream need an empty line between them.
    pub fn parted(&self) -> bool {
        self.format == Format::Csv
    }
}
