//! States of blocks before they were first changed, on disk.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tierloom_text::WholeFile;
use tierloom_topology::SystemFiles;

use super::{BlockState, BlocksError, MemoryBlocks};

/// The only supported version of the file.
const SCHEMA: &str = "tierloom-saved-blocks/1";
/// Random id that the kernel makes at each boot.
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

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

impl SavedBlocks {
    pub(super) fn is_of_another_boot(&self, files: &dyn SystemFiles) -> bool {
        let now = boot_id(files);
        self.boot_id.is_some() && now.is_some() && self.boot_id != now
    }
}

fn boot_id(files: &dyn SystemFiles) -> Option<String> {
    files.read(BOOT_ID).ok().filter(|id| !id.is_empty())
}

/// Where saved states are; the file need not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct SavedFile<'p>(pub(super) &'p Path);

impl SavedFile<'_> {
    /// The saved states; `None` without any.
    pub(super) fn read(self) -> Result<Option<SavedBlocks>, BlocksError> {
        let text = match std::fs::read_to_string(self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("read the saved states in", error)),
        };
        let bad = |problem: String| BlocksError::BadState {
            path: self.0.to_owned(),
            problem,
        };
        let saved: SavedBlocks =
            serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        match saved.schema == SCHEMA {
            true => Ok(Some(saved)),
            false => Err(bad(format!(
                "its schema is `{}`, not `{SCHEMA}`",
                saved.schema
            ))),
        }
    }

    /// Keeps the oldest states, and adds those of blocks that were never saved.
    pub(super) fn keep(
        self,
        files: &dyn SystemFiles,
        now: &str,
        all: &MemoryBlocks,
    ) -> Result<(), BlocksError> {
        // Those of another boot mean nothing any more.
        let saved = self
            .read()?
            .filter(|saved| !saved.is_of_another_boot(files));
        let mut saved = saved.unwrap_or_else(|| SavedBlocks {
            schema: SCHEMA.to_owned(),
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
        let failed = |error| self.failed("save the states to", error);
        let json = serde_json::to_vec_pretty(&saved).map_err(|error| failed(error.into()))?;
        WholeFile::write(self.0, &json).map_err(failed)?;
        // A new name is on disk only after this.
        let folder = File::open(self.folder()).and_then(|folder| folder.sync_all());
        folder.map_err(failed)
    }

    pub(super) fn forget(self) -> Result<(), BlocksError> {
        match std::fs::remove_file(self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("delete the saved states in", error))
            }
            _ => Ok(()),
        }
    }

    /// Excludes other processes that change blocks, until the file is dropped.
    pub(super) fn lock(self) -> Result<File, BlocksError> {
        let path = self.0.with_extension("lock");
        let failed = |error| SavedFile(&path).failed("open the lock", error);
        std::fs::create_dir_all(self.folder()).map_err(failed)?;
        // Never deleted: two processes could otherwise lock two files of the same name.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(BlocksError::Busy { path }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    fn folder(self) -> PathBuf {
        let parent = self.0.parent().filter(|p| !p.as_os_str().is_empty());
        parent.unwrap_or(Path::new(".")).to_owned()
    }

    fn failed(self, action: &'static str, source: io::Error) -> BlocksError {
        BlocksError::State {
            action,
            path: self.0.to_owned(),
            source,
        }
    }
}
