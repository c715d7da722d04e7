//! A quick look at this host's memory.

use std::hint::black_box;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{ChaseRing, Simd, Spread, sequential_read};

/// Buffer of a probe with time enough.
const LARGE_BYTES: usize = 64 << 20;
/// Buffer of a probe in a hurry.
const SMALL_BYTES: usize = 16 << 20;
/// Below this budget the small buffer is taken: making the large one takes a third of it.
const LARGE_FROM: Duration = Duration::from_millis(100);
/// Dependent loads per latency sample: one to three milliseconds.
const CHASE_STEPS: u64 = 20_000;
/// No more samples than this of anything.
const MAX_SAMPLES: usize = 9;

/// What this host's memory does, measured by [`host_probe`].
///
/// It says how fast *a buffer of this footprint* is read, through whatever caches the host has: where the last-level cache is larger than
/// the footprint (virtual machines often report hundreds of MiB), it is not the speed or latency of DRAM. Pages are of the base size
/// unless the system gives huge pages to everybody, so latencies include address translation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostProbe {
    /// Sequential read rate of one thread, GB/s (decimal).
    pub read_gbps_one_thread: Spread,
    /// Sequential read rate of all threads together, GB/s (decimal), each on its part of the buffer.
    pub read_gbps_all_threads: Spread,
    /// Time per dependent random load, ns.
    pub chase_latency_ns: Spread,
    /// Threads of the second rate.
    pub threads: usize,
    /// Bytes that each measurement goes through.
    pub footprint_bytes: u64,
    /// Vector width of the reads.
    pub simd: Simd,
    /// How long the probe took, ms.
    pub elapsed_ms: f64,
}

/// Measures this host in about `budget` (150 ms give a handful of samples of each; one sample of each is always taken).
/// `threads` is clamped to at least 1.
pub fn host_probe(threads: usize, budget: Duration) -> HostProbe {
    let start = Instant::now();
    let threads = threads.max(1);
    let mut buffer = vec![
        0_u8;
        if budget < LARGE_FROM {
            SMALL_BYTES
        } else {
            LARGE_BYTES
        }
    ];
    // Building writes every line, so all pages are present afterwards.
    let ring = ChaseRing::build(&mut buffer, 1);
    let footprint_bytes = ring.footprint_bytes() as u64;
    let rest = budget.saturating_sub(start.elapsed());
    let chase_latency_ns = chase(&ring, Instant::now() + rest / 6);
    let read_gbps_one_thread = read(&buffer, 1, Instant::now() + rest / 2);
    let rest = budget.saturating_sub(start.elapsed());
    let read_gbps_all_threads = read(&buffer, threads, Instant::now() + rest);
    HostProbe {
        read_gbps_one_thread,
        read_gbps_all_threads,
        chase_latency_ns,
        threads,
        footprint_bytes,
        simd: Simd::detect(),
        elapsed_ms: start.elapsed().as_secs_f64() * 1e3,
    }
}

/// Samples of all threads together that [`stream_probe`] takes.
const STREAM_ROUNDS: usize = 3;

/// What streaming costs on memory that the caller already has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamProbe {
    /// Read bandwidth of one thread, GB/s: a sample per part.
    pub read_gbps_one_thread: Vec<f64>,
    /// Read bandwidth of all threads together, GB/s: samples over all parts, of which each thread reads its share.
    pub read_gbps_all_threads: Vec<f64>,
    /// Bytes of all parts together: what went through the caches between two reads of one part.
    pub footprint_bytes: u64,
}

/// Reads every part with one thread, and a few times all parts with `threads`. Some MiB a part and thread give stable rates; empty parts
/// are left out.
pub fn stream_probe(parts: &[&[u8]], threads: usize) -> StreamProbe {
    let parts: Vec<&[u8]> = parts
        .iter()
        .copied()
        .filter(|part| !part.is_empty())
        .collect();
    let alone = |part: &&[u8]| read(part, 1, Instant::now()).median;
    let rounds = if parts.is_empty() { 0 } else { STREAM_ROUNDS };
    StreamProbe {
        read_gbps_one_thread: parts.iter().map(alone).collect(),
        read_gbps_all_threads: (0..rounds)
            .map(|_| together(&parts, threads.max(1)))
            .collect(),
        footprint_bytes: parts.iter().map(|part| part.len() as u64).sum(),
    }
}

/// The rate at which `threads` threads read all parts, each its share of every part.
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
        // A reader cannot panic; if one did, the rate of the others stands.
        let joined = others.into_iter().filter_map(|other| other.join().ok());
        std::iter::once(own).chain(joined).collect()
    });
    let (first, last) = times
        .iter()
        .fold(times[0], |all, one| (all.0.min(one.0), all.1.max(one.1)));
    gbps(parts.iter().map(|part| part.len()).sum(), last - first)
}

/// Repeats `sample` until the deadline, but once at least.
fn repeat(deadline: Instant, mut sample: impl FnMut() -> f64) -> Spread {
    let first = sample();
    let mut samples = vec![first];
    while samples.len() < MAX_SAMPLES && Instant::now() < deadline {
        samples.push(sample());
    }
    Spread::of(&samples).unwrap_or(Spread {
        min: first,
        median: first,
        max: first,
        samples: 1,
    })
}

fn chase(ring: &ChaseRing<'_>, deadline: Instant) -> Spread {
    let mut at = 0;
    repeat(deadline, || {
        let start = Instant::now();
        at = black_box(ring.follow(at, CHASE_STEPS));
        start.elapsed().as_secs_f64() * 1e9 / CHASE_STEPS as f64
    })
}

fn read(buffer: &[u8], threads: usize, deadline: Instant) -> Spread {
    if threads == 1 {
        return repeat(deadline, || {
            let start = Instant::now();
            black_box(sequential_read(black_box(buffer)));
            gbps(buffer.len(), start.elapsed())
        });
    }
    let part_bytes = buffer.len().div_ceil(threads);
    let parts: Vec<&[u8]> = buffer.chunks(part_bytes).collect();
    let (begin, end) = (Barrier::new(parts.len()), Barrier::new(parts.len()));
    let round = Mutex::new(Round {
        begun: None,
        ended: None,
        go_on: true,
    });
    let lock = || round.lock().unwrap_or_else(PoisonError::into_inner);
    // Each reader notes its own times: who waits for others may wake up late.
    let read_part = |part: &[u8]| {
        let begun = Instant::now();
        black_box(sequential_read(black_box(part)));
        let ended = Instant::now();
        let mut round = lock();
        round.begun = Some(round.begun.map_or(begun, |first| first.min(begun)));
        round.ended = Some(round.ended.map_or(ended, |last| last.max(ended)));
    };
    std::thread::scope(|scope| {
        let (begin, end, lock, read_part) = (&begin, &end, &lock, &read_part);
        for part in &parts[1..] {
            scope.spawn(move || {
                loop {
                    begin.wait();
                    if !lock().go_on {
                        break;
                    }
                    read_part(part);
                    end.wait();
                }
            });
        }
        // This thread is one of the readers.
        let spread = repeat(deadline, || {
            begin.wait();
            read_part(parts[0]);
            end.wait();
            let mut round = lock();
            let elapsed = match (round.begun.take(), round.ended.take()) {
                (Some(begun), Some(ended)) => ended - begun,
                _ => Duration::ZERO,
            };
            gbps(buffer.len(), elapsed)
        });
        lock().go_on = false;
        begin.wait();
        spread
    })
}

/// What the readers of one sample share.
struct Round {
    begun: Option<Instant>,
    ended: Option<Instant>,
    /// Set to false, it sends the readers home.
    go_on: bool,
}

fn gbps(bytes: usize, elapsed: Duration) -> f64 {
    bytes as f64 / elapsed.as_secs_f64().max(1e-9) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_measures_everything_whatever_the_budget() {
        for (threads, budget_ms, footprint_bytes) in [
            (2, 150, LARGE_BYTES),
            (0, 0, SMALL_BYTES),
            (5, 20, SMALL_BYTES),
        ] {
            let probe = host_probe(threads, Duration::from_millis(budget_ms));
            assert_eq!(probe.threads, threads.max(1));
            for spread in [
                probe.read_gbps_one_thread,
                probe.read_gbps_all_threads,
                probe.chase_latency_ns,
            ] {
                assert!(
                    spread.min > 0.0 && spread.min <= spread.median && spread.median <= spread.max,
                    "{probe:?}"
                );
                assert!((1..=MAX_SAMPLES).contains(&spread.samples));
            }
            // The buffer may start in the middle of a line.
            assert!(
                probe.footprint_bytes.abs_diff(footprint_bytes as u64) <= 64,
                "{probe:?}"
            );
        }
    }

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
