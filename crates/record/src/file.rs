//! A file of records that grows by whole records and is locked while it is open.

use crate::{CutTail, Record, RecordError, RecordSet, RecordWriter};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The action in errors of opening a file.
pub(crate) const OPENING: &str = "open for records";

/// A file of JSON lines that only ever shows whole records under its name.
///
/// This holds even if the process is killed (SIGKILL) or the machine loses power. A write in place
/// could stop in the middle of a line, so each record goes to a copy of the file beside it (a clone
/// with `FICLONE` where the file system supports it; permission bits are kept), which is flushed to
/// the disk and renamed over the file. The price is one copy of the file per record. In return, the
/// disk is idle again when [`RecordFile::append`] returns and does not disturb the next
/// measurement. A killed process may leave the copy, `.NAME.growing`, which the next process that
/// opens the file overwrites.
///
/// There can be one writer at a time: the file is locked (`flock`) while this value exists, where
/// the file system has locks.
#[derive(Debug)]
pub struct RecordFile {
    /// The path as given, for errors.
    name: String,
    /// The file itself, with symbolic links resolved.
    target: PathBuf,
    /// Bytes that are whole records; the next record replaces anything after them.
    whole_bytes: u64,
    /// Whether those bytes need a line end before the next record.
    open_line: bool,
    /// Holds the lock on the file that `target` currently names.
    lock: File,
}

impl RecordFile {
    /// Opens a file to add records, creating it if needed, and returns the records in it.
    ///
    /// An incomplete last line, left by a different way of writing, is returned as [`CutTail`]; the
    /// first record that is added replaces it.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] if the file contains anything but records: it is left unchanged.
    /// [`RecordError::Io`] if it cannot be written, is not an ordinary file, or another process has
    /// it open as a [`RecordFile`].
    pub fn open(path: &Path) -> Result<(RecordFile, RecordSet, Option<CutTail>), RecordError> {
        let (target, lock) = lock_target(path).map_err(|source| failed(path, source))?;
        let (set, tail) = RecordSet::read_whole(path)?;
        let mut file = RecordFile {
            name: path.display().to_string(),
            target,
            whole_bytes: 0,
            open_line: false,
            lock,
        };
        let measured = file.measure(tail.map_or(0, |tail| tail.bytes));
        measured.map_err(|source| failed(path, source))?;
        Ok((file, set, tail))
    }

    /// Opens a file to replace its contents when the first record is added.
    ///
    /// # Errors
    /// Same as [`RecordFile::open`]: a file that contains anything but records is not replaced.
    pub fn begin(path: &Path) -> Result<RecordFile, RecordError> {
        let (mut file, ..) = Self::open(path)?;
        (file.whole_bytes, file.open_line) = (0, false);
        Ok(file)
    }

    /// Adds one record; when this returns, it is in the file and on the disk.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the record could not be read back (a figure is not finite) or the
    /// copy cannot be written (full disk). The file is then unchanged.
    pub fn append(&mut self, record: &Record) -> Result<(), RecordError> {
        let mut line = Vec::new();
        if self.open_line {
            line.push(b'\n');
        }
        RecordWriter::new(&mut line, &self.name).write(record)?;
        let temporary = growing_beside(&self.target);
        let grown = self.grow(&temporary, &line).inspect_err(|_| {
            // Only the first error is reported.
            let _ = std::fs::remove_file(&temporary);
        });
        self.lock = grown.map_err(|source| RecordError::Io {
            action: "add a record to",
            path: self.name.clone(),
            source,
        })?;
        self.whole_bytes += line.len() as u64;
        self.open_line = false;
        Ok(())
    }

    /// Size of the whole records in the file, bytes.
    pub fn size_bytes(&self) -> u64 {
        self.whole_bytes
    }

    fn measure(&mut self, tail_bytes: u64) -> std::io::Result<()> {
        let bytes = std::fs::read(&self.target)?;
        let whole = bytes.len().saturating_sub(tail_bytes as usize);
        self.whole_bytes = whole as u64;
        self.open_line = bytes[..whole].last().is_some_and(|last| *last != b'\n');
        Ok(())
    }

    /// Writes the copy with `line` after the whole records and renames it; returns the new lock.
    fn grow(&self, temporary: &Path, line: &[u8]) -> std::io::Result<File> {
        std::fs::copy(&self.target, temporary)?;
        let mut copy = OpenOptions::new().read(true).write(true).open(temporary)?;
        // The copy is locked before the rename, so that the name never refers to an unlocked file.
        lock(&copy)?;
        copy.set_len(self.whole_bytes)?;
        copy.seek(SeekFrom::End(0))?;
        copy.write_all(line)?;
        copy.sync_data()?;
        std::fs::rename(temporary, &self.target)?;
        Ok(copy)
    }
}

impl Drop for RecordFile {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread has just forked has a copy of the
        // descriptor until it runs its program, and the lock stays as long as one copy does.
        // Nothing was locked where the file system has no locks.
        let _ = self.lock.unlock();
    }
}

fn failed(path: &Path, source: Error) -> RecordError {
    RecordError::Io {
        action: OPENING,
        path: path.display().to_string(),
        source,
    }
}

fn growing_beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.growing"))
}

/// Opens or creates the file behind `path` and locks it.
///
/// Another writer may have renamed a new file over it between opening and locking, so the lock only
/// counts if the name still refers to the locked file.
fn lock_target(path: &Path) -> std::io::Result<(PathBuf, File)> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let text = "it is no ordinary file, records cannot be added to it one by one; name a file, or take the records from stdout with --jsonl";
            return Err(Error::new(ErrorKind::InvalidInput, text));
        }
        let file = options.open(path)?;
        lock(&file)?;
        let target = std::fs::canonicalize(path)?;
        let (ours, named) = (file.metadata()?, std::fs::metadata(&target)?);
        if (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
            return Ok((target, file));
        }
    }
}

fn lock(file: &File) -> std::io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::ResourceBusy,
            "another process is adding records to it; wait for it or name another file",
        )),
        // Without locks in the file system, the user has to avoid two writers at once.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_writer_although_a_forked_child_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.jsonl");
        let (file, ..) = RecordFile::open(&path).unwrap();
        let _copy_of_a_child = file.lock.try_clone().unwrap();
        assert!(RecordFile::open(&path).is_err());
        drop(file);
        RecordFile::open(&path).unwrap();
    }
}
