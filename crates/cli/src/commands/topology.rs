//! `tierloom topology`: shows nodes, tiers, caches, huge pages and CXL devices of this machine.

use crate::failure::Failure;
use crate::output;
use std::path::PathBuf;
use tierloom_text::Bytes;
use tierloom_topology::{SysRoot, Topology};

/// Show nodes, tiers, caches, huge pages and CXL devices of this machine as one tree
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON instead of a tree
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: MachineArgs,
    /// Copy the system files that were read into DIR, for a bug report or as a fixture
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
}

/// Options that select the machine, shared by all commands that read one
#[derive(clap::Args, Clone, Debug, Default)]
pub struct MachineArgs {
    /// Read system files under DIR instead of / (a recorded tree)
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Assign nodes to tiers instead of detecting them, as in "dram=0,1;cxl=2-5"
    #[arg(long, value_name = "TIERS")]
    pub tiers: Option<String>,
}

impl MachineArgs {
    /// The root that system files are read under.
    pub fn root(&self) -> SysRoot {
        self.sysroot
            .as_deref()
            .map_or_else(SysRoot::host, SysRoot::at)
    }

    /// Reads the machine.
    ///
    /// # Errors
    /// Bad input for a folder that is not a recorded tree, or tiers that do not fit the machine.
    pub fn read(&self) -> Result<Topology, Failure> {
        let mut topology = Topology::read(&self.root()).map_err(|e| {
            // A recorded tree is the user's input; the machine's own files are not.
            if self.sysroot.is_some() {
                Failure::input(e)
            } else {
                Failure::runtime(e)
            }
        })?;
        if let Some(tiers) = &self.tiers {
            topology.override_tiers(tiers).map_err(Failure::input)?;
        }
        Ok(topology)
    }
}

/// Prints the topology and, with `--record`, copies the files that it was read from.
pub fn run(args: &Args) -> Result<(), Failure> {
    let topology = args.machine.read()?;
    if let Some(into) = &args.record {
        let summary = tierloom_topology::record::record(&args.machine.root(), into, 64 << 20)
            .map_err(Failure::runtime)?;
        note!(
            "recorded {} files ({}) into {}",
            summary.files,
            Bytes(summary.size_bytes).rounded(),
            into.display()
        );
    }
    if args.json {
        output::print_json(&topology)
    } else {
        output::print(&tierloom_topology::render::tree(&topology))
    }
}
