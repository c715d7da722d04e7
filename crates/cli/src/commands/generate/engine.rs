//! Files that the SQL engine writes: TPC-H and TPC-DS as Parquet, SSB as Arrow IPC and Parquet.

use super::{Format, RowProgress, SsbFilesArgs};
use crate::failure::Failure;
use clap::Subcommand;
use std::path::PathBuf;
use tierloom_engine::EngineError;
use tierloom_engine::export::{FileFormat, write_ssb};
use tierloom_engine::tpc::write_parquet;
use tierloom_tpc::{Benchmark, Source};
use tierloom_workloads::WorkloadError;
use tierloom_workloads::ssb::{ExportedTable, SsbConfig};

#[derive(Subcommand)]
pub enum TpcDataset {
    /// TPC-H: eight Parquet files
    Tpch(TpcFilesArgs),
    /// TPC-DS: 24 Parquet files
    Tpcds(TpcFilesArgs),
}

#[derive(clap::Args)]
pub struct TpcFilesArgs {
    /// Scale factor, at least 0.01; 1 is about 1 GB as text
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Threads that generate rows; default: all CPUs this process may use
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Folder to write into; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Writes the tables of SSB. The outer error is about the request, the inner one about writing.
pub fn ssb(
    config: &SsbConfig,
    args: &SsbFilesArgs,
    progress: &RowProgress,
) -> Result<Result<Vec<ExportedTable>, WorkloadError>, Failure> {
    let format = match args.format {
        Format::Parquet => FileFormat::Parquet,
        _ => FileFormat::Arrow,
    };
    match write_ssb(config, format, &args.output, progress) {
        Ok(written) => Ok(Ok(written)),
        Err(EngineError::Workload(error)) => Ok(Err(error)),
        Err(error) => Err(Failure::runtime(error)),
    }
}

/// Writes the tables of TPC-H or TPC-DS.
pub fn tpc(dataset: &TpcDataset) -> Result<(), Failure> {
    match dataset {
        TpcDataset::Tpch(args) => parquet(Benchmark::TpcH, args),
        TpcDataset::Tpcds(args) => parquet(Benchmark::TpcDs, args),
    }
}

/// Writes one Parquet file per table.
fn parquet(benchmark: Benchmark, args: &TpcFilesArgs) -> Result<(), Failure> {
    let sources = benchmark
        .tables()
        .iter()
        .map(|table| benchmark.source(table, args.sf))
        .collect::<Result<Vec<Source>, _>>()
        .map_err(Failure::input)?;
    let available = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = match args.threads {
        Some(0) => return Err(Failure::input("--threads 0: at least one is needed")),
        Some(n) => n,
        None => available(),
    };
    // After all checks, so that bad input leaves no folder behind.
    std::fs::create_dir_all(&args.output).map_err(|e| {
        Failure::input(format!("cannot make folder {}: {e}", args.output.display()))
    })?;
    let progress = RowProgress::new("writing", sources.iter().map(Source::expected_rows).sum());
    let written = sources.iter().try_for_each(|source| {
        let path = args.output.join(format!("{}.parquet", source.table()));
        write_parquet(source, &path, threads, &progress).map(drop)
    });
    progress.finish();
    match written {
        Ok(()) => {
            note!(
                "wrote {benchmark} at scale factor {} into {}",
                args.sf,
                args.output.display()
            );
            Ok(())
        }
        Err(EngineError::Workload(WorkloadError::Cancelled)) => Err(Failure::Interrupted(format!(
            "files in {} that were finished are whole, others were not written",
            args.output.display()
        ))),
        Err(error) => Err(Failure::runtime(error)),
    }
}
