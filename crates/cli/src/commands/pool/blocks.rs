//! `tierloom pool blocks`: memory blocks of CXL regions, online and offline.

use crate::failure::Failure;
use crate::output;
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::SystemTime;
use tierloom_memory::SystemClock;
use tierloom_pool::blocks::{
    self, BlockChange, BlockSource, BlockState, BlocksError, MemoryBlock, MemoryBlocks, Pick,
    RestoredBlocks, STATES_FILE, Timeline,
};
use tierloom_text::Bytes;
use tierloom_topology::{IdSet, SysRoot};
use tierloom_tune::apply::usual_state_file;

/// Use more or less of a CXL region as memory of its node, by the kernel's memory blocks
///
/// Programs go on meanwhile: what is in a block that goes offline moves to other memory. Memory
/// that the machine was started with is never changed.
#[derive(Args)]
pub struct BlocksArgs {
    #[command(subcommand)]
    command: BlocksCommand,
}

#[derive(Subcommand)]
enum BlocksCommand {
    Status(BlocksStatusArgs),
    /// Take blocks into use as memory of their node, movable so that they can go again
    ///
    /// The states of all blocks are saved first; `restore` brings them back. The time line shows
    /// when each block changed and how long it took. Those that cannot change are named with the
    /// reason, and the exit code is 1.
    Online(BlocksChangeArgs),
    /// Let blocks go; what is in them moves to other memory while programs go on
    ///
    /// The states of all blocks are saved first; `restore` brings them back. The time line shows
    /// when each block changed and how long it took. Those that cannot go are named with the
    /// reason, the others go, and the exit code is 1. The kernel tries for as long as pages are
    /// busy: Ctrl-C ends that.
    Offline(BlocksChangeArgs),
    Restore(BlocksRestoreArgs),
}

/// Where system files and saved states are
#[derive(Args)]
struct BlocksPlaceArgs {
    /// File that the states are saved in before the first change
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Read and write system files under DIR instead of / (a recorded tree)
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Show the memory blocks of a node or device, with their zones
#[derive(Args)]
struct BlocksStatusArgs {
    /// A node whose memory is that of CXL regions, as in 1, or a DAX device, as in dax0.0
    #[arg(value_name = "NODE|DEVICE")]
    source: BlockSource,
    #[command(flatten)]
    place: BlocksPlaceArgs,
}

/// Which blocks change, and how that is reported
#[derive(Args)]
struct BlocksChangeArgs {
    /// A node whose memory is that of CXL regions, as in 1, or a DAX device, as in dax0.0
    #[arg(value_name = "NODE|DEVICE")]
    source: BlockSource,
    /// Change so many bytes, rounded up to blocks: the lowest go online first, the highest offline;
    /// default: all
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Change these blocks, as in 162-165
    #[arg(long, value_name = "LIST", conflicts_with = "size")]
    blocks: Option<IdSet>,
    /// Check and print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: BlocksPlaceArgs,
}

/// Give all blocks the states that they had before the first change
#[derive(Args)]
struct BlocksRestoreArgs {
    /// Print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: BlocksPlaceArgs,
}

impl BlocksPlaceArgs {
    fn root(&self) -> SysRoot {
        let given = self.sysroot.as_deref();
        given.map_or_else(SysRoot::host, SysRoot::at)
    }

    fn state(&self) -> PathBuf {
        let root = self.root();
        let usual = || usual_state_file(&root, root.is_host(), |name| std::env::var(name).ok());
        let usual = || usual().beside(STATES_FILE).path().to_owned();
        self.state.clone().unwrap_or_else(usual)
    }
}

impl From<BlocksError> for Failure {
    fn from(error: BlocksError) -> Self {
        match error.is_bad_input() {
            true => Failure::input(error),
            false => Failure::runtime(error),
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &BlocksArgs) -> Result<(), Failure> {
    match &args.command {
        BlocksCommand::Status(args) => status(args),
        BlocksCommand::Online(args) => change(args, BlockState::Online),
        BlocksCommand::Offline(args) => change(args, BlockState::Offline),
        BlocksCommand::Restore(args) => restore(args),
    }
}

fn status(args: &BlocksStatusArgs) -> Result<(), Failure> {
    let all = MemoryBlocks::read(&args.place.root(), &args.source)?;
    if args.place.json {
        return output::print_json(&all);
    }
    let size = Bytes(all.block_bytes);
    let mut text = format!(
        "{} online, in blocks of {size}\n",
        Bytes(all.online_bytes())
    );
    for block in &all.blocks {
        line(&mut text, block, block.state.word());
    }
    output::print(&text)
}

fn change(args: &BlocksChangeArgs, wanted: BlockState) -> Result<(), Failure> {
    let (root, state) = (args.place.root(), args.place.state());
    let all = MemoryBlocks::read(&root, &args.source)?;
    let pick = match (&args.blocks, args.size) {
        (Some(numbers), _) => Pick::Numbers(numbers.clone()),
        (None, Some(size)) => Pick::Bytes(size.0),
        (None, None) => Pick::All,
    };
    let chosen = blocks::choose(&root, &all, &pick, wanted)?;
    if args.dry_run {
        let steps: Vec<(MemoryBlock, &str)> = chosen
            .into_iter()
            .map(|block| (block, wanted.word()))
            .collect();
        return say(&args.place, &steps);
    }
    let clock = SystemClock::new();
    let timeline = blocks::change(&root, &state, (&clock, &now()), &all, &chosen, wanted)?;
    report(&args.place, &timeline)
}

fn restore(args: &BlocksRestoreArgs) -> Result<(), Failure> {
    let (root, state) = (args.place.root(), args.place.state());
    let clock = SystemClock::new();
    let path = state.display();
    match blocks::restore(&root, &state, (&clock, &now()), !args.dry_run)? {
        RestoredBlocks::Nothing => output::print(&format!(
            "nothing to restore: no states are saved in {path}\n"
        )),
        RestoredBlocks::Rebooted => output::print(&format!(
            "nothing to restore: the machine was booted since the states in {path} were saved\n"
        )),
        RestoredBlocks::Back {
            steps,
            gone,
            timeline,
            ..
        } => {
            for block in gone {
                note!("block {block} is no longer there");
            }
            match timeline {
                Some(timeline) => report(&args.place, &timeline),
                None => say(&args.place, &steps),
            }
        }
    }
}

/// Prints what would be done.
fn say(place: &BlocksPlaceArgs, steps: &[(MemoryBlock, &str)]) -> Result<(), Failure> {
    if place.json {
        let blocks: Vec<&MemoryBlock> = steps.iter().map(|(block, _)| block).collect();
        return output::print_json(&blocks);
    }
    let mut text = format!("would change {} blocks\n", steps.len());
    for (block, word) in steps {
        line(
            &mut text,
            block,
            &format!("{} -> {word}", block.state.word()),
        );
    }
    output::print(&text)
}

/// Prints what was done. Blocks that are not as they should be are the error.
fn report(place: &BlocksPlaceArgs, timeline: &Timeline) -> Result<(), Failure> {
    if place.json {
        output::print_json(timeline)?;
    } else {
        let mut text = format!(
            "{} online, {} before\n",
            Bytes(timeline.online_bytes_after),
            Bytes(timeline.online_bytes_before)
        );
        for change in &timeline.changes {
            let BlockChange { block, node, .. } = change;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "block {block} of node {node}: {} -> {} in {:.3} s, at {:.3} s, zone {}",
                change.from.word(),
                change.to.word(),
                change.seconds,
                change.start_s,
                change.zone
            );
        }
        output::print(&text)?;
    }
    timeline
        .failures()
        .map_or(Ok(()), |failures| Err(Failure::runtime(failures)))
}

fn line(text: &mut String, block: &MemoryBlock, state: &str) {
    let MemoryBlock {
        block,
        device,
        node,
        zone,
        ..
    } = block;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "block {block} of node {node} ({device}): {state}, zone {zone}"
    );
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
