//! What the words of a group's accumulators are.

use crate::plan::{Measure, MeasureKind};
use tierloom_kernels::sums::SUM_WORDS;

/// Position of the number of rows of a group in its slot.
pub(crate) const ROWS_AT: usize = 0;

/// The positions of a measure's words in a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    pub at: usize,
    pub wide: bool,
    /// Words from one part of a sum of floats to the next.
    pub stride: usize,
    /// The set of sums that it is in, if it is added with others.
    pub set: Option<usize>,
    /// Position of the number of rows that counted, if some rows may not (NULL inputs).
    pub valid_at: Option<usize>,
    /// Whether it is the first measure for which these rows count, so that they are counted once.
    pub is_first: bool,
}

impl Words {
    /// Whether it is the number of rows, which is counted anyway.
    pub fn is_rows(&self) -> bool {
        self.at == ROWS_AT
    }

    /// Position of the number of rows that counted, if this measure counts them.
    pub fn counts(&self) -> Option<usize> {
        self.valid_at.filter(|_| self.is_first)
    }
}

/// Sums of floats that are added together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SumSet {
    /// Position of the first word.
    pub at: usize,
    /// Number of sums that there is room for: 2 or 4.
    pub lanes: usize,
    /// Whether a measure of the set adds products, with what their roundings lost.
    pub products: bool,
}

/// The words of one group: its number of rows, then its measures.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Number of words.
    pub words: usize,
    pub measures: Vec<Words>,
    /// Sums of floats that are added together.
    pub sets: Vec<SumSet>,
    /// The words of a group without rows.
    pub initial: Vec<i64>,
}

impl Layout {
    pub fn new(measures: &[Measure]) -> Self {
        let mut initial = vec![0];
        let (mut sets, mut sum_at) = (Vec::new(), 0);
        let mut places: Vec<Words> = Vec::with_capacity(measures.len());
        let sums = |index: &usize| measures[*index].kind == MeasureKind::FloatSum;
        let sums: Vec<usize> = (0..measures.len()).filter(sums).collect();
        for (index, measure) in measures.iter().enumerate() {
            let mut place = Words {
                at: ROWS_AT,
                wide: measure.wide && measure.kind == MeasureKind::Sum,
                stride: 1,
                set: None,
                valid_at: None,
                is_first: false,
            };
            if measure.leaves_out_rows() {
                let known = measures[..index]
                    .iter()
                    .position(|m| m.counts_rows_of(measure));
                place.is_first = known.is_none();
                place.valid_at = match known {
                    Some(first) => places[first].valid_at,
                    None => {
                        initial.push(0);
                        Some(initial.len() - 1)
                    }
                };
            }
            match measure.kind {
                MeasureKind::Count => place.at = place.valid_at.unwrap_or(ROWS_AT),
                MeasureKind::FloatSum => {
                    let number = sums.iter().position(|sum| *sum == index).unwrap_or(0);
                    let lane = number % MOST_LANES;
                    let first = number - lane;
                    let set = &sums[first..sums.len().min(first + MOST_LANES)];
                    if lane == 0 {
                        sum_at = initial.len();
                        initial.resize(sum_at + SUM_WORDS * lanes_for(set.len()), 0);
                        if set.len() > 1 {
                            sets.push(SumSet {
                                at: sum_at,
                                lanes: lanes_for(set.len()),
                                products: set.iter().any(|sum| measures[*sum].factor.is_some()),
                            });
                        }
                    }
                    place.at = sum_at + lane;
                    place.stride = lanes_for(set.len());
                    place.set = (set.len() > 1).then(|| sets.len() - 1);
                }
                MeasureKind::Sum | MeasureKind::Min | MeasureKind::Max => {
                    place.at = initial.len();
                    initial.push(match measure.kind {
                        MeasureKind::Min => i64::MAX,
                        MeasureKind::Max => i64::MIN,
                        _ => 0,
                    });
                    initial.resize(initial.len() + usize::from(place.wide), 0);
                }
            }
            places.push(place);
        }
        Layout {
            words: initial.len(),
            measures: places,
            sets,
            initial,
        }
    }
}

/// Most sums that are added together.
const MOST_LANES: usize = 4;

/// The room for so many sums; a single one is added alone.
fn lanes_for(sums: usize) -> usize {
    match sums {
        0 | 1 => 1,
        2 => 2,
        _ => MOST_LANES,
    }
}

/// The 128 bits of two words.
pub(crate) fn wide(words: &[i64], at: usize) -> i128 {
    (i128::from(words[at + 1]) << 64) | i128::from(words[at] as u64)
}

/// Adds to the 128 bits of two words.
pub(crate) fn add_wide(words: &mut [i64], at: usize, value: i128) {
    let sum = wide(words, at).wrapping_add(value);
    (words[at], words[at + 1]) = (sum as i64, (sum >> 64) as i64);
}
