//! Rows as bytes: their words, little-endian.

/// The words of a row, or of several; bytes behind the last whole word do not count.
pub(crate) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}
