//! Selecting rows by their codes, and decoding only the selected ones (late materialisation).

use crate::CodeValue;
use crate::codes::{CodeWidth, Codes};
use std::ops::Range;

impl Codes<'_> {
    /// For each row of `rows`: 1 if its code is in `low..=high`, else 0.
    ///
    /// # Panics
    /// If the rows are outside the column.
    pub fn in_range(&self, rows: Range<usize>, low: u32, high: u32) -> Vec<u8> {
        // One unsigned comparison instead of two: codes below `low` wrap around to large numbers.
        let span = high.wrapping_sub(low);
        self.map(rows, move |code| u8::from(code.wrapping_sub(low) <= span))
    }

    /// For each row of `rows`: 1 if the bit of its code is set, else 0; codes beyond `bits` are not
    /// set. The lowest bit of a word is its first code.
    ///
    /// # Panics
    /// If the rows are outside the column.
    pub fn in_bits(&self, rows: Range<usize>, bits: &[u64]) -> Vec<u8> {
        if bits.is_empty() {
            return vec![0; rows.len()];
        }
        let last = bits.len() - 1;
        self.map(rows, move |code| {
            let word = (code / 64) as usize;
            // Clamped, so that there is no branch per row.
            let bit = (bits[word.min(last)] >> (code % 64)) as u8 & 1;
            bit & u8::from(word <= last)
        })
    }

    /// Decodes the rows `start + position` as `base + code`.
    ///
    /// # Panics
    /// If a row is outside the column.
    pub fn offsets_at<T: CodeValue>(&self, start: usize, positions: &[u32], base: i64) -> Vec<T> {
        self.map_at(start, positions, |code| T::offset(base, code))
    }

    /// Decodes the rows `start + position` as `table[code - first]`; codes outside the table give
    /// its nearest end.
    ///
    /// # Panics
    /// If a row is outside the column, or there are positions and the table is empty.
    pub fn looked_up_at<T: Copy>(
        &self,
        start: usize,
        positions: &[u32],
        first: u32,
        table: &[T],
    ) -> Vec<T> {
        self.map_at(start, positions, |code| {
            table[(code.saturating_sub(first) as usize).min(table.len() - 1)]
        })
    }

    /// Decodes the rows `start + position` with the function `value`.
    pub(crate) fn map_at<T>(
        &self,
        start: usize,
        positions: &[u32],
        value: impl Fn(u32) -> T,
    ) -> Vec<T> {
        let from = |position: &u32| start + *position as usize;
        // Bounds checks of the bytes alone would not catch positions in the padding.
        if let Some(last) = positions.iter().max() {
            assert!(
                from(last) < self.rows(),
                "row {} of {}",
                from(last),
                self.rows()
            );
        }
        match self.width() {
            CodeWidth::Zero => positions.iter().map(|_| value(0)).collect(),
            CodeWidth::One => {
                let codes = self.bytes();
                let code = |at: &u32| value(u32::from(codes[from(at)]));
                positions.iter().map(code).collect()
            }
            CodeWidth::Two => {
                let codes = self.bytes().as_chunks::<2>().0;
                let code = |at: &u32| value(u32::from(u16::from_le_bytes(codes[from(at)])));
                positions.iter().map(code).collect()
            }
            CodeWidth::Three | CodeWidth::Four => positions
                .iter()
                .map(|at| value(self.get(from(at))))
                .collect(),
        }
    }
}

/// Positions of the elements of `hits` that are not 0, ascending.
pub fn positions(hits: &[u8]) -> Vec<u32> {
    let mut found = vec![0_u32; hits.len()];
    let mut count = 0;
    let (words, rest) = hits.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        // Eight rows without a hit, which is common for selective predicates, are skipped at once.
        if u64::from_le_bytes(*word) == 0 {
            continue;
        }
        for (at, hit) in word.iter().enumerate() {
            // Always stored, counted only if it is a hit: no branch that could be mispredicted.
            found[count] = (index * 8 + at) as u32;
            count += usize::from(*hit != 0);
        }
    }
    for (at, hit) in rest.iter().enumerate() {
        found[count] = (words.len() * 8 + at) as u32;
        count += usize::from(*hit != 0);
    }
    found.truncate(count);
    found
}

/// ANDs `more` into `hits`; the elements of both are 0 or 1.
pub fn intersect(hits: &mut [u8], more: &[u8]) {
    hits.iter_mut()
        .zip(more)
        .for_each(|(hit, also)| *hit &= also);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::pack;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn chosen_rows_are_those_of_a_plain_loop_at_any_width(
            seeds in prop::collection::vec(any::<u32>(), 1..300),
            from in 0_usize..300,
            max in prop::sample::select(vec![0_u32, 0xff, 0xffff, 0xff_ffff, u32::MAX]),
            bounds in any::<(u32, u32)>(),
        ) {
            let codes: Vec<u32> = seeds.iter().map(|s| s & max).collect();
            let width = CodeWidth::for_max(max);
            let mut bytes = vec![0xee; width.size_bytes(codes.len())];
            pack(&mut bytes, width, 0, &codes);
            let column = Codes::new(&bytes, width, codes.len()).unwrap();
            let start = from.min(codes.len() - 1);
            let low = (bounds.0 & max).min(bounds.1 & max);
            let high = (bounds.0 & max).max(bounds.1 & max);
            let mut hits = column.in_range(start..codes.len(), low, high);
            intersect(&mut hits, &column.in_range(start..codes.len(), 0, high));
            let expected: Vec<u32> = (0..(codes.len() - start) as u32)
                .filter(|at| (low..=high).contains(&codes[start + *at as usize]))
                .collect();
            let found = positions(&hits);
            prop_assert_eq!(&found, &expected);
            // The same rows by a bit per code, where so many bits can be made.
            if max <= 0xff_ffff {
                let mut bits = vec![0_u64; high as usize / 64 + 1];
                (low..=high).for_each(|code| bits[(code / 64) as usize] |= 1 << (code % 64));
                let by_bits = column.in_bits(start..codes.len(), &bits);
                prop_assert_eq!(positions(&by_bits), expected.clone());
            }
            let values: Vec<i64> = expected.iter().map(|at| i64::from(codes[start + *at as usize]) - 9).collect();
            prop_assert_eq!(column.offsets_at::<i64>(start, &found, -9), values);
            let table: Vec<u32> = (0..256).collect();
            let looked: Vec<u32> = expected.iter().map(|at| codes[start + *at as usize].saturating_sub(1).min(255)).collect();
            prop_assert_eq!(column.looked_up_at(start, &found, 1, &table), looked);
        }
    }
}
