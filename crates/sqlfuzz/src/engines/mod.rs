//! The three engines that answer.

mod duckdb;
mod plain;
mod tierloom;

pub use duckdb::Duck;
pub use plain::{Plain, TOO_LONG};
pub use tierloom::{Seen, Stop, Tierloom};

use crate::FuzzError;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// How the engines of a case run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Tierloom's worker threads.
    pub threads: usize,
    /// Tierloom's rows of a batch.
    pub batch_rows: usize,
    /// Build rows from which on a join counts as big; none: as measured.
    pub big_join_rows: Option<usize>,
    /// Whether joins with dense keys count as big too.
    pub dense_keys: bool,
    /// Groups from which on a group-by counts as big; none: as measured.
    pub big_groups: Option<usize>,
    /// Whether star joins may be fused.
    pub fused: bool,
    /// Whether operator memory is routed.
    pub routed: bool,
    /// Where columns lie at first.
    pub placement: String,
    /// Partitions of plain DataFusion.
    pub plain_partitions: usize,
}

/// Changes an answer of Tierloom's: a mistake on purpose, to see that it is found.
pub type Spoil = fn(&str, Rows) -> Rows;

/// What all cases of a run share.
#[derive(Debug, Clone)]
pub struct Host {
    /// Threads of plain DataFusion.
    pub runtime: Arc<Runtime>,
    /// A mistake on purpose; none but in tests of the fuzzer itself.
    pub spoil: Option<Spoil>,
}

impl Host {
    /// Threads of their own, and no mistakes.
    ///
    /// # Errors
    /// Threads that cannot be started.
    pub fn new() -> Result<Host, FuzzError> {
        Ok(Host {
            runtime: Plain::runtime()?,
            spoil: None,
        })
    }
}

/// Rows of an answer.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
}

impl Rows {
    /// How many.
    pub fn count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// What an engine says to a statement: rows, if it has some, or its error.
pub type Answer = Result<Option<Rows>, String>;
