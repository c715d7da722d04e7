//! CXL memory as the kernel presents it: memory devices, regions, DAX devices and nodes.
//!
//! ```text
//!   mem0 ──┐                                  ┌─ kmem ───────▶ node 2 (system-ram)
//!          ├─▶ region0 ─▶ dax_region0 ─▶ dax0.0
//!   mem1 ──┘   interleaved                    └─ device_dax ─▶ /dev/dax0.0 (devdax)
//! ```
//!
//! The targets of a region are endpoint decoders such as `decoder2.0`. That decoder belongs to the
//! port `endpoint2`, whose link `uport` points to the memory device. The layout follows the
//! kernel's `Documentation/ABI/testing/sysfs-bus-cxl` and `sysfs-bus-dax`.

use std::fmt;

use serde::Serialize;

use crate::NodeId;
use crate::node::Node;
use crate::root::{Reader, parse_number};

const CXL_DIR: &str = "sys/bus/cxl/devices";
const DAX_DIR: &str = "sys/bus/dax/devices";

/// CXL devices and DAX devices of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cxl {
    /// Whether the kernel's CXL bus has any device.
    pub bus: bool,
    /// CXL memory devices, in the order of their numbers.
    pub memdevs: Vec<Memdev>,
    /// CXL regions, in the order of their numbers.
    pub regions: Vec<Region>,
    /// All DAX devices, including those without CXL memory.
    pub dax_devices: Vec<DaxDevice>,
}

/// A CXL memory device (type 3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memdev {
    /// Name such as `mem0`; unlike the serial number it may change at each boot.
    pub name: String,
    /// Serial number as the kernel prints it.
    pub serial: Option<String>,
    /// Volatile capacity in bytes.
    pub ram_size_bytes: Option<u64>,
    /// Persistent capacity in bytes.
    pub pmem_size_bytes: Option<u64>,
    /// Node that the device is attached to, as opposed to the node of its memory.
    pub numa_node: Option<NodeId>,
    /// PCI address such as `0000:0d:00.0`.
    pub pci_address: Option<String>,
    /// Firmware version; `None` if the device reports none.
    pub firmware: Option<String>,
}

/// A range of physical addresses backed by one or more memory devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Name such as `region0`.
    pub name: String,
    /// Size in bytes; `None` until the region is configured.
    pub size_bytes: Option<u64>,
    /// Kind of memory: `ram` or `pmem`.
    pub mode: Option<String>,
    /// Whether the decoders are programmed; only then the memory is accessible.
    pub committed: Option<bool>,
    /// Number of targets that the region is interleaved over.
    pub interleave_ways: Option<u32>,
    /// Bytes on one target before the next one follows.
    pub interleave_granularity_bytes: Option<u64>,
    /// Decoders that back the region, in interleave order.
    pub targets: Vec<Target>,
    /// Names of the DAX devices in the region.
    pub dax_devices: Vec<String>,
    /// Nodes that manage the region's memory.
    pub nodes: Vec<NodeId>,
}

/// One interleave position of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Endpoint decoder, such as `decoder2.0`.
    pub decoder: String,
    /// Memory device of the decoder; `None` if the port has no link to it.
    pub memdev: Option<String>,
}

/// A DAX device: memory used as a character device or as system RAM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaxDevice {
    /// Name such as `dax0.0`.
    pub name: String,
    /// Size in bytes; `None` if the kernel does not report it.
    pub size_bytes: Option<u64>,
    /// Node that the memory belongs to in mode system-ram.
    pub target_node: Option<NodeId>,
    /// Present use, which its driver determines.
    pub mode: DaxMode,
    /// CXL region of the device; `None` for other memory (NVDIMM, HBM, soft-reserved ranges).
    pub region: Option<String>,
}

/// Use of a DAX device, as its driver determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DaxMode {
    /// Driver `kmem`: the memory belongs to a node.
    SystemRam,
    /// Driver `device_dax`: character device `/dev/daxN.M`.
    Devdax,
    /// No driver or an unknown one: the memory is unused.
    Unbound,
}

impl fmt::Display for DaxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SystemRam => "system-ram",
            Self::Devdax => "devdax",
            Self::Unbound => "unbound",
        })
    }
}

impl Region {
    /// Distinct names of the memory devices that back the region.
    pub fn memdevs(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self
            .targets
            .iter()
            .filter_map(|target| target.memdev.as_deref())
        {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl Cxl {
    /// Regions whose memory a node manages.
    pub fn regions_of_node(&self, node: NodeId) -> impl Iterator<Item = &Region> {
        self.regions
            .iter()
            .filter(move |region| region.nodes.contains(&node))
    }

    /// Regions that a memory device backs.
    pub fn regions_of_memdev<'a>(&'a self, memdev: &'a str) -> impl Iterator<Item = &'a Region> {
        self.regions
            .iter()
            .filter(move |region| region.memdevs().contains(&memdev))
    }

    pub(crate) fn read(reader: &Reader<'_>, nodes: &[Node]) -> Self {
        let names = reader.root.list(CXL_DIR);
        let named = |prefix: &str| -> Vec<String> {
            let devices = reader.root.numbered(CXL_DIR, prefix).into_iter();
            devices.map(|(_, name)| name).collect()
        };
        let dax_devices = dax_devices(reader);
        let region = |name: String| region(reader, name, &dax_devices, nodes);
        Self {
            bus: !names.is_empty(),
            memdevs: named("mem")
                .into_iter()
                .map(|name| memdev(reader, name))
                .collect(),
            regions: named("region").into_iter().map(region).collect(),
            dax_devices,
        }
    }
}

/// Node number as drivers print it, where -1 is none.
fn node_number(reader: &Reader<'_>, path: &str) -> Option<NodeId> {
    let number = reader.parsed(path, "a node number or -1", |text| text.parse::<i32>().ok())?;
    u32::try_from(number).ok().map(NodeId)
}

fn memdev(reader: &Reader<'_>, name: String) -> Memdev {
    let directory = format!("{CXL_DIR}/{name}");
    let target = reader.root.link_target(&directory).unwrap_or_default();
    Memdev {
        serial: reader.text(&format!("{directory}/serial")),
        ram_size_bytes: reader.number(&format!("{directory}/ram/size")),
        pmem_size_bytes: reader.number(&format!("{directory}/pmem/size")),
        numa_node: node_number(reader, &format!("{directory}/numa_node")),
        // The address is a component of the path to the device.
        pci_address: target
            .rsplit('/')
            .find(|part| is_pci_address(part))
            .map(str::to_owned),
        firmware: reader
            .text(&format!("{directory}/firmware_version"))
            .filter(|text| !text.is_empty()),
        name,
    }
}

/// Whether the text is domain, bus, device and function in hexadecimal, such as `0000:0d:00.0`.
fn is_pci_address(text: &str) -> bool {
    let mut parts = text.split([':', '.']);
    let mut hex = || {
        parts
            .next()
            .is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    hex() && hex() && hex() && hex() && parts.next().is_none()
}

fn region(reader: &Reader<'_>, name: String, dax: &[DaxDevice], nodes: &[Node]) -> Region {
    let directory = format!("{CXL_DIR}/{name}");
    let number = |file: &str| reader.number(&format!("{directory}/{file}"));
    // A region that is not configured yet has size 0.
    let size_bytes = number("size").filter(|size| *size > 0);
    let own: Vec<&DaxDevice> = dax
        .iter()
        .filter(|dax| dax.region.as_ref() == Some(&name))
        .collect();
    let resource = reader
        .root
        .text(&format!("{directory}/resource"))
        .and_then(|text| parse_number(&text));
    Region {
        size_bytes,
        mode: reader.text(&format!("{directory}/mode")),
        committed: number("commit").map(|commit| commit != 0),
        interleave_ways: number("interleave_ways").and_then(|ways| u32::try_from(ways).ok()),
        interleave_granularity_bytes: number("interleave_granularity"),
        targets: targets(reader, &directory),
        dax_devices: own.iter().map(|dax| dax.name.clone()).collect(),
        nodes: region_nodes(&own, resource.zip(size_bytes), nodes),
        name,
    }
}

fn targets(reader: &Reader<'_>, directory: &str) -> Vec<Target> {
    let positions = reader.root.numbered(directory, "target").into_iter();
    positions
        .filter_map(|(_, file)| {
            let decoder = reader.text(&format!("{directory}/{file}"))?;
            // An unassigned position is an empty line.
            let port = decoder.strip_prefix("decoder")?.split('.').next()?;
            let memdev = reader
                .root
                .link_name(&format!("{CXL_DIR}/endpoint{port}/uport"));
            Some(Target { memdev, decoder })
        })
        .collect()
}

/// Nodes of a region; `range` is its address and size.
///
/// These are the target nodes of DAX devices in mode system-ram. Firmware can also hand a region to
/// the kernel as ordinary memory, without DAX devices; then they are the nodes with memory blocks
/// in its address range.
fn region_nodes(dax: &[&DaxDevice], range: Option<(u64, u64)>, nodes: &[Node]) -> Vec<NodeId> {
    if !dax.is_empty() {
        let ram = dax.iter().filter(|dax| dax.mode == DaxMode::SystemRam);
        let mut found: Vec<NodeId> = ram.filter_map(|dax| dax.target_node).collect();
        found.sort_unstable();
        found.dedup();
        return found;
    }
    let Some((start, size)) = range else {
        return Vec::new();
    };
    let owns = |node: &&Node| {
        let blocks = node.memory_blocks.as_ref()?;
        let block_size = blocks.block_size_bytes?;
        // Inclusive; `size` is above 0 here, as `region` drops sizes of 0.
        let (first, last) = (
            start / block_size,
            start.saturating_add(size - 1) / block_size,
        );
        Some(
            blocks
                .numbers
                .iter()
                .any(|number| (first..=last).contains(&u64::from(number))),
        )
    };
    nodes
        .iter()
        .filter(|node| owns(node) == Some(true))
        .map(|node| node.id)
        .collect()
}

fn dax_devices(reader: &Reader<'_>) -> Vec<DaxDevice> {
    let names = reader.root.list(DAX_DIR).into_iter();
    names
        .filter(|name| name.starts_with("dax"))
        .map(|name| {
            let directory = format!("{DAX_DIR}/{name}");
            let target = reader.root.link_target(&directory).unwrap_or_default();
            DaxDevice {
                size_bytes: reader.number(&format!("{directory}/size")),
                target_node: node_number(reader, &format!("{directory}/target_node")),
                mode: match reader
                    .root
                    .link_name(&format!("{directory}/driver"))
                    .as_deref()
                {
                    Some("kmem") => DaxMode::SystemRam,
                    Some("device_dax") => DaxMode::Devdax,
                    _ => DaxMode::Unbound,
                },
                region: region_of(&target),
                name,
            }
        })
        .collect()
}

/// The CXL region in the path of a DAX device: the parent of `dax_region`.
///
/// Regions of NVDIMMs have the same kind of name, but no `dax_region`.
fn region_of(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let pair = parts
        .windows(2)
        .find(|pair| is_region(pair[0]) && pair[1].starts_with("dax_region"))?;
    Some(pair[0].to_owned())
}

fn is_region(part: &str) -> bool {
    part.strip_prefix("region")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_told_from_other_path_parts() {
        assert!(is_pci_address("0000:0d:00.0"));
        for other in [
            "pci0000:0c",
            "mem0",
            "0000:0d:00",
            "0000:0d:00.0.1",
            "a:b:c.g",
            "",
        ] {
            assert!(!is_pci_address(other), "{other}");
        }
    }

    #[test]
    fn only_numbered_regions_are_regions() {
        assert!(is_region("region12"));
        assert!(!is_region("region"));
        assert!(!is_region("dax_region0"));
        assert_eq!(
            region_of("../x/decoder0.0/region3/dax_region3/dax3.0").as_deref(),
            Some("region3")
        );
        assert_eq!(region_of("../ACPI0012:00/ndbus0/region3/dax3.0"), None);
    }
}
