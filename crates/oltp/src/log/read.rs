//! Reads a log back.

use std::path::Path;

use super::{FRAME_BYTES, MAGIC, checksum};
use crate::OltpError;

/// The whole records of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogContents {
    /// What the log says of the data that it belongs to.
    pub identity: String,
    pub(crate) records: Vec<Vec<u8>>,
    /// Bytes up to the end of the last whole record.
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
/// when the one before is durable, so a crash damages none but the last.
///
/// # Errors
/// [`OltpError::Log`] if the file cannot be read, or does not begin as a log.
pub fn read_log(path: &Path) -> Result<LogContents, OltpError> {
    let failed = |reason: String| OltpError::Log {
        path: path.display().to_string(),
        action: "read",
        reason,
    };
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let rest = bytes.strip_prefix(&MAGIC);
    let rest = rest.ok_or_else(|| failed("it is not a redo log of this version".to_owned()))?;
    let damaged = || failed("its first record is damaged".to_owned());
    let (identity, mut rest) = frame(rest).ok_or_else(damaged)?;
    let identity = String::from_utf8(identity.to_vec()).map_err(|_| damaged())?;
    let mut records = Vec::new();
    while let Some((record, after)) = frame(rest) {
        records.push(record.to_vec());
        rest = after;
    }
    Ok(LogContents {
        identity,
        records,
        whole_bytes: (bytes.len() - rest.len()) as u64,
        cut_bytes: rest.len() as u64,
    })
}

/// The first record of these bytes and what follows it; `None` if it is not whole.
fn frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let record = rest.get(..u32::from_le_bytes(*length) as usize)?;
    let whole = checksum(*length, record) == u64::from_le_bytes(*sum);
    whole.then(|| (record, &bytes[FRAME_BYTES + record.len()..]))
}
