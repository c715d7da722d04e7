//! Results of calls: what every function returns, and the errors behind them.

use std::fmt::Display;
use tierloom_memory::{MemoryError, PlacementError};
use tierloom_predict::PredictError;
use tierloom_topology::TopologyError;

/// How a call ended. `tl_last_error` has the text.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum tl_status {
    /// The call did what was asked.
    TL_OK = 0,
    /// An argument is null, misaligned, no UTF-8, or of a size that cannot be.
    TL_INVALID_ARGUMENT = 1,
    /// The text, number or name has to be corrected; nothing was changed.
    TL_BAD_INPUT = 2,
    /// This machine or process lacks a node, a tier or a permission; the text says how to get it.
    TL_UNAVAILABLE = 3,
    /// There is not enough free memory where it was asked for.
    TL_NO_MEMORY = 4,
    /// Something failed while running.
    TL_FAILED = 5,
    /// A defect of the library; objects of the call should only be freed.
    TL_PANIC = 6,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: tl_status,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(status: tl_status, text: impl Display) -> Self {
        Fault {
            status,
            text: text.to_string(),
        }
    }

    pub(crate) fn argument(text: impl Display) -> Self {
        Self::new(tl_status::TL_INVALID_ARGUMENT, text)
    }

    pub(crate) fn input(text: impl Display) -> Self {
        Self::new(tl_status::TL_BAD_INPUT, text)
    }

    pub(crate) fn failed(text: impl Display) -> Self {
        Self::new(tl_status::TL_FAILED, text)
    }
}

impl From<PredictError> for Fault {
    fn from(error: PredictError) -> Self {
        match error {
            PredictError::BadInput(text) => Fault::input(text),
            PredictError::Failed(text) => Fault::failed(text),
        }
    }
}

impl From<TopologyError> for Fault {
    fn from(error: TopologyError) -> Self {
        match error {
            TopologyError::Tiers { .. } | TopologyError::TierNodes { .. } => Fault::input(error),
            _ => Fault::new(tl_status::TL_UNAVAILABLE, error),
        }
    }
}

impl From<PlacementError> for Fault {
    fn from(error: PlacementError) -> Self {
        Fault::new(of_placement(&error), error)
    }
}

impl From<MemoryError> for Fault {
    fn from(error: MemoryError) -> Self {
        let status = match &error {
            MemoryError::Placement(error) => of_placement(error),
            MemoryError::SizeZero { .. }
            | MemoryError::SizeNotPages { .. }
            | MemoryError::OutOfRange { .. }
            | MemoryError::Migration { .. } => tl_status::TL_BAD_INPUT,
            MemoryError::NotEnoughMemory { .. }
            | MemoryError::OverGroupLimit { .. }
            | MemoryError::NotEnoughHugePages { .. } => tl_status::TL_NO_MEMORY,
            MemoryError::Syscall { errno, .. } => match *errno {
                libc::ENOMEM | libc::EFAULT => tl_status::TL_NO_MEMORY,
                libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EINVAL => {
                    tl_status::TL_UNAVAILABLE
                }
                _ => tl_status::TL_FAILED,
            },
            _ => tl_status::TL_FAILED,
        };
        Fault::new(status, error)
    }
}

/// What is wrong with the text against what this machine lacks.
fn of_placement(error: &PlacementError) -> tl_status {
    match error {
        PlacementError::UnknownNode { .. }
        | PlacementError::NodeWithoutMemory { .. }
        | PlacementError::NodeForbidden { .. }
        | PlacementError::UnknownTier { .. } => tl_status::TL_UNAVAILABLE,
        _ => tl_status::TL_BAD_INPUT,
    }
}
