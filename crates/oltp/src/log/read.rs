//! Reads a log back.

use std::path::Path;

use super::part::{header_text, part_path};
use super::{FRAME_BYTES, MAGIC, checksum};
use crate::OltpError;

/// The whole records of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogContents {
    /// What the log says of the data that it belongs to.
    pub identity: String,
    pub(crate) records: Vec<Vec<u8>>,
    /// Number of the last part that was begun.
    pub(crate) part: u64,
    /// Whether the next one was made, and nothing written to it.
    pub(crate) has_unused_part: bool,
    /// Bytes of the last part up to the end of the last whole record.
    pub whole_bytes: u64,
    /// Bytes behind it: a write that was interrupted, of transactions that nobody was told of.
    pub cut_bytes: u64,
}

impl LogContents {
    /// Number of transactions.
    pub fn transactions(&self) -> usize {
        self.records.len()
    }
}

/// Reads a log up to its last whole record.
///
/// The first record that does not match its checksum ends the log. Writes follow each other only
/// when the one before is durable, so a crash damages none but the last. A log whose first part a
/// checkpoint has made needless is read with that checkpoint ([`crate::Checkpoint::read_log`]).
///
/// # Errors
/// [`OltpError::Log`] if a file cannot be read, does not begin as a log, or is damaged although
/// others follow it.
pub fn read_log(path: &Path) -> Result<LogContents, OltpError> {
    read_parts(path, None, 0, 0)
}

/// Reads a log of this identity from part `first` on, which has at least so many bytes of records
/// with the parts behind it.
pub(crate) fn read_parts(
    path: &Path,
    identity: Option<&str>,
    first: u64,
    least_bytes: u64,
) -> Result<LogContents, OltpError> {
    let mut last = Part::read(path, first)?;
    let (mut records, mut bytes) = (std::mem::take(&mut last.records), last.frame_bytes());
    let mut number = first;
    let has_unused_part = loop {
        let (here, next) = (part_path(path, number), part_path(path, number + 1));
        if !next.exists() {
            match last.is_ended {
                false => break false,
                true => return Err(failed(&next, "it is missing".to_owned())),
            }
        }
        let following = Part::read(path, number + 1)?;
        if !last.is_ended {
            // Nothing is written to a part before the end of the one before is durable.
            if following.frame_bytes() + following.cut_bytes == 0 {
                break true;
            }
            let reason = "it is damaged: its end is missing, and another part follows";
            return Err(failed(&here, reason.to_owned()));
        }
        (last, number) = (following, number + 1);
        records.append(&mut last.records);
        bytes += last.frame_bytes();
    };
    let place = part_path(path, number);
    if bytes < least_bytes {
        let missing = least_bytes - bytes;
        let reason = format!("{missing} bytes are missing that its checkpoint needs");
        return Err(failed(&place, reason));
    }
    if let Some(wanted) = identity.filter(|wanted| *wanted != last.identity) {
        let found = &last.identity;
        let reason = format!("it belongs to other data: {found}, not {wanted}");
        return Err(failed(&place, reason));
    }
    Ok(LogContents {
        identity: last.identity,
        records,
        part: number,
        has_unused_part,
        whole_bytes: last.whole_bytes,
        cut_bytes: last.cut_bytes,
    })
}

fn failed(path: &Path, reason: String) -> OltpError {
    OltpError::Log {
        path: path.display().to_string(),
        action: "read",
        reason,
    }
}

/// One file of a log.
struct Part {
    identity: String,
    records: Vec<Vec<u8>>,
    header_bytes: u64,
    whole_bytes: u64,
    cut_bytes: u64,
    /// Whether another part follows.
    is_ended: bool,
}

impl Part {
    fn frame_bytes(&self) -> u64 {
        self.whole_bytes - self.header_bytes
    }

    fn read(path: &Path, number: u64) -> Result<Self, OltpError> {
        let path = part_path(path, number);
        let failed = |reason: String| failed(&path, reason);
        let bytes = std::fs::read(&path).map_err(|error| failed(error.to_string()))?;
        let rest = bytes.strip_prefix(&MAGIC);
        let rest = rest.ok_or_else(|| failed("it is not a redo log of this version".to_owned()))?;
        let damaged = || failed("its first record is damaged".to_owned());
        let (text, mut rest) = frame(rest).ok_or_else(damaged)?;
        let text = String::from_utf8(text.to_vec()).map_err(|_| damaged())?;
        let suffix = header_text("", number);
        let identity = text.strip_suffix(&suffix).ok_or_else(|| {
            let reason = format!("it is another part of the log: {text}");
            failed(reason)
        })?;
        let header_bytes = (bytes.len() - rest.len()) as u64;
        let (mut records, mut is_ended) = (Vec::new(), false);
        while let (false, Some((record, after))) = (is_ended, frame(rest)) {
            // An empty one is the end.
            is_ended = record.is_empty();
            if !is_ended {
                records.push(record.to_vec());
            }
            rest = after;
        }
        Ok(Self {
            identity: identity.to_owned(),
            records,
            header_bytes,
            whole_bytes: (bytes.len() - rest.len()) as u64,
            cut_bytes: rest.len() as u64,
            is_ended,
        })
    }
}

/// The first record of these bytes and what follows it; `None` if it is not whole.
fn frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let record = rest.get(..u32::from_le_bytes(*length) as usize)?;
    let whole = checksum(*length, record) == u64::from_le_bytes(*sum);
    whole.then(|| (record, &bytes[FRAME_BYTES + record.len()..]))
}
