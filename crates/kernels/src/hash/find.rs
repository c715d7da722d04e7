//! Looking up keys in batches.

use super::{Bucket, Layout, NONE};
use crate::Simd;

/// Lookups between asking for a bucket and comparing with it: enough for the lines that a core can have in flight.
pub const PREFETCH_AHEAD: usize = 32;

/// A filled table, to be read.
#[derive(Debug, Clone, Copy)]
pub struct JoinTable<'a> {
    layout: Layout,
    buckets: &'a [Bucket],
    simd: Simd,
}

impl<'a> JoinTable<'a> {
    /// The table that builders filled.
    ///
    /// # Panics
    /// If `buckets` are not as many as the layout has.
    pub fn new(layout: Layout, buckets: &'a [Bucket]) -> Self {
        Self::with_simd(layout, buckets, Simd::detect())
    }

    /// The same with a chosen vector width; one that the processor lacks is done with plain instructions.
    ///
    /// # Panics
    /// If `buckets` are not as many as the layout has.
    pub fn with_simd(layout: Layout, buckets: &'a [Bucket], simd: Simd) -> Self {
        assert_eq!(buckets.len(), layout.buckets(), "buckets of the table");
        Self {
            layout,
            buckets,
            simd: simd.or_scalar(),
        }
    }

    /// The shape of the table.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Writes the value of each key to `values`, [`NONE`] for a key that is not there, with many lines in flight.
    ///
    /// # Panics
    /// If `values` is shorter than `keys`.
    pub fn find(&self, keys: &[u64], values: &mut [u32]) {
        match self.simd {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `or_scalar` left this width only if the processor has it.
            Simd::Avx512 => unsafe { x86::find_avx512(self.layout, self.buckets, keys, values) },
            _ => pipelined::<Plain>(self.layout, self.buckets, keys, values),
        }
    }

    /// Looks up one key after the other with an ordinary loop over a bucket's entries: the yardstick for [`JoinTable::find`].
    ///
    /// # Panics
    /// If `values` is shorter than `keys`.
    pub fn find_one_by_one(&self, keys: &[u64], values: &mut [u32]) {
        for (key, value) in keys.iter().zip(&mut values[..keys.len()]) {
            let mut at = self.layout.home(*key);
            *value = 'found: {
                for _ in 0..self.layout.segment_buckets() {
                    let bucket = &self.buckets[at];
                    for index in 0..bucket.len() {
                        if bucket.keys[index] == *key {
                            break 'found bucket.values[index];
                        }
                    }
                    if !bucket.overflowed() {
                        break;
                    }
                    at = self.layout.following(at);
                }
                NONE
            };
        }
    }
}

/// Compares a key with the entries of a bucket: a bit per entry, used or not.
trait Compare {
    /// # Safety
    /// The processor must have the instructions of the implementation.
    unsafe fn equal(bucket: &Bucket, key: u64) -> u32;
}

struct Plain;

impl Compare for Plain {
    #[inline(always)]
    unsafe fn equal(bucket: &Bucket, key: u64) -> u32 {
        let mut found = 0;
        for (index, candidate) in bucket.keys.iter().enumerate() {
            found |= u32::from(*candidate == key) << index;
        }
        found
    }
}

/// The loop of all widths. Its callers have checked that the processor has what `C` needs.
#[inline(always)]
fn pipelined<C: Compare>(layout: Layout, buckets: &[Bucket], keys: &[u64], values: &mut [u32]) {
    let values = &mut values[..keys.len()];
    let mut homes = [0_usize; PREFETCH_AHEAD];
    for (home, key) in homes.iter_mut().zip(keys) {
        *home = layout.home(*key);
        super::prefetch(buckets, *home);
    }
    for index in 0..keys.len() {
        let slot = index % PREFETCH_AHEAD;
        let home = homes[slot];
        if let Some(later) = keys.get(index + PREFETCH_AHEAD) {
            homes[slot] = layout.home(*later);
            super::prefetch(buckets, homes[slot]);
        }
        let (key, bucket) = (keys[index], &buckets[home]);
        // SAFETY: see above.
        let found = unsafe { C::equal(bucket, key) } & bucket.used();
        let entry = (found.trailing_zeros() as usize).min(super::bucket::ENTRIES - 1);
        let value = bucket.values[entry];
        values[index] = if found != 0 { value } else { NONE };
        if found == 0 && bucket.overflowed() {
            values[index] = find_further::<C>(layout, buckets, home, key);
        }
    }
}

/// A key that its full home bucket does not have.
#[cold]
fn find_further<C: Compare>(layout: Layout, buckets: &[Bucket], home: usize, key: u64) -> u32 {
    let mut at = home;
    for _ in 1..layout.segment_buckets() {
        at = layout.following(at);
        let bucket = &buckets[at];
        if let Some(index) = bucket.position(key) {
            return bucket.values[index];
        }
        if !bucket.overflowed() {
            break;
        }
    }
    NONE
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bucket, Compare, Layout, pipelined};
    use std::arch::x86_64::{
        __m512i, _mm512_cmpeq_epi64_mask, _mm512_load_si512, _mm512_set1_epi64,
    };

    struct Avx512;

    impl Compare for Avx512 {
        #[inline(always)]
        unsafe fn equal(bucket: &Bucket, key: u64) -> u32 {
            // SAFETY: the caller has AVX-512F. A bucket is 64 bytes, aligned to 64; the lanes behind the keys are values, masked by `used`.
            unsafe {
                let line = _mm512_load_si512(std::ptr::from_ref(bucket).cast::<__m512i>());
                u32::from(_mm512_cmpeq_epi64_mask(line, _mm512_set1_epi64(key as i64)))
            }
        }
    }

    /// # Safety
    /// The processor must have AVX-512F.
    #[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
    pub(super) unsafe fn find_avx512(
        layout: Layout,
        buckets: &[Bucket],
        keys: &[u64],
        values: &mut [u32],
    ) {
        pipelined::<Avx512>(layout, buckets, keys, values);
    }
}
