//! Requests to the manager and what it answers, as JSON. What carries them is not this crate's
//! business.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::PoolError;
use crate::state::{Answer, Change, Holder};

/// Version of the requests.
pub(super) const PROTOCOL: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) protocol: u32,
    pub(super) pool: Uuid,
    /// Who asks. Before it has joined, slot 0.
    pub(super) by: Holder,
    /// Counted by the process. A repeated one is not made again.
    pub(super) number: u64,
    pub(super) ask: Ask,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    /// To become a client. Its incarnation is the one of the request.
    Join {
        name: String,
        machine: String,
        boot: String,
    },
    /// Changes, in one commit.
    Change { changes: Vec<Change> },
    /// [`crate::Pool::grow_member`].
    Grow { index: u32, bytes: u64 },
    /// [`crate::Pool::add_member`].
    AddMember {
        path: PathBuf,
        file_bytes: u64,
        overwrite: bool,
    },
    /// [`crate::Pool::shrink_member`].
    Shrink { index: u32, bytes: u64 },
    /// [`crate::Pool::remove_member`].
    Remove { member: Uuid },
}

impl Ask {
    /// Whether the client only gives up what it has.
    pub(super) fn gives_back(&self) -> bool {
        let given = |change: &Change| {
            matches!(
                change,
                Change::Unpin { .. } | Change::Return { .. } | Change::Leave { .. }
            )
        };
        matches!(self, Self::Change { changes } if changes.iter().all(given))
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// It is a client now, in this slot of the hosts.
    Joined { slot: u16, at: (u64, u64) },
    /// Made, and in memory with the state of this epoch and generation.
    Made { answer: Answer, at: (u64, u64) },
    /// Not made.
    Refused(Refusal),
}

/// What a client has to tell apart; of everything else, the text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Refusal {
    Full {
        needed_bytes: u64,
        free_bytes: u64,
        quarantined_bytes: u64,
        capacity_bytes: u64,
    },
    StaleHost,
    /// Another host has taken the pool over: to be asked there.
    Replaced {
        message: String,
    },
    RegionState {
        id: u64,
    },
    Other {
        message: String,
        is_bad_input: bool,
    },
}

impl Refusal {
    pub(super) fn of(error: &PoolError) -> Self {
        match *error {
            PoolError::Full {
                needed_bytes,
                free_bytes,
                quarantined_bytes,
                capacity_bytes,
            } => Self::Full {
                needed_bytes,
                free_bytes,
                quarantined_bytes,
                capacity_bytes,
            },
            PoolError::StaleHost { .. } => Self::StaleHost,
            PoolError::Fenced { .. } => Self::Replaced {
                message: error.to_string(),
            },
            PoolError::RegionState { id, .. } => Self::RegionState { id },
            _ => Self::Other {
                message: error.to_string(),
                is_bad_input: error.is_bad_input(),
            },
        }
    }

    pub(super) fn error(self, by: Holder) -> PoolError {
        match self {
            Self::Full {
                needed_bytes,
                free_bytes,
                quarantined_bytes,
                capacity_bytes,
            } => PoolError::Full {
                needed_bytes,
                free_bytes,
                quarantined_bytes,
                capacity_bytes,
            },
            Self::StaleHost => PoolError::StaleHost {
                slot: by.slot,
                incarnation: by.incarnation,
            },
            Self::RegionState { id } => PoolError::RegionState {
                id,
                found: "in another state at the manager",
                expected: "the one that was read",
            },
            Self::Replaced { message } => PoolError::Refused {
                message,
                is_bad_input: false,
            },
            Self::Other {
                message,
                is_bad_input,
            } => PoolError::Refused {
                message,
                is_bad_input,
            },
        }
    }
}
