//! States of blocks before they were first changed, on disk.

use serde::{Deserialize, Serialize};
use tierloom_topology::SystemFiles;
use tierloom_topology::saved_state::{SavedState, StateFile, boot_id};

use super::{BlockState, BlocksError, MemoryBlocks};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedBlocks {
    schema: String,
    pub(super) saved_at: String,
    boot_id: Option<String>,
    pub(super) blocks: Vec<SavedBlock>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedBlock {
    pub(super) block: u64,
    pub(super) device: String,
    pub(super) node: u32,
    pub(super) state: BlockState,
    pub(super) zone: String,
}

impl SavedState for SavedBlocks {
    const SCHEMA: &str = "tierloom-saved-blocks/1";

    fn schema(&self) -> &str {
        &self.schema
    }

    fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }
}

/// Keeps the oldest states in `file`, and adds those of blocks that were never saved.
pub(super) fn keep(
    file: &StateFile,
    files: &dyn SystemFiles,
    now: &str,
    all: &MemoryBlocks,
) -> Result<(), BlocksError> {
    // Those of another boot mean nothing any more.
    let saved = file
        .read::<SavedBlocks>()?
        .filter(|saved| !saved.is_of_another_boot(files));
    let mut saved = saved.unwrap_or_else(|| SavedBlocks {
        schema: SavedBlocks::SCHEMA.to_owned(),
        saved_at: now.to_owned(),
        boot_id: boot_id(files),
        blocks: Vec::new(),
    });
    for block in &all.blocks {
        if !saved.blocks.iter().any(|old| old.block == block.block) {
            saved.blocks.push(SavedBlock {
                block: block.block,
                device: block.device.clone(),
                node: block.node,
                state: block.state,
                zone: block.zone.clone(),
            });
        }
    }
    Ok(file.save(&saved)?)
}
