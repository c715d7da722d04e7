//! The best weights of a phase, from the model or from a measured search.

use crate::Provenance;
use serde::{Deserialize, Serialize};

/// Weights of one phase on one machine; one phase of one invocation of `tierloom tune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuneRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Modelled, or measured with `--measure`.
    pub provenance: Provenance,
    /// When the record was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// Name of the machine profile, or [`crate::HERE`].
    pub machine: String,
    /// Name of the phase ("scan", "probe").
    pub phase: String,
    /// What the phase does, as text.
    pub what: String,
    /// Number of workers that run the phase at the same time.
    pub workers: u32,
    /// Unit of all rates ("GB/s", "Mtuples/s").
    pub unit: String,
    /// Rates over the share of pages that are not on the first tier, by increasing share.
    pub points: Vec<TunePoint>,
    /// The best weights found, one per tier ("dram 3, cxl 2").
    pub best: Vec<TierWeight>,
    /// Rate with the best weights.
    pub best_rate: f64,
    /// Rate with everything on the first tier.
    pub dram_rate: f64,
    /// Weights that the kernel would choose by itself: the ratio of the peak bandwidths.
    pub kernel: Vec<TierWeight>,
    /// Rate with the kernel's weights.
    pub kernel_rate: f64,
    /// Range of the best share of the second tier over the profile's uncertainty; `None` if
    /// measured.
    pub best_share_range: Option<(f64, f64)>,
    /// Range of the gain over DRAM only, as a factor; `None` if it was not computed.
    ///
    /// It applies to the recommended weights on machines within the profile's uncertainty.
    pub gain_range: Option<(f64, f64)>,
    /// Warnings about these weights, and other remarks.
    pub warnings: Vec<String>,
}

/// The weight of one tier in an interleaved placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierWeight {
    /// Name of the tier.
    pub tier: String,
    /// Number of consecutive pages per round.
    pub weight: u32,
}

/// The rate at one share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunePoint {
    /// Share of the pages that are not on the first tier, 0 to 1.
    pub share: f64,
    /// Rate; the median if measured.
    pub rate: f64,
    /// Smallest rate: over repetitions if measured, over the profile's uncertainty if modelled.
    pub low: Option<f64>,
    /// Largest rate, over the same range as `low`.
    pub high: Option<f64>,
    /// Whether this point was modelled or measured.
    pub provenance: Provenance,
}
