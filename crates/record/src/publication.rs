//! Published figures beside the runs of `tierloom bench` that repeat their experiments.

use crate::{FigureRecord, Provenance};
use serde::{Deserialize, Serialize};

/// What one workload file repeats of a publication: the published figures, the model's values for
/// the publication's machine, and the runs that measure the same here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublicationRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Always modelled: published values are in [`FigureRecord::published`], measured ones in the
    /// records of the runs.
    pub provenance: Provenance,
    /// When the record was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// Key of the publication ("EPFL25").
    pub paper: String,
    /// Authors, title, venue and year.
    pub citation: String,
    /// The workload file.
    pub file: String,
    /// Factor of the command on the published sizes (`--scale`); 1 for the sizes themselves.
    pub scale: f64,
    /// The curves and single figures, in the order of the file.
    pub series: Vec<PublishedSeries>,
}

/// A published curve or a single figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedSeries {
    /// Name of the curve or figure, as in the workload file.
    pub name: String,
    /// What it is, as text.
    pub what: String,
    /// Name of the workload that repeats it.
    pub workload: String,
    /// Line of the entry in the workload file, from 1.
    pub line: u64,
    /// Key that varies along the curve; `None` for a single figure.
    pub x_name: Option<String>,
    /// Phase of the operator that it is about ("probe"); `None` for all phases that are counted.
    pub phase: Option<String>,
    /// What is compared ("gbps", "gain_percent", "best_share"), see `docs/figures.md`.
    pub quantity: String,
    /// Unit of all values.
    pub unit: String,
    /// Bytes of a tuple that rates in GB/s count; `None` for works without.
    pub bytes_per_tuple: Option<f64>,
    /// The points; one for a single figure.
    pub points: Vec<PublishedPoint>,
}

/// One published figure, or a position on a curve at which only the runs here have a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedPoint {
    /// Position on the curve; `None` for a single figure.
    pub x: Option<f64>,
    /// The published value or relation and the modelled one; `None` if nothing was published here.
    pub figure: Option<FigureRecord>,
    /// The published relation holds from this value on; `None` without such a limit.
    pub relation_low: Option<f64>,
    /// The published relation holds up to this value; `None` without such a limit.
    pub relation_high: Option<f64>,
    /// Precision of the published number, per cent; a smaller gain has no sign.
    pub noise_percent: f64,
    /// The runs that measure it: one, or those of which the best one counts.
    pub runs: Vec<PublishedRun>,
    /// Id of the run that a ratio or gain is over; `None` for other quantities.
    pub versus: Option<String>,
    /// Why it cannot be measured here ("no node of tier cxl"); `None` if it can.
    pub left_out: Option<String>,
}

/// One run that measures a published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedRun {
    /// Id of the run, as in its record.
    pub run_id: String,
    /// Share of its placement outside DRAM, per cent; `None` unless the best placement is searched.
    pub share_percent: Option<f64>,
}
