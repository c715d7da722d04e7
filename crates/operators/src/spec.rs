//! The parameters of operators, and what follows from them: structures, phases, tuples.

use std::fmt;

use serde::{Deserialize, Serialize};

use tierloom_kernels::{LINE_BYTES, Simd};

use crate::{
    Aggregation, BTree, ColumnScan, Filled, GroupTables, HashJoin, IndexJoin, RadixJoin,
    RadixPartition, SelectiveRead,
};

/// Largest number of tuples of a structure; far above any machine.
const MAX_TUPLES: u64 = 1 << 42;
/// Largest number of tuples that a prefetch may be ahead.
pub(crate) const MAX_AHEAD: u32 = 1024;

/// How an operator is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// With the field's best technique: prefetches, write combining, non-temporal stores, vectors.
    #[default]
    Tuned,
    /// A plain loop over tuples, to compare with.
    Plain,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tuned => "tuned",
            Self::Plain => "plain",
        })
    }
}

/// A parameter that an operator cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ParameterError {
    /// Name of the parameter, as in workload files.
    pub field: &'static str,
    /// What is wrong with it, and what was expected.
    pub problem: String,
}

impl ParameterError {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }
}

/// One structure of an operator: a region with its own placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structure {
    /// Its name in workload files and records.
    pub name: &'static str,
    /// Size, bytes.
    pub size_bytes: u64,
}

/// What a phase does to one structure, all workers together.
///
/// Bytes are those that instructions load and store. A random access is one at an address that does
/// not follow from the one before: it costs a cache line of its own in structures larger than the
/// caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Name of the structure.
    pub structure: &'static str,
    /// Bytes loaded.
    pub read_bytes: u64,
    /// Bytes stored.
    pub written_bytes: u64,
    /// Number of random accesses.
    pub random_accesses: u64,
}

impl Traffic {
    /// A sequential read of a whole structure.
    pub(crate) fn scan(structure: &'static str, read_bytes: u64) -> Self {
        Self {
            structure,
            read_bytes,
            written_bytes: 0,
            random_accesses: 0,
        }
    }
}

/// A phase of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseInfo {
    /// Its name in records.
    pub name: &'static str,
    /// Tuples that pass through it; 0 for phases that prepare a pass.
    pub tuples: u64,
    /// Whether its time is part of the operator's.
    ///
    /// Clearing a table that the pass before has filled is not.
    pub counted: bool,
    /// What it does to each structure.
    pub traffic: Vec<Traffic>,
}

/// What every operator says of itself.
pub(crate) trait Parameters: fmt::Display {
    /// Checks the parameters.
    fn check(&self) -> Result<(), ParameterError>;

    /// The width of vectors, if the operator uses them.
    fn simd(&self) -> Option<Simd> {
        None
    }

    /// Its structures, in a fixed order.
    fn structures(&self, workers: u32) -> Vec<Structure>;

    /// Tuples of all inputs.
    fn tuples(&self, workers: u32) -> u64;

    /// Writes the inputs into the structures.
    fn fill(&self, structures: &mut [&mut [u8]], workers: u32, seed: u64) -> Box<dyn Filled>;
}

/// An operator with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "name")]
pub enum Operator {
    /// A join with one hash table that all workers share.
    HashJoin(HashJoin),
    /// A join through an array of unique positions, without collisions.
    IndexJoin(IndexJoin),
    /// A join that partitions both inputs first.
    RadixJoin(RadixJoin),
    /// A partitioning by the low bits of a key.
    RadixPartition(RadixPartition),
    /// Sums by group.
    Aggregation(Aggregation),
    /// A scan that writes the numbers of matching rows.
    ColumnScan(ColumnScan),
    /// A read of every n-th value.
    SelectiveRead(SelectiveRead),
    /// Operations on a concurrent B+-tree.
    #[serde(rename = "btree")]
    BTree(BTree),
}

impl Operator {
    /// Names of all operators.
    pub const NAMES: [&str; 8] = [
        "hash-join",
        "index-join",
        "radix-join",
        "radix-partition",
        "aggregation",
        "column-scan",
        "selective-read",
        "btree",
    ];

    /// The operator of that name with the sizes of its publication; `None` for other names.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "hash-join" => Self::HashJoin(HashJoin::default()),
            "index-join" => Self::IndexJoin(IndexJoin::default()),
            "radix-join" => Self::RadixJoin(RadixJoin::default()),
            "radix-partition" => Self::RadixPartition(RadixPartition::default()),
            "aggregation" => Self::Aggregation(Aggregation::default()),
            "column-scan" => Self::ColumnScan(ColumnScan::default()),
            "selective-read" => Self::SelectiveRead(SelectiveRead::default()),
            "btree" => Self::BTree(BTree::default()),
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        let index = match self {
            Self::HashJoin(_) => 0,
            Self::IndexJoin(_) => 1,
            Self::RadixJoin(_) => 2,
            Self::RadixPartition(_) => 3,
            Self::Aggregation(_) => 4,
            Self::ColumnScan(_) => 5,
            Self::SelectiveRead(_) => 6,
            Self::BTree(_) => 7,
        };
        Self::NAMES[index]
    }

    fn parameters(&self) -> &dyn Parameters {
        match self {
            Self::HashJoin(join) => join,
            Self::IndexJoin(join) => join,
            Self::RadixJoin(join) => join,
            Self::RadixPartition(partition) => partition,
            Self::Aggregation(aggregation) => aggregation,
            Self::ColumnScan(scan) => scan,
            Self::SelectiveRead(read) => read,
            Self::BTree(tree) => tree,
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ParameterError`] with the first parameter that is wrong.
    pub fn check(&self) -> Result<(), ParameterError> {
        self.parameters().check()
    }

    /// Checks that this processor has the instructions.
    ///
    /// # Errors
    /// [`ParameterError`] if it lacks the vectors that were asked for.
    pub fn check_processor(&self) -> Result<(), ParameterError> {
        match self.parameters().simd() {
            Some(simd) if !simd.available() => {
                let widest = Simd::detect();
                let problem =
                    format!("this processor has no {simd}; expected {widest} or narrower");
                Err(ParameterError::new("simd", problem))
            }
            _ => Ok(()),
        }
    }

    /// Names of the phases that are counted or prepare a pass, in order; without checks of results.
    pub fn phase_names(&self) -> &'static [&'static str] {
        match self {
            Self::HashJoin(_) => &["clear", "build", "probe"],
            Self::IndexJoin(_) => &["build", "probe"],
            Self::RadixJoin(_) => &["histogram", "scatter", "join"],
            Self::RadixPartition(_) => &["histogram", "scatter"],
            Self::Aggregation(of) => match of.tables {
                GroupTables::Shared => &["clear", "aggregate"],
                GroupTables::Local => &["clear", "aggregate", "merge"],
            },
            Self::ColumnScan(_) => &["scan"],
            Self::SelectiveRead(_) => &["read"],
            Self::BTree(_) => &["load", "operate"],
        }
    }

    /// Its structures, in the order in which [`Operator::fill`] takes them.
    pub fn structures(&self, workers: u32) -> Vec<Structure> {
        self.parameters().structures(workers)
    }

    /// Writes the input into the structures, which have to be of the sizes of
    /// [`Operator::structures`] at least and to begin at cache lines.
    ///
    /// The same seed makes the same data.
    ///
    /// # Panics
    /// If the number of structures is another one, or one is too small or not aligned.
    pub fn fill(&self, structures: &mut [&mut [u8]], workers: u32, seed: u64) -> Box<dyn Filled> {
        let wanted = self.structures(workers);
        assert_eq!(structures.len(), wanted.len(), "structures");
        for (given, wanted) in structures.iter().zip(&wanted) {
            let (name, bytes) = (wanted.name, wanted.size_bytes);
            assert!(
                given.len() as u64 >= bytes,
                "{name}: less than {bytes} bytes"
            );
            let start = given.as_ptr();
            assert!(
                start.addr().is_multiple_of(LINE_BYTES),
                "{name}: not aligned"
            );
        }
        self.parameters().fill(structures, workers, seed)
    }

    /// Tuples of one pass, which the operator's tuples per second count: those of all inputs.
    pub fn tuples(&self, workers: u32) -> u64 {
        self.parameters().tuples(workers)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.name(), self.parameters())
    }
}

/// Checks a number of tuples.
pub(crate) fn check_tuples(
    field: &'static str,
    tuples: u64,
    most: u64,
) -> Result<(), ParameterError> {
    let most = most.min(MAX_TUPLES);
    if (1..=most).contains(&tuples) {
        return Ok(());
    }
    let problem = format!("{tuples}; expected 1 to {most}");
    Err(ParameterError::new(field, problem))
}

/// Checks a power of two.
pub(crate) fn check_power(
    field: &'static str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), ParameterError> {
    if value.is_power_of_two() && range.contains(&value) {
        return Ok(());
    }
    let (low, high) = range.into_inner();
    let problem = format!("{value}; expected a power of two from {low} to {high}");
    Err(ParameterError::new(field, problem))
}

/// Checks the skew of a Zipf distribution.
pub(crate) fn check_zipf(alpha: Option<f64>) -> Result<(), ParameterError> {
    match alpha {
        Some(alpha) if !(alpha > 0.0 && alpha <= 10.0) => {
            let problem = format!("{alpha}; expected a skew above 0, at most 10");
            Err(ParameterError::new("zipf_alpha", problem))
        }
        _ => Ok(()),
    }
}

/// Tuples that prefetches of random places are ahead by default.
///
/// Enough for the whole latency at the rate at which a core takes tuples out of its caches. On a
/// Zen 5 core with DRAM, a table of 256 MiB was probed 100 million times per second with 16 tuples,
/// 229 million times with 64, 281 million times with 128, and as often with 256.
pub(crate) const PREFETCH_TUPLES: u32 = 128;

/// Checks how many tuples a prefetch is ahead.
pub(crate) fn check_ahead(ahead: u32) -> Result<(), ParameterError> {
    if ahead <= MAX_AHEAD {
        return Ok(());
    }
    let problem = format!("{ahead}; expected at most {MAX_AHEAD}");
    Err(ParameterError::new("prefetch_tuples", problem))
}

/// The number of tuples that prefetches are ahead: none in the plain form.
pub(crate) fn ahead(form: Form, prefetch_tuples: u32) -> Option<usize> {
    (form == Form::Tuned && prefetch_tuples > 0).then_some(prefetch_tuples as usize)
}

/// "tuned, prefetch 16 ahead" or "plain".
pub(crate) fn form_words(form: Form, prefetch_tuples: u32) -> String {
    match ahead(form, prefetch_tuples) {
        Some(ahead) => format!("{form}, prefetch {ahead} tuples ahead"),
        None => form.to_string(),
    }
}
