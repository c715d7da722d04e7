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
    /// Data of TPC-H or TPC-DS could not be made.
    #[error(transparent)]
    Tpc(#[from] tierloom_tpc::TpcError),
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Export {
        /// The file.
        path: String,
        /// What refused it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
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
    /// Placement cannot adapt as asked.
    #[error("adaptive placement: {problem}")]
    Adaptive {
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Operator memory cannot be routed as asked.
    #[error("operator memory: {problem}")]
    Routing {
        /// What is wrong, and what to do.
        problem: String,
    },
    /// An operator or function panicked; its query is over, the session is not.
    #[error(
        "{context}: the engine broke down over this statement ({message}); others can go on, but \
         please report this one"
    )]
    Panicked {
        /// The statement.
        context: String,
        /// What the panic said.
        message: String,
    },
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
}

impl EngineError {
    /// Wraps why the file `path` could not be written.
    pub fn export(
        path: &std::path::Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> EngineError {
        EngineError::Export {
            path: path.display().to_string(),
            source: source.into(),
        }
    }

    /// A panic that ended the execution of `context`.
    pub(crate) fn panicked(context: &str, panic: &(dyn std::any::Any + Send)) -> EngineError {
        EngineError::Panicked {
            context: context.to_owned(),
            message: crate::breakdown::said(panic).to_owned(),
        }
    }

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
