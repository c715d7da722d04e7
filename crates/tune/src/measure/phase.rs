//! A phase, and what runs in its place in a measurement.

use tierloom_kernels::access::Access;
use tierloom_model::reference::work::Work;
use tierloom_operators::Operator;

use super::queries::QueryRuns;

/// A phase with what represents it in a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelPhase {
    /// The phase as it was asked for, with its parameters.
    pub name: String,
    /// Description for users of what runs.
    pub what: String,
    /// Work that the model computes: what runs, at the sizes that it runs with.
    pub work: Work,
    /// What runs.
    pub runs: Runs,
}

/// What runs in place of a phase.
#[derive(Debug, Clone, PartialEq)]
pub enum Runs {
    /// An access loop over one region.
    Access(Access),
    /// Dependent loads in one region.
    Chase,
    /// An operator, whose structures all get the weights.
    Operator {
        /// The operator with its sizes.
        operator: Operator,
        /// The phase of it that is timed; `None` for all that is counted.
        phase: Option<&'static str>,
    },
    /// Queries of a benchmark, on an engine that this crate does not have.
    Queries(QueryRuns),
}
