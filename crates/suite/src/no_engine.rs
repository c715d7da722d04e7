//! What a build without the SQL engine has instead of [`run()`].

use crate::hosts::{Begin, HostResult, HostServices, HostStep, HostTask};
use crate::{Observer, PlannedPlacement, RunError, StreamsRan, StreamsWork, SuitePlan, Workload};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tierloom_bench::run::Session;
use tierloom_model::Machine;
use tierloom_pool::Pool;
use tierloom_record::{AuditRecord, Record};

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

/// What runs queries beside other work.
pub type Streams<'a> = NoStreams<'a>;

/// This build has no streams of queries.
pub struct NoStreams<'a>(Infallible, PhantomData<&'a ()>);

/// Refuses: this build cannot run queries.
///
/// # Errors
/// Always [`RunError::NoEngine`].
pub fn with_streams<T, E: From<RunError>>(
    _plan: &SuitePlan,
    _placement: &PlannedPlacement,
    _count: usize,
    _invocation: &Session,
    _observer: &dyn Observer,
    _work: impl FnOnce(&Streams<'_>) -> Result<T, E>,
) -> Result<T, E> {
    Err(RunError::NoEngine.into())
}

impl NoStreams<'_> {
    /// Cannot be called: there are no streams.
    ///
    /// # Errors
    /// None.
    pub fn run(&self, _: Duration) -> Result<StreamsRan, RunError> {
        match self.0 {}
    }

    /// Cannot be called: there are no streams.
    ///
    /// # Errors
    /// None.
    pub fn audit(&self) -> Result<Option<AuditRecord>, RunError> {
        match self.0 {}
    }

    /// Cannot be called: there are no streams.
    ///
    /// # Errors
    /// None.
    pub fn work_on(&self, _: &Machine, _: &PlannedPlacement) -> Result<StreamsWork, RunError> {
        match self.0 {}
    }
}
