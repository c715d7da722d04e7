//! Batched lookups in the hash table of a join.

use super::block::{BLOCK, Compare, Homes, Plain};
use super::bucket::passing;
use super::{Bucket, Layout, NONE};
use crate::Simd;

/// A built hash table, for lookups.
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
    /// If the number of buckets is not that of the layout.
    pub fn new(layout: Layout, buckets: &'a [Bucket]) -> Self {
        Self::with_simd(layout, buckets, Simd::detect())
    }

    /// Same as [`JoinTable::new`] with a chosen vector width.
    ///
    /// A width that the processor lacks is replaced by plain instructions.
    ///
    /// # Panics
    /// If the number of buckets is not that of the layout.
    pub fn with_simd(layout: Layout, buckets: &'a [Bucket], simd: Simd) -> Self {
        assert_eq!(buckets.len(), layout.buckets(), "buckets of the table");
        Self {
            layout,
            buckets,
            simd: simd.or_scalar(),
        }
    }

    /// Shape of the table.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Looks up `keys` with many cache lines in flight; writes each key's value to `values`, or
    /// [`NONE`].
    ///
    /// # Panics
    /// If `values` is shorter than `keys`.
    pub fn find(&self, keys: &[u64], values: &mut [u32]) {
        match self.simd {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `or_scalar` keeps this width only if the processor has AVX-512F and
            // AVX-512DQ; all processors with both have the other features (BMI, LZCNT) too.
            Simd::Avx512 => unsafe { x86::find_avx512(self.layout, self.buckets, keys, values) },
            _ => pipelined::<Plain>(self.layout, self.buckets, keys, values),
        }
    }

    /// Looks up one key after the other with a plain loop over the bucket's entries: the baseline
    /// for [`JoinTable::find`].
    ///
    /// # Panics
    /// If `values` is shorter than `keys`.
    pub fn find_one_by_one(&self, keys: &[u64], values: &mut [u32]) {
        for (key, value) in keys.iter().zip(&mut values[..keys.len()]) {
            let hash = self.layout.hash(*key);
            let (mut at, bit) = (self.layout.home(hash), passing(hash));
            *value = 'found: {
                for _ in 0..self.layout.segment_buckets() {
                    let bucket = &self.buckets[at];
                    for index in 0..bucket.len() {
                        if bucket.keys[index] == *key {
                            break 'found bucket.values[index];
                        }
                    }
                    if !bucket.passed(bit) {
                        break;
                    }
                    at = self.layout.following(at);
                }
                NONE
            };
        }
    }
}

/// The lookup loop of all widths, software-pipelined over blocks of keys. The callers have checked
/// that the processor has what `C` needs.
///
/// While the keys of one block are compared, the home buckets of the next one are prefetched. The
/// few keys that overflowed from their home bucket are collected until the end of the block, so
/// that their next buckets are prefetched together as well.
#[inline(always)]
fn pipelined<C: Compare>(layout: Layout, buckets: &[Bucket], keys: &[u64], values: &mut [u32]) {
    let values = &mut values[..keys.len()];
    let mut homes = Homes::default();
    let mut later_homes = homes;
    let first = &keys[..keys.len().min(BLOCK)];
    homes.locate(layout, first);
    // No block before the first one prefetches its buckets.
    for home in &homes.buckets[..first.len()] {
        crate::prefetch_read(buckets, *home as usize);
    }
    let mut pending = [0_u32; BLOCK];
    for start in (0..keys.len()).step_by(BLOCK) {
        let end = keys.len().min(start + BLOCK);
        let later = &keys[end..keys.len().min(end + BLOCK)];
        later_homes.locate(layout, later);
        let mut waiting = 0;
        let block = keys[start..end].iter().zip(&mut values[start..end]);
        for (index, (key, value)) in block.enumerate() {
            if index < later.len() {
                crate::prefetch_read(buckets, later_homes.buckets[index] as usize);
            }
            let bucket = &buckets[homes.buckets[index] as usize];
            // SAFETY: the callers have checked the instructions of `C`.
            let found = unsafe { C::equal(bucket, *key) } & bucket.used();
            // Without a match `trailing_zeros` is 32; the minimum keeps the load in bounds, and the
            // result is discarded.
            let entry = (found.trailing_zeros() as usize).min(super::bucket::ENTRIES - 1);
            let there = bucket.values[entry];
            *value = if found != 0 { there } else { NONE };
            // Stored always and counted without a branch: which keys overflow is as random as the
            // hash.
            pending[waiting] = index as u32;
            waiting += usize::from((found == 0) & bucket.passed(homes.bits[index]));
        }
        for index in &pending[..waiting] {
            crate::prefetch_read(
                buckets,
                layout.following(homes.buckets[*index as usize] as usize),
            );
        }
        for index in &pending[..waiting] {
            let index = *index as usize;
            let (home, bit) = (homes.buckets[index] as usize, homes.bits[index]);
            values[start + index] = find_further(layout, buckets, home, bit, keys[start + index]);
        }
        std::mem::swap(&mut homes, &mut later_homes);
    }
}

/// Looks for a key after its home bucket, along the buckets that it may have overflowed to.
fn find_further(layout: Layout, buckets: &[Bucket], home: usize, bit: u32, key: u64) -> u32 {
    let mut at = home;
    for _ in 1..layout.segment_buckets() {
        at = layout.following(at);
        let bucket = &buckets[at];
        // SAFETY: every processor has the instructions.
        if let Some(index) = unsafe { Plain::position(bucket, key) } {
            return bucket.values[index];
        }
        if !bucket.passed(bit) {
            break;
        }
    }
    NONE
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::block::Avx512;
    use super::{Bucket, Layout, pipelined};

    /// # Safety
    /// The processor must have all features that are enabled here.
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
