//! SQL on placed memory: Arrow columns in regions, scanned by DataFusion in place.
//!
//! ```text
//!   SQL ── plan (star joins ordered by sampled selectivity) ──► DataFusion's operators and ours
//!                                                                   │ batches: slices of regions
//!   PlacedTable ── PlacedColumn ── Region (placement, audit, migration: crate memory)
//! ```
//! [`star`] and [`bigjoin`] replace operators for which memory access dominates, [`routing`] places
//! their memory, [`capture`] describes executions as phases for the tier model, and [`adapt`] moves
//! data by its predictions. Scripts, settings and sessions are in the crate `sql`.

pub mod adapt;
pub mod answer;
mod anti_joins;
mod big_operators;
mod big_sort;
pub mod bigjoin;
pub mod breakdown;
mod calendar;
pub mod capture;
mod coded;
mod column;
mod comparisons;
mod concatenated;
mod constant_keys;
pub mod counting;
mod distinct_lists;
mod elsewhere;
mod error;
pub mod export;
mod grouping_sets;
mod join_order;
mod key_types;
mod last_parsed;
pub mod load;
mod logical_rules;
mod modulo;
mod operators;
mod origin;
mod outer_joins;
mod plan_cache;
mod planning;
pub mod pooled;
mod provider;
mod quick_rules;
mod ranks;
mod repeatable;
mod replaced;
pub mod routing;
mod row_bytes;
mod running_window;
mod runtime_filter;
mod scan;
mod scan_at_once;
mod semi_joins;
mod session;
mod several_distinct;
mod shared_subplans;
mod shifted_sums;
pub mod stack;
pub mod star;
mod star_order;
mod steps;
mod summed_counts;
mod system_table;
mod table;
mod task;
mod text_length;
mod text_pattern;
mod text_stretch;
pub mod tpc;
mod wait;
mod whole_windows;

/// Re-export of the Arrow version that tables and results use.
pub use arrow;
pub use arrow::array::RecordBatch;
pub use calendar::calendar_functions;
pub use coded::{CodedColumn, Domain, MAX_LISTED_CODES, Unit};
pub use column::{ColumnFacts, PlacedColumn};
pub use error::EngineError;
pub use join_order::{JoinOrder, JoinOrderOptions};
pub use provider::PlacedTableProvider;
pub use row_bytes::rows_at_once;
pub use scan::PlacedScanExec;
pub use scan_at_once::PlannedScan;
pub use session::{Engine, EngineOptions, Execution, PlannedQuery, WORKER_NAME};
pub use star_order::StarJoinOrder;
pub use steps::{final_step, final_step_by_key, partial_step};
pub use system_table::{SystemRows, SystemTable};
pub use table::{PlacedTable, Staging};
pub use task::{counted_context, task_context, with_settings};
pub use wait::Waiter;
