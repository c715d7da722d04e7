//! Carries out a plan: loads the data, measures, models, and hands out the records.
//!
//! [`latency`] times queries one by one and models them on other machines; [`throughput`] runs
//! several streams of them at once. Both work on one [`Session`] and [`measure`] in the same way.

mod adaptive;
mod beside;
mod capacity;
mod cards;
mod clock;
mod data;
mod hosts;
mod latency;
mod measure;
mod memory;
mod operator_memory;
mod pooled;
mod price;
mod session;
mod summary;
mod throughput;

pub use crate::workload::tpc::{tpcds, tpch};
pub use beside::{Streams, with_streams};
pub use data::{Data, WorkloadData};
pub use hosts::HostWorker;

use crate::{Observer, RunError, SuitePlan};
use pooled::Pooled;
use session::Session;
use std::path::Path;
use std::time::Instant;
use tierloom_bench::run::Session as Invocation;
use tierloom_engine::EngineError;
use tierloom_pool::Pool;
use tierloom_record::{Record, atomic_write};
use tierloom_workloads::WorkloadError;

/// Writes a file, whole or not at all, and says so.
fn write_file(path: &Path, text: &str, observer: &dyn Observer) -> Result<(), RunError> {
    atomic_write(path, text.as_bytes())?;
    observer.note(&format!("wrote {}", path.display()));
    Ok(())
}

impl RunError {
    /// An error of the engine; `kept` completes the message of an interruption.
    fn of_engine(error: EngineError, kept: &str) -> Self {
        match error {
            EngineError::Interrupted | EngineError::Workload(WorkloadError::Cancelled) => {
                RunError::Interrupted(kept.into())
            }
            // The placement is part of the request.
            EngineError::Placement(error) => error.into(),
            other => other.into(),
        }
    }
}

impl From<EngineError> for RunError {
    fn from(error: EngineError) -> Self {
        RunError::Engine(Box::new(error))
    }
}

/// Takes a record as soon as it is finished.
type Sink<'a> = dyn FnMut(Record) -> Result<(), RunError> + 'a;

/// Carries out `plan`. Each record goes to `sink` as soon as it is finished. Tables of the
/// placement `pool` are in `pool`.
///
/// # Errors
/// The first failure, or an interruption. What was finished is in `sink` by then, and the summary
/// too, which says that the run is incomplete.
pub fn run(
    plan: &SuitePlan,
    invocation: &Invocation,
    pool: Option<&Pool>,
    observer: &dyn Observer,
    sink: &mut dyn FnMut(Record) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let started = Instant::now();
    let session = Session::open(plan, invocation, observer)?;
    let pooled = || Pooled::new(&session, pool);
    match plan.streams {
        Some(streams) => throughput::run(&session, pooled(), streams, started, sink),
        None => latency::run(&session, pooled(), started, sink),
    }
}
