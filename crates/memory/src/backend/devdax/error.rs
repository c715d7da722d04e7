//! What can be wrong with a DAX device.

use std::io;
use std::path::PathBuf;

use crate::PageSize;

/// Why a DAX device cannot be mapped.
#[derive(Debug, thiserror::Error)]
pub enum DevdaxError {
    /// There is no such device.
    #[error(
        "cannot find the DAX device {}: {source}; {existing}; `tierloom topology` shows CXL regions, and `daxctl create-device` or \
         `cxl create-region` makes devices", path.display()
    )]
    Missing {
        /// What was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// The DAX devices there are, in words.
        existing: String,
    },
    /// The device's memory is a node's memory at present.
    #[error(
        "cannot map {}: {name} is in system-ram mode (driver kmem), its memory belongs to node {node}; place on that node instead, or take it back: \
         `daxctl reconfigure-device --mode=devdax --force {name}` (without daxctl: write `offline` to the state of each memory block of the node, then \
         `echo {name} > /sys/bus/dax/drivers/kmem/unbind; echo {name} > /sys/bus/dax/drivers/device_dax/new_id`)", path.display()
    )]
    SystemRam {
        /// What was asked for.
        path: PathBuf,
        /// Its name in sysfs.
        name: String,
        /// The node, `unknown` if sysfs does not tell.
        node: String,
    },
    /// No driver serves the device.
    #[error(
        "cannot map {}: {name} has no driver ({driver}); `modprobe device_dax`, then `echo {name} > /sys/bus/dax/drivers/device_dax/new_id`", path.display()
    )]
    Unbound {
        /// What was asked for.
        path: PathBuf,
        /// Its name in sysfs.
        name: String,
        /// What there is instead.
        driver: String,
    },
    /// The path is something else.
    #[error("{} is {found}, not a DAX device; name a character device such as /dev/dax0.0, or use a file region for files", path.display())]
    NotADevice {
        /// What was asked for.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// A fact about the device cannot be read.
    #[error("cannot learn the {what} of {} from {}: {found}; mount sysfs, or use Linux 5.10 or newer", path.display(), file.display())]
    Attribute {
        /// The device.
        path: PathBuf,
        /// Size or alignment.
        what: &'static str,
        /// The file in sysfs.
        file: PathBuf,
        /// What it holds, or why it cannot be read.
        found: String,
    },
    /// This user may not open the device.
    #[error(
        "cannot open {} for reading and writing: it belongs to user {user} and group {group} with mode {mode:o}; \
         run as {user}, or let your group in: `chgrp GROUP` and `chmod g+rw` on it (to keep it, a udev rule with SUBSYSTEM==\"dax\")", path.display()
    )]
    Permission {
        /// The device.
        path: PathBuf,
        /// Its owner.
        user: String,
        /// Its group.
        group: String,
        /// Permission bits.
        mode: u32,
    },
    /// The device cannot be opened for another reason.
    #[error("cannot open {}: {source}; see `tierloom topology` for its mode, and `dmesg`", path.display())]
    Open {
        /// The device.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Device memory has pages of its own.
    #[error(
        "page size {page_size} does not go with {}: hugetlb pages come from a pool, the device has pages of {align_bytes} bytes; ask for `4k` or `thp`, which both mean those", path.display()
    )]
    HugetlbPages {
        /// The device.
        path: PathBuf,
        /// The page size asked for.
        page_size: PageSize,
        /// The device's alignment, bytes.
        align_bytes: u64,
    },
    /// A region on the device must be whole pages of it.
    #[error("{}: {size_bytes} bytes is not a multiple of its pages of {align_bytes} bytes; use {rounded_bytes}", path.display())]
    SizeNotPages {
        /// The device.
        path: PathBuf,
        /// The size asked for.
        size_bytes: u64,
        /// The device's alignment, bytes.
        align_bytes: u64,
        /// The next size that works.
        rounded_bytes: u64,
    },
    /// The region would not end inside the device.
    #[error(
        "{} has {device_bytes} bytes: {size_bytes} bytes from offset {offset_bytes} on go past its end; use a smaller offset or size", path.display()
    )]
    PastTheEnd {
        /// The device.
        path: PathBuf,
        /// The offset asked for.
        offset_bytes: u64,
        /// The size asked for.
        size_bytes: u64,
        /// Size of the device.
        device_bytes: u64,
    },
    /// Another region of this host has some of the bytes.
    #[error(
        "cannot lock bytes {offset_bytes} to {end_bytes} of {}: {source}; another region has some of them: close it or use another offset", path.display()
    )]
    InUse {
        /// The device.
        path: PathBuf,
        /// First byte.
        offset_bytes: u64,
        /// One past the last byte.
        end_bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused the mapping.
    #[error(
        "mmap of {size_bytes} bytes of {} from offset {offset_bytes} on failed: {source}; see `dmesg`, and whether the device is still in devdax mode (`tierloom topology`)", path.display()
    )]
    Map {
        /// The device.
        path: PathBuf,
        /// First byte.
        offset_bytes: u64,
        /// How many.
        size_bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel could not make pages present.
    #[error(
        "cannot populate {size_bytes} bytes of {} from offset {offset_bytes} on: {source}; a poisoned range or a device that went away: see `dmesg` and `cxl list --media-errors`", path.display()
    )]
    Populate {
        /// The device.
        path: PathBuf,
        /// First byte.
        offset_bytes: u64,
        /// How many.
        size_bytes: u64,
        /// What the system said.
        source: io::Error,
    },
}
