//! Parts of a log: files that follow each other, so that the older ones can go.

use std::fs::{DirEntry, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::medium::LogMedium;
use super::{FRAME_BYTES, Lsn, RedoLog, folder_of, frame_head, header, log_error, sync_folder};
use crate::OltpError;

/// How long who waits for commits in progress sleeps; they take microseconds.
const PAUSE: Duration = Duration::from_micros(50);

/// A part that nothing is appended to any more, and the next one.
#[derive(Debug)]
pub(super) struct EndedPart {
    /// What is still to be written of it, its end included.
    pub(super) frames: Vec<u8>,
    /// Bytes of frames that were ever appended when it ended.
    pub(super) end: u64,
    /// What the next part is written to.
    pub(super) next: Box<dyn LogMedium>,
}

/// Where a part begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartStart {
    /// Its number.
    pub(crate) number: u64,
    /// Bytes of frames before it.
    start: u64,
}

impl PartStart {
    /// Bytes of frames from its beginning to there.
    pub(crate) fn bytes_to(self, lsn: Lsn) -> u64 {
        lsn.0.saturating_sub(self.start)
    }
}

/// Path of a part of the log at `path`.
pub(crate) fn part_path(path: &Path, number: u64) -> PathBuf {
    match number {
        0 => path.to_owned(),
        number => with_suffix(path, &format!(".{number}")),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What the header of a part says: the identity of the data, and the number of any but the first.
pub(super) fn header_text(identity: &str, number: u64) -> String {
    match number {
        0 => identity.to_owned(),
        number => format!("{identity}, part {number}"),
    }
}

/// Makes the file of a part; under its name it is whole and durable.
fn create_part(path: &Path, identity: &str, number: u64) -> io::Result<File> {
    let place = part_path(path, number);
    let draft = with_suffix(&place, ".new");
    let mut file = File::create(&draft)?;
    LogMedium::append(&mut file, &header(identity, number))?;
    LogMedium::sync(&mut file)?;
    std::fs::rename(&draft, &place)?;
    sync_folder(path)?;
    Ok(file)
}

impl RedoLog {
    /// Begins the next part. All transactions of those before it are durable, and their changes in
    /// the store, when this returns; others go on meanwhile. One caller at a time.
    ///
    /// # Errors
    /// [`OltpError::Log`]; the log goes on in the part that it was in, unless it cannot be written.
    pub(crate) fn begin_part(&self) -> Result<PartStart, OltpError> {
        let shared = &self.shared;
        let number = shared.state().part + 1;
        let next = create_part(&shared.path, &shared.identity, number);
        let next = next.map_err(|e| log_error(&shared.path, "begin a part of", &e))?;
        let mut state = shared.state();
        shared.check(&state)?;
        let mut frames = std::mem::take(&mut state.buffer);
        frames.extend_from_slice(&frame_head(&[]));
        state.end += FRAME_BYTES as u64;
        let end = state.end;
        state.ended = Some(EndedPart {
            frames,
            end,
            next: Box::new(next),
        });
        state.part = number;
        drop(state);
        shared.work.notify_one();
        self.wait(Lsn(end))?;
        // New rows have no lock that a reader could wait for before they are written.
        while shared.unapplied(number - 1).load(Ordering::Acquire) > 0 {
            std::thread::sleep(PAUSE);
        }
        Ok(PartStart { number, start: end })
    }

    /// Removes the parts before the one of this number.
    pub(crate) fn remove_before(&self, number: u64) -> Result<(), OltpError> {
        remove_parts(&self.shared.path, 0..number)
    }

    /// Number of the part that it is in.
    #[cfg(test)]
    pub(crate) fn part(&self) -> u64 {
        self.shared.state().part
    }

    /// What it says of the data that it belongs to.
    pub(crate) fn identity(&self) -> &str {
        &self.shared.identity
    }
}

/// Numbers of the parts of a log at `path` that there are, ascending; the first part is the file at
/// `path` itself.
///
/// # Errors
/// [`OltpError::Log`] if the folder cannot be read.
pub fn log_parts(path: &Path) -> Result<Vec<u64>, OltpError> {
    let failed = |error: io::Error| log_error(path, "look for parts of", &error);
    let number = |entry: io::Result<DirEntry>| {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.rsplit_once('.'));
        let number = number.and_then(|(_, number)| number.parse::<u64>().ok());
        // `log.01` is no part, and `log.0` neither.
        let is_part = |number: &u64| part_path(path, *number).file_name() == Some(name.as_os_str());
        Ok::<_, OltpError>(number.filter(|number| *number > 0).filter(is_part))
    };
    let entries = std::fs::read_dir(folder_of(path)).map_err(failed)?;
    let numbers = entries.map(number).collect::<Result<Vec<_>, _>>()?;
    let mut numbers: Vec<u64> = numbers.into_iter().flatten().collect();
    numbers.extend(path.exists().then_some(0));
    numbers.sort_unstable();
    Ok(numbers)
}

/// Removes those parts of a log whose numbers are in this range, the oldest first.
pub(super) fn remove_parts(path: &Path, numbers: Range<u64>) -> Result<(), OltpError> {
    let failed = |error: io::Error| log_error(path, "remove a part of", &error);
    let parts = log_parts(path)?.into_iter();
    for part in parts.filter(|part| numbers.contains(part)) {
        std::fs::remove_file(part_path(path, part)).map_err(failed)?;
    }
    Ok(())
}
