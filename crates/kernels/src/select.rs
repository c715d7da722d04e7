//! Filters on narrow codes: which rows of a vector of rows pass.
//!
//! ```text
//!   dense   every row is looked at:   range_mask, set_mask ──► one bit a row ──► positions
//!                                     select_dense ──────────────────────────► positions   (no branch: always store, sometimes advance)
//!   sparse  only rows still selected: keep_range, keep_set ──────────────────► fewer positions, in place
//! ```
//! Positions are 16-bit offsets from the first row of the vector, so that a selection stays in the first-level cache.

mod mask;
mod table;

pub use mask::{positions, range_mask, set_mask};
pub use table::CodeSet;

use crate::codes::{CodeWidth, Codes};
use crate::prefetch_read;

/// Rows of a vector at most.
pub const VECTOR_ROWS: usize = 4096;

/// Slots of a buffer of positions: a whole register may be stored behind the last one.
pub const POSITION_SLOTS: usize = VECTOR_ROWS + 64;

/// Positions of the rows of a vector that are still selected.
pub type Positions = [u16; POSITION_SLOTS];

/// A set of codes of more bytes than this is prefetched before it is looked into: it no longer stays in a core's own caches.
const PREFETCHED_BYTES: usize = 512 << 10;

/// Runs `$body` with `$code` bound to a function from a row offset to its code, compiled once for each width.
macro_rules! for_width {
    ($codes:expr, $start:expr, |$code:ident| $body:expr) => {{
        let width = $codes.width().bytes();
        let bytes = &$codes.bytes()[$start * width..];
        match $codes.width() {
            CodeWidth::Zero => {
                let $code = |_: usize| 0u32;
                $body
            }
            CodeWidth::One => {
                let $code = |at: usize| u32::from(bytes[at]);
                $body
            }
            CodeWidth::Two => {
                let words = bytes.as_chunks::<2>().0;
                let $code = |at: usize| u32::from(u16::from_le_bytes(words[at]));
                $body
            }
            CodeWidth::Three => {
                let $code = |at: usize| {
                    let at = at * 3;
                    let word = u32::from_le_bytes([
                        bytes[at],
                        bytes[at + 1],
                        bytes[at + 2],
                        bytes[at + 3],
                    ]);
                    word & 0xff_ffff
                };
                $body
            }
            CodeWidth::Four => {
                let words = bytes.as_chunks::<4>().0;
                let $code = |at: usize| u32::from_le_bytes(words[at]);
                $body
            }
        }
    }};
}

/// Writes the positions of the rows `start..start + rows` whose code is in `set`; answers how many.
///
/// # Panics
/// If the rows do not exist or are more than [`VECTOR_ROWS`].
pub fn select_dense(
    codes: &Codes<'_>,
    start: usize,
    rows: usize,
    set: &CodeSet,
    out: &mut Positions,
) -> usize {
    check(codes, start, rows);
    for_width!(codes, start, |code| {
        if set.size_bytes() > PREFETCHED_BYTES {
            (0..rows).for_each(|at| set.prefetch(code(at)));
        }
        let mut kept = 0usize;
        for at in 0..rows {
            out[kept % POSITION_SLOTS] = at as u16;
            kept += usize::from(set.contains(code(at)));
        }
        kept
    })
}

/// Keeps those of the first `count` positions whose code is in `set`; answers how many.
///
/// # Panics
/// If a position lies outside the rows.
pub fn keep_set(
    codes: &Codes<'_>,
    start: usize,
    set: &CodeSet,
    positions: &mut Positions,
    count: usize,
) -> usize {
    for_width!(codes, start, |code| {
        if set.size_bytes() > PREFETCHED_BYTES {
            for at in &positions[..count] {
                set.prefetch(code(usize::from(*at)));
            }
        }
        let mut kept = 0usize;
        for index in 0..count {
            let at = positions[index];
            positions[kept] = at;
            kept += usize::from(set.contains(code(usize::from(at))));
        }
        kept
    })
}

/// Keeps those of the first `count` positions whose code lies in `low..=high`; answers how many.
///
/// # Panics
/// If a position lies outside the rows.
pub fn keep_range(
    codes: &Codes<'_>,
    start: usize,
    (low, high): (u32, u32),
    positions: &mut Positions,
    count: usize,
) -> usize {
    let span = high.wrapping_sub(low);
    for_width!(codes, start, |code| {
        let mut kept = 0usize;
        for index in 0..count {
            let at = positions[index];
            positions[kept] = at;
            kept += usize::from(code(usize::from(at)).wrapping_sub(low) <= span);
        }
        kept
    })
}

/// Writes the codes at `positions` to the front of `out`.
///
/// # Panics
/// If a position lies outside the rows or `out` is shorter.
pub fn gather(codes: &Codes<'_>, start: usize, positions: &[u16], out: &mut [u32]) {
    let out = &mut out[..positions.len()];
    for_width!(codes, start, |code| {
        for (o, at) in out.iter_mut().zip(positions) {
            *o = code(usize::from(*at));
        }
    });
}

/// Asks for the line of `table[index]` of each of `indices`, all at once.
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
            seeds in prop::collection::vec(any::<u32>(), 1..700),
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
            prop_assert_eq!(set.contains(max.wrapping_add(1)), false);

            let mut words = [0u64; VECTOR_ROWS / 64];
            range_mask(&column, start, rows, (low, high), &mut words, false);
            let mut out = [0u16; POSITION_SLOTS];
            let count = positions(&words, rows, &mut out);
            prop_assert_eq!(&out[..count], &expected[..]);
            if u64::from(high) - u64::from(low) < 5_000_000 {
                let count = select_dense(&column, start, rows, &set, &mut out);
                prop_assert_eq!(&out[..count], &expected[..]);
                let mut all = [0u16; POSITION_SLOTS];
                (0..rows).for_each(|i| all[i] = i as u16);
                let count = keep_set(&column, start, &set, &mut all, rows);
                prop_assert_eq!(&all[..count], &expected[..]);
                let mut words = [u64::MAX; VECTOR_ROWS / 64];
                if set_mask(&column, start, rows, &set, &mut words, true) {
                    let count = positions(&words, rows, &mut out);
                    prop_assert_eq!(&out[..count], &expected[..]);
                }
            }
            let mut all = [0u16; POSITION_SLOTS];
            (0..rows).for_each(|i| all[i] = i as u16);
            let count = keep_range(&column, start, (low, high), &mut all, rows);
            prop_assert_eq!(&all[..count], &expected[..]);
            let mut gathered = vec![0; count];
            gather(&column, start, &all[..count], &mut gathered);
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
        range_mask(&column, 0, 130, (10, 200), &mut words, true);
        range_mask(&column, 0, 130, (0, 120), &mut words, true);
        let mut out = [0; POSITION_SLOTS];
        let count = positions(&words, 130, &mut out);
        assert_eq!(out[..count], (10..=120).collect::<Vec<u16>>()[..]);
    }
}
