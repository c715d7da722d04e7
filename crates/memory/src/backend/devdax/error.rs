//! Errors of DAX devices, with the commands that help.

use std::io;
use std::path::PathBuf;

use crate::PageSize;

/// Why a DAX device cannot be opened, mapped or populated.
#[derive(Debug, thiserror::Error)]
pub enum DevdaxError {
    /// The device does not exist.
    #[error(
        "cannot find the DAX device {}: {source}; {existing}; `tierloom topology` shows CXL regions, and `daxctl create-device` or \
         `cxl create-region` makes devices", path.display()
    )]
    Missing {
        /// Path of the device, as given.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
        /// The DAX devices that exist, as text.
        existing: String,
    },
    /// The device is in system-ram mode: its memory belongs to a node.
    #[error(
        "cannot map {}: {name} is in system-ram mode (driver kmem), its memory belongs to node {node}; place on that node instead, or take it back: \
         `daxctl reconfigure-device --mode=devdax --force {name}` (without daxctl: write `offline` to the state of each memory block of the node, then \
         `echo {name} > /sys/bus/dax/drivers/kmem/unbind; echo {name} > /sys/bus/dax/drivers/device_dax/new_id`)", path.display()
    )]
    SystemRam {
        /// Path of the device, as given.
        path: PathBuf,
        /// Name of the device in sysfs.
        name: String,
        /// Node that has the memory; `unknown` if sysfs does not say.
        node: String,
    },
    /// The device is not bound to the `device_dax` driver.
    #[error(
        "cannot map {}: {name} has no driver ({driver}); `modprobe device_dax`, then `echo {name} > /sys/bus/dax/drivers/device_dax/new_id`", path.display()
    )]
    Unbound {
        /// Path of the device, as given.
        path: PathBuf,
        /// Name of the device in sysfs.
        name: String,
        /// The driver it is bound to instead, if any, as text.
        driver: String,
    },
    /// The path is not a DAX device.
    #[error("{} is {found}, not a DAX device; name a character device such as /dev/dax0.0, or use a file region for files", path.display())]
    NotADevice {
        /// The path that was to be mapped.
        path: PathBuf,
        /// Kind of file that it is.
        found: String,
    },
    /// An attribute of the device cannot be read.
    #[error("cannot learn the {what} of {} from {}: {found}; mount sysfs, or use Linux 5.10 or newer", path.display(), file.display())]
    Attribute {
        /// Path of the device.
        path: PathBuf,
        /// Name of the attribute: size or alignment.
        what: &'static str,
        /// The sysfs file of the attribute.
        file: PathBuf,
        /// Contents of the file, or why it cannot be read.
        found: String,
    },
    /// The user has no permission to open the device.
    #[error(
        "cannot open {} for reading and writing: it belongs to user {user} and group {group} with mode {mode:o}; \
         run as {user}, or let your group in: `chgrp GROUP` and `chmod g+rw` on it (to keep it, a udev rule with SUBSYSTEM==\"dax\")", path.display()
    )]
    Permission {
        /// Path of the device.
        path: PathBuf,
        /// Owner of the device file.
        user: String,
        /// Group of the device file.
        group: String,
        /// Permission bits of the device file.
        mode: u32,
    },
    /// The device cannot be opened for another reason.
    #[error("cannot open {}: {source}; see `tierloom topology` for its mode, and `dmesg`", path.display())]
    Open {
        /// Path of the device.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A hugetlb page size was requested; a device has pages of its alignment.
    #[error(
        "page size {page_size} does not go with {}: hugetlb pages come from a pool, the device has pages of {align_bytes} bytes; ask for `4k` or `thp`, which both mean those", path.display()
    )]
    HugetlbPages {
        /// Path of the device.
        path: PathBuf,
        /// The page size requested.
        page_size: PageSize,
        /// Alignment of the device, in bytes.
        align_bytes: u64,
    },
    /// The size is not a multiple of the device's pages.
    #[error("{}: {size_bytes} bytes is not a multiple of its pages of {align_bytes} bytes; use {rounded_bytes}", path.display())]
    SizeNotPages {
        /// Path of the device.
        path: PathBuf,
        /// The size requested, in bytes.
        size_bytes: u64,
        /// Alignment of the device, in bytes.
        align_bytes: u64,
        /// The next larger size that is accepted.
        rounded_bytes: u64,
    },
    /// The region would end past the end of the device.
    #[error(
        "{} has {device_bytes} bytes: {size_bytes} bytes from offset {offset_bytes} on go past its end; use a smaller offset or size", path.display()
    )]
    PastTheEnd {
        /// Path of the device.
        path: PathBuf,
        /// The offset requested, in bytes.
        offset_bytes: u64,
        /// The size requested, in bytes.
        size_bytes: u64,
        /// Size of the device in bytes.
        device_bytes: u64,
    },
    /// Another region of this host has some of the bytes.
    #[error(
        "cannot lock bytes {offset_bytes} to {end_bytes} of {}: {source}; another region has some of them: close it or use another offset", path.display()
    )]
    InUse {
        /// Path of the device.
        path: PathBuf,
        /// First byte of the range that was to be locked.
        offset_bytes: u64,
        /// One past the last byte of that range.
        end_bytes: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// `mmap` of the device failed.
    #[error(
        "mmap of {size_bytes} bytes of {} from offset {offset_bytes} on failed: {source}; see `dmesg`, and whether the device is still in devdax mode (`tierloom topology`)", path.display()
    )]
    Map {
        /// Path of the device.
        path: PathBuf,
        /// Offset of the first byte in the device.
        offset_bytes: u64,
        /// Number of bytes to map.
        size_bytes: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Pages of the device could not be populated.
    #[error(
        "cannot populate {size_bytes} bytes of {} from offset {offset_bytes} on: {source}; a poisoned range or a device that went away: see `dmesg` and `cxl list --media-errors`", path.display()
    )]
    Populate {
        /// Path of the device.
        path: PathBuf,
        /// Offset of the first byte in the device.
        offset_bytes: u64,
        /// Number of bytes to populate.
        size_bytes: u64,
        /// The error of the operating system.
        source: io::Error,
    },
}
