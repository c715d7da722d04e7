//! What transactions do to rows, as it is noted until they commit.

/// What a transaction does to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Changes words of a row.
    Patch,
    /// Makes a row, and its index entries.
    Insert,
    /// Removes a row, and its index entries.
    Delete,
    /// Changes the version alone.
    Guard,
}

/// One effect; its words and keys are in the session's buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteRow {
    pub(crate) effect: Effect,
    pub(crate) table: u16,
    pub(crate) row: u32,
    /// First word that changes.
    pub(crate) at: u32,
    pub(crate) words: (u32, u32),
    pub(crate) keys: (u32, u32),
}
