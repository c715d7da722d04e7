//! SQL on placed memory: Arrow columns in regions, served to DataFusion without a copy.
//!
//! ```text
//!   SQL ── plan (star joins ordered by sampled selectivity) ──► operators of DataFusion, unchanged
//!                                                                   │ batches: slices of regions
//!   PlacedTable ── PlacedColumn ── Region (placement, audit, migration: crate memory)
//! ```
//! [`capture`] reads the metrics of an execution and describes it as the phases that the tier model prices.

pub mod adapt;
pub mod answer;
mod as_now;
pub mod bigjoin;
mod breakdown;
pub mod capture;
mod checked_sum;
mod coded;
mod column;
mod counted_sets;
mod error;
pub mod export;
pub mod load;
mod null_rules;
mod plan_cache;
mod planning;
pub mod routing;
mod scan;
mod scan_statistics;
mod session;
pub mod sql;
mod stack;
pub mod star;
mod star_order;
mod table;
pub mod tpc;
mod whole_order;

/// The Arrow that tables and results are made of.
pub use arrow;
pub use arrow::array::RecordBatch;
pub use coded::{CodedColumn, Domain, MAX_LISTED_CODES};
pub use column::{ColumnFacts, PlacedColumn};
pub use counted_sets::CountedSets;
pub use error::EngineError;
pub use scan::PlacedScanExec;
pub use scan_statistics::ScanStatistics;
pub use session::{Engine, EngineOptions, Execution, PlannedQuery, WORKER_NAME};
pub use star_order::StarJoinOrder;
pub use table::{PlacedTable, PlacedTableProvider, Staging};
pub use whole_order::WholeOrders;
