//! Command line arguments of `tierloom sql`, unchecked; [`super::plan`] resolves them.

use crate::commands::pool::access::AccessArgs;
use crate::commands::topology::MachineArgs;
use clap::ValueEnum;
use std::path::PathBuf;

/// When the data of a pool's tables are checked
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum VerifyArg {
    /// Where they are first used, and slowly in the background
    #[default]
    FirstUse,
    /// Before the first statement
    All,
    /// Not at all; only what describes the tables is checked
    Manifest,
}

/// How CSV files are read
#[derive(clap::Args)]
pub struct CsvArgs {
    /// Field separator of CSV files, one character; default: a comma, or a tab in .tsv files
    #[arg(long, value_name = "CHAR")]
    pub csv_delimiter: Option<String>,
    /// CSV files have no header line; columns are named column_1, column_2, ...
    #[arg(long)]
    pub csv_no_header: bool,
    /// Rows of each CSV file used to infer types; 0 for all
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub csv_infer_rows: usize,
    /// Text that represents NULL in CSV files, as in --csv-null NA; repeat for more. An empty field
    /// is always NULL
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub csv_null: Vec<String>,
}

/// The tables that a session has from the start
#[derive(clap::Args)]
pub struct TablesArgs {
    /// Load PATH as table NAME: a CSV, Parquet or Arrow IPC file, or a folder of files of one kind;
    /// repeat for more tables
    #[arg(short = 't', long = "table", value_name = "NAME=PATH")]
    pub tables: Vec<String>,
    /// Use the tables of a pool, named by its first member; files of --table are kept in it, and
    /// attached instead of loaded if the pool has them as they are
    #[arg(long, value_name = "POOL")]
    pub pool: Option<PathBuf>,
    /// When the data of the pool's tables are checked against their checksums
    #[arg(long, value_enum, default_value_t, requires = "pool")]
    pub verify: VerifyArg,
    #[command(flatten)]
    pub pool_access: AccessArgs,
    /// Generate benchmark data as tables: ssb:SF, tpch:SF or tpcds:SF (scale factor); repeat for
    /// more
    #[arg(long, value_name = "WHAT:SF")]
    pub generate: Vec<String>,
    #[command(flatten)]
    pub csv: CsvArgs,
}

/// Where a session keeps its columns, and what it runs on
#[derive(clap::Args)]
pub struct SessionArgs {
    /// Where columns are placed: dram, cxl, a node, weights (3:2, dram:3,cxl:2), tier, columns:N,
    /// columns:P%
    #[arg(long, value_name = "PLACEMENT", default_value = "dram")]
    pub placement: String,
    /// Worker threads; default: all CPUs this process may use
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Page size of columns: 4k, thp, 2m or 1g (2m and 1g require a hugetlb pool)
    #[arg(long, value_name = "SIZE", default_value = "thp")]
    pub pages: String,
    #[command(flatten)]
    pub here: MachineArgs,
}

/// Run SQL on CSV, Parquet and Arrow files, loaded into placed memory
///
/// Without -c or -f, statements come from the terminal (end them with a semicolon; .help lists
/// commands) or from a pipe. Rows go to stdout, everything else to stderr.
#[derive(clap::Args)]
pub struct Args {
    /// Run these statements (several separated by semicolons) and exit
    #[arg(
        short = 'c',
        long = "command",
        value_name = "SQL",
        conflicts_with = "file"
    )]
    pub command: Option<String>,
    /// Run the statements of FILE and exit
    #[arg(short = 'f', long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub load: TablesArgs,
    /// Output format of rows: table, csv, json (one array; NaN and infinities as strings), jsonl or
    /// arrow (IPC stream)
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: String,
    /// Write the rows to FILE, complete or not at all (arrow: in the file format)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Limit on the printed rows of a table; 0 for all. Other formats are never cut
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub max_rows: usize,
    /// Print the time of each statement on stderr
    #[arg(long)]
    pub timing: bool,
    #[command(flatten)]
    pub session: SessionArgs,
}
