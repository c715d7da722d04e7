//! Changing blocks, one after another, with the time that each took.

use std::io;
use std::path::Path;

use serde::Serialize;
use tierloom_memory::Clock;
use tierloom_topology::SystemFiles;
use tierloom_topology::saved_state::StateFile;

use super::saved::keep;
use super::{BlockState, BlocksError, MemoryBlock, MemoryBlocks};

/// Version of a timeline.
const TIMELINE: &str = "tierloom-blocks/1";

/// Linux error numbers that have a meaning here.
const EINTR: i32 = 4;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;

/// What became of one block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockChange {
    /// Its number.
    pub block: u64,
    /// Name of its device in sysfs.
    pub device: String,
    /// Its node.
    pub node: u32,
    /// Its state before.
    pub from: BlockState,
    /// Its state now.
    pub to: BlockState,
    /// The zone that it was in, or is in now.
    pub zone: String,
    /// When the change began, in seconds after the first one.
    pub start_s: f64,
    /// How long it took.
    pub seconds: f64,
    /// Why it is not as it should be.
    pub error: Option<String>,
}

/// What became of all blocks, in the order in which they were changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// Name and version of this form.
    pub schema: &'static str,
    /// When it began, RFC 3339.
    pub began_at: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes online before.
    pub online_bytes_before: u64,
    /// Bytes online afterwards.
    pub online_bytes_after: u64,
    /// All changes.
    pub changes: Vec<BlockChange>,
}

impl Timeline {
    /// The blocks that are not as they should be, with the reasons, as one sentence; `None` if
    /// there are none.
    pub fn failures(&self) -> Option<String> {
        let failed: Vec<&BlockChange> = self.changes.iter().filter(|c| c.error.is_some()).collect();
        let reason = |change: &&BlockChange| {
            let error = change.error.as_deref().unwrap_or_default();
            format!(
                "block {} of node {} stays {}: {error}",
                change.block,
                change.node,
                change.to.word()
            )
        };
        let reasons: Vec<String> = failed.iter().map(reason).collect();
        (!failed.is_empty()).then(|| {
            format!(
                "{} of {} blocks could not be changed: {}",
                failed.len(),
                self.changes.len(),
                reasons.join("; ")
            )
        })
    }
}

/// Gives blocks the state `wanted`, after the states of all of their source were saved in the file
/// `saved`, unless they were saved before. `now` is the time, RFC 3339.
///
/// A block that the kernel does not let go stays as it is; the others are changed.
///
/// # Errors
/// [`BlocksError::State`], [`BlocksError::BadState`], [`BlocksError::Busy`]; nothing was changed
/// then.
pub fn change(
    files: &dyn SystemFiles,
    saved: &Path,
    (clock, now): (&dyn Clock, &str),
    all: &MemoryBlocks,
    chosen: &[MemoryBlock],
    wanted: BlockState,
) -> Result<Timeline, BlocksError> {
    let saved = StateFile::at(saved);
    let _lock = saved.lock()?;
    keep(&saved, files, now, all)?;
    let online = match wanted {
        BlockState::Online => "online_movable",
        _ => "offline",
    };
    let steps = chosen.iter().map(|block| (block.clone(), online));
    let changes = steps_in_order(files, clock, steps);
    Ok(timeline(all, now, changes))
}

pub(super) fn timeline(all: &MemoryBlocks, now: &str, changes: Vec<BlockChange>) -> Timeline {
    let before = all.online_bytes();
    let count = |from: BlockState, to: BlockState| {
        let changed = changes.iter().filter(|c| c.from == from && c.to == to);
        changed.count() as u64 * all.block_bytes
    };
    let (on, off) = (BlockState::Online, BlockState::Offline);
    Timeline {
        schema: TIMELINE,
        began_at: now.to_owned(),
        block_bytes: all.block_bytes,
        online_bytes_before: before,
        online_bytes_after: before + count(off, on) - count(on, off),
        changes,
    }
}

pub(super) fn steps_in_order(
    files: &dyn SystemFiles,
    clock: &dyn Clock,
    steps: impl Iterator<Item = (MemoryBlock, &'static str)>,
) -> Vec<BlockChange> {
    let first = clock.now();
    let mut changes = Vec::new();
    for (block, word) in steps {
        let start = clock.now();
        let written = files.write(&MemoryBlock::file(block.block, "state"), word);
        let seconds = (clock.now() - start).as_secs_f64();
        changes.push(outcome(
            files,
            block,
            word,
            written,
            (start - first).as_secs_f64(),
            seconds,
        ));
    }
    changes
}

fn outcome(
    files: &dyn SystemFiles,
    block: MemoryBlock,
    word: &str,
    written: io::Result<()>,
    start_s: f64,
    seconds: f64,
) -> BlockChange {
    let read = |name: &str| files.read(&MemoryBlock::file(block.block, name));
    let state = read("state").ok().and_then(|text| BlockState::parse(&text));
    let to = state.unwrap_or(block.state);
    let wanted = match word {
        "offline" => BlockState::Offline,
        _ => BlockState::Online,
    };
    let error = match written {
        Err(error) => Some(why(&error, &block, wanted)),
        Ok(()) if to != wanted => Some(format!("the kernel accepted it, and it is {}", to.word())),
        Ok(()) => None,
    };
    // The zone of an offline block is a list of those that it could be in.
    let zone = match to {
        BlockState::Online => read("valid_zones").unwrap_or(block.zone),
        _ => block.zone,
    };
    BlockChange {
        block: block.block,
        device: block.device,
        node: block.node,
        from: block.state,
        to,
        zone,
        start_s,
        seconds,
        error,
    }
}

fn why(error: &io::Error, block: &MemoryBlock, wanted: BlockState) -> String {
    let zone = &block.zone;
    match (error.raw_os_error(), wanted) {
        (Some(EBUSY), BlockState::Offline) if zone == "Movable" => format!(
            "EBUSY, zone {zone}: some of its pages cannot move now (pinned by a driver, or huge pages \
             without free ones elsewhere); end the programs that use them and try again"
        ),
        (Some(EBUSY), BlockState::Offline) => format!(
            "EBUSY, zone {zone}: the kernel keeps data of its own there, which do not move; only blocks that \
             came online as movable can be given back for sure (memhp_default_state=online_movable)"
        ),
        (Some(EINTR), _) => "EINTR: a signal ended the attempt; try again".to_owned(),
        (Some(EINVAL), BlockState::Online) => format!(
            "EINVAL: the kernel takes it into none of its zones ({zone}) as movable; see `dmesg`"
        ),
        _ => format!("{error}, zone {zone}; run as root, and see `dmesg`"),
    }
}
