//! `tierloom cluster` in a build without it, which reads the arguments and refuses to run.

use super::Args;
use super::args::ServedCluster;
use crate::failure::Failure;

/// Fails: this build has no clusters.
pub fn run(_args: &Args) -> Result<(), Failure> {
    Err(missing("cluster"))
}

/// Fails in the same way, for a server.
#[allow(dead_code, reason = "a build without the server does not ask")]
pub fn tables<T>(_url: &str, _args: &ServedCluster) -> Result<T, Failure> {
    Err(missing("serve,cluster"))
}

fn missing(features: &str) -> Failure {
    Failure::runtime(format!(
        "this tierloom was built without clusters; build it with: cargo build --release \
         --features {features}"
    ))
}
