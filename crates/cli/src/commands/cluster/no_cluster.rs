//! `tierloom cluster` in a build without it, which reads the arguments and refuses to run.

use super::Args;
use crate::failure::Failure;

/// Fails: this build has no clusters.
pub fn run(_args: &Args) -> Result<(), Failure> {
    Err(Failure::runtime(
        "this tierloom was built without clusters; build it with: cargo build --release --features cluster",
    ))
}
