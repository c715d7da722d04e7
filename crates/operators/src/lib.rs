//! Database operators as workloads on placed memory.
//!
//! ```text
//!   Operator: parameters ── structures: names and sizes ──> the caller places a region for each
//!       │                                                       │
//!       └── fill(regions, seed) ──> Filled: what it must give   │
//!                                     └── job(regions, workers) ┴──> Job: phases, run by workers
//!   after the passes: Job::result of each pass, Filled::check of what is left in the regions
//! ```
//!
//! The operators and sizes are those of the publications on CXL memory (`docs/bench-files.md` names
//! them). Each has a tuned form, with the field's best technique, and a plain one to compare with.
//! The crate knows nothing about nodes, threads or clocks: the caller binds threads, runs
//! [`Job::run`] for each worker and phase with a barrier between phases, and takes the times.
//!
//! ```
//! use tierloom_operators::{Form, Operator, RadixPartition};
//!
//! let operator = Operator::RadixPartition(RadixPartition {
//!     tuples: 10_000,
//!     fanout: 64,
//!     form: Form::Plain,
//!     ..RadixPartition::default()
//! });
//! operator.check()?;
//! let mut memory: Vec<Vec<u8>> = operator
//!     .structures(1)
//!     .iter()
//!     .map(|structure| vec![0; structure.size_bytes as usize + 63])
//!     .collect();
//! // Structures begin at cache lines, as regions do.
//! let mut slices: Vec<&mut [u8]> = memory
//!     .iter_mut()
//!     .map(|bytes| {
//!         let start = bytes.as_ptr().align_offset(64);
//!         &mut bytes[start..]
//!     })
//!     .collect();
//! let filled = operator.fill(&mut slices, 1, 7);
//! let job = filled.job(slices, 1);
//! for phase in 0..job.phases().len() {
//!     job.run(phase, 0, &|| false);
//! }
//! assert!(job.result().is_ok());
//! # Ok::<(), tierloom_operators::ParameterError>(())
//! ```

mod aggregate;
mod btree;
mod data;
mod join;
mod partition;
mod scan;
mod selective;
mod share;
mod spec;

pub use aggregate::{Aggregation, GroupTables};
pub use btree::BTree;
pub use join::index::IndexJoin;
pub use join::radix::RadixJoin;
pub use join::shared::HashJoin;
pub use partition::RadixPartition;
pub use scan::ColumnScan;
pub use selective::SelectiveRead;
pub use spec::{Form, Operator, ParameterError, PhaseInfo, Structure, Traffic};

/// An operator whose input is in place, and what that input must give.
pub trait Filled: Send + Sync + std::fmt::Debug {
    /// The operator on these structures, in the order of [`Operator::structures`], for `workers`
    /// workers.
    ///
    /// # Panics
    /// If the number of structures is not that of the operator, or one is too small.
    fn job<'a>(&self, structures: Vec<&'a mut [u8]>, workers: usize) -> Box<dyn Job + 'a>;

    /// Checks what the last complete pass left in the structures; says what was checked, or what
    /// is wrong.
    ///
    /// # Errors
    /// What is wrong with the data.
    fn check(&self, structures: &[&[u8]], workers: usize) -> Result<String, String>;
}

/// An operator at work: phases, which all workers run one after the other.
pub trait Job: Send + Sync {
    /// The phases of a pass, in order.
    fn phases(&self) -> Vec<PhaseInfo>;

    /// Does the part of `worker` in phase `phase`.
    ///
    /// All workers must have returned from a phase before any begins the next one. Where `stop`
    /// says true, the worker returns early, and the pass has no result.
    fn run(&self, phase: usize, worker: usize, stop: &dyn Fn() -> bool);

    /// As [`Job::run`], and has some of the operations timed by themselves if it has any.
    fn run_watched(
        &self,
        phase: usize,
        worker: usize,
        stop: &dyn Fn() -> bool,
        _watch: &mut dyn Watch,
    ) {
        self.run(phase, worker, stop);
    }

    /// Events of the last pass by name, after all workers are done with it; none for most.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Whether the pass gave what the input must give, after all workers are done with it.
    ///
    /// # Errors
    /// What was found and what was expected.
    fn result(&self) -> Result<(), String>;
}

/// What times single operations.
pub trait Watch {
    /// An operation begins now.
    fn begin(&mut self);

    /// The operation has ended.
    fn end(&mut self);
}
