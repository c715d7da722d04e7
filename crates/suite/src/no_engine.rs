//! What a build without the SQL engine has instead of [`run()`].

use crate::hosts::{Begin, HostResult, HostServices, HostStep, HostTask};
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

/// What carries out the steps of a [`HostTask`].
pub type HostWorker = NoWorker;

/// This build has no worker.
pub enum NoWorker {}

impl NoWorker {
    /// Refuses: this build cannot run queries.
    ///
    /// # Errors
    /// Bad input, else always [`RunError::NoEngine`].
    pub fn start(task: HostTask, services: HostServices) -> Result<Self, RunError> {
        task.resolve(services.topology)?;
        Err(RunError::NoEngine)
    }

    /// Cannot be called: there is no worker.
    ///
    /// # Errors
    /// None.
    pub fn prepare(&self, _: HostStep, _: &dyn Fn() -> bool) -> Result<(), RunError> {
        match *self {}
    }

    /// Cannot be called: there is no worker.
    ///
    /// # Errors
    /// None.
    pub fn run(&self, _: Begin, _: &dyn Fn() -> bool) -> Result<HostResult, RunError> {
        match *self {}
    }
}
