//! What can go wrong while a machine is read, recorded or overridden.

use std::io;
use std::path::PathBuf;

use crate::IdSetError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The root has neither nodes nor a memory description.
    #[error(
        "{root} is no system tree: neither {root}/sys/devices/system/node/online nor {root}/proc/meminfo exists there; \
         give the directory that holds `sys` and `proc`, or mount them (mount -t sysfs none /sys; mount -t proc none /proc)",
        root = .root.display()
    )]
    NotASystemTree {
        /// The root that was given.
        root: PathBuf,
    },
    /// A file that cannot be done without could not be read.
    #[error("cannot read {path}: {source}; {path} should hold {expected}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// Why it could not be read.
        source: io::Error,
    },
    /// A file that cannot be done without holds something else than it should.
    #[error("{path} should hold {expected}, but it holds {found:?}; if this is a recorded tree, record it again", path = .path.display())]
    Garbled {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// The beginning of what it holds.
        found: String,
    },
    /// The tiers that the user named do not fit.
    #[error("tiers {text:?}: {problem}; write them as in \"dram=0,1;cxl=2-5\"")]
    Tiers {
        /// What was typed.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The tiers that the user named hold a malformed list of nodes.
    #[error("tiers {text:?}: nodes of {tier}: {source}")]
    TierNodes {
        /// What was typed.
        text: String,
        /// The tier whose nodes are malformed.
        tier: String,
        /// What is wrong with the list.
        source: IdSetError,
    },
    /// A recording could not be written.
    #[error("cannot {action} {path} for the recording: {source}; check the free space and that the directory can be written", path = .path.display())]
    Write {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The directory for a recording holds something already.
    #[error("{path} is not empty; a recording needs a directory of its own: name a new one or empty this one", path = .path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// A recording would be larger than allowed.
    #[error("the recording in {into} would pass {max_bytes} bytes at {path}; allow more or record fewer devices", into = .into.display(), path = .path.display())]
    TooLarge {
        /// The directory that was written to.
        into: PathBuf,
        /// The file at which the limit was passed.
        path: PathBuf,
        /// The limit.
        max_bytes: u64,
    },
}
