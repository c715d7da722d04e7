//! Which blocks there are.

use std::str::FromStr;

use serde::Serialize;
use tierloom_topology::SystemFiles;

use super::{BlockState, BlocksError};

const BLOCKS: &str = "sys/devices/system/memory";
const DEVICES: &str = "sys/bus/dax/devices";
const DRIVER: &str = "sys/bus/dax/drivers/kmem";

/// Whose blocks are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockSource {
    /// Those of all DAX devices whose memory belongs to this node.
    Node(u32),
    /// Those of one DAX device, by its name in sysfs.
    Device(String),
}

impl FromStr for BlockSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix("/dev/").unwrap_or(text);
        let node = name.strip_prefix("node").unwrap_or(name);
        match (node.parse(), name.strip_prefix("dax")) {
            (Ok(node), _) => Ok(Self::Node(node)),
            (_, Some(rest))
                if rest.starts_with(|c: char| c.is_ascii_digit()) && !rest.contains('/') =>
            {
                Ok(Self::Device(name.to_owned()))
            }
            _ => Err(format!(
                "`{text}` is neither a node nor a DAX device; write 1 or dax0.0"
            )),
        }
    }
}

/// A memory block in a DAX device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryBlock {
    /// Its number: its address in units of the block size.
    pub block: u64,
    /// Name of the device in sysfs.
    pub device: String,
    /// The node that its memory belongs to while it is online.
    pub node: u32,
    /// Whether it is used.
    pub state: BlockState,
    /// The zone that it is in, or if it is offline those that it could be in: `Movable`, `Normal`.
    pub zone: String,
}

impl MemoryBlock {
    pub(super) fn file(number: u64, name: &str) -> String {
        format!("{BLOCKS}/memory{number}/{name}")
    }
}

/// The memory blocks of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryBlocks {
    /// Bytes of each.
    pub block_bytes: u64,
    /// In the order of their numbers.
    pub blocks: Vec<MemoryBlock>,
}

impl MemoryBlocks {
    /// Reads them from sysfs.
    ///
    /// # Errors
    /// [`BlocksError::Unreadable`]; [`BlocksError::NoDevice`] and [`BlocksError::OtherMode`] for a
    /// source that has no such blocks.
    pub fn read(files: &dyn SystemFiles, source: &BlockSource) -> Result<Self, BlocksError> {
        let text = read(files, &format!("{BLOCKS}/block_size_bytes"))?;
        let block_bytes = hexadecimal(&text).filter(|bytes| *bytes > 0);
        let block_bytes = block_bytes.ok_or_else(|| BlocksError::Unreadable {
            file: files.full(&format!("{BLOCKS}/block_size_bytes")),
            why: format!("it holds `{text}`"),
        })?;
        let mut blocks = Vec::new();
        for device in devices(files, source)? {
            let node = number(files, &format!("{DEVICES}/{device}/target_node"))?;
            for (start, end) in ranges(files, &device)? {
                // As `kmem` does: whole blocks.
                for block in start.div_ceil(block_bytes)..end / block_bytes {
                    if let Some(block) = one(files, block, &device, node)? {
                        blocks.push(block);
                    }
                }
            }
        }
        blocks.sort_unstable_by_key(|block| block.block);
        Ok(Self {
            block_bytes,
            blocks,
        })
    }

    /// Bytes of blocks that are online.
    pub fn online_bytes(&self) -> u64 {
        let online = |block: &&MemoryBlock| block.state == BlockState::Online;
        self.blocks.iter().filter(online).count() as u64 * self.block_bytes
    }
}

/// The devices of a source, all of which the kernel uses as memory of a node.
fn devices(files: &dyn SystemFiles, source: &BlockSource) -> Result<Vec<String>, BlocksError> {
    let sorted = |folder: &str| {
        let mut names = files.names(folder).unwrap_or_default();
        names.retain(|name| name.starts_with("dax"));
        names.sort_unstable();
        names
    };
    let (all, used) = (sorted(DEVICES), sorted(DRIVER));
    let existing = match all.is_empty() {
        true => "no DAX devices".to_owned(),
        false => all.join(", "),
    };
    match source {
        BlockSource::Device(device) if used.contains(device) => Ok(vec![device.clone()]),
        BlockSource::Device(device) if all.contains(device) => Err(BlocksError::OtherMode {
            device: device.clone(),
        }),
        BlockSource::Device(device) => Err(BlocksError::NoDevice {
            what: format!("device {device}"),
            existing,
        }),
        BlockSource::Node(node) => {
            let of_node = used.into_iter().filter(|device| {
                number(files, &format!("{DEVICES}/{device}/target_node")).ok() == Some(*node)
            });
            let of_node: Vec<String> = of_node.collect();
            match of_node.is_empty() {
                true => Err(BlocksError::NoDevice {
                    what: format!("DAX device behind node {node}"),
                    existing,
                }),
                false => Ok(of_node),
            }
        }
    }
}

/// Address ranges of a device, each from its first byte to one behind its last.
fn ranges(files: &dyn SystemFiles, device: &str) -> Result<Vec<(u64, u64)>, BlocksError> {
    let folder = format!("{DEVICES}/{device}");
    let mut names = files.names(&folder).unwrap_or_default();
    names.retain(|name| {
        let number = name.strip_prefix("mapping");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    });
    let range = |name: &String| {
        let address = |file: &str| {
            let file = format!("{folder}/{name}/{file}");
            let text = read(files, &file)?;
            hexadecimal(&text).ok_or_else(|| BlocksError::Unreadable {
                file: files.full(&file),
                why: format!("it holds `{text}`"),
            })
        };
        Ok((address("start")?, address("end")?.saturating_add(1)))
    };
    if names.is_empty() {
        return Err(BlocksError::Unreadable {
            file: files.full(&format!("{folder}/mapping0")),
            why: "it is not there".to_owned(),
        });
    }
    names.iter().map(range).collect()
}

/// A block; `None` where the kernel has not made one.
fn one(
    files: &dyn SystemFiles,
    block: u64,
    device: &str,
    node: u32,
) -> Result<Option<MemoryBlock>, BlocksError> {
    let file = MemoryBlock::file(block, "state");
    let text = match files.read(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| BlocksError::Unreadable {
            file: files.full(&file),
            why: error.to_string(),
        })?,
    };
    let state = BlockState::parse(&text).ok_or_else(|| BlocksError::Unreadable {
        file: files.full(&file),
        why: format!("it holds `{text}`"),
    })?;
    Ok(Some(MemoryBlock {
        block,
        device: device.to_owned(),
        node,
        state,
        zone: read(files, &MemoryBlock::file(block, "valid_zones"))?,
    }))
}

fn read(files: &dyn SystemFiles, file: &str) -> Result<String, BlocksError> {
    files.read(file).map_err(|error| BlocksError::Unreadable {
        file: files.full(file),
        why: error.to_string(),
    })
}

fn number(files: &dyn SystemFiles, file: &str) -> Result<u32, BlocksError> {
    let text = read(files, file)?;
    text.parse().map_err(|_| BlocksError::Unreadable {
        file: files.full(file),
        why: format!("it holds `{text}`"),
    })
}

/// Numbers with and without `0x`, as these files have them.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}
