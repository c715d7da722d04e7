//! Command line arguments of `tierloom run tpcc` and `tierloom run ycsb`, unchecked.

use crate::commands::topology::MachineArgs;
use std::path::PathBuf;

/// Longest time of a run: a day.
pub const MOST_SECONDS: f64 = 86_400.0;

/// Arguments of `tierloom run tpcc`
#[derive(clap::Args)]
pub struct TpccArgs {
    /// Warehouses; each is about 90 MiB
    #[arg(long, value_name = "W", default_value_t = 10)]
    pub warehouses: u32,
    /// New orders that there is room for, about 2.4 KB each; a run that uses it up ends early.
    /// Default: 80,000 per second and CPU that clients can use up to a million, then 20,000
    #[arg(long, value_name = "ORDERS")]
    pub room: Option<u64>,
    /// Make commits durable in a redo log, FILE, which must not exist: transactions are
    /// acknowledged when the device has them. Later placements replace the log of earlier ones
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// With --log: after each run load the data again, do again what the log says, and check it
    #[arg(long, requires = "log")]
    pub recover: bool,
    /// With --log: take checkpoints into a pool, the file POOL, which must not exist, while clients
    /// run. Each removes the log before it, and begins a part: FILE.1, FILE.2, ...
    #[arg(long, value_name = "POOL", requires = "log", conflicts_with = "beside")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds from the end of one checkpoint to the begin of the next; default: half of --seconds
    #[arg(long, value_name = "S", requires = "checkpoint")]
    pub checkpoint_every: Option<f64>,
    /// With --log and --machine: clients assumed on modelled machines, each of which waits for the
    /// log as clients did here; default: as many as --model-workers
    #[arg(long, value_name = "N", requires = "log")]
    pub model_clients: Option<u32>,
    #[command(flatten)]
    pub options: StoreOptions,
}

/// Arguments of `tierloom run ycsb`
#[derive(clap::Args)]
pub struct YcsbArgs {
    /// Core workload: a (half updates), b (5% updates), c (reads), d (recent rows, 5% inserts),
    /// e (scans, 5% inserts), f (half read and then updated)
    #[arg(long, value_name = "LETTER", default_value = "c")]
    pub workload: String,
    /// Rows to load, about 1 KiB each
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// Inserts that there is room for; a run that uses it up ends early. Default, for the workloads
    /// that insert: 200,000 per second and CPU that clients can use up to a million, then 50,000
    #[arg(long, value_name = "ROWS")]
    pub room: Option<u64>,
    #[command(flatten)]
    pub options: StoreOptions,
}

/// Options common to both
#[derive(clap::Args)]
pub struct StoreOptions {
    /// Clients, each a thread without think time; default: all CPUs this process may use
    #[arg(long, value_name = "N")]
    pub clients: Option<u32>,
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub seconds: f64,
    /// Placements to compare, separated by commas. PLACEMENT alone (dram, cxl, 3:2, [0:3,2:2])
    /// places everything; PART=PLACEMENT one part, with the rest in dram; + joins parts, as in
    /// main=cxl+index=3:2. Parts: main (rows as loaded or merged), heap (row heads and new
    /// versions), index (leaves and inner), leaves, inner. Those that this machine lacks are
    /// modelled only
    #[arg(long, value_name = "LIST", default_value = "dram")]
    pub placement: String,
    /// Machine profiles to model: names (see `tierloom machines`) or YAML files, separated by
    /// commas
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    pub machine: Vec<String>,
    /// Worker threads assumed on modelled machines; default: all their cores
    #[arg(long, value_name = "N")]
    pub model_workers: Option<u32>,
    /// Page size: 4k, thp, 2m or 1g (2m and 1g require a hugetlb pool)
    #[arg(long, value_name = "SIZE", default_value = "thp")]
    pub pages: String,
    /// Seed of the data and of what clients draw
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of tables
    #[arg(long, conflicts_with = "jsonl")]
    pub json: bool,
    /// Print the records as JSON lines
    #[arg(long)]
    pub jsonl: bool,
    /// Also write the records to FILE
    #[arg(long, value_name = "FILE.jsonl")]
    pub records: Option<PathBuf>,
    /// Also write an HTML report to FILE
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Print the plan without running it
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub streams: BesideArgs,
    #[command(flatten)]
    pub here: MachineArgs,
}

/// Streams of queries beside the transactions
#[derive(clap::Args)]
pub struct BesideArgs {
    /// Also run streams of queries, and measure by turns the transactions alone, the streams alone
    /// and both at once, each for --seconds: ssb, tpch or tpcds, with a scale factor other than 1
    /// after a colon, as in ssb:10
    #[arg(long, value_name = "WORKLOAD[:SF]")]
    pub beside: Option<String>,
    /// With --beside: streams, each of which runs all queries over and over
    #[arg(long, value_name = "N", default_value_t = 1, requires = "beside")]
    pub beside_streams: usize,
    /// With --beside: worker threads that the streams share; default: all CPUs this process may use
    #[arg(long, value_name = "N", requires = "beside")]
    pub beside_threads: Option<usize>,
    /// With --beside: where the tables are, as in --placement of `run ssb`. One that this machine
    /// lacks is modelled only, and measured in dram
    #[arg(
        long,
        value_name = "PLACEMENT",
        default_value = "dram",
        requires = "beside"
    )]
    pub beside_placement: String,
    /// With --beside: rounds of the three
    #[arg(long, value_name = "N", default_value_t = 3, requires = "beside")]
    pub rounds: u32,
    /// With --beside and --machine: worker threads of the streams on modelled machines, on other
    /// cores than --model-workers; default of both: half of the cores
    #[arg(long, value_name = "N", requires_all = ["beside", "machine"])]
    pub model_beside_workers: Option<u32>,
}
