//! What a pool that hosts share costs, against memory for the peak of each.

use crate::Provenance;
use serde::{Deserialize, Serialize};

/// The result of one `tierloom cost --pool`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolCostRecord {
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
    /// Number of hosts.
    pub hosts: u32,
    /// The demand in a few words.
    pub demand: String,
    /// Highest demand of each host, GiB.
    pub own_peaks_gib: Vec<u64>,
    /// Highest demand of all hosts at one moment, GiB.
    pub joint_peak_gib: u64,
    /// Each host with CPU memory for its own peak; `None` if it cannot be built.
    pub own: Option<PoolCostOffer>,
    /// The same with CXL devices of its own where that is cheaper.
    pub own_cxl: Option<PoolCostOffer>,
    /// Hosts with a pool; `None` if it cannot be built.
    pub pool: Option<PoolCostOffer>,
    /// What the pool saves of the cheapest without one, as a share; below 0 if it costs more.
    pub saving: Option<f64>,
    /// Hosts from which on a pool is cheaper; `None` if there is no such number, or the demand was
    /// recorded.
    pub break_even_hosts: Option<u32>,
    /// Findings as sentences, the answer first.
    pub findings: Vec<String>,
    /// Every price at half and twice its value, those that matter most first.
    pub sensitivities: Vec<PoolCostSensitivity>,
}

/// Memory for all hosts, bought in one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolCostOffer {
    /// Each host, as text.
    pub hosts: Vec<String>,
    /// Devices in the pool; 0 without one.
    pub devices: u32,
    /// Boxes that hold them.
    pub boxes: u32,
    /// Memory at the CPUs of all hosts, GiB.
    pub dram_gib: u64,
    /// Memory of the pool, or of the hosts' own CXL devices, GiB.
    pub cxl_gib: u64,
    /// Price of everything, in the currency of the record.
    pub price: f64,
    /// Part of it for switch, adapters, boxes and devices of a pool.
    pub pool_price: f64,
    /// Memory that nobody uses at the moment of the highest joint demand, GiB.
    pub stranded_gib: u64,
}

/// What changes with one price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolCostSensitivity {
    /// The price, as `--set` names it.
    pub path: String,
    /// Its value.
    pub value: f64,
    /// What the pool saves at half of it, as a share.
    pub saving_at_half: Option<f64>,
    /// What it saves at twice of it.
    pub saving_at_twice: Option<f64>,
    /// The value at which the pool saves nothing; `None` if there is none.
    pub break_even: Option<f64>,
}
