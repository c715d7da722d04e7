//! Writes records and reports so that no reader ever sees a partial file or line.

use crate::{Record, RecordError};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path` so that the name shows either the old content or all of the new one.
///
/// The bytes go to a file beside it, are flushed to disk, and are renamed; on an error the
/// temporary file is removed. A symbolic link is kept: the file behind it is replaced. A device or
/// a pipe (`/dev/stdout`, `/dev/full`) is written to directly, because a rename would replace the
/// device itself.
///
/// # Errors
/// [`RecordError::Io`] with the path, for example for a full disk.
pub fn atomic_write(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let written = match std::fs::metadata(path) {
        Ok(old) if old.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(old) if old.is_file() => {
            std::fs::canonicalize(path).and_then(|target| replace(&target, bytes))
        }
        Ok(_) => OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut device| device.write_all(bytes)),
        Err(_) => replace(path, bytes),
    };
    written.map_err(|source| RecordError::Io {
        action: "write",
        path: path.display().to_string(),
        source,
    })
}

fn replace(target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = temporary_beside(target);
    let result =
        write_and_sync(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, target));
    if result.is_err() {
        // The first error is the one to report; the temporary file may not even exist.
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn temporary_beside(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn write_and_sync(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
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
            let told = format!(
                "the record could not be read back, a figure in it is not a finite number: {problem}"
            );
            return Err(io(std::io::Error::new(ErrorKind::InvalidData, told)));
        }
        line.push(b'\n');
        self.to
            .write_all(&line)
            .and_then(|()| self.to.flush())
            .map_err(io)
    }
}
