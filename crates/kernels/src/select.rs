//! Filters on columns of narrow codes: selects the rows of a vector (batch of rows) that pass.
//!
//! ```text
//!   dense   every row is looked at:   filter_all ──► one bit a row ──► Selection::from_mask
//!   sparse  only rows still selected: keep_range, keep_set ──► fewer rows, in place
//!           (without branches: always store, advance if the row passes)
//! ```
//! A selection vector has 16-bit offsets from the first row of the vector, so that it stays in the
//! L1 cache.

mod avx512;
mod dense;
mod mask;
mod table;

pub use dense::{CHUNK_ROWS, CodeTest, DenseTest, filter_all, sets_are_fast};
pub use mask::Mask;
pub use table::{CodeSet, may_have_bit};

use crate::codes::{CodeWidth, Codes};
use crate::prefetch_read;

/// Most rows of a vector.
pub const VECTOR_ROWS: usize = 4096;

/// Elements of a selection: a whole register may be stored behind the last position.
const SLOTS: usize = VECTOR_ROWS + 64;

/// Code sets larger than this are prefetched before they are probed, since they do not stay in a
/// core's own caches.
const PREFETCHED_BYTES: usize = 512 << 10;

/// Selection vector: the rows of a vector that are still selected.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Ascending; the first `count` elements are valid and below `rows`.
    at: [u16; SLOTS],
    count: usize,
    /// Number of rows of the vector.
    rows: usize,
}

/// Codes of a vector as a pointer to the first one, with the width known at compile time. Whoever
/// makes one has checked the rows that will be read.
#[derive(Clone, Copy)]
struct Window<const WIDTH: usize> {
    first: *const u8,
}

impl<const WIDTH: usize> Window<WIDTH> {
    /// The code of row `at`, counted from the first one.
    ///
    /// # Safety
    /// Row `at` must exist.
    #[inline(always)]
    unsafe fn code(self, at: usize) -> u32 {
        // SAFETY: the row exists, and `CODE_PADDING` bytes follow the last one, so four bytes can
        // always be read.
        unsafe {
            match WIDTH {
                0 => 0,
                1 => u32::from(*self.first.add(at)),
                2 => u32::from(u16::from_le(
                    self.first.add(at * 2).cast::<u16>().read_unaligned(),
                )),
                3 => {
                    u32::from_le(self.first.add(at * 3).cast::<u32>().read_unaligned()) & 0xff_ffff
                }
                _ => u32::from_le(self.first.add(at * 4).cast::<u32>().read_unaligned()),
            }
        }
    }
}

impl<const WIDTH: usize> Window<WIDTH> {
    /// Whether the code of row `at`, counted from the first one, is in `set`.
    ///
    /// # Safety
    /// Row `at` must exist, and `set` must cover the width.
    #[inline(always)]
    unsafe fn is_in(self, at: usize, set: &CodeSet) -> bool {
        // SAFETY: the caller guarantees that the row exists.
        set.contains_of_width::<WIDTH>(unsafe { self.code(at) })
    }
}

/// Runs `$body` with `$window` on the codes from row `$start` on; compiled once for each width.
macro_rules! for_width {
    ($codes:expr, $start:expr, |$window:ident| $body:expr) => {{
        let first = $codes.bytes()[$start * $codes.width().bytes()..].as_ptr();
        match $codes.width() {
            CodeWidth::Zero => {
                let $window = Window::<0> { first };
                $body
            }
            CodeWidth::One => {
                let $window = Window::<1> { first };
                $body
            }
            CodeWidth::Two => {
                let $window = Window::<2> { first };
                $body
            }
            CodeWidth::Three => {
                let $window = Window::<3> { first };
                $body
            }
            CodeWidth::Four => {
                let $window = Window::<4> { first };
                $body
            }
        }
    }};
}

impl Default for Selection {
    fn default() -> Self {
        Selection {
            at: [0; SLOTS],
            count: 0,
            rows: 0,
        }
    }
}

impl Selection {
    /// Positions of the selected rows, ascending.
    pub fn positions(&self) -> &[u16] {
        &self.at[..self.count]
    }

    /// Number of selected rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Selects the rows of `0..rows` whose bit is set.
    ///
    /// # Panics
    /// If `rows` is more than [`VECTOR_ROWS`].
    pub fn from_mask(&mut self, mask: &Mask, rows: usize) {
        assert!(rows <= VECTOR_ROWS, "{rows} rows in a vector");
        self.rows = rows;
        self.count = mask::positions(mask, rows, &mut self.at);
    }

    /// Keeps the selected rows whose code is in `set`.
    ///
    /// # Panics
    /// If rows of the vector are outside `codes`, or `set` is for another column's width.
    pub fn keep_set(&mut self, codes: &Codes<'_>, start: usize, set: &CodeSet) {
        check(codes, start, self.rows);
        assert!(set.covers(codes.width()), "a set of another column's codes");
        let (at, count) = (&mut self.at, self.count);
        self.count = for_width!(codes, start, |window| {
            if set.size_bytes() > PREFETCHED_BYTES {
                for row in &at[..count] {
                    // SAFETY: selected rows are below `self.rows`, and `check` found that these
                    // rows exist.
                    set.prefetch(unsafe { window.code(usize::from(*row)) });
                }
            }
            // SAFETY: as above; `covers` has been asserted.
            keep(at, count, |row| unsafe { window.is_in(row, set) })
        });
    }

    /// Keeps the selected rows whose code is in `low..=high`.
    ///
    /// # Panics
    /// If rows of the vector are outside `codes`.
    pub fn keep_range(&mut self, codes: &Codes<'_>, start: usize, (low, high): (u32, u32)) {
        check(codes, start, self.rows);
        // One unsigned comparison instead of two: codes below `low` wrap around to large numbers.
        let span = high.wrapping_sub(low);
        let (at, count) = (&mut self.at, self.count);
        self.count = for_width!(codes, start, |window| {
            keep(at, count, |row| {
                // SAFETY: selected rows are below `self.rows`, and `check` found that these rows
                // exist.
                let code = unsafe { window.code(row) };
                code.wrapping_sub(low) <= span
            })
        });
    }

    /// Keeps the selected rows for which `passes` is true, which is asked with the index of a row
    /// among the selected ones.
    pub fn keep_where(&mut self, passes: impl Fn(usize) -> bool) {
        let mut kept = 0;
        for index in 0..self.count {
            self.at[kept] = self.at[index];
            kept += usize::from(passes(index));
        }
        self.count = kept;
    }

    /// Prefetches the codes of part `part` of the selected rows, out of `parts` equal parts.
    ///
    /// # Panics
    /// If rows of the vector are outside `codes`.
    pub fn prefetch(&self, codes: &Codes<'_>, start: usize, part: usize, parts: usize) {
        check(codes, start, self.rows);
        let (bytes, width) = (codes.bytes(), codes.width().bytes());
        for row in self.part(part, parts) {
            prefetch_read(bytes, (start + usize::from(*row)) * width);
        }
    }

    /// Same as [`Selection::prefetch`], for words.
    pub fn prefetch_words(&self, words: &[i64], start: usize, part: usize, parts: usize) {
        for row in self.part(part, parts) {
            prefetch_read(words, start + usize::from(*row));
        }
    }

    /// The `part`-th of `parts` of the selected rows.
    fn part(&self, part: usize, parts: usize) -> impl Iterator<Item = &u16> {
        let each = self.count.div_ceil(parts.max(1));
        self.positions().iter().skip(part * each).take(each)
    }

    /// Gathers the codes of the selected rows to the front of `out`.
    ///
    /// # Panics
    /// If rows of the vector are outside `codes`, or `out` is shorter.
    pub fn gather(&self, codes: &Codes<'_>, start: usize, out: &mut [u32]) {
        check(codes, start, self.rows);
        let rows = self.positions();
        let out = &mut out[..rows.len()];
        for_width!(codes, start, |window| {
            for (o, row) in out.iter_mut().zip(rows) {
                // SAFETY: selected rows are below `self.rows`, and `check` found that these rows
                // exist.
                *o = unsafe { window.code(usize::from(*row)) };
            }
        });
    }
}

#[inline(always)]
fn keep(at: &mut [u16; SLOTS], count: usize, passes: impl Fn(usize) -> bool) -> usize {
    assert!(count <= VECTOR_ROWS, "{count} rows of a vector");
    let mut kept = 0;
    for index in 0..count {
        // SAFETY: `kept <= index < count <= VECTOR_ROWS`, and the array is longer than that.
        unsafe {
            let row = *at.get_unchecked(index);
            // Always stored, advanced only if the row passes: no branch to mispredict.
            *at.get_unchecked_mut(kept) = row;
            kept += usize::from(passes(usize::from(row)));
        }
    }
    kept
}

/// Prefetches `table[index]` for each of `indices`, ahead of a loop that gathers them.
pub fn prefetch_all<T>(table: &[T], indices: &[u32]) {
    indices
        .iter()
        .for_each(|index| prefetch_read(table, *index as usize));
}

fn check(codes: &Codes<'_>, start: usize, rows: usize) {
    assert!(
        rows <= VECTOR_ROWS && start + rows <= codes.rows(),
        "rows {start}..{} of {}",
        start + rows,
        codes.rows()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::pack;
    use proptest::prelude::*;

    fn column(codes: &[u32], max: u32) -> (Vec<u8>, CodeWidth) {
        let width = CodeWidth::for_max(max);
        let mut bytes = vec![0xff; width.size_bytes(codes.len())];
        pack(&mut bytes, width, 0, codes);
        (bytes, width)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn all_ways_to_filter_select_the_same_rows(
            max in prop::sample::select(vec![0u32, 1, 200, 255, 3000, 65_535, 70_000, 0xff_ffff, 1 << 25]),
            seeds in prop::collection::vec(any::<u32>(), 1..1400),
            start in 0usize..70,
            bounds in (any::<u32>(), any::<u32>()),
        ) {
            let codes: Vec<u32> = seeds.iter().map(|s| (u64::from(*s) % (u64::from(max) + 1)) as u32).collect();
            let (bytes, width) = column(&codes, max);
            let column = Codes::new(&bytes, width, codes.len()).unwrap();
            let start = start.min(codes.len() - 1);
            let rows = codes.len() - start;
            let (a, b) = ((u64::from(bounds.0) % (u64::from(max) + 1)) as u32, (u64::from(bounds.1) % (u64::from(max) + 1)) as u32);
            let (low, high) = (a.min(b), a.max(b));
            let expected: Vec<u16> = (0..rows).filter(|&i| (low..=high).contains(&codes[start + i])).map(|i| i as u16).collect();
            let mut set = CodeSet::new(u64::from(max) + 1);
            (low..=high).take(5_000_000).for_each(|c| set.insert(c));
            prop_assert!(!set.contains(max.wrapping_add(1)));
            let mut all = Selection::default();
            all.from_mask(&[u64::MAX; VECTOR_ROWS / 64], rows);
            prop_assert_eq!(all.count(), rows);

            let mut words = [0u64; VECTOR_ROWS / 64];
            let mut out = Selection::default();
            let range = DenseTest { codes: column, test: CodeTest::Range { low, high } };
            let mut passed = [0; 2];
            let mut chunks = 0;
            filter_all(&[range], start, rows, &mut words, &mut passed, |chunk| {
                assert_eq!(chunk, chunks);
                chunks += 1;
            });
            prop_assert_eq!(chunks, rows.div_ceil(CHUNK_ROWS));
            out.from_mask(&words, rows);
            prop_assert_eq!(out.positions(), &expected[..]);
            prop_assert_eq!(passed, [expected.len() as u64, 0]);
            if u64::from(high) - u64::from(low) < 5_000_000 {
                let even = CodeTest::Range { low: 0, high: max / 2 };
                let both = [DenseTest { codes: column, test: even }, DenseTest { codes: column, test: CodeTest::Set(&set) }];
                let mut passed = [0; 2];
                filter_all(&both, start, rows, &mut words, &mut passed, |_| ());
                out.from_mask(&words, rows);
                let low_ones: Vec<u16> = expected.iter().copied().filter(|i| codes[start + usize::from(*i)] <= max / 2).collect();
                prop_assert_eq!(out.positions(), &low_ones[..]);
                prop_assert_eq!(passed[1], low_ones.len() as u64);
                filter_all(&both[1..], start, rows, &mut words, &mut passed, |_| ());
                out.from_mask(&words, rows);
                prop_assert_eq!(out.positions(), &expected[..]);
                out = all.clone();
                out.keep_set(&column, start, &set);
                prop_assert_eq!(out.positions(), &expected[..]);
            }
            out = all.clone();
            out.keep_range(&column, start, (low, high));
            prop_assert_eq!(out.positions(), &expected[..]);
            let mut gathered = vec![0; out.count()];
            out.gather(&column, start, &mut gathered);
            let values: Vec<u32> = expected.iter().map(|&i| codes[start + usize::from(i)]).collect();
            prop_assert_eq!(gathered, values);
        }
    }

    #[test]
    fn masks_are_combined_and_rows_behind_the_last_are_never_selected() {
        let codes: Vec<u32> = (0..130).collect();
        let (bytes, width) = column(&codes, 129);
        let column = Codes::new(&bytes, width, codes.len()).unwrap();
        let mut words = [u64::MAX; VECTOR_ROWS / 64];
        let test = |low, high| DenseTest {
            codes: column,
            test: CodeTest::Range { low, high },
        };
        let tests = [test(10, 200), test(0, 120)];
        filter_all(&tests, 0, 130, &mut words, &mut [0; 2], |_| ());
        let mut out = Selection::default();
        out.from_mask(&words, 130);
        assert_eq!(out.positions(), (10..=120).collect::<Vec<u16>>());
    }

    #[test]
    fn codes_that_a_set_does_not_know_are_not_in_it() {
        let (bytes, width) = column(&[5, 70_000, 69_999, 16_000_000, 4_000], 16_000_000);
        let column = Codes::new(&bytes, width, 5).unwrap();
        let mut set = CodeSet::new(70_000);
        [5, 69_999].into_iter().for_each(|c| set.insert(c));
        let test = CodeTest::Set(&set);
        let mut words = [0; VECTOR_ROWS / 64];
        let tests = [DenseTest {
            codes: column,
            test,
        }];
        filter_all(&tests, 0, 5, &mut words, &mut [0], |_| ());
        let mut out = Selection::default();
        out.from_mask(&words, 5);
        assert_eq!(out.positions(), [0, 2]);
    }
}
