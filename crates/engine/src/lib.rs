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
pub mod capture;
mod coded;
mod column;
mod error;
pub mod load;
mod scan;
mod session;
pub mod star;
mod star_order;
mod table;

pub use coded::{CodedColumn, Domain, MAX_LISTED_CODES};
pub use column::{ColumnFacts, PlacedColumn};
pub use error::EngineError;
pub use scan::PlacedScanExec;
pub use session::{Engine, EngineOptions, Execution, PlannedQuery};
pub use star_order::StarJoinOrder;
pub use table::{PlacedTable, PlacedTableProvider, Staging};
