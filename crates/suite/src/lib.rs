//! `tierloom run` as a library: runs a benchmark's queries on placed memory, measured on this
//! machine and modelled on others.
//!
//! ```text
//!  SuiteRequest ---> SuitePlan ---> run::run ---> records
//!  (texts as typed)  (checked)        |
//!                                     +-- latency, or throughput with streams
//! ```
//!
//! [`SuitePlan::resolve`] finds everything that can be wrong in a request before a page is touched.
//! The plan is what `--dry-run` prints, what [`run`](run()) carries out and what the records
//! describe. Records go to the caller one by one as they are finished; an [`Observer`] sees the
//! progress and can stop the run.
//!
//! On several hosts at once, each resolves and carries out its own plan: [`hosts`] has what they
//! are asked and answer, a [`HostWorker`] does it.
//!
//! A [`Workload`] knows its queries, its data and their right answers; nothing else depends on
//! which one it is. Without the feature `sql` a plan can be made but not carried out.

mod adaptive;
mod beside;
mod check;
mod error;
pub mod growth;
pub mod hosts;
pub mod machine;
mod model_scale;
mod observer;
mod operator_memory;
mod plan;
mod request;
pub mod workload;

#[cfg(feature = "sql")]
mod run;
#[cfg(not(feature = "sql"))]
#[path = "no_engine.rs"]
mod run;

pub use adaptive::Adaptive;
pub use beside::{StreamsRan, StreamsWork};
pub use error::{ErrorKind, RunError};
pub use observer::{Event, Observer, Stage};
pub use operator_memory::OperatorMemory;
pub use plan::SuitePlan;
pub use request::{PlannedPlacement, Resize, StreamPlan, SuiteRequest};
pub use run::{HostWorker, Streams, run, with_streams};
pub use workload::{SuiteQuery, Workload};
