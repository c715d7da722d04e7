//! What a log is written to. Tests have one that becomes full.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};

/// Bytes that can be added to and made durable.
pub(super) trait LogMedium: Debug + Send {
    /// Adds bytes at the end. After an error some of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns once everything that was added is durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl LogMedium for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
