//! Options of `tierloom pool`.

use super::access::{Access, Reach};
use super::blocks::BlocksArgs;
use crate::commands::sql::CsvArgs;
use clap::{Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use tierloom_pool::{Coherence, OpenOptions};
use tierloom_text::{Bytes, Seconds};

/// Make and examine pools: memory in files or DAX devices that keeps tables over restarts
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub command: PoolCommand,
}

#[derive(Subcommand)]
pub enum PoolCommand {
    Create(CreateArgs),
    Status(StatusArgs),
    Load(LoadArgs),
    Check(CheckArgs),
    Grow(GrowArgs),
    Shrink(ShrinkArgs),
    Drop(DropArgs),
    Fence(FenceArgs),
    Takeover(TakeoverArgs),
    Serve(ServeArgs),
    Blocks(BlocksArgs),
}

/// Options of every command that opens a pool
#[derive(clap::Args)]
pub struct ManagerArgs {
    /// Name of this host in the pool, for machines without an identity of their own
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Where a further member of the pool is now, if it has moved; repeat for each
    #[arg(long = "member-at", value_name = "PATH")]
    members: Vec<PathBuf>,
    /// Open the newest state that is whole, if a newer one may have been damaged
    #[arg(long)]
    skip_damaged: bool,
    /// File with the token of a manager that is reached over TCP; default: $TIERLOOM_TOKEN or
    /// ~/.config/tierloom/token
    #[arg(long, value_name = "FILE", help_heading = "Several hosts")]
    token_file: Option<PathBuf>,
    /// Certificate that signed the manager's certificate (or is it), PEM
    #[arg(long, value_name = "FILE", help_heading = "Several hosts")]
    tls_ca: Option<PathBuf>,
    /// Allow unencrypted connections to other machines: anyone who reads the traffic learns the
    /// token
    #[arg(long = "allow-plain-remote", help_heading = "Several hosts")]
    allow_plain: bool,
}

impl ManagerArgs {
    pub fn access(&self) -> Access {
        Access {
            options: OpenOptions {
                host: self.host.clone(),
                members: self.members.clone(),
                skip_damaged: self.skip_damaged,
                ..OpenOptions::default()
            },
            reach: Reach {
                token_file: self.token_file.clone(),
                tls_ca: self.tls_ca.clone(),
                allow_plain: self.allow_plain,
            },
        }
    }

    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    pub fn allow_plain(&self) -> bool {
        self.allow_plain
    }
}

/// How a command that changes something reports
#[derive(clap::Args)]
pub struct ChangeArgs {
    /// Check and print what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the pool's status as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub manager: ManagerArgs,
}

/// Whether processors of several hosts see each other's stores
#[derive(Clone, Copy, ValueEnum)]
pub enum CoherenceArg {
    /// All users are on one host
    Host,
    /// Several hosts, whose caches are not coherent
    None,
    /// Several hosts, kept coherent by the hardware
    Hardware,
}

impl CoherenceArg {
    pub fn value(self) -> Coherence {
        match self {
            Self::Host => Coherence::Host,
            Self::None => Coherence::None,
            Self::Hardware => Coherence::Hardware,
        }
    }
}

/// Make a pool of new files and of DAX devices
#[derive(clap::Args)]
pub struct CreateArgs {
    /// Files to make, or DAX devices; the first one gets the pool's own data too
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Size of each file, as in 8GiB; devices are taken whole
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Coherence of its users' caches; default: host for files, none for devices
    #[arg(long, value_enum)]
    pub coherence: Option<CoherenceArg>,
    /// Overwrite what the files or devices hold
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Show members, hosts, tables and free memory of a pool; works while another process has it open
#[derive(clap::Args)]
pub struct StatusArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Load files as tables into a pool; tables of the same names are replaced, all at once
///
/// A table that the pool has exactly as its files are now is not loaded again.
#[derive(clap::Args)]
pub struct LoadArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Load PATH as table NAME: a CSV, Parquet or Arrow IPC file, or a folder of files of one kind;
    /// repeat for more tables
    #[arg(short = 't', long = "table", value_name = "NAME=PATH", required = true)]
    pub tables: Vec<String>,
    #[command(flatten)]
    pub csv: CsvArgs,
    /// Worker threads; default: all CPUs this process may use
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Check the checksums of a pool; exit code 1 if something is damaged
#[derive(clap::Args)]
pub struct CheckArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Also check every byte of every table; no other process may have the pool open
    #[arg(long)]
    pub data: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub manager: ManagerArgs,
}

/// Make a pool larger: a longer file, a device that has become larger, or a further member
#[derive(clap::Args)]
pub struct GrowArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// New size of a member, or size of the file to add; a device becomes larger through sysfs, and
    /// without this, all that it has by now is taken
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Number of the member to make larger
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "member")]
    pub index: u32,
    /// File to make and add, or DAX device to add
    #[arg(long, value_name = "PATH")]
    pub member: Option<PathBuf>,
    /// Add every DAX device of this machine that can be mapped and is not in the pool
    #[arg(long, conflicts_with_all = ["member", "index", "size"])]
    pub devices: bool,
    /// Add only devices with this uuid: what a fabric manager calls an allocation of dynamic
    /// capacity
    #[arg(long, value_name = "UUID", requires = "devices")]
    pub tag: Option<uuid::Uuid>,
    /// Overwrite what the added file or device holds
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Make a member of a pool smaller, or remove it; tables on it move into free memory first
///
/// Nothing changes if they do not all fit. A DAX device becomes smaller afterwards, through sysfs:
/// as root, and with nobody else on this host using the pool. With --remove the whole member is
/// given back: a device keeps its size, a file on one host is left empty.
#[derive(clap::Args)]
pub struct ShrinkArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Size that the member shall have at most
    #[arg(
        long,
        visible_alias = "to",
        value_name = "SIZE",
        required_unless_present = "remove"
    )]
    pub size: Option<Bytes>,
    /// Remove the member, which cannot be the first one
    #[arg(long, conflicts_with_all = ["size", "keep_device"], requires = "index")]
    pub remove: bool,
    /// Number of the member to make smaller
    #[arg(long, visible_alias = "member", value_name = "N", default_value_t = 0)]
    pub index: u32,
    /// Leave a DAX device as long as it is; the pool uses less of it
    #[arg(long)]
    pub keep_device: bool,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Drop a table; its memory is free once nobody reads it any more
#[derive(clap::Args)]
pub struct DropArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the table
    pub table: String,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Exclude a host that does not answer; what it was writing goes to quarantine
#[derive(clap::Args)]
pub struct FenceArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the host, as `pool status` shows it
    #[arg(value_name = "HOST")]
    pub fenced: String,
    /// The host is switched off or cut off from the memory: free all that it had
    #[arg(long)]
    pub confirmed_down: bool,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Make this host the one that manages the pool; the host that did must be down
#[derive(clap::Args)]
pub struct TakeoverArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Manage a pool for other processes and hosts, until Ctrl-C
///
/// While it runs, every command with this pool goes through it, and several can have the pool open
/// at once.
#[derive(clap::Args)]
pub struct ServeArgs {
    /// First member of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Where requests are taken: a Unix socket or an address; default: a socket beside a file,
    /// POOL.sock
    #[arg(long, value_name = "unix:PATH|ADDR:PORT")]
    pub listen: Option<String>,
    /// Address that clients connect to, if it is another one, as in db7:7272
    #[arg(long, value_name = "HOST:PORT")]
    pub announce: Option<String>,
    /// A client on another host that gives no sign of life for two leases is fenced
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub lease: Seconds,
    /// TLS certificate, PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        help_heading = "Several hosts"
    )]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "Several hosts"
    )]
    pub tls_key: Option<PathBuf>,
    #[command(flatten)]
    pub access: ManagerArgs,
}
