//! `tierloom`: measures, models and places in-memory analytics on DRAM and CXL memory.
//!
//! Data goes to stdout, progress and messages to stderr. Exit codes: 0 success, 1 failure while
//! running, 2 bad input, 130 interrupted.

// Without SQL some documented commands do not exist.
#[cfg(all(test, feature = "sql"))]
mod documented;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
use tierloom::{commands, failure, stop};
// With the allocator of the program.
use tierloom_allocator as _;

/// Measures, models and places in-memory analytics on DRAM and CXL memory.
#[derive(Parser)]
#[command(version, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Topology(commands::topology::Args),
    Doctor(commands::doctor::Args),
    Bench(Box<commands::bench::Args>),
    Characterize(commands::characterize::Args),
    Run(Box<commands::run::Args>),
    Sql(Box<commands::sql::Args>),
    Serve(Box<commands::serve::Args>),
    Cluster(commands::cluster::Args),
    Top(commands::top::Args),
    Pool(commands::pool::Args),
    Predict(commands::predict::Args),
    Tune(commands::tune::Args),
    Cost(commands::cost::Args),
    Calibrate(commands::calibrate::Args),
    Validate(commands::validate::Args),
    Report(commands::report::Args),
    Generate(commands::generate::Args),
    Machines(commands::machines::Args),
    Lab(commands::lab::Args),
    Completions(commands::manual::CompletionsArgs),
    Manual(commands::manual::ManualArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => match negative_value(&error) {
            Some(problem) => return failure::Failure::input(problem).report(),
            None => error.exit(),
        },
    };
    stop::install();
    let done = match cli.command {
        Command::Topology(args) => commands::topology::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Characterize(args) => commands::characterize::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Sql(args) => commands::sql::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Cluster(args) => commands::cluster::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Pool(args) => commands::pool::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Tune(args) => commands::tune::run(&args),
        Command::Cost(args) => commands::cost::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Validate(args) => commands::validate::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
        Command::Machines(args) => commands::machines::run(&args),
        Command::Lab(args) => commands::lab::run(&args),
        Command::Completions(args) => commands::manual::completions(&args, Cli::command()),
        Command::Manual(args) => commands::manual::manual(&args, Cli::command()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The message for a value such as `-1` that clap took for an unknown option.
///
/// `None` for every other error, which clap reports itself.
fn negative_value(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(taken)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    // An unknown option that does not look like a number is an ordinary typing error.
    if !taken[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let typed: Vec<String> = std::env::args().collect();
    let at = typed
        .iter()
        .position(|arg| arg.starts_with(taken.as_str()))?;
    let (before, value) = (&typed[at - 1], &typed[at]);
    // Only after an option could the number have been its value; elsewhere no value is expected.
    Some(if before.starts_with("--") {
        format!(
            "{before} {value}: a value that begins with - is taken for an option; write \
             {before}={value}"
        )
    } else {
        format!("{value}: no option is named so, and no value is expected here")
    })
}
