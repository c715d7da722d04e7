//! `--restart` in a build without the SQL engine.

use super::Restarts;
use crate::failure::Failure;

/// Fails: this build runs no queries.
pub(super) fn run(restarts: &Restarts<'_>) -> Result<(), Failure> {
    // What is wrong with the request is said first.
    let queries = restarts.workload.queries(restarts.queries)?.len();
    let what = if restarts.options.dry_run {
        "plan"
    } else {
        "measure"
    };
    let (rounds, pool) = (restarts.rounds, restarts.pool.display());
    Err(without_engine(&format!(
        "cannot {what} {rounds} starts with {queries} queries on {pool}: "
    )))
}

/// Fails: this build runs no queries.
pub fn run_child() -> Result<(), Failure> {
    Err(without_engine(""))
}

fn without_engine(what: &str) -> Failure {
    Failure::runtime(format!(
        "{what}this tierloom was built without its SQL engine; build it with the default features: cargo build --release"
    ))
}
