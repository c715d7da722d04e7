//! A worker's share of its core: compute throughput and lines in flight (memory-level parallelism).
//!
//! Interpolates between one hardware thread per core and all of them. Frequency scaling and
//! contention between cores for anything but memory and caches are not modelled.

use crate::machine::{Machine, Prefetch, Value, or};
use crate::work::{Access, LINE_BYTES, Op, Pattern};

/// Prefetchers do not cross 4-KiB boundaries, whatever the page size (Intel's optimisation manual).
pub(super) const PREFETCH_PAGE_BYTES: f64 = 4096.0;

/// An optional number of the prefetchers; 0 if it is absent or if the machine has no prefetchers.
pub(super) fn prefetch_number(machine: &Machine, of: impl Fn(&Prefetch) -> Option<&Value>) -> f64 {
    or(machine.prefetch.as_ref().and_then(of), 0.0)
}

/// A worker's share of a core.
pub(super) struct CoreShare {
    pub workers: f64,
    /// Lines in flight of a worker over those of a core with one thread.
    lines: f64,
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
            lines: (more_lines / per_core).min(1.0),
            compute_stretch,
            crowd: per_core,
        }
    }

    pub fn in_flight(&self, machine: &Machine, access: &Access) -> f64 {
        let lines = &machine.concurrency;
        let stream = if access.simd {
            lines.sequential_simd.value
        } else {
            lines.sequential_scalar.value
        };
        let random = if access.simd {
            lines.random_prefetched.value
        } else {
            lines.random.value
        };
        let ordered = |op| match op {
            Op::Write | Op::Update => or(lines.store.as_ref(), stream),
            Op::NtWrite => or(lines.nt_store.as_ref(), stream),
            Op::Read => stream,
        };
        let of_core = match access.pattern {
            // Each hardware thread follows its own chain, so threads do not compete: the core's
            // line-fill buffers are far from full.
            Pattern::Dependent => return lines.dependent.value,
            Pattern::Random => random,
            // Stores in pieces shorter than a page get no prefetching (Weisgut et al., PVLDB 2025,
            // Figure 4: 64 to 1024 bytes are alike).
            Pattern::Runs { lines: piece }
                if access.op != Op::Read && f64::from(piece) * LINE_BYTES < PREFETCH_PAGE_BYTES =>
            {
                random
            }
            Pattern::Runs { lines: piece } => {
                let piece = f64::from(piece.max(1));
                let watched = prefetch_number(machine, |p| p.training_lines.as_ref()).min(piece);
                // The first lines of a piece, which train the prefetcher, have the concurrency of
                // random accesses, the others that of a stream. Their times add, so the mean is
                // harmonic.
                piece / (watched / random + (piece - watched) / ordered(access.op))
            }
            // Stores retire before their line arrives, so only the line-fill buffers limit them.
            Pattern::Scatter { .. } => lines.random_prefetched.value,
            Pattern::Strided { lines: stride } if stride > 1 => match &machine.prefetch {
                Some(p) if f64::from(stride) <= p.reach_lines.value => stream,
                // Few instructions separate two lines, so the reorder buffer does not limit them
                // either.
                _ => lines.random_prefetched.value,
            },
            Pattern::Sequential | Pattern::Strided { .. } => ordered(access.op),
        };
        of_core * self.lines
    }
}
