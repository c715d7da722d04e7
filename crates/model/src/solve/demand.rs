//! What one tuple asks of the machine, before it is known how loaded the machine is.

use super::caches::{Caches, Touch};
use super::core::CoreShare;
use super::{Options, Terms};
use crate::error::ModelError;
use crate::machine::{Machine, Tier, or};
use crate::work::{Access, LINE_BYTES, Op, Pattern, Phase, Placement};

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
    /// Least time that a core needs for the lines of a tuple, ns.
    path_ns: f64,
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
            path_ns: 0.0,
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
            if let Some(most) = &machine.concurrency.core_gbps {
                let lines = touch.llc_lines + touch.memory_lines;
                demand.path_ns += lines * LINE_BYTES / most.value * core.crowd;
            }
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

    /// Memory time of a tuple that may overlap, and that of chains, while all workers finish `per_ns` tuples per ns.
    fn memory_ns(&self, per_ns: f64) -> (f64, f64) {
        let (mut memory, mut chained) = (self.cache_ns + self.walk_ns + self.own_ns, 0.0);
        for tier in &self.tiers {
            let latency = tier.latency_ns(tier.utilisation(per_ns));
            memory += tier.waits * latency + tier.posted_ns;
            chained += tier.chained * latency + tier.posted_chained_ns;
        }
        (memory, chained)
    }

    /// What the core's own path takes longer than the lines in flight would let it, ns per tuple.
    pub fn path_wait_ns(&self, per_ns: f64) -> f64 {
        let (memory, chained) = self.memory_ns(per_ns);
        (self.path_ns - memory - chained).max(0.0)
    }

    /// Time per tuple and worker while all workers together finish `per_ns` tuples per ns.
    pub fn cycle_ns(&self, per_ns: f64) -> f64 {
        let (memory, chained) = self.memory_ns(per_ns);
        let memory = memory.max(self.path_ns - chained);
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
