//! What a build without the SQL engine has of `tierloom generate`: CSV of SSB alone.

use super::{RowProgress, SsbFilesArgs};
use crate::failure::Failure;
use clap::Subcommand;
use tierloom_workloads::WorkloadError;
use tierloom_workloads::ssb::{ExportedTable, SsbConfig};

pub use NoDataset as TpcDataset;

// The generators of the TPC come with the engine.
#[derive(Subcommand)]
pub enum NoDataset {}

/// Fails: this build writes CSV only.
pub fn ssb(
    _config: &SsbConfig,
    _args: &SsbFilesArgs,
    _progress: &RowProgress,
) -> Result<Result<Vec<ExportedTable>, WorkloadError>, Failure> {
    Err(Failure::input(
        "this tierloom was built without its SQL engine and writes CSV only; for Arrow and Parquet build it with the default features: cargo build --release",
    ))
}

/// Never called.
pub fn tpc(dataset: &TpcDataset) -> Result<(), Failure> {
    match *dataset {}
}
