//! Sections of the tree.

use super::lines::{Branch, plural, size};
use crate::cxl::{DaxDevice, Memdev, Region};
use crate::{AccessClass, HugePool, MemoryTier, Node, NodeId, Topology, WeightedInterleave};

pub(super) fn title(topology: &Topology) -> String {
    let host = topology.hostname.as_deref().unwrap_or("this machine");
    format!(
        "{host}: {}, kernel {}",
        topology.cpu_model, topology.kernel_release
    )
}

pub(super) fn cpus(topology: &Topology) -> Branch {
    let cpus = &topology.cpus;
    let sockets = match cpus.sockets {
        0 => "sockets unknown".to_owned(),
        sockets => plural(sockets as usize, "socket"),
    };
    let threads = plural(cpus.threads_per_core as usize, "thread");
    let mut branch = Branch::new(format!(
        "cpus: {} online ({}), {sockets}, {threads} per core",
        cpus.online.len(),
        cpus.online
    ));
    for cache in &cpus.caches {
        branch.leaf(format!(
            "L{} {} {} x {}, shared by {}",
            cache.level,
            cache.kind,
            size(cache.size_bytes),
            cache.count,
            plural(cache.shared_cpus.len(), "cpu")
        ));
    }
    branch
}

/// One branch per tier, and one for nodes without a tier.
pub(super) fn tiers(topology: &Topology) -> Vec<Branch> {
    let branch = |tier: &MemoryTier| {
        let mut branch = Branch::new(format!("{}: {}", tier.kind, tier.reason));
        branch.extend(
            tier.nodes
                .iter()
                .filter_map(|id| topology.node(*id))
                .map(|n| node(topology, n)),
        );
        branch
    };
    let mut branches: Vec<Branch> = topology.tiers.iter().map(branch).collect();
    let without: Vec<&Node> = topology
        .nodes
        .iter()
        .filter(|n| topology.tier_of(n.id).is_none())
        .collect();
    if !without.is_empty() {
        let mut branch = Branch::new("in no tier");
        branch.extend(without.into_iter().map(|n| node(topology, n)));
        branches.push(branch);
    }
    branches
}

fn node(topology: &Topology, node: &Node) -> Branch {
    let memory = match node.has_memory {
        true => format!(
            "{}, {} free",
            size(node.mem_total_bytes),
            size(node.mem_free_bytes)
        ),
        false => "no memory".to_owned(),
    };
    let cpus = match node.cpus.is_empty() {
        true => "no cpus".to_owned(),
        false => format!("cpus {}", node.cpus),
    };
    let mut branch = Branch::new(format!("node {}: {memory}; {cpus}", node.id));
    if node.distances.len() > 1 {
        let distances: Vec<String> = node
            .distances
            .iter()
            .map(|(to, distance)| format!("{to}:{distance}"))
            .collect();
        branch.leaf(format!("distances {}", distances.join(" ")));
    }
    branch.extend(access(node));
    if let Some(blocks) = &node.memory_blocks {
        let zones: Vec<String> = blocks
            .zones
            .iter()
            .map(|(zone, count)| format!("{count} {zone}"))
            .collect();
        let zones = if zones.is_empty() {
            String::new()
        } else {
            format!(" ({})", zones.join(", "))
        };
        let block = blocks
            .block_size_bytes
            .map(|bytes| format!(" of {}", size(bytes)))
            .unwrap_or_default();
        branch.leaf(format!(
            "memory blocks{block}: {} online{zones}, {} offline",
            blocks.online, blocks.offline
        ));
    }
    for region in topology.cxl.regions_of_node(node.id) {
        branch.leaf(chain_to_node(region));
    }
    branch
}

/// The path from memory devices to a node, such as `CXL: mem0 -> region0 -> dax0.0`.
fn chain_to_node(region: &Region) -> String {
    let parts = [
        region.memdevs().join("+"),
        region.name.clone(),
        region.dax_devices.join("+"),
    ];
    let known: Vec<&str> = parts
        .iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    format!("CXL: {}", known.join(" -> "))
}

/// Lines with numbers from firmware; a class that repeats an earlier one is omitted.
fn access(node: &Node) -> Vec<Branch> {
    let mut lines: Vec<String> = Vec::new();
    for access in &node.access {
        let line = figures(access);
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.into_iter().map(Branch::new).collect()
}

fn figures(access: &AccessClass) -> String {
    let pair = |read: Option<f64>, write: Option<f64>, unit: &str, decimals: usize| {
        let one = |figure: Option<f64>| {
            figure.map_or("unknown".to_owned(), |f| format!("{f:.decimals$}"))
        };
        (read.is_some() || write.is_some()).then(|| format!("{}/{} {unit}", one(read), one(write)))
    };
    let latency = pair(access.read_latency_ns, access.write_latency_ns, "ns", 0);
    let bandwidth = pair(
        access.read_bandwidth_gbps,
        access.write_bandwidth_gbps,
        "GB/s",
        1,
    );
    let known: Vec<String> = latency.into_iter().chain(bandwidth).collect();
    if known.is_empty() {
        return String::new();
    }
    let from: Vec<String> = access.initiators.iter().map(NodeId::to_string).collect();
    let from = if from.is_empty() {
        String::new()
    } else {
        format!(" from node {}", from.join(","))
    };
    format!("firmware (HMAT) read/write{from}: {}", known.join(", "))
}

/// Memory devices, regions and DAX devices; `None` if the machine has none of them.
pub(super) fn cxl(topology: &Topology) -> Option<Branch> {
    let cxl = &topology.cxl;
    if cxl.memdevs.is_empty() && cxl.regions.is_empty() && cxl.dax_devices.is_empty() {
        return None;
    }
    let mut branch = Branch::new("devices: memory device -> region -> dax -> node");
    for device in &cxl.memdevs {
        let mut child = memdev(device);
        let mut regions = cxl.regions_of_memdev(&device.name).peekable();
        if regions.peek().is_none() {
            child.leaf("in no region: its memory cannot be used");
        }
        child.extend(regions.map(|r| region(topology, r)));
        branch.push(child);
    }
    // Regions without a known memory device would be missing otherwise.
    let orphans = cxl
        .regions
        .iter()
        .filter(|region| region.memdevs().is_empty());
    branch.extend(orphans.map(|r| region(topology, r)));
    let others = cxl
        .dax_devices
        .iter()
        .filter(|device| device.region.is_none());
    branch.extend(others.map(dax));
    Some(branch)
}

fn memdev(device: &Memdev) -> Branch {
    let mut facts = Vec::new();
    let capacities = [
        ("ram", device.ram_size_bytes),
        ("pmem", device.pmem_size_bytes),
    ];
    for (what, bytes) in capacities {
        facts.extend(
            bytes
                .filter(|bytes| *bytes > 0)
                .map(|bytes| format!("{} {what}", size(bytes))),
        );
    }
    facts.extend(
        device
            .pci_address
            .as_ref()
            .map(|address| format!("pci {address}")),
    );
    facts.extend(
        device
            .serial
            .as_ref()
            .map(|serial| format!("serial {serial}")),
    );
    facts.extend(
        device
            .firmware
            .as_ref()
            .map(|firmware| format!("firmware {firmware}")),
    );
    facts.extend(
        device
            .numa_node
            .map(|node| format!("attached to node {node}")),
    );
    Branch::new(format!("{}: {}", device.name, facts.join(", ")))
}

fn region(topology: &Topology, region: &Region) -> Branch {
    let size = region.size_bytes.map_or("size not set".to_owned(), size);
    let mode = region
        .mode
        .as_deref()
        .map(|mode| format!(" {mode}"))
        .unwrap_or_default();
    let ways = match (region.interleave_ways, region.interleave_granularity_bytes) {
        (Some(ways), Some(bytes)) if ways > 1 => {
            format!(
                ", {ways} ways every {bytes} B over {}",
                region.memdevs().join("+")
            )
        }
        _ => String::new(),
    };
    let state = if region.committed == Some(false) {
        ", not committed"
    } else {
        ""
    };
    let mut branch = Branch::new(format!("{}: {size}{mode}{ways}{state}", region.name));
    let own = topology
        .cxl
        .dax_devices
        .iter()
        .filter(|device| device.region.as_ref() == Some(&region.name));
    branch.extend(own.map(dax));
    // Otherwise the lines of the DAX devices have the node.
    if region.dax_devices.is_empty() {
        branch.extend(
            region
                .nodes
                .iter()
                .map(|node| Branch::new(format!("node {node}"))),
        );
    }
    branch
}

fn dax(device: &DaxDevice) -> Branch {
    let size = device.size_bytes.map_or("size unknown".to_owned(), size);
    let node = device
        .target_node
        .map(|node| format!(", node {node}"))
        .unwrap_or_default();
    Branch::new(format!("{}: {size}, {}{node}", device.name, device.mode))
}

pub(super) fn huge_pages(topology: &Topology) -> Branch {
    let huge = &topology.huge_pages;
    let mode = huge
        .thp_mode
        .as_deref()
        .unwrap_or("not offered by the kernel");
    let defrag = huge
        .thp_defrag
        .as_deref()
        .map(|defrag| format!(" (defrag {defrag})"))
        .unwrap_or_default();
    let mut branch = Branch::new("huge pages");
    branch.leaf(format!("transparent: {mode}{defrag}"));
    let own: Vec<String> = huge
        .thp_sizes
        .iter()
        .filter(|entry| entry.mode != "never")
        .map(|entry| format!("{} {}", size(entry.size_bytes), entry.mode))
        .collect();
    if !own.is_empty() {
        branch.leaf(format!("transparent, by size: {}", own.join(", ")));
    }
    branch.extend(huge.pools.iter().map(pool));
    branch
}

fn pool(pool: &HugePool) -> Branch {
    let with_pages = pool.per_node.iter().filter(|(_, count)| count.total > 0);
    let nodes: Vec<String> = with_pages
        .map(|(node, count)| format!("node {node}: {} ({} free)", count.total, count.free))
        .collect();
    let nodes = if nodes.is_empty() {
        String::new()
    } else {
        format!("; {}", nodes.join(", "))
    };
    Branch::new(format!(
        "hugetlb {}: {} ({} free){nodes}",
        size(pool.size_bytes),
        plural(
            usize::try_from(pool.all.total).unwrap_or(usize::MAX),
            "page"
        ),
        pool.all.free
    ))
}

pub(super) fn weighted_interleave(topology: &Topology) -> Branch {
    Branch::new(match &topology.weighted_interleave {
        WeightedInterleave::Absent { reason } => {
            format!("kernel weighted interleave: absent; {reason}")
        }
        WeightedInterleave::Present { weights, auto } => {
            let weights: Vec<String> = weights
                .iter()
                .map(|(node, weight)| format!("{node}:{weight}"))
                .collect();
            let auto = match auto {
                Some(true) => " (automatic)",
                Some(false) => " (set by hand)",
                None => "",
            };
            format!("kernel weighted interleave: {}{auto}", weights.join(","))
        }
    })
}

pub(super) fn numa_balancing(topology: &Topology) -> Branch {
    let state = topology
        .numa_balancing
        .map_or("not offered by the kernel".to_owned(), |mode| {
            mode.to_string()
        });
    Branch::new(format!("kernel NUMA balancing: {state}"))
}

pub(super) fn limits(topology: &Topology) -> Branch {
    let limits = &topology.limits;
    let memory = limits
        .memory_limit_bytes
        .map_or("no memory limit".to_owned(), |bytes| {
            format!("at most {}", size(bytes))
        });
    Branch::new(format!(
        "this process may use: cpus {}; nodes {}; {memory} ({})",
        limits.cpus_allowed, limits.mems_allowed, limits.source
    ))
}

pub(super) fn notes(topology: &Topology) -> Option<Branch> {
    if topology.notes.is_empty() {
        return None;
    }
    let mut branch = Branch::new("notes");
    branch.extend(topology.notes.iter().map(Branch::new));
    Some(branch)
}
