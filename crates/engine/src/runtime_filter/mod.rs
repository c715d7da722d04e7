//! Filters made while a query runs: scans of a probe side leave out rows without a build side's
//! keys.
//!
//! ```text
//!   HashJoinExec: on=[(i_item_sk, cs_item_sk)]
//!     RuntimeFilterExec: keys=[i_item_sk]          collects the keys while the build side's rows
//!       FilterExec: i_current_price < 1.49         pass, and makes them known at the end
//!         PlacedScanExec: item
//!     HashJoinExec: ...                            the column cs_item_sk comes through unchanged
//!       ...
//!       PlacedScanExec: catalog_sales              looks up codes of cs_item_sk, a bit per code,
//!                                                  before any other column is read
//! ```
//! The joins stay as they are, so a filter only has to keep what has a match: keys that come late,
//! or are too many, change no answer. [`RuntimeFilters`] decides which scans get a filter.

mod exec;
mod rule;

pub(crate) use exec::RuntimeFilterExec;
pub use rule::RuntimeFilters;
