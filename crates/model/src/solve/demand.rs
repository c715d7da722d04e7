//! What one tuple asks of the machine, before it is known how loaded the machine is.

use super::{Options, Terms};
use crate::error::ModelError;
use crate::machine::{Machine, Prefetch, Tier, Value, or};
use crate::work::{Access, LINE_BYTES, Op, Pattern, Phase, Placement, StructureClass};

/// Prefetchers do not cross borders of 4 KiB, whatever the page size (Intel's optimisation manual).
const PREFETCH_PAGE_BYTES: f64 = 4096.0;

/// Length of a stream from which prefetchers run as far ahead as they ever do, lines. Assumed: the stream prefetcher runs up to 20 lines
/// ahead and doubles its distance as a stream goes on.
const FAR_AHEAD_LINES: f64 = 16.0;

/// Demand on one tier per tuple.
pub(super) struct TierDemand<'a> {
    pub tier: &'a Tier,
    /// Latencies that a worker waits for (lines over lines in flight), of accesses that may overlap with compute.
    pub waits: f64,
    /// The same of dependent accesses.
    pub chained: f64,
    /// Time that a worker waits for lines to be taken over for writing, whatever the load, ns; part of it in chains.
    pub posted_ns: f64,
    pub posted_chained_ns: f64,
    /// Read traffic, bytes.
    pub read_bytes: f64,
    /// Write traffic, bytes.
    pub write_bytes: f64,
    /// Time that the tier is busy with reads and with writes, ns.
    read_ns: f64,
    write_ns: f64,
    /// Share of the tier that others keep busy, and the share that they can be pushed back to.
    pub others: f64,
    others_least: f64,
    duplex: f64,
    switch_ns: f64,
    /// Time that the tier is busy with streams, ns.
    stream_ns: f64,
    loaded: bool,
}

impl<'a> TierDemand<'a> {
    fn new(tier: &'a Tier, options: &Options) -> Self {
        let terms = options.terms;
        let mut demand = TierDemand {
            tier,
            waits: 0.0,
            chained: 0.0,
            posted_ns: 0.0,
            posted_chained_ns: 0.0,
            read_bytes: 0.0,
            write_bytes: 0.0,
            read_ns: 0.0,
            write_ns: 0.0,
            others: 0.0,
            others_least: 0.0,
            duplex: if terms.duplex {
                or(tier.duplex.as_ref(), 0.0)
            } else {
                0.0
            },
            switch_ns: if terms.switches {
                or(tier.switch_ns.as_ref(), 0.0)
            } else {
                0.0
            },
            stream_ns: 0.0,
            loaded: terms.loaded_latency,
        };
        if terms.background {
            demand.add_others(options);
        }
        demand
    }

    fn add_others(&mut self, options: &Options) {
        for other in options
            .background
            .iter()
            .filter(|b| b.tier == self.tier.name)
        {
            let (read, write) = (
                other.read_gbps / self.tier.read_gbps.value,
                other.write_gbps / self.tier.write_gbps.value,
            );
            self.others += taking_turns(read, write, self.duplex);
            self.others_least += 1.0 - other.own_share;
        }
        self.others = self.others.min(1.0);
        // Several others may not push the phase out altogether: each is one party among equals.
        self.others_least = self.others_least.min(0.99);
    }

    /// Time that the tier is busy with the traffic of one tuple, ns: bytes over GB/s is ns. Reads and writes take turns (the peak of a mix
    /// is the harmonic mean of the peaks, weighted by traffic) as far as the tier cannot do both at once.
    pub fn busy_ns(&self) -> f64 {
        taking_turns(self.read_ns, self.write_ns, self.duplex)
    }

    /// Utilisation when all workers finish `per_ns` tuples per ns, with that of others; at most 1.
    pub fn utilisation(&self, per_ns: f64) -> f64 {
        (per_ns * self.busy_ns() + self.others).min(1.0)
    }

    /// Tuples per ns at which the tier is full.
    fn full_per_ns(&self) -> f64 {
        (1.0 - self.others.min(self.others_least)) / self.busy_ns()
    }

    /// Share of the load that is streams. Others on the tier are taken to stream: what matters is that prefetchers fill its queues.
    fn streams(&self) -> f64 {
        if self.others > 0.0 || self.busy_ns() == 0.0 {
            1.0
        } else {
            (self.stream_ns / (self.read_ns + self.write_ns)).min(1.0)
        }
    }

    pub fn idle_ns(&self) -> f64 {
        self.tier.idle_latency_ns.value + self.switch_ns
    }

    pub fn latency_ns(&self, u: f64) -> f64 {
        if self.loaded {
            self.tier.mixed_latency_ns(u, self.streams()) + self.switch_ns
        } else {
            self.idle_ns()
        }
    }
}

fn taking_turns(read: f64, write: f64, duplex: f64) -> f64 {
    read.max(write) + (1.0 - duplex) * read.min(write)
}

/// Demand of one tuple.
pub(super) struct Demand<'a> {
    /// Workers that hardware threads can run.
    pub workers: f64,
    pub compute_ns: f64,
    pub cache_ns: f64,
    pub walk_ns: f64,
    /// Waiting for owners of lines.
    pub own_ns: f64,
    /// Share of the shorter of compute and memory time that is hidden.
    overlap: f64,
    pub tiers: Vec<TierDemand<'a>>,
}

impl<'a> Demand<'a> {
    pub fn of(
        machine: &'a Machine,
        phase: &Phase,
        placement: &Placement,
        workers: u32,
        options: &Options,
    ) -> Result<Self, ModelError> {
        let terms = options.terms;
        let core = CoreShare::of(machine, workers, options.neighbours);
        let caches = Caches::of(machine, phase, workers, terms);
        let mut demand = Demand {
            workers: core.workers,
            compute_ns: phase.compute_ns_per_tuple * core.compute_stretch,
            cache_ns: 0.0,
            walk_ns: 0.0,
            own_ns: 0.0,
            overlap: if terms.overlap {
                or(machine.overlap.as_ref(), 0.0)
            } else {
                0.0
            },
            tiers: machine
                .tiers
                .iter()
                .map(|tier| TierDemand::new(tier, options))
                .collect(),
        };
        for access in phase.accesses.iter().filter(|a| a.lines_per_tuple > 0.0) {
            let in_flight = core.in_flight(machine, access);
            let touch = caches.touch(machine, access, terms);
            demand.cache_ns += touch.llc_lines * machine.cache.llc_latency_ns.value / in_flight;
            let walks = match access.pattern {
                // Stores become visible in order, so one that waits for its page holds those behind it up.
                Pattern::Scatter { .. } => 1.0,
                _ => in_flight.min(machine.tlb.walkers.value),
            };
            demand.walk_ns += touch.walks * machine.tlb.walk_ns.value / walks;
            demand.add(machine, access, placement, in_flight, &touch, terms)?;
        }
        Ok(demand)
    }

    /// Adds the lines of one access that reach memory.
    fn add(
        &mut self,
        machine: &Machine,
        access: &Access,
        placement: &Placement,
        in_flight: f64,
        touch: &Touch,
        terms: Terms,
    ) -> Result<(), ModelError> {
        let (reads, writes) = match access.op {
            Op::Read => (1.0, 0.0),
            Op::Write if terms.rfo => (1.0, 1.0),
            Op::Write | Op::NtWrite => (0.0, 1.0),
            Op::Update => (1.0, 1.0),
        };
        let asks_owner = terms.ownership && matches!(access.op, Op::Write | Op::Update);
        for share in placement.shares(access).iter() {
            let Some(index) = machine.tiers.iter().position(|t| t.name == share.tier) else {
                return Err(unknown_tier(machine, access, &share.tier));
            };
            let (tier, demand) = (&machine.tiers[index], &mut self.tiers[index]);
            let missed = touch.memory_lines * share.share;
            let is_chain = access.pattern == Pattern::Dependent;
            match tier.write_latency_ns.as_ref().map(|v| v.value) {
                Some(posted) if access.op == Op::NtWrite => {
                    let wait = missed * (posted + demand.switch_ns) / in_flight;
                    let sum = if is_chain {
                        &mut demand.posted_chained_ns
                    } else {
                        &mut demand.posted_ns
                    };
                    *sum += wait;
                }
                _ if is_chain => demand.chained += missed / in_flight,
                _ => demand.waits += missed / in_flight,
            }
            if asks_owner {
                self.own_ns += missed * or(tier.ownership_ns.as_ref(), 0.0) / in_flight;
            }
            let single = if terms.random_share {
                touch.single_share
            } else {
                0.0
            };
            let slower = 1.0 - single + single / or(tier.random_share.as_ref(), 1.0);
            let write_peak = match access.op {
                Op::NtWrite => or(tier.nt_write_gbps.as_ref(), tier.write_gbps.value),
                _ => tier.write_gbps.value,
            };
            let bytes = missed * LINE_BYTES * slower;
            demand.read_bytes += missed * reads * LINE_BYTES;
            demand.write_bytes += missed * writes * LINE_BYTES;
            demand.read_ns += bytes * reads / tier.read_gbps.value;
            demand.write_ns += bytes * writes / write_peak;
            let busy_ns = bytes * (reads / tier.read_gbps.value + writes / write_peak);
            demand.stream_ns += busy_ns * (1.0 - touch.single_share);
        }
        Ok(())
    }

    /// Time per tuple and worker while all workers together finish `per_ns` tuples per ns.
    pub fn cycle_ns(&self, per_ns: f64) -> f64 {
        let (mut memory, mut chained) = (self.cache_ns + self.walk_ns + self.own_ns, 0.0);
        for tier in &self.tiers {
            let latency = tier.latency_ns(tier.utilisation(per_ns));
            memory += tier.waits * latency + tier.posted_ns;
            chained += tier.chained * latency + tier.posted_chained_ns;
        }
        let (longer, shorter) = if memory > self.compute_ns {
            (memory, self.compute_ns)
        } else {
            (self.compute_ns, memory)
        };
        chained + longer + (1.0 - self.overlap) * shorter
    }

    /// Tuples per ns at which the first tier is full; infinite if no tier is touched.
    pub fn full_per_ns(&self) -> f64 {
        self.tiers
            .iter()
            .map(TierDemand::full_per_ns)
            .fold(f64::INFINITY, f64::min)
    }
}

fn unknown_tier(machine: &Machine, access: &Access, tier: &str) -> ModelError {
    ModelError::UnknownTier {
        structure: access.structure.clone(),
        tier: tier.into(),
        machine: machine.name.clone(),
        known: machine
            .tiers
            .iter()
            .map(|t| t.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// A worker's share of a core.
struct CoreShare {
    workers: f64,
    /// Lines in flight of a worker over those of a core.
    lines: f64,
    /// Compute time of a worker over that of a worker alone on a core.
    compute_stretch: f64,
}

impl CoreShare {
    fn of(machine: &Machine, workers: u32, neighbours: u32) -> Self {
        let (cores, smt) = (machine.cores.value, machine.smt.value);
        let wanted = f64::from(workers) + f64::from(neighbours);
        let running = wanted.min(cores * smt);
        let workers = f64::from(workers) * running / wanted;
        let per_core = (running / cores).max(1.0);
        let crowding = if smt > 1.0 {
            (per_core - 1.0) / (smt - 1.0)
        } else {
            0.0
        };
        let gain = 1.0 + (machine.smt_yield.value - 1.0) * crowding;
        // A yield above the threads per core would make crowding a gain; no core does that.
        let compute_stretch = (per_core / gain).max(1.0);
        let more_lines = 1.0 + (or(machine.concurrency.smt_gain.as_ref(), 1.0) - 1.0) * crowding;
        CoreShare {
            workers,
            lines: (more_lines / per_core).min(1.0),
            compute_stretch,
        }
    }

    fn in_flight(&self, machine: &Machine, access: &Access) -> f64 {
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
            // Each hardware thread follows a chain of its own; the core's buffers are far from full.
            Pattern::Dependent => return lines.dependent.value,
            Pattern::Random => random,
            // Nothing runs ahead of stores in pieces shorter than a page (Weisgut et al., PVLDB 2025, Figure 4: 64 to 1024 bytes are alike).
            Pattern::Runs { lines: piece }
                if access.op != Op::Read && f64::from(piece) * LINE_BYTES < PREFETCH_PAGE_BYTES =>
            {
                random
            }
            Pattern::Runs { lines: piece } => {
                let piece = f64::from(piece.max(1));
                let watched = prefetch_number(machine, |p| p.training_lines.as_ref()).min(piece);
                // The times of a piece's first lines and of the others add.
                piece / (watched / random + (piece - watched) / ordered(access.op))
            }
            // Stores leave the pipeline before their line is there, so nothing but the line buffers bounds them.
            Pattern::Scatter { .. } => lines.random_prefetched.value,
            Pattern::Strided { lines: stride } if stride > 1 => match &machine.prefetch {
                Some(p) if f64::from(stride) <= p.reach_lines.value => stream,
                // Few instructions lie between two lines, so the reorder buffer does not bound them either.
                _ => lines.random_prefetched.value,
            },
            Pattern::Sequential | Pattern::Strided { .. } => ordered(access.op),
        };
        of_core * self.lines
    }
}

/// What one tuple's access comes to.
struct Touch {
    /// Lines that the last-level cache answers.
    llc_lines: f64,
    /// Lines that go to memory.
    memory_lines: f64,
    /// Page walks.
    walks: f64,
    /// Share of the lines that come one by one from random places.
    single_share: f64,
}

/// What caches and TLB keep during a phase.
struct Caches<'p> {
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
    fn of(machine: &Machine, phase: &'p Phase, workers: u32, terms: Terms) -> Self {
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

    fn touch(&self, machine: &Machine, access: &Access, terms: Terms) -> Touch {
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

/// An optional number of the prefetchers; 0 without it, and without prefetchers.
fn prefetch_number(machine: &Machine, of: impl Fn(&Prefetch) -> Option<&Value>) -> f64 {
    or(machine.prefetch.as_ref().and_then(of), 0.0)
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
