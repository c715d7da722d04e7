//! What a build without the SQL engine has instead of [`run()`].

use crate::{Observer, RunError, SuitePlan, Workload};
use std::path::PathBuf;
use std::sync::Arc;
use tierloom_bench::run::Session;
use tierloom_pool::Pool;
use tierloom_record::Record;

/// What every workload has: data is neither loaded nor checked.
pub use std::fmt::Debug as WorkloadData;

/// Refuses: this build cannot carry out plans.
///
/// # Errors
/// Always [`RunError::NoEngine`].
pub fn run(
    _plan: &SuitePlan,
    _invocation: &Session,
    _pool: Option<&Pool>,
    _observer: &dyn Observer,
    _sink: &mut dyn FnMut(Record) -> Result<(), RunError>,
) -> Result<(), RunError> {
    // The plan is valid; that this build cannot carry it out is not bad input.
    Err(RunError::NoEngine)
}

/// Refuses: TPC-H needs the SQL engine.
///
/// # Errors
/// Always [`RunError::NoEngine`].
pub fn tpch(_sf: f64, _answers: Option<PathBuf>) -> Result<Arc<dyn Workload>, RunError> {
    Err(RunError::NoEngine)
}

/// Refuses: TPC-DS needs the SQL engine.
///
/// # Errors
/// Always [`RunError::NoEngine`].
pub fn tpcds(_sf: f64, _answers: Option<PathBuf>) -> Result<Arc<dyn Workload>, RunError> {
    Err(RunError::NoEngine)
}
