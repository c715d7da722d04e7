//! Units of 16, 32 and 64 bytes, in vector registers.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_add_epi64, _mm_set1_epi64x, _mm_setzero_si128, _mm256_add_epi64,
    _mm256_set1_epi64x, _mm256_setzero_si256, _mm512_add_epi64, _mm512_set1_epi64,
    _mm512_setzero_si512,
};

use super::draws::{Draws256, Draws512};
use crate::access::loops::Unit;
use crate::access::loops::visit::{Drawn, lanes};
use crate::access::places::BlockDraws;
use crate::access::touched::{PATTERN_STEP, pattern_word};

/// Implements a unit of one vector register.
///
/// Loads add to four sums, so that additions wait for memory and not for each other. Stores write
/// one register, which an addition advances to the next place.
macro_rules! vector_unit {
    (
        $(#[$doc:meta])* $name:ident, $feature:literal, $bytes:literal, $vector:ty, $class:ident,
        draws: $draws:ty, mov: $mov:literal,
        zero: $zero:ident, broadcast: $broadcast:ident, add: $add:ident
    ) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl $name {
            const LANES: [u64; $bytes / 8] = lanes();

            /// Difference of the pattern from one vector to the next.
            #[inline]
            #[target_feature(enable = $feature)]
            fn step() -> $vector {
                $broadcast(PATTERN_STEP.wrapping_mul($bytes / 8).cast_signed())
            }
        }

        impl Unit for $name {
            const BYTES: usize = $bytes;
            type Sums = [$vector; 4];
            type Pattern = $vector;
            type Draws = $draws;

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn no_sums() -> [$vector; 4] {
                [$zero(); 4]
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn total(sums: [$vector; 4]) -> u64 {
                // SAFETY: vectors and words are plain bytes of the same size.
                let words: [[u64; $bytes / 8]; 4] = unsafe { std::mem::transmute(sums) };
                words.iter().flatten().fold(0, |sum, word| sum.wrapping_add(*word))
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn draws(blocks: &BlockDraws, stride: u32, base: usize) -> Option<$draws> {
                Some(<$draws>::new(blocks, stride, base))
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn draw(draws: &mut $draws, drawn: &mut Drawn) {
                draws.next(drawn);
            }

            #[inline(always)]
            fn turned([first, second, third, fourth]: [$vector; 4]) -> [$vector; 4] {
                [second, third, fourth, first]
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn load<const STREAM: bool>(sums: &mut [$vector; 4], at: *const u8) {
                // SAFETY: the caller may read these bytes.
                unsafe {
                    if STREAM {
                        asm!(
                            concat!("vmovntdqa {word}, [{at}]"),
                            "vpaddq {sum}, {sum}, {word}",
                            at = in(reg) at, sum = inout($class) sums[0], word = out($class) _,
                            options(nostack, preserves_flags, readonly)
                        );
                    } else {
                        asm!(
                            "vpaddq {sum}, {sum}, [{at}]",
                            at = in(reg) at, sum = inout($class) sums[0],
                            options(nostack, preserves_flags, readonly)
                        );
                    }
                }
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn load_block<const STREAM: bool>(sums: &mut [$vector; 4], at: *const u8) {
                let [mut sum0, mut sum1, mut sum2, mut sum3] = *sums;
                // SAFETY: the caller may read the eight vectors.
                unsafe {
                    if STREAM {
                        asm!(
                            concat!("vmovntdqa {word0}, [{at}]"),
                            concat!("vmovntdqa {word1}, [{at} + ", $bytes, "]"),
                            concat!("vmovntdqa {word2}, [{at} + 2 * ", $bytes, "]"),
                            concat!("vmovntdqa {word3}, [{at} + 3 * ", $bytes, "]"),
                            "vpaddq {sum0}, {sum0}, {word0}",
                            "vpaddq {sum1}, {sum1}, {word1}",
                            "vpaddq {sum2}, {sum2}, {word2}",
                            "vpaddq {sum3}, {sum3}, {word3}",
                            concat!("vmovntdqa {word0}, [{at} + 4 * ", $bytes, "]"),
                            concat!("vmovntdqa {word1}, [{at} + 5 * ", $bytes, "]"),
                            concat!("vmovntdqa {word2}, [{at} + 6 * ", $bytes, "]"),
                            concat!("vmovntdqa {word3}, [{at} + 7 * ", $bytes, "]"),
                            "vpaddq {sum0}, {sum0}, {word0}",
                            "vpaddq {sum1}, {sum1}, {word1}",
                            "vpaddq {sum2}, {sum2}, {word2}",
                            "vpaddq {sum3}, {sum3}, {word3}",
                            at = in(reg) at,
                            sum0 = inout($class) sum0, sum1 = inout($class) sum1,
                            sum2 = inout($class) sum2, sum3 = inout($class) sum3,
                            word0 = out($class) _, word1 = out($class) _,
                            word2 = out($class) _, word3 = out($class) _,
                            options(nostack, preserves_flags, readonly)
                        );
                    } else {
                        asm!(
                            "vpaddq {sum0}, {sum0}, [{at}]",
                            concat!("vpaddq {sum1}, {sum1}, [{at} + ", $bytes, "]"),
                            concat!("vpaddq {sum2}, {sum2}, [{at} + 2 * ", $bytes, "]"),
                            concat!("vpaddq {sum3}, {sum3}, [{at} + 3 * ", $bytes, "]"),
                            concat!("vpaddq {sum0}, {sum0}, [{at} + 4 * ", $bytes, "]"),
                            concat!("vpaddq {sum1}, {sum1}, [{at} + 5 * ", $bytes, "]"),
                            concat!("vpaddq {sum2}, {sum2}, [{at} + 6 * ", $bytes, "]"),
                            concat!("vpaddq {sum3}, {sum3}, [{at} + 7 * ", $bytes, "]"),
                            at = in(reg) at,
                            sum0 = inout($class) sum0, sum1 = inout($class) sum1,
                            sum2 = inout($class) sum2, sum3 = inout($class) sum3,
                            options(nostack, preserves_flags, readonly)
                        );
                    }
                }
                *sums = [sum0, sum1, sum2, sum3];
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn pattern(offset: usize) -> $vector {
                // SAFETY: vectors and words are plain bytes of the same size.
                let lanes: $vector = unsafe { std::mem::transmute(Self::LANES) };
                $add($broadcast(pattern_word(offset).cast_signed()), lanes)
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn store<const STREAM: bool>(pattern: &mut $vector, at: *mut u8) {
                // SAFETY: the caller may write these bytes, aligned if `STREAM`.
                unsafe {
                    if STREAM {
                        asm!(
                            "vmovntdq [{at}], {word}",
                            at = in(reg) at, word = in($class) *pattern,
                            options(nostack, preserves_flags)
                        );
                    } else {
                        asm!(
                            concat!($mov, " [{at}], {word}"),
                            at = in(reg) at, word = in($class) *pattern,
                            options(nostack, preserves_flags)
                        );
                    }
                }
                *pattern = $add(*pattern, Self::step());
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn store_block<const STREAM: bool>(pattern: &mut $vector, at: *mut u8) {
                macro_rules! stores {
                    ($store:expr) => {
                        asm!(
                            concat!($store, " [{at}], {word}"),
                            "vpaddq {word}, {word}, {step}",
                            concat!($store, " [{at} + ", $bytes, "], {word}"),
                            "vpaddq {word}, {word}, {step}",
                            concat!($store, " [{at} + 2 * ", $bytes, "], {word}"),
                            "vpaddq {word}, {word}, {step}",
                            concat!($store, " [{at} + 3 * ", $bytes, "], {word}"),
                            "vpaddq {word}, {word}, {step}",
                            concat!($store, " [{at} + 4 * ", $bytes, "], {word}"),
                            "vpaddq {word}, {word}, {step}",
                            concat!($store, " [{at} + 5 * ", $bytes, "], {word}"),
                            "vpaddq {word}, {word}, {step}",
                            concat!($store, " [{at} + 6 * ", $bytes, "], {word}"),
                            "vpaddq {word}, {word}, {step}",
                            concat!($store, " [{at} + 7 * ", $bytes, "], {word}"),
                            "vpaddq {word}, {word}, {step}",
                            at = in(reg) at, word = inout($class) *pattern,
                            step = in($class) Self::step(),
                            options(nostack, preserves_flags)
                        )
                    };
                }
                // SAFETY: the caller may write the eight vectors, aligned if `STREAM`.
                unsafe {
                    if STREAM {
                        stores!("vmovntdq");
                    } else {
                        stores!($mov);
                    }
                }
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn copy<const STREAM: bool>(from: *const u8, to: *mut u8) {
                // SAFETY: the caller may read the one and write the other, aligned if `STREAM`.
                unsafe {
                    if STREAM {
                        asm!(
                            concat!($mov, " {word}, [{from}]"),
                            "vmovntdq [{to}], {word}",
                            from = in(reg) from, to = in(reg) to, word = out($class) _,
                            options(nostack, preserves_flags)
                        );
                    } else {
                        asm!(
                            concat!($mov, " {word}, [{from}]"),
                            concat!($mov, " [{to}], {word}"),
                            from = in(reg) from, to = in(reg) to, word = out($class) _,
                            options(nostack, preserves_flags)
                        );
                    }
                }
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn copy_block<const STREAM: bool>(from: *const u8, to: *mut u8) {
                macro_rules! copies {
                    ($store:expr) => {
                        asm!(
                            concat!($mov, " {word0}, [{from}]"),
                            concat!($mov, " {word1}, [{from} + ", $bytes, "]"),
                            concat!($mov, " {word2}, [{from} + 2 * ", $bytes, "]"),
                            concat!($mov, " {word3}, [{from} + 3 * ", $bytes, "]"),
                            concat!($mov, " {word4}, [{from} + 4 * ", $bytes, "]"),
                            concat!($mov, " {word5}, [{from} + 5 * ", $bytes, "]"),
                            concat!($mov, " {word6}, [{from} + 6 * ", $bytes, "]"),
                            concat!($mov, " {word7}, [{from} + 7 * ", $bytes, "]"),
                            concat!($store, " [{to}], {word0}"),
                            concat!($store, " [{to} + ", $bytes, "], {word1}"),
                            concat!($store, " [{to} + 2 * ", $bytes, "], {word2}"),
                            concat!($store, " [{to} + 3 * ", $bytes, "], {word3}"),
                            concat!($store, " [{to} + 4 * ", $bytes, "], {word4}"),
                            concat!($store, " [{to} + 5 * ", $bytes, "], {word5}"),
                            concat!($store, " [{to} + 6 * ", $bytes, "], {word6}"),
                            concat!($store, " [{to} + 7 * ", $bytes, "], {word7}"),
                            from = in(reg) from, to = in(reg) to,
                            word0 = out($class) _, word1 = out($class) _,
                            word2 = out($class) _, word3 = out($class) _,
                            word4 = out($class) _, word5 = out($class) _,
                            word6 = out($class) _, word7 = out($class) _,
                            options(nostack, preserves_flags)
                        )
                    };
                }
                // SAFETY: the caller may read the one block and write the other, aligned if
                // `STREAM`.
                unsafe {
                    if STREAM {
                        copies!("vmovntdq");
                    } else {
                        copies!($mov);
                    }
                }
            }
        }
    };
}

vector_unit! {
    /// 16 bytes; needs AVX2, as it uses VEX encodings.
    Xmm, "avx2", 16, __m128i, xmm_reg,
    draws: Draws256, mov: "vmovdqu",
    zero: _mm_setzero_si128, broadcast: _mm_set1_epi64x, add: _mm_add_epi64
}

vector_unit! {
    /// 32 bytes; needs AVX2.
    Ymm, "avx2", 32, __m256i, ymm_reg,
    draws: Draws256, mov: "vmovdqu",
    zero: _mm256_setzero_si256, broadcast: _mm256_set1_epi64x, add: _mm256_add_epi64
}

vector_unit! {
    /// 64 bytes; needs AVX-512F and AVX-512DQ.
    Zmm, "avx512f,avx512dq", 64, __m512i, zmm_reg,
    draws: Draws512, mov: "vmovdqu64",
    zero: _mm512_setzero_si512, broadcast: _mm512_set1_epi64, add: _mm512_add_epi64
}
