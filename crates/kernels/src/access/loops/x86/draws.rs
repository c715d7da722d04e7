//! Uniformly random addresses, eight at a time.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_add_epi64, _mm256_mul_epu32, _mm256_set1_epi64x, _mm256_slli_epi64,
    _mm256_srli_epi64, _mm512_add_epi64, _mm512_mul_epu32, _mm512_mullo_epi64, _mm512_set1_epi64,
    _mm512_srli_epi64,
};
use std::mem::transmute;

use super::super::visit::Drawn;
use crate::access::places::{BLOCK_PLACES, BlockDraws};

/// Draws with AVX-512.
#[derive(Clone, Copy)]
pub(in super::super) struct Draws512 {
    states: __m512i,
    multiplier: __m512i,
    increment: __m512i,
    count: __m512i,
    stride: __m512i,
    base: __m512i,
}

impl Draws512 {
    /// Addresses of places that are `stride` bytes apart, the first one at `base`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn new(blocks: &BlockDraws, stride: u32, base: usize) -> Self {
        let every = |word: u64| _mm512_set1_epi64(word.cast_signed());
        Self {
            // SAFETY: words and vectors are plain bytes of the same size.
            states: unsafe { transmute::<[u64; BLOCK_PLACES], __m512i>(blocks.states) },
            multiplier: every(blocks.multiplier),
            increment: every(blocks.increment),
            count: every(u64::from(blocks.count)),
            stride: every(u64::from(stride)),
            base: every(base as u64),
        }
    }

    /// Draws a block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn next(&mut self, drawn: &mut Drawn) {
        // The high 64 bits of state * count, by halves of the state.
        let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(self.states), self.count);
        let low = _mm512_mul_epu32(self.states, self.count);
        let sum = _mm512_add_epi64(high, _mm512_srli_epi64::<32>(low));
        let places = _mm512_srli_epi64::<32>(sum);
        let addresses = _mm512_add_epi64(_mm512_mul_epu32(places, self.stride), self.base);
        // SAFETY: words and vectors are plain bytes of the same size.
        drawn.0 = unsafe { transmute::<__m512i, [usize; BLOCK_PLACES]>(addresses) };
        let product = _mm512_mullo_epi64(self.states, self.multiplier);
        self.states = _mm512_add_epi64(product, self.increment);
    }
}

/// Draws with AVX2.
#[derive(Clone, Copy)]
pub(in super::super) struct Draws256 {
    states: [__m256i; 2],
    multiplier: __m256i,
    multiplier_high: __m256i,
    increment: __m256i,
    count: __m256i,
    stride: __m256i,
    base: __m256i,
}

impl Draws256 {
    /// Addresses of places that are `stride` bytes apart, the first one at `base`.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(blocks: &BlockDraws, stride: u32, base: usize) -> Self {
        let every = |word: u64| _mm256_set1_epi64x(word.cast_signed());
        Self {
            // SAFETY: words and vectors are plain bytes of the same size.
            states: unsafe { transmute::<[u64; BLOCK_PLACES], [__m256i; 2]>(blocks.states) },
            multiplier: every(blocks.multiplier),
            multiplier_high: every(blocks.multiplier >> 32),
            increment: every(blocks.increment),
            count: every(u64::from(blocks.count)),
            stride: every(u64::from(stride)),
            base: every(base as u64),
        }
    }

    /// Draws a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn next(&mut self, drawn: &mut Drawn) {
        let addresses = self.states.map(|states| {
            let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(states), self.count);
            let low = _mm256_mul_epu32(states, self.count);
            let sum = _mm256_add_epi64(high, _mm256_srli_epi64::<32>(low));
            let places = _mm256_srli_epi64::<32>(sum);
            _mm256_add_epi64(_mm256_mul_epu32(places, self.stride), self.base)
        });
        // SAFETY: words and vectors are plain bytes of the same size.
        drawn.0 = unsafe { transmute::<[__m256i; 2], [usize; BLOCK_PLACES]>(addresses) };
        self.states = self.states.map(|states| {
            // The low 64 bits of a product are the low halves' and both mixed ones'.
            let mixed = _mm256_add_epi64(
                _mm256_mul_epu32(_mm256_srli_epi64::<32>(states), self.multiplier),
                _mm256_mul_epu32(states, self.multiplier_high),
            );
            let product = _mm256_add_epi64(
                _mm256_mul_epu32(states, self.multiplier),
                _mm256_slli_epi64::<32>(mixed),
            );
            _mm256_add_epi64(product, self.increment)
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Simd;
    use crate::access::places::Uniform;

    proptest! {
        #[test]
        fn vectors_draw_what_single_draws_do(
            state: u64,
            count in prop_oneof![1..=u32::MAX, Just(1), Just(u32::MAX)],
            stride: u32,
            base in 0_usize..1 << 40,
        ) {
            let single = Uniform {
                state,
                count: u64::from(count),
            };
            let blocks = single.blocks().expect("fewer than 2^32 places");
            let address = |place: u64| base.wrapping_add(place as usize * stride as usize);
            let expected = |draws: &mut Uniform| [(); BLOCK_PLACES].map(|()| address(draws.next()));
            let mut drawn = Drawn([0; BLOCK_PLACES]);
            if Simd::Avx512.available() {
                let mut draw = single;
                // SAFETY: the processor has AVX-512F and AVX-512DQ.
                let mut vectors = unsafe { Draws512::new(&blocks, stride, base) };
                for _ in 0..5 {
                    // SAFETY: as above.
                    unsafe { vectors.next(&mut drawn) };
                    prop_assert_eq!(drawn.0, expected(&mut draw));
                }
            }
            if Simd::Avx2.available() {
                let mut draw = single;
                // SAFETY: the processor has AVX2.
                let mut vectors = unsafe { Draws256::new(&blocks, stride, base) };
                for _ in 0..5 {
                    // SAFETY: as above.
                    unsafe { vectors.next(&mut drawn) };
                    prop_assert_eq!(drawn.0, expected(&mut draw));
                }
            }
        }
    }
}
