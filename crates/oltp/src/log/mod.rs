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
//! A log has parts, files that follow each other (`FILE`, `FILE.1`, ...): a checkpoint begins one,
//! and those before it are removed when the checkpoint is durable. An empty record ends a part, and
//! nothing is written to the next one before that is durable.
//!
//! After an error of the device the log takes nothing more: every commit fails with that error.
//! What was committed before is in the file, and what comes behind it there was not committed.

mod medium;
mod part;
mod read;
pub(crate) mod record;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use medium::LogMedium;
pub(crate) use part::PartStart;
pub use part::log_parts;
use part::{EndedPart, header_text, part_path, remove_parts};
pub(crate) use read::read_parts;
pub use read::{LogContents, read_log};

use crate::OltpError;

/// A position in the log, in bytes of records so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lsn(u64);

/// A record that was appended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Appended {
    /// Its end.
    pub(crate) lsn: Lsn,
    /// The part that it is in; `None` if nothing was appended.
    part: Option<u64>,
}

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
    /// Records that were ever appended.
    records: u64,
    /// Number of the part that records are appended to.
    part: u64,
    /// The part before, which is still to be written.
    ended: Option<EndedPart>,
    /// Why nothing more can be written.
    failed: Option<(&'static str, String)>,
    closing: bool,
}

#[derive(Debug)]
struct LogShared {
    path: PathBuf,
    identity: String,
    state: Mutex<LogState>,
    /// Transactions of the parts of even and of odd number that are appended, and whose changes are
    /// not in the store yet.
    unapplied: [AtomicU64; 2],
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
    /// Makes a log for data that `identity` describes, over the log at `path` with all its parts,
    /// or whatever else is there.
    ///
    /// # Errors
    /// [`OltpError::Log`], [`OltpError::Thread`].
    pub fn create(path: &Path, identity: &str) -> Result<Self, OltpError> {
        let failed = |action| move |error: io::Error| log_error(path, action, &error);
        // What is left of an older log would be taken for what follows.
        remove_parts(path, 1..u64::MAX)?;
        let mut file = File::create(path).map_err(failed("create"))?;
        LogMedium::append(&mut file, &header(identity, 0)).map_err(failed("write"))?;
        LogMedium::sync(&mut file).map_err(failed("write"))?;
        sync_folder(path).map_err(failed("create"))?;
        Self::start(path, identity, 0, Box::new(file))
    }

    /// Continues a log after its last whole record: what comes behind is cut off, and a part that
    /// was made and not begun is removed.
    ///
    /// # Errors
    /// [`OltpError::Log`], [`OltpError::Thread`].
    pub fn resume(path: &Path, contents: &LogContents) -> Result<Self, OltpError> {
        let last = part_path(path, contents.part);
        let failed = |action| {
            let last = &last;
            move |error: io::Error| log_error(last, action, &error)
        };
        if contents.has_unused_part {
            let unused = part_path(path, contents.part + 1);
            std::fs::remove_file(unused).map_err(failed("clear what follows it"))?;
        }
        let file = File::options().append(true).open(&last);
        let mut file = file.map_err(failed("open"))?;
        file.set_len(contents.whole_bytes).map_err(failed("cut"))?;
        LogMedium::sync(&mut file).map_err(failed("write"))?;
        Self::start(path, &contents.identity, contents.part, Box::new(file))
    }

    fn start(
        path: &Path,
        identity: &str,
        part: u64,
        medium: Box<dyn LogMedium>,
    ) -> Result<Self, OltpError> {
        let shared = Arc::new(LogShared {
            path: path.to_owned(),
            identity: identity.to_owned(),
            unapplied: Default::default(),
            state: Mutex::new(LogState {
                buffer: Vec::new(),
                end: 0,
                durable: 0,
                writes: 0,
                records: 0,
                part,
                ended: None,
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

    /// Appends the record of a transaction, which is not empty; durable when [`RedoLog::wait`] says
    /// so. Who appends says so when the changes are in the store ([`RedoLog::applied`]).
    pub(crate) fn append(&self, record: &[u8]) -> Result<Appended, OltpError> {
        // Others wait for the buffer, and for the rows that the caller has locked.
        let head = frame_head(record);
        let mut state = self.shared.state();
        self.shared.check(&state)?;
        let was_empty = state.buffer.is_empty();
        state.buffer.extend_from_slice(&head);
        state.buffer.extend_from_slice(record);
        state.end += (head.len() + record.len()) as u64;
        state.records += 1;
        let appended = Appended {
            lsn: Lsn(state.end),
            part: Some(state.part),
        };
        // Before the next part can be begun, which waits for those of this one.
        self.shared
            .unapplied(state.part)
            .fetch_add(1, Ordering::Relaxed);
        drop(state);
        // The writer waits for an empty buffer alone; waking it is a system call.
        if was_empty {
            self.shared.work.notify_one();
        }
        Ok(appended)
    }

    /// The changes of a transaction that was appended are in the store, for all to see.
    pub(crate) fn applied(&self, appended: Appended) {
        if let Some(part) = appended.part {
            // Who finds none left sees what they stored.
            self.shared.unapplied(part).fetch_sub(1, Ordering::Release);
        }
    }

    /// The end of what was appended so far.
    pub(crate) fn end(&self) -> Result<Appended, OltpError> {
        let state = self.shared.state();
        self.shared.check(&state)?;
        Ok(Appended {
            lsn: Lsn(state.end),
            part: None,
        })
    }

    /// Transactions that were ever appended.
    pub fn transactions(&self) -> u64 {
        self.shared.state().records
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

    fn unapplied(&self, part: u64) -> &AtomicU64 {
        &self.unapplied[(part & 1) as usize]
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
            while state.buffer.is_empty() && state.ended.is_none() {
                if state.closing {
                    return;
                }
                let waited = self.work.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            // What a part still lacks comes before anything of the next one.
            let (end, next) = match state.ended.take() {
                Some(ended) => {
                    frames = ended.frames;
                    (ended.end, Some(ended.next))
                }
                None => {
                    std::mem::swap(&mut frames, &mut state.buffer);
                    (state.end, None)
                }
            };
            drop(state);
            let written = medium.append(&frames).and_then(|()| medium.sync());
            frames.clear();
            if let Some(next) = next {
                medium = next;
            }
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

/// What a part begins with.
fn header(identity: &str, part: u64) -> Vec<u8> {
    let text = header_text(identity, part);
    let head = frame_head(text.as_bytes());
    [MAGIC.as_slice(), &head, text.as_bytes()].concat()
}

fn log_error(path: &Path, action: &'static str, error: &io::Error) -> OltpError {
    OltpError::Log {
        path: path.display().to_string(),
        action,
        reason: error.to_string(),
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Makes the name of a new file durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

#[cfg(test)]
pub(crate) mod tests;
