//! One bit a row, 64 rows a word.

use super::table::CodeSet;
use super::{SLOTS, VECTOR_ROWS, check};
use crate::codes::{CodeWidth, Codes};

/// Words of the bits of a vector.
pub type Mask = [u64; VECTOR_ROWS / 64];

/// Sets the bits of the rows `start..start + rows` whose code lies in `low..=high`; with `and`, clears those of all others and sets none.
///
/// # Panics
/// If the rows do not exist or are more than [`VECTOR_ROWS`].
pub fn range_mask(
    codes: &Codes<'_>,
    start: usize,
    rows: usize,
    (low, high): (u32, u32),
    mask: &mut Mask,
    and: bool,
) {
    check(codes, start, rows);
    let span = high.wrapping_sub(low);
    let whole = rows / 64;
    if !x86::range(codes, start, whole, low, span, mask, and) {
        blocks(codes, start, whole * 64, mask, and, |c| {
            c.wrapping_sub(low) <= span
        });
    }
    let rest = &mut mask[whole..];
    blocks(codes, start + whole * 64, rows % 64, rest, and, |c| {
        c.wrapping_sub(low) <= span
    });
}

/// The same for codes in `set`; `false` and nothing done unless the codes are one byte wide and the processor can do it in registers.
///
/// Wider codes would need gathers, which measured slower than a loop over rows (Zen 5: 0.85 ns a row).
///
/// # Panics
/// If the rows do not exist or are more than [`VECTOR_ROWS`].
pub fn set_mask(
    codes: &Codes<'_>,
    start: usize,
    rows: usize,
    set: &CodeSet,
    mask: &mut Mask,
    and: bool,
) -> bool {
    check(codes, start, rows);
    if codes.width() != CodeWidth::One {
        return false;
    }
    let whole = rows / 64;
    let done = x86::set(codes, start, whole, set, mask, and);
    if done {
        let rest = &mut mask[whole..];
        blocks(codes, start + whole * 64, rows % 64, rest, and, |c| {
            set.contains(c)
        });
    }
    done
}

/// How many of the bits of the first `rows` are set.
///
/// # Panics
/// If `rows` is more than [`VECTOR_ROWS`].
pub fn count(mask: &Mask, rows: usize) -> usize {
    let words = &mask[..rows / 64];
    let whole =
        x86::count(words).unwrap_or_else(|| words.iter().map(|w| w.count_ones() as usize).sum());
    let rest = match rows % 64 {
        0 => 0,
        left => (mask[rows / 64] & ((1 << left) - 1)).count_ones() as usize,
    };
    whole + rest
}

/// Writes the positions of the bits set among the first `rows`, at most [`VECTOR_ROWS`]; answers how many.
pub(super) fn positions(mask: &Mask, rows: usize, out: &mut [u16; SLOTS]) -> usize {
    let words = rows.div_ceil(64);
    if let Some(count) = x86::compress(&mask[..words], rows, out) {
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

fn blocks(
    codes: &Codes<'_>,
    start: usize,
    rows: usize,
    mask: &mut [u64],
    and: bool,
    keep: impl Fn(u32) -> bool,
) {
    let mut unpacked = [0u32; 64];
    for (word, slot) in mask.iter_mut().enumerate().take(rows.div_ceil(64)) {
        let first = start + word * 64;
        let len = (rows - word * 64).min(64);
        codes.unpack(first..first + len, &mut unpacked);
        let bits = unpacked[..len]
            .iter()
            .enumerate()
            .fold(0u64, |bits, (i, c)| bits | (u64::from(keep(*c)) << i));
        *slot = if and { *slot & bits } else { bits };
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod x86 {
    //! Nothing here: other processors take the plain loops.
    use super::{CodeSet, Codes, Mask, SLOTS};

    pub(super) fn range(
        _: &Codes<'_>,
        _: usize,
        _: usize,
        _: u32,
        _: u32,
        _: &mut Mask,
        _: bool,
    ) -> bool {
        false
    }

    pub(super) fn set(
        _: &Codes<'_>,
        _: usize,
        _: usize,
        _: &CodeSet,
        _: &mut Mask,
        _: bool,
    ) -> bool {
        false
    }

    pub(super) fn count(_: &[u64]) -> Option<usize> {
        None
    }

    pub(super) fn compress(_: &[u64], _: usize, _: &mut [u16; SLOTS]) -> Option<usize> {
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CodeSet, CodeWidth, Codes, Mask, SLOTS, VECTOR_ROWS};
    use std::arch::x86_64::*;

    /// AVX-512 with byte instructions, permutes and compression (Ice Lake, Zen 4 and later).
    fn available() -> bool {
        is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
    }

    /// `blocks` words of the mask of `codes - low <= span`; false if the processor lacks the instructions.
    pub(super) fn range(
        codes: &Codes<'_>,
        start: usize,
        blocks: usize,
        low: u32,
        span: u32,
        mask: &mut Mask,
        and: bool,
    ) -> bool {
        if !available() {
            return false;
        }
        let width = codes.width().bytes();
        let bytes = &codes.bytes()[start * width..];
        // Sixty-four rows are `64 * width` bytes; the last load of three-byte codes reads 16 bytes of the padding.
        assert!(
            bytes.len() >= blocks * 64 * width + 16,
            "codes without padding"
        );
        let mask = &mut mask[..blocks];
        // Nothing passes a range that begins above what the width can hold; its end is cut to that.
        let max = match codes.width() {
            CodeWidth::Four => u32::MAX,
            _ => ((1u64 << (8 * width)) - 1) as u32,
        };
        if low > max {
            mask.fill(0);
            return true;
        }
        let span = span.min(max - low);
        // SAFETY: the processor has the instructions (`available`), and `bytes` holds every line that is loaded (asserted).
        unsafe {
            match codes.width() {
                CodeWidth::Zero => return false,
                CodeWidth::One => range8(bytes, low as u8, span as u8, mask, and),
                CodeWidth::Two => range16(bytes, low as u16, span as u16, mask, and),
                CodeWidth::Three => range24(bytes, low, span, mask, and),
                CodeWidth::Four => range32(bytes, low, span, mask, and),
            }
        }
        true
    }

    #[inline(always)]
    fn put(slot: &mut u64, bits: u64, and: bool) {
        *slot = if and { *slot & bits } else { bits };
    }

    /// # Safety
    /// AVX-512BW; `bytes` has 64 bytes for each word of `mask`.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn range8(bytes: &[u8], low: u8, span: u8, mask: &mut [u64], and: bool) {
        let (low, span) = (_mm512_set1_epi8(low as i8), _mm512_set1_epi8(span as i8));
        for (block, slot) in mask.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let v = unsafe { _mm512_loadu_si512(bytes.as_ptr().add(block * 64).cast()) };
            put(
                slot,
                _mm512_cmple_epu8_mask(_mm512_sub_epi8(v, low), span),
                and,
            );
        }
    }

    /// # Safety
    /// AVX-512BW; `bytes` has 128 bytes for each word of `mask`.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn range16(bytes: &[u8], low: u16, span: u16, mask: &mut [u64], and: bool) {
        let (low, span) = (
            _mm512_set1_epi16(low as i16),
            _mm512_set1_epi16(span as i16),
        );
        for (block, slot) in mask.iter_mut().enumerate() {
            let mut bits = 0u64;
            for half in 0..2 {
                // SAFETY: the caller's promise.
                let v = unsafe {
                    _mm512_loadu_si512(bytes.as_ptr().add(block * 128 + half * 64).cast())
                };
                let m = _mm512_cmple_epu16_mask(_mm512_sub_epi16(v, low), span);
                bits |= u64::from(m) << (32 * half);
            }
            put(slot, bits, and);
        }
    }

    /// # Safety
    /// AVX-512 with VBMI; `bytes` has 192 bytes for each word of `mask` and 16 more.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn range24(bytes: &[u8], low: u32, span: u32, mask: &mut [u64], and: bool) {
        let (low, span) = (
            _mm512_set1_epi32(low as i32),
            _mm512_set1_epi32(span as i32),
        );
        let spread = spread24();
        for (block, slot) in mask.iter_mut().enumerate() {
            let mut bits = 0u64;
            for part in 0..4 {
                // SAFETY: the caller's promise: the last load ends 16 bytes behind the block.
                let v = unsafe {
                    _mm512_loadu_si512(bytes.as_ptr().add(block * 192 + part * 48).cast())
                };
                let v = _mm512_maskz_permutexvar_epi8(0x7777_7777_7777_7777, spread, v);
                let m = _mm512_cmple_epu32_mask(_mm512_sub_epi32(v, low), span);
                bits |= u64::from(m) << (16 * part);
            }
            put(slot, bits, and);
        }
    }

    /// Byte indices that spread sixteen three-byte codes over four-byte lanes.
    #[target_feature(enable = "avx512f")]
    fn spread24() -> __m512i {
        let step = _mm512_set1_epi32(0x0002_0100);
        let lane = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
        let lane = _mm512_mullo_epi32(lane, _mm512_set1_epi32(0x0001_0101));
        _mm512_add_epi32(lane, step)
    }

    /// # Safety
    /// AVX-512F; `bytes` has 256 bytes for each word of `mask`.
    #[target_feature(enable = "avx512f")]
    unsafe fn range32(bytes: &[u8], low: u32, span: u32, mask: &mut [u64], and: bool) {
        let (low, span) = (
            _mm512_set1_epi32(low as i32),
            _mm512_set1_epi32(span as i32),
        );
        for (block, slot) in mask.iter_mut().enumerate() {
            let mut bits = 0u64;
            for part in 0..4 {
                // SAFETY: the caller's promise.
                let v = unsafe {
                    _mm512_loadu_si512(bytes.as_ptr().add(block * 256 + part * 64).cast())
                };
                let m = _mm512_cmple_epu32_mask(_mm512_sub_epi32(v, low), span);
                bits |= u64::from(m) << (16 * part);
            }
            put(slot, bits, and);
        }
    }

    /// `blocks` words of the mask of one-byte codes in `set`; false if the processor lacks the instructions.
    pub(super) fn set(
        codes: &Codes<'_>,
        start: usize,
        blocks: usize,
        set: &CodeSet,
        mask: &mut Mask,
        and: bool,
    ) -> bool {
        if !available() || codes.width() != CodeWidth::One {
            return false;
        }
        let bytes = &codes.bytes()[start..];
        assert!(bytes.len() >= blocks * 64, "codes without padding");
        let mut table = [0u8; 32];
        for (slot, word) in table.as_chunks_mut::<4>().0.iter_mut().zip(set.words()) {
            *slot = word.to_le_bytes();
        }
        // SAFETY: the processor has the instructions, and `bytes` holds every line that is loaded (asserted).
        unsafe { set8(bytes, &table, &mut mask[..blocks], and) };
        true
    }

    /// # Safety
    /// AVX-512 with VBMI; `bytes` has 64 bytes for each word of `mask`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn set8(bytes: &[u8], table: &[u8; 32], mask: &mut [u64], and: bool) {
        // SAFETY: the array has 32 bytes; loads need no alignment.
        let half = unsafe { _mm256_loadu_si256(table.as_ptr().cast()) };
        let table = _mm512_broadcast_i64x4(half);
        let bit_of = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
        let (five, seven) = (_mm512_set1_epi8(31), _mm512_set1_epi8(7));
        for (block, slot) in mask.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let v = unsafe { _mm512_loadu_si512(bytes.as_ptr().add(block * 64).cast()) };
            let index = _mm512_and_si512(_mm512_srli_epi16::<3>(v), five);
            let byte = _mm512_permutexvar_epi8(index, table);
            let bit = _mm512_permutexvar_epi8(_mm512_and_si512(v, seven), bit_of);
            put(slot, _mm512_test_epi8_mask(byte, bit), and);
        }
    }

    /// Bits set, with the processor's instruction for it; `None` if it has none.
    pub(super) fn count(words: &[u64]) -> Option<usize> {
        if !is_x86_feature_detected!("popcnt") {
            return None;
        }
        // SAFETY: the processor has the instruction.
        Some(unsafe { count_words(words) })
    }

    /// # Safety
    /// POPCNT.
    #[target_feature(enable = "popcnt")]
    unsafe fn count_words(words: &[u64]) -> usize {
        words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Writes the positions of the bits set among the first `rows`; `None` if the processor lacks the instructions.
    pub(super) fn compress(mask: &[u64], rows: usize, out: &mut [u16; SLOTS]) -> Option<usize> {
        if !available() || rows > VECTOR_ROWS || mask.len() * 64 > VECTOR_ROWS {
            return None;
        }
        // SAFETY: the processor has the instructions; at most `VECTOR_ROWS` positions are written, and one register behind them.
        Some(unsafe { compress_all(mask, rows, out) })
    }

    /// # Safety
    /// AVX-512 with VBMI2; `mask` has at most `VECTOR_ROWS` bits.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
    unsafe fn compress_all(mask: &[u64], rows: usize, out: &mut [u16; SLOTS]) -> usize {
        let mut numbers = [0u16; 32];
        for (i, slot) in numbers.iter_mut().enumerate() {
            *slot = i as u16;
        }
        // SAFETY: the array is one register long.
        let mut first = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
        let half = _mm512_set1_epi16(32);
        let mut count = 0;
        for (word, bits) in mask.iter().enumerate() {
            let left = rows.saturating_sub(word * 64);
            let bits = if left < 64 {
                bits & ((1 << left) - 1)
            } else {
                *bits
            };
            let second = _mm512_add_epi16(first, half);
            if bits != 0 {
                let (low, high) = (bits as u32, (bits >> 32) as u32);
                // SAFETY: at most `64 * word` positions were written before; two registers behind them are inside the slots, as there are
                // 64 more than `VECTOR_ROWS`.
                unsafe {
                    let at = out.as_mut_ptr().add(count);
                    _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi16(low, first));
                    count += low.count_ones() as usize;
                    let at = out.as_mut_ptr().add(count);
                    _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi16(high, second));
                }
                count += high.count_ones() as usize;
            }
            first = _mm512_add_epi16(second, half);
        }
        count
    }
}
