//! What can go wrong in the engine.

/// Errors of loading, planning and running queries.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A table cannot be built.
    #[error("table {table} {problem}")]
    Table {
        /// The table.
        table: String,
        /// What is wrong.
        problem: String,
    },
    /// Memory could not be had or placed.
    #[error(transparent)]
    Memory(#[from] tierloom_memory::MemoryError),
    /// A placement does not fit the machine.
    #[error(transparent)]
    Placement(#[from] tierloom_memory::PlacementError),
    /// A policy cannot be had on a machine.
    #[error(transparent)]
    Policy(#[from] tierloom_placement::PolicyError),
    /// The model cannot price a placement.
    #[error(transparent)]
    Adapt(#[from] tierloom_placement::AdaptError),
    /// The data could not be made.
    #[error(transparent)]
    Workload(#[from] tierloom_workloads::WorkloadError),
    /// DataFusion refused a statement or failed while running it.
    #[error("{context}: {source}")]
    DataFusion {
        /// The statement or step.
        context: String,
        /// DataFusion's error.
        source: Box<datafusion::error::DataFusionError>,
    },
    /// Arrow refused an array.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    /// The runtime could not be started.
    #[error("cannot start {threads} worker threads: {source}")]
    Runtime {
        /// Threads asked for.
        threads: usize,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
}

impl EngineError {
    /// Wraps a DataFusion error with what was attempted.
    pub fn datafusion(
        context: impl Into<String>,
    ) -> impl FnOnce(datafusion::error::DataFusionError) -> EngineError {
        let context = context.into();
        move |source| EngineError::DataFusion {
            context,
            source: Box::new(source),
        }
    }
}
