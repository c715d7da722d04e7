//! Sets of codes, as bitmaps.

use crate::codes::CodeWidth;
use crate::prefetch_read;

/// A set of codes of a column, as a bitmap.
///
/// Bits and not bytes: the keys of a dimension of a million rows take 128 KiB, which stay in a
/// core's L2 cache.
#[derive(Debug, Clone)]
pub struct CodeSet {
    /// For codes of up to three bytes, a bit for every code of that width, so that no code is out
    /// of bounds.
    ///
    /// For four bytes, the bits of the column's codes, then one word of 0 for all others. Pages
    /// behind the column's codes are never touched, so they take no memory.
    words: Vec<u32>,
    /// Number of codes of the column: codes are below it.
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
            1..=3 => unsafe { *self.words.get_unchecked(code as usize >> 5) },
            _ => return self.contains(code),
        };
        bits.wrapping_shr(code) & 1 != 0
    }

    /// Whether every code of `width` bytes can be looked up without a bounds check, or is checked.
    pub(super) fn covers(&self, width: CodeWidth) -> bool {
        match width {
            CodeWidth::Zero | CodeWidth::Four => true,
            narrow => self.words.len() >= 1 << (8 * narrow.bytes() - 5),
        }
    }

    /// Prefetches the line with `code`'s bit.
    #[inline(always)]
    pub fn prefetch(&self, code: u32) {
        prefetch_read(&self.words, code as usize / 32);
    }

    /// Number of codes in the set.
    pub fn len(&self) -> u64 {
        self.used().iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// Whether the set has no codes.
    pub fn is_empty(&self) -> bool {
        self.used().iter().all(|w| *w == 0)
    }

    /// The smallest and the largest code, if the set has all codes between them; a range test is
    /// then enough.
    pub fn as_range(&self) -> Option<(u32, u32)> {
        let low = self.used().iter().position(|w| *w != 0)?;
        let high = self.used().iter().rposition(|w| *w != 0)?;
        let low = low as u32 * 32 + self.words[low].trailing_zeros();
        let high = high as u32 * 32 + 31 - self.words[high].leading_zeros();
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
