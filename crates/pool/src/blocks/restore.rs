//! The way back to the saved states.

use std::path::Path;

use tierloom_memory::Clock;
use tierloom_topology::SystemFiles;
use tierloom_topology::saved_state::{SavedState, StateFile};

use super::change::{steps_in_order, timeline};
use super::saved::SavedBlocks;
use super::{BlockSource, BlockState, BlocksError, MemoryBlock, MemoryBlocks, Timeline};

/// What [`restore`] has done, or would do.
#[derive(Debug, Clone, PartialEq)]
pub enum RestoredBlocks {
    /// No states are saved.
    Nothing,
    /// The machine was started anew since, and with it all blocks.
    Rebooted,
    /// Blocks that are not as they were, and what became of them.
    Back {
        /// When the states were saved.
        saved_at: String,
        /// The blocks that change, with the word that is written to each.
        steps: Vec<(MemoryBlock, &'static str)>,
        /// Numbers of saved blocks that are no longer there.
        gone: Vec<u64>,
        /// The changes; `None` if nothing was done.
        timeline: Option<Timeline>,
    },
}

/// Gives every block the state that it had before the first [`change`](super::change()), and
/// deletes the saved states if all have it. Without `do_it` only says what would be done.
///
/// # Errors
/// [`BlocksError`]; the saved states are kept.
pub fn restore(
    files: &dyn SystemFiles,
    saved: &Path,
    (clock, now): (&dyn Clock, &str),
    do_it: bool,
) -> Result<RestoredBlocks, BlocksError> {
    let file = StateFile::at(saved);
    if file.read::<SavedBlocks>()?.is_none() {
        return Ok(RestoredBlocks::Nothing);
    }
    // Read again under the lock: another process may have changed it in between.
    let _lock = do_it.then(|| file.lock()).transpose()?;
    let Some(saved) = file.read::<SavedBlocks>()? else {
        return Ok(RestoredBlocks::Nothing);
    };
    if saved.is_of_another_boot(files) {
        if do_it {
            file.forget()?;
        }
        return Ok(RestoredBlocks::Rebooted);
    }
    let all = current(files, &saved)?;
    let (steps, gone) = way_back(&saved, &all);
    let done = do_it.then(|| {
        let changes = steps_in_order(files, clock, steps.iter().cloned());
        timeline(&all, now, changes)
    });
    if done.as_ref().is_some_and(|done| done.failures().is_none()) {
        file.forget()?;
    }
    Ok(RestoredBlocks::Back {
        saved_at: saved.saved_at,
        steps,
        gone,
        timeline: done,
    })
}

/// The blocks of all devices that have saved ones, as they are now.
fn current(files: &dyn SystemFiles, saved: &SavedBlocks) -> Result<MemoryBlocks, BlocksError> {
    let mut devices: Vec<&String> = saved.blocks.iter().map(|block| &block.device).collect();
    devices.sort_unstable();
    devices.dedup();
    let mut all: Option<MemoryBlocks> = None;
    for device in devices {
        match MemoryBlocks::read(files, &BlockSource::Device(device.clone())) {
            Ok(found) => match &mut all {
                Some(all) => all.blocks.extend(found.blocks),
                None => all = Some(found),
            },
            // All its blocks are gone.
            Err(BlocksError::NoDevice { .. } | BlocksError::OtherMode { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all.unwrap_or(MemoryBlocks {
        block_bytes: 0,
        blocks: Vec::new(),
    }))
}

/// Blocks that come back first, so that those that go find room.
fn way_back(
    saved: &SavedBlocks,
    all: &MemoryBlocks,
) -> (Vec<(MemoryBlock, &'static str)>, Vec<u64>) {
    let (mut on, mut off, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for before in &saved.blocks {
        let Some(now) = all.blocks.iter().find(|now| now.block == before.block) else {
            gone.push(before.block);
            continue;
        };
        match (before.state, now.state) {
            (BlockState::Online, BlockState::Offline) => on.push((
                now.clone(),
                match before.zone.as_str() {
                    "Movable" => "online_movable",
                    _ => "online_kernel",
                },
            )),
            (BlockState::Offline, BlockState::Online | BlockState::GoingOffline) => {
                off.push((now.clone(), "offline"));
            }
            _ => {}
        }
    }
    on.extend(off);
    (on, gone)
}
