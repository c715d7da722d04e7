//! Writes records and reports so that no reader ever sees a partial file or line.

use crate::{Record, RecordError};
use std::io::{ErrorKind, Write};
use std::path::Path;
use tierloom_text::WholeFile;

/// Writes `bytes` to `path` so that the name shows either the old content or all of the new one.
///
/// See [`WholeFile`].
///
/// # Errors
/// [`RecordError::Io`] with the path, for example for a full disk.
pub fn atomic_write(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    WholeFile::write(path, bytes).map_err(|source| RecordError::Io {
        action: "write",
        path: path.display().to_string(),
        source,
    })
}

/// Writes records as JSON lines, one write and one flush per line.
pub struct RecordWriter<W: Write> {
    to: W,
    name: String,
}

impl<W: Write> RecordWriter<W> {
    /// Writes to `to`; `name` names it in errors.
    pub fn new(to: W, name: impl Into<String>) -> Self {
        RecordWriter {
            to,
            name: name.into(),
        }
    }

    /// Writes one record.
    ///
    /// It is parsed back first, because JSON cannot represent numbers that are not finite: they
    /// become null, which a reader refuses where a number is required.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the line could not be written, or (kind `InvalidData`) could not be
    /// read back.
    pub fn write(&mut self, record: &Record) -> Result<(), RecordError> {
        let io = |source| RecordError::Io {
            action: "write",
            path: self.name.clone(),
            source,
        };
        let mut line = serde_json::to_vec(record).map_err(|e| io(e.into()))?;
        if let Err(problem) = serde_json::from_slice::<Record>(&line) {
            let text = format!(
                "the record could not be read back, a figure in it is not a finite number: {problem}"
            );
            return Err(io(std::io::Error::new(ErrorKind::InvalidData, text)));
        }
        line.push(b'\n');
        self.to
            .write_all(&line)
            .and_then(|()| self.to.flush())
            .map_err(io)
    }
}
