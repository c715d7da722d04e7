//! The first record of a run of queries: settings, machine, data.

use crate::{AuditRecord, Spread};
use serde::{Deserialize, Serialize};

/// The settings of a run, with defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Scale factor of the data.
    pub scale_factor: f64,
    /// Seed of the data generator.
    pub seed: u64,
    /// Version of the generator's data; figures over different versions are not comparable.
    pub generator_version: u32,
    /// Number of worker threads.
    pub threads: u32,
    /// Worker threads assumed on modelled machines: "all cores", or a number.
    pub modelled_workers: String,
    /// Number of timed executions per query and placement.
    pub repeat: u32,
    /// Number of untimed executions before the timed ones.
    pub warmup: u32,
    /// Requested page size: "4k", "thp", "2m" or "1g".
    pub page_size: String,
    /// Rows per batch that operators receive.
    pub batch_rows: u32,
    /// Names of the queries, in the order they ran.
    pub queries: Vec<String>,
    /// Placements as given on the command line.
    pub placements: Vec<String>,
    /// Names of the machine profiles that were modelled.
    pub machines: Vec<String>,
    /// CPU time per tuple that the model used instead of the measured one, ns; `None` if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_per_tuple_ns: Option<f64>,
}

/// Caches of one level and kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheCard {
    /// Cache level: 1, 2 or 3.
    pub level: u32,
    /// "data", "instruction" or "unified".
    pub kind: String,
    /// Size of one cache, bytes.
    pub size_bytes: u64,
    /// Number of such caches in the machine.
    pub count: u32,
}

/// A tier of the machine that ran the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostTier {
    /// "dram", "hbm", "cxl" or "remote".
    pub kind: String,
    /// Numbers of its NUMA nodes.
    pub nodes: Vec<u32>,
    /// Memory of these nodes, bytes.
    pub memory_bytes: u64,
    /// Why these nodes are assigned to this tier.
    pub reason: String,
}

/// Read bandwidth measured on the loaded columns in the same run.
///
/// It serves to divide measured time into compute and memory time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeCard {
    /// Sequential read bandwidth of one thread, GB/s, one value per column.
    pub read_gbps_one_thread: Spread,
    /// Sequential read bandwidth of all worker threads together, GB/s.
    pub read_gbps_all_threads: Spread,
    /// Bytes of the columns that were read; larger caches contribute to the figure.
    pub footprint_bytes: u64,
}

/// The machine that ran the command, or an agent's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostCard {
    /// Processor model as the kernel reports it.
    pub cpu_model: String,
    /// Number of logical CPUs that the process may use.
    pub cpus: u32,
    /// Number of hardware threads per core.
    pub smt: u32,
    /// Caches by level and kind.
    pub caches: Vec<CacheCard>,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Mode of transparent huge pages ("madvise"), or "unknown".
    pub thp: String,
    /// State of automatic NUMA balancing; `None` if it could not be read.
    pub numa_balancing: Option<String>,
    /// CPU frequency governor, or why it is not known.
    pub governor: String,
    /// Memory of all nodes with memory, bytes.
    pub memory_bytes: u64,
    /// Tiers and their nodes.
    pub tiers: Vec<HostTier>,
    /// Bandwidth probe; `None` in benchmark records and if none was made.
    pub probe: Option<ProbeCard>,
    /// What could not be determined, and why.
    pub notes: Vec<String>,
}

/// One number of a machine profile with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the number ("dram read").
    pub label: String,
    /// The number, in `unit`.
    pub value: f64,
    /// "GB/s", "ns", "GiB", "lines".
    pub unit: String,
    /// "published", "derived", "assumed", "measured" or "fitted".
    pub kind: String,
    /// The publication, measurement or reasoning that it comes from.
    pub source: String,
}

/// A machine profile that modelled figures were computed for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineCard {
    /// Short name of the profile.
    pub name: String,
    /// Description in one line.
    pub title: String,
    /// Full citations of the publications that its numbers come from.
    pub citations: Vec<String>,
    /// Its numbers with their sources.
    pub figures: Vec<Figure>,
    /// Scale factor of the figures modelled on it; `None` for that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_factor: Option<f64>,
    /// Bytes of the tables at that scale factor; `None` for those of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<u64>,
}

/// One generated or loaded table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableCard {
    /// Name of the table, as the queries spell it.
    pub name: String,
    /// Number of rows in the table.
    pub rows: u64,
    /// Bytes of its columns.
    pub bytes: u64,
}

/// The data of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataCard {
    /// The tables, with sizes.
    pub tables: Vec<TableCard>,
    /// Bytes of all columns.
    pub column_bytes: u64,
    /// Bytes of memory reserved for them, in whole pages.
    pub region_bytes: u64,
}

/// Placement and use of one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnCard {
    /// Table and column ("lineorder.lo_discount").
    pub column: String,
    /// Size of the column, bytes.
    pub bytes: u64,
    /// Where the column is placed ("dram", "cxl", "dram:3,cxl:2").
    pub placement: String,
    /// Bytes that the run's queries read from it, each query once.
    pub read_bytes: u64,
}

/// One placement of a run, with the page audits that verify it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementCard {
    /// Placement as given on the command line.
    pub placement: String,
    /// What it means, as text.
    pub meaning: String,
    /// True if the data was placed this way on this machine; false if it was only modelled.
    pub placed_here: bool,
    /// Why it was not placed on this machine; `None` if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Placement of each column.
    pub columns: Vec<ColumnCard>,
    /// Page audit before the queries ran; `None` if none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_before: Option<AuditRecord>,
    /// Page audit after the queries ran; `None` if none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_after: Option<AuditRecord>,
}

/// The first record of a run of queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Identifier of the run; its other records carry it too.
    pub run_id: String,
    /// Version of Tierloom that ran the command.
    pub tool_version: String,
    /// Git commit of the build; `None` if unknown.
    pub commit: Option<String>,
    /// Build profile, "release" or "dev".
    pub build: String,
    /// Start of the run, RFC 3339, UTC.
    pub started_at: String,
    /// The command line, one element per argument.
    pub command: Vec<String>,
    /// Benchmark of the queries ("ssb").
    pub workload: String,
    /// Settings with defaults filled in.
    pub settings: Settings,
    /// The machine that ran the command.
    pub host: HostCard,
    /// The machine profiles that were modelled.
    pub machines: Vec<MachineCard>,
    /// Tables and their sizes.
    pub data: DataCard,
}
