//! `tierloom sql` in a build without the SQL engine, which reads the arguments and refuses to run.

#[allow(dead_code, reason = "only the SQL engine reads them")]
mod args;

pub use args::{Args, CsvArgs, SessionArgs, TablesArgs};

use crate::failure::Failure;

/// Fails: this build has no SQL engine.
pub fn run(_args: &Args) -> Result<(), Failure> {
    Err(Failure::runtime(
        "this tierloom was built without its SQL engine; build it with the default features: cargo build --release",
    ))
}
