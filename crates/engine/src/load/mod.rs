//! Loading generated data straight into placed columns.

mod place;
mod ssb;

pub use place::{ColumnPlacer, PlaceTimes, column_uses, merged_audit};
pub use ssb::{LoadTimes, SsbData, load_ssb};
