//! `tierloom predict`: what the model says about a piece of work on machine profiles.
//!
//! The library `predict` answers the question, which is printed as text ([`render`]) or JSON.
//! Nothing is measured. The subcommands `tpch`, `policies` and `replay` have their own arguments
//! and output.

mod args;
mod capped;
mod cluster;
mod policies;
mod render;
mod replay;
mod tpch;

pub use args::Args;
use args::PredictCommand;

use crate::failure::Failure;
use crate::output;

/// Predicts the work on every machine and prints the results.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.workload {
        Some(PredictCommand::Tpch(args)) => return tpch::run(args),
        Some(PredictCommand::Policies(args)) => return policies::run(args),
        Some(PredictCommand::Replay(args)) => return replay::run(args),
        None => {}
    }
    if args.json {
        return output::print(&document(args)?);
    }
    let request = args.request();
    if let Some(cluster) = &request.cluster {
        return cluster::run(&request, cluster);
    }
    let (asked, predictions) = tierloom_predict::predict(&request)?;
    // The JSON document contains the notes; for tables they go to stderr.
    for note in &asked.notes {
        note!("note: {note}");
    }
    for (index, prediction) in predictions.iter().enumerate() {
        if index > 0 {
            output::print("\n")?;
        }
        output::print(&render::text(&asked, prediction, args.all))?;
    }
    Ok(())
}

/// The predictions as a JSON document.
///
/// # Errors
/// Bad input: work, placement or machine that cannot be, or a whole workload.
pub fn document(args: &Args) -> Result<String, Failure> {
    if args.workload.is_some() {
        return Err(Failure::input(
            "whole workloads have no document; give the work, a query or phases",
        ));
    }
    Ok(tierloom_predict::document(&args.request())?)
}
