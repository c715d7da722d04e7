//! Loads TPC-H and TPC-DS directly into placed columns.
//!
//! Tables are generated one after the other, so that only one exists in generated form at a time.

use crate::EngineError;
use crate::load::{ColumnPlacer, LoadOptions, LoadTimes, load_batches};
use crate::table::PlacedTable;
use std::sync::Arc;
use std::time::Instant;
use tierloom_memory::Placement;
use tierloom_tpc::Source;
use tierloom_workloads::Progress;

/// Rows per generated batch.
const BATCH_ROWS: usize = 16 * 1024;

/// The loaded tables of a benchmark.
pub struct TpcData {
    /// One table per source, in the same order.
    pub tables: Vec<Arc<PlacedTable>>,
    /// Durations of the parts of loading.
    pub times: LoadTimes,
}

/// Generates `sources` into placed columns.
///
/// `placement_of` receives "table.column"; `threads` generate.
///
/// One table at a time exists in generated form while its columns are encoded and placed; a
/// column's generated values are freed as soon as it is placed.
///
/// # Errors
/// A failed allocation, or [`tierloom_workloads::WorkloadError::Cancelled`] if `progress` cancels.
pub fn load_tpc(
    sources: &[Source],
    threads: usize,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
    progress: &dyn Progress,
) -> Result<TpcData, EngineError> {
    let start = Instant::now();
    let before = placer.times().placing;
    let mut tables = Vec::new();
    for source in sources {
        let batches = source
            .batches(BATCH_ROWS, threads)
            .map(|batch| batch.map_err(EngineError::from));
        let table = load_batches(
            source.table(),
            source.schema(),
            batches,
            placer,
            placement_of,
            progress,
            &LoadOptions::default(),
        )?;
        tables.push(Arc::new(table));
    }
    let placing = placer.times().placing.saturating_sub(before);
    Ok(TpcData {
        tables,
        times: LoadTimes {
            generating: start.elapsed().saturating_sub(placing),
            placing,
        },
    })
}
