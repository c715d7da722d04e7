//! `tierloom generate`: writes benchmark data as files, for other engines.
//!
//! CSV of the Star Schema Benchmark needs no SQL engine in the build; everything else does.

use crate::failure::Failure;
use crate::stop;
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use tierloom_workloads::ssb::{self, ExportedTable, SsbConfig};
use tierloom_workloads::{Progress, WorkloadError};

/// Write benchmark data as files, for other engines
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: Dataset,
}

#[derive(Subcommand)]
enum Dataset {
    /// The Star Schema Benchmark: five files, as CSV with a header line each, Arrow IPC or Parquet
    Ssb(SsbFilesArgs),
    /// TPC-H: eight Parquet files
    #[cfg(feature = "sql")]
    Tpch(TpcFilesArgs),
    /// TPC-DS: 24 Parquet files
    #[cfg(feature = "sql")]
    Tpcds(TpcFilesArgs),
}

#[cfg(feature = "sql")]
#[derive(clap::Args)]
struct TpcFilesArgs {
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

#[derive(clap::Args)]
struct SsbFilesArgs {
    /// Scale factor, at least 0.01; 1 is six million fact rows
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Seed of the generated data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder to write into; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// File format; arrow and parquet require a build with the SQL engine
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
}

/// File formats
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Csv,
    Arrow,
    Parquet,
}

/// A progress bar over rows that also passes Ctrl-C on to the generator.
pub struct RowProgress {
    bar: ProgressBar,
}

impl RowProgress {
    fn new(what: &str, rows: u64) -> Self {
        RowProgress {
            bar: Self::bar(what, rows),
        }
    }

    /// A bar of `rows` on stderr; invisible if stderr is not a terminal.
    pub fn bar(what: &str, rows: u64) -> ProgressBar {
        let bar = ProgressBar::new(rows);
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix} [{bar:30}] {percent:>3}% {human_pos} rows, {eta} left",
        ) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what.to_owned());
        bar
    }

    /// Removes the bar.
    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for RowProgress {
    fn advance(&self, rows: u64) {
        self.bar.inc(rows);
    }

    fn cancelled(&self) -> bool {
        stop::requested()
    }
}

/// Writes the files of the requested benchmark.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        Dataset::Ssb(args) => ssb(args),
        #[cfg(feature = "sql")]
        Dataset::Tpch(args) => tpc::run(tierloom_tpc::Benchmark::TpcH, args),
        #[cfg(feature = "sql")]
        Dataset::Tpcds(args) => tpc::run(tierloom_tpc::Benchmark::TpcDs, args),
    }
}

fn ssb(args: &SsbFilesArgs) -> Result<(), Failure> {
    let config = SsbConfig::new(args.sf, args.seed).map_err(Failure::input)?;
    let rows = ssb::tables()
        .iter()
        .map(|t| config.rows(t.name))
        .sum::<Result<u64, _>>()
        .map_err(Failure::runtime)?;
    let progress = RowProgress::new("writing", rows);
    let written = write(&config, args, &progress);
    progress.finish();
    match written? {
        Ok(_) => {
            note!(
                "wrote SSB at scale factor {} (seed {}) into {}",
                args.sf,
                args.seed,
                args.output.display()
            );
            Ok(())
        }
        Err(WorkloadError::Cancelled) => Err(Failure::Interrupted(format!(
            "files in {} that were finished are whole, others were not written",
            args.output.display()
        ))),
        Err(error) => Err(Failure::runtime(error)),
    }
}

/// Writes the files. The outer error is about the request, the inner one about writing.
fn write(
    config: &SsbConfig,
    args: &SsbFilesArgs,
    progress: &RowProgress,
) -> Result<Result<Vec<ExportedTable>, WorkloadError>, Failure> {
    match args.format {
        Format::Csv => Ok(ssb::write_csv(config, &args.output, progress)),
        #[cfg(feature = "sql")]
        Format::Arrow | Format::Parquet => {
            use tierloom_engine::EngineError;
            use tierloom_engine::export::{FileFormat, write_ssb};
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
        #[cfg(not(feature = "sql"))]
        Format::Arrow | Format::Parquet => Err(Failure::input(
            "this tierloom was built without its SQL engine and writes CSV only; for Arrow and Parquet build it with the default features: cargo build --release",
        )),
    }
}

#[cfg(feature = "sql")]
mod tpc {
    use super::{RowProgress, TpcFilesArgs};
    use crate::failure::Failure;
    use tierloom_engine::EngineError;
    use tierloom_engine::tpc::write_parquet;
    use tierloom_tpc::{Benchmark, Source};
    use tierloom_workloads::WorkloadError;

    /// Writes one Parquet file per table.
    pub fn run(benchmark: Benchmark, args: &TpcFilesArgs) -> Result<(), Failure> {
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
            Err(EngineError::Workload(WorkloadError::Cancelled)) => {
                Err(Failure::Interrupted(format!(
                    "files in {} that were finished are whole, others were not written",
                    args.output.display()
                )))
            }
            Err(error) => Err(Failure::runtime(error)),
        }
    }
}
