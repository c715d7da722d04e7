//! Free memory of a node, read from sysfs.

use std::path::Path;

use serde::Serialize;
use tierloom_topology::NodeId;

use crate::{MemoryError, PageSize};

/// Smallest margin that is kept free on a node.
const MIN_MARGIN_BYTES: u64 = 16 << 20;
/// The margin is 1/64 of the node's memory, if that is more; the kernel's own watermarks are below
/// it.
const MARGIN_DIVISOR: u64 = 64;
/// Largest margin, reached on nodes of 64 GiB.
const MAX_MARGIN_BYTES: u64 = 1 << 30;

/// Free memory of a node, and the margin that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NodeCapacity {
    /// Bytes available now, the margin already subtracted.
    pub free_bytes: u64,
    /// Bytes that are kept free.
    pub margin_bytes: u64,
}

impl NodeCapacity {
    /// Computes the capacity from a node's meminfo: free pages and droppable page cache, less a
    /// margin.
    pub(crate) fn from_meminfo(total_bytes: u64, free_bytes: u64, cache_bytes: u64) -> Self {
        let margin_bytes = (total_bytes / MARGIN_DIVISOR).clamp(MIN_MARGIN_BYTES, MAX_MARGIN_BYTES);
        // Part of the cache is in use or dirty; the kernel discounts it in the same way for
        // MemAvailable.
        let droppable_bytes = cache_bytes - (cache_bytes / 2).min(margin_bytes);
        Self {
            free_bytes: (free_bytes + droppable_bytes).saturating_sub(margin_bytes),
            margin_bytes,
        }
    }
}

/// Reads the capacity of `node` from sysfs and procfs below `root`.
pub(crate) fn read(
    root: &Path,
    node: NodeId,
    page_size: PageSize,
) -> Result<NodeCapacity, MemoryError> {
    let directory = root.join(format!("sys/devices/system/node/node{node}"));
    if page_size.is_hugetlb() {
        return read_pool(root, &directory, page_size);
    }
    // A kernel without NUMA has no node directories: its one node is the whole machine.
    let (path, prefix) = match directory.join("meminfo") {
        path if path.exists() => (path, format!("Node {node} ")),
        _ if node.0 == 0 => (root.join("proc/meminfo"), String::new()),
        path => (path, String::new()),
    };
    let text = read_text(&path)?;
    let field = |name: &str| meminfo_bytes(&text, &format!("{prefix}{name}:"));
    match (field("MemTotal"), field("MemFree")) {
        (Some(total), Some(free)) => {
            let cache = field("Active(file)").unwrap_or(0) + field("Inactive(file)").unwrap_or(0);
            let promised = promised_bytes(root, total).unwrap_or(0);
            Ok(NodeCapacity::from_meminfo(
                total + promised,
                free + promised,
                cache,
            ))
        }
        _ => Err(MemoryError::File {
            action: "read MemTotal and MemFree from",
            path,
            source: std::io::Error::from(std::io::ErrorKind::InvalidData),
            next_step: "lines such as `Node 0 MemFree: 1024 kB` were expected".to_owned(),
        }),
    }
}

/// Memory that the only node of a virtual machine has beyond the `total_bytes` that its meminfo
/// counts.
///
/// A host may hold memory back (a balloon) and give it when it is first used. Node meminfo counts
/// what was given, /proc/meminfo all of it. With several nodes it is not known which gets how much.
fn promised_bytes(root: &Path, total_bytes: u64) -> Option<u64> {
    let with_memory = root.join("sys/devices/system/node/has_memory");
    let only_node: u32 = read_text(&with_memory).ok()?.trim().parse().ok()?;
    let text = read_text(&root.join("proc/meminfo")).ok()?;
    let promised = meminfo_bytes(&text, "MemTotal:")?.checked_sub(total_bytes)?;
    (only_node == 0).then_some(promised)
}

fn read_pool(
    root: &Path,
    node_directory: &Path,
    page_size: PageSize,
) -> Result<NodeCapacity, MemoryError> {
    let pool = format!("hugepages-{}kB/free_hugepages", page_size.bytes() / 1024);
    let of_node = node_directory.join("hugepages").join(&pool);
    let path = if of_node.exists() {
        of_node
    } else {
        root.join("sys/kernel/mm/hugepages").join(&pool)
    };
    // Without the directory the processor or kernel has no pages of this size: the pool is empty.
    let pages = if path.exists() {
        read_text(&path)?.trim().parse::<u64>().unwrap_or(0)
    } else {
        0
    };
    Ok(NodeCapacity {
        free_bytes: pages.saturating_mul(page_size.bytes() as u64),
        margin_bytes: 0,
    })
}

fn read_text(path: &Path) -> Result<String, MemoryError> {
    std::fs::read_to_string(path).map_err(|source| MemoryError::File {
        action: "read free memory from",
        path: path.to_owned(),
        source,
        next_step: "mount sysfs and procfs (in containers they may be hidden)".to_owned(),
    })
}

fn meminfo_bytes(text: &str, label: &str) -> Option<u64> {
    let rest = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(label))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_cache_counts_as_free_and_a_margin_is_kept() {
        let gib = 1_u64 << 30;
        let empty = NodeCapacity::from_meminfo(64 * gib, 10 * gib, 0);
        assert_eq!(empty.margin_bytes, gib);
        assert_eq!(empty.free_bytes, 9 * gib);
        let cached = NodeCapacity::from_meminfo(64 * gib, 10 * gib, 20 * gib);
        assert_eq!(cached.free_bytes, 28 * gib);
        assert_eq!(NodeCapacity::from_meminfo(gib, 0, 0).free_bytes, 0);
    }

    #[test]
    fn what_a_balloon_holds_back_counts_as_free_on_the_only_node_and_on_no_other() {
        let root = tempfile::tempdir().unwrap();
        let nodes = root.path().join("sys/devices/system/node");
        std::fs::create_dir_all(nodes.join("node0")).unwrap();
        std::fs::create_dir_all(root.path().join("proc")).unwrap();
        let gib = 1_u64 << 20;
        let meminfo = |total: u64, free: u64, prefix: &str| {
            format!("{prefix}MemTotal: {total} kB\n{prefix}MemFree: {free} kB\n")
        };
        let node = meminfo(12 * gib, 8 * gib, "Node 0 ");
        std::fs::write(nodes.join("node0/meminfo"), node).unwrap();
        std::fs::write(
            root.path().join("proc/meminfo"),
            meminfo(24 * gib, 20 * gib, ""),
        )
        .unwrap();
        let free_gib = |nodes_with_memory: &str| {
            std::fs::write(nodes.join("has_memory"), nodes_with_memory).unwrap();
            let capacity = read(root.path(), NodeId(0), PageSize::Base).unwrap();
            (capacity.free_bytes + capacity.margin_bytes) >> 30
        };
        assert_eq!(free_gib("0\n"), 20);
        assert_eq!(free_gib("0-1\n"), 8);
    }

    #[test]
    fn garbled_meminfo_is_an_error_that_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        let node = root.path().join("sys/devices/system/node/node1");
        std::fs::create_dir_all(&node).unwrap();
        std::fs::write(node.join("meminfo"), "Node 1 MemTotal: lots kB\n").unwrap();
        let error = read(root.path(), NodeId(1), PageSize::Base)
            .unwrap_err()
            .to_string();
        assert!(error.contains("node1/meminfo"), "{error}");
        assert!(read(root.path(), NodeId(2), PageSize::Base).is_err());
    }

    #[test]
    fn a_missing_hugetlb_pool_is_empty() {
        let root = tempfile::tempdir().unwrap();
        let capacity = read(root.path(), NodeId(0), PageSize::Huge1G).unwrap();
        assert_eq!(capacity.free_bytes, 0);
    }
}
