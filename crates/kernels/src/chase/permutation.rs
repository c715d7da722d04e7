//! Keyed bijections of 0..n that are cheap to evaluate in both directions.

use crate::rng::mix;

/// Rounds: with three, neighbours differ unpredictably in all bits (multiplication carries upwards,
/// the shift brings high bits down).
const ROUNDS: usize = 3;

/// A bijection of `0..len`, determined by a key.
///
/// On the next power of two it consists of rounds of a multiplication by an odd number, an XOR with
/// a key and an XOR with the upper half; each of these can be inverted. Results outside `0..len`
/// are permuted again until they are inside ("cycle walking": Black and Rogaway, "Ciphers with
/// arbitrary finite domains", 2002), which takes less than one more turn on average.
#[derive(Debug, Clone, Copy)]
pub(super) struct Permutation {
    len: u64,
    mask: u64,
    shift: u32,
    factors: [u64; ROUNDS],
    inverses: [u64; ROUNDS],
    keys: [u64; ROUNDS],
}

impl Permutation {
    pub(super) fn new(len: u64, key: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let mut factors = [0; ROUNDS];
        let mut keys = [0; ROUNDS];
        for (round, (factor, round_key)) in (1..).zip(factors.iter_mut().zip(&mut keys)) {
            let random = mix(key.wrapping_add(mix(round)));
            *factor = random | 1;
            *round_key = mix(random);
        }
        Self {
            len,
            mask: 1_u64.checked_shl(bits).map_or(u64::MAX, |size| size - 1),
            // At least half of the bits, so that the XOR with the shifted value is its own inverse.
            shift: bits.div_ceil(2).max(1),
            inverses: factors.map(inverse),
            factors,
            keys,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The element at a position below the length.
    pub(super) fn at(&self, position: u64) -> u64 {
        let mut value = position;
        loop {
            for (factor, key) in self.factors.iter().zip(&self.keys) {
                value = (value.wrapping_mul(*factor) ^ key) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.len {
                return value;
            }
        }
    }

    /// The position of an element below the length; the inverse of `at`.
    pub(super) fn position(&self, element: u64) -> u64 {
        let mut value = element;
        loop {
            for (inverse, key) in self.inverses.iter().zip(&self.keys).rev() {
                value ^= value >> self.shift;
                value = (value ^ key).wrapping_mul(*inverse) & self.mask;
            }
            if value < self.len {
                return value;
            }
        }
    }

    /// The next position, wrapping around at the end.
    pub(super) fn after(&self, position: u64) -> u64 {
        let next = position + 1;
        if next >= self.len { 0 } else { next }
    }
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration: each turn doubles the number of
/// correct bits.
fn inverse(odd: u64) -> u64 {
    // Any odd number is its own inverse modulo 8, so 3 bits are correct: 3, 6, 12, 24, 48, 96.
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_element_has_one_position(len in 1_u64..5000, key in any::<u64>()) {
            let permutation = Permutation::new(len, key);
            let mut seen = vec![false; len as usize];
            for position in 0..len {
                let element = permutation.at(position);
                prop_assert!(!std::mem::replace(&mut seen[element as usize], true));
                prop_assert_eq!(permutation.position(element), position);
            }
        }

        #[test]
        fn large_ones_can_be_undone(len in (1_u64 << 40)..(1 << 63), key in any::<u64>(), position in any::<u64>()) {
            let permutation = Permutation::new(len, key);
            let position = position % len;
            prop_assert_eq!(permutation.position(permutation.at(position)), position);
        }
    }

    #[test]
    fn neighbours_are_unrelated() {
        // Hardware prefetchers detect repeated distances: of 65536 distances to the next element,
        // all over the range, few may be equal.
        for len in [1_u64 << 16, 100_000] {
            let permutation = Permutation::new(len, 7);
            let mut distances = std::collections::HashMap::new();
            for position in 0..len - 1 {
                let distance = permutation
                    .at(position + 1)
                    .wrapping_sub(permutation.at(position));
                *distances.entry(distance).or_insert(0_u32) += 1;
            }
            let most = distances.values().max().copied();
            assert!(most < Some(16), "{most:?}");
            let near = (0..1024_u64).map(|d| distances.get(&d).copied().unwrap_or(0));
            assert!(near.sum::<u32>() < 2048);
        }
    }
}
