//! `tierloom generate`: writes benchmark data as files, for other engines.
//!
//! CSV of the Star Schema Benchmark needs no SQL engine in the build; everything else does.

// What only the SQL engine can write; a build without it says so.
#[cfg_attr(not(feature = "sql"), path = "generate/no_engine.rs")]
mod engine;

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
    #[command(flatten)]
    Tpc(engine::TpcDataset),
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
        Dataset::Tpc(dataset) => engine::tpc(dataset),
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
        Format::Arrow | Format::Parquet => engine::ssb(config, args, progress),
    }
}
