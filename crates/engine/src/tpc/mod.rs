//! TPC-H and TPC-DS: out to Parquet files, and into tables.

mod export;
mod load;

pub use export::write_parquet;
pub use load::{TpcData, load_tpc};
