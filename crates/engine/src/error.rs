//! Errors of the engine.
//!
//! Texts are for users: what failed, on what, and where possible the next step. Errors of SQL
//! statements are derived from these in the crate `sql`.

/// Errors of loading, planning and running queries.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A table cannot be built or loaded.
    #[error("table {table} {problem}")]
    Table {
        /// Name of the table.
        table: String,
        /// The problem, as the predicate of a sentence about the table.
        problem: String,
    },
    /// Memory could not be allocated or placed.
    #[error(transparent)]
    Memory(#[from] tierloom_memory::MemoryError),
    /// A pool cannot be read or written, or bytes of a table in it are damaged.
    #[error(transparent)]
    Pool(#[from] tierloom_pool::PoolError),
    /// A placement does not fit the machine.
    #[error(transparent)]
    Placement(#[from] tierloom_memory::PlacementError),
    /// The machine cannot follow a policy.
    #[error(transparent)]
    Policy(#[from] tierloom_placement::PolicyError),
    /// The model cannot price a placement.
    #[error(transparent)]
    Adapt(#[from] tierloom_placement::AdaptError),
    /// Benchmark data could not be generated, or generation was cancelled.
    #[error(transparent)]
    Workload(#[from] tierloom_workloads::WorkloadError),
    /// TPC-H or TPC-DS data could not be generated.
    #[error(transparent)]
    Tpc(#[from] tierloom_tpc::TpcError),
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Export {
        /// Path of the file.
        path: String,
        /// The underlying error of the operating system or the file format.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// DataFusion rejected a statement or failed while running it.
    #[error("{context}: {source}")]
    DataFusion {
        /// The statement or step that failed.
        context: String,
        /// The underlying error of DataFusion.
        source: Box<datafusion::error::DataFusionError>,
    },
    /// Arrow rejected an array.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    /// The runtime could not be started.
    #[error("cannot start {threads} worker threads: {source}")]
    Runtime {
        /// Number of threads requested.
        threads: usize,
        /// The underlying error of the operating system.
        source: std::io::Error,
    },
    /// Adaptive placement is impossible as requested.
    #[error("adaptive placement: {problem}")]
    Adaptive {
        /// The problem and the remedy.
        problem: String,
    },
    /// Operator memory cannot be routed as requested.
    #[error("operator memory: {problem}")]
    Routing {
        /// The problem and the remedy.
        problem: String,
    },
    /// An operator or function panicked. Its query failed; the session is still usable.
    #[error(
        "{context}: the engine broke down over this statement ({message}); others can go on, but \
         please report this one"
    )]
    Panicked {
        /// The statement or step that panicked.
        context: String,
        /// The message of the panic.
        message: String,
    },
    /// The user cancelled the run.
    #[error("interrupted")]
    Interrupted,
}

impl EngineError {
    /// Wraps the reason why the file `path` could not be written.
    pub fn export(
        path: &std::path::Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> EngineError {
        EngineError::Export {
            path: path.display().to_string(),
            source: source.into(),
        }
    }

    /// Wraps a panic during `context`.
    pub fn panicked(context: &str, panic: &(dyn std::any::Any + Send)) -> EngineError {
        EngineError::Panicked {
            context: context.to_owned(),
            message: crate::breakdown::said(panic).to_owned(),
        }
    }

    /// Returns a function that wraps a DataFusion error with what was attempted.
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
