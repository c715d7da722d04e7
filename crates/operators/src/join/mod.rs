//! Hash joins: with one shared table, through an index, and with partitioned inputs.
//!
//! The tuples of joins have 8 bytes: a key and a payload of 4 bytes each. Keys of the build input
//! are 1 to n, each once, in random order; each tuple of the probe input finds one or none of them.

pub(crate) mod index;
pub(crate) mod radix;
pub(crate) mod shared;

use std::fmt;
use std::ops::Range;

use crate::data::{KeyDraw, Permutation, Sums, each, mix, random};
use crate::spec::{ParameterError, check_tuples, check_zipf};

/// Bytes of a tuple.
pub(crate) const TUPLE_BYTES: u64 = 8;
/// Keys have 32 bits, 0 is no key, and as many keys again are needed for misses.
const MAX_BUILD: u64 = (1 << 31) - 1;

/// Key and payload as one word.
pub(crate) fn tuple(key: u32, payload: u32) -> u64 {
    u64::from(payload) << 32 | u64::from(key)
}

/// The key of a tuple.
#[inline(always)]
pub(crate) fn key_of(tuple: u64) -> u32 {
    tuple as u32
}

/// What a match adds to the checksum: it differs if a tuple is matched with a wrong one.
#[inline(always)]
pub(crate) fn matched(build: u64, probe: u64) -> u64 {
    mix((build ^ probe) >> 32)
}

/// Hash of a key in the upper bits: multiplication by 2^64 over the golden ratio (Knuth).
#[inline(always)]
pub(crate) fn hash(key: u32) -> u64 {
    u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Payload of the build tuple with this key.
fn payload(seed: u64, key: u32) -> u32 {
    (mix(seed ^ u64::from(key)) >> 32) as u32
}

/// Sizes and keys of the inputs of a join.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Inputs {
    pub(crate) build_tuples: u64,
    pub(crate) probe_tuples: u64,
    /// Share of the probe tuples that find nothing.
    pub(crate) miss_share: f64,
    /// Skew of the probe keys.
    pub(crate) zipf_alpha: Option<f64>,
}

impl Inputs {
    pub(crate) fn check(&self) -> Result<(), ParameterError> {
        check_tuples("build_tuples", self.build_tuples, MAX_BUILD)?;
        check_tuples("probe_tuples", self.probe_tuples, u64::MAX)?;
        if !(0.0..=1.0).contains(&self.miss_share) {
            let problem = format!("{}; expected a share from 0% to 100%", self.miss_share);
            return Err(ParameterError::new("miss_share", problem));
        }
        check_zipf(self.zipf_alpha)
    }

    /// Writes both inputs; returns the matches that they have.
    pub(crate) fn fill(&self, build: &mut [u8], probe: &mut [u8], seed: u64) -> Sums {
        let order = Permutation::new(self.build_tuples, seed);
        each::<8>(part_of(build, self.build_tuples), |at, words| {
            for (at, word) in at.zip(words) {
                let key = order.at(at as u64) as u32 + 1;
                *word = tuple(key, payload(seed, key)).to_le_bytes();
            }
            Sums::default()
        });
        let draw = KeyDraw {
            count: self.build_tuples,
            zipf_alpha: self.zipf_alpha,
            seed: random(seed, 1),
        };
        each::<8>(part_of(probe, self.probe_tuples), |at, words| {
            let drawn = draw.block(&at);
            self.fill_probe(at, &drawn, seed, words)
        })
    }

    fn fill_probe(
        &self,
        at: Range<usize>,
        drawn: &[u64],
        seed: u64,
        words: &mut [[u8; 8]],
    ) -> Sums {
        // The upper bits decide whether a tuple misses, the lower ones are its payload.
        let stream = random(seed, 2);
        let misses_below = (self.miss_share * u64::MAX as f64) as u64;
        let mut sums = Sums::default();
        for ((at, word), position) in at.zip(words).zip(drawn) {
            let bits = random(stream, at);
            let found = *position as u32 + 1;
            if bits < misses_below {
                let absent = found + self.build_tuples as u32;
                *word = tuple(absent, bits as u32).to_le_bytes();
                continue;
            }
            let probe = tuple(found, bits as u32);
            *word = probe.to_le_bytes();
            sums.add(matched(tuple(found, payload(seed, found)), probe));
        }
        sums
    }
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} tuples", self.build_tuples, self.probe_tuples)?;
        if self.miss_share > 0.0 {
            write!(f, ", {}% misses", self.miss_share * 100.0)?;
        }
        match self.zipf_alpha {
            Some(alpha) => write!(f, ", zipf {alpha}"),
            None => Ok(()),
        }
    }
}

/// The bytes of that many tuples.
pub(crate) fn part_of(structure: &mut [u8], tuples: u64) -> &mut [u8] {
    &mut structure[..(tuples * TUPLE_BYTES) as usize]
}
