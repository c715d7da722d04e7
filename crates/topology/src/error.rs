//! Errors of reading, recording and overriding a topology.

use std::io;
use std::path::PathBuf;

use crate::IdSetError;

/// Why a topology could not be read, recorded or overridden.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The root has neither a list of nodes nor a `meminfo`.
    #[error(
        "{root} is no system tree: neither {root}/sys/devices/system/node/online nor {root}/proc/meminfo exists there; \
         give the directory that holds `sys` and `proc`, or mount them (mount -t sysfs none /sys; mount -t proc none /proc)",
        root = .root.display()
    )]
    NotASystemTree {
        /// The root as given.
        root: PathBuf,
    },
    /// A required file could not be read.
    #[error("cannot read {path}: {source}; {path} should hold {expected}", path = .path.display())]
    Unreadable {
        /// Full path of the file.
        path: PathBuf,
        /// Description of valid contents.
        expected: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A required file has unexpected contents.
    #[error("{path} should hold {expected}, but it holds {found:?}; if this is a recorded tree, record it again", path = .path.display())]
    Garbled {
        /// Full path of the file.
        path: PathBuf,
        /// Description of valid contents.
        expected: &'static str,
        /// Start of the actual contents.
        found: String,
    },
    /// The tiers that the user specified are not valid.
    #[error("tiers {text:?}: {problem}; write them as in \"dram=0,1;cxl=2-5\"")]
    Tiers {
        /// The specification as typed.
        text: String,
        /// Which rule it breaks.
        problem: String,
    },
    /// A tier that the user specified has a malformed list of nodes.
    #[error("tiers {text:?}: nodes of {tier}: {source}")]
    TierNodes {
        /// The specification as typed.
        text: String,
        /// Name of the tier.
        tier: String,
        /// Parse error of the list.
        source: IdSetError,
    },
    /// A file or directory of a recording could not be written.
    #[error("cannot {action} {path} for the recording: {source}; check the free space and that the directory can be written", path = .path.display())]
    Write {
        /// Failed operation, as a verb.
        action: &'static str,
        /// Path that it failed on.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The target directory of a recording is not empty.
    #[error("{path} is not empty; a recording needs a directory of its own: name a new one or empty this one", path = .path.display())]
    NotEmpty {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A recording would exceed its size limit.
    #[error("the recording in {into} would pass {max_bytes} bytes at {path}; allow more or record fewer devices", into = .into.display(), path = .path.display())]
    TooLarge {
        /// Target directory of the recording.
        into: PathBuf,
        /// File that would have exceeded the limit.
        path: PathBuf,
        /// Size limit in bytes.
        max_bytes: u64,
    },
}
