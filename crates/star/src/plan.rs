//! The description of a fused star join, in terms of codes.

use crate::{Expr, Spans};
use std::sync::Arc;
use tierloom_kernels::select::CodeSet;

/// A test on the code of one column.
#[derive(Debug, Clone)]
pub enum Test {
    /// The code is between two codes, both included.
    Range {
        /// The smallest code that passes.
        low: u32,
        /// The largest code that passes.
        high: u32,
    },
    /// The code is in a set, which represents a join with a dimension, a list or a string pattern.
    Set(Arc<CodeSet>),
}

impl Test {
    /// Whether a code from `low` to `high`, both included, may pass; false only if none does.
    pub fn may_have(&self, low: u32, high: u32) -> bool {
        match self {
            Test::Range { low: a, high: b } => low <= *b && high >= *a,
            Test::Set(set) => set.may_have(low, high),
        }
    }
}

/// A filter on one column.
#[derive(Debug, Clone)]
pub struct ColumnFilter {
    /// Index of the column in the plan.
    pub column: usize,
    /// The test that a row's code must pass.
    pub test: Test,
    /// Estimated share of rows that pass, 0 to 1. The measured share soon outweighs it.
    pub expected_share: f64,
}

/// A map from codes to group ordinals, with elements as narrow as the ordinals allow.
#[derive(Debug, Clone)]
pub enum GroupMap {
    /// The code itself is the ordinal.
    Code,
    /// For at most 256 ordinals.
    Bytes(Arc<[u8]>),
    /// For at most 65,536 ordinals.
    Halves(Arc<[u16]>),
    /// For more than 65,536 ordinals.
    Words(Arc<[u32]>),
}

impl GroupMap {
    /// A map with one ordinal per code, all below `count`.
    pub fn new(ordinals: &[u32], count: u64) -> Self {
        let pairs = ordinals.iter().copied().enumerate();
        Self::from_pairs(ordinals.len(), count, pairs)
    }

    /// A map for `codes` codes with the ordinals in `pairs`, all below `count`, and 0 for all other
    /// codes.
    ///
    /// # Panics
    /// If a code in `pairs` is not below `codes`.
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
    /// Index of the column in the plan.
    pub column: usize,
    /// The map from its codes to ordinals.
    pub map: GroupMap,
    /// Number of ordinals, at least 1; the radix of this part in the combined key.
    pub count: u64,
}

/// The function that combines the values of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureKind {
    /// The sum of the values that are not NULL.
    Sum,
    /// The sum of floats that are not NULL; their bits are the values.
    FloatSum,
    /// The number of rows that count.
    Count,
    /// The smallest value that is not NULL.
    Min,
    /// The largest value that is not NULL.
    Max,
}

/// An aggregate of each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// The function that combines the values.
    pub kind: MeasureKind,
    /// The values to combine; ignored for counts.
    pub expr: Expr,
    /// What the values of a sum of floats are multiplied by. Nothing is lost of the products, as
    /// sums of squares need it.
    pub factor: Option<Expr>,
    /// Columns whose code 0 is NULL; a row with NULL in any of them does not count.
    pub nulls: Vec<usize>,
    /// Conditions that a row must fulfil to count: none of them is 0.
    pub when: Vec<Expr>,
    /// Whether the sum can overflow 64 bits and is therefore kept in 128.
    pub wide: bool,
}

impl Measure {
    /// Whether it may not count every row.
    pub fn leaves_out_rows(&self) -> bool {
        !self.nulls.is_empty() || !self.when.is_empty()
    }

    /// Whether the same rows count for it as for `other`.
    pub(crate) fn counts_rows_of(&self, other: &Measure) -> bool {
        self.nulls == other.nulls && self.when == other.when
    }

    /// Its conditions, values and factor.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.when.iter().chain([&self.expr]).chain(&self.factor)
    }

    /// The columns that it reads.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = match self.kind {
            MeasureKind::Count => Vec::new(),
            _ => self.expr.columns(),
        };
        columns.extend(self.factor.iter().flat_map(Expr::columns));
        columns.extend(&self.nulls);
        columns.extend(self.when.iter().flat_map(Expr::columns));
        columns
    }
}

/// A group key that is a word computed from each row, such as a float that is rounded.
#[derive(Debug, Clone, PartialEq)]
pub struct WordKey {
    /// The word; it has to be none of a row whose key is NULL.
    pub value: Expr,
    /// The word that stands for NULL.
    pub null: i64,
    /// Columns whose code 0 is NULL; a row with NULL in any of them has the key NULL.
    pub nulls: Vec<usize>,
    /// Conditions without which the key of a row is NULL: none of them is 0.
    pub when: Vec<Expr>,
    /// If all words, that of NULL too, are from 0 on and less than this; `None` if not known.
    pub below: Option<u64>,
}

impl WordKey {
    /// Whether it may be NULL.
    pub fn is_nullable(&self) -> bool {
        !self.nulls.is_empty() || !self.when.is_empty()
    }

    /// Its value and conditions.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.when.iter().chain([&self.value])
    }

    /// The columns that it reads.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.expressions().flat_map(Expr::columns).collect();
        columns.extend(&self.nulls);
        columns
    }
}

/// A star join over one table. [`Worker`](crate::Worker) runs it.
#[derive(Debug, Clone, Default)]
pub struct StarPlan {
    /// Rows must pass all of these.
    pub filters: Vec<ColumnFilter>,
    /// Conditions on several columns, for rows that passed the filters: none of them is 0.
    pub conditions: Vec<Expr>,
    /// The parts of the group key, most significant first; empty for one group of all rows.
    pub groups: Vec<GroupPart>,
    /// A group key in the place of `groups`, which are then empty.
    pub key: Option<WordKey>,
    /// The aggregates to compute per group.
    pub measures: Vec<Measure>,
    /// Number of columns that are read; the plan's column indices are below it, but for those of
    /// `spans`.
    pub columns: usize,
    /// Columns that are computed from those that are read. The first has the index `columns`. Only
    /// filters cannot use them.
    pub spans: Vec<Spans>,
    /// Number of rows of the table, which decides whether an array of accumulators pays.
    pub rows: u64,
    /// Number of workers that share the rows, each with its own accumulators; 0 counts as 1.
    pub workers: usize,
    /// Whether to hash the groups even if an array of accumulators would pay.
    pub hashed: bool,
    /// Limit for the accumulators of one group table, in bytes; `None` for as many as offsets of 32
    /// bits reach.
    pub most_bytes: Option<u64>,
}

/// Why a plan cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// The plan uses the index of a column that does not exist.
    NoSuchColumn(usize),
    /// The combinations of group ordinals do not fit 64 bits.
    TooManyGroups,
    /// A map contains an ordinal that is not below its part's number of ordinals.
    OrdinalTooLarge {
        /// Index of the part in the group key.
        part: usize,
        /// The largest ordinal in its map.
        ordinal: u32,
        /// The number of ordinals of the part.
        count: u64,
    },
    /// The accumulators of all groups take more bytes than allowed.
    ///
    /// This is found while rows are read.
    TooManyAccumulators {
        /// The limit, in bytes.
        most_bytes: u64,
    },
    /// Group tables of different plans cannot be merged.
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
    /// Number of buffers that the expressions of conditions and measures need.
    pub(crate) fn depth(&self) -> usize {
        let measures = self.measures.iter();
        let measures = measures.flat_map(|m| m.when.iter().chain([&m.expr]));
        let key = self.key.iter().flat_map(WordKey::expressions);
        let expressions = self.conditions.iter().chain(measures).chain(key);
        let expressions = expressions.map(Expr::depth);
        let factors = self.measures.iter().filter_map(|m| m.factor.as_ref());
        // The first buffer has the values that are multiplied.
        let factors = factors.map(|factor| 1 + factor.depth());
        expressions.chain(factors).max().unwrap_or(1)
    }

    /// Checks that the maps contain only ordinals that their parts have; otherwise different groups
    /// would get the same key.
    ///
    /// # Errors
    /// [`PlanError::OrdinalTooLarge`] for the first such part.
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

    /// Whether all rows are in one group.
    pub(crate) fn has_one_group(&self) -> bool {
        self.groups.is_empty() && self.key.is_none()
    }

    /// The column that is read for column `column` of the plan: itself, or that whose spans it has.
    pub fn read_for(&self, column: usize) -> usize {
        let spans = column.checked_sub(self.columns);
        spans.map_or(column, |at| self.spans[at].column)
    }

    /// About how many rows pass the filters on one column.
    pub(crate) fn expected_rows(&self) -> u64 {
        let shares = self.filters.iter().map(|filter| filter.expected_share);
        (self.rows as f64 * shares.product::<f64>()) as u64
    }

    /// Number of combinations of group ordinals, which is the number of slots of a dense group
    /// table.
    ///
    /// # Errors
    /// [`PlanError::TooManyGroups`] if it does not fit 64 bits, [`PlanError::NoSuchColumn`] if the
    /// plan uses a column that does not exist.
    pub fn combinations(&self) -> Result<u64, PlanError> {
        let filters = self.filters.iter().map(|f| f.column);
        let groups = self.groups.iter().map(|g| g.column);
        let measures = self.measures.iter().flat_map(Measure::columns);
        let conditions = self.conditions.iter().flat_map(Expr::columns);
        let key = self.key.iter().flat_map(WordKey::columns);
        let mut read = filters.chain(self.spans.iter().map(|spans| spans.column));
        let missing = read.find(|column| *column >= self.columns);
        let mut used = conditions.chain(groups).chain(measures).chain(key);
        let all = self.columns + self.spans.len();
        if let Some(column) = missing.or_else(|| used.find(|column| *column >= all)) {
            return Err(PlanError::NoSuchColumn(column));
        }
        if let Some(key) = &self.key {
            return match self.groups.is_empty() {
                true => Ok(key.below.unwrap_or(u64::MAX)),
                false => Err(PlanError::TooManyGroups),
            };
        }
        self.groups
            .iter()
            .try_fold(1u64, |product, part| product.checked_mul(part.count.max(1)))
            .ok_or(PlanError::TooManyGroups)
    }

    /// The ordinals of group part `part` in combined keys.
    pub fn ordinals(&self, keys: &[u64], part: usize) -> Vec<u32> {
        let faster = self.groups[part + 1..].iter().map(|p| p.count.max(1));
        let (below, count) = (faster.product::<u64>(), self.groups[part].count.max(1));
        keys.iter()
            .map(|key| (key / below % count) as u32)
            .collect()
    }
}
