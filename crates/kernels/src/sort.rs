//! Sorts keys that carry the numbers of their rows.
//!
//! A packed key is an integer whose upper bits are the key and whose lower 32 bits are the row, so
//! that rows with equal keys stay in order. Keys are first distributed by their upper bits into
//! buckets that fit the cache, which are then sorted by comparison.

/// Bits of the row number.
pub const ROW_BITS: u32 = 32;

/// A key and its row in one integer: `u64` for keys of up to 32 bits, `u128` for up to 96.
pub trait PackedKey: Copy + Ord + Default + Send {
    /// Bits of the longest key.
    const KEY_BITS: u32;

    /// The integer of a key, given by its lower bits, and a row.
    fn pack(key: u128, row: u32) -> Self;

    /// The row.
    fn row(self) -> u32;

    /// The integer without its row.
    fn key(self) -> u128;

    /// The lowest `bits` bits after `shift` bits were removed, as a bucket.
    fn digit(self, shift: u32, bits: u32) -> usize;
}

macro_rules! packed_key {
    ($integer:ty) => {
        impl PackedKey for $integer {
            const KEY_BITS: u32 = <$integer>::BITS - ROW_BITS;

            #[inline(always)]
            fn pack(key: u128, row: u32) -> Self {
                (key as $integer) << ROW_BITS | <$integer>::from(row)
            }

            #[inline(always)]
            fn row(self) -> u32 {
                self as u32
            }

            #[inline(always)]
            fn key(self) -> u128 {
                u128::from(self >> ROW_BITS)
            }

            #[inline(always)]
            fn digit(self, shift: u32, bits: u32) -> usize {
                (self >> shift) as usize & ((1 << bits) - 1)
            }
        }
    };
}

packed_key!(u64);
packed_key!(u128);

/// Keys that are sorted by comparison: at most 64 KiB of them.
const FEW: usize = 4096;
/// Bits by which keys are distributed at once: a thousand open cache lines and pages.
const DIGIT_BITS: u32 = 10;

/// Sorts packed keys of `key_bits` bits, whose upper bits are zero.
///
/// # Panics
/// If keys have more bits than `K` holds.
pub fn sort_packed<K: PackedKey>(keys: &mut [K], key_bits: u32) {
    assert!(key_bits <= K::KEY_BITS, "bits of the keys");
    if keys.len() <= FEW {
        keys.sort_unstable();
        return;
    }
    let mut scratch = vec![K::default(); keys.len()];
    distribute(keys, &mut scratch, ROW_BITS + key_bits);
}

/// Sorts `keys`, which agree in all but their `bits` lowest bits.
fn distribute<K: PackedKey>(keys: &mut [K], scratch: &mut [K], bits: u32) {
    // Digits of rows are never reached: rows are in order, or few.
    if keys.len() <= FEW || bits <= ROW_BITS {
        keys.sort_unstable();
        return;
    }
    let digit_bits = DIGIT_BITS.min(bits - ROW_BITS);
    let shift = bits - digit_bits;
    let mut ends = vec![0_usize; 1 << digit_bits];
    for key in &*keys {
        ends[key.digit(shift, digit_bits)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        let count = *end;
        *end = sum;
        sum += count;
    }
    for key in &*keys {
        let place = &mut ends[key.digit(shift, digit_bits)];
        scratch[*place] = *key;
        *place += 1;
    }
    keys.copy_from_slice(scratch);
    let mut start = 0;
    for end in ends {
        if end - start > 1 {
            distribute(&mut keys[start..end], &mut scratch[start..end], shift);
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    fn sorted<K: PackedKey + std::fmt::Debug>(bits: u32, rows: usize, rng: &mut SplitMix64) {
        let mask = (1_u128 << bits) - 1;
        let mut wide = || u128::from(rng.next()) << 64 | u128::from(rng.next());
        // Evenly, few different keys, and all but a few in one bucket.
        let shapes: [&dyn Fn(u128) -> u128; 3] = [&|v| v & mask, &|v| (v % 5) & mask, &|v| {
            if v % 90 == 0 {
                v & mask
            } else {
                v & mask & 0xf
            }
        }];
        for shape in shapes {
            let keys = (0..rows as u32).map(|row| K::pack(shape(wide()), row));
            let mut keys: Vec<K> = keys.collect();
            let mut expected = keys.clone();
            expected.sort();
            sort_packed(&mut keys, bits);
            assert_eq!(keys, expected, "{bits} bits");
        }
    }

    #[test]
    fn keys_come_out_in_order_with_their_rows() {
        let mut rng = SplitMix64::new(std::process::id().into());
        for rows in [0, 1, 5000, 60_000] {
            for bits in [1, 10, 17, 32] {
                sorted::<u64>(bits, rows, &mut rng);
                sorted::<u128>(bits, rows, &mut rng);
            }
            for bits in [33, 64, 96] {
                sorted::<u128>(bits, rows, &mut rng);
            }
        }
        let pair = <u128 as PackedKey>::pack(7 << 60, 9);
        assert_eq!((pair.key(), pair.row()), (7 << 60, 9));
    }
}
