//! `--restart` and `--temps` in a build without the SQL engine.

use super::{Restarts, Temps};
use crate::failure::Failure;

/// Fails: this build runs no queries.
pub(super) fn restarts(restarts: &Restarts<'_>) -> Result<(), Failure> {
    // What is wrong with the request is said first.
    let queries = restarts.workload.queries(restarts.queries)?.len();
    let (rounds, pool) = (restarts.rounds, restarts.pool.display());
    Err(without_engine(&format!(
        "cannot {} {rounds} starts with {queries} queries on {pool}: ",
        verb(restarts.options.dry_run)
    )))
}

/// Fails: this build runs no queries.
pub(super) fn temps(temps: &Temps<'_>) -> Result<(), Failure> {
    let queries = temps.workload.queries(temps.queries)?.len();
    Err(without_engine(&format!(
        "cannot {} scripts of {queries} queries at {} places: ",
        verb(temps.options.dry_run),
        temps.places.len()
    )))
}

/// Fails: this build runs no queries.
pub fn run_child() -> Result<(), Failure> {
    Err(without_engine(""))
}

fn verb(dry_run: bool) -> &'static str {
    match dry_run {
        true => "plan",
        false => "measure",
    }
}

fn without_engine(what: &str) -> Failure {
    Failure::runtime(format!(
        "{what}this tierloom was built without its SQL engine; build it with the default features: cargo build --release"
    ))
}
