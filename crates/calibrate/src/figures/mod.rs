//! Published figures: numbers and relations with the experiment that gave them, in a form that the
//! model can compute.
//!
//! A figure keeps the published value unchanged; how it is compared depends on its [`Quantity`],
//! and what agreement means on its [`Role`].

mod curve;
pub(crate) mod parse;
mod placement;
mod quantity;
mod role;

pub use parse::check_unique;
pub use quantity::{Quantity, Relation};
pub use role::Role;

use std::fmt;
use tierloom_model::reference::work::Work;
use tierloom_model::{Background, Placement};

/// Only supported version of the format.
///
/// Version 1 had two roles, which were too coarse (docs/figures.md).
pub const FIGURES_SCHEMA: &str = "tierloom-figures/2";

/// Default uncertainty of a figure (one standard deviation), per cent.
pub const NOISE_PERCENT: f64 = 3.0;

/// All figures of one publication.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureFile {
    /// File as named by the caller.
    pub file: String,
    /// Key of the publication ("EPFL25").
    pub paper: String,
    /// Full citation: authors, title, venue, year.
    pub citation: String,
    /// Figures in the order of the file; every point of a curve is one.
    pub figures: Vec<FigurePoint>,
}

/// One published number or relation, with the experiment that the model computes for comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct FigurePoint {
    /// Name, unique over all files; points of a curve are called `CURVE@X`.
    pub id: String,
    /// Name of the curve, or a name that several figures share to be shown together; empty for a
    /// single figure.
    pub series: String,
    /// Position on the curve: axis and value; `None` for a single figure.
    pub x: Option<(String, f64)>,
    /// Key of the publication.
    pub paper: String,
    /// Description in one line, for people.
    pub what: String,
    /// How the figure was used before it was compared with the model.
    pub role: Role,
    /// What was chosen by hand with the figure in view; always present for [`Role::Chosen`].
    pub because: Option<String>,
    /// Quantity that is compared.
    pub quantity: Quantity,
    /// Published value in the unit of the quantity; `None` if only a relation was published.
    pub published: Option<f64>,
    /// Published relation; `None` if only a value was published.
    pub relation: Option<Relation>,
    /// Experiment that the model computes.
    pub setting: Experiment,
    /// Reference experiment of ratios and gains.
    pub versus: Option<Experiment>,
    /// Uncertainty of the published number (one standard deviation), per cent.
    pub noise_percent: f64,
    /// Place in the publication, and how the number was read; empty if not stated.
    pub source: String,
    /// Known reason for a miss: what the model lacks.
    pub remark: Option<String>,
    /// File that the figure was read from.
    pub file: String,
    /// Line of the figure or point, from 1.
    pub line: u64,
}

/// Experiment: work on a machine with a placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Name or path of the machine profile.
    pub machine: String,
    /// Work that runs; groups may override it.
    pub work: Work,
    /// Number of workers; `None` for all cores of the machine.
    pub threads: Option<u32>,
    /// Placement of the structures on tiers.
    pub placement: Placement,
    /// Structures whose share is varied or optimised; empty for all.
    pub moves: Vec<String>,
    /// Background load on the tiers.
    pub background: Vec<Background>,
    /// Groups of workers that run at the same time, instead of `threads` and `placement`.
    pub groups: Vec<Group>,
    /// Tier whose latency or utilisation is the quantity, and that shares refer to.
    pub tier: String,
    /// Constants that the modelled value is multiplied by.
    pub tool: Vec<String>,
    /// Constants that are added to the compute time per tuple, ns.
    pub compute: Vec<String>,
}

/// Workers with their own placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Number of workers, at least 1.
    pub threads: u32,
    /// Placement of the structures of this group.
    pub placement: Placement,
    /// Work of this group; `None` for that of the setting.
    pub work: Option<Work>,
}

impl FigurePoint {
    /// Names of the machines that the figure refers to.
    pub fn machines(&self) -> impl Iterator<Item = &str> {
        self.settings().map(|s| s.machine.as_str())
    }

    /// Names of the constants that the figure refers to.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.settings()
            .flat_map(|s| s.tool.iter().chain(&s.compute))
            .map(String::as_str)
    }

    fn settings(&self) -> impl Iterator<Item = &Experiment> {
        std::iter::once(&self.setting).chain(&self.versus)
    }
}

/// Writes `file:line: figure "id"`, for messages.
impl fmt::Display for FigurePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: figure {:?}", self.file, self.line, self.id)
    }
}
