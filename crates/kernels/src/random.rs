//! Random reads with a chosen number in flight.

use serde::Serialize;

use crate::rng::{mix, scale};

/// Most chains of reads that [`random_read`] runs side by side.
pub const MAX_IN_FLIGHT: usize = 64;

/// What [`random_read`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RandomRead {
    /// 8-byte reads made.
    pub reads: u64,
    /// Chains they were spread over: how many reads can be in flight at once.
    pub in_flight: usize,
    /// Wrapping sum of what was read.
    pub checksum: u64,
}

/// Reads about `reads` random 8-byte words of `data` in `in_flight` chains (1 to [`MAX_IN_FLIGHT`]; other numbers are clamped). Within a
/// chain each address depends on the value read before; the chains are independent. So at most `in_flight` reads are under way at once,
/// and as many as the processor can. The number of reads is rounded up to whole turns of all chains.
pub fn random_read(data: &[u8], reads: u64, in_flight: usize, seed: u64) -> RandomRead {
    let in_flight = in_flight.clamp(1, MAX_IN_FLIGHT);
    let (words, _) = data.as_chunks::<8>();
    if words.is_empty() {
        return RandomRead {
            reads: 0,
            in_flight,
            checksum: 0,
        };
    }
    let mut states = [0_u64; MAX_IN_FLIGHT];
    for (chain, state) in (0..).zip(&mut states) {
        *state = mix(seed ^ mix(chain));
    }
    let turns = reads.div_ceil(in_flight as u64);
    let mut checksum = 0_u64;
    for _ in 0..turns {
        for state in &mut states[..in_flight] {
            let word = words[scale(mix(*state), words.len() as u64) as usize];
            let value = u64::from_le_bytes(word);
            checksum = checksum.wrapping_add(value);
            *state = state.wrapping_add(value | 1);
        }
    }
    RandomRead {
        reads: turns * in_flight as u64,
        in_flight,
        checksum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_is_counted_and_summed() {
        let ones: Vec<u8> = 1_u64.to_le_bytes().repeat(1000);
        for in_flight in [1, 3, 16, 64] {
            let result = random_read(&ones, 10_000, in_flight, 1);
            assert!(result.reads >= 10_000 && result.reads < 10_000 + in_flight as u64);
            assert_eq!(result.checksum, result.reads);
        }
    }

    #[test]
    fn reads_spread_over_the_whole_buffer() {
        // Each word counts its own 16th of the buffer in a byte of its own.
        let words: Vec<u8> = (0..1600_u64)
            .flat_map(|word| (1_u64 << (word / 200 * 8)).to_le_bytes())
            .collect();
        let result = random_read(&words, 800, 8, 42);
        let per_part = result.checksum.to_le_bytes();
        assert_eq!(
            per_part.iter().map(|count| u64::from(*count)).sum::<u64>(),
            800
        );
        assert!(
            per_part.iter().all(|count| (50..=160).contains(count)),
            "{per_part:?}"
        );
    }

    #[test]
    fn odd_arguments_are_clamped() {
        assert_eq!(random_read(&[1, 2, 3], 100, 4, 0).reads, 0);
        assert_eq!(
            random_read(&[0; 8], 5, 0, 0),
            RandomRead {
                reads: 5,
                in_flight: 1,
                checksum: 0
            }
        );
        assert_eq!(random_read(&[0; 8], 5, 1000, 0).in_flight, MAX_IN_FLIGHT);
    }
}
