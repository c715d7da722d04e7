//! Values of a block of rows for sums that are added together.

use crate::layout::SumSet;
use crate::runs::BLOCK_ROWS;
use std::ops::Range;
use tierloom_kernels::sums::{SumColumns, add_together};
use tierloom_kernels::words::keep_or;

/// The values of a block for one [`SumSet`].
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    /// Where the sums are in a slot.
    at: usize,
    /// The values of each sum: the bits of floats.
    values: Vec<[i64; BLOCK_ROWS]>,
    /// What the roundings of products lost, likewise; empty without products.
    lost: Vec<[i64; BLOCK_ROWS]>,
}

/// What of a measure's values is staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StagedPart {
    /// The values, or the rounded products.
    Values,
    /// What the roundings of products lost.
    Lost,
}

impl Staged {
    pub fn new(set: &SumSet) -> Self {
        let zeros = [0; BLOCK_ROWS];
        Staged {
            at: set.at,
            values: vec![zeros; set.lanes],
            lost: vec![zeros; if set.products { set.lanes } else { 0 }],
        }
    }

    /// Stages the values of `rows` for the sum in `lane`: 0 for those that do not count.
    pub fn put(
        &mut self,
        (part, lane): (StagedPart, usize),
        rows: Range<usize>,
        values: &[i64],
        counts: Option<&[bool]>,
    ) {
        let staged = match part {
            StagedPart::Values => &mut self.values[lane][rows],
            StagedPart::Lost => &mut self.lost[lane][rows],
        };
        staged.copy_from_slice(values);
        if let Some(counts) = counts {
            keep_or(staged, counts, 0);
        }
    }

    /// Adds the values of `rows`, whose slots start at `offsets` in `words`.
    pub fn add(&self, words: &mut [i64], rows: Range<usize>, offsets: &[u32]) {
        match self.values.len() {
            2 => add_together(words, offsets, self.at, self.columns::<2>(rows)),
            _ => add_together(words, offsets, self.at, self.columns::<4>(rows)),
        }
    }

    fn columns<const N: usize>(&self, rows: Range<usize>) -> SumColumns<'_, N> {
        SumColumns {
            values: of_rows(&self.values, &rows),
            lost: (!self.lost.is_empty()).then(|| of_rows(&self.lost, &rows)),
        }
    }
}

/// The values of `rows` for each sum.
fn of_rows<'p, const N: usize>(
    part: &'p [[i64; BLOCK_ROWS]],
    rows: &Range<usize>,
) -> [&'p [i64]; N] {
    std::array::from_fn(|lane| &part[lane][rows.clone()])
}
