//! Why a DAX device keeps its size.

use std::io;
use std::path::PathBuf;

use tierloom_text::Bytes;

/// Why a DAX device keeps its size, or has another one than was asked for.
#[derive(Debug, thiserror::Error)]
pub enum DaxSizeError {
    /// sysfs does not say what is needed.
    #[error("cannot learn about {device} from {}: {why}; mount sysfs, and use Linux 5.10 or newer", file.display())]
    Unreadable {
        /// The device.
        device: String,
        /// The file in sysfs.
        file: PathBuf,
        /// What is there instead.
        why: String,
    },
    /// The region of the device has not so much left.
    #[error(
        "{device} shall get {more} more, and its region has {available} left; make another device of \
         the region smaller, or ask for less"
    )]
    NoRoom {
        /// The device.
        device: String,
        /// Bytes that it shall get.
        more: Bytes,
        /// Bytes that its region has.
        available: Bytes,
    },
    /// Its memory belongs to a node, or nobody.
    #[error(
        "{device} is not in devdax mode; `tierloom doctor` shows its mode, and `daxctl reconfigure-device \
         --mode=devdax {device}` changes it"
    )]
    OtherMode {
        /// The device.
        device: String,
    },
    /// This process may not change it.
    #[error("cannot change {device}: {}: {source}; {next_step}", file.display())]
    Forbidden {
        /// The device.
        device: String,
        /// The file in sysfs.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
        /// What helps.
        next_step: &'static str,
    },
    /// The kernel refused one step.
    #[error(
        "cannot change {device}: the kernel refuses `{text}` in {}: {source}; see `dmesg`, and if the device \
         has no driver now: `echo {device} > /sys/bus/dax/drivers/device_dax/bind`", file.display()
    )]
    Step {
        /// The device.
        device: String,
        /// The file in sysfs.
        file: PathBuf,
        /// What was written to it.
        text: String,
        /// What the system says.
        source: io::Error,
    },
    /// The kernel accepted all steps, and the device is not as it should be.
    #[error(
        "{device} should have {wanted} now and has {found}; somebody else changes it too: try again when they are done"
    )]
    NotMade {
        /// The device.
        device: String,
        /// The size that was asked for.
        wanted: Bytes,
        /// Its size.
        found: Bytes,
    },
}

impl DaxSizeError {
    /// Whether the request cannot be fulfilled as it was made, whatever the machine does.
    pub(crate) fn is_bad_input(&self) -> bool {
        match self {
            Self::NoRoom { .. } | Self::OtherMode { .. } => true,
            Self::Unreadable { .. }
            | Self::Forbidden { .. }
            | Self::Step { .. }
            | Self::NotMade { .. } => false,
        }
    }
}
