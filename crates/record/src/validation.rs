//! Comparisons of published figures with modelled ones.

use crate::Provenance;
use serde::{Deserialize, Serialize};

/// One comparison of the model with publications: all figures of one `tierloom validate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidationRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Always modelled: the published values are in [`FigureRecord::published`].
    pub provenance: Provenance,
    /// When the record was made, RFC 3339.
    pub made_at: String,
    /// Version of the program.
    pub tool_version: String,
    /// Names of the model terms that were switched off.
    pub terms_off: Vec<String>,
    /// The figures, those with role "check" first.
    pub figures: Vec<FigureRecord>,
    /// Error statistics by role; missing in records of earlier versions.
    #[serde(default)]
    pub summaries: Vec<FigureSummary>,
}

/// Error statistics of the figures of one role, for one publication or for all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureSummary {
    /// Key of the publication; `None` for all together.
    pub paper: Option<String>,
    /// Role of the figures, as in [`FigureRecord::role`].
    pub role: String,
    /// Number of figures with this role.
    pub figures: usize,
    /// Number of figures with an error.
    pub with_error: usize,
    /// Median of the absolute relative errors (0.05 is 5%); `None` without any.
    pub median: Option<f64>,
    /// 90th percentile of the absolute errors: the smallest one that nine of ten do not exceed.
    pub p90: Option<f64>,
    /// Largest absolute error; `None` without any.
    pub max: Option<f64>,
    /// Number of figures with a sign or a relation.
    pub judged: usize,
    /// Names of those whose sign or relation the model misses.
    pub wrong: Vec<String>,
}

/// One published figure and the model's value for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureRecord {
    /// Name in the figures file ("epfl25-read-snc4-best").
    pub id: String,
    /// Key of the publication ("EPFL25").
    pub paper: String,
    /// What the figure is, as text.
    pub what: String,
    /// Name of the curve that the figure is a point of ("hpi25-fig4-random-reads"), or empty.
    pub series: String,
    /// Position on the curve: the value of what varies (24 threads); `None` without a curve.
    #[serde(default)]
    pub x: Option<f64>,
    /// What varies along the curve ("threads", "skip"); empty without a curve.
    #[serde(default)]
    pub x_name: String,
    /// How the figure relates to the choices that the model was made with.
    ///
    /// "check": nothing was chosen with it in view; "fitted": a fit used it; "chosen": a number or
    /// a definition was chosen by hand with it in view; "implied": it follows from fitted ones.
    /// Records of earlier versions have "calibration" where a fit may have used it.
    pub role: String,
    /// What was chosen with the figure in view; `None` for other roles.
    #[serde(default)]
    pub because: Option<String>,
    /// Name of the machine profile.
    pub machine: String,
    /// Unit of the values ("GB/s", "%", "ns", "x").
    pub unit: String,
    /// The published value; `None` where only a relation is published.
    pub published: Option<f64>,
    /// The published relation as text ("above 0", "between 350 and 480"); `None` if there is none.
    pub relation: Option<String>,
    /// The modelled value, in the same unit.
    pub modelled: f64,
    /// Signed relative error, modelled / published - 1; `None` if the figure has no value or scale.
    ///
    /// Gains in per cent are compared as speed-ups (+72% is 1.72).
    pub error: Option<f64>,
    /// Whether the relation holds or the sign of a gain agrees; `None` if the figure has neither.
    pub agrees: Option<bool>,
    /// What the model lacks, where it is known to miss the figure.
    pub remark: Option<String>,
    /// The nearest figure that a fit used; `None` if there is none, and in records of earlier
    /// versions.
    #[serde(default)]
    pub nearest: Option<NearestFigure>,
}

/// The figure that a fit used and whose experiment is most like this one's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NearestFigure {
    /// Name of the fitted figure.
    pub id: String,
    /// Distance between the two experiments, 0 if they are the same; from 1 on a check is hard.
    pub distance: f64,
    /// What differs ("machine", "work", "parameters", "placement", "threads", "quantity", "other
    /// load", "groups").
    pub differs: Vec<String>,
}
