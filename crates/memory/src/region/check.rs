//! Checks of a region's options before any page is touched.

use tierloom_topology::{NodeId, Topology};

use super::RegionOptions;
use crate::backend::{MemoryBackend, Placing};
use crate::placement::check_node;
use crate::{MIB, MemoryError, PageSize, Placement};

/// Checks size, placement, backend and free memory, in that order.
pub(super) fn options(
    backend: &dyn MemoryBackend,
    topology: &Topology,
    options: &RegionOptions,
) -> Result<(), MemoryError> {
    size(options)?;
    placement_nodes(topology, &options.placement)?;
    let placing = backend.placing();
    placement_is_ours(
        &placing,
        &options.name,
        backend.describe(),
        &options.placement,
    )?;
    backend.check(&options.name, options.size_bytes, options.page_size)?;
    // Device memory comes from no node and counts for no control group.
    if matches!(placing, Placing::Fixed { .. }) {
        return Ok(());
    }
    group_limit(topology, options)?;
    let pages = (options.size_bytes / options.page_size.bytes()) as u64;
    let wanted = match placing {
        // The kernel would continue on other nodes when one is full. A region known not to fit its
        // nodes is refused instead.
        Placing::Kernel { shares } => Placement::partitioned(shares)?.pages_per_node(pages, 0),
        _ => options.placement.pages_per_node(pages, options.start_page),
    };
    if wanted.is_empty() {
        return machine_has_room(backend, topology, &options.name, options.page_size, pages);
    }
    nodes_have_room(backend, topology, &options.name, options.page_size, &wanted)
}

/// Refuses a placement for a backend that places pages itself and would ignore it.
pub(crate) fn placement_is_ours(
    placing: &Placing,
    name: &str,
    backend: String,
    placement: &Placement,
) -> Result<(), MemoryError> {
    let reason = match placing {
        Placing::ByPlacement => return Ok(()),
        _ if *placement == Placement::kernel_default() => return Ok(()),
        Placing::Kernel { .. } => "the kernel's policy decides".to_owned(),
        Placing::ByClass { class } => {
            format!("the places of memory class {class} decide")
        }
        Placing::Pool { place } => format!("its pages are in pool {place}"),
        Placing::Fixed { place } => format!("its pages are fixed on {place}"),
    };
    Err(MemoryError::PlacementNotOurs {
        name: name.to_owned(),
        backend,
        placement: placement.to_string(),
        reason,
    })
}

fn size(options: &RegionOptions) -> Result<(), MemoryError> {
    let RegionOptions {
        name,
        size_bytes,
        page_size,
        ..
    } = options;
    if *size_bytes == 0 {
        return Err(MemoryError::SizeZero { name: name.clone() });
    }
    if !size_bytes.is_multiple_of(page_size.bytes()) {
        return Err(MemoryError::SizeNotPages {
            name: name.clone(),
            size_bytes: *size_bytes,
            page_size: *page_size,
            page_bytes: page_size.bytes(),
            rounded_bytes: page_size.round_up(*size_bytes),
        });
    }
    Ok(())
}

/// Refuses a region larger than the control group's limit, since a group over its limit is killed
/// and not refused memory.
///
/// Other use in the group changes all the time and is not counted: only what can never fit is
/// refused.
fn group_limit(topology: &Topology, options: &RegionOptions) -> Result<(), MemoryError> {
    match topology.limits.memory_limit_bytes {
        Some(limit_bytes) if options.size_bytes as u64 > limit_bytes => {
            Err(MemoryError::OverGroupLimit {
                name: options.name.clone(),
                needed_mib: (options.size_bytes as u64).div_ceil(MIB as u64),
                limit_mib: limit_bytes / MIB as u64,
                source_files: topology.limits.source.clone(),
            })
        }
        _ => Ok(()),
    }
}

/// Checks the nodes of a placement, which may have been resolved on another machine, or before a
/// node went offline.
pub(crate) fn placement_nodes(
    topology: &Topology,
    placement: &Placement,
) -> Result<(), MemoryError> {
    placement
        .nodes()
        .into_iter()
        .try_for_each(|node| check_node(topology, node).map_err(MemoryError::from))
}

/// The nodes that this process can have memory on.
pub(super) fn usable_nodes(topology: &Topology) -> Vec<NodeId> {
    topology
        .memory_nodes()
        .into_iter()
        .filter(|node| check_node(topology, *node).is_ok())
        .collect()
}

/// Checks that each node has free memory for its pages.
pub(crate) fn nodes_have_room(
    backend: &dyn MemoryBackend,
    topology: &Topology,
    name: &str,
    page_size: PageSize,
    wanted: &[(NodeId, u64)],
) -> Result<(), MemoryError> {
    for (node, pages) in wanted.iter().filter(|(_, pages)| *pages > 0) {
        let Some(capacity) = backend.capacity(*node, page_size)? else {
            // The backend does not use node memory at all.
            return Ok(());
        };
        let short = Short {
            name,
            page_size,
            node: node.to_string(),
            pages: *pages,
            free_bytes: capacity.free_bytes,
        };
        // A closure, since the list is for the message only and reads files of every node.
        short.check(capacity.margin_bytes, || {
            free_list(backend, topology, page_size)
        })?;
    }
    Ok(())
}

/// Checks the sum over all usable nodes: without a policy the kernel may use every one of them.
pub(crate) fn machine_has_room(
    backend: &dyn MemoryBackend,
    topology: &Topology,
    name: &str,
    page_size: PageSize,
    pages: u64,
) -> Result<(), MemoryError> {
    let (mut free_bytes, mut margin_bytes) = (0_u64, 0_u64);
    for node in usable_nodes(topology) {
        let Some(capacity) = backend.capacity(node, page_size)? else {
            return Ok(());
        };
        free_bytes = free_bytes.saturating_add(capacity.free_bytes);
        margin_bytes = margin_bytes.saturating_add(capacity.margin_bytes);
    }
    let short = Short {
        name,
        page_size,
        node: "any".to_owned(),
        pages,
        free_bytes,
    };
    short.check(margin_bytes, || free_list(backend, topology, page_size))
}

/// Pages requested of one node, and its free memory.
struct Short<'a> {
    name: &'a str,
    page_size: PageSize,
    node: String,
    pages: u64,
    free_bytes: u64,
}

impl Short<'_> {
    fn check(self, margin_bytes: u64, all_nodes: impl Fn() -> String) -> Result<(), MemoryError> {
        let needed_bytes = self.pages.saturating_mul(self.page_size.bytes() as u64);
        if needed_bytes <= self.free_bytes {
            return Ok(());
        }
        if self.page_size.is_hugetlb() {
            return Err(MemoryError::NotEnoughHugePages {
                name: self.name.to_owned(),
                page_size: self.page_size,
                page_kib: self.page_size.bytes() / 1024,
                node: self.node,
                needed_pages: self.pages,
                free_pages: self.free_bytes / self.page_size.bytes() as u64,
            });
        }
        Err(MemoryError::NotEnoughMemory {
            name: self.name.to_owned(),
            node: self.node,
            needed_mib: needed_bytes.div_ceil(MIB as u64),
            free_mib: self.free_bytes / MIB as u64,
            margin_mib: margin_bytes / MIB as u64,
            all_nodes: all_nodes(),
        })
    }
}

fn free_list(backend: &dyn MemoryBackend, topology: &Topology, page_size: PageSize) -> String {
    let one = |node: NodeId| match backend.capacity(node, page_size) {
        Ok(Some(capacity)) => format!("node {node}: {} MiB", capacity.free_bytes / MIB as u64),
        Ok(None) | Err(_) => format!("node {node}: unknown"),
    };
    topology
        .memory_nodes()
        .into_iter()
        .map(one)
        .collect::<Vec<_>>()
        .join(", ")
}
