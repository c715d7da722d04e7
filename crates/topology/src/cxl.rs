//! CXL memory as the kernel sees it: memory devices, regions made of them, DAX devices made of regions, and the nodes at the end.
//!
//! ```text
//!   mem0 ──┐                                  ┌─ kmem ───────▶ node 2 (system-ram)
//!          ├─▶ region0 ─▶ dax_region0 ─▶ dax0.0
//!   mem1 ──┘   interleaved                    └─ device_dax ─▶ /dev/dax0.0 (devdax)
//! ```
//! A region names endpoint decoders (`decoder2.0`) as its targets; the decoder belongs to the port `endpoint2`, whose `uport` link leads to
//! the memory device. Layout after the kernel's `Documentation/ABI/testing/sysfs-bus-cxl` and `sysfs-bus-dax`.

use std::fmt;

use serde::Serialize;

use crate::NodeId;
use crate::node::Node;
use crate::root::{Reader, parse_number};

const CXL_DIR: &str = "sys/bus/cxl/devices";
const DAX_DIR: &str = "sys/bus/dax/devices";

/// CXL devices and the DAX devices of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cxl {
    /// Whether the kernel has a CXL bus with a device on it.
    pub bus: bool,
    /// Memory devices.
    pub memdevs: Vec<Memdev>,
    /// Regions.
    pub regions: Vec<Region>,
    /// DAX devices, also those that do not come from CXL.
    pub dax_devices: Vec<DaxDevice>,
}

/// A CXL memory device (type 3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memdev {
    /// `mem0`. The number may change from boot to boot; the serial does not.
    pub name: String,
    /// Serial number, as printed by the kernel.
    pub serial: Option<String>,
    /// Volatile capacity.
    pub ram_size_bytes: Option<u64>,
    /// Persistent capacity.
    pub pmem_size_bytes: Option<u64>,
    /// Node that the device is attached to (not the node of its memory).
    pub numa_node: Option<NodeId>,
    /// PCI address, as in `0000:0d:00.0`.
    pub pci_address: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
}

/// A range of physical addresses that one or more memory devices serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Region {
    /// `region0`.
    pub name: String,
    /// Size; `None` while it is not set up.
    pub size_bytes: Option<u64>,
    /// `ram` or `pmem`.
    pub mode: Option<String>,
    /// Whether the decoders are programmed.
    pub committed: Option<bool>,
    /// How many targets it is interleaved over.
    pub interleave_ways: Option<u32>,
    /// Bytes that go to one target before the next follows.
    pub interleave_granularity_bytes: Option<u64>,
    /// What serves it, in interleave order.
    pub targets: Vec<Target>,
    /// Names of the DAX devices made of it.
    pub dax_devices: Vec<String>,
    /// Nodes that its memory is on.
    pub nodes: Vec<NodeId>,
}

/// One interleave position of a region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Endpoint decoder, `decoder2.0`.
    pub decoder: String,
    /// Memory device behind it, where the port tells.
    pub memdev: Option<String>,
}

/// A DAX device: memory as a character device or as system RAM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaxDevice {
    /// `dax0.0`.
    pub name: String,
    /// Size.
    pub size_bytes: Option<u64>,
    /// Node that the memory belongs to once it is system RAM.
    pub target_node: Option<NodeId>,
    /// What it is used as.
    pub mode: DaxMode,
    /// CXL region it is made of; `None` for other memory (NVDIMM, HBM, soft-reserved ranges).
    pub region: Option<String>,
}

/// What a DAX device is used as: that is its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DaxMode {
    /// Driver `kmem`: memory of a node.
    SystemRam,
    /// Driver `device_dax`: the character device `/dev/daxN.M`.
    Devdax,
    /// No driver, or one that is not known here: the memory cannot be used.
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
    /// Names of the memory devices that serve it, each once.
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
    /// Regions whose memory is on a node.
    pub fn regions_of_node(&self, node: NodeId) -> impl Iterator<Item = &Region> {
        self.regions
            .iter()
            .filter(move |region| region.nodes.contains(&node))
    }

    /// Regions that a memory device serves.
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

/// A node number as drivers print it, -1 for none.
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

/// `0000:0d:00.0`: domain, bus, device, function.
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
            // A position that no decoder was given to is an empty line.
            let port = decoder.strip_prefix("decoder")?.split('.').next()?;
            let memdev = reader
                .root
                .link_name(&format!("{CXL_DIR}/endpoint{port}/uport"));
            Some(Target { memdev, decoder })
        })
        .collect()
}

/// Nodes of a region: where its DAX devices are system RAM, or, for regions that firmware handed to the kernel as plain memory, the nodes
/// that own memory blocks of its address range (`range` is address and size).
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

/// The CXL region in the path of a DAX device: the directory above `dax_region`. NVDIMM regions have the same names but no such child.
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
