//! `tierloom predict`.

mod answer;
mod args;
mod capped;
mod document;
mod placement;
mod question;
mod render;
mod replay;
mod tpch;

pub use args::Args;
use args::Workload;

use crate::failure::Failure;
use crate::{machine, output};
use answer::Prediction;
use question::Asked;

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.workload {
        Some(Workload::Tpch(args)) => return tpch::run(args),
        Some(Workload::Replay(args)) => return replay::run(args),
        None => {}
    }
    let asked = Asked::of(args)?;
    let options = args.options()?;
    let mut predictions = Vec::new();
    // All machines before the first line of output: a mistake in the last one leaves nothing half printed.
    for name in &args.machine {
        let machine = machine::load(name)?;
        predictions.push(Prediction::make(&asked, machine, args, &options)?);
    }
    if args.json {
        return output::print(&document::json(&asked, &predictions)?);
    }
    for note in &asked.notes {
        eprintln!("note: {note}");
    }
    for (index, prediction) in predictions.iter().enumerate() {
        if index > 0 {
            output::print("\n")?;
        }
        output::print(&render::text(&asked, prediction, args.all))?;
    }
    Ok(())
}
