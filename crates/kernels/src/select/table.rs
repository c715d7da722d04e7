//! Sets of codes.

use crate::codes::CodeWidth;
use crate::prefetch_read;

/// A set of codes of a column, as bits.
///
/// Bits rather than bytes: the keys of a dimension of a million rows take 128 KiB, which stay in a
/// core's second-level cache.
#[derive(Debug, Clone)]
pub struct CodeSet {
    /// For codes of up to three bytes a bit for every code that their width can hold, so that no
    /// code lies outside; for wider ones the bits of the column's codes and a last word of 0 for
    /// all others. Memory behind the column's codes is never touched.
    words: Vec<u32>,
    /// Codes that the column has.
    codes: u64,
}

impl CodeSet {
    /// An empty set of the codes `0..codes`.
    pub fn new(codes: u64) -> Self {
        let words =
            match CodeWidth::for_max(u32::try_from(codes.saturating_sub(1)).unwrap_or(u32::MAX)) {
                CodeWidth::Zero | CodeWidth::One => 1 << 3,
                CodeWidth::Two => 1 << 11,
                CodeWidth::Three => 1 << 19,
                CodeWidth::Four => usize::try_from(codes.div_ceil(32)).unwrap_or(usize::MAX) + 1,
            };
        CodeSet {
            words: vec![0; words],
            codes,
        }
    }

    /// Codes that the column has.
    pub fn codes(&self) -> u64 {
        self.codes
    }

    /// Its bytes, as far as they are looked at.
    pub fn size_bytes(&self) -> usize {
        self.used().len() * 4
    }

    /// The words that hold the column's codes.
    fn used(&self) -> &[u32] {
        &self.words[..(self.codes.div_ceil(32) as usize).min(self.words.len())]
    }

    /// Adds `code`; one that the column does not have is left out.
    pub fn insert(&mut self, code: u32) {
        if u64::from(code) < self.codes {
            self.words[code as usize / 32] |= 1 << (code % 32);
        }
    }

    /// Whether `code` is in it.
    #[inline(always)]
    pub fn contains(&self, code: u32) -> bool {
        let word = self.words.get(code as usize / 32).copied().unwrap_or(0);
        (word >> (code % 32)) & 1 != 0
    }

    /// Whether `code`, which `WIDTH` bytes hold, is in the set of a column whose codes are as wide.
    #[inline(always)]
    pub(super) fn contains_of_width<const WIDTH: usize>(&self, code: u32) -> bool {
        let bits = match WIDTH {
            // SAFETY: the caller has asserted that there are as many words as codes of this width
            // need.
            1..=3 => unsafe { *self.words.get_unchecked(code as usize >> 5) },
            _ => return self.contains(code),
        };
        bits.wrapping_shr(code) & 1 != 0
    }

    /// Whether every code of `width` bytes has a bit.
    pub(super) fn covers(&self, width: CodeWidth) -> bool {
        match width {
            CodeWidth::Zero | CodeWidth::Four => true,
            narrow => self.words.len() >= 1 << (8 * narrow.bytes() - 5),
        }
    }

    /// Asks for the line that holds `code`'s bit.
    #[inline(always)]
    pub fn prefetch(&self, code: u32) {
        prefetch_read(&self.words, code as usize / 32);
    }

    /// How many codes are in it.
    pub fn len(&self) -> u64 {
        self.used().iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// Whether no code is in it.
    pub fn is_empty(&self) -> bool {
        self.used().iter().all(|w| *w == 0)
    }

    /// The smallest and the largest code, if the set is all that lies between them.
    pub fn as_range(&self) -> Option<(u32, u32)> {
        let low = self.used().iter().position(|w| *w != 0)?;
        let high = self.used().iter().rposition(|w| *w != 0)?;
        let low = low as u32 * 32 + self.words[low].trailing_zeros();
        let high = high as u32 * 32 + 31 - self.words[high].leading_zeros();
        (u64::from(high - low) + 1 == self.len()).then_some((low, high))
    }

    /// The codes that are also in `other`.
    pub fn retain(&mut self, other: &CodeSet) {
        let used = self.used().len();
        for (index, word) in self.words[..used].iter_mut().enumerate() {
            *word &= other.words.get(index).copied().unwrap_or(0);
        }
    }

    /// The bits, lowest code first.
    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_range_only_if_nothing_is_missing() {
        let mut set = CodeSet::new(100);
        assert_eq!(set.as_range(), None);
        (31..=64).for_each(|c| set.insert(c));
        set.insert(100);
        assert_eq!(set.as_range(), Some((31, 64)));
        set.insert(66);
        assert_eq!(set.as_range(), None);
        assert_eq!(set.len(), 35);
    }
}
