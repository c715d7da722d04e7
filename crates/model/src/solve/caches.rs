//! What caches and TLB keep, and which lines of an access reach memory.

use super::Terms;
use super::core::{PREFETCH_PAGE_BYTES, prefetch_number};
use crate::machine::Machine;
use crate::work::{Access, LINE_BYTES, Op, Pattern, Phase, StructureClass};

/// Length of a stream from which prefetchers run as far ahead as they ever do, lines. Assumed: the stream prefetcher runs up to 20 lines
/// ahead and doubles its distance as a stream goes on.
const FAR_AHEAD_LINES: f64 = 16.0;

/// What one tuple's access comes to.
pub(super) struct Touch {
    /// Lines that the last-level cache answers.
    pub llc_lines: f64,
    /// Lines that go to memory.
    pub memory_lines: f64,
    /// Page walks.
    pub walks: f64,
    /// Share of the lines that come one by one from random places.
    pub single_share: f64,
}

/// What caches and TLB keep during a phase.
pub(super) struct Caches<'p> {
    /// What is touched again soon, with the shares of touches that caches answer.
    reused: Vec<Reused<'p>>,
    /// Everything the phase touches, streams too, fits into the last-level cache.
    all_resident: bool,
    tlb_miss_share: f64,
    llc: bool,
    /// Workers for each private cache, and workers in all.
    per_core: f64,
    workers: f64,
}

/// A structure that is touched again soon.
struct Reused<'p> {
    name: &'p str,
    bytes: f64,
    is_buffer: bool,
    /// Touches of a line per tuple.
    touches: f64,
    /// Share of touches that private caches answer; their time is part of the compute time.
    private: f64,
    /// Share that the last-level cache answers.
    llc: f64,
}

/// Whether accesses jump over the whole structure.
fn is_anywhere(pattern: Pattern) -> bool {
    matches!(
        pattern,
        Pattern::Random | Pattern::Runs { .. } | Pattern::Dependent
    )
}

/// Structures that are touched again soon: those with random accesses, and buffers.
fn is_reused(access: &Access) -> bool {
    is_anywhere(access.pattern) || access.class == StructureClass::Buffer
}

/// Bytes of the different structures among `accesses`. Phases have few, so comparing each with those before is faster than a map.
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
            // A core's private cache holds its part of the buffers, and its own copy of what all workers touch.
            let in_l2 = kept(&reused, l2, |r| {
                if r.is_buffer {
                    r.bytes / cores
                } else {
                    r.bytes
                }
            });
            let in_llc = kept(&reused, llc, |r| r.bytes);
            for (structure, (private, all)) in reused.iter_mut().zip(in_l2.into_iter().zip(in_llc))
            {
                structure.private = private;
                structure.llc = (all - private).max(0.0);
            }
        }
        let random = footprint(touched().filter(|a| is_anywhere(a.pattern)));
        let reach = machine.tlb.entries.value * machine.tlb.page_bytes.value;
        Caches {
            reused,
            all_resident: terms.llc && footprint(touched()) <= machine.cache.llc_bytes.value,
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
        if let Pattern::Scatter { partitions } = access.pattern {
            return self.scatter(machine, access, f64::from(partitions), terms);
        }
        let (llc_share, memory_share) = if access.op == Op::NtWrite {
            // Non-temporal stores pass the caches.
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
            // A write that is handed over waits for its line only; the page was needed before, when the line was loaded or flushed.
            Pattern::Dependent if access.op == Op::NtWrite => (1.0, 0.0),
            Pattern::Random | Pattern::Dependent => (1.0, self.tlb_miss_share),
            Pattern::Runs { lines: piece } => {
                let piece = f64::from(piece.max(1));
                let beyond = overshot(machine, piece, terms);
                (1.0 + beyond / piece, self.tlb_miss_share / piece)
            }
            Pattern::Sequential | Pattern::Scatter { .. } => (1.0, 0.0),
        };
        Touch {
            llc_lines: lines * llc_share,
            memory_lines: lines * memory_share * fetched,
            walks: lines * walks,
            single_share: match access.pattern {
                Pattern::Sequential => 0.0,
                Pattern::Runs { lines } => 1.0 / f64::from(lines.max(1)),
                _ => 1.0,
            },
        }
    }

    /// Writing to many places in turn. A place whose current line is still in the private cache when the next tuple comes costs nothing
    /// but its share of a full line; one whose line was pushed out is fetched again (from the last-level cache, or from memory).
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
        // A tuple larger than a line fetches no line twice.
        let again = (1.0 - lines).max(0.0);
        let pages = (access.footprint_bytes as f64 / machine.tlb.page_bytes.value).min(places);
        Touch {
            llc_lines: llc * again,
            memory_lines: lines + (1.0 - private - llc).max(0.0) * again,
            walks: if terms.tlb {
                1.0 - held(machine.tlb.entries.value, pages.max(1.0) * self.per_core)
            } else {
                0.0
            },
            single_share: if places > 1.0 { 1.0 } else { 0.0 },
        }
    }
}

/// The structures among `accesses`, each once.
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

/// Share of touches of each structure that a least-recently-used cache of `size` bytes answers.
///
/// A line stays for a time T after each touch, the same for all; it is touched again within T with probability `1 - exp(-rate T)`, and T is
/// what fills the cache (Che, Tung, Wang, "Hierarchical Web Caching Systems: Modeling, Design and Experimental Results", IEEE Journal on
/// Selected Areas in Communications 20(7), 2002). So small structures that are touched often stay whole where their bytes alone would
/// not say so. For one structure the share is its part that fits.
fn kept(reused: &[Reused<'_>], size: f64, bytes_of: impl Fn(&Reused<'_>) -> f64) -> Vec<f64> {
    let bytes: Vec<f64> = reused.iter().map(|r| bytes_of(r).max(1.0)).collect();
    let total: f64 = bytes.iter().sum();
    if total <= size {
        return vec![1.0; reused.len()];
    }
    if size <= 0.0 || reused.len() == 1 {
        return bytes.iter().map(|b| held(size, *b)).collect();
    }
    // Touches of one line per tuple. Newton's method from 0 never passes the answer: what is held grows ever slower with time.
    let rate: Vec<f64> = reused
        .iter()
        .zip(&bytes)
        .map(|(r, b)| r.touches * LINE_BYTES / b)
        .collect();
    let mut time = 0.0;
    for _ in 0..NEWTON_STEPS {
        let (mut held, mut slope) = (0.0, 0.0);
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

/// Most steps of Newton's method; it converges quadratically, and 40 are reached by structures that differ by many orders of magnitude.
const NEWTON_STEPS: u32 = 40;

/// Lines that prefetchers fetch in vain per line used, `stride` lines apart.
fn wasted(machine: &Machine, stride: f64, terms: Terms) -> f64 {
    match &machine.prefetch {
        Some(p) if terms.prefetch_waste && stride <= p.reach_lines.value => {
            (stride - 1.0).min(p.waste_lines.value)
        }
        _ => 0.0,
    }
}

/// Lines that prefetchers fetch beyond the end of a piece. They run ahead further the longer a stream lasts, and stop at 4-KiB borders.
fn overshot(machine: &Machine, piece: f64, terms: Terms) -> f64 {
    if !terms.prefetch_waste || piece * LINE_BYTES >= PREFETCH_PAGE_BYTES {
        return 0.0;
    }
    let grown = (piece / FAR_AHEAD_LINES).min(1.0);
    prefetch_number(machine, |p| p.overshoot_lines.as_ref()) * grown * grown
}

/// Share of uniformly touched `footprint` bytes that a store of `size` bytes holds.
fn held(size: f64, footprint: f64) -> f64 {
    if footprint <= size {
        1.0
    } else {
        size / footprint
    }
}
