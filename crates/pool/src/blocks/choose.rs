//! Which blocks to change.

use tierloom_text::Bytes;
use tierloom_topology::{IdSet, SystemFiles};

use super::{BlockState, BlocksError, MemoryBlock, MemoryBlocks};

const NODES: &str = "sys/devices/system/node";

/// How blocks are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// All.
    All,
    /// Those of these numbers.
    Numbers(IdSet),
    /// So many bytes of those in the other state, rounded up to blocks: the lowest go online
    /// first, the highest offline.
    Bytes(u64),
}

/// The blocks that have to change so that those of `pick` are `wanted`.
///
/// # Errors
/// [`BlocksError::NoSuchBlock`], [`BlocksError::TooFew`], and before anything goes offline
/// [`BlocksError::NoRoom`].
pub fn choose(
    files: &dyn SystemFiles,
    all: &MemoryBlocks,
    pick: &Pick,
    wanted: BlockState,
) -> Result<Vec<MemoryBlock>, BlocksError> {
    let mut others: Vec<MemoryBlock> = all.blocks.clone();
    others.retain(|block| block.state != wanted);
    if wanted == BlockState::Offline {
        others.reverse();
    }
    match pick {
        Pick::All => {}
        Pick::Numbers(numbers) => {
            let exists = |number: u32| all.blocks.iter().any(|b| b.block == u64::from(number));
            let unknown: IdSet = numbers.iter().filter(|number| !exists(*number)).collect();
            if !unknown.is_empty() {
                return Err(BlocksError::NoSuchBlock {
                    numbers: unknown.to_string(),
                    existing: numbers_of(&all.blocks),
                });
            }
            others.retain(|block| u32::try_from(block.block).is_ok_and(|n| numbers.contains(n)));
        }
        Pick::Bytes(bytes) => {
            let count = bytes.div_ceil(all.block_bytes);
            if count > others.len() as u64 {
                return Err(BlocksError::TooFew {
                    wanted: Bytes(*bytes),
                    state: wanted.word(),
                    found: Bytes(others.len() as u64 * all.block_bytes),
                });
            }
            others.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        }
    }
    if wanted == BlockState::Offline {
        has_room(files, all, &others)?;
    }
    Ok(others)
}

/// Numbers of blocks as a list.
fn numbers_of(blocks: &[MemoryBlock]) -> String {
    let numbers = blocks.iter().filter_map(|b| u32::try_from(b.block).ok());
    numbers.collect::<IdSet>().to_string()
}

/// Refuses what cannot work: the kernel would try for ever, or end programs for want of memory.
fn has_room(
    files: &dyn SystemFiles,
    all: &MemoryBlocks,
    leaving: &[MemoryBlock],
) -> Result<(), BlocksError> {
    let mut nodes: Vec<u32> = leaving.iter().map(|block| block.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in nodes {
        let count = leaving.iter().filter(|block| block.node == node).count() as u64;
        let own = NodeMemory::read(files, node)?;
        let left = own.total.saturating_sub(count * all.block_bytes);
        let used = own.total.saturating_sub(own.free);
        let mut free = 0;
        for other in node_numbers(files).into_iter().filter(|n| *n != node) {
            free += NodeMemory::read(files, other)?.available();
        }
        if used.saturating_sub(own.cache) > left.saturating_add(free) {
            return Err(BlocksError::NoRoom {
                node,
                used: Bytes(used),
                left: Bytes(left),
                free: Bytes(free),
            });
        }
    }
    Ok(())
}

fn node_numbers(files: &dyn SystemFiles) -> Vec<u32> {
    let names = files.names(NODES).unwrap_or_default();
    let numbers = names
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok());
    numbers.collect()
}

struct NodeMemory {
    total: u64,
    free: u64,
    /// Page cache that can be dropped.
    cache: u64,
}

impl NodeMemory {
    fn read(files: &dyn SystemFiles, node: u32) -> Result<Self, BlocksError> {
        let file = format!("{NODES}/node{node}/meminfo");
        let unreadable = |why: String| BlocksError::Unreadable {
            file: files.full(&file),
            why,
        };
        let text = files
            .read(&file)
            .map_err(|error| unreadable(error.to_string()))?;
        // `Node 1 MemTotal:  524288 kB`
        let field = |name: &str| {
            let mut lines = text.lines().map(|line| line.split_whitespace().skip(2));
            let kib = lines.find_map(|mut words| {
                (words.next()?.strip_suffix(':')? == name)
                    .then(|| words.next()?.parse::<u64>().ok())?
            });
            kib.map(|kib| kib * 1024)
        };
        let missing = || unreadable("it has no MemTotal and MemFree".to_owned());
        let cached = field("Active(file)").unwrap_or(0) + field("Inactive(file)").unwrap_or(0);
        Ok(Self {
            total: field("MemTotal").ok_or_else(missing)?,
            free: field("MemFree").ok_or_else(missing)?,
            cache: cached / 2,
        })
    }

    fn available(&self) -> u64 {
        self.free + self.cache
    }
}
