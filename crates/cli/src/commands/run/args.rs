//! What is typed.

use super::operator_memory::OperatorMemoryArgs;
use crate::commands::topology::MachineArgs;
use clap::Subcommand;
use std::path::PathBuf;

/// Run a workload on placed memory: measured here, modelled for machines with CXL
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub workload: Workload,
}

/// The workloads.
#[derive(Subcommand)]
pub enum Workload {
    /// The Star Schema Benchmark: 13 SQL queries on a fact table and four dimensions
    Ssb(SsbArgs),
}

/// `tierloom run ssb`.
#[derive(clap::Args)]
pub struct SsbArgs {
    /// Scale factor, from 0.01 up; 1 is six million fact rows, about 0.4 GiB
    #[arg(long, default_value_t = 1.0)]
    pub sf: f64,
    /// Worker threads; all CPUs this process may use if not given
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Where table data lies: dram, cxl, weights (3:2, dram:3,cxl:2; by node in brackets, as in `[0:3,2:2]`), tier, columns:N, columns:P%; several with commas
    #[arg(
        long,
        value_name = "LIST",
        default_value = "dram,cxl,3:2,tier,columns:8"
    )]
    pub placement: String,
    /// Machine profiles to model on: names (see `tierloom machines`) or YAML files, with commas
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    pub machine: Vec<String>,
    /// Queries to run, as in q1.1,q4.3; all 13 if not given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub queries: Vec<String>,
    /// Timed executions per query and placement
    #[arg(long, default_value_t = 5)]
    pub repeat: u32,
    /// Seed of the generated data
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Page size of table data: 4k, thp, 2m or 1g (the last two need a hugetlb pool)
    #[arg(long, value_name = "SIZE", default_value = "thp")]
    pub pages: String,
    /// Worker threads assumed on modelled machines; all their cores if not given
    #[arg(long, value_name = "N")]
    pub model_workers: Option<u32>,
    /// Model as if each fact row took so much pure CPU time per worker, in ns, instead of the measured time
    #[arg(long, value_name = "NS")]
    pub time_per_tuple: Option<f64>,
    /// Also run plain DataFusion on a MemTable of the same data, alternating with ours
    #[arg(long)]
    pub baseline: bool,
    /// Print one JSON document instead of tables
    #[arg(long, conflicts_with = "jsonl")]
    pub json: bool,
    /// Print records as JSON lines, each when it is done
    #[arg(long)]
    pub jsonl: bool,
    /// Also write the records to FILE
    #[arg(long, value_name = "FILE.jsonl")]
    pub records: Option<PathBuf>,
    /// Also write an HTML report to FILE
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Print what would run, and stop
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub operator_memory: OperatorMemoryArgs,
    #[command(flatten)]
    pub here: MachineArgs,
}
