//! What a workload does with the engine: it loads its data and checks answers.

use crate::RunError;
use std::sync::Arc;
use tierloom_engine::load::{ColumnPlacer, LoadTimes};
use tierloom_engine::{EngineError, PlacedTable, RecordBatch};
use tierloom_memory::Placement;
use tierloom_workloads::Progress;

/// The tables of a run and the time that loading them took.
pub struct Data {
    pub tables: Vec<Arc<PlacedTable>>,
    pub times: LoadTimes,
}

/// Data and right answers of a [`Workload`](crate::Workload).
pub trait WorkloadData {
    /// Generates the data into columns that are all placed alike.
    ///
    /// # Errors
    /// Memory that cannot be allocated, or `progress` cancelled it.
    fn load(
        &self,
        placer: &mut ColumnPlacer<'_>,
        placement: &Placement,
        threads: usize,
        progress: &dyn Progress,
    ) -> Result<Data, EngineError>;

    /// Compares an answer, also given as `text`, with the stored one of an independent engine;
    /// returns the reason if it could not be checked.
    ///
    /// # Errors
    /// A wrong answer, or a stored one that cannot be read.
    fn check(
        &self,
        query: &str,
        batches: &[RecordBatch],
        text: &str,
    ) -> Result<Option<String>, RunError>;
}
