//! What memory costs: the cheapest configurations over the demand for memory.

use crate::Provenance;
use serde::{Deserialize, Serialize};

/// The result of one `tierloom cost`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Always modelled: prices are assumptions with a source.
    pub provenance: Provenance,
    /// When the record was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// Name of the price file, or of the built-in prices.
    pub prices: String,
    /// Currency of all prices ("US$").
    pub currency: String,
    /// Day or month of the prices.
    pub as_of: String,
    /// The compared kinds of configuration, in the order of [`CostPoint::cheapest`].
    ///
    /// For example "CPU memory" and "CPU memory + 1 CXL device".
    pub kinds: Vec<String>,
    /// The cheapest configuration of each kind, by demand.
    pub points: Vec<CostPoint>,
    /// Findings as text, with the assumption that each depends on most.
    pub findings: Vec<String>,
    /// How much the findings change with single assumptions.
    pub sensitivities: Vec<CostSensitivity>,
    /// Machine profile and workload of the modelled throughput; `None` if it was not asked for.
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

/// One memory configuration of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostConfig {
    /// Description ("1 CPU, 16 x 64 GiB DDR5, 2 devices of 8 x 128 GiB DDR4").
    pub words: String,
    /// Price, in the currency of the record.
    pub price: f64,
    /// Memory at the CPUs, GiB.
    pub dram_gib: u64,
    /// Memory behind CXL, GiB.
    pub cxl_gib: u64,
    /// Modelled query throughput, queries per hour; `None` if it was not asked for.
    pub queries_per_hour: Option<f64>,
}

/// The effect of changing one assumption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostSensitivity {
    /// The assumption ("price of DDR5 256 GiB").
    pub assumption: String,
    /// How it was changed ("-20%").
    pub change: String,
    /// What changes in the findings, as text.
    pub effect: String,
    /// Largest saving after the change, 0 to 1.
    pub largest_saving: f64,
}
