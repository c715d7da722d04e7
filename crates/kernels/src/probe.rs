//! A quick measurement of the read bandwidth of memory that is already mapped.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::sequential_read;

/// Samples that [`stream_probe`] takes with all threads together.
const STREAM_ROUNDS: usize = 3;

/// Read bandwidth of memory that the caller provides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamProbe {
    /// Read bandwidth of one thread, GB/s; one sample per part.
    pub read_gbps_one_thread: Vec<f64>,
    /// Read bandwidth of all threads together, GB/s; each sample covers all parts, of which each
    /// thread reads its share.
    pub read_gbps_all_threads: Vec<f64>,
    /// Size of all parts: the bytes that pass through the caches between two reads of one part.
    pub footprint_bytes: u64,
}

/// Reads every part with one thread, and three times all parts with `threads` threads.
///
/// Some MiB per part and thread give stable rates. Empty parts are ignored.
pub fn stream_probe(parts: &[&[u8]], threads: usize) -> StreamProbe {
    let parts: Vec<&[u8]> = parts
        .iter()
        .copied()
        .filter(|part| !part.is_empty())
        .collect();
    let alone = |part: &&[u8]| {
        let start = Instant::now();
        black_box(sequential_read(black_box(part)));
        gbps(part.len(), start.elapsed())
    };
    let rounds = if parts.is_empty() { 0 } else { STREAM_ROUNDS };
    StreamProbe {
        read_gbps_one_thread: parts.iter().map(alone).collect(),
        read_gbps_all_threads: (0..rounds)
            .map(|_| together(&parts, threads.max(1)))
            .collect(),
        footprint_bytes: parts.iter().map(|part| part.len() as u64).sum(),
    }
}

/// Rate, in GB/s, at which `threads` threads read all parts, each its share of every part.
fn together(parts: &[&[u8]], threads: usize) -> f64 {
    let begin = Barrier::new(threads);
    let read_share = |thread: usize| {
        begin.wait();
        let begun = Instant::now();
        for part in parts {
            let share_bytes = part.len().div_ceil(threads);
            let from = (thread * share_bytes).min(part.len());
            let to = (from + share_bytes).min(part.len());
            black_box(sequential_read(black_box(&part[from..to])));
        }
        (begun, Instant::now())
    };
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let read_share = &read_share;
        let others: Vec<_> = (1..threads)
            .map(|thread| scope.spawn(move || read_share(thread)))
            .collect();
        let own = read_share(0);
        // Reading does not panic; if a thread did, the times of the others are used.
        let joined = others.into_iter().filter_map(|other| other.join().ok());
        std::iter::once(own).chain(joined).collect()
    });
    // From the first start to the last end: a thread that starts late must not make the rate look
    // higher.
    let (first, last) = times
        .iter()
        .fold(times[0], |all, one| (all.0.min(one.0), all.1.max(one.1)));
    gbps(parts.iter().map(|part| part.len()).sum(), last - first)
}

fn gbps(bytes: usize, elapsed: Duration) -> f64 {
    bytes as f64 / elapsed.as_secs_f64().max(1e-9) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_probe_samples_every_part_that_has_bytes() {
        let (large, small) = (vec![1_u8; 1 << 20], vec![1_u8; 64]);
        let probe = stream_probe(&[&large, &[], &small], 2);
        assert_eq!(
            (
                probe.read_gbps_one_thread.len(),
                probe.read_gbps_all_threads.len()
            ),
            (2, 3)
        );
        assert!(
            probe
                .read_gbps_all_threads
                .iter()
                .chain(&probe.read_gbps_one_thread)
                .all(|rate| *rate > 0.0)
        );
        assert_eq!(probe.footprint_bytes, (1 << 20) + 64);
        let nothing = stream_probe(&[], 2);
        assert!(
            nothing.read_gbps_one_thread.is_empty() && nothing.read_gbps_all_threads.is_empty()
        );
    }
}
