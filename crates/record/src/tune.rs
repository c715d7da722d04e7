//! The best weights of a phase, modelled or searched for by measuring.

use crate::Provenance;
use serde::{Deserialize, Serialize};

/// Weights of one phase on one machine: one phase of one invocation of `tierloom tune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuneRecord {
    /// [`crate::SCHEMA`].
    pub schema: String,
    /// Modelled, or measured with `--measure`.
    pub provenance: Provenance,
    /// When it was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// The machine profile, or [`crate::HERE`].
    pub machine: String,
    /// The phase ("scan", "probe").
    pub phase: String,
    /// What the phase does, for people.
    pub what: String,
    /// Workers.
    pub workers: u32,
    /// Unit of the rates ("GB/s", "Mtuples/s").
    pub unit: String,
    /// Points along the share of the second tier, by rising share: the curve of a chart.
    pub points: Vec<TunePoint>,
    /// The best weights, "dram 3, cxl 2".
    pub best: Vec<TierWeight>,
    /// Rate with them.
    pub best_rate: f64,
    /// Rate with everything on the first tier.
    pub dram_rate: f64,
    /// Weights that the kernel would choose by itself (ratio of the peak bandwidths) and their rate.
    pub kernel: Vec<TierWeight>,
    /// Rate with the kernel's weights.
    pub kernel_rate: f64,
    /// Range of the best share of the second tier over the uncertainty of the profile; `None` when measured.
    pub best_share_range: Option<(f64, f64)>,
    /// Range of the gain over DRAM only, as a factor, when the recommended weights meet a machine within the profile's uncertainty.
    pub gain_range: Option<(f64, f64)>,
    /// Weights that a reader has to be warned of, and other remarks.
    pub warnings: Vec<String>,
}

/// A weight of a tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierWeight {
    /// The tier's name.
    pub tier: String,
    /// Pages per round.
    pub weight: u32,
}

/// The rate at a share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunePoint {
    /// Share of the pages that are not on the first tier, 0 to 1.
    pub share: f64,
    /// Rate; the median when measured.
    pub rate: f64,
    /// Smallest and largest: over repetitions when measured, over the profile's uncertainty when modelled.
    pub low: Option<f64>,
    /// See `low`.
    pub high: Option<f64>,
    /// Modelled or measured.
    pub provenance: Provenance,
}
