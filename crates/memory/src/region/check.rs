//! Everything that can go wrong before a page is touched.

use tierloom_topology::{NodeId, Topology};

use super::RegionOptions;
use crate::backend::{MemoryBackend, Placing};
use crate::placement::check_node;
use crate::{MIB, MemoryError, PageSize, Placement};

/// Checks size, placement, backend and room, in that order.
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
    if matches!(placing, Placing::Fixed { .. }) {
        return Ok(());
    }
    group_limit(topology, options)?;
    let pages = (options.size_bytes / options.page_size.bytes()) as u64;
    let wanted = match placing {
        // The kernel would go on with other nodes when one is full: a region that is known to end
        // up elsewhere is refused.
        Placing::Kernel { shares } => Placement::partitioned(shares)?.pages_per_node(pages, 0),
        _ => options.placement.pages_per_node(pages, options.start_page),
    };
    if wanted.is_empty() {
        return machine_has_room(backend, topology, &options.name, options.page_size, pages);
    }
    nodes_have_room(backend, topology, &options.name, options.page_size, &wanted)
}

/// A backend that places pages itself must not be given a placement: it would be ignored.
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

/// A container larger than its limit is killed, not told. What else runs in the group counts too
/// and changes all the time, so only what can never fit is refused here.
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

/// A placement may have been resolved on another machine, or before a node went away.
pub(crate) fn placement_nodes(
    topology: &Topology,
    placement: &Placement,
) -> Result<(), MemoryError> {
    placement
        .nodes()
        .into_iter()
        .try_for_each(|node| check_node(topology, node).map_err(MemoryError::from))
}

/// The nodes this process can have memory on.
pub(super) fn usable_nodes(topology: &Topology) -> Vec<NodeId> {
    topology
        .memory_nodes()
        .into_iter()
        .filter(|node| check_node(topology, *node).is_ok())
        .collect()
}

/// Whether each node can take its pages.
pub(crate) fn nodes_have_room(
    backend: &dyn MemoryBackend,
    topology: &Topology,
    name: &str,
    page_size: PageSize,
    wanted: &[(NodeId, u64)],
) -> Result<(), MemoryError> {
    for (node, pages) in wanted.iter().filter(|(_, pages)| *pages > 0) {
        let Some(capacity) = backend.capacity(*node, page_size)? else {
            return Ok(());
        };
        let short = Short {
            name,
            page_size,
            node: node.to_string(),
            pages: *pages,
            free_bytes: capacity.free_bytes,
        };
        short.check(capacity.margin_bytes, || {
            free_list(backend, topology, page_size)
        })?;
    }
    Ok(())
}

/// Without a policy the kernel may use every usable node.
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

/// What one node is asked for and has.
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
