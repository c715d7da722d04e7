//! `tierloom run`: a workload on placed memory, measured here and modelled elsewhere.
//!
//! What was typed ([`args`]) is resolved once into a plan ([`plan`]); the plan is what `--dry-run` prints, what runs ([`measure`],
//! [`price`]) and what is recorded ([`cards`], [`summary`]).

mod args;
mod check;
mod list;
mod operator_memory;
mod plan;

#[cfg(feature = "sql")]
mod cards;
#[cfg(feature = "sql")]
mod data;
#[cfg(feature = "sql")]
mod findings;
#[cfg(feature = "sql")]
mod measure;
#[cfg(feature = "sql")]
mod memory;
#[cfg(feature = "sql")]
mod price;
#[cfg(feature = "sql")]
mod render;
#[cfg(feature = "sql")]
mod results;
#[cfg(feature = "sql")]
mod ssb;
#[cfg(feature = "sql")]
mod summary;

pub use args::Args;

use crate::failure::Failure;
use crate::output;

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let args::Workload::Ssb(ssb) = &args.workload;
    let plan = plan::RunPlan::resolve(ssb)?;
    if ssb.dry_run {
        return output::print(&plan.describe());
    }
    start(&plan)
}

#[cfg(feature = "sql")]
fn start(plan: &plan::RunPlan) -> Result<(), Failure> {
    ssb::run(plan)
}

#[cfg(not(feature = "sql"))]
fn start(_plan: &plan::RunPlan) -> Result<(), Failure> {
    Err(Failure::runtime(
        "this tierloom was built without its SQL engine; build it with the default features: cargo build --release",
    ))
}
