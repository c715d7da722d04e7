//! What one tuple asks of the machine, before it is known how loaded the machine is.

use super::Terms;
use crate::error::ModelError;
use crate::machine::{Machine, Tier};
use crate::work::{Access, LINE_BYTES, Op, Pattern, Phase, Placement, StructureClass};
use std::collections::BTreeMap;

/// Demand on one tier per tuple.
pub(super) struct TierDemand<'a> {
    pub tier: &'a Tier,
    /// Latencies that a worker waits for (lines over lines in flight).
    pub waits: f64,
    /// Read traffic, bytes.
    pub read_bytes: f64,
    /// Write traffic, bytes.
    pub write_bytes: f64,
    loaded: bool,
}

impl TierDemand<'_> {
    /// Time that the tier is busy with the traffic of one tuple, ns: bytes over GB/s is ns. Reads and writes
    /// take turns, so the peak of a mix is the harmonic mean of the peaks, weighted by traffic.
    pub fn busy_ns(&self) -> f64 {
        self.read_bytes / self.tier.read_gbps.value + self.write_bytes / self.tier.write_gbps.value
    }

    pub fn idle_ns(&self) -> f64 {
        self.tier.idle_latency_ns.value
    }

    pub fn latency_ns(&self, u: f64) -> f64 {
        if self.loaded {
            self.tier.latency_ns(u)
        } else {
            self.idle_ns()
        }
    }
}

/// Demand of one tuple.
pub(super) struct Demand<'a> {
    /// Workers that hardware threads can run.
    pub workers: f64,
    pub compute_ns: f64,
    pub cache_ns: f64,
    pub walk_ns: f64,
    pub tiers: Vec<TierDemand<'a>>,
}

impl<'a> Demand<'a> {
    pub fn of(
        machine: &'a Machine,
        phase: &Phase,
        placement: &Placement,
        workers: u32,
        terms: Terms,
    ) -> Result<Self, ModelError> {
        let core = CoreShare::of(machine, workers);
        let caches = Caches::of(machine, phase, workers, terms);
        let tier = |tier| TierDemand {
            tier,
            waits: 0.0,
            read_bytes: 0.0,
            write_bytes: 0.0,
            loaded: terms.loaded_latency,
        };
        let mut demand = Demand {
            workers: core.workers,
            compute_ns: phase.compute_ns_per_tuple * core.compute_stretch,
            cache_ns: 0.0,
            walk_ns: 0.0,
            tiers: machine.tiers.iter().map(tier).collect(),
        };
        for access in phase.accesses.iter().filter(|a| a.lines_per_tuple > 0.0) {
            demand.add(
                machine,
                access,
                placement,
                core.in_flight(machine, access),
                &caches,
                terms,
            )?;
        }
        Ok(demand)
    }

    fn add(
        &mut self,
        machine: &Machine,
        access: &Access,
        placement: &Placement,
        in_flight: f64,
        caches: &Caches,
        terms: Terms,
    ) -> Result<(), ModelError> {
        let lines = access.lines_per_tuple;
        let (llc_share, miss_share) = caches.shares(access);
        self.cache_ns += lines * llc_share * machine.cache.llc_latency_ns.value / in_flight;
        if access.pattern != Pattern::Sequential {
            let walks = in_flight.min(machine.tlb.walkers.value);
            self.walk_ns += lines * caches.tlb_miss_share * machine.tlb.walk_ns.value / walks;
        }
        let (reads, writes) = match access.op {
            Op::Read => (1.0, 0.0),
            Op::Write if terms.rfo => (1.0, 1.0),
            Op::Write | Op::NtWrite => (0.0, 1.0),
            Op::Update => (1.0, 1.0),
        };
        for share in placement.shares(access).iter() {
            let Some(index) = machine.tiers.iter().position(|t| t.name == share.tier) else {
                return Err(unknown_tier(machine, access, &share.tier));
            };
            let missed = lines * miss_share * share.share;
            let tier = &mut self.tiers[index];
            tier.waits += missed / in_flight;
            tier.read_bytes += missed * reads * LINE_BYTES;
            tier.write_bytes += missed * writes * LINE_BYTES;
        }
        Ok(())
    }

    /// Time per tuple and worker while all workers together finish `per_ns` tuples per ns.
    pub fn cycle_ns(&self, per_ns: f64) -> f64 {
        let memory: f64 = self
            .tiers
            .iter()
            .map(|t| t.waits * t.latency_ns(per_ns * t.busy_ns()))
            .sum();
        self.compute_ns + self.cache_ns + self.walk_ns + memory
    }

    /// Tuples per ns at which the first tier is full; infinite if no tier is touched.
    pub fn full_per_ns(&self) -> f64 {
        1.0 / self
            .tiers
            .iter()
            .map(TierDemand::busy_ns)
            .fold(0.0, f64::max)
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
    fn of(machine: &Machine, workers: u32) -> Self {
        let (cores, smt) = (machine.cores.value, machine.smt.value);
        let workers = f64::from(workers).min(cores * smt);
        let per_core = (workers / cores).max(1.0);
        let crowding = if smt > 1.0 {
            (per_core - 1.0) / (smt - 1.0)
        } else {
            0.0
        };
        let gain = 1.0 + (machine.smt_yield.value - 1.0) * crowding;
        // A yield above the threads per core would make crowding a gain; no core does that.
        let compute_stretch = (per_core / gain).max(1.0);
        CoreShare {
            workers,
            lines: 1.0 / per_core,
            compute_stretch,
        }
    }

    fn in_flight(&self, machine: &Machine, access: &Access) -> f64 {
        let lines = &machine.concurrency;
        let of_core = match (access.pattern, access.simd) {
            (Pattern::Sequential, false) => lines.sequential_scalar.value,
            (Pattern::Sequential, true) => lines.sequential_simd.value,
            (Pattern::Random, false) => lines.random.value,
            (Pattern::Random, true) => lines.random_prefetched.value,
            // Each hardware thread follows a chain of its own; the core's buffers are far from full.
            (Pattern::Dependent, _) => return lines.dependent.value,
        };
        of_core * self.lines
    }
}

/// What caches and TLB keep during a phase.
struct Caches {
    /// Share of touches of reused structures that private caches answer; their time is part of the compute time.
    private_share: f64,
    /// Share that the last-level cache answers.
    llc_share: f64,
    /// Everything the phase touches, streams too, fits into the last-level cache.
    all_resident: bool,
    tlb_miss_share: f64,
}

/// Structures that are touched again soon: those with random accesses, and buffers.
fn is_reused(access: &Access) -> bool {
    access.pattern != Pattern::Sequential || access.class == StructureClass::Buffer
}

impl Caches {
    fn of(machine: &Machine, phase: &Phase, workers: u32, terms: Terms) -> Self {
        let footprint = |keep: &dyn Fn(&Access) -> bool| -> f64 {
            let mut by_structure: BTreeMap<&str, u64> = BTreeMap::new();
            for access in phase
                .accesses
                .iter()
                .filter(|a| a.lines_per_tuple > 0.0 && keep(a))
            {
                let bytes = by_structure.entry(&access.structure).or_default();
                *bytes = access.footprint_bytes.max(*bytes);
            }
            by_structure.values().map(|bytes| *bytes as f64).sum()
        };
        let cores = f64::from(workers).min(machine.cores.value);
        let buffers = footprint(&|a| is_reused(a) && a.class == StructureClass::Buffer);
        let shared = footprint(&|a| is_reused(a) && a.class != StructureClass::Buffer);
        let random = footprint(&|a| a.pattern != Pattern::Sequential);
        let (llc, l2) = (machine.cache.llc_bytes.value, machine.cache.l2_bytes.value);
        let reach = machine.tlb.entries.value * machine.tlb.page_bytes.value;
        let private_share = if terms.llc {
            held(l2, shared + buffers / cores)
        } else {
            0.0
        };
        Caches {
            private_share,
            llc_share: if terms.llc {
                (held(llc, shared + buffers) - private_share).max(0.0)
            } else {
                0.0
            },
            all_resident: terms.llc && footprint(&|_| true) <= llc,
            tlb_miss_share: if terms.tlb {
                1.0 - held(reach, random)
            } else {
                0.0
            },
        }
    }

    /// Shares of an access that the last-level cache and that memory answers.
    fn shares(&self, access: &Access) -> (f64, f64) {
        if is_reused(access) {
            (self.llc_share, 1.0 - self.private_share - self.llc_share)
        } else if self.all_resident {
            (1.0, 0.0)
        } else {
            (0.0, 1.0)
        }
    }
}

/// Share of uniformly touched `footprint` bytes that a store of `size` bytes holds.
fn held(size: f64, footprint: f64) -> f64 {
    if footprint <= size {
        1.0
    } else {
        size / footprint
    }
}
