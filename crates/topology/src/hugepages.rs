//! Huge pages: hugetlb pools and modes of transparent huge pages.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::NodeId;
use crate::node::NODE_DIR;
use crate::root::{Reader, bracketed};

/// The kernel's directory of machine-wide hugetlb pools.
const POOL_DIR: &str = "sys/kernel/mm/hugepages";
const THP_DIR: &str = "sys/kernel/mm/transparent_hugepage";

/// Configuration and state of huge pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// One pool per page size of the kernel, smallest first.
    pub pools: Vec<HugePool>,
    /// `always`, `madvise` or `never`; `None` for kernels without transparent huge pages.
    pub thp_mode: Option<String>,
    /// Effort of a page fault to get a huge page.
    ///
    /// One of `always`, `defer`, `defer+madvise`, `madvise` and `never`.
    pub thp_defrag: Option<String>,
    /// Page sizes with their own mode (kernel 6.8 and later), smallest first.
    pub thp_sizes: Vec<ThpSize>,
}

/// The hugetlb pool of one page size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugePool {
    /// Page size in bytes.
    pub size_bytes: u64,
    /// Pages in the whole machine.
    pub all: PoolCount,
    /// Pages of each node; nodes that report none are absent.
    pub per_node: BTreeMap<NodeId, PoolCount>,
}

/// Number of pages in a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PoolCount {
    /// Pages in the pool, used or free.
    pub total: u64,
    /// Pages in the pool that are not in use.
    pub free: u64,
}

/// Mode of one transparent huge page size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThpSize {
    /// Page size in bytes.
    pub size_bytes: u64,
    /// `always`, `inherit` (from the global mode), `madvise` or `never`.
    pub mode: String,
}

impl HugePages {
    /// The pool of one page size, if the kernel offers that size.
    pub fn pool(&self, size_bytes: u64) -> Option<&HugePool> {
        self.pools.iter().find(|pool| pool.size_bytes == size_bytes)
    }

    pub(crate) fn read(reader: &Reader<'_>, nodes: &[NodeId]) -> Self {
        Self {
            pools: pools(reader, nodes),
            thp_mode: mode(reader, &format!("{THP_DIR}/enabled")),
            thp_defrag: mode(reader, &format!("{THP_DIR}/defrag")),
            thp_sizes: sizes(reader, THP_DIR)
                .into_iter()
                .filter_map(|(size_bytes, name)| {
                    let mode = mode(reader, &format!("{THP_DIR}/{name}/enabled"))?;
                    Some(ThpSize { size_bytes, mode })
                })
                .collect(),
        }
    }
}

fn mode(reader: &Reader<'_>, path: &str) -> Option<String> {
    reader.parsed(path, "modes with one in square brackets", |text| {
        bracketed(text).map(str::to_owned)
    })
}

/// Directories such as `hugepages-2048kB`, with their page sizes in bytes, smallest first.
fn sizes(reader: &Reader<'_>, directory: &str) -> Vec<(u64, String)> {
    let size_bytes = |name: &str| {
        let kib: u64 = name
            .strip_prefix("hugepages-")?
            .strip_suffix("kB")?
            .parse()
            .ok()?;
        kib.checked_mul(1024)
    };
    let names = reader.root.list(directory).into_iter();
    let mut found: Vec<(u64, String)> = names
        .filter_map(|name| Some((size_bytes(&name)?, name)))
        .collect();
    found.sort_unstable();
    found
}

fn pools(reader: &Reader<'_>, nodes: &[NodeId]) -> Vec<HugePool> {
    let count = |directory: &str| {
        Some(PoolCount {
            total: reader.number(&format!("{directory}/nr_hugepages"))?,
            free: reader.number(&format!("{directory}/free_hugepages"))?,
        })
    };
    let pool = |(size_bytes, name): (u64, String)| {
        let of_node = |node: &NodeId| {
            Some((
                *node,
                count(&format!("{NODE_DIR}/node{node}/hugepages/{name}"))?,
            ))
        };
        Some(HugePool {
            size_bytes,
            all: count(&format!("{POOL_DIR}/{name}"))?,
            per_node: nodes.iter().filter_map(of_node).collect(),
        })
    };
    sizes(reader, POOL_DIR)
        .into_iter()
        .filter_map(pool)
        .collect()
}
