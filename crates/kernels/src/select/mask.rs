//! Bit masks of a vector: one bit per row, 64 rows per word.

use super::{SLOTS, VECTOR_ROWS, avx512};

/// One bit for each row of a vector.
pub type Mask = [u64; VECTOR_ROWS / 64];

/// Converts the first `rows` bits of a mask (at most [`VECTOR_ROWS`]) to positions; returns how
/// many.
pub(super) fn positions(mask: &Mask, rows: usize, out: &mut [u16; SLOTS]) -> usize {
    let words = rows.div_ceil(64);
    if let Some(count) = avx512::compress(&mask[..words], rows, out) {
        return count;
    }
    let mut count = 0;
    for (word, bits) in mask[..words].iter().enumerate() {
        let left = rows - word * 64;
        let bits = if left < 64 {
            bits & ((1 << left) - 1)
        } else {
            *bits
        };
        count = scalar_positions(bits, word as u16 * 64, out, count);
    }
    count
}

fn scalar_positions(mut bits: u64, base: u16, out: &mut [u16; SLOTS], mut count: usize) -> usize {
    while bits != 0 {
        out[count] = base + bits.trailing_zeros() as u16;
        count += 1;
        bits &= bits - 1;
    }
    count
}
