//! TPC-H and TPC-DS: export to Parquet files, and loading into tables.

mod export;
mod load;

pub use export::write_parquet;
pub use load::{TpcData, load_tpc};
