//! The three engines whose results are compared.

mod changes;
mod duckdb;
mod plain;
mod tierloom;

pub use duckdb::Duck;
pub use plain::{PlainEngine, TOO_LONG};
pub use tierloom::{PlanOperators, StopFlag, Tierloom};

use crate::FuzzError;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The settings of the engines in one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Tierloom's number of worker threads.
    pub threads: usize,
    /// Tierloom's number of rows per batch.
    pub batch_rows: usize,
    /// Build rows from which a join uses Tierloom's own operator; `None` for the default.
    pub big_join_rows: Option<usize>,
    /// Whether that operator also takes joins with dense keys.
    pub dense_keys: bool,
    /// Groups from which a group-by uses Tierloom's own operator; `None` for the default.
    pub big_groups: Option<usize>,
    /// Rows of an intermediate result from which Tierloom may change the order of joins; `None` for
    /// the default.
    #[serde(default)]
    pub join_order_rows: Option<usize>,
    /// Whether star joins may be fused.
    pub fused: bool,
    /// Whether operator memory is routed.
    pub routed: bool,
    /// The placement of columns when they are loaded.
    pub placement: String,
    /// Number of partitions of plain DataFusion.
    pub plain_partitions: usize,
}

/// Changes a result of Tierloom: an intentional error, to test that the fuzzer finds it.
pub type Spoil = fn(&str, Rows) -> Rows;

/// State that all cases of a run share.
#[derive(Debug, Clone)]
pub struct Host {
    /// The threads that run plain DataFusion.
    pub runtime: Arc<Runtime>,
    /// An intentional error; `None` except in tests of the fuzzer itself.
    pub spoil: Option<Spoil>,
}

impl Host {
    /// New threads, and no intentional error.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new() -> Result<Host, FuzzError> {
        Ok(Host {
            runtime: PlainEngine::runtime()?,
            spoil: None,
        })
    }
}

/// The rows of a result.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The columns of the result.
    pub schema: SchemaRef,
    /// The rows, in batches.
    pub batches: Vec<RecordBatch>,
}

impl Rows {
    /// Number of rows, over all batches.
    pub fn count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// The result of a statement: rows if it returns any, or the error message.
pub type Answer = Result<Option<Rows>, String>;
