//! Results of a kernel run: counts, checksum, and the pattern that stores leave in memory.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Counts of one or several kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touched {
    /// Number of accesses made; those of a chain count as one.
    pub operations: u64,
    /// Bytes loaded. Atomics count 8 bytes each.
    pub read_bytes: u64,
    /// Bytes stored. Atomics count 8 bytes each, even for a compare-and-swap that failed.
    pub written_bytes: u64,
    /// Checksum of what was read; 0 for operations not listed here.
    ///
    /// Reads, also those of a mix: wrapping sum of the little-endian 64-bit words read (32-bit
    /// words for accesses of 4 bytes). Fetch-and-add: wrapping sum of the previous values.
    /// Compare-and-swap: number of successes.
    pub checksum: u64,
}

impl Add for Touched {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
            checksum: self.checksum.wrapping_add(other.checksum),
        }
    }
}

impl AddAssign for Touched {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Touched {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Add::add)
    }
}

/// Difference between neighbouring words of the pattern. Odd, so that no word occurs twice.
pub(crate) const PATTERN_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// The word at offset 0; not 0, which is the content of fresh memory.
const PATTERN_FIRST: u64 = 0x7469_6572_6c6f_6f6d;

/// The little-endian word that writing kernels store into the 8 bytes at `offset` (rounded down to
/// a multiple of 8).
///
/// Offsets count from the first whole cache line of the memory. The value depends only on the
/// offset: many threads may write the same memory in any order, and each byte that was written can
/// be checked afterwards. It is linear in the offset, so a vector of words is a broadcast plus a
/// constant, and the next vector is one addition. Stores of all widths therefore write the same
/// bytes, and computing them costs no bandwidth.
#[inline(always)]
pub fn pattern_word(offset: usize) -> u64 {
    ((offset >> 3) as u64)
        .wrapping_mul(PATTERN_STEP)
        .wrapping_add(PATTERN_FIRST)
}

/// Offset of the first byte of `bytes` that differs from the pattern ([`pattern_word`]); `None` if
/// all agree.
///
/// `bytes` must start where the memory does.
pub fn check_pattern(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    let tail_start = words.len() * 8;
    let wrong_in = |start: usize, found: &[u8]| {
        let expected = pattern_word(start).to_le_bytes();
        let same = found.iter().zip(expected).take_while(|(a, b)| **a == *b);
        start + same.count()
    };
    (0..)
        .zip(words)
        .find(|(index, word)| u64::from_le_bytes(**word) != pattern_word(index * 8))
        .map(|(index, word)| wrong_in(index * 8, word))
        .or_else(|| Some(wrong_in(tail_start, rest)).filter(|at| *at < bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_byte_is_found_at_any_offset() {
        let good: Vec<u8> = (0..1000)
            .step_by(8)
            .flat_map(|offset| pattern_word(offset).to_le_bytes())
            .collect();
        for len in [0, 1, 7, 8, 9, 999, 1000] {
            assert_eq!(check_pattern(&good[..len]), None, "{len}");
            for wrong in [0, 3, 8, 501, len.saturating_sub(1)] {
                let mut bad = good[..len].to_vec();
                if let Some(byte) = bad.get_mut(wrong) {
                    *byte ^= 0x10;
                    assert_eq!(check_pattern(&bad), Some(wrong));
                }
            }
        }
    }

    #[test]
    fn nothing_is_lost_when_parts_are_added() {
        let one = Touched {
            operations: 1,
            read_bytes: 2,
            written_bytes: 3,
            checksum: u64::MAX,
        };
        let three: Touched = [one; 3].into_iter().sum();
        let expected = Touched {
            operations: 3,
            read_bytes: 6,
            written_bytes: 9,
            checksum: u64::MAX - 2,
        };
        assert_eq!(three, expected);
    }
}
