//! Command line arguments of `tierloom predict`.

use super::cluster::ClusterArgs;
use std::path::PathBuf;
use tierloom_predict::{Request, Texts};

/// Model work on a machine and placement: throughput, load of each tier, bottleneck, and what
/// decides them
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["work", "query", "phases"]))]
pub struct Args {
    #[command(subcommand)]
    pub workload: Option<PredictCommand>,
    /// Machine profiles: names (see `tierloom machines`) or paths of YAML files
    #[arg(
        long,
        required = true,
        value_delimiter = ',',
        value_name = "NAME|FILE.yaml"
    )]
    pub machine: Vec<String>,
    /// A benchmark: a name (read, write, nt-write, copy, random, chase, build, probe, filter,
    /// partition, scan, aggregate, tree, ssb), optionally with parameters
    /// (probe:table_bytes=16GiB,prefetched=true), or a YAML file
    #[arg(long, value_name = "NAME[:KEY=VALUE,..]|FILE.yaml")]
    pub work: Option<String>,
    /// A recorded query; requires --from
    #[arg(long, requires = "from", value_name = "QUERY")]
    pub query: Option<String>,
    /// Records of a run (`tierloom run ssb --records FILE`)
    #[arg(long, requires = "query", value_name = "RECORDS.jsonl")]
    pub from: Option<PathBuf>,
    /// A list of the model's phases, YAML or JSON
    #[arg(long, value_name = "FILE.yaml|FILE.json")]
    pub phases: Option<String>,
    /// Where data is placed: a tier, weights (3:2 or dram:3,cxl:2), contiguous parts
    /// (dram=60%,cxl=40%, modelled by the share of each tier), or by structure or class
    /// (table=cxl,default=dram; hash-table=3:2); default: all on the first tier
    #[arg(long, value_name = "PLACEMENT")]
    pub placement: Option<String>,
    /// Another placement to compare with
    #[arg(long, value_name = "PLACEMENT")]
    pub versus: Option<String>,
    /// Workers, at most one per hardware thread of the machine; default: one per core
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub workers: Option<u32>,
    /// Load of other programs on a tier in GB/s; `own` is this work's share of the tier when both
    /// together need more than it has
    #[arg(long, value_name = "TIER:read=N[,write=N][,own=SHARE]")]
    pub background: Vec<String>,
    /// Terms of the model to switch off
    #[arg(long, value_delimiter = ',', value_name = "TERM")]
    pub off: Vec<String>,
    /// Show the effect of making each number of the machine 10% smaller or larger, and of each term
    /// of the model, on the throughput (with --versus, on the gain)
    #[arg(long)]
    pub sensitivity: bool,
    /// With --sensitivity: show all numbers, not only the ten with the largest effect
    #[arg(long, requires = "sensitivity")]
    pub all: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Predictions for whole workloads
#[derive(clap::Subcommand)]
pub enum PredictCommand {
    /// Model TPC-H streams with DRAM limited to a share of the tables
    Tpch(super::tpch::Args),
    /// Compare the adaptive controller with published tiering policies on simulated machines
    Policies(super::policies::Args),
    /// Make the decisions of a log (`tierloom run ... --placement adaptive --decisions FILE`) again
    /// and report differences
    Replay(super::replay::Args),
}

impl Args {
    /// The question that they ask.
    pub fn request(&self) -> Request {
        Request {
            machine: Texts(self.machine.clone()),
            work: self.work.clone(),
            query: self.query.clone(),
            from: self.from.clone(),
            phases: self.phases.clone(),
            placement: self.placement.clone(),
            versus: self.versus.clone(),
            workers: self.workers,
            background: Texts(self.background.clone()),
            off: Texts(self.off.clone()),
            sensitivity: self.sensitivity,
            cluster: self.cluster.request(),
        }
    }
}
