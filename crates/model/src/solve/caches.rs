//! Cache and TLB model: which lines of an access reach memory, and how many pages are walked.
//!
//! Hit ratios come from footprints and touch rates alone (Che's approximation of an LRU cache).
//! Associativity, replacement policies other than LRU, and contention for cache bandwidth are not
//! modelled.

use super::Terms;
use super::core::{PREFETCH_PAGE_BYTES, prefetch_number};
use crate::machine::Machine;
use crate::work::{Access, LINE_BYTES, Op, Pattern, Phase, StructureClass};

/// Length of a stream, in lines, from which prefetchers run at their full distance.
///
/// Assumed: the stream prefetcher runs up to 20 lines ahead and doubles its distance as a stream
/// goes on.
const FAR_AHEAD_LINES: f64 = 16.0;

/// First-level data cache of a core, bytes: 48 KiB in Golden Cove and its successors (Intel's
/// optimisation manual). It decides only when scattered stores ask the second level.
const L1_BYTES: f64 = 49152.0;

/// Prefetchers of the second-level cache that a scattered store sets off, each for its own line in
/// vain: the one for adjacent lines and the one for streams (Intel's optimisation manual).
const PREFETCHERS: f64 = 2.0;

/// Latencies of the last-level cache that pass until a line that another core has written arrives:
/// to the line's home, from there to its owner, and back.
///
/// Assumed: one latency for each of the three ways.
const HOPS_OF_A_TRANSFER: f64 = 3.0;

/// Memory-system events of one access by one tuple.
pub(super) struct Touch {
    /// Hits in the last-level cache, lines.
    pub llc_lines: f64,
    /// Misses of all caches, lines, with those that prefetchers fetch in vain.
    pub memory_lines: f64,
    pub walks: f64,
    /// Lines that prefetchers fetch in vain and nobody waits for.
    pub vain_lines: f64,
    /// Share of the lines that are single lines at random addresses (0 for a stream).
    pub single_share: f64,
}

/// State of caches and TLB during a phase.
pub(super) struct Caches<'p> {
    /// Structures with reuse, and their hit ratios.
    reused: Vec<Reused<'p>>,
    /// True if the whole footprint of the phase, streams included, fits into the last-level cache.
    all_resident: bool,
    tlb_miss_share: f64,
    llc: bool,
    /// Hardware threads per private cache, and in all.
    per_core: f64,
    workers: f64,
}

/// A structure whose lines are touched again within the phase.
struct Reused<'p> {
    name: &'p str,
    bytes: f64,
    is_buffer: bool,
    /// Touches per tuple, lines.
    touches: f64,
    /// Hit ratio of the private caches; the time of these hits is part of the compute time.
    private: f64,
    /// Hit ratio of the last-level cache, among all touches.
    llc: f64,
}

/// Whether accesses go to random addresses of the structure.
fn is_anywhere(pattern: Pattern) -> bool {
    matches!(
        pattern,
        Pattern::Random | Pattern::Runs { .. } | Pattern::Dependent
    )
}

/// Whether lines are touched again soon: random accesses, and buffers.
///
/// A stream has no reuse within a phase.
fn is_reused(access: &Access) -> bool {
    is_anywhere(access.pattern) || access.class == StructureClass::Buffer
}

/// Lines per tuple of a stream that pass through the caches; non-temporal stores pass them by.
fn streamed_lines(access: &Access) -> f64 {
    if is_reused(access) || access.op == Op::NtWrite {
        0.0
    } else {
        access.lines_per_tuple
    }
}

/// Bytes of the distinct structures among `accesses`, each with its largest footprint.
///
/// Phases have few accesses, so comparing each with all others is faster than a map.
fn footprint<'a>(accesses: impl Iterator<Item = &'a Access> + Clone) -> f64 {
    let is_largest = |index: usize, access: &Access| {
        accesses.clone().enumerate().all(|(i, other)| {
            other.structure != access.structure
                || (access.footprint_bytes, index) >= (other.footprint_bytes, i)
        })
    };
    accesses
        .clone()
        .enumerate()
        .filter(|(index, access)| is_largest(*index, access))
        .map(|(_, access)| access.footprint_bytes as f64)
        .sum()
}

impl<'p> Caches<'p> {
    pub fn of(machine: &Machine, phase: &'p Phase, workers: u32, terms: Terms) -> Self {
        let cores = f64::from(workers).min(machine.cores.value);
        let threads = f64::from(workers).min(machine.cores.value * machine.smt.value);
        let touched = || phase.accesses.iter().filter(|a| a.lines_per_tuple > 0.0);
        let mut reused = reused(touched().filter(|a| is_reused(a)));
        if terms.llc {
            let (llc, l2) = (machine.cache.llc_bytes.value, machine.cache.l2_bytes.value);
            let streamed = LINE_BYTES * touched().map(streamed_lines).sum::<f64>();
            // A core's private cache holds that core's part of the buffers, but a full copy of what
            // all workers share.
            let in_l2 = kept(&reused, l2, streamed, |r| {
                if r.is_buffer {
                    r.bytes / cores
                } else {
                    r.bytes
                }
            });
            let in_llc = kept(&reused, llc, streamed, |r| r.bytes);
            for (structure, (private, all)) in reused.iter_mut().zip(in_l2.into_iter().zip(in_llc))
            {
                structure.private = private;
                // The last-level cache is taken to include what private caches hold, so it adds
                // only the difference.
                structure.llc = (all - private).max(0.0);
            }
        }
        let random = footprint(touched().filter(|a| is_anywhere(a.pattern)));
        let reach = machine.tlb.entries.value * machine.tlb.page_bytes.value;
        Caches {
            reused,
            all_resident: terms.llc && footprint(touched()) <= machine.cache.llc_bytes.value,
            // Random accesses are uniform over their pages, so the hit ratio of the TLB is the part
            // it covers.
            tlb_miss_share: if terms.tlb {
                1.0 - held(reach, random)
            } else {
                0.0
            },
            llc: terms.llc,
            per_core: threads / cores,
            workers: threads,
        }
    }

    pub fn touch(&self, machine: &Machine, access: &Access, terms: Terms) -> Touch {
        let lines = access.lines_per_tuple;
        match access.pattern {
            Pattern::Scatter { partitions } => {
                return self.scatter(machine, access, f64::from(partitions), terms);
            }
            Pattern::Contended { partitions } if terms.llc => {
                return self.contended(machine, access, f64::from(partitions), terms);
            }
            _ => {}
        }
        let (llc_share, memory_share) = if access.op == Op::NtWrite {
            // Non-temporal stores bypass the caches.
            (0.0, 1.0)
        } else if let Some(kept) = self
            .reused
            .iter()
            .find(|r| is_reused(access) && r.name == access.structure)
        {
            (kept.llc, (1.0 - kept.private - kept.llc).max(0.0))
        } else if self.all_resident {
            (1.0, 0.0)
        } else {
            (0.0, 1.0)
        };
        let (fetched, walks) = match access.pattern {
            Pattern::Strided { lines: stride } => {
                let stride = f64::from(stride.max(1));
                let pages = (stride * LINE_BYTES / machine.tlb.page_bytes.value).min(1.0);
                let is_walked = terms.tlb && stride > 1.0;
                (
                    1.0 + wasted(machine, stride, terms),
                    if is_walked { pages } else { 0.0 },
                )
            }
            // A posted write waits for its line only: its page was translated when the line was
            // loaded or flushed.
            Pattern::Dependent if access.op == Op::NtWrite => (1.0, 0.0),
            Pattern::Random | Pattern::Dependent => (1.0, self.tlb_miss_share),
            Pattern::Runs { lines: piece } => {
                let piece = f64::from(piece.max(1));
                let beyond = overshot(machine, piece, terms);
                (1.0 + beyond / piece, self.tlb_miss_share / piece)
            }
            Pattern::Sequential | Pattern::Scatter { .. } | Pattern::Contended { .. } => (1.0, 0.0),
        };
        Touch {
            llc_lines: lines * llc_share,
            memory_lines: lines * memory_share * fetched,
            walks: lines * walks,
            vain_lines: 0.0,
            single_share: match access.pattern {
                Pattern::Sequential => 0.0,
                Pattern::Runs { lines } => 1.0 / f64::from(lines.max(1)),
                _ => 1.0,
            },
        }
    }

    /// Scatter: tuples append to one of `places` output positions, as in radix partitioning.
    ///
    /// If the current line of a place is still in the private cache when its next tuple arrives,
    /// the tuple costs only its share of one full line. If the line was evicted, it is fetched
    /// again, from the last-level cache or from memory.
    fn scatter(&self, machine: &Machine, access: &Access, places: f64, terms: Terms) -> Touch {
        let lines = access.lines_per_tuple;
        let current = places * LINE_BYTES;
        let (private, llc) = if self.llc {
            let private = held(machine.cache.l2_bytes.value, current * self.per_core);
            let all = held(machine.cache.llc_bytes.value, current * self.workers);
            (private, (all - private).max(0.0))
        } else {
            (0.0, 0.0)
        };
        // Of 1 touch per tuple, `lines` begin a new line; the others return to one that was written
        // before. A tuple larger than a line returns to none.
        let again = (1.0 - lines).max(0.0);
        Touch {
            llc_lines: llc * again,
            memory_lines: lines + (1.0 - private - llc).max(0.0) * again,
            walks: self.scatter_walks(machine, access, places, terms),
            vain_lines: scattered_in_vain(machine, current * self.per_core, terms),
            single_share: if places > 1.0 { 1.0 } else { 0.0 },
        }
    }

    /// Stores of all workers to the same positions: each waits for its line from another core.
    ///
    /// One worker alone has its lines in its own cache.
    fn contended(&self, machine: &Machine, access: &Access, places: f64, terms: Terms) -> Touch {
        let others = 1.0 - 1.0 / self.workers.max(1.0);
        Touch {
            llc_lines: others * HOPS_OF_A_TRANSFER,
            memory_lines: access.lines_per_tuple / self.workers.max(1.0),
            walks: self.scatter_walks(machine, access, places, terms),
            vain_lines: 0.0,
            single_share: 1.0,
        }
    }

    fn scatter_walks(&self, machine: &Machine, access: &Access, places: f64, terms: Terms) -> f64 {
        let pages = (access.footprint_bytes as f64 / machine.tlb.page_bytes.value).min(places);
        if terms.tlb {
            1.0 - held(machine.tlb.entries.value, pages.max(1.0) * self.per_core)
        } else {
            0.0
        }
    }
}

/// The distinct structures among `accesses`, with their touches added up.
fn reused<'p>(accesses: impl Iterator<Item = &'p Access>) -> Vec<Reused<'p>> {
    let mut found: Vec<Reused<'p>> = Vec::new();
    for access in accesses {
        let bytes = access.footprint_bytes as f64;
        let touches = access.lines_per_tuple;
        match found.iter_mut().find(|r| r.name == access.structure) {
            Some(known) => {
                known.bytes = known.bytes.max(bytes);
                known.touches += touches;
            }
            None => found.push(Reused {
                name: &access.structure,
                bytes,
                is_buffer: access.class == StructureClass::Buffer,
                touches,
                private: 0.0,
                llc: 0.0,
            }),
        }
    }
    found
}

/// Hit ratio of each structure in an LRU cache of `size` bytes that `streamed` bytes per tuple pass
/// through.
///
/// Che's approximation: a line stays for a characteristic time T after each touch, the same for all
/// lines; it is touched again within T with probability `1 - exp(-rate T)`, and T is the time that
/// fills the cache (Che, Tung, Wang, "Hierarchical Web Caching Systems: Modeling, Design and
/// Experimental Results", IEEE Journal on Selected Areas in Communications 20(7), 2002). A line of
/// a stream is touched once and takes its place for T as well. So a small structure that is touched
/// often stays cached even where the footprints together exceed the cache. For a single structure
/// without streams the hit ratio is the part of it that fits.
fn kept(
    reused: &[Reused<'_>],
    size: f64,
    streamed: f64,
    bytes_of: impl Fn(&Reused<'_>) -> f64,
) -> Vec<f64> {
    let bytes: Vec<f64> = reused.iter().map(|r| bytes_of(r).max(1.0)).collect();
    let total: f64 = bytes.iter().sum();
    if total <= size && streamed == 0.0 {
        return vec![1.0; reused.len()];
    }
    if size <= 0.0 || (reused.len() == 1 && streamed == 0.0) {
        return bytes.iter().map(|b| held(size, *b)).collect();
    }
    // Touches of one line per tuple; T is measured in tuples. The bytes held are a concave function
    // of T, so Newton's method from T = 0 approaches the root from below and never overshoots it.
    let rate: Vec<f64> = reused
        .iter()
        .zip(&bytes)
        .map(|(r, b)| r.touches * LINE_BYTES / b)
        .collect();
    let mut time = 0.0;
    for _ in 0..NEWTON_STEPS {
        let (mut held, mut slope) = (streamed * time, streamed);
        for (rate, bytes) in rate.iter().zip(&bytes) {
            let gone = (-rate * time).exp();
            held += bytes * (1.0 - gone);
            slope += bytes * rate * gone;
        }
        let step = (size - held) / slope;
        time += step;
        if step <= 1e-6 * time {
            break;
        }
    }
    rate.iter().map(|rate| 1.0 - (-rate * time).exp()).collect()
}

/// Limit on the steps of Newton's method.
///
/// It converges quadratically; 40 steps are needed only where touch rates differ by many orders of
/// magnitude.
const NEWTON_STEPS: u32 = 40;

/// Lines that prefetchers fetch in vain per line used, in a stream with a stride of `stride` lines.
fn wasted(machine: &Machine, stride: f64, terms: Terms) -> f64 {
    match &machine.prefetch {
        Some(p) if terms.prefetch_waste && stride <= p.reach_lines.value => {
            (stride - 1.0).min(p.waste_lines.value)
        }
        _ => 0.0,
    }
}

/// Lines that prefetchers fetch beyond the end of a piece of `piece` lines.
///
/// The distance they run ahead grows with the length of a stream, and they stop at 4-KiB
/// boundaries.
fn overshot(machine: &Machine, piece: f64, terms: Terms) -> f64 {
    if !terms.prefetch_waste || piece * LINE_BYTES >= PREFETCH_PAGE_BYTES {
        return 0.0;
    }
    // Quadratic in the length: short pieces waste little, because the prefetcher has hardly started
    // to run ahead.
    let grown = (piece / FAR_AHEAD_LINES).min(1.0);
    prefetch_number(machine, |p| p.overshoot_lines.as_ref()) * grown * grown
}

/// Lines that prefetchers fetch in vain per tuple that is scattered, if the current lines of all
/// positions take `current` bytes.
///
/// A store that misses the first-level cache makes the second-level prefetcher fetch the lines
/// behind; with many positions these are evicted before their turn comes.
fn scattered_in_vain(machine: &Machine, current: f64, terms: Terms) -> f64 {
    match &machine.prefetch {
        Some(p) if terms.prefetch_waste => {
            PREFETCHERS * p.waste_lines.value * (1.0 - held(L1_BYTES, current))
        }
        _ => 0.0,
    }
}

/// Part of a footprint that fits: hit ratio of `footprint` uniformly touched bytes in a cache of
/// `size` bytes.
fn held(size: f64, footprint: f64) -> f64 {
    if footprint <= size {
        1.0
    } else {
        size / footprint
    }
}
