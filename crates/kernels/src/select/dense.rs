//! Tests of every row of a vector.

use super::avx512;
use super::mask::Mask;
use super::table::CodeSet;
use super::{VECTOR_ROWS, check};
use crate::codes::{CodeWidth, Codes};

/// Rows that all tests are made on before the next rows are looked at: their masks and indices stay
/// in the first-level cache.
pub const CHUNK_ROWS: usize = 512;

/// Words of the mask of a chunk.
pub(super) const CHUNK_WORDS: usize = CHUNK_ROWS / 64;

/// What a code is asked.
#[derive(Debug, Clone, Copy)]
pub enum CodeTest<'a> {
    /// It lies between two codes, both included.
    Range {
        /// Smallest that passes.
        low: u32,
        /// Largest that passes.
        high: u32,
    },
    /// It is in a set.
    Set(&'a CodeSet),
}

impl CodeTest<'_> {
    #[inline(always)]
    fn passes(self, code: u32) -> bool {
        match self {
            CodeTest::Range { low, high } => code.wrapping_sub(low) <= high.wrapping_sub(low),
            CodeTest::Set(set) => set.contains(code),
        }
    }
}

/// A test and the codes it is made on.
#[derive(Debug, Clone, Copy)]
pub struct DenseTest<'a> {
    /// The column.
    pub codes: Codes<'a>,
    /// The test.
    pub test: CodeTest<'a>,
}

impl DenseTest<'static> {
    /// A test that every row passes, of a column without rows: something to fill an array with.
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

/// Sets the bits of the rows `start..start + rows` that pass all of `tests`, in the first `rows`
/// bits of `mask`; adds to `passed[i]` how many passed the tests up to the `i`-th.
///
/// All tests are made on [`CHUNK_ROWS`] rows before the next are looked at, and `between` is called
/// with the number of each chunk, 0 first. Lines are asked for as far ahead as a vector is long,
/// since the processor's own prefetching begins anew at each page, which is as long for one-byte
/// codes.
///
/// # Panics
/// If the rows do not exist or are more than [`VECTOR_ROWS`], a set does not belong to its column's
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
            let from = if done { whole } else { 0 };
            plain(test, start + first, from * 64..rows, words, and);
            let left = avx512::count(&words[..rows.div_ceil(64)]);
            if left == 0 {
                words.fill(0);
                break;
            }
            passed[index] += left;
        }
        between(chunk);
    }
}

/// The rows `rows` behind `start`, which begin at a whole word; bits behind the last row are
/// cleared.
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

/// Whether testing codes of `width` against a set is done in registers here, rather than row by
/// row.
pub fn sets_are_fast(width: CodeWidth) -> bool {
    width != CodeWidth::Zero && avx512::available()
}

const _: () = assert!(VECTOR_ROWS.is_multiple_of(CHUNK_ROWS));
