//! What needs SQL sessions and not one run of the suite: how soon a process answers, and where
//! temporary tables are.

mod answers;
mod output;
mod restart;
mod temps;

pub use restart::run_child;

use super::{Restarts, Temps};
use crate::failure::Failure;

/// Measures starts of processes, prints and writes their records.
///
/// # Errors
/// Bad input, a child that fails, or answers that differ.
pub(super) fn restarts(restarts: &Restarts<'_>) -> Result<(), Failure> {
    restart::run(restarts)
}

/// Measures scripts with temporary tables, prints and writes their records.
///
/// # Errors
/// Bad input, a script that fails, or answers that differ.
pub(super) fn temps(temps: &Temps<'_>) -> Result<(), Failure> {
    temps::run(temps)
}
