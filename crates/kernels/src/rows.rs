//! The rows of a column whose values are in a range: vectors compare, and the numbers of the
//! matching rows are packed together.

use std::ops::RangeInclusive;

use crate::Simd;

/// Bytes of a value and of a row number.
const BYTES: usize = 4;

/// Writes the numbers of the rows whose value is in `range` to `rows`, ascending; returns how many.
///
/// Values and row numbers are little-endian 32-bit numbers; the first value is that of row
/// `first_row`. Bytes of `rows` behind the last row number may be overwritten. A vector width that
/// the processor lacks is replaced by the scalar loop.
///
/// # Panics
/// If `rows` is shorter than `values`.
pub fn rows_in_range(
    simd: Simd,
    values: &[u8],
    first_row: u32,
    range: &RangeInclusive<u32>,
    rows: &mut [u8],
) -> usize {
    assert!(rows.len() >= values.len(), "no room for every row");
    let (low, span) = (*range.start(), range.end().wrapping_sub(*range.start()));
    if range.is_empty() {
        return 0;
    }
    match simd.or_scalar() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `or_scalar` returned this width, so the processor has it; `rows` has room.
        Simd::Avx512 if x86::packs_words() => unsafe {
            x86::avx512_in_two_steps(values, first_row, low, span, rows)
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx512 => unsafe { x86::avx512(values, first_row, low, span, rows) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { x86::avx2(values, first_row, low, span, rows) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Simd::Neon => unsafe { arm::neon(values, first_row, low, span, rows) },
        _ => scalar(values, first_row, low, span, rows, 0),
    }
}

/// The loop over single values from row `from` on, behind `from` rows that others have tested.
fn scalar(
    values: &[u8],
    first_row: u32,
    low: u32,
    span: u32,
    rows: &mut [u8],
    mut found: usize,
) -> usize {
    let rows = rows.as_chunks_mut::<BYTES>().0;
    for (row, value) in (first_row..).zip(values.as_chunks::<BYTES>().0) {
        // Always stored, counted only if it is in the range: no branch to mispredict. At most as
        // many rows are found as were tested, so the place exists.
        rows[found] = row.to_le_bytes();
        found += usize::from(u32::from_le_bytes(*value).wrapping_sub(low) <= span);
    }
    found
}

/// For each mask of `LANES` bits, the lanes that are set, first ones first.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn packed<const LANES: usize, const MASKS: usize>() -> [[u32; LANES]; MASKS] {
    let mut table = [[0; LANES]; MASKS];
    let mut mask = 0;
    while mask < MASKS {
        let (mut lane, mut at) = (0, 0);
        while lane < LANES {
            if mask >> lane & 1 == 1 {
                table[mask][at] = lane as u32;
                at += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::BYTES;

    /// Vectors that are tested before their hits are packed: if none has one, which is common for
    /// selective predicates, nothing is stored.
    const BLOCK: usize = 4;

    static PACKED: [[u32; 8]; 256] = super::packed();

    /// Prefetches the line 2 KiB behind `at`. Hardware prefetchers begin anew in each page, and
    /// loads that wait for comparisons keep fewer lines in flight: on a Zen 5 core, scans that
    /// select 0.1% of a column went from 26 to 37 GB/s.
    #[inline(always)]
    fn prefetch(at: *const u8) {
        // SAFETY: a prefetch is a hint that cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(2048).cast()) };
    }

    /// Vectors whose masks [`avx512_in_two_steps`] makes before it packs rows.
    const MASKS: usize = 128;

    /// Whether the processor has what [`avx512_in_two_steps`] needs (Ice Lake, Zen 4 and later).
    pub(super) fn packs_words() -> bool {
        is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vbmi2")
    }

    /// Makes the masks of [`MASKS`] vectors, then packs the rows of those that have a hit.
    ///
    /// Neither step has a branch that depends on the values: with hits in a few percent of the
    /// vectors, a branch for each is mispredicted often.
    ///
    /// # Safety
    /// The processor must have AVX-512F, and [`packs_words`]; `rows` must be as long as `values`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    pub(super) unsafe fn avx512_in_two_steps(
        values: &[u8],
        first_row: u32,
        low: u32,
        span: u32,
        rows: &mut [u8],
    ) -> usize {
        const LANES: usize = 16;
        const STEP: usize = MASKS * LANES * BYTES;
        let (lows, spans) = (
            _mm512_set1_epi32(low.cast_signed()),
            _mm512_set1_epi32(span.cast_signed()),
        );
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        // The packing of the last 32 masks stores 32 words, whatever it finds.
        let (mut hits, mut at) = ([0_u16; MASKS + 32], [0_u16; MASKS + 32]);
        let mut found = 0;
        let (steps, _) = values.as_chunks::<STEP>();
        for (step, values) in steps.iter().enumerate() {
            let mut masks = [0_u16; MASKS];
            let (vectors, _) = values.as_chunks::<{ LANES * BYTES }>();
            for (vector, mask) in vectors.iter().zip(&mut masks) {
                prefetch(vector.as_ptr());
                // SAFETY: a vector has 64 bytes.
                let loaded = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
                *mask = _mm512_cmple_epu32_mask(_mm512_sub_epi32(loaded, lows), spans);
            }
            let mut kept = 0;
            for (group, masks) in masks.as_chunks::<32>().0.iter().enumerate() {
                // SAFETY: words and vectors are plain bytes of the same size.
                let masks = unsafe { std::mem::transmute::<[u16; 32], __m512i>(*masks) };
                let any = _mm512_test_epi16_mask(masks, masks);
                // SAFETY: as above.
                let numbers = unsafe { std::mem::transmute::<[u16; 32], __m512i>(NUMBERS[group]) };
                // SAFETY: at most `MASKS` words were kept, and there is room for 32 more.
                unsafe {
                    let (hits, at) = (hits.as_mut_ptr().add(kept), at.as_mut_ptr().add(kept));
                    _mm512_storeu_si512(hits.cast(), _mm512_maskz_compress_epi16(any, masks));
                    _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi16(any, numbers));
                }
                kept += any.count_ones() as usize;
            }
            let first = first_row.wrapping_add((step * MASKS * LANES) as u32);
            for (hits, vector) in hits[..kept].iter().zip(&at[..kept]) {
                let row = first.wrapping_add(u32::from(*vector) * LANES as u32);
                let numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(row.cast_signed()));
                let packed = _mm512_maskz_compress_epi32(*hits, numbers);
                // SAFETY: no more rows are found than were tested, so 16 row numbers fit behind
                // those found before.
                unsafe {
                    _mm512_storeu_si512(rows.as_mut_ptr().add(found * BYTES).cast(), packed);
                }
                found += hits.count_ones() as usize;
            }
        }
        let tested = steps.len() * MASKS * LANES;
        let rest = first_row.wrapping_add(tested as u32);
        super::scalar(&values[tested * BYTES..], rest, low, span, rows, found)
    }

    /// The numbers of the masks, in vectors of words.
    const NUMBERS: [[u16; 32]; MASKS / 32] = {
        let mut numbers = [[0; 32]; MASKS / 32];
        let mut mask = 0;
        while mask < MASKS {
            numbers[mask / 32][mask % 32] = mask as u16;
            mask += 1;
        }
        numbers
    };

    /// # Safety
    /// The processor must have AVX-512F; `rows` must be as long as `values`.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) unsafe fn avx512(
        values: &[u8],
        first_row: u32,
        low: u32,
        span: u32,
        rows: &mut [u8],
    ) -> usize {
        const LANES: usize = 16;
        let blocks = values.len() / (BLOCK * LANES * BYTES);
        let (lows, spans) = (
            _mm512_set1_epi32(low as i32),
            _mm512_set1_epi32(span as i32),
        );
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let mut numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(first_row as i32));
        let step = _mm512_set1_epi32(LANES as i32);
        let mut found = 0;
        for block in 0..blocks {
            let mut hits = [0; BLOCK];
            for (vector, hits) in hits.iter_mut().enumerate() {
                let at = (block * BLOCK + vector) * LANES * BYTES;
                prefetch(values.as_ptr().wrapping_add(at));
                // SAFETY: the vector is inside `values`.
                let loaded = unsafe { _mm512_loadu_si512(values.as_ptr().add(at).cast()) };
                *hits = _mm512_cmple_epu32_mask(_mm512_sub_epi32(loaded, lows), spans);
            }
            let any = hits.iter().fold(0, |any, hits| any | hits);
            for hits in hits {
                if any != 0 {
                    // Packed in a register: packing into memory is slow on some processors.
                    let packed = _mm512_maskz_compress_epi32(hits, numbers);
                    // SAFETY: no more rows are found than were tested, so 16 row numbers fit behind
                    // those found before.
                    unsafe {
                        _mm512_storeu_si512(rows.as_mut_ptr().add(found * BYTES).cast(), packed);
                    }
                    found += hits.count_ones() as usize;
                }
                numbers = _mm512_add_epi32(numbers, step);
            }
        }
        let tested = blocks * BLOCK * LANES;
        let rest = first_row.wrapping_add(tested as u32);
        super::scalar(&values[tested * BYTES..], rest, low, span, rows, found)
    }

    /// # Safety
    /// The processor must have AVX2; `rows` must be as long as `values`.
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) unsafe fn avx2(
        values: &[u8],
        first_row: u32,
        low: u32,
        span: u32,
        rows: &mut [u8],
    ) -> usize {
        const LANES: usize = 8;
        let blocks = values.len() / (BLOCK * LANES * BYTES);
        let (lows, spans) = (
            _mm256_set1_epi32(low as i32),
            _mm256_set1_epi32(span as i32),
        );
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mut numbers = _mm256_add_epi32(lanes, _mm256_set1_epi32(first_row as i32));
        let step = _mm256_set1_epi32(LANES as i32);
        let mut found = 0;
        for block in 0..blocks {
            let mut masks = [0; BLOCK];
            for (vector, mask) in masks.iter_mut().enumerate() {
                let at = (block * BLOCK + vector) * LANES * BYTES;
                if vector % 2 == 0 {
                    prefetch(values.as_ptr().wrapping_add(at));
                }
                // SAFETY: the vector is inside `values`.
                let loaded = unsafe { _mm256_loadu_si256(values.as_ptr().add(at).cast()) };
                let tested = _mm256_sub_epi32(loaded, lows);
                // Unsigned "at most": the smaller one of the two is the value itself.
                let hits = _mm256_cmpeq_epi32(_mm256_min_epu32(tested, spans), tested);
                *mask = _mm256_movemask_ps(_mm256_castsi256_ps(hits)) as usize;
            }
            let any = masks.iter().fold(0, |any, mask| any | mask);
            for mask in masks {
                if any != 0 {
                    // SAFETY: as above, with 8 row numbers; a mask has 8 bits, and the table 256
                    // entries.
                    unsafe {
                        let order = _mm256_loadu_si256(PACKED[mask].as_ptr().cast());
                        let packed = _mm256_permutevar8x32_epi32(numbers, order);
                        _mm256_storeu_si256(rows.as_mut_ptr().add(found * BYTES).cast(), packed);
                    }
                    found += mask.count_ones() as usize;
                }
                numbers = _mm256_add_epi32(numbers, step);
            }
        }
        let tested = blocks * BLOCK * LANES;
        let rest = first_row.wrapping_add(tested as u32);
        super::scalar(&values[tested * BYTES..], rest, low, span, rows, found)
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    use super::BYTES;

    /// The lanes that are set, as bytes for a table look-up.
    static PACKED: [[u8; 16]; 16] = bytes();

    const fn bytes() -> [[u8; 16]; 16] {
        let lanes = super::packed::<4, 16>();
        let mut table = [[0; 16]; 16];
        let mut mask = 0;
        while mask < 16 {
            let mut byte = 0;
            while byte < 16 {
                table[mask][byte] = lanes[mask][byte / 4] as u8 * 4 + (byte % 4) as u8;
                byte += 1;
            }
            mask += 1;
        }
        table
    }

    /// # Safety
    /// `rows` must be as long as `values`.
    #[target_feature(enable = "neon")]
    pub(super) unsafe fn neon(
        values: &[u8],
        first_row: u32,
        low: u32,
        span: u32,
        rows: &mut [u8],
    ) -> usize {
        const LANES: usize = 4;
        let vectors = values.len() / (LANES * BYTES);
        let (lows, spans) = (vdupq_n_u32(low), vdupq_n_u32(span));
        // SAFETY: both arrays have four numbers.
        let (lanes, bits) = unsafe {
            let lanes: [u32; 4] = [0, 1, 2, 3];
            let bits: [u32; 4] = [1, 2, 4, 8];
            (vld1q_u32(lanes.as_ptr()), vld1q_u32(bits.as_ptr()))
        };
        let mut numbers = vaddq_u32(lanes, vdupq_n_u32(first_row));
        let step = vdupq_n_u32(LANES as u32);
        let mut found = 0;
        for vector in 0..vectors {
            // SAFETY: the vector is inside `values`; no more rows are found than were tested, so
            // 4 row numbers fit behind those found before.
            unsafe {
                let from = values.as_ptr().add(vector * LANES * BYTES);
                let tested = vsubq_u32(vreinterpretq_u32_u8(vld1q_u8(from)), lows);
                let mask = vaddvq_u32(vandq_u32(vcleq_u32(tested, spans), bits)) as usize;
                let order = vld1q_u8(PACKED[mask].as_ptr());
                let packed = vqtbl1q_u8(vreinterpretq_u8_u32(numbers), order);
                vst1q_u8(rows.as_mut_ptr().add(found * BYTES), packed);
                found += mask.count_ones() as usize;
            }
            numbers = vaddq_u32(numbers, step);
        }
        let tested = vectors * LANES;
        let rest = first_row.wrapping_add(tested as u32);
        super::scalar(&values[tested * BYTES..], rest, low, span, rows, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers at both ends of all ranges, and others.
    fn values(rows: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u32>> {
        let some = vec![0, 1, 7, 8, 9, 1 << 31, u32::MAX - 1, u32::MAX];
        prop::collection::vec(prop::sample::select(some), rows)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn every_width_finds_the_rows_of_a_plain_loop(
            values in prop_oneof![values(0..300), values(2000..4500)],
            bounds in any::<(u32, u32)>(),
            near in any::<bool>(),
            first_row in prop::sample::select(vec![0, 5, u32::MAX - 4500]),
            skip in 0_usize..8,
        ) {
            let bounds = if near { (bounds.0 % 10, bounds.1 % 10) } else { bounds };
            let mut bytes = vec![0xaa; skip];
            values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
            let range = bounds.0..=bounds.1;
            let expected: Vec<u32> = (first_row..).zip(&values).filter(|(_, v)| range.contains(v)).map(|(row, _)| row).collect();
            for simd in [Simd::Scalar, Simd::Avx2, Simd::Avx512, Simd::Neon] {
                let mut rows = vec![0; values.len() * BYTES + skip];
                let found = rows_in_range(simd, &bytes[skip..], first_row, &range, &mut rows[skip..]);
                let rows: Vec<u32> = rows[skip..].as_chunks::<4>().0[..found].iter().map(|row| u32::from_le_bytes(*row)).collect();
                prop_assert_eq!(&rows, &expected, "{}", simd);
            }
            // What processors with the first AVX-512 instructions alone run.
            #[cfg(target_arch = "x86_64")]
            if Simd::Avx512.available() && !range.is_empty() {
                let (low, span) = (bounds.0, bounds.1 - bounds.0);
                let mut rows = vec![0; values.len() * BYTES];
                // SAFETY: the processor has the instructions, and `rows` has room.
                let found = unsafe { x86::avx512(&bytes[skip..], first_row, low, span, &mut rows) };
                let rows: Vec<u32> = rows.as_chunks::<4>().0[..found].iter().map(|row| u32::from_le_bytes(*row)).collect();
                prop_assert_eq!(&rows, &expected, "without packing words");
            }
        }
    }
}
