//! Reads Arrow IPC, in the file and the stream format.
//!
//! Files and streams are told apart by the magic number of files. Batches are copied into placed
//! columns by the loader; the file is not mapped.

use super::views::in_views;
use super::{Batches, FileSummary, SourceFormat, broken, unreadable};
use crate::error::SqlError;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

enum Reader {
    File(FileReader<BufReader<File>>),
    Stream(StreamReader<BufReader<File>>),
}

impl Reader {
    fn open(path: &Path) -> Result<Reader, SqlError> {
        let mut file = File::open(path).map_err(|e| unreadable(path, &e))?;
        let mut magic = [0u8; 6];
        let is_file = file.read_exact(&mut magic).is_ok() && &magic == b"ARROW1";
        file.rewind().map_err(|e| unreadable(path, &e))?;
        let file = BufReader::with_capacity(1 << 20, file);
        let reader = if is_file {
            FileReader::try_new(file, None).map(Reader::File)
        } else {
            StreamReader::try_new(file, None).map(Reader::Stream)
        };
        reader.map_err(|e| broken(path, SourceFormat::Ipc, e))
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Reader::File(reader) => reader.schema(),
            Reader::Stream(reader) => reader.schema(),
        }
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Reader::File(reader) => reader.next(),
            Reader::Stream(reader) => reader.next().or_else(|| after_end(reader)),
        }
    }
}

/// An error if something follows the end of a stream: a second stream, whose rows would be lost.
fn after_end(
    reader: &mut StreamReader<BufReader<File>>,
) -> Option<Result<RecordBatch, ArrowError>> {
    match reader.get_mut().fill_buf() {
        Ok([]) => None,
        Ok(_) => Some(Err(ArrowError::IpcError(
            "there is more after the end of the stream; put each stream into a file".into(),
        ))),
        Err(error) => Some(Err(ArrowError::from(error))),
    }
}

pub(super) fn inspect(path: &Path) -> Result<FileSummary, SqlError> {
    let file_bytes = std::fs::metadata(path)
        .map_err(|e| unreadable(path, &e))?
        .len();
    Ok(FileSummary {
        schema: Reader::open(path)?.schema(),
        // The bodies of messages are the arrays themselves.
        array_bytes: file_bytes,
        file_bytes,
        rows: None,
    })
}

pub(super) fn read(path: &Path, schema: &SchemaRef) -> Result<Batches, SqlError> {
    let reader = Reader::open(path)?;
    let (path, schema) = (path.to_owned(), Arc::clone(schema));
    Ok(Box::new(reader.map(move |batch| {
        let batch = batch.map_err(|e| broken(&path, SourceFormat::Ipc, e))?;
        in_views(&batch, &schema).map_err(|e| broken(&path, SourceFormat::Ipc, e))
    })))
}
