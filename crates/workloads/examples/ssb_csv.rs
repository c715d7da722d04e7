//! Writes the five SSB tables as CSV files: `cargo run -p tierloom-workloads --example ssb_csv --
//! --sf 0.01 --out DIR`.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use tierloom_workloads::{Silent, WorkloadError, ssb};

/// Generates the Star Schema Benchmark and writes one CSV file for each table.
#[derive(Parser)]
struct Arguments {
    /// Scale factor: 1 is about 6,000,000 lineorder rows.
    #[arg(long)]
    sf: f64,
    /// Seed of the data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the files; made if it is missing.
    #[arg(long)]
    out: PathBuf,
}

fn main() -> ExitCode {
    match export(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ssb_csv: {error}");
            ExitCode::from(if matches!(error, WorkloadError::ScaleFactor { .. }) {
                2
            } else {
                1
            })
        }
    }
}

fn export(arguments: &Arguments) -> Result<(), WorkloadError> {
    let config = ssb::SsbConfig::new(arguments.sf, arguments.seed)?;
    for file in ssb::write_csv(&config, &arguments.out, &Silent)? {
        println!(
            "{}: {} rows, {} bytes",
            file.path.display(),
            file.rows,
            file.size_bytes
        );
    }
    Ok(())
}
