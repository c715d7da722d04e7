//! Decoding of code columns, and statistics on codes without decoding them.
//!
//! ```text
//!   bytes of codes ──► u32 in a register ──► value        base + code, or table[code]
//!                                             └► written once into fresh memory,
//!                                                with no intermediate column of codes
//! ```
//! The loops are compiled for several vector instruction sets and chosen at run time.

use crate::codes::{CodeWidth, Codes};
use std::mem::MaybeUninit;
use std::ops::Range;

/// An integer type that `base + code` can be decoded to.
pub trait CodeValue: Copy {
    /// `base + code`, wrapping around at the limits of the type.
    fn offset(base: i64, code: u32) -> Self;
}

macro_rules! code_value {
    ($($native:ty),*) => {$(
        impl CodeValue for $native {
            #[inline(always)]
            fn offset(base: i64, code: u32) -> Self {
                (base as $native).wrapping_add(code as $native)
            }
        }
    )*};
}
code_value!(i8, u8, i16, u16, i32, u32, i64, u64);

impl CodeValue for i128 {
    #[inline(always)]
    fn offset(base: i64, code: u32) -> Self {
        i128::from(base.wrapping_add(i64::from(code)))
    }
}

impl Codes<'_> {
    /// Decodes `rows` as `base + code`.
    ///
    /// # Panics
    /// If the rows are outside the column.
    pub fn offsets<T: CodeValue>(&self, rows: Range<usize>, base: i64) -> Vec<T> {
        self.map(rows, move |code| T::offset(base, code))
    }

    /// Decodes `rows` as `table[code - first]`; codes outside the table give its nearest end.
    ///
    /// # Panics
    /// If the rows are outside the column, or there are rows and the table is empty.
    pub fn looked_up<T: Copy>(&self, rows: Range<usize>, first: u32, table: &[T]) -> Vec<T> {
        if rows.is_empty() {
            return Vec::new();
        }
        assert!(
            !table.is_empty(),
            "codes cannot be looked up in an empty table"
        );
        let last = table.len() - 1;
        // Clamping keeps the load in bounds without a branch per row.
        self.map(rows, move |code| {
            table[(code.saturating_sub(first) as usize).min(last)]
        })
    }

    /// Validity bitmap of `rows`: one bit per row, set where the code is not 0, lowest bit first.
    ///
    /// Also returns the number of zeros.
    ///
    /// # Panics
    /// If the rows are outside the column.
    pub fn non_zero_bits(&self, rows: Range<usize>) -> (Vec<u8>, usize) {
        // Whole words are appended below, and the excess is cut off at the end.
        let mut bits = Vec::with_capacity(rows.len().div_ceil(8) + 8);
        let (mut set, count) = (0, rows.len());
        let mut block = [0_u32; 64];
        let mut start = rows.start;
        while start < rows.end {
            let len = (rows.end - start).min(64);
            self.unpack(start..start + len, &mut block);
            // Codes of the block before must not set bits behind the last row.
            block[len..].fill(0);
            let word = block.iter().enumerate().fold(0_u64, |word, (bit, code)| {
                word | (u64::from(*code != 0) << bit)
            });
            set += word.count_ones() as usize;
            bits.extend_from_slice(&word.to_le_bytes());
            start += len;
        }
        bits.truncate(count.div_ceil(8));
        (bits, count - set)
    }

    /// Smallest and largest code of those at or above `least`, and the number of codes below it;
    /// `None` if no code is that large.
    pub fn range(&self, least: u32) -> (Option<(u32, u32)>, usize) {
        let (mut low, mut high, mut below) = (u32::MAX, 0, 0);
        self.for_blocks(|block| {
            for &code in block {
                // Without branches, so that the compiler can vectorise the loop.
                let counts = code >= least;
                below += usize::from(!counts);
                low = low.min(if counts { code } else { u32::MAX });
                high = high.max(if counts { code } else { 0 });
            }
        });
        let any = below < self.rows();
        (any.then_some((low, high)), below)
    }

    /// Number of different codes from `least` to below `count`.
    ///
    /// Takes `count / 8` bytes while it runs.
    pub fn distinct(&self, least: u32, count: u32) -> u64 {
        let mut seen = vec![0_u64; count.div_ceil(64) as usize];
        self.for_blocks(|block| {
            for &code in block {
                if code >= least
                    && let Some(word) = seen.get_mut((code / 64) as usize)
                {
                    *word |= 1 << (code % 64);
                }
            }
        });
        seen.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn for_blocks(&self, mut see: impl FnMut(&[u32])) {
        let mut block = [0_u32; 1024];
        for start in (0..self.rows()).step_by(block.len()) {
            let len = block.len().min(self.rows() - start);
            self.unpack(start..start + len, &mut block);
            see(&block[..len]);
        }
    }

    /// Decodes `rows` with the function `value`.
    pub(crate) fn map<T: Copy>(
        &self,
        rows: Range<usize>,
        value: impl Fn(u32) -> T + Copy,
    ) -> Vec<T> {
        assert!(rows.end <= self.rows(), "rows {rows:?} of {}", self.rows());
        let mut values = Vec::with_capacity(rows.len());
        let out = &mut values.spare_capacity_mut()[..rows.len()];
        let bytes = &self.bytes()[rows.start * self.width().bytes()..];
        write(self.width(), bytes, out, value);
        // SAFETY: the capacity is at least `rows.len()`, and `write` has initialised every slot of
        // `out`, which is the first `rows.len()` values.
        unsafe { values.set_len(rows.len()) };
        values
    }
}

/// Initialises every slot of `out` with the value of the code at the same position in `bytes`.
fn write<T: Copy>(
    width: CodeWidth,
    bytes: &[u8],
    out: &mut [MaybeUninit<T>],
    value: impl Fn(u32) -> T + Copy,
) {
    #[cfg(target_arch = "x86_64")]
    if x86::has_avx512() {
        // SAFETY: `has_avx512` checked all features that the function enables.
        return unsafe { x86::write_avx512(width, bytes, out, value) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which was just checked.
        return unsafe { x86::write_avx2(width, bytes, out, value) };
    }
    write_plain(width, bytes, out, value);
}

#[inline(always)]
fn write_plain<T: Copy>(
    width: CodeWidth,
    bytes: &[u8],
    out: &mut [MaybeUninit<T>],
    value: impl Fn(u32) -> T + Copy,
) {
    assert!(bytes.len() >= out.len() * width.bytes());
    match width {
        CodeWidth::Zero => {
            let constant = value(0);
            out.iter_mut().for_each(|slot| {
                slot.write(constant);
            });
        }
        CodeWidth::One => {
            for (slot, code) in out.iter_mut().zip(bytes) {
                slot.write(value(u32::from(*code)));
            }
        }
        CodeWidth::Two => {
            for (slot, code) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                slot.write(value(u32::from(u16::from_le_bytes(*code))));
            }
        }
        CodeWidth::Three => write_three(bytes, out, value),
        CodeWidth::Four => {
            for (slot, code) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                slot.write(value(u32::from_le_bytes(*code)));
            }
        }
    }
}

/// Decodes three-byte codes, four at a time: their 12 bytes are three whole words.
#[inline(always)]
fn write_three<T: Copy>(bytes: &[u8], out: &mut [MaybeUninit<T>], value: impl Fn(u32) -> T + Copy) {
    let (slots, rest) = out.as_chunks_mut::<4>();
    let (groups, tail) = bytes.as_chunks::<12>();
    for (slot, group) in slots.iter_mut().zip(groups) {
        let word =
            |i: usize| u32::from_le_bytes([group[i], group[i + 1], group[i + 2], group[i + 3]]);
        let (low, middle, high) = (word(0), word(4), word(8));
        slot[0].write(value(low & 0xff_ffff));
        slot[1].write(value((low >> 24) | (middle & 0xffff) << 8));
        slot[2].write(value((middle >> 16) | (high & 0xff) << 16));
        slot[3].write(value(high >> 8));
    }
    // `bytes` may go on behind the codes, so there may be more groups than slots.
    let tail = groups.get(slots.len()).map_or(tail, |g| g.as_slice());
    for (slot, code) in rest.iter_mut().zip(tail.as_chunks::<3>().0) {
        slot.write(value(u32::from_le_bytes([code[0], code[1], code[2], 0])));
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CodeWidth, MaybeUninit, write_plain, write_three};
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_loadu_si512, _mm512_permutexvar_epi8, _mm512_set1_epi32,
        _mm512_storeu_si512,
    };

    pub(super) fn has_avx512() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn write_avx2<T: Copy>(
        width: CodeWidth,
        bytes: &[u8],
        out: &mut [MaybeUninit<T>],
        value: impl Fn(u32) -> T + Copy,
    ) {
        write_plain(width, bytes, out, value);
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn write_avx512<T: Copy>(
        width: CodeWidth,
        bytes: &[u8],
        out: &mut [MaybeUninit<T>],
        value: impl Fn(u32) -> T + Copy,
    ) {
        if width != CodeWidth::Three {
            return write_plain(width, bytes, out, value);
        }
        let spread = spread_three();
        let mask = _mm512_set1_epi32(0xff_ffff);
        let (slots, rest) = out.as_chunks_mut::<16>();
        let mut done = 0;
        for slot in slots.iter_mut() {
            // The last vectors of a column without 16 bytes behind them are left to `write_three`
            // below.
            let Some(line) = bytes.get(done * 48..done * 48 + 64) else {
                break;
            };
            let mut codes = [0_u32; 16];
            // SAFETY: `line` and `codes` are 64 bytes; neither needs alignment.
            unsafe {
                let packed = _mm512_loadu_si512(line.as_ptr().cast::<__m512i>());
                let words = _mm512_and_si512(_mm512_permutexvar_epi8(spread, packed), mask);
                _mm512_storeu_si512(codes.as_mut_ptr().cast::<__m512i>(), words);
            }
            for (slot, code) in slot.iter_mut().zip(codes) {
                slot.write(value(code));
            }
            done += 1;
        }
        for (index, slot) in slots.iter_mut().enumerate().skip(done) {
            write_three(&bytes[index * 48..], slot, value);
        }
        write_three(&bytes[slots.len() * 48..], rest, value);
    }

    /// Byte indices that spread 16 three-byte codes over 16 words; the fourth byte is masked off
    /// afterwards.
    #[target_feature(enable = "avx512f")]
    fn spread_three() -> __m512i {
        let mut at = [0_u8; 64];
        for (index, position) in at.iter_mut().enumerate() {
            *position = (index / 4 * 3 + index % 4) as u8;
        }
        // SAFETY: `at` is 64 bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(at.as_ptr().cast::<__m512i>()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::pack;
    use proptest::prelude::*;

    /// Codes of a column of `width`, packed.
    fn packed(codes: &[u32], width: CodeWidth) -> Vec<u8> {
        let mut bytes = vec![0xee; width.size_bytes(codes.len())];
        pack(&mut bytes, width, 0, codes);
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn values_equal_base_plus_code_for_any_rows_width_and_type(
            seeds in prop::collection::vec(any::<u32>(), 1..300),
            base in any::<i64>(),
            from in 0_usize..300,
            max in prop::sample::select(vec![0_u32, 0xff, 0xffff, 0xff_ffff, u32::MAX]),
        ) {
            let codes: Vec<u32> = seeds.iter().map(|s| s & max).collect();
            let width = CodeWidth::for_max(max);
            let bytes = packed(&codes, width);
            let column = Codes::new(&bytes, width, codes.len()).unwrap();
            let rows = from.min(codes.len())..codes.len();
            let wide: Vec<i64> = codes[rows.clone()].iter().map(|c| base.wrapping_add(i64::from(*c))).collect();
            prop_assert_eq!(column.offsets::<i64>(rows.clone(), base), wide.clone());
            prop_assert_eq!(column.offsets::<i128>(rows.clone(), base), wide.iter().map(|v| i128::from(*v)).collect::<Vec<_>>());
            prop_assert_eq!(column.offsets::<i32>(rows.clone(), base), wide.iter().map(|v| *v as i32).collect::<Vec<_>>());
            prop_assert_eq!(column.offsets::<u16>(rows.clone(), base), wide.iter().map(|v| *v as u16).collect::<Vec<_>>());
            let mut plain = vec![MaybeUninit::new(0_i64); rows.len()];
            write_plain(width, &bytes[rows.start * width.bytes()..], &mut plain, |c| base.wrapping_add(i64::from(c)));
            // SAFETY: every slot was initialised above.
            let plain: Vec<i64> = plain.into_iter().map(|v| unsafe { v.assume_init() }).collect();
            prop_assert_eq!(plain, wide);
        }

        #[test]
        fn bits_ranges_and_counts_equal_those_of_a_plain_loop(codes in prop::collection::vec(0_u32..70, 0..400), from in 0_usize..400, least in 0_u32..3) {
            let bytes = packed(&codes, CodeWidth::One);
            let column = Codes::new(&bytes, CodeWidth::One, codes.len()).unwrap();
            let rows = from.min(codes.len())..codes.len();
            let (bits, zeros) = column.non_zero_bits(rows.clone());
            let part = &codes[rows];
            prop_assert_eq!(zeros, part.iter().filter(|c| **c == 0).count());
            prop_assert_eq!(bits.len(), part.len().div_ceil(8));
            for (row, code) in part.iter().enumerate() {
                prop_assert_eq!(bits[row / 8] >> (row % 8) & 1 == 1, *code != 0);
            }
            let counted: Vec<u32> = codes.iter().copied().filter(|c| *c >= least).collect();
            let (range, below) = column.range(least);
            prop_assert_eq!(range, counted.iter().min().copied().zip(counted.iter().max().copied()));
            prop_assert_eq!(below, codes.len() - counted.len());
            let distinct: std::collections::BTreeSet<u32> = counted.into_iter().collect();
            prop_assert_eq!(column.distinct(least, 70), distinct.len() as u64);
        }
    }

    #[test]
    fn a_code_outside_its_table_gives_an_end_of_it_instead_of_foreign_memory() {
        let bytes = packed(&[0, 1, 2, 9], CodeWidth::One);
        let column = Codes::new(&bytes, CodeWidth::One, 4).unwrap();
        assert_eq!(column.looked_up(0..4, 1, &[10, 20]), [10, 10, 20, 20]);
        assert!(column.looked_up::<u8>(2..2, 0, &[]).is_empty());
    }
}
