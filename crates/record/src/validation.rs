//! Published figures against modelled ones.

use crate::Provenance;
use serde::{Deserialize, Serialize};

/// One comparison of the model with publications: all figures of one invocation of `tierloom validate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidationRecord {
    /// [`crate::SCHEMA`].
    pub schema: String,
    /// Always modelled: what is compared with stands in `published`.
    pub provenance: Provenance,
    /// When it was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// Terms of the model that were switched off.
    pub terms_off: Vec<String>,
    /// The figures, those that are checks first.
    pub figures: Vec<FigureRecord>,
    /// The same figures added up, apart by role; older records have none.
    #[serde(default)]
    pub summaries: Vec<FigureSummary>,
}

/// Figures of one role, of all publications or of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureSummary {
    /// Key of the publication; `None` for all together.
    pub paper: Option<String>,
    /// Their role, as in [`FigureRecord::role`].
    pub role: String,
    /// Figures.
    pub figures: usize,
    /// Figures with an error.
    pub with_error: usize,
    /// Median of the sizes of the errors, 0 to 1; `None` without any.
    pub median: Option<f64>,
    /// The smallest size that nine of ten errors do not exceed.
    pub p90: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
    /// Figures with a sign or a relation.
    pub judged: usize,
    /// Names of those that do not agree.
    pub wrong: Vec<String>,
}

/// One published figure and what the model says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureRecord {
    /// Its name in the figures file ("epfl25-read-snc4-best").
    pub id: String,
    /// Key of the publication ("EPFL25").
    pub paper: String,
    /// What it is, for people.
    pub what: String,
    /// Group of figures that make one curve ("hpi25-fig4-random-reads"); empty if it stands alone.
    pub series: String,
    /// Place in its series: the value of what varies (24 threads); `None` if it stands alone.
    #[serde(default)]
    pub x: Option<f64>,
    /// What varies in the series ("threads", "skip"); empty if it stands alone.
    #[serde(default)]
    pub x_name: String,
    /// "check" (nothing was chosen with it in view), "fitted" (a fit used it), "chosen" (a number
    /// or a definition was chosen by hand with it
    /// in view) or "implied" (arithmetic on fitted ones). Older records say "calibration" where a
    /// fit may have seen it.
    pub role: String,
    /// What was chosen with it in view; `None` for other roles.
    #[serde(default)]
    pub because: Option<String>,
    /// The machine profile.
    pub machine: String,
    /// Unit of the numbers ("GB/s", "%", "ns", "x").
    pub unit: String,
    /// The published value; `None` where only a relation is published.
    pub published: Option<f64>,
    /// The published relation in words ("above 0", "between 350 and 480"), if there is one.
    pub relation: Option<String>,
    /// What the model gives, in the same unit.
    pub modelled: f64,
    /// Relative error, signed: modelled over published minus 1, where the figure has a value and a scale. Gains in per cent are compared
    /// as speed-ups (+72% is 1.72).
    pub error: Option<f64>,
    /// Whether the relation holds, or the sign of a gain agrees; `None` if the figure has neither.
    pub agrees: Option<bool>,
    /// What the model lacks, where it is known to miss.
    pub remark: Option<String>,
}
