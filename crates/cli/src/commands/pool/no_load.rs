//! `tierloom pool load` in a build without the SQL engine.

use super::args::LoadArgs;
use crate::failure::Failure;

/// Fails: this build cannot read files as tables.
pub fn run(_args: &LoadArgs) -> Result<(), Failure> {
    Err(Failure::runtime(
        "this tierloom was built without its SQL engine, which loads files; build it with the default features: cargo build --release",
    ))
}
