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
    /// TPC-H: 22 SQL queries on orders, line items and their dimensions
    #[cfg(feature = "sql")]
    Tpch(TpcArgs),
    /// TPC-DS: 99 SQL queries on three sales channels
    #[cfg(feature = "sql")]
    Tpcds(TpcArgs),
}

/// `tierloom run ssb`.
#[derive(clap::Args)]
pub struct SsbArgs {
    /// Scale factor, from 0.01 up; 1 is six million fact rows, about 0.4 GiB
    #[arg(long, default_value_t = 1.0)]
    pub sf: f64,
    /// Queries to run, as in q1.1,q4.3; all 13 if not given
    #[arg(long, value_name = "LIST", value_delimiter = ',', alias = "query")]
    pub queries: Vec<String>,
    /// Seed of the generated data
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub options: RunOptions,
}

/// `tierloom run tpch` and `tierloom run tpcds`.
#[cfg(feature = "sql")]
#[derive(clap::Args)]
pub struct TpcArgs {
    /// Scale factor, from 0.01 up; 1 is about a gigabyte as text
    #[arg(long, default_value_t = 1.0)]
    pub sf: f64,
    /// Queries to run, as in q1,q21 (q14 of TPC-DS is q14a and q14b); all if not given
    #[arg(long, value_name = "LIST", value_delimiter = ',', alias = "query")]
    pub queries: Vec<String>,
    /// Folder with answers to check against, as `scripts/golden_tpc.py --into` writes them; those at scale factor 0.01 are built in
    #[arg(long, value_name = "DIR")]
    pub answers: Option<PathBuf>,
    /// Measure throughput: so many sessions at once, each with the queries in an order of its own
    #[arg(long, value_name = "N", requires = "duration")]
    pub streams: Option<usize>,
    /// How long streams start queries, as in 60s or 5m; what runs then is finished
    #[arg(long, value_name = "TIME", requires = "streams")]
    pub duration: Option<humantime::Duration>,
    #[command(flatten)]
    pub options: RunOptions,
}

/// What all workloads have in common.
#[derive(clap::Args)]
pub struct RunOptions {
    /// Worker threads; all CPUs this process may use if not given
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Where table data lies: dram, cxl, weights (3:2, dram:3,cxl:2; by node in brackets, as in `[0:3,2:2]`), tier, columns:N, columns:P%, adaptive (needs --machine); several with commas
    #[arg(
        long,
        value_name = "LIST",
        default_value = "dram,cxl,3:2,tier,columns:8"
    )]
    pub placement: String,
    /// Machine profiles to model on: names (see `tierloom machines`) or YAML files, with commas
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    pub machine: Vec<String>,
    /// Timed executions per query and placement
    #[arg(long, default_value_t = 5)]
    pub repeat: u32,
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
    /// Run on DataFusion's own operators only: no fused star joins, no tables made for memory latency. Placement and planning stay ours
    #[arg(long)]
    pub plain_operators: bool,
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
    /// With --placement adaptive: write everything that was decided, and why, to FILE (`tierloom predict replay FILE` makes the decisions again)
    #[arg(long, value_name = "FILE.jsonl")]
    pub decisions: Option<PathBuf>,
    /// With --placement adaptive: bytes of columns that dram may hold, as in 512MiB; columns then go by heat, in the background
    #[arg(long, value_name = "SIZE")]
    pub dram_limit: Option<String>,
    /// With --placement adaptive: a profile of this machine with its hardware prefetchers off; queries that are faster so run so (writes the CPUs'
    /// registers, see `tierloom tune --prefetchers show`; what was there comes back)
    #[arg(long, value_name = "NAME|FILE")]
    pub prefetch_off: Option<String>,
    /// Print what would run, and stop
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub operator_memory: OperatorMemoryArgs,
    #[command(flatten)]
    pub here: MachineArgs,
}
