//! Errors of setting and restoring weights.

use std::io;
use std::path::PathBuf;

use tierloom_topology::saved_state::SavedStateError;

/// Why weights were not set or restored; each message names the file or value and the next step.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The kernel has no weighted interleaving.
    #[error(
        "this kernel has no weighted interleaving ({reason}); boot Linux 6.9 or newer, or give the weights to an engine alone (--no-kernel --config FILE.yaml)"
    )]
    Absent {
        /// What was missing: a directory, or node files in it.
        reason: String,
    },
    /// A tier of the weights has no node on this machine.
    #[error(
        "the weights name tier {tier}, but this machine has {known}; name its nodes with --tiers, as in \"dram=0;{tier}=1\""
    )]
    NoNodes {
        /// Name of the tier.
        tier: String,
        /// Tiers of the machine with their nodes, as text.
        known: String,
    },
    /// The kernel has no weight file for a node.
    #[error(
        "{path} is not there: node {node} has no memory that the kernel interleaves over; name other nodes with --tiers"
    )]
    NoSuchNode {
        /// Number of the node.
        node: u32,
        /// Path of the missing file.
        path: PathBuf,
    },
    /// The weights use a single tier, which the kernel cannot represent: it has no weight of 0.
    #[error(
        "the best is everything on {kept}: kernel weights are 1 to 255 and cannot leave out {left_out}; run the program without weighted interleaving (numactl --membind), choose another phase with --phase, or write the files for an engine alone (--no-kernel)"
    )]
    NothingToSpread {
        /// Tiers with a weight above 0, as text.
        kept: String,
        /// Tiers with weight 0, as text.
        left_out: String,
    },
    /// Automatic weights are on, and the caller has not allowed them to be switched off.
    #[error(
        "{path} is on: the kernel derives the weights from the bandwidths that firmware reports, and writing any weight switches that off for all nodes{lasting}; add --auto-off to allow it (tierloom tune --restore switches it on again)"
    )]
    AutoIsOn {
        /// Path of the switch.
        path: PathBuf,
        /// Addition to the message where switching off cannot be undone; otherwise empty.
        lasting: &'static str,
    },
    /// A file has unexpected contents.
    #[error("{path} holds {found:?}, expected {expected}")]
    Garbled {
        /// Path of the file.
        path: PathBuf,
        /// Contents of the file.
        found: String,
        /// Description of valid contents.
        expected: &'static str,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}{hint}")]
    Io {
        /// Failed operation, such as "read" or "save the old state to".
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
        /// Advice that starts with "; ", or empty.
        hint: &'static str,
    },
    /// A write failed after others had succeeded.
    #[error(
        "cannot write {path}: {source}; {written} of {wanted} settings were written, the old ones are saved in {saved}; tierloom tune --restore --yes puts them back"
    )]
    Halfway {
        /// Path of the file that was not written.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
        /// Number of settings written before.
        written: usize,
        /// Number of settings to write.
        wanted: usize,
        /// Path of the saved state.
        saved: PathBuf,
    },
    /// A write succeeded, but reading back gave another value.
    #[error(
        "{path} holds {found} after {wanted} was written: another program sets weights too, perhaps; stop it and try again (tierloom tune --restore --yes puts the old ones back)"
    )]
    NotTaken {
        /// Path of the file.
        path: PathBuf,
        /// Value that was written, as text.
        wanted: String,
        /// Value that was read back, as text.
        found: String,
    },
    /// Automatic weights were on before, but cannot be switched on again.
    #[error(
        "the old weights are back, but {path} stays off: {source}; the kernel was given no bandwidths to weigh by, and only a reboot shows it as on again; {saved} can be deleted then"
    )]
    AutoStaysOff {
        /// Path of the switch.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
        /// Path of the saved state.
        saved: PathBuf,
    },
    /// A file cannot be used as saved state.
    #[error("{path} is no saved state: {problem}; if it is not needed, delete it")]
    BadState {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it: a parser message or another schema.
        problem: String,
    },
    /// Another process holds the lock.
    #[error("another tierloom is changing this machine (it holds {path}); wait for it")]
    Busy {
        /// Path of the lock file.
        path: PathBuf,
    },
}

impl ApplyError {
    /// Whether the request was wrong (exit code 2) rather than the machine at fault (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Absent { .. }
                | Self::NoNodes { .. }
                | Self::NoSuchNode { .. }
                | Self::NothingToSpread { .. }
                | Self::AutoIsOn { .. }
                | Self::BadState { .. }
        )
    }

    pub(super) fn io(action: &'static str, path: PathBuf, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied => "; run it as root (sudo)",
            io::ErrorKind::ReadOnlyFilesystem => {
                "; /sys is mounted read-only here, as in containers: run it on the host"
            }
            _ => "",
        };
        Self::Io {
            action,
            path,
            source,
            hint,
        }
    }
}

impl From<SavedStateError> for ApplyError {
    fn from(error: SavedStateError) -> Self {
        match error {
            SavedStateError::Io {
                action,
                path,
                source,
            } => Self::io(action, path, source),
            SavedStateError::Bad { path, problem } => Self::BadState { path, problem },
            SavedStateError::Busy { path } => Self::Busy { path },
        }
    }
}
