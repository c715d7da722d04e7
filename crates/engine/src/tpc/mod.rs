//! TPC-H and TPC-DS: out to Parquet files, and into tables.

mod export;

pub use export::write_parquet;
