//! `tierloom predict`: what the model says about a piece of work on machine profiles.
//!
//! The arguments become the work ([`question`]), which is solved per machine ([`answer`]) and
//! printed as text ([`render`]) or JSON ([`document`]). Nothing is measured. The subcommands
//! `tpch`, `policies` and `replay` have their own arguments and output.

mod answer;
mod args;
mod capped;
mod document;
mod placement;
mod policies;
mod question;
mod render;
mod replay;
mod tpch;

pub use args::Args;
use args::PredictCommand;

use crate::failure::Failure;
use crate::output;
use answer::Prediction;
use question::RequestedWork;
use tierloom_suite::machine;

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
    let (asked, predictions) = predicted(args)?;
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
    let (asked, predictions) = predicted(args)?;
    document::json(&asked, &predictions)
}

/// All machines are solved before anything is printed, so that a mistake in the last one leaves no
/// partial output.
fn predicted(args: &Args) -> Result<(RequestedWork, Vec<Prediction>), Failure> {
    let asked = RequestedWork::of(args)?;
    let options = args.options()?;
    let mut predictions = Vec::new();
    for name in &args.machine {
        let machine = machine::load(name)?;
        predictions.push(Prediction::make(&asked, machine, args, &options)?);
    }
    Ok((asked, predictions))
}
