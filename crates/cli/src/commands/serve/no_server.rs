//! `tierloom serve` in a build without the server, which reads the arguments and refuses to run.

use super::Args;
use crate::failure::Failure;

/// Fails: this build has no server.
pub fn run(_args: &Args) -> Result<(), Failure> {
    Err(Failure::runtime(
        "this tierloom was built without its server; build it with: cargo build --release --features serve",
    ))
}
