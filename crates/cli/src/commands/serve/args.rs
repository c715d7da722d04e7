//! Command line arguments of `tierloom serve`, unchecked.

use crate::commands::cluster::ServedCluster;
use crate::commands::sql::{SessionArgs, TablesArgs};
use std::path::PathBuf;
use tierloom_text::{Bytes, Seconds};

/// Serve tables to clients of PostgreSQL and Flight SQL, until Ctrl-C or SIGTERM
///
/// Every client has a session of its own on the same tables. Without names and passwords,
/// connections come from this machine alone.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("address").args(["pg", "flight", "metrics"]).required(true).multiple(true)))]
pub struct Args {
    /// Address for clients of PostgreSQL: IP:PORT (port 0 for a free one), or the path of a Unix
    /// socket such as /run/tierloom/.s.PGSQL.5432; repeat for more
    #[arg(long, value_name = "ADDRESS")]
    pub pg: Vec<String>,
    /// Address for clients of Flight SQL such as ADBC, IP:PORT (port 0 for a free one)
    #[arg(long, value_name = "ADDRESS")]
    pub flight: Option<String>,
    /// Names and passwords, a line NAME:PASSWORD each, in a file that nobody else can read. Without
    /// it, TIERLOOM_PASSWORD in the environment holds one password for all names
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// A name that may change settings of the machine and use its files; repeat for more. With
    /// neither passwords nor operators, everybody may
    #[arg(long, value_name = "NAME")]
    pub operator: Vec<String>,
    /// Certificate of the server, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Take connections of other machines without TLS
    #[arg(long)]
    pub allow_plain_clients: bool,
    /// Address of metrics over HTTP, IP:PORT: a page, /metrics for Prometheus, and what `tierloom
    /// top` shows
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// A file that nobody else can read, with the token that must be sent to see metrics; needed
    /// where other machines can reach them
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub metrics_token_file: Option<PathBuf>,
    /// Clients at the same time
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub connections: usize,
    /// Statements that run at the same time; others wait in order. Default: half of the worker
    /// threads, at least 2
    #[arg(long, value_name = "N")]
    pub running: Option<usize>,
    /// A statement waits for others to end while operators use this much memory, as in 8GiB
    #[arg(long, value_name = "SIZE")]
    pub operator_memory: Option<Bytes>,
    /// How long a statement waits for others before it fails
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub patience: Seconds,
    #[command(flatten)]
    pub cluster: ServedCluster,
    #[command(flatten)]
    pub load: TablesArgs,
    #[command(flatten)]
    pub session: SessionArgs,
}
