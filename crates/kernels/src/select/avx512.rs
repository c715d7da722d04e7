//! The same filters with AVX-512, on processors that have it.

#[cfg(not(target_arch = "x86_64"))]
pub(super) use plain::{available, compress, count, test};
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{available, compress, count, test};

#[cfg(not(target_arch = "x86_64"))]
mod plain {
    //! Placeholders: other processors take the scalar loops.
    use super::super::SLOTS;
    use super::super::dense::DenseTest;

    pub(in super::super) fn available() -> bool {
        false
    }

    pub(in super::super) fn test(_: &DenseTest<'_>, _: usize, _: &mut [u64], _: bool) -> bool {
        false
    }

    pub(in super::super) fn compress(_: &[u64], _: usize, _: &mut [u16; SLOTS]) -> Option<usize> {
        None
    }

    pub(in super::super) fn count(words: &[u64]) -> u64 {
        words.iter().map(|w| u64::from(w.count_ones())).sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::dense::{CHUNK_ROWS, CHUNK_WORDS, CodeTest, DenseTest};
    use super::super::table::CodeSet;
    use super::super::{PREFETCHED_BYTES, SLOTS, VECTOR_ROWS};
    use crate::codes::CodeWidth;
    use std::arch::x86_64::*;

    /// Whether the processor has AVX-512 with byte instructions, byte permutes and compression (Ice
    /// Lake, Zen 4 and later).
    pub(in super::super) fn available() -> bool {
        is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("popcnt")
    }

    /// Tests the rows `start..start + 64 * mask.len()`. Returns `false`, and does nothing, if there
    /// is no vector loop for the test.
    ///
    /// The caller has checked that the rows exist and that a set covers its column's width.
    pub(in super::super) fn test(
        test: &DenseTest<'_>,
        start: usize,
        mask: &mut [u64],
        and: bool,
    ) -> bool {
        let width = test.codes.width();
        let bytes = &test.codes.bytes()[start * width.bytes()..];
        // 64 rows are `64 * width` bytes. The last load of three-byte codes reads 16 bytes of the
        // padding.
        assert!(
            bytes.len() >= mask.len() * 64 * width.bytes() + 16 && mask.len() <= CHUNK_WORDS,
            "codes without padding"
        );
        if !available() {
            return false;
        }
        let first = bytes.as_ptr();
        // SAFETY: the processor has the instructions, and the assertion above covers every load.
        unsafe {
            match test.test {
                CodeTest::Range { low, high } => range(first, width, low, high, mask, and),
                CodeTest::Set(set) => match width {
                    CodeWidth::Zero => return false,
                    CodeWidth::One => set8(first, set, mask, and),
                    CodeWidth::Two => set_wide::<2>(first, set, mask, and),
                    CodeWidth::Three => set_wide::<3>(first, set, mask, and),
                    CodeWidth::Four => set_wide::<4>(first, set, mask, and),
                },
            }
        }
        width != CodeWidth::Zero
    }

    /// # Safety
    /// [`available`]; `first` is followed by 64 codes for each word of `mask`, and 16 bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn range(
        first: *const u8,
        width: CodeWidth,
        low: u32,
        high: u32,
        mask: &mut [u64],
        and: bool,
    ) {
        // A range above the width's largest code is empty. Its upper end is cut to that code, since
        // the comparisons below are as narrow as the codes.
        let max = match width {
            CodeWidth::Four => u32::MAX,
            narrow => ((1u64 << (8 * narrow.bytes())) - 1) as u32,
        };
        if low > max {
            mask.fill(0);
            return;
        }
        let span = high.wrapping_sub(low).min(max - low);
        // SAFETY: the caller guarantees the processor and the bytes.
        unsafe {
            match width {
                CodeWidth::Zero => {}
                CodeWidth::One => range8(first, low as u8, span as u8, mask, and),
                CodeWidth::Two => range16(first, low as u16, span as u16, mask, and),
                CodeWidth::Three => range32::<3>(first, low, span, mask, and),
                CodeWidth::Four => range32::<4>(first, low, span, mask, and),
            }
        }
    }

    #[inline(always)]
    fn put(slot: &mut u64, bits: u64, and: bool) {
        *slot = if and { *slot & bits } else { bits };
    }

    /// Prefetches `LINES` lines, one vector ahead of `line`.
    #[inline(always)]
    fn ahead<const LINES: usize>(line: *const u8) {
        for i in 0..LINES {
            let address = line.wrapping_add(LINES * VECTOR_ROWS + i * 64);
            // SAFETY: a prefetch is a hint that cannot fault, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
        }
    }

    /// # Safety
    /// AVX-512BW; `first` is followed by 64 bytes for each word of `mask`.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn range8(first: *const u8, low: u8, span: u8, mask: &mut [u64], and: bool) {
        let (low, span) = (_mm512_set1_epi8(low as i8), _mm512_set1_epi8(span as i8));
        for (block, slot) in mask.iter_mut().enumerate() {
            let line = first.wrapping_add(block * 64);
            ahead::<1>(line);
            // SAFETY: the caller guarantees 64 bytes for each word of `mask`.
            let v = unsafe { _mm512_loadu_si512(line.cast()) };
            let bits = _mm512_cmple_epu8_mask(_mm512_sub_epi8(v, low), span);
            put(slot, bits, and);
        }
    }

    /// # Safety
    /// AVX-512BW; `first` is followed by 128 bytes for each word of `mask`.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn range16(first: *const u8, low: u16, span: u16, mask: &mut [u64], and: bool) {
        let low = _mm512_set1_epi16(low as i16);
        let span = _mm512_set1_epi16(span as i16);
        for (block, slot) in mask.iter_mut().enumerate() {
            let line = first.wrapping_add(block * 128);
            ahead::<2>(line);
            let mut bits = 0u64;
            for half in 0..2 {
                // SAFETY: the caller guarantees 128 bytes for each word of `mask`.
                let v = unsafe { _mm512_loadu_si512(line.add(half * 64).cast()) };
                let m = _mm512_cmple_epu16_mask(_mm512_sub_epi16(v, low), span);
                bits |= u64::from(m) << (32 * half);
            }
            put(slot, bits, and);
        }
    }

    /// Loads 16 codes of `WIDTH` bytes into 32-bit lanes.
    ///
    /// # Safety
    /// AVX-512 with VBMI; `first` is followed by 64 readable bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn sixteen<const WIDTH: usize>(first: *const u8) -> __m512i {
        // SAFETY: the caller guarantees 64 readable bytes; no branch loads more.
        unsafe {
            match WIDTH {
                2 => _mm512_cvtepu16_epi32(_mm256_loadu_si256(first.cast())),
                3 => {
                    let v = _mm512_loadu_si512(first.cast());
                    _mm512_maskz_permutexvar_epi8(0x7777_7777_7777_7777, spread24(), v)
                }
                _ => _mm512_loadu_si512(first.cast()),
            }
        }
    }

    /// # Safety
    /// AVX-512 with VBMI; `first` is followed by 64 codes for each word of `mask`, and 16 bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn range32<const WIDTH: usize>(
        first: *const u8,
        low: u32,
        span: u32,
        mask: &mut [u64],
        and: bool,
    ) {
        let low = _mm512_set1_epi32(low as i32);
        let span = _mm512_set1_epi32(span as i32);
        for (block, slot) in mask.iter_mut().enumerate() {
            let line = first.wrapping_add(block * 64 * WIDTH);
            ahead::<WIDTH>(line);
            let mut bits = 0u64;
            for part in 0..4 {
                // SAFETY: the codes are there, and the last load ends at most 16 bytes behind the
                // block, as the caller guarantees.
                let v = unsafe { sixteen::<WIDTH>(line.add(part * 16 * WIDTH)) };
                let m = _mm512_cmple_epu32_mask(_mm512_sub_epi32(v, low), span);
                bits |= u64::from(m) << (16 * part);
            }
            put(slot, bits, and);
        }
    }

    /// Byte indices that spread 16 three-byte codes over 32-bit lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn spread24() -> __m512i {
        let step = _mm512_set1_epi32(0x0002_0100);
        let lane = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
        let lane = _mm512_mullo_epi32(lane, _mm512_set1_epi32(0x0001_0101));
        _mm512_add_epi32(lane, step)
    }

    /// # Safety
    /// AVX-512 with VBMI; `first` is followed by 64 bytes for each word of `mask`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn set8(first: *const u8, set: &CodeSet, mask: &mut [u64], and: bool) {
        // The bitmap of all 256 codes is 32 bytes: it fits a register, and a byte permute is the
        // lookup.
        let mut table = [0u8; 32];
        for (slot, word) in table.as_chunks_mut::<4>().0.iter_mut().zip(set.words()) {
            *slot = word.to_le_bytes();
        }
        // SAFETY: the array has 32 bytes; the load needs no alignment.
        let half = unsafe { _mm256_loadu_si256(table.as_ptr().cast()) };
        let table = _mm512_broadcast_i64x4(half);
        let bit_of = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
        let (five, seven) = (_mm512_set1_epi8(31), _mm512_set1_epi8(7));
        for (block, slot) in mask.iter_mut().enumerate() {
            let line = first.wrapping_add(block * 64);
            ahead::<1>(line);
            // SAFETY: the caller guarantees 64 bytes for each word of `mask`.
            let v = unsafe { _mm512_loadu_si512(line.cast()) };
            // There is no shift of bytes; the AND clears what comes in from the neighbouring byte.
            let index = _mm512_and_si512(_mm512_srli_epi16::<3>(v), five);
            let byte = _mm512_permutexvar_epi8(index, table);
            let bit = _mm512_permutexvar_epi8(_mm512_and_si512(v, seven), bit_of);
            put(slot, _mm512_test_epi8_mask(byte, bit), and);
        }
    }

    /// Tests codes of two bytes and more against a set. Word index and bit position are computed in
    /// vectors; only the words are loaded one by one.
    ///
    /// The gather instruction takes twice as long (Zen 5: 0.85 ns a row).
    ///
    /// # Safety
    /// AVX-512 with VBMI; `first` is followed by 64 codes for each word of `mask`, and 16 bytes;
    /// `set` covers the width.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn set_wide<const WIDTH: usize>(
        first: *const u8,
        set: &CodeSet,
        mask: &mut [u64],
        and: bool,
    ) {
        let words = set.words();
        let mut found = [0u32; CHUNK_ROWS];
        let found = &mut found[..mask.len() * 64];
        let last = _mm512_set1_epi32(words.len() as i32 - 1);
        for (block, slots) in found.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            let line = first.wrapping_add(block * 64 * WIDTH);
            ahead::<WIDTH>(line);
            for part in 0..4 {
                // SAFETY: the caller guarantees the bytes; the slots have room for four registers.
                unsafe {
                    let v = sixteen::<WIDTH>(line.add(part * 16 * WIDTH));
                    let mut index = _mm512_srli_epi32::<5>(v);
                    if WIDTH >= 3 {
                        // The last word is 0 and represents all codes that the column does not
                        // have.
                        index = _mm512_min_epu32(index, last);
                    }
                    _mm512_storeu_si512(slots.as_mut_ptr().add(part * 16).cast(), index);
                }
            }
        }
        // SAFETY: a set that covers its width has a word for every code of it, and indices of codes
        // of three and four bytes were limited to the last word.
        unsafe { look_up(words, found, set.size_bytes() > PREFETCHED_BYTES) };
        // Second pass: the codes are loaded again, from the L1 cache, for their bit positions.
        let one = _mm512_set1_epi32(1);
        let low_bits = _mm512_set1_epi32(31);
        for (block, slot) in mask.iter_mut().enumerate() {
            let line = first.wrapping_add(block * 64 * WIDTH);
            let mut bits = 0u64;
            for part in 0..4 {
                // SAFETY: the caller guarantees the bytes; `found` has 64 words for each word of
                // `mask`.
                unsafe {
                    let v = sixteen::<WIDTH>(line.add(part * 16 * WIDTH));
                    let at = found.as_ptr().add(block * 64 + part * 16);
                    let word = _mm512_loadu_si512(at.cast());
                    let shifted = _mm512_srlv_epi32(word, _mm512_and_si512(v, low_bits));
                    bits |= u64::from(_mm512_test_epi32_mask(shifted, one)) << (16 * part);
                }
            }
            put(slot, bits, and);
        }
    }

    /// Replaces indices by the words they refer to. Compiled without AVX-512, so that the compiler
    /// does not turn the loop into gathers.
    ///
    /// # Safety
    /// All indices are less than `words.len()`.
    #[inline(never)]
    unsafe fn look_up(words: &[u32], indices: &mut [u32], far: bool) {
        if far {
            for index in indices.iter() {
                crate::prefetch_read(words, *index as usize);
            }
        }
        for index in indices {
            // SAFETY: the caller guarantees that the index is in bounds.
            *index = unsafe { *words.get_unchecked(*index as usize) };
        }
    }

    /// Number of set bits.
    #[inline]
    pub(in super::super) fn count(words: &[u64]) -> u64 {
        // The x86-64 baseline has no POPCNT, so `count_ones` needs a function that enables it.
        if is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has POPCNT, which was just checked.
            return unsafe { count_words(words) };
        }
        words.iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// # Safety
    /// The processor must have POPCNT.
    #[target_feature(enable = "popcnt")]
    unsafe fn count_words(words: &[u64]) -> u64 {
        words.iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// Converts the first `rows` bits to positions; `None` if the processor lacks the instructions.
    pub(in super::super) fn compress(
        mask: &[u64],
        rows: usize,
        out: &mut [u16; SLOTS],
    ) -> Option<usize> {
        if !available() || rows > VECTOR_ROWS || mask.len() * 64 > VECTOR_ROWS {
            return None;
        }
        // SAFETY: the processor has the instructions, and `mask` has at most `VECTOR_ROWS` bits;
        // `out` has room for one register more.
        Some(unsafe { compress_all(mask, rows, out) })
    }

    /// # Safety
    /// AVX-512 with VBMI2; `mask` has at most `VECTOR_ROWS` bits.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    unsafe fn compress_all(mask: &[u64], rows: usize, out: &mut [u16; SLOTS]) -> usize {
        let mut numbers = [0u16; 32];
        for (i, slot) in numbers.iter_mut().enumerate() {
            *slot = i as u16;
        }
        // SAFETY: the array is one register long; the load needs no alignment.
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
                // SAFETY: at most `64 * word` positions have been stored, and the two stores reach
                // at most 64 elements further. That is inside `out`, as `word` is below
                // `VECTOR_ROWS / 64`.
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
