//! `tierloom doctor`: reports what this machine supports.

use super::topology::MachineArgs;
use crate::failure::Failure;
use crate::output;
use tierloom_memory::probe::LinuxProbes;
use tierloom_topology::doctor::examine;

/// Check what this machine can do and what it cannot, with the reason and the command that fixes it
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Examines the machine and prints the result.
pub fn run(args: &Args) -> Result<(), Failure> {
    let topology = args.machine.read()?;
    let abilities = examine(&topology, &args.machine.root(), &LinuxProbes);
    if args.json {
        output::print_json(&abilities)
    } else {
        output::print(&tierloom_topology::render::doctor_table(&abilities))
    }
}
