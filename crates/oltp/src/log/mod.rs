//! The redo log: what transactions changed, in a file, many of them per write.
//!
//! ```text
//!   file    magic 8 | length u32 | checksum u64 | identity of the data ...       header
//!           length u32 | checksum u64 | record of a transaction ...              one per commit
//!
//!   session ── append ──> buffer ── writer thread: write, fdatasync ──> file
//!      └────── wait <───────────────── durable up to here ─────┘
//! ```
//! A session appends while it holds its locks, so that of two transactions of which one depends on
//! the other, the other comes first; any beginning of the log is then a state that the transactions
//! could have left. While the writer waits for the device, the records of other sessions gather,
//! and the next write takes them all (group commit).
//!
//! After an error of the device the log takes nothing more: every commit fails with that error.
//! What was committed before is in the file, and what comes behind it there was not committed.

mod medium;
mod read;
pub(crate) mod record;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use medium::LogMedium;
pub use read::{LogContents, read_log};

use crate::OltpError;

/// A position in the log, in bytes of records so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lsn(u64);

const MAGIC: [u8; 8] = *b"TLREDO\x01\0";
/// Length and checksum, before every record.
const FRAME_BYTES: usize = 12;

/// CRC-64/NVME of a record and its length.
fn checksum(length: [u8; 4], bytes: &[u8]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    digest.update(&length);
    digest.update(bytes);
    digest.finalize()
}

/// What stands before a record.
fn frame_head(bytes: &[u8]) -> [u8; FRAME_BYTES] {
    let length = (bytes.len() as u32).to_le_bytes();
    let mut head = [0; FRAME_BYTES];
    head[..4].copy_from_slice(&length);
    head[4..].copy_from_slice(&checksum(length, bytes).to_le_bytes());
    head
}

#[derive(Debug)]
struct LogState {
    /// Frames that are not written yet.
    buffer: Vec<u8>,
    /// Bytes of frames that were ever appended.
    end: u64,
    /// Bytes of frames that are durable.
    durable: u64,
    /// Writes so far.
    writes: u64,
    /// Why nothing more can be written.
    failed: Option<(&'static str, String)>,
    closing: bool,
}

#[derive(Debug)]
struct LogShared {
    path: PathBuf,
    state: Mutex<LogState>,
    /// There is something to write, or to close.
    work: Condvar,
    /// More is durable, or nothing more will be.
    written: Condvar,
}

/// A redo log that is being written.
#[derive(Debug)]
pub struct RedoLog {
    shared: Arc<LogShared>,
    writer: Option<JoinHandle<()>>,
}

/// Size of a log and the writes that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogUse {
    /// Bytes of transactions, without the header.
    pub size_bytes: u64,
    /// Writes, each followed by one `fdatasync`.
    pub writes: u64,
}

impl RedoLog {
    /// Makes a log for data that `identity` describes, over whatever is at `path`.
    ///
    /// # Errors
    /// [`OltpError::Log`], [`OltpError::Thread`].
    pub fn create(path: &Path, identity: &str) -> Result<Self, OltpError> {
        let failed = |action| move |error: io::Error| log_error(path, action, &error);
        let mut file = File::create(path).map_err(failed("create"))?;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&frame_head(identity.as_bytes()));
        header.extend_from_slice(identity.as_bytes());
        LogMedium::append(&mut file, &header).map_err(failed("write"))?;
        LogMedium::sync(&mut file).map_err(failed("write"))?;
        sync_folder(path).map_err(failed("create"))?;
        Self::start(path, Box::new(file))
    }

    /// Continues a log after its last whole record: what comes behind is cut off.
    ///
    /// # Errors
    /// [`OltpError::Log`], [`OltpError::Thread`].
    pub fn resume(path: &Path, contents: &LogContents) -> Result<Self, OltpError> {
        let failed = |action| move |error: io::Error| log_error(path, action, &error);
        let file = File::options().append(true).open(path);
        let mut file = file.map_err(failed("open"))?;
        file.set_len(contents.whole_bytes).map_err(failed("cut"))?;
        LogMedium::sync(&mut file).map_err(failed("write"))?;
        Self::start(path, Box::new(file))
    }

    fn start(path: &Path, medium: Box<dyn LogMedium>) -> Result<Self, OltpError> {
        let shared = Arc::new(LogShared {
            path: path.to_owned(),
            state: Mutex::new(LogState {
                buffer: Vec::new(),
                end: 0,
                durable: 0,
                writes: 0,
                failed: None,
                closing: false,
            }),
            work: Condvar::new(),
            written: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let writer = std::thread::Builder::new().name("redo log".to_owned());
        let writer = writer.spawn(move || own.write(medium));
        Ok(Self {
            shared,
            writer: Some(writer.map_err(OltpError::Thread)?),
        })
    }

    /// Appends the record of a transaction; durable when [`RedoLog::wait`] says so.
    pub(crate) fn append(&self, record: &[u8]) -> Result<Lsn, OltpError> {
        // Others wait for the buffer, and for the rows that the caller has locked.
        let head = frame_head(record);
        let mut state = self.shared.state();
        self.shared.check(&state)?;
        let was_empty = state.buffer.is_empty();
        state.buffer.extend_from_slice(&head);
        state.buffer.extend_from_slice(record);
        state.end += (head.len() + record.len()) as u64;
        let end = Lsn(state.end);
        drop(state);
        // The writer waits for an empty buffer alone; waking it is a system call.
        if was_empty {
            self.shared.work.notify_one();
        }
        Ok(end)
    }

    /// The end of what was appended so far.
    pub(crate) fn end(&self) -> Result<Lsn, OltpError> {
        let state = self.shared.state();
        self.shared.check(&state)?;
        Ok(Lsn(state.end))
    }

    /// Waits until the log is durable up to there.
    pub(crate) fn wait(&self, lsn: Lsn) -> Result<(), OltpError> {
        let mut state = self.shared.state();
        while state.durable < lsn.0 {
            self.shared.check(&state)?;
            let waited = self.shared.written.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// How much was written, and how often.
    pub fn used(&self) -> LogUse {
        let state = self.shared.state();
        LogUse {
            size_bytes: state.durable,
            writes: state.writes,
        }
    }
}

impl Drop for RedoLog {
    fn drop(&mut self) {
        self.shared.state().closing = true;
        self.shared.work.notify_one();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so.
            let _ = writer.join();
        }
    }
}

impl LogShared {
    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, state: &LogState) -> Result<(), OltpError> {
        match &state.failed {
            None => Ok(()),
            Some((action, reason)) => Err(OltpError::Log {
                path: self.path.display().to_string(),
                action,
                reason: reason.clone(),
            }),
        }
    }

    /// The writer's thread.
    fn write(&self, mut medium: Box<dyn LogMedium>) {
        let mut frames = Vec::new();
        loop {
            let mut state = self.state();
            while state.buffer.is_empty() {
                if state.closing {
                    return;
                }
                let waited = self.work.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut frames, &mut state.buffer);
            let end = state.end;
            drop(state);
            let written = medium.append(&frames).and_then(|()| medium.sync());
            frames.clear();
            let mut state = self.state();
            match written {
                Ok(()) => (state.durable, state.writes) = (end, state.writes + 1),
                Err(error) => state.failed = Some(("write", error.to_string())),
            }
            let failed = state.failed.is_some();
            drop(state);
            self.written.notify_all();
            if failed {
                return;
            }
        }
    }
}

fn log_error(path: &Path, action: &'static str, error: &io::Error) -> OltpError {
    OltpError::Log {
        path: path.display().to_string(),
        action,
        reason: error.to_string(),
    }
}

/// Makes the name of a new file durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
pub(crate) mod tests;
