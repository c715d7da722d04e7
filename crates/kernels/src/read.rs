//! Sequential reads of memory.

use crate::Simd;

/// Reads every byte once, front to back, with the widest loads available.
///
/// Returns the wrapping sum of the data's little-endian 64-bit words (the last one padded with
/// zeros). The sum keeps the compiler from removing the loads, and lets the caller check them.
pub fn sequential_read(data: &[u8]) -> u64 {
    sequential_read_with(Simd::detect(), data)
}

/// Same as [`sequential_read`] with a chosen vector width.
///
/// A width that the processor lacks is replaced by the scalar loop.
pub fn sequential_read_with(simd: Simd, data: &[u8]) -> u64 {
    match simd.or_scalar() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `or_scalar` returned this width, so the processor has it.
        Simd::Avx512 => unsafe { x86::sum_avx512(data) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { x86::sum_avx2(data) },
        _ => sum_scalar(data),
    }
}

fn sum_scalar(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<8>();
    let sum = words.iter().fold(0_u64, |sum, word| {
        sum.wrapping_add(u64::from_le_bytes(*word))
    });
    let mut last = [0_u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    sum.wrapping_add(u64::from_le_bytes(last))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_setzero_si256,
        _mm256_storeu_si256, _mm512_add_epi64, _mm512_loadu_si512, _mm512_reduce_add_epi64,
        _mm512_setzero_si512,
    };

    /// # Safety
    /// The processor must have AVX-512F.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn sum_avx512(data: &[u8]) -> u64 {
        // Eight independent sums: an addition does not wait for the one before, so the loads run
        // ahead, and the sums stay in registers.
        let (blocks, rest) = data.as_chunks::<512>();
        let mut sums = [_mm512_setzero_si512(); 8];
        for block in blocks {
            for (index, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `index * 64 + 64 <= 512`, the block's length; the load needs no
                // alignment.
                let line =
                    unsafe { _mm512_loadu_si512(block.as_ptr().add(index * 64).cast::<__m512i>()) };
                *sum = _mm512_add_epi64(*sum, line);
            }
        }
        let sum = sums
            .into_iter()
            .map(|sum| _mm512_reduce_add_epi64(sum) as u64)
            .fold(0, u64::wrapping_add);
        sum.wrapping_add(super::sum_scalar(rest))
    }

    /// # Safety
    /// The processor must have AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn sum_avx2(data: &[u8]) -> u64 {
        let (blocks, rest) = data.as_chunks::<256>();
        let mut sums = [_mm256_setzero_si256(); 8];
        for block in blocks {
            for (index, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `index * 32 + 32 <= 256`, the block's length; the load needs no
                // alignment.
                let half_line =
                    unsafe { _mm256_loadu_si256(block.as_ptr().add(index * 32).cast::<__m256i>()) };
                *sum = _mm256_add_epi64(*sum, half_line);
            }
        }
        let mut lanes = [0_u64; 4];
        let mut sum = super::sum_scalar(rest);
        for vector in sums {
            // SAFETY: `lanes` has 32 bytes; the store needs no alignment.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast::<__m256i>(), vector) };
            sum = lanes.iter().fold(sum, |sum, lane| sum.wrapping_add(*lane));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(data: &[u8]) -> u64 {
        data.iter().enumerate().fold(0, |sum: u64, (index, byte)| {
            sum.wrapping_add(u64::from(*byte) << (index % 8 * 8))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn every_width_sums_every_byte_once(data in prop::collection::vec(any::<u8>(), 0..3000), start in 0_usize..70) {
            let data = &data[start.min(data.len())..];
            for simd in [Simd::Scalar, Simd::Avx2, Simd::Avx512] {
                prop_assert_eq!(sequential_read_with(simd, data), naive(data), "{}", simd);
            }
            prop_assert_eq!(sequential_read(data), naive(data));
        }
    }
}
