//! What stops weights from being set or put back.

use std::io;
use std::path::PathBuf;

/// Why weights were not set or not put back. Every message names the file or value and the next step.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The kernel has no weights to set.
    #[error(
        "this kernel has no weighted interleaving ({reason}); boot Linux 6.9 or newer, or give the weights to an engine alone (--no-kernel --config FILE.yaml)"
    )]
    Absent {
        /// What was looked for and not found.
        reason: String,
    },
    /// A tier of the weights has no node here.
    #[error(
        "the weights name tier {tier}, but this machine has {known}; name its nodes with --tiers, as in \"dram=0;{tier}=1\""
    )]
    NoNodes {
        /// The tier.
        tier: String,
        /// Tiers and nodes that there are.
        known: String,
    },
    /// The kernel offers no weight for a node.
    #[error(
        "{path} is not there: node {node} has no memory that the kernel interleaves over; name other nodes with --tiers"
    )]
    NoSuchNode {
        /// The node.
        node: u32,
        /// The file that is missing.
        path: PathBuf,
    },
    /// A share of zero cannot be said in weights.
    #[error(
        "the best is everything on {kept}: kernel weights are 1 to 255 and cannot leave out {left_out}; run the program without weighted interleaving (numactl --membind), choose another phase with --phase, or write the files for an engine alone (--no-kernel)"
    )]
    NothingToSpread {
        /// Tiers with a weight above 0.
        kept: String,
        /// Tiers of weight 0.
        left_out: String,
    },
    /// The kernel weighs by itself, and the caller has not said that this may end.
    #[error(
        "{path} is on: the kernel derives the weights from the bandwidths that firmware reports, and writing any weight switches that off for all nodes{lasting}; add --auto-off to allow it (tierloom tune --restore switches it on again)"
    )]
    AutoIsOn {
        /// The switch.
        path: PathBuf,
        /// Added where it cannot be undone.
        lasting: &'static str,
    },
    /// A file holds something else than expected.
    #[error("{path} holds {found:?}, expected {expected}")]
    Garbled {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What it should.
        expected: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}{hint}")]
    Io {
        /// "read", "write", "save the old state to" ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// What to do, beginning with "; ", or nothing.
        hint: &'static str,
    },
    /// Some weights were written, then one was not.
    #[error(
        "cannot write {path}: {source}; {written} of {wanted} settings were written, the old ones are saved in {saved}; tierloom tune --restore --yes puts them back"
    )]
    Halfway {
        /// The file that was not written.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// Settings written before.
        written: usize,
        /// Settings to write.
        wanted: usize,
        /// Where the old state is.
        saved: PathBuf,
    },
    /// A write succeeded, but the file holds something else.
    #[error(
        "{path} holds {found} after {wanted} was written: another program sets weights too, perhaps; stop it and try again (tierloom tune --restore --yes puts the old ones back)"
    )]
    NotTaken {
        /// The file.
        path: PathBuf,
        /// What was written.
        wanted: String,
        /// What was read.
        found: String,
    },
    /// The switch was on before and cannot be switched on again.
    #[error(
        "the old weights are back, but {path} stays off: {source}; the kernel was given no bandwidths to weigh by, and only a reboot shows it as on again; {saved} can be deleted then"
    )]
    AutoStaysOff {
        /// The switch.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
        /// Where the old state is.
        saved: PathBuf,
    },
    /// A saved state that cannot be used.
    #[error("{path} is no saved state: {problem}; if it is not needed, delete it")]
    BadState {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Another process is at it.
    #[error("another tierloom is changing this machine (it holds {path}); wait for it")]
    Busy {
        /// The lock.
        path: PathBuf,
    },
}

impl ApplyError {
    /// Whether another request would do on this machine (exit code 2), rather than that the machine failed (exit code 1).
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
