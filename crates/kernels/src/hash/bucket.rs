//! One cache line of a table.

/// Entries of a bucket: five keys of 8 bytes and five values of 4 leave 4 bytes for the count.
pub(super) const ENTRIES: usize = 5;
const COUNT_MASK: u32 = 0xff;
/// The 16 bits above the count say which keys went on to the next bucket: each sets one of them.
const PASSED_SHIFT: u32 = 8;

/// A cache line with up to five keys and their values. Any bytes are a bucket, if not a useful one.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    pub(super) keys: [u64; ENTRIES],
    pub(super) values: [u32; ENTRIES],
    meta: u32,
}

impl Bucket {
    /// No entries.
    pub const EMPTY: Bucket = Bucket {
        keys: [0; ENTRIES],
        values: [0; ENTRIES],
        meta: 0,
    };
    /// Bytes of a bucket.
    pub const SIZE_BYTES: usize = 64;

    /// The whole lines of `memory` as buckets. Zeroed memory is empty buckets.
    pub fn slice_mut(memory: &mut [u8]) -> &mut [Bucket] {
        // SAFETY: a bucket is plain integers without padding (40 + 20 + 4 bytes), so any bytes are
        // one and any bucket is bytes.
        unsafe { memory.align_to_mut::<Bucket>() }.1
    }

    /// The whole lines of `memory` as buckets.
    pub fn slice(memory: &[u8]) -> &[Bucket] {
        // SAFETY: as in `slice_mut`.
        unsafe { memory.align_to::<Bucket>() }.1
    }

    /// Bits of the entries that are in use.
    #[inline(always)]
    pub(super) fn used(&self) -> u32 {
        // A count above ENTRIES cannot come from us, only from foreign bytes; those may answer
        // nonsense but stay in bounds.
        ((1_u32 << (self.meta & 0x1f)) - 1) & ((1 << ENTRIES) - 1)
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        ((self.meta & COUNT_MASK) as usize).min(ENTRIES)
    }

    /// Whether a key with this [`passing`] bit may have found the bucket full.
    #[inline(always)]
    pub(super) fn passed(&self, bit: u32) -> bool {
        self.meta & bit != 0
    }

    /// Notes that a key went on to the next bucket.
    #[inline(always)]
    pub(super) fn pass(&mut self, bit: u32) {
        self.meta |= bit;
    }

    /// Adds an entry; the caller knows that there is room.
    #[inline(always)]
    pub(super) fn push(&mut self, key: u64, value: u32) {
        let index = self.len();
        self.keys[index] = key;
        self.values[index] = value;
        self.meta += 1;
    }

    /// Where `key` is, entry by entry.
    #[inline(always)]
    pub(super) fn position(&self, key: u64) -> Option<usize> {
        let mut found = 0_u32;
        for (index, candidate) in self.keys.iter().enumerate() {
            found |= u32::from(*candidate == key) << index;
        }
        let found = found & self.used();
        (found != 0).then(|| found.trailing_zeros() as usize)
    }
}

/// The bit of a key with this hash in the buckets that it passes. It comes from the low bits of the
/// hash, the bucket from the high ones.
#[inline(always)]
pub(super) fn passing(hash: u64) -> u32 {
    1 << (PASSED_SHIFT + (hash as u32 & 0xf))
}

const _: () = assert!(size_of::<Bucket>() == Bucket::SIZE_BYTES);
