//! What can go wrong with regions, their audits and migrations.

use std::io;
use std::path::PathBuf;

use crate::backend::DevdaxError;
use crate::{PageSize, PlacementError};

/// Why a region, its audit or its migration failed.
///
/// Everything up to and including [`MemoryError::NotEnoughHugePages`] is detected before any page
/// is touched.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The placement is invalid, or this machine cannot provide it.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The size is not a whole number of pages.
    #[error(
        "region `{name}`: {size_bytes} bytes is not a whole number of {page_size} pages ({page_bytes} bytes each); use {rounded_bytes}"
    )]
    SizeNotPages {
        /// The region that was to be created.
        name: String,
        /// Size that was requested.
        size_bytes: usize,
        /// Page size that was requested.
        page_size: PageSize,
        /// Bytes of one such page.
        page_bytes: usize,
        /// The next larger size that is accepted.
        rounded_bytes: usize,
    },
    /// The size is 0.
    #[error("region `{name}`: its size is 0; ask for at least one page")]
    SizeZero {
        /// The region that was to be created.
        name: String,
    },
    /// A node has too little free memory for its share.
    #[error(
        "region `{name}`: node {node} would get {needed_mib} MiB but has {free_mib} MiB free \
         (a margin of {margin_mib} MiB is kept); free on all nodes: {all_nodes}; \
         choose another placement or a smaller size, or free memory there"
    )]
    NotEnoughMemory {
        /// The region that was to be created.
        name: String,
        /// The node that is short; `any` where the kernel would choose.
        node: String,
        /// What the placement puts there, in MiB.
        needed_mib: u64,
        /// Free memory there in MiB: free pages and clean page cache, less the margin.
        free_mib: u64,
        /// Memory that is kept free there, in MiB.
        margin_mib: u64,
        /// Free MiB of every node, as text.
        all_nodes: String,
    },
    /// The region is larger than the memory limit of the control group.
    #[error(
        "region `{name}`: {needed_mib} MiB is more than this process's memory limit of {limit_mib} MiB ({source_files}); raise the limit (docker: `--memory`, systemd: `MemoryMax=`) or choose a smaller size"
    )]
    OverGroupLimit {
        /// The region that was to be created.
        name: String,
        /// Size of the region in MiB.
        needed_mib: u64,
        /// Limit of the group in MiB.
        limit_mib: u64,
        /// The files that the limit was read from.
        source_files: String,
    },
    /// No place of a class of operator memory could serve a region.
    #[error(
        "region `{name}`: {size_bytes} bytes cannot be had from any place of memory class {class} ({why}); \
         raise the limit of the class, give it another place, or free some of it (`tier_memory` shows what is used)"
    )]
    ClassFull {
        /// The region that was to be created.
        name: String,
        /// Size that was requested.
        size_bytes: usize,
        /// The class whose places were tried.
        class: crate::router::Class,
        /// Why the first place of the class could not serve it.
        why: String,
    },
    /// The hugetlb pool of a node is too small for its share.
    #[error(
        "region `{name}`: needs {needed_pages} hugetlb pages of {page_size} on node {node}, which has {free_pages} free; \
         `echo N > {}/hugepages/hugepages-{page_kib}kB/nr_hugepages` makes a pool, or use `thp`",
        pool_folder(node)
    )]
    NotEnoughHugePages {
        /// The region that was to be created.
        name: String,
        /// The hugetlb page size that was requested.
        page_size: PageSize,
        /// The same in KiB, as in the name of the pool's folder.
        page_kib: usize,
        /// The node whose pool is short; `any` where the kernel would choose.
        node: String,
        /// Pages needed from that pool.
        needed_pages: u64,
        /// Pages free in that pool.
        free_pages: u64,
    },
    /// A system call failed.
    #[error("{call} for {what} failed: {} (errno {errno}); {next_step}", io::Error::from_raw_os_error(*errno))]
    Syscall {
        /// Name of the system call.
        call: &'static str,
        /// What it was called on, as text.
        what: String,
        /// The errno it returned.
        errno: i32,
        /// What the user can do about it.
        next_step: String,
    },
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {source}; {next_step}", path.display())]
    File {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
        /// What the user can do about it.
        next_step: String,
    },
    /// The file system of a file backend has too little space.
    #[error("no space for region `{name}` in {}: it needs {needed_mib} MiB and {free_mib} MiB are free; free some or use another directory", path.display())]
    NoSpace {
        /// The region that was to be created.
        name: String,
        /// The directory or file.
        path: PathBuf,
        /// Space needed, in MiB.
        needed_mib: u64,
        /// Space available, in MiB.
        free_mib: u64,
    },
    /// An existing file ends before the region would.
    #[error("{} has {found_bytes} bytes, the region needs {needed_bytes} (with its offset); delete the file, name a longer one, or ask for less", path.display())]
    FileSize {
        /// The file that is too short.
        path: PathBuf,
        /// Its size in bytes.
        found_bytes: u64,
        /// Offset in the file at which the region would end.
        needed_bytes: u64,
    },
    /// The offset into a file or device is not a multiple of its page size.
    #[error("{}: offset {offset_bytes} is not a multiple of its pages of {align_bytes} bytes; use {below_bytes} or {above_bytes}", path.display())]
    Offset {
        /// The file or device.
        path: PathBuf,
        /// Offset requested, in bytes.
        offset_bytes: u64,
        /// Page size of the file or device, in bytes.
        align_bytes: u64,
        /// The nearest lower offset that is accepted.
        below_bytes: u64,
        /// The nearest higher offset that is accepted.
        above_bytes: u64,
    },
    /// A DAX device cannot be mapped.
    #[error(transparent)]
    Devdax(#[from] DevdaxError),
    /// A backend that places pages itself was given a placement.
    #[error(
        "region `{name}`: {backend} cannot honour placement `{placement}`: {reason}; ask for the placement `default`"
    )]
    PlacementNotOurs {
        /// Name of the region or mapping.
        name: String,
        /// The backend, as text.
        backend: String,
        /// The placement that would have been ignored.
        placement: String,
        /// What decides the placement instead.
        reason: String,
    },
    /// The kernel lacks a memory policy, or refuses it.
    #[error("cannot use the policy {policy} on nodes {nodes}: {reason}")]
    KernelPolicy {
        /// Name of the policy: `MPOL_INTERLEAVE` or `MPOL_WEIGHTED_INTERLEAVE`.
        policy: &'static str,
        /// The nodes, in list syntax.
        nodes: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A mapping that was to be timed is not possible.
    #[error("cannot map {what}: {reason}")]
    Map {
        /// What was to be mapped, as text.
        what: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// Two snapshots do not have the same pages.
    #[error(
        "snapshots of regions `{earlier}` and `{later}` cannot be compared: {reason}; compare two of one region"
    )]
    Snapshots {
        /// Region of the earlier snapshot.
        earlier: String,
        /// Region of the later snapshot.
        later: String,
        /// What differs: region, size, page size or sampled pages.
        reason: String,
    },
    /// Another region, in this or another process, has the file mapped.
    #[error("{} is in use by another region; close that one first or choose another file", path.display())]
    FileInUse {
        /// The file that is in use.
        path: PathBuf,
    },
    /// The file system does not support the page size.
    #[error("page size {page_size} does not go with the file system of {}: {reason}", path.display())]
    FileSystem {
        /// The directory or file.
        path: PathBuf,
        /// The page size requested.
        page_size: PageSize,
        /// Why not, and what to do.
        reason: String,
    },
    /// A folder in memory cannot be made.
    #[error("cannot make {what}: {reason}")]
    Folder {
        /// What was to be made, as text.
        what: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A byte range is not inside the region.
    #[error("bytes {start}..{end} are not inside region `{name}` of {size_bytes} bytes")]
    OutOfRange {
        /// The region that was sliced.
        name: String,
        /// First byte of the range requested.
        start: usize,
        /// One past the last byte requested.
        end: usize,
        /// Size of the region in bytes.
        size_bytes: usize,
    },
    /// A migration cannot start or continue.
    #[error("cannot migrate region `{name}`: {reason}")]
    Migration {
        /// The region that was to be migrated.
        name: String,
        /// Why not, and what to do.
        reason: String,
    },
}

impl MemoryError {
    /// An error of a failed system call, with advice by errno.
    ///
    /// The caller passes the errno because it must be read right after the call, before anything
    /// else changes it.
    pub(crate) fn syscall(call: &'static str, what: impl Into<String>, errno: i32) -> Self {
        let next_step = match errno {
            libc::EPERM | libc::EACCES => {
                "a container or security policy forbids it: allow it (docker: `--cap-add SYS_NICE`), see `tierloom doctor`"
            }
            libc::ENOSYS => "this kernel has no NUMA support; use the placement `default`",
            libc::ENOMEM => {
                "memory ran out meanwhile: free some, or choose a smaller size or another node"
            }
            libc::EINVAL => "the node may be offline or outside the cpuset; see `tierloom doctor`",
            libc::EFAULT => "the pages could not be had: node, hugetlb pool or file system is full",
            _ => "see `tierloom doctor`",
        };
        Self::Syscall {
            call,
            what: what.into(),
            errno,
            next_step: next_step.to_owned(),
        }
    }
}

/// Folder of a node's hugetlb pools, or of the system's where no single node was requested.
fn pool_folder(node: &str) -> String {
    if node.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("/sys/devices/system/node/node{node}")
    } else {
        "/sys/kernel/mm".to_owned()
    }
}
