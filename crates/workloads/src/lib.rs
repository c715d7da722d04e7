//! Workloads that Tierloom places and measures: the Star Schema Benchmark with a data generator.
//!
//! The crate does not depend on Arrow, SQL engines or memory tiers. Dimension tables are returned
//! as plain vectors ([`ssb::dimension`]); the fact table is written directly into memory of the
//! caller ([`ssb::Lineorder::fill`]), so that it can be in a placed region without a copy.
//!
//! ```
//! use tierloom_workloads::{Silent, ssb};
//!
//! let config = ssb::SsbConfig::new(0.01, 1)?;
//! let lineorder = ssb::Lineorder::plan(&config)?;
//! let columns = lineorder.to_columns(&Silent)?;
//! assert_eq!(columns.len(), 17);
//! assert_eq!(ssb::query("q1.1")?.group, 1);
//! # Ok::<(), tierloom_workloads::WorkloadError>(())
//! ```

mod error;
mod io_error;
mod progress;
pub mod ssb;

pub use error::WorkloadError;
pub use io_error::io_error;
pub use progress::{Progress, Silent};
