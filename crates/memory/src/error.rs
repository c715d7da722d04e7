//! What can go wrong: [`PlacementError`] for what was typed, [`MemoryError`] for what the machine
//! said.

use std::io;
use std::path::PathBuf;

use tierloom_topology::{NodeId, TierKind};

use crate::PageSize;
use crate::backend::DevdaxError;

/// A placement or page size that cannot be had on this machine, or cannot be read at all.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlacementError {
    /// The text is no placement.
    #[error(
        "cannot read placement `{text}` at `{piece}`: {reason}; \
         write a node or tier (`0`, `dram`), weights (`0:3,2:2`, `dram:3,cxl:2`, `3:2`), shares (`0=70%,2=30%`) or `default`"
    )]
    Syntax {
        /// The whole text.
        text: String,
        /// The offending part of it.
        piece: String,
        /// What is wrong with that part.
        reason: String,
    },
    /// No page size of that name.
    #[error("unknown page size `{asked}`; choose one of 4k, thp, 2m, 1g")]
    UnknownPageSize {
        /// What was typed.
        asked: String,
    },
    /// The node is not there.
    #[error(
        "node {node} does not exist; this machine has nodes {existing}; see `tierloom topology`"
    )]
    UnknownNode {
        /// The node that was asked for.
        node: NodeId,
        /// The nodes there are, as a list.
        existing: String,
    },
    /// The node has no memory online.
    #[error(
        "node {node} has no memory; nodes with memory: {with_memory}; \
         online its memory blocks first if it should have some (see `tierloom topology`)"
    )]
    NodeWithoutMemory {
        /// The node that was asked for.
        node: NodeId,
        /// The nodes that have memory, as a list.
        with_memory: String,
    },
    /// A cpuset or container keeps this process off the node.
    #[error(
        "node {node} is not allowed here: this process may use memory nodes {allowed} (cpuset); \
         start it in a cpuset that has node {node} (cpuset.mems, `docker run --cpuset-mems`, `numactl --membind`)"
    )]
    NodeForbidden {
        /// The node that was asked for.
        node: NodeId,
        /// The nodes the cpuset allows, as a list.
        allowed: String,
    },
    /// This machine has no such tier.
    #[error(
        "this machine has no {tier} tier; it has: {existing}; name nodes instead, or see `tierloom topology`"
    )]
    UnknownTier {
        /// The tier that was asked for.
        tier: TierKind,
        /// The tiers there are, with their nodes.
        existing: String,
    },
    /// All weights or shares are zero.
    #[error(
        "placement `{text}` puts no page anywhere: all weights are 0; give at least one node a weight of 1 or more"
    )]
    NothingPlaced {
        /// The placement as typed.
        text: String,
    },
    /// One node is named by two parts.
    #[error("placement `{text}` names node {node} twice; give it one weight or share")]
    NodeTwice {
        /// The placement as typed.
        text: String,
        /// The node.
        node: NodeId,
    },
    /// Shares do not make up the whole.
    #[error("the shares of placement `{text}` add up to {sum_percent}%; they must add up to 100%")]
    ShareSum {
        /// The placement as typed.
        text: String,
        /// What they add up to.
        sum_percent: f64,
    },
    /// The round of the weights would be absurdly long.
    #[error(
        "the weights of placement `{text}` are too large for this many nodes; use smaller numbers of the same ratio"
    )]
    WeightsTooLarge {
        /// The placement as typed.
        text: String,
    },
}

/// What a region, its audit or its migration can fail with.
///
/// Everything up to and including [`MemoryError::NotEnoughHugePages`] is found before any page is
/// touched.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The placement cannot be had.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A region must be whole pages.
    #[error(
        "region `{name}`: {size_bytes} bytes is not a whole number of {page_size} pages ({page_bytes} bytes each); use {rounded_bytes}"
    )]
    SizeNotPages {
        /// Name of the region.
        name: String,
        /// Size that was asked for.
        size_bytes: usize,
        /// Page size that was asked for.
        page_size: PageSize,
        /// Bytes of one such page.
        page_bytes: usize,
        /// The next size that works.
        rounded_bytes: usize,
    },
    /// A region of no bytes was asked for.
    #[error("region `{name}`: its size is 0; ask for at least one page")]
    SizeZero {
        /// Name of the region.
        name: String,
    },
    /// A node cannot hold its part.
    #[error(
        "region `{name}`: node {node} would get {needed_mib} MiB but has {free_mib} MiB free \
         (a margin of {margin_mib} MiB is kept); free on all nodes: {all_nodes}; \
         choose another placement or a smaller size, or free memory there"
    )]
    NotEnoughMemory {
        /// Name of the region.
        name: String,
        /// The node that is short; `any` where the kernel would choose.
        node: String,
        /// What the placement puts there, MiB.
        needed_mib: u64,
        /// What is free there (free pages and clean page cache), MiB, margin already taken off.
        free_mib: u64,
        /// What is kept free, MiB.
        margin_mib: u64,
        /// Free MiB of each node.
        all_nodes: String,
    },
    /// The memory limit of the control group is smaller than the region.
    #[error(
        "region `{name}`: {needed_mib} MiB is more than this process's memory limit of {limit_mib} MiB ({source_files}); raise the limit (docker: `--memory`, systemd: `MemoryMax=`) or choose a smaller size"
    )]
    OverGroupLimit {
        /// Name of the region.
        name: String,
        /// What is needed, MiB.
        needed_mib: u64,
        /// What the group may have, MiB.
        limit_mib: u64,
        /// Which files say so.
        source_files: String,
    },
    /// No place of a class of operator memory can give a region its memory.
    #[error(
        "region `{name}`: {size_bytes} bytes cannot be had from any place of memory class {class} ({why}); \
         raise the limit of the class, give it another place, or free some of it (`tier_memory` shows what is used)"
    )]
    ClassFull {
        /// Name of the region.
        name: String,
        /// Size that was asked for.
        size_bytes: usize,
        /// The class.
        class: crate::router::Class,
        /// Why its first place could not.
        why: String,
    },
    /// The hugetlb pool of a node cannot hold its part.
    #[error(
        "region `{name}`: needs {needed_pages} hugetlb pages of {page_size} on node {node}, which has {free_pages} free; \
         `echo N > {}/hugepages/hugepages-{page_kib}kB/nr_hugepages` makes a pool, or use `thp`",
        pool_folder(node)
    )]
    NotEnoughHugePages {
        /// Name of the region.
        name: String,
        /// The page size.
        page_size: PageSize,
        /// Its size in KiB.
        page_kib: usize,
        /// The node whose pool is short.
        node: String,
        /// Pages needed there.
        needed_pages: u64,
        /// Pages free there.
        free_pages: u64,
    },
    /// A system call failed.
    #[error("{call} for {what} failed: {} (errno {errno}); {next_step}", io::Error::from_raw_os_error(*errno))]
    Syscall {
        /// The system call.
        call: &'static str,
        /// What it was called on.
        what: String,
        /// What it answered.
        errno: i32,
        /// What to do about it.
        next_step: String,
    },
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {source}; {next_step}", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do about it.
        next_step: String,
    },
    /// The file system behind a file backend is too full.
    #[error("no space for region `{name}` in {}: it needs {needed_mib} MiB and {free_mib} MiB are free; free some or use another directory", path.display())]
    NoSpace {
        /// Name of the region.
        name: String,
        /// The directory or file.
        path: PathBuf,
        /// What is needed, MiB.
        needed_mib: u64,
        /// What is there, MiB.
        free_mib: u64,
    },
    /// An existing file does not reach to the end of the region.
    #[error("{} has {found_bytes} bytes, the region needs {needed_bytes} (with its offset); delete the file, name a longer one, or ask for less", path.display())]
    FileSize {
        /// The file.
        path: PathBuf,
        /// Its size.
        found_bytes: u64,
        /// Where the region would end in it.
        needed_bytes: u64,
    },
    /// A region must start at a page of the file or device.
    #[error("{}: offset {offset_bytes} is not a multiple of its pages of {align_bytes} bytes; use {below_bytes} or {above_bytes}", path.display())]
    Offset {
        /// The file or device.
        path: PathBuf,
        /// The offset asked for, bytes.
        offset_bytes: u64,
        /// What it must be a multiple of, bytes.
        align_bytes: u64,
        /// The last one before that works.
        below_bytes: u64,
        /// The next one that works.
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
        /// What it would be in.
        backend: String,
        /// The placement asked for.
        placement: String,
        /// Who decides instead.
        reason: String,
    },
    /// The kernel lacks a memory policy.
    #[error("cannot use the policy {policy} on nodes {nodes}: {reason}")]
    KernelPolicy {
        /// `MPOL_INTERLEAVE` or `MPOL_WEIGHTED_INTERLEAVE`.
        policy: &'static str,
        /// The nodes, as a list.
        nodes: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A mapping that is to be timed makes no sense.
    #[error("cannot map {what}: {reason}")]
    Map {
        /// What was to be mapped.
        what: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// Two snapshots are not of the same pages.
    #[error(
        "snapshots of regions `{earlier}` and `{later}` cannot be compared: {reason}; compare two of one region"
    )]
    Snapshots {
        /// Region of the earlier one.
        earlier: String,
        /// Region of the later one.
        later: String,
        /// What differs.
        reason: String,
    },
    /// Another region, here or in another process, has the file mapped.
    #[error("{} is in use by another region; close that one first or choose another file", path.display())]
    FileInUse {
        /// The file.
        path: PathBuf,
    },
    /// Page size and file system do not go together.
    #[error("page size {page_size} does not go with the file system of {}: {reason}", path.display())]
    FileSystem {
        /// The directory or file.
        path: PathBuf,
        /// The page size asked for.
        page_size: PageSize,
        /// Why not, and what to do.
        reason: String,
    },
    /// A byte range does not lie inside the region.
    #[error("bytes {start}..{end} do not lie inside region `{name}` of {size_bytes} bytes")]
    OutOfRange {
        /// Name of the region.
        name: String,
        /// First byte asked for.
        start: usize,
        /// One past the last.
        end: usize,
        /// Size of the region.
        size_bytes: usize,
    },
    /// A migration cannot start or go on.
    #[error("cannot migrate region `{name}`: {reason}")]
    Migration {
        /// Name of the region.
        name: String,
        /// Why not, and what to do.
        reason: String,
    },
}

impl MemoryError {
    /// The failed system call's error; the errno is read by the caller right after the call.
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

/// Folder of the hugetlb pools: those of a node, or the system's where no node is asked for.
fn pool_folder(node: &str) -> String {
    if node.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("/sys/devices/system/node/node{node}")
    } else {
        "/sys/kernel/mm".to_owned()
    }
}
