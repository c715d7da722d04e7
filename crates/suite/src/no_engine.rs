//! What a build without the SQL engine has instead of [`run()`].

use crate::workload::Workload;
use crate::{Observer, SuiteError, SuitePlan};
use std::path::PathBuf;
use std::sync::Arc;
use tierloom_bench::run::Session;
use tierloom_record::Record;

/// Refuses: this build cannot carry out plans.
///
/// # Errors
/// Always [`SuiteError::NoEngine`].
pub fn run(
    _plan: &SuitePlan,
    _invocation: &Session,
    _observer: &dyn Observer,
    _sink: &mut dyn FnMut(Record) -> Result<(), SuiteError>,
) -> Result<(), SuiteError> {
    // The plan is valid; that this build cannot carry it out is not bad input.
    Err(SuiteError::NoEngine)
}

/// Refuses: TPC-H needs the SQL engine.
///
/// # Errors
/// Always [`SuiteError::NoEngine`].
pub fn tpch(_sf: f64, _answers: Option<PathBuf>) -> Result<Arc<dyn Workload>, SuiteError> {
    Err(SuiteError::NoEngine)
}

/// Refuses: TPC-DS needs the SQL engine.
///
/// # Errors
/// Always [`SuiteError::NoEngine`].
pub fn tpcds(_sf: f64, _answers: Option<PathBuf>) -> Result<Arc<dyn Workload>, SuiteError> {
    Err(SuiteError::NoEngine)
}
