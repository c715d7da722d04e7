//! What a fused star join does, in terms of codes.

use crate::{Expr, Groups};
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;

/// A test on the code of one column.
#[derive(Debug, Clone)]
pub enum Test {
    /// The code lies between two codes, both included.
    Range {
        /// Smallest that passes.
        low: u32,
        /// Largest that passes.
        high: u32,
    },
    /// The code is in a set: a join with a dimension, a list, a pattern on strings.
    Set(Arc<CodeSet>),
}

/// A filter on one column.
#[derive(Debug, Clone)]
pub struct Filter {
    /// The column.
    pub column: usize,
    /// What it asks.
    pub test: Test,
    /// The share of rows expected to pass, 0 to 1; what is measured soon counts more.
    pub expected_share: f64,
}

/// From a code to its group ordinal, as narrow as the ordinals allow.
#[derive(Debug, Clone)]
pub enum GroupMap {
    /// The code is the ordinal.
    Code,
    /// Up to 256 ordinals.
    Bytes(Arc<[u8]>),
    /// Up to 65,536 ordinals.
    Halves(Arc<[u16]>),
    /// More.
    Words(Arc<[u32]>),
}

impl GroupMap {
    /// A map of `ordinals`, one a code, all below `count`.
    pub fn new(ordinals: &[u32], count: u64) -> Self {
        let pairs = ordinals.iter().copied().enumerate();
        Self::from_pairs(ordinals.len(), count, pairs)
    }

    /// A map of `codes` codes to fewer than `count` ordinals: those of `pairs`, 0 for all other codes.
    ///
    /// # Panics
    /// If a code of `pairs` is not below `codes`.
    pub fn from_pairs(codes: usize, count: u64, pairs: impl Iterator<Item = (usize, u32)>) -> Self {
        match count {
            0..=0x100 => {
                let mut map = vec![0u8; codes];
                pairs.for_each(|(code, ordinal)| map[code] = ordinal as u8);
                GroupMap::Bytes(map.into())
            }
            0x101..=0x1_0000 => {
                let mut map = vec![0u16; codes];
                pairs.for_each(|(code, ordinal)| map[code] = ordinal as u16);
                GroupMap::Halves(map.into())
            }
            _ => {
                let mut map = vec![0u32; codes];
                pairs.for_each(|(code, ordinal)| map[code] = ordinal);
                GroupMap::Words(map.into())
            }
        }
    }
}

/// One part of the group key.
#[derive(Debug, Clone)]
pub struct GroupPart {
    /// The column whose code decides.
    pub column: usize,
    /// How.
    pub map: GroupMap,
    /// Ordinals there are, at least 1.
    pub count: u64,
}

/// How values of a group become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureKind {
    /// Their sum.
    Sum,
    /// The number of rows.
    Count,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// An aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// How values become one.
    pub kind: MeasureKind,
    /// What is aggregated; counts do not look at it.
    pub expr: Expr,
    /// Columns whose code 0 is NULL and makes the row not count.
    pub nulls: Vec<usize>,
    /// The sum may leave 64 bits: it is kept in 128.
    pub wide: bool,
}

/// A star join over one table.
#[derive(Debug, Clone, Default)]
pub struct StarPlan {
    /// Rows that pass all of these count.
    pub filters: Vec<Filter>,
    /// The group key, first part slowest; none means one group.
    pub groups: Vec<GroupPart>,
    /// What is computed per group.
    pub measures: Vec<Measure>,
    /// Columns of the table that the plan may name.
    pub columns: usize,
    /// Rows of the table: says whether an array of accumulators pays.
    pub rows: u64,
    /// Workers that will share the rows, each with accumulators of its own; 0 is taken as 1.
    pub workers: usize,
    /// Accumulators are hashed, even where an array of them would pay.
    pub hashed: bool,
    /// Bytes of accumulators that groups may have in one place; `None`: as many as can be named.
    pub most_bytes: Option<u64>,
}

/// A plan that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// A column that there is not.
    NoSuchColumn(usize),
    /// More combinations of group ordinals than 64 bits can name.
    TooManyGroups,
    /// A map has an ordinal that is not below the number of its part's ordinals.
    OrdinalTooLarge {
        /// The part of the group key.
        part: usize,
        /// The ordinal.
        ordinal: u32,
        /// Ordinals there are.
        count: u64,
    },
    /// The accumulators of all groups would take more bytes than allowed. It shows while rows are
    /// read.
    TooManyAccumulators {
        /// Bytes allowed.
        most_bytes: u64,
    },
    /// Accumulators of different plans cannot be brought together.
    DifferentPlans,
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PlanError::NoSuchColumn(column) => write!(f, "there is no column {column}"),
            PlanError::TooManyGroups => {
                write!(
                    f,
                    "the group columns have more combinations than 64 bits can name"
                )
            }
            PlanError::OrdinalTooLarge {
                part,
                ordinal,
                count,
            } => write!(
                f,
                "group column {part} has the ordinal {ordinal}, but only {count} of them"
            ),
            PlanError::TooManyAccumulators { most_bytes } => write!(
                f,
                "the accumulators of all groups take more than {most_bytes} bytes"
            ),
            PlanError::DifferentPlans => write!(f, "accumulators of different plans were met"),
        }
    }
}

impl std::error::Error for PlanError {}

impl StarPlan {
    /// Bytes of the array of accumulators that each worker gets; `None` if they are hashed.
    ///
    /// # Errors
    /// Those of [`StarPlan::combinations`].
    pub fn dense_bytes(&self) -> Result<Option<u64>, PlanError> {
        Ok(Groups::dense_bytes(self, self.combinations()?))
    }

    /// Whether every ordinal of a map is one that its part has: else two groups would be one.
    ///
    /// # Errors
    /// [`PlanError::OrdinalTooLarge`].
    pub fn check_ordinals(&self) -> Result<(), PlanError> {
        for (part, group) in self.groups.iter().enumerate() {
            let largest = match &group.map {
                GroupMap::Code => None,
                GroupMap::Bytes(map) => map.iter().copied().max().map(u32::from),
                GroupMap::Halves(map) => map.iter().copied().max().map(u32::from),
                GroupMap::Words(map) => map.iter().copied().max(),
            };
            let count = group.count.max(1);
            if let Some(ordinal) = largest.filter(|largest| u64::from(*largest) >= count) {
                return Err(PlanError::OrdinalTooLarge {
                    part,
                    ordinal,
                    count,
                });
            }
        }
        Ok(())
    }

    /// Combinations of group ordinals: the size of a dense table.
    ///
    /// # Errors
    /// [`PlanError`] if there are too many, or a part of the plan names a column that there is not.
    pub fn combinations(&self) -> Result<u64, PlanError> {
        let filters = self.filters.iter().map(|f| f.column);
        let groups = self.groups.iter().map(|g| g.column);
        let measures = self
            .measures
            .iter()
            .flat_map(|m| m.expr.columns().into_iter().chain(m.nulls.iter().copied()));
        if let Some(column) = filters
            .chain(groups)
            .chain(measures)
            .find(|c| *c >= self.columns)
        {
            return Err(PlanError::NoSuchColumn(column));
        }
        self.groups
            .iter()
            .try_fold(1u64, |product, part| product.checked_mul(part.count.max(1)))
            .ok_or(PlanError::TooManyGroups)
    }

    /// The ordinals of group part `part` behind combined keys.
    pub fn ordinals(&self, keys: &[u64], part: usize) -> Vec<u32> {
        let faster = self.groups[part + 1..].iter().map(|p| p.count.max(1));
        let (below, count) = (faster.product::<u64>(), self.groups[part].count.max(1));
        keys.iter()
            .map(|key| (key / below % count) as u32)
            .collect()
    }
}
