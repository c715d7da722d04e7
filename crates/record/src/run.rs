//! What opens a run: settings, machine, data.

use crate::{AuditRecord, Spread};
use serde::{Deserialize, Serialize};

/// What was asked for, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// SSB scale factor.
    pub scale_factor: f64,
    /// Seed of the generator.
    pub seed: u64,
    /// Version of the generator's data; figures of different versions are not comparable.
    pub generator_version: u32,
    /// Worker threads.
    pub threads: u32,
    /// Worker threads assumed on modelled machines ("all cores", or a number).
    pub modelled_workers: String,
    /// Timed executions per query and placement.
    pub repeat: u32,
    /// Untimed executions before them.
    pub warmup: u32,
    /// Page size asked for ("4k", "thp", "2m", "1g").
    pub page_size: String,
    /// Rows per batch handed to operators.
    pub batch_rows: u32,
    /// Queries in the order they ran.
    pub queries: Vec<String>,
    /// Placements as typed.
    pub placements: Vec<String>,
    /// Machine profiles by name.
    pub machines: Vec<String>,
    /// Pure CPU time per tuple forced on the model instead of the measured one, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_per_tuple_ns: Option<f64>,
}

/// One cache level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheCard {
    /// 1, 2 or 3.
    pub level: u32,
    /// "data", "instruction" or "unified".
    pub kind: String,
    /// Size of one instance.
    pub size_bytes: u64,
    /// Instances in the machine.
    pub count: u32,
}

/// A tier of the machine that ran the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostTier {
    /// "dram", "hbm", "cxl" or "remote".
    pub kind: String,
    /// Its NUMA nodes.
    pub nodes: Vec<u32>,
    /// Memory of these nodes.
    pub memory_bytes: u64,
    /// Why it is called that.
    pub reason: String,
}

/// Quick measurement made on the loaded columns in the same run, used to split measured time into compute and memory time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeCard {
    /// Sequential read bandwidth of one thread, GB/s, a sample per column.
    pub read_gbps_one_thread: Spread,
    /// Sequential read bandwidth of all worker threads together, GB/s.
    pub read_gbps_all_threads: Spread,
    /// Bytes of the columns that were read; caches larger than that take part in the figure.
    pub footprint_bytes: u64,
}

/// The machine that ran the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostCard {
    /// Processor model.
    pub cpu_model: String,
    /// Logical CPUs that the process may use.
    pub cpus: u32,
    /// Hardware threads per core.
    pub smt: u32,
    /// Caches.
    pub caches: Vec<CacheCard>,
    /// Kernel release.
    pub kernel: String,
    /// Transparent huge page mode ("madvise").
    pub thp: String,
    /// Automatic NUMA balancing, if readable.
    pub numa_balancing: Option<String>,
    /// CPU frequency governor, or why it is not known.
    pub governor: String,
    /// Total memory of all nodes.
    pub memory_bytes: u64,
    /// Tiers and their nodes.
    pub tiers: Vec<HostTier>,
    /// The quick measurement, if one was made.
    pub probe: Option<ProbeCard>,
    /// What could not be found out, and why.
    pub notes: Vec<String>,
}

/// One number of a machine profile with its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is ("dram read").
    pub label: String,
    /// Its value in `unit`.
    pub value: f64,
    /// "GB/s", "ns", "GiB", "lines".
    pub unit: String,
    /// "published", "derived", "assumed" or "measured".
    pub kind: String,
    /// Where it is from.
    pub source: String,
}

/// A machine profile used for modelled figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineCard {
    /// Its short name.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// Full citations.
    pub citations: Vec<String>,
    /// Its numbers.
    pub figures: Vec<Figure>,
}

/// One generated table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableCard {
    /// Table name.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Bytes of its columns.
    pub bytes: u64,
}

/// The data of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataCard {
    /// Tables.
    pub tables: Vec<TableCard>,
    /// Bytes of all columns.
    pub column_bytes: u64,
    /// Bytes of memory reserved for them (whole pages).
    pub region_bytes: u64,
}

/// Where one column lies under a placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnCard {
    /// "lineorder.lo_discount".
    pub column: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its placement ("dram", "cxl", "dram:3,cxl:2").
    pub placement: String,
    /// Bytes read from it by one round of the run's queries.
    pub read_bytes: u64,
}

/// One placement of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementCard {
    /// As typed.
    pub placement: String,
    /// What it means.
    pub meaning: String,
    /// True if the data was really placed so on this machine; false if only modelled.
    pub placed_here: bool,
    /// Why it was not placed here, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Column by column.
    pub columns: Vec<ColumnCard>,
    /// Page audit before the queries ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_before: Option<AuditRecord>,
    /// Page audit after them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_after: Option<AuditRecord>,
}

/// Opens a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`crate::SCHEMA`].
    pub schema: String,
    /// Unique name of the run.
    pub run_id: String,
    /// Version of Tierloom.
    pub tool_version: String,
    /// Commit it was built from, if known.
    pub commit: Option<String>,
    /// Build profile ("release", "dev").
    pub build: String,
    /// Start, RFC 3339, UTC.
    pub started_at: String,
    /// The command line.
    pub command: Vec<String>,
    /// "ssb".
    pub workload: String,
    /// What was asked for.
    pub settings: Settings,
    /// The machine that ran the command.
    pub host: HostCard,
    /// The machines that were modelled.
    pub machines: Vec<MachineCard>,
    /// The data.
    pub data: DataCard,
}
