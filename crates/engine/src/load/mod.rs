//! Loads data into placed columns: generated in place, or from record batches of any source.

mod batches;
mod encode;
mod generated;
mod held;
mod lineorder;
mod pipeline;
mod place;
mod ssb;
mod version;

pub use batches::{LoadOptions, MemoryCheck, load_batches, load_partitions};
pub use encode::Encoding;
pub use place::{ColumnPlacer, PlaceTimes, column_uses, merged_audit};
pub use ssb::{LoadTimes, SsbData, load_ssb};
pub use version::{Chunks, MadeColumn, NextColumn, load_columns};
