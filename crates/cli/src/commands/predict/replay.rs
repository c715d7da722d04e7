//! `tierloom predict replay`: makes every decision of a log again from what the controller knew at
//! that time.
//!
//! A check that decisions follow from the log alone; it needs neither the machine nor the data of
//! the run.

use crate::failure::Failure;
use crate::output;
use std::path::PathBuf;
use tierloom_placement::adaptive::replay;

/// Make the decisions of a log again from the entries before each, and report differences
#[derive(clap::Args)]
pub struct Args {
    /// A decision log (tierloom-decisions/1)
    #[arg(value_name = "FILE.jsonl")]
    log: PathBuf,
}

/// Replays the log and prints the decisions that differ.
///
/// # Errors
/// Bad input: a file that cannot be read or is not a decision log. A failure: a decision that does
/// not follow from the entries before it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let file = args.log.display();
    let log = std::fs::read_to_string(&args.log)
        .map_err(|e| Failure::input(format!("cannot read {file}: {e}")))?;
    if log.trim().is_empty() {
        return Err(Failure::input(format!(
            "{file} is empty; a decision log begins with an entry \"start\""
        )));
    }
    let replayed = replay(&log).map_err(|e| Failure::input(format!("{file}: {e}")))?;
    for difference in &replayed.differing {
        output::print(&format!(
            "line {}, phase {}: {}\n",
            difference.line, difference.phase, difference.what
        ))?;
    }
    let all = replayed.decisions + replayed.differing.len();
    if replayed.differing.is_empty() {
        return output::print(&format!(
            "{file}: all {all} decisions of {} runs follow from the log\n",
            replayed.plans
        ));
    }
    // The file is a valid log, so differences are a failure (exit code 1), not bad input.
    Err(Failure::runtime(format!(
        "{file}: {} of {all} decisions do not follow from the entries before them",
        replayed.differing.len()
    )))
}
