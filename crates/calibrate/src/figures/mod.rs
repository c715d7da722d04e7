//! Published figures: what was measured where, in a form that the model can price.

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

/// The only version of the format. Version 1 knew two roles, which said too little (docs/figures.md).
pub const FIGURES_SCHEMA: &str = "tierloom-figures/2";

/// How exact a figure is taken to be if its file does not say, per cent.
pub const NOISE_PERCENT: f64 = 3.0;

/// All figures of one publication.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureFile {
    /// The file as named by the caller.
    pub file: String,
    /// Key of the publication ("EPFL25").
    pub paper: String,
    /// Its full citation.
    pub citation: String,
    /// The figures in file order; curves are taken apart into their points.
    pub figures: Vec<FigurePoint>,
}

/// One published number or relation, with what has to be priced to compare it.
#[derive(Debug, Clone, PartialEq)]
pub struct FigurePoint {
    /// Its name, unique over all files; points of a curve are called `CURVE@X`.
    pub id: String,
    /// The curve that it is a point of, or a name that several figures share to be shown together; empty if it stands alone.
    pub series: String,
    /// Where on the curve: the axis and the value.
    pub x: Option<(String, f64)>,
    /// Key of the publication.
    pub paper: String,
    /// What it is, for people.
    pub what: String,
    /// How it was used before it was compared.
    pub role: Role,
    /// What was chosen by hand with it in view; always there for [`Role::Chosen`].
    pub because: Option<String>,
    /// What is compared.
    pub quantity: Quantity,
    /// The published value in the unit of the quantity.
    pub published: Option<f64>,
    /// The published relation.
    pub relation: Option<Relation>,
    /// What is priced.
    pub setting: Setting,
    /// What it is compared with, for ratios and gains.
    pub versus: Option<Setting>,
    /// How exact the published number is, per cent.
    pub noise_percent: f64,
    /// Where in the publication it stands and how it was read.
    pub source: String,
    /// What the model lacks, if it is known to miss.
    pub remark: Option<String>,
    /// File and line it was read from.
    pub file: String,
    /// Line.
    pub line: u64,
}

/// Work on a machine under a placement.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Name or path of the machine profile.
    pub machine: String,
    /// What runs.
    pub work: Work,
    /// Workers; all cores of the machine without.
    pub threads: Option<u32>,
    /// Where structures lie.
    pub placement: Placement,
    /// Structures whose share is searched for or varied; all without.
    pub moves: Vec<String>,
    /// Load of others.
    pub background: Vec<Background>,
    /// Groups of workers at the same time, instead of `threads` and `placement`.
    pub groups: Vec<Group>,
    /// The tier that latency and utilisation are asked of, and that shares go to.
    pub tier: String,
    /// Constants that the modelled value is multiplied with.
    pub tool: Vec<String>,
    /// Constants that are added to the processor time per tuple, ns.
    pub compute: Vec<String>,
}

/// Workers that have a placement of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Workers.
    pub threads: u32,
    /// Where the structures of this group lie.
    pub placement: Placement,
    /// What it does, if that is something else.
    pub work: Option<Work>,
}

impl FigurePoint {
    /// Names of the machines that it is priced on.
    pub fn machines(&self) -> impl Iterator<Item = &str> {
        self.settings().map(|s| s.machine.as_str())
    }

    /// Names of the constants that enter.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.settings()
            .flat_map(|s| s.tool.iter().chain(&s.compute))
            .map(String::as_str)
    }

    fn settings(&self) -> impl Iterator<Item = &Setting> {
        std::iter::once(&self.setting).chain(&self.versus)
    }
}

/// `file:line: figure "id"`, for messages.
impl fmt::Display for FigurePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: figure {:?}", self.file, self.line, self.id)
    }
}
