//! Loading generated data straight into placed columns.

mod place;
mod ssb;

pub use place::{column_uses, merged_audit, ColumnPlacer, PlaceTimes};
pub use ssb::{load_ssb, LoadTimes, SsbData};
