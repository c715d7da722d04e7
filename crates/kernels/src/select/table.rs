//! Sets of codes, as bitmaps.

use crate::codes::CodeWidth;
use crate::prefetch_read;

/// Most words that [`may_have_bit`] looks at.
const MOST_WORDS: u32 = 256;

/// Whether a bit from `low` to `high`, both included, is set in words of `bits` bits, lowest bit
/// first; true without a look if they are in too many words.
///
/// `word` returns the word at an index, with zeros above its bits.
#[inline]
pub fn may_have_bit(low: u32, high: u32, bits: u32, word: impl Fn(usize) -> u64) -> bool {
    let (first, last) = (low / bits, high / bits);
    let from = u64::MAX << (low % bits);
    let to = u64::MAX >> (63 - high % bits);
    last - first >= MOST_WORDS
        || (first..=last).any(|at| {
            let all = u64::MAX;
            let within = if at == first { from } else { all } & if at == last { to } else { all };
            word(at as usize) & within != 0
        })
}

/// A set of codes of a column, as a bitmap.
///
/// Bits and not bytes: the keys of a dimension of a million rows take 128 KiB, which stay in a
/// core's L2 cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSet {
    /// For codes of up to two bytes, a bit for every code of that width, so that no code is out of
    /// bounds.
    ///
    /// For more, the bits of the column's codes, then one word of 0 for all others: three bytes
    /// have 2 MiB of bits, which take longer to clear than a small dimension takes to look up.
    words: Vec<u32>,
    /// Number of codes of the column: codes are below it.
    codes: u64,
}

impl CodeSet {
    /// An empty set of the codes `0..codes`.
    pub fn new(codes: u64) -> Self {
        let words =
            match CodeWidth::for_max(u32::try_from(codes.saturating_sub(1)).unwrap_or(u32::MAX)) {
                CodeWidth::Zero | CodeWidth::One => (1 << 3) + 1,
                CodeWidth::Two => (1 << 11) + 1,
                CodeWidth::Three | CodeWidth::Four => {
                    usize::try_from(codes.div_ceil(32)).unwrap_or(usize::MAX) + 1
                }
            };
        // Zeroed by the allocator: large sets get untouched pages.
        CodeSet {
            words: vec![0; words],
            codes,
        }
    }

    /// Number of codes of the column, in the set or not.
    pub fn codes(&self) -> u64 {
        self.codes
    }

    /// Bytes of the bitmap that are in use.
    pub fn size_bytes(&self) -> usize {
        self.used().len() * 4
    }

    /// The words that have the column's codes.
    fn used(&self) -> &[u32] {
        &self.words[..(self.codes.div_ceil(32) as usize).min(self.words.len())]
    }

    /// Adds `code`; a code that the column does not have is ignored.
    pub fn insert(&mut self, code: u32) {
        if u64::from(code) < self.codes {
            self.words[code as usize / 32] |= 1 << (code % 32);
        }
    }

    /// Whether `code` is in the set; `false` for codes that the column does not have.
    #[inline(always)]
    pub fn contains(&self, code: u32) -> bool {
        let word = self.words.get(code as usize / 32).copied().unwrap_or(0);
        (word >> (code % 32)) & 1 != 0
    }

    /// Same as [`CodeSet::contains`], for a code of `WIDTH` bytes and a set that covers that width.
    #[inline(always)]
    pub(super) fn contains_of_width<const WIDTH: usize>(&self, code: u32) -> bool {
        let bits = match WIDTH {
            // SAFETY: the caller has asserted `covers`: there is a word for every code of this
            // width.
            1..=2 => unsafe { *self.words.get_unchecked(code as usize >> 5) },
            _ => return self.contains(code),
        };
        bits.wrapping_shr(code) & 1 != 0
    }

    /// Whether every code of `width` bytes can be looked up without a bounds check, or is checked.
    pub(super) fn covers(&self, width: CodeWidth) -> bool {
        match width {
            CodeWidth::Zero | CodeWidth::Three | CodeWidth::Four => true,
            narrow => self.words.len() >= 1 << (8 * narrow.bytes() - 5),
        }
    }

    /// Prefetches the line with `code`'s bit.
    #[inline(always)]
    pub fn prefetch(&self, code: u32) {
        prefetch_read(&self.words, code as usize / 32);
    }

    /// Whether a code from `low` to `high`, both included, may be in the set; false only if none
    /// is.
    pub fn may_have(&self, low: u32, high: u32) -> bool {
        let word = |at| self.words.get(at).copied().map_or(0, u64::from);
        may_have_bit(low, high, u32::BITS, word)
    }

    /// Number of codes in the set.
    pub fn len(&self) -> u64 {
        self.used().iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// Whether the set has no codes.
    pub fn is_empty(&self) -> bool {
        self.used().iter().all(|w| *w == 0)
    }

    /// The smallest and the largest code.
    pub fn bounds(&self) -> Option<(u32, u32)> {
        let low = self.used().iter().position(|w| *w != 0)?;
        let high = self.used().iter().rposition(|w| *w != 0)?;
        let low = low as u32 * 32 + self.words[low].trailing_zeros();
        let high = high as u32 * 32 + 31 - self.words[high].leading_zeros();
        Some((low, high))
    }

    /// The smallest and the largest code, if the set has all codes between them; a range test is
    /// then enough.
    pub fn as_range(&self) -> Option<(u32, u32)> {
        let (low, high) = self.bounds()?;
        (u64::from(high - low) + 1 == self.len()).then_some((low, high))
    }

    /// Keeps only the codes that are also in `other`.
    pub fn retain(&mut self, other: &CodeSet) {
        let used = self.used().len();
        for (index, word) in self.words[..used].iter_mut().enumerate() {
            *word &= other.words.get(index).copied().unwrap_or(0);
        }
    }

    /// The bitmap, lowest code first.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_without_codes_of_the_set_is_known_unless_it_is_wide() {
        let mut set = CodeSet::new(100_000);
        [5, 31, 32, 700].iter().for_each(|c| set.insert(*c));
        for (low, high) in [(0, 4), (6, 30), (33, 699), (701, 8000), (701, 701)] {
            assert!(!set.may_have(low, high), "{low} to {high}");
        }
        for (low, high) in [(0, 5), (5, 5), (31, 31), (32, 33), (33, 700), (0, 99_999)] {
            assert!(set.may_have(low, high), "{low} to {high}");
        }
        assert!(set.may_have(701, 99_999), "so many words are not looked at");
        let words = [1_u64 << 63, 0, 1];
        let word = |at: usize| words[at];
        assert!(may_have_bit(63, 63, 64, word) && may_have_bit(0, 128, 64, word));
        assert!(!may_have_bit(64, 127, 64, word) && !may_have_bit(0, 62, 64, word));
    }

    #[test]
    fn a_set_is_a_range_only_if_nothing_is_missing() {
        let mut set = CodeSet::new(100);
        assert_eq!(set.as_range(), None);
        (31..=64).for_each(|c| set.insert(c));
        set.insert(100);
        assert_eq!(set.as_range(), Some((31, 64)));
        set.insert(66);
        assert_eq!(set.as_range(), None);
        assert_eq!(set.bounds(), Some((31, 66)));
        assert_eq!(set.len(), 35);
    }
}
