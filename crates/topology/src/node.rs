//! NUMA nodes: CPUs, memory, distances, HMAT access classes and memory blocks.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::root::Reader;
use crate::{CpuId, CpuInfo, IdSet, NodeId, TopologyError};

pub(crate) const NODE_DIR: &str = "sys/devices/system/node";
const MEMORY_DIR: &str = "sys/devices/system/memory";

/// A NUMA node with its CPUs, memory and distances.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Number that Linux gives to the node.
    pub id: NodeId,
    /// Online CPUs of the node; empty for a memory-only node.
    pub cpus: IdSet,
    /// Memory that the kernel manages on the node, in bytes.
    pub mem_total_bytes: u64,
    /// Memory that was free at the time of reading, in bytes.
    pub mem_free_bytes: u64,
    /// Relative distances from this node as firmware reports them (10 is local); empty if unknown.
    pub distances: BTreeMap<NodeId, u32>,
    /// Latency and bandwidth as firmware reports them (ACPI HMAT or CDAT); empty if it does not.
    pub access: Vec<AccessClass>,
    /// Physical package of the node's CPUs; `None` without CPUs or if unknown.
    pub socket: Option<u32>,
    /// Hot-pluggable memory blocks; `None` if the kernel lists none.
    pub memory_blocks: Option<MemoryBlocks>,
    /// Whether the node has any memory.
    pub has_memory: bool,
}

/// Performance of accesses from the best initiators to this node.
///
/// The numbers come from firmware and are not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccessClass {
    /// 0: the best initiators of any kind; 1: the best among nodes with CPUs.
    pub class: u32,
    /// Nodes with this performance.
    pub initiators: Vec<NodeId>,
    /// Idle read latency in nanoseconds.
    pub read_latency_ns: Option<f64>,
    /// Idle write latency in nanoseconds.
    pub write_latency_ns: Option<f64>,
    /// Read bandwidth in decimal GB/s.
    pub read_bandwidth_gbps: Option<f64>,
    /// Write bandwidth in decimal GB/s.
    pub write_bandwidth_gbps: Option<f64>,
}

/// Memory blocks of a node, the units of memory hot-plug.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MemoryBlocks {
    /// Size of one block in bytes; `None` if the kernel does not report it.
    pub block_size_bytes: Option<u64>,
    /// Number of blocks in use.
    pub online: u32,
    /// Number of blocks that are present but not in use.
    pub offline: u32,
    /// Number of online blocks by zone.
    ///
    /// `Movable` blocks can be taken offline again, `Normal` ones rarely; `mixed` ones span zones.
    pub zones: BTreeMap<String, u32>,
    /// Numbers of the blocks: physical address divided by the block size.
    #[serde(skip)]
    pub(crate) numbers: IdSet,
}

impl Node {
    /// The first access class with any number: class 0, or class 1 if class 0 has none.
    pub fn best_access(&self) -> Option<&AccessClass> {
        let mut with_figures = self.access.iter().filter(|access| access.has_figures());
        with_figures.next()
    }

    /// Distance of the node to itself, 10 by convention.
    pub(crate) fn local_distance(&self) -> u32 {
        self.distances.get(&self.id).copied().unwrap_or(10)
    }
}

impl AccessClass {
    fn has_figures(&self) -> bool {
        let figures = [
            self.read_latency_ns,
            self.write_latency_ns,
            self.read_bandwidth_gbps,
            self.write_bandwidth_gbps,
        ];
        figures.iter().any(Option::is_some)
    }
}

/// Reads all online nodes; without NUMA the whole machine is one node.
pub(crate) fn read_all(reader: &Reader<'_>, cpus: &CpuInfo) -> Result<Vec<Node>, TopologyError> {
    let path = format!("{NODE_DIR}/online");
    if !reader.root.exists(&path) {
        if !reader.root.exists("proc/meminfo") {
            return Err(TopologyError::NotASystemTree {
                root: reader.root.path().to_path_buf(),
            });
        }
        reader.note(format!(
            "/{path} is missing (a kernel without NUMA): the whole machine is taken as node 0"
        ));
        return Ok(vec![whole_machine(reader, cpus)?]);
    }
    let online = reader.required_ids(&path)?;
    if online.is_empty() {
        return Err(reader.garbled(&path, "at least one node", ""));
    }
    let block_size_bytes = block_size(reader);
    online
        .nodes()
        .map(|id| read_node(reader, id, &online, cpus, block_size_bytes))
        .collect()
}

fn read_node(
    reader: &Reader<'_>,
    id: NodeId,
    online: &IdSet,
    cpus: &CpuInfo,
    block_size_bytes: Option<u64>,
) -> Result<Node, TopologyError> {
    let directory = format!("{NODE_DIR}/node{id}");
    let (mem_total_bytes, mem_free_bytes) = of_node(reader, id)?;
    let own = reader
        .required_ids(&format!("{directory}/cpulist"))?
        .intersection(&cpus.online);
    Ok(Node {
        id,
        socket: socket(&own, cpus),
        cpus: own,
        mem_total_bytes,
        mem_free_bytes,
        distances: distances(reader, &format!("{directory}/distance"), online),
        access: access_classes(reader, &directory),
        memory_blocks: memory_blocks(reader, &directory, block_size_bytes),
        has_memory: mem_total_bytes > 0,
    })
}

/// Physical package of the first CPU whose package is known.
///
/// A node belongs to one package, unless firmware interleaves sockets or NUMA is off.
fn socket(own: &IdSet, cpus: &CpuInfo) -> Option<u32> {
    own.iter().find_map(|cpu| cpus.socket_of(CpuId(cpu)))
}

/// All and free memory of a node in bytes; of the whole machine if the kernel has no nodes.
pub(crate) fn memory_of(reader: &Reader<'_>, id: NodeId) -> Result<(u64, u64), TopologyError> {
    match reader.root.exists(&format!("{NODE_DIR}/online")) {
        true => of_node(reader, id),
        false => memory(reader, "proc/meminfo", ""),
    }
}

fn of_node(reader: &Reader<'_>, id: NodeId) -> Result<(u64, u64), TopologyError> {
    let path = format!("{NODE_DIR}/node{id}/meminfo");
    memory(reader, &path, &format!("Node {id} "))
}

fn whole_machine(reader: &Reader<'_>, cpus: &CpuInfo) -> Result<Node, TopologyError> {
    let (mem_total_bytes, mem_free_bytes) = memory(reader, "proc/meminfo", "")?;
    Ok(Node {
        id: NodeId(0),
        cpus: cpus.online.clone(),
        mem_total_bytes,
        mem_free_bytes,
        distances: BTreeMap::from([(NodeId(0), 10)]),
        access: Vec::new(),
        socket: socket(&cpus.online, cpus),
        memory_blocks: None,
        has_memory: mem_total_bytes > 0,
    })
}

/// `MemTotal` and `MemFree` in bytes, from a meminfo file whose lines start with `prefix`.
fn memory(reader: &Reader<'_>, path: &str, prefix: &str) -> Result<(u64, u64), TopologyError> {
    const EXPECTED: &str = "lines such as `MemTotal: 1024 kB` and `MemFree: 512 kB`";
    let text = reader.required_text(path, EXPECTED)?;
    let field = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(prefix)?.strip_prefix(name))?;
        let kib: u64 = line
            .strip_prefix(':')?
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse()
            .ok()?;
        kib.checked_mul(1024)
    };
    field("MemTotal")
        .zip(field("MemFree"))
        .ok_or_else(|| reader.garbled(path, EXPECTED, &text))
}

/// Distances to the online nodes; the file has one number per online node, in their order.
fn distances(reader: &Reader<'_>, path: &str, online: &IdSet) -> BTreeMap<NodeId, u32> {
    let expected = format!("{} numbers, one for each online node", online.len());
    let parse = |text: &str| {
        let numbers: Vec<u32> = text
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        (numbers.len() == online.len()).then(|| online.nodes().zip(numbers).collect())
    };
    reader.parsed(path, &expected, parse).unwrap_or_default()
}

fn access_classes(reader: &Reader<'_>, directory: &str) -> Vec<AccessClass> {
    let classes = reader.root.numbered(directory, "access").into_iter();
    classes
        .map(|(class, name)| {
            let initiators = format!("{directory}/{name}/initiators");
            // Firmware omits a number that it does not know, or reports it as 0.
            let figure = |name: &str| {
                reader
                    .number(&format!("{initiators}/{name}"))
                    .filter(|number| *number > 0)
                    .map(|number| number as f64)
            };
            // The kernel reports bandwidths in MB/s.
            let gbps = |name: &str| figure(name).map(|mb_per_s| mb_per_s / 1000.0);
            let nodes = reader.root.numbered(&initiators, "node").into_iter();
            AccessClass {
                class,
                initiators: nodes.map(|(id, _)| NodeId(id)).collect(),
                read_latency_ns: figure("read_latency"),
                write_latency_ns: figure("write_latency"),
                read_bandwidth_gbps: gbps("read_bandwidth"),
                write_bandwidth_gbps: gbps("write_bandwidth"),
            }
        })
        .collect()
}

/// Size of a memory block; the kernel prints it in hexadecimal without `0x`.
fn block_size(reader: &Reader<'_>) -> Option<u64> {
    reader.parsed(
        &format!("{MEMORY_DIR}/block_size_bytes"),
        "a hexadecimal number",
        |text| u64::from_str_radix(text, 16).ok().filter(|size| *size > 0),
    )
}

fn memory_blocks(
    reader: &Reader<'_>,
    directory: &str,
    block_size_bytes: Option<u64>,
) -> Option<MemoryBlocks> {
    let links = reader.root.numbered(directory, "memory");
    if links.is_empty() {
        return None;
    }
    let mut blocks = MemoryBlocks {
        block_size_bytes,
        ..MemoryBlocks::default()
    };
    for (number, name) in links {
        blocks.numbers.insert(number);
        match reader
            .text(&format!("{MEMORY_DIR}/{name}/state"))
            .as_deref()
        {
            // A block that is going offline is in use until that succeeds.
            Some("online" | "going-offline") => {
                blocks.online += 1;
                let zones = reader.text(&format!("{MEMORY_DIR}/{name}/valid_zones"));
                // An online block belongs to the first zone listed; a block that spans zones has
                // `none`.
                if let Some(zone) = zones
                    .as_deref()
                    .and_then(|zones| zones.split_whitespace().next())
                {
                    let zone = if zone == "none" { "mixed" } else { zone };
                    *blocks.zones.entry(zone.to_owned()).or_default() += 1;
                }
            }
            Some(_) => blocks.offline += 1,
            None => reader.note(format!(
                "the state of some memory blocks is unknown: /{MEMORY_DIR}/memory*/state is missing"
            )),
        }
    }
    Some(blocks)
}
