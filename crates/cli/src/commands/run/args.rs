//! Command line arguments of `tierloom run`, unchecked; `tierloom_suite` resolves them.

use super::hosts::HostArgs;
use super::transactions::{TpccArgs, YcsbArgs};
use crate::commands::pool::access::AccessArgs;
use crate::commands::topology::MachineArgs;
use clap::Subcommand;
use std::path::PathBuf;
use tierloom_suite::Resize;

/// Run a workload with its data placed across memory tiers: measured here, modelled for machines
/// with CXL
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub workload: Workload,
}

/// Workload to run
#[derive(Subcommand)]
pub enum Workload {
    /// The Star Schema Benchmark: 13 SQL queries on a fact table and four dimensions
    Ssb(SsbArgs),
    /// TPC-H: 22 SQL queries on orders, line items and their dimensions
    Tpch(TpcArgs),
    /// TPC-DS: 99 SQL queries on three sales channels
    Tpcds(TpcArgs),
    /// The five transactions of TPC-C on rows in memory, by clients without think time; no figure
    /// is a TPC result
    Tpcc(TpccArgs),
    /// YCSB: single rows read, scanned, changed and added, a control in which placement must show
    Ycsb(YcsbArgs),
    /// The process that --restart starts
    #[command(hide = true)]
    Restarted,
}

/// Arguments of `tierloom run ssb`
#[derive(clap::Args)]
pub struct SsbArgs {
    /// Scale factor, at least 0.01; 1 is six million fact rows, about 0.4 GiB
    #[arg(long, default_value_t = 1.0)]
    pub sf: f64,
    /// Queries to run, as in q1.1,q4.3; default: all 13
    #[arg(long, value_name = "LIST", value_delimiter = ',', alias = "query")]
    pub queries: Vec<String>,
    /// Seed of the generated data
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub options: RunOptions,
}

/// Arguments of `tierloom run tpch` and `tierloom run tpcds`
#[derive(clap::Args)]
pub struct TpcArgs {
    /// Scale factor, at least 0.01; 1 is about 1 GB as text
    #[arg(long, default_value_t = 1.0)]
    pub sf: f64,
    /// Queries to run, as in q1,q21 (q14 of TPC-DS is q14a and q14b); default: all
    #[arg(long, value_name = "LIST", value_delimiter = ',', alias = "query")]
    pub queries: Vec<String>,
    /// Folder of expected answers, as written by `scripts/golden_tpc.py --into`; answers for scale
    /// factor 0.01 are built in. With --interference: a path on each host
    #[arg(long, value_name = "DIR")]
    pub answers: Option<PathBuf>,
    /// Measure throughput: number of concurrent sessions, each running the queries in its own order
    #[arg(
        long,
        value_name = "N",
        requires = "duration",
        conflicts_with = "interference"
    )]
    pub streams: Option<usize>,
    /// Stop starting queries after this time, as in 60s or 5m; running ones complete
    #[arg(long, value_name = "TIME", requires = "streams")]
    pub duration: Option<tierloom_text::Seconds>,
    /// With --streams and --placement pool: sizes that the first member of the pool gets while the
    /// streams run, as in 10s=4GiB,20s=2GiB
    #[arg(
        long,
        value_name = "TIME=SIZE,...",
        value_delimiter = ',',
        requires_all = ["streams", "pool"]
    )]
    pub resize: Vec<Resize>,
    /// Measure queries as scripts: what they name in WITH becomes temporary tables that are made
    /// first, at PLACE (as in --operator-memory temp=PLACE). Given several times, the places take
    /// turns. With --machine, the scripts are also modelled there; places that this machine lacks
    /// are then modelled only. Default queries: the five with the largest temporary tables
    #[arg(long, value_name = "PLACE", conflicts_with_all = NOT_WITH_TEMPS)]
    pub temps: Vec<String>,
    #[command(flatten)]
    pub options: RunOptions,
}

/// Options common to all workloads
#[derive(clap::Args)]
pub struct RunOptions {
    /// Worker threads; default: all CPUs this process may use
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Where table data is placed: dram, cxl, weights (3:2 or dram:3,cxl:2; by node in brackets, as
    /// in `[0:3,2:2]`), tier, columns:N, columns:P%, adaptive (requires --machine), pool (requires
    /// --pool); separate several with commas. Default: dram,cxl,3:2,tier,columns:8; with
    /// --interference dram
    #[arg(long, value_name = "LIST")]
    pub placement: Option<String>,
    /// Machine profiles to model: names (see `tierloom machines`) or YAML files, separated by
    /// commas
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    pub machine: Vec<String>,
    /// Timed executions per query and placement
    #[arg(long, default_value_t = 5)]
    pub repeat: u32,
    /// Page size of table data: 4k, thp, 2m or 1g (2m and 1g require a hugetlb pool)
    #[arg(long, value_name = "SIZE", default_value = "thp")]
    pub pages: String,
    /// Worker threads assumed on modelled machines; default: all their cores
    #[arg(long, value_name = "N")]
    pub model_workers: Option<u32>,
    /// Scale factor that figures of modelled machines are for; default: the largest of a series at
    /// which tables fill at most half of a machine's dram (for TPC-DS, that of the run)
    #[arg(long, value_name = "SF")]
    pub model_sf: Option<f64>,
    /// CPU time per fact row and worker that the model assumes, in ns, instead of the measured time
    #[arg(long, value_name = "NS")]
    pub time_per_tuple: Option<f64>,
    /// Also run plain DataFusion on a MemTable of the same data, alternating with Tierloom's engine
    #[arg(long)]
    pub baseline: bool,
    /// Use DataFusion's own operators only: no fused star joins, no hash tables designed for memory
    /// latency. Placement and planning remain Tierloom's
    #[arg(long)]
    pub plain_operators: bool,
    /// Print one JSON document instead of tables
    #[arg(long, conflicts_with = "jsonl")]
    pub json: bool,
    /// Print each record as a JSON line as soon as it is complete
    #[arg(long)]
    pub jsonl: bool,
    /// Also write the records to FILE
    #[arg(long, value_name = "FILE.jsonl")]
    pub records: Option<PathBuf>,
    /// Also write an HTML report to FILE
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// With --placement adaptive: write every decision and its reason to FILE (`tierloom predict
    /// replay FILE` makes the decisions again)
    #[arg(long, value_name = "FILE.jsonl")]
    pub decisions: Option<PathBuf>,
    /// With --placement adaptive: limit on the bytes of columns in dram, as in 512MiB; columns are
    /// then placed by heat, in the background
    #[arg(long, value_name = "SIZE")]
    pub dram_limit: Option<String>,
    /// With --placement adaptive: a profile of this machine with its hardware prefetchers off;
    /// queries that are faster without prefetching run without it (writes CPU registers, see
    /// `tierloom tune --prefetchers show`; the previous settings are restored afterwards)
    #[arg(long, value_name = "NAME|FILE")]
    pub prefetch_off: Option<String>,
    /// The pool, named by its first member, that is the place `pool` of --placement and, with its
    /// free memory, of --operator-memory; with --restart: that tables are attached to, where its
    /// tables of the benchmark's names are replaced; with --interference: a path on each host
    #[arg(long, value_name = "POOL")]
    pub pool: Option<PathBuf>,
    #[command(flatten)]
    pub pool_access: AccessArgs,
    /// Measure how soon a new process answers, N times in each way: tables loaded on demand, loaded
    /// from Parquet files, attached to --pool, the same after a kill, attached and verified
    #[arg(long, value_name = "N", requires = "pool", conflicts_with_all = NOT_WITH_RESTART)]
    pub restart: Option<u32>,
    /// With --restart: folder of the Parquet files, generated if it has none; default: a temporary
    /// one
    #[arg(long, value_name = "DIR", requires = "restart")]
    pub files: Option<PathBuf>,
    /// Print the plan without running it
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub operator_memory: OperatorMemoryArgs,
    #[command(flatten)]
    pub here: MachineArgs,
    #[command(flatten)]
    pub several: HostArgs,
}

/// Options that say nothing about how soon a process answers.
const NOT_WITH_RESTART: [&str; 16] = [
    "placement",
    "machine",
    "repeat",
    "pages",
    "model_workers",
    "model_sf",
    "time_per_tuple",
    "baseline",
    "plain_operators",
    "report",
    "decisions",
    "dram_limit",
    "prefetch_off",
    "operator_memory",
    "sysroot",
    "tiers",
];

/// Options that say nothing about scripts with temporary tables.
const NOT_WITH_TEMPS: [&str; 15] = [
    "interference",
    "answers",
    "streams",
    "restart",
    "placement",
    "model_sf",
    "time_per_tuple",
    "baseline",
    "plain_operators",
    "report",
    "decisions",
    "dram_limit",
    "prefetch_off",
    "operator_memory",
    "sysroot",
];

/// Operator memory options of commands that run queries
#[derive(clap::Args)]
pub struct OperatorMemoryArgs {
    /// Where operator memory is placed, by class (join, aggregation, sort, repartition, temp,
    /// result, other): one placement per class, optionally with a limit, as in
    /// join=cxl,aggregation=dram:2GiB; weights in brackets, as in `join=[0:3,1:1]:4GiB`. Naming a
    /// class again adds a fallback. Classes not named are counted and left to the kernel
    #[arg(long, value_name = "CLASS=PLACEMENT[:LIMIT],...")]
    pub operator_memory: Option<String>,
    /// Write memory use by class, the nodes of the pages at each query's peak, and allocations that
    /// missed their requested placement to FILE
    #[arg(long, value_name = "FILE.json")]
    pub memory_audit: Option<PathBuf>,
}
