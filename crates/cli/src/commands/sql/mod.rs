//! `tierloom sql`: runs statements from a terminal, the command line, a file or a pipe on files
//! loaded into placed columns.
//!
//! The arguments ([`args`]) are resolved into a plan ([`plan`]): tables, settings, where statements
//! come from and how results are printed. Parsing and executing statements is the part of the crate
//! `tierloom_sql`.

mod args;
pub mod files;
pub mod open;
pub mod plan;
mod script;
mod shell;
mod show;
pub mod watch;

pub use args::{Args, CsvArgs, SessionArgs, TablesArgs};

use crate::failure::Failure;

/// Loads the tables, then runs the shell or the given statements.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = plan::SqlPlan::resolve(args)?;
    quiet_workers();
    let session = open::session(&plan.session)?;
    match &plan.statements {
        plan::Statements::Shell => shell::run(&plan, session),
        plan::Statements::Script { text, name } => script::run(&plan, session, text, name),
    }
}

/// Silences the panic message of engine workers: the panic is already reported as the error of its
/// statement.
pub fn quiet_workers() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        if thread.name() != Some(tierloom_engine::WORKER_NAME) {
            hook(panic);
        }
    }));
}
