//! Sets of codes.

use crate::prefetch_read;

/// A set of codes of a column, as bits.
///
/// Bits rather than bytes: the keys of a dimension of a million rows take 128 KiB, which stay in a core's second-level cache.
#[derive(Debug, Clone)]
pub struct CodeSet {
    /// The last word is 0 and stands for all codes that the column does not have.
    words: Vec<u32>,
    /// Codes that the column has.
    codes: u64,
}

impl CodeSet {
    /// An empty set of the codes `0..codes`.
    pub fn new(codes: u64) -> Self {
        // Eight words at least, and the one behind them: tables of up to 256 codes are loaded as one register.
        let words = usize::try_from(codes.div_ceil(32)).unwrap_or(usize::MAX);
        CodeSet {
            words: vec![0; words.max(8) + 1],
            codes,
        }
    }

    /// Codes that the column has.
    pub fn codes(&self) -> u64 {
        self.codes
    }

    /// Its bytes.
    pub fn size_bytes(&self) -> usize {
        self.words.len() * 4
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
        let word = (code as usize / 32).min(self.words.len() - 1);
        // SAFETY: `word` is at most the last index, and `new` makes nine words at least.
        let bits = unsafe { *self.words.get_unchecked(word) };
        (bits >> (code % 32)) & 1 != 0
    }

    /// Asks for the line that holds `code`'s bit.
    #[inline(always)]
    pub fn prefetch(&self, code: u32) {
        prefetch_read(&self.words, code as usize / 32);
    }

    /// How many codes are in it.
    pub fn len(&self) -> u64 {
        self.words.iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// Whether no code is in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// The smallest and the largest code, if the set is all that lies between them.
    pub fn as_range(&self) -> Option<(u32, u32)> {
        let low = self.words.iter().position(|w| *w != 0)?;
        let high = self.words.iter().rposition(|w| *w != 0)?;
        let low = low as u32 * 32 + self.words[low].trailing_zeros();
        let high = high as u32 * 32 + 31 - self.words[high].leading_zeros();
        (u64::from(high - low) + 1 == self.len()).then_some((low, high))
    }

    /// The codes that are also in `other`.
    pub fn retain(&mut self, other: &CodeSet) {
        for (index, word) in self.words.iter_mut().enumerate() {
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
