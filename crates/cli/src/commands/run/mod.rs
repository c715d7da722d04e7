//! `tierloom run`: runs a workload on placed memory, measured on this machine and modelled on
//! others.
//!
//! [`args`] is the command line as clap parses it; [`plan`] resolves and checks it once. The plan
//! is what `--dry-run` prints, what is executed ([`measure`], [`price`]) and what the records
//! describe ([`cards`], [`summary`]). Without the `sql` feature a plan can be printed but not
//! executed.

mod adaptive;
mod args;
mod check;
mod operator_memory;
mod plan;
mod workload;

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
mod streams;
#[cfg(feature = "sql")]
mod summary;
#[cfg(feature = "sql")]
mod tpc;

pub use args::Args;

use crate::failure::Failure;
use crate::output;
use tierloom_workloads::ssb::SsbConfig;

/// Resolves the plan, then prints it (`--dry-run`) or executes it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (plan, dry_run) = match &args.workload {
        args::Workload::Ssb(ssb) => {
            let config = SsbConfig::new(ssb.sf, ssb.seed).map_err(Failure::input)?;
            let workload = workload::Workload::Ssb(config);
            let plan = plan::RunPlan::resolve(workload, &ssb.queries, None, &ssb.options)?;
            (plan, ssb.options.dry_run)
        }
        #[cfg(feature = "sql")]
        args::Workload::Tpch(args) => (
            tpc::plan(tierloom_tpc::Benchmark::TpcH, args)?,
            args.options.dry_run,
        ),
        #[cfg(feature = "sql")]
        args::Workload::Tpcds(args) => (
            tpc::plan(tierloom_tpc::Benchmark::TpcDs, args)?,
            args.options.dry_run,
        ),
    };
    if dry_run {
        return output::print(&plan.describe());
    }
    start(&plan)
}

#[cfg(feature = "sql")]
fn start(plan: &plan::RunPlan) -> Result<(), Failure> {
    match plan.streams {
        Some(streams) => streams::run(plan, streams),
        None => ssb::run(plan),
    }
}

#[cfg(not(feature = "sql"))]
fn start(_plan: &plan::RunPlan) -> Result<(), Failure> {
    // The arguments are valid; this build cannot execute them. That is not bad input (exit code 2).
    Err(Failure::runtime(
        "this tierloom was built without its SQL engine; build it with the default features: cargo build --release",
    ))
}
