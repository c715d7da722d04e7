//! A limit on the bytes of columns in DRAM, as a user writes it.

use tierloom_text::{Bytes, BytesError};
use tierloom_topology::{TierKind, Topology};

/// Why columns cannot be limited to a number of bytes in DRAM.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DramLimitError {
    /// The text is not a size.
    #[error(transparent)]
    Text(#[from] BytesError),
    /// The size is 0.
    #[error("expected a size above 0, as in 512MiB or 1.5GiB")]
    Zero,
    /// There is nowhere else for columns.
    #[error(
        "this machine has no cxl tier that columns could go to (see `tierloom topology`; --tiers names tiers yourself)"
    )]
    NoCxl,
}

/// Reads a limit, in bytes.
///
/// # Errors
/// [`DramLimitError`], also for a machine on which columns could go nowhere else.
pub fn dram_limit(text: &str, topology: &Topology) -> Result<u64, DramLimitError> {
    match text.parse()? {
        Bytes(0) => Err(DramLimitError::Zero),
        _ if topology.tier(TierKind::Cxl).is_none() => Err(DramLimitError::NoCxl),
        Bytes(bytes) => Ok(bytes),
    }
}
