//! A fast hash for interning column values; not resistant to chosen collisions.
//!
//! The standard library's hasher resists chosen collisions, which costs time for every value. Here
//! keys are the values of one column, and a collision only costs a comparison.

use std::hash::{BuildHasherDefault, Hasher};

/// A hash map that uses [`Mix`].
pub(super) type QuickMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mix>>;

/// Folds eight bytes at a time by a 64x64-bit multiplication.
#[derive(Default)]
pub(super) struct Mix(u64);

// 2^64 divided by the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Mix {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(ODD);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.fold(u64::from_le_bytes(*w)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.fold(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_i64(&mut self, value: i64) {
        self.fold(value as u64 ^ ODD);
    }

    fn write_u128(&mut self, value: u128) {
        self.fold(value as u64 ^ ODD);
        self.fold((value >> 64) as u64);
    }

    fn write_u8(&mut self, _: u8) {
        // The terminator that `str` appends: `write` already includes the length.
    }

    fn write_usize(&mut self, _: usize) {
        // The length prefix of slices: `write` already includes the length.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
