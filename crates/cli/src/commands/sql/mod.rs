//! `tierloom sql`: statements from a terminal, the command line, a file or a pipe, on files loaded into placed columns.
//!
//! What was typed ([`args`]) is resolved into a plan ([`plan`]): tables, settings, where statements come from and how results are printed.
//! Statements themselves are the engine's (`tierloom_engine::sql`).

mod args;

#[cfg(feature = "sql")]
mod open;
#[cfg(feature = "sql")]
mod plan;
#[cfg(feature = "sql")]
mod script;
#[cfg(feature = "sql")]
mod shell;
#[cfg(feature = "sql")]
mod show;
#[cfg(feature = "sql")]
mod watch;

pub use args::Args;

use crate::failure::Failure;

/// Runs the command.
#[cfg(feature = "sql")]
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = plan::SqlPlan::resolve(args)?;
    quiet_workers();
    let session = open::session(&plan)?;
    match &plan.statements {
        plan::Statements::Shell => shell::run(&plan, session),
        plan::Statements::Script { text, name } => script::run(&plan, session, text, name),
    }
}

/// A panic in a worker of the engine is told once, as the error of its statement.
#[cfg(feature = "sql")]
fn quiet_workers() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        if thread.name() != Some(tierloom_engine::WORKER_NAME) {
            told(panic);
        }
    }));
}

/// Runs the command.
#[cfg(not(feature = "sql"))]
pub fn run(_args: &Args) -> Result<(), Failure> {
    Err(Failure::runtime(
        "this tierloom was built without its SQL engine; build it with the default features: cargo build --release",
    ))
}
