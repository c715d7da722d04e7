//! A worker's share of its core: compute throughput and lines in flight (memory-level parallelism).
//!
//! Interpolates between one hardware thread per core and all of them. Frequency scaling and
//! contention between cores for anything but memory and caches are not modelled.

use crate::machine::{Machine, Prefetch, Value, or};
use crate::work::{Access, LINE_BYTES, Op, Pattern};

/// Prefetchers do not cross 4-KiB boundaries, whatever the page size (Intel's optimisation manual).
pub(super) const PREFETCH_PAGE_BYTES: f64 = 4096.0;

/// Output positions that prefetchers follow at the same time.
///
/// Measured: plain radix partitioning on one core of an Emerald Rapids processor takes as long per
/// tuple at 64 partitions as in the cache, and three times as long from 256 to 16384
/// (docs/model.md).
const FOLLOWED_POSITIONS: u32 = 64;

/// Lines in flight of stores to more positions than prefetchers follow.
///
/// Stores become visible in order, so one that waits for the ownership of its line holds up those
/// behind it. Measured with plain radix partitioning as above; 1.4 to 2.4 for 256 to 16384
/// partitions.
const SCATTERED_STORES: f64 = 1.8;

/// An optional number of the prefetchers; 0 if it is absent or if the machine has no prefetchers.
pub(super) fn prefetch_number(machine: &Machine, of: impl Fn(&Prefetch) -> Option<&Value>) -> f64 {
    or(machine.prefetch.as_ref().and_then(of), 0.0)
}

/// A worker's share of a core.
pub(super) struct CoreShare {
    pub workers: f64,
    /// Gain in lines in flight of a core that is shared, at least 1.
    more_lines: f64,
    /// Compute time of a worker over that of a worker with the core to itself, at least 1.
    pub compute_stretch: f64,
    /// Running threads per core, at least 1.
    pub crowd: f64,
}

impl CoreShare {
    pub fn of(machine: &Machine, workers: u32, neighbours: u32) -> Self {
        let (cores, smt) = (machine.cores.value, machine.smt.value);
        let wanted = f64::from(workers) + f64::from(neighbours);
        let running = wanted.min(cores * smt);
        // Fair scheduling of threads beyond the hardware threads: each group runs in proportion to
        // its size.
        let workers = f64::from(workers) * running / wanted;
        let per_core = (running / cores).max(1.0);
        let crowding = if smt > 1.0 {
            (per_core - 1.0) / (smt - 1.0)
        } else {
            0.0
        };
        let gain = 1.0 + (machine.smt_yield.value - 1.0) * crowding;
        // A yield above the threads per core would make sharing a core a gain; no core does that.
        let compute_stretch = (per_core / gain).max(1.0);
        let more_lines = 1.0 + (or(machine.concurrency.smt_gain.as_ref(), 1.0) - 1.0) * crowding;
        CoreShare {
            workers,
            more_lines,
            compute_stretch,
            crowd: per_core,
        }
    }

    /// Lines that one worker keeps in flight.
    ///
    /// A thread's number is that of its kind of access (its share of the reorder buffer, and how
    /// fast it uses lines). Threads on one core have a number each, but together, on average over
    /// time, no more than the core's queues hold: while one computes, the other has all of them.
    pub fn in_flight(&self, machine: &Machine, access: &Access) -> InFlight {
        let (of_thread, of_core) = lines_of(machine, access);
        InFlight {
            of_thread,
            share: of_core.max(of_thread * self.more_lines) / self.crowd,
        }
    }
}

/// Lines in flight of a worker.
#[derive(Clone, Copy)]
pub(super) struct InFlight {
    /// Most that one thread keeps in flight.
    pub of_thread: f64,
    /// Its share of what the queues of its core hold, over time; less than `of_thread` only if
    /// threads share the core.
    pub share: f64,
}

/// Lines in flight of one thread that has its core to itself, and those that the core's queues
/// hold for such accesses.
fn lines_of(machine: &Machine, access: &Access) -> (f64, f64) {
    let lines = &machine.concurrency;
    let (scalar, simd) = (lines.sequential_scalar.value, lines.sequential_simd.value);
    let stream = if access.simd { simd } else { scalar };
    let (alone, prefetched) = (lines.random.value, lines.random_prefetched.value);
    let random = if access.simd { prefetched } else { alone };
    let ordered = |op| match op {
        Op::Write | Op::Update => or(lines.store.as_ref(), stream),
        Op::NtWrite => or(lines.nt_store.as_ref(), stream),
        Op::Read => stream,
    };
    let full = |op| match op {
        Op::Read => scalar.max(simd),
        op => ordered(op),
    };
    let of_random = alone.max(prefetched);
    match access.pattern {
        Pattern::Dependent => (lines.dependent.value, f64::INFINITY),
        Pattern::Random => (random, of_random),
        // Stores in pieces shorter than a page get no prefetching (Weisgut et al., PVLDB 2025,
        // Figure 4: 64 to 1024 bytes are alike).
        Pattern::Runs { lines: piece }
            if access.op != Op::Read && f64::from(piece) * LINE_BYTES < PREFETCH_PAGE_BYTES =>
        {
            (random, of_random)
        }
        Pattern::Runs { lines: piece } => {
            let piece = f64::from(piece.max(1));
            let watched = prefetch_number(machine, |p| p.training_lines.as_ref()).min(piece);
            // The first lines of a piece, which train the prefetcher, have the concurrency of
            // random accesses, the others that of a stream. Their times add, so the mean is
            // harmonic.
            let mean =
                |random: f64, stream: f64| piece / (watched / random + (piece - watched) / stream);
            (
                mean(random, ordered(access.op)),
                mean(of_random, full(access.op)),
            )
        }
        // Prefetchers follow the output of a few positions as they follow a stream.
        Pattern::Scatter { partitions }
            if machine.prefetch.is_some() && partitions <= FOLLOWED_POSITIONS =>
        {
            (ordered(access.op), full(access.op))
        }
        Pattern::Scatter { .. } => (SCATTERED_STORES, of_random),
        // A store to a line of another core holds up those behind it.
        Pattern::Contended { .. } => (1.0, f64::INFINITY),
        Pattern::Strided { lines: stride } if stride > 1 => match &machine.prefetch {
            Some(p) if f64::from(stride) <= p.reach_lines.value => (stream, scalar.max(simd)),
            // Few instructions separate two lines, so the reorder buffer does not limit them
            // either.
            _ => (prefetched, of_random),
        },
        Pattern::Sequential | Pattern::Strided { .. } => (ordered(access.op), full(access.op)),
    }
}
