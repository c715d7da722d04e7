//! A file of records that grows by whole records.

use crate::{CutTail, Record, RecordError, RecordSet, RecordWriter};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What is attempted when a file is opened.
pub(crate) const OPENING: &str = "open for records";

/// A file of JSON lines to which records are added one at a time, such that its name shows whole records only at every
/// moment, also if the process is killed (SIGKILL) or the machine loses power.
///
/// A write in place can be cut in the middle of a line. So each record goes to a copy of the file beside it (a clone
/// where the file system has them, `FICLONE`; permission bits are kept), which is flushed to the disk and renamed over
/// the file. The price is copying the file per record; the disk has done its part when [`RecordFile::append`] returns
/// and does not disturb what is measured next. A killed process may leave the copy, `.NAME.growing`; the next one that
/// opens the file takes it over.
///
/// One writer at a time: the file is locked (`flock`) for as long as this value lives, where the file system has locks.
#[derive(Debug)]
pub struct RecordFile {
    /// As given, for errors.
    name: String,
    /// The file itself, behind any symbolic link.
    target: PathBuf,
    /// Bytes that are whole records; anything after them is a cut tail, which the next record replaces.
    whole_bytes: u64,
    /// Whether those bytes want a line end before the next record.
    open_line: bool,
    /// Holds the lock on what `target` names now.
    lock: File,
}

impl RecordFile {
    /// Opens a file to add to what it holds, or makes an empty one. Returns what is there already; a cut last line (left by
    /// another way of writing) is told and replaced by the first record that is added.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] if the file holds anything but records: it is left as it is. [`RecordError::Io`] if it
    /// cannot be written, is no ordinary file, or another process has it open as a [`RecordFile`].
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

    /// Begins a file anew: what it held is replaced by the first record that is added.
    ///
    /// # Errors
    /// As [`RecordFile::open`]: a file that holds anything but records is not replaced either.
    pub fn begin(path: &Path) -> Result<RecordFile, RecordError> {
        let (mut file, ..) = Self::open(path)?;
        (file.whole_bytes, file.open_line) = (0, false);
        Ok(file)
    }

    /// Adds one record; when this returns it is in the file and on the disk.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the record cannot be read back (a figure is not finite) or the copy cannot be written (full
    /// disk); the file is then as it was before.
    pub fn append(&mut self, record: &Record) -> Result<(), RecordError> {
        let mut line = Vec::new();
        if self.open_line {
            line.push(b'\n');
        }
        RecordWriter::new(&mut line, &self.name).write(record)?;
        let temporary = growing_beside(&self.target);
        let grown = self.grow(&temporary, &line).inspect_err(|_| {
            // The first error is the one to tell.
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

    /// Bytes of the records in the file.
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

    /// Writes the copy with `line` after the whole records and gives it the file's name; returns the lock on it.
    fn grow(&self, temporary: &Path, line: &[u8]) -> std::io::Result<File> {
        std::fs::copy(&self.target, temporary)?;
        let mut copy = OpenOptions::new().read(true).write(true).open(temporary)?;
        lock(&copy)?;
        copy.set_len(self.whole_bytes)?;
        copy.seek(SeekFrom::End(0))?;
        copy.write_all(line)?;
        copy.sync_data()?;
        std::fs::rename(temporary, &self.target)?;
        Ok(copy)
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

/// Opens or makes the file behind `path` and locks it. The writer before us may have renamed another file over it between
/// the two, so what is locked has to be what the name still means.
fn lock_target(path: &Path) -> std::io::Result<(PathBuf, File)> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let told = "it is no ordinary file, records cannot be added to it one by one; name a file, or take the records from stdout with --jsonl";
            return Err(Error::new(ErrorKind::InvalidInput, told));
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
        // A file system without locks: two writers at once are then the user's to avoid.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
