//! Blocks of keys: where they are looked for, and comparisons with the entries there.

use super::bucket::passing;
use super::{Bucket, Layout};

/// Keys of a block, whose buckets are loaded while those of the block before are used: more than
/// the cache-line requests that a core keeps in flight, few enough for its L1 cache.
pub(super) const BLOCK: usize = 64;

/// Home buckets of a block of keys.
#[derive(Clone, Copy)]
pub(super) struct Homes {
    pub(super) buckets: [u32; BLOCK],
    /// Their filter bits; see [`passing`].
    pub(super) bits: [u32; BLOCK],
}

impl Default for Homes {
    fn default() -> Self {
        Self {
            buckets: [0; BLOCK],
            bits: [0; BLOCK],
        }
    }
}

impl Homes {
    /// Computes home buckets and filter bits of `keys`, at most a block. Separate from what is done
    /// there, so that the compiler vectorises it.
    #[inline(always)]
    pub(super) fn locate(&mut self, layout: Layout, keys: &[u64]) {
        for ((home, bit), key) in self.buckets.iter_mut().zip(&mut self.bits).zip(keys) {
            let hash = layout.hash(*key);
            *home = layout.home(hash) as u32;
            *bit = passing(hash);
        }
    }
}

/// Compares a key with all entries of a bucket: a mask of the equal ones, used or not.
pub(super) trait Compare {
    /// # Safety
    /// The processor must have the instructions of the implementation.
    unsafe fn equal(bucket: &Bucket, key: u64) -> u32;

    /// Index of the entry of `key`.
    ///
    /// # Safety
    /// As for [`Compare::equal`].
    #[inline(always)]
    unsafe fn position(bucket: &Bucket, key: u64) -> Option<usize> {
        // SAFETY: the same contract as this function's.
        let found = unsafe { Self::equal(bucket, key) } & bucket.used();
        (found != 0).then(|| found.trailing_zeros() as usize)
    }
}

/// Any processor.
pub(super) struct Plain;

impl Compare for Plain {
    #[inline(always)]
    unsafe fn equal(bucket: &Bucket, key: u64) -> u32 {
        // All entries are compared, without a branch on the count, so that the compiler can
        // vectorise the loop.
        let mut found = 0;
        for (index, candidate) in bucket.keys.iter().enumerate() {
            found |= u32::from(*candidate == key) << index;
        }
        found
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::Avx512;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bucket, Compare};
    use std::arch::x86_64::{
        __m512i, _mm512_cmpeq_epi64_mask, _mm512_load_si512, _mm512_set1_epi64,
    };

    /// AVX-512F.
    pub(in super::super) struct Avx512;

    impl Compare for Avx512 {
        #[inline(always)]
        unsafe fn equal(bucket: &Bucket, key: u64) -> u32 {
            // SAFETY: the caller has AVX-512F. A bucket is 64 bytes, aligned to 64. The lanes after
            // the keys compare values and metadata; `used` masks them.
            unsafe {
                let line = _mm512_load_si512(std::ptr::from_ref(bucket).cast::<__m512i>());
                u32::from(_mm512_cmpeq_epi64_mask(line, _mm512_set1_epi64(key as i64)))
            }
        }
    }
}
