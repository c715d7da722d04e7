//! The groups of an execution, column by column.

use crate::floats::{FloatSum, sum_of};
use crate::layout::{Words, wide};
use crate::plan::MeasureKind;

/// The groups that have rows, column by column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedGroups {
    /// Combined keys; in ascending order unless the groups were hashed.
    pub keys: Vec<u64>,
    /// Number of rows of each group.
    pub rows: Vec<u64>,
    /// The values of each measure by group.
    pub measures: Vec<MeasureValues>,
}

/// The values of a measure by group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasureValues {
    /// Integers of 64 bits. A group without a row that counts is not `valid`; without a list all
    /// groups are.
    Narrow {
        /// The value of each group.
        values: Vec<i64>,
        /// Whether a row of the group counted.
        valid: Option<Vec<bool>>,
    },
    /// Integers of 128 bits, and sums of floats for
    /// [`FloatSum::of_value`](crate::FloatSum::of_value); `None` where no row counted.
    Wide(Vec<Option<i128>>),
}

impl MeasureValues {
    /// Those of `slots`, which are `groups` many.
    pub(crate) fn of<'s>(
        slots: impl Iterator<Item = &'s [i64]>,
        groups: usize,
        kind: MeasureKind,
        place: Words,
    ) -> Self {
        // Counts of no rows are 0.
        let valid_at = place.valid_at.filter(|_| kind != MeasureKind::Count);
        let is_valid = |words: &[i64]| valid_at.is_none_or(|at| words[at] != 0);
        if kind == MeasureKind::FloatSum || place.wide {
            let value = |words: &[i64]| match kind {
                MeasureKind::FloatSum => {
                    FloatSum::from(sum_of(&words[place.at..], place.stride)).to_value()
                }
                _ => wide(words, place.at),
            };
            let mut values = Vec::with_capacity(groups);
            values.extend(slots.map(|words| is_valid(words).then(|| value(words))));
            return MeasureValues::Wide(values);
        }
        let mut values = Vec::with_capacity(groups);
        let valid = match valid_at {
            None => {
                values.extend(slots.map(|words| words[place.at]));
                None
            }
            Some(_) => {
                let mut valid = Vec::with_capacity(groups);
                values.extend(slots.map(|words| {
                    valid.push(is_valid(words));
                    words[place.at]
                }));
                Some(valid)
            }
        };
        MeasureValues::Narrow { values, valid }
    }

    /// The value of a group; `None` if no row counted.
    pub fn get(&self, group: usize) -> Option<i128> {
        match self {
            MeasureValues::Narrow { values, valid } => {
                let is_valid = valid.as_ref().is_none_or(|valid| valid[group]);
                is_valid.then(|| i128::from(values[group]))
            }
            MeasureValues::Wide(values) => values[group],
        }
    }
}
