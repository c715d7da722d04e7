//! What memory costs: prices of configurations over the demand for memory.

use crate::Provenance;
use serde::{Deserialize, Serialize};

/// One invocation of `tierloom cost`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostRecord {
    /// [`crate::SCHEMA`].
    pub schema: String,
    /// Always modelled: prices are assumptions with a source.
    pub provenance: Provenance,
    /// When it was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// Name of the price file or of the built-in prices.
    pub prices: String,
    /// Currency ("US$") and the day of the prices.
    pub currency: String,
    /// Day or month that the prices are of.
    pub as_of: String,
    /// The kinds of configuration that were compared ("CPU memory", "CPU memory + 1 CXL device", ...), in the order of columns.
    pub kinds: Vec<String>,
    /// The cheapest configuration of each kind by demand.
    pub points: Vec<CostPoint>,
    /// Findings in words, with the assumption that decides each.
    pub findings: Vec<String>,
    /// How much the findings move when one assumption changes.
    pub sensitivities: Vec<CostSensitivity>,
    /// The machine profile and workload that throughput per cost was modelled with, if asked for.
    pub throughput_of: Option<String>,
}

/// The cheapest configurations for one demand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostPoint {
    /// Demand for memory, GiB.
    pub demand_gib: u64,
    /// One per kind; `None` if no configuration of that kind is large enough.
    pub cheapest: Vec<Option<CostConfig>>,
}

/// A configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostConfig {
    /// In words ("1 CPU, 16 x 64 GiB DDR5, 2 devices of 8 x 128 GiB DDR4").
    pub words: String,
    /// Price.
    pub price: f64,
    /// DRAM at the CPUs, GiB.
    pub dram_gib: u64,
    /// CXL memory, GiB.
    pub cxl_gib: u64,
    /// Modelled query throughput, queries per hour, if asked for.
    pub queries_per_hour: Option<f64>,
}

/// What one assumption does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostSensitivity {
    /// The assumption ("price of DDR5 256 GiB").
    pub assumption: String,
    /// How it was changed ("-20%").
    pub change: String,
    /// What of the findings moves, in words.
    pub effect: String,
    /// Largest saving with the change, 0 to 1.
    pub largest_saving: f64,
}
