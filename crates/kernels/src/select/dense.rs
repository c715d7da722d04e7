//! Filters that test every row of a vector.

use super::avx512;
use super::mask::Mask;
use super::table::CodeSet;
use super::{VECTOR_ROWS, check};
use crate::codes::{CodeWidth, Codes};

/// Rows on which all tests are made before the next rows: their masks and indices stay in the L1
/// cache.
pub const CHUNK_ROWS: usize = 512;

/// Words of the mask of a chunk.
pub(super) const CHUNK_WORDS: usize = CHUNK_ROWS / 64;

/// Predicate on a code.
#[derive(Debug, Clone, Copy)]
pub enum CodeTest<'a> {
    /// The code is between two codes, inclusive.
    Range {
        /// Smallest code that passes.
        low: u32,
        /// Largest code that passes.
        high: u32,
    },
    /// The code is in a set.
    Set(&'a CodeSet),
}

impl CodeTest<'_> {
    #[inline(always)]
    fn passes(self, code: u32) -> bool {
        match self {
            // One unsigned comparison instead of two: codes below `low` wrap around to large
            // numbers.
            CodeTest::Range { low, high } => code.wrapping_sub(low) <= high.wrapping_sub(low),
            CodeTest::Set(set) => set.contains(code),
        }
    }
}

/// A predicate and the column that it is tested on.
#[derive(Debug, Clone, Copy)]
pub struct DenseTest<'a> {
    /// The column whose codes are tested.
    pub codes: Codes<'a>,
    /// The predicate; a set must cover the column's width.
    pub test: CodeTest<'a>,
}

impl DenseTest<'static> {
    /// A test that every row passes, on a column without rows; a placeholder in arrays.
    pub fn passing_all() -> Self {
        DenseTest {
            codes: Codes::none(),
            test: CodeTest::Range {
                low: 0,
                high: u32::MAX,
            },
        }
    }
}

/// Sets the first `rows` bits of `mask` for the rows from `start` on that pass all of `tests`; adds
/// to `passed[i]` the number of rows that passed the tests up to the `i`-th.
///
/// All tests are made on [`CHUNK_ROWS`] rows before the next chunk, and `between` is called with
/// the number of each finished chunk, 0 first. Lines are prefetched one vector ahead: hardware
/// prefetchers start again at each page, and a vector of one-byte codes is a page long.
///
/// # Panics
/// If the rows are outside a column or more than [`VECTOR_ROWS`], a set does not cover its column's
/// width, or `passed` is shorter than `tests`.
pub fn filter_all(
    tests: &[DenseTest<'_>],
    start: usize,
    rows: usize,
    mask: &mut Mask,
    passed: &mut [u64],
    mut between: impl FnMut(usize),
) {
    for DenseTest { codes, test } in tests {
        check(codes, start, rows);
        if let CodeTest::Set(set) = test {
            assert!(set.covers(codes.width()), "a set of another column's codes");
        }
    }
    let passed = &mut passed[..tests.len()];
    if tests.is_empty() {
        mask.fill(u64::MAX);
    }
    let fast = avx512::available();
    for (chunk, words) in mask.as_chunks_mut::<CHUNK_WORDS>().0.iter_mut().enumerate() {
        let first = chunk * CHUNK_ROWS;
        if first >= rows {
            break;
        }
        let rows = CHUNK_ROWS.min(rows - first);
        for (index, test) in tests.iter().enumerate() {
            let and = index > 0;
            let whole = rows / 64;
            let done = fast && avx512::test(test, start + first, &mut words[..whole], and);
            // The vector loop tests whole words of the mask, the scalar loop the rest.
            let from = if done { whole } else { 0 };
            plain(test, start + first, from * 64..rows, words, and);
            let left = avx512::count(&words[..rows.div_ceil(64)]);
            // No row of the chunk is left: the remaining columns need not be read.
            if left == 0 {
                words.fill(0);
                break;
            }
            passed[index] += left;
        }
        between(chunk);
    }
}

/// Tests rows `rows` (counted from `start`, and beginning at a whole word) one by one; bits behind
/// the last row are cleared.
fn plain(
    test: &DenseTest<'_>,
    start: usize,
    rows: std::ops::Range<usize>,
    mask: &mut [u64],
    and: bool,
) {
    let mut unpacked = [0u32; 64];
    for at in rows.clone().step_by(64) {
        let len = (rows.end - at).min(64);
        let unpacked = &mut unpacked[..len];
        test.codes.unpack(start + at..start + at + len, unpacked);
        let bit = |(i, code): (usize, &u32)| u64::from(test.test.passes(*code)) << i;
        let bits = unpacked.iter().enumerate().map(bit).fold(0, |a, b| a | b);
        let slot = &mut mask[at / 64];
        *slot = if and { *slot & bits } else { bits };
    }
}

/// Whether codes of `width` are tested against a set with vector instructions here, instead of row
/// by row.
pub fn sets_are_fast(width: CodeWidth) -> bool {
    width != CodeWidth::Zero && avx512::available()
}

const _: () = assert!(VECTOR_ROWS.is_multiple_of(CHUNK_ROWS));
