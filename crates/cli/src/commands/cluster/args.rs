//! Command line arguments of `tierloom cluster`, unchecked.

use crate::commands::sql::SessionArgs;
use clap::Subcommand;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tierloom_memory::PlacementSpec;
use tierloom_text::Bytes;

/// Run SQL on tables that lie in the memory of several machines
///
/// One scheduler knows who holds what; each executor holds shards in placed memory and works on
/// them. Without a token and certificates, connections are neither encrypted nor checked: use a
/// network that only its users reach.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub command: ClusterCommand,
}

#[derive(Subcommand)]
pub enum ClusterCommand {
    Scheduler(SchedulerArgs),
    Executor(Box<ExecutorArgs>),
    Load(ClusterLoadArgs),
    Sql(SqlArgs),
    Status(ClusterStatusArgs),
}

/// Where the scheduler is, and what it is shown
#[derive(clap::Args)]
pub struct SchedulerUrl {
    /// URL of the scheduler; https:// for one with a certificate
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:50050")]
    pub scheduler: String,
    #[command(flatten)]
    pub token: TokenArgs,
    /// Certificate that signed those of the scheduler and the executors (or is theirs), PEM
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub tls_ca: Option<PathBuf>,
}

/// The token of a cluster
#[derive(clap::Args)]
pub struct TokenArgs {
    /// File with the token shared by scheduler, executors and their users; default:
    /// $TIERLOOM_TOKEN, and with certificates ~/.config/tierloom/token
    #[arg(long, value_name = "FILE", help_heading = "Security")]
    pub token_file: Option<PathBuf>,
    /// Allow unencrypted connections to other machines: anyone who reads the traffic learns the
    /// token
    #[arg(long = "allow-plain-remote", help_heading = "Security")]
    pub allow_plain: bool,
}

/// What does the end of queries whose nodes give many rows
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ClusterBackend {
    /// Apache Ballista: rows go through files, and one node does the end
    Ballista,
    /// DataFusion Distributed: nodes pass rows to each other by key, and all do a part
    Distributed,
}

/// A cluster whose tables a server has, in the place of tables of its own
#[derive(clap::Args)]
pub struct ServedCluster {
    /// Serve the tables of the cluster whose scheduler is at URL; queries run on its executors
    #[arg(
        id = "cluster",
        long,
        value_name = "URL",
        help_heading = "Cluster",
        conflicts_with_all = ["tables", "pool", "generate", "placement", "pages"]
    )]
    pub url: Option<String>,
    /// File with the token of the cluster; default: $TIERLOOM_TOKEN, and with a certificate
    /// ~/.config/tierloom/token
    #[arg(
        id = "cluster_token_file",
        long = "token-file",
        value_name = "FILE",
        requires = "cluster",
        help_heading = "Cluster"
    )]
    pub token_file: Option<PathBuf>,
    /// Certificate that signed those of the scheduler and the executors (or is theirs), PEM
    #[arg(
        id = "cluster_tls_ca",
        long = "tls-ca",
        value_name = "FILE",
        requires = "cluster",
        help_heading = "Cluster"
    )]
    pub tls_ca: Option<PathBuf>,
    /// What does the end of a query on the nodes, if they give many rows
    #[arg(
        long,
        value_name = "BACKEND",
        default_value = "distributed",
        requires = "cluster",
        help_heading = "Cluster"
    )]
    pub backend: ClusterBackend,
    /// Allow unencrypted connections to the cluster on other machines: anyone who reads the traffic
    /// learns the token
    #[arg(
        id = "cluster_allow_plain",
        long = "allow-plain-remote",
        requires = "cluster",
        help_heading = "Cluster"
    )]
    pub allow_plain: bool,
}

/// The certificate of a scheduler or an executor
#[derive(clap::Args)]
pub struct CertificateArgs {
    /// TLS certificate, PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        help_heading = "Security"
    )]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "Security"
    )]
    pub tls_key: Option<PathBuf>,
}

/// Run the scheduler, until Ctrl-C or SIGTERM
#[derive(clap::Args)]
pub struct SchedulerArgs {
    /// Address for executors and statements; port 0 for a free one
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50050")]
    pub listen: SocketAddr,
    /// The name or address under which executors reach this machine
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,
    /// Keep in FILE which tables there are; a scheduler that starts again reads it
    #[arg(long, value_name = "FILE")]
    pub tables: Option<PathBuf>,
    #[command(flatten)]
    pub token: TokenArgs,
    #[command(flatten)]
    pub certificate: CertificateArgs,
    /// Print on stderr what happens to statements, tasks and executors
    #[arg(long)]
    pub verbose: bool,
}

/// Run an executor, which holds shards and works on them, until Ctrl-C or SIGTERM
#[derive(clap::Args)]
pub struct ExecutorArgs {
    #[command(flatten)]
    pub url: SchedulerUrl,
    #[command(flatten)]
    pub certificate: CertificateArgs,
    /// Name of this node; each executor of a cluster has its own
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Address for the other processes
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// The name or address under which others reach this machine
    #[arg(long, value_name = "HOST")]
    pub external_host: Option<String>,
    /// Folder for rows that tasks pass on (the shuffle); default: a temporary one
    #[arg(long, value_name = "FOLDER", conflicts_with = "shuffle")]
    pub work_dir: Option<PathBuf>,
    /// Keep these rows in memory of a tier or node, or of several nodes alike (1:1,2:1): in a tmpfs
    /// that this process alone sees. Needs the right to mount; without it, mount one and give
    /// --work-dir
    #[arg(long, value_name = "PLACE")]
    pub shuffle: Option<PlacementSpec>,
    /// Space for these rows; default: half of the memory of the nodes
    #[arg(long, value_name = "SIZE", requires = "shuffle")]
    pub shuffle_size: Option<Bytes>,
    /// Print on stderr what happens to tasks
    #[arg(long)]
    pub verbose: bool,
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Load a Parquet file, or make the tables of a benchmark, on the nodes of a cluster
#[derive(clap::Args)]
pub struct ClusterLoadArgs {
    #[command(flatten)]
    pub url: SchedulerUrl,
    /// A Parquet file that every node can read under the same path, or ssb, tpch or tpcds: each
    /// node makes its own part of their tables
    #[arg(value_name = "WHAT")]
    pub what: String,
    /// Name of the table; default: that of the file
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Put each row into the shard that the hash of this column says; tables that are sharded by
    /// the columns that join them are joined where they lie
    #[arg(long, value_name = "COLUMN", conflicts_with = "everywhere")]
    pub by: Option<String>,
    /// Put the whole table on every node, for tables that others are joined with
    #[arg(long)]
    pub everywhere: bool,
    /// Number of shards
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub shards: u32,
    /// Number of nodes that hold each shard
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub replicas: u32,
    /// Scale factor of a benchmark
    #[arg(long, value_name = "SF", default_value_t = 1.0)]
    pub sf: f64,
}

/// Run queries on a cluster
#[derive(clap::Args)]
pub struct SqlArgs {
    #[command(flatten)]
    pub url: SchedulerUrl,
    /// The query; several are run one after another, on the same connections
    #[arg(value_name = "QUERY", required = true)]
    pub queries: Vec<String>,
    /// Print how it would run: what each node does, with which shards, and on which tiers they lie
    #[arg(long)]
    pub explain: bool,
    /// Format of the rows: table, csv, json or jsonl
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: String,
    /// Do the end of a query here if the nodes' part of it gives at most SIZE of rows, else on the
    /// nodes; 0 to have them do all work
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub direct: Bytes,
    /// What does the end of a query on the nodes
    #[arg(long, value_name = "BACKEND", default_value = "distributed")]
    pub backend: ClusterBackend,
    /// Print the time that each query took
    #[arg(long)]
    pub timing: bool,
}

/// Show nodes, tables and who holds them
#[derive(clap::Args)]
pub struct ClusterStatusArgs {
    #[command(flatten)]
    pub url: SchedulerUrl,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
