//! A hash bucket: one cache line with keys, values and an overflow filter.

/// Entries per bucket: five keys of 8 bytes and five values of 4 leave 4 bytes for count and
/// filter.
pub(super) const ENTRIES: usize = 5;
const COUNT_MASK: u32 = 0xff;
/// The 16 bits above the count are a filter of the keys that overflowed to the next bucket; each
/// key sets one of them.
const PASSED_SHIFT: u32 = 8;

/// A cache line with up to five keys and their values.
///
/// Any bytes are a valid bucket, if not a useful one.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    pub(super) keys: [u64; ENTRIES],
    pub(super) values: [u32; ENTRIES],
    meta: u32,
}

impl Bucket {
    /// A bucket without entries.
    pub const EMPTY: Bucket = Bucket {
        keys: [0; ENTRIES],
        values: [0; ENTRIES],
        meta: 0,
    };
    /// Size of a bucket: one cache line.
    pub const SIZE_BYTES: usize = 64;

    /// The whole, aligned cache lines of `memory` as buckets. Zeroed memory is empty buckets.
    #[inline]
    pub fn slice_mut(memory: &mut [u8]) -> &mut [Bucket] {
        // SAFETY: a bucket is plain integers without padding (40 + 20 + 4 bytes), so any bytes are
        // a valid bucket and any bucket is valid bytes.
        unsafe { memory.align_to_mut::<Bucket>() }.1
    }

    /// The whole, aligned cache lines of `memory` as buckets.
    #[inline]
    pub fn slice(memory: &[u8]) -> &[Bucket] {
        // SAFETY: as in `slice_mut`.
        unsafe { memory.align_to::<Bucket>() }.1
    }

    /// Mask of the entries in use, one bit each.
    #[inline(always)]
    pub(super) fn used(&self) -> u32 {
        // A count above ENTRIES can only come from memory that is not a table. The result is then
        // wrong, but stays in bounds.
        ((1_u32 << (self.meta & 0x1f)) - 1) & ((1 << ENTRIES) - 1)
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        ((self.meta & COUNT_MASK) as usize).min(ENTRIES)
    }

    /// Whether a key with this [`passing`] bit may have overflowed from this bucket.
    #[inline(always)]
    pub(super) fn passed(&self, bit: u32) -> bool {
        self.meta & bit != 0
    }

    /// Records that a key overflowed to the next bucket.
    #[inline(always)]
    pub(super) fn pass(&mut self, bit: u32) {
        self.meta |= bit;
    }

    /// Adds an entry; the caller has checked that there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, value: u32) {
        let index = self.len();
        self.keys[index] = key;
        self.values[index] = value;
        self.meta += 1;
    }
}

/// Filter bit of a key with this hash, in the buckets that it overflows from. It uses the low bits
/// of the hash; the bucket is chosen by the high ones, so the two are independent.
#[inline(always)]
pub(super) fn passing(hash: u64) -> u32 {
    1 << (PASSED_SHIFT + (hash as u32 & 0xf))
}

const _: () = assert!(size_of::<Bucket>() == Bucket::SIZE_BYTES);
