//! Service demands of one tuple on cores, caches and tiers, before the load of the machine is
//! known.
//!
//! The demands are constants of the queueing network; only latencies depend on throughput, through
//! the utilisation of the tiers.

use super::caches::{Caches, Touch};
use super::core::{CoreShare, InFlight};
use super::{Options, Terms};
use crate::error::ModelError;
use crate::machine::{Machine, Tier, or};
use crate::work::{Access, LINE_BYTES, Op, Pattern, Phase, Placement};

/// Demand of one tuple on one tier.
pub(super) struct TierDemand<'a> {
    pub tier: &'a Tier,
    /// Tier latencies that a worker waits for per tuple (lines over lines in flight), of accesses
    /// that may overlap with compute.
    pub waits: f64,
    /// The same with the worker's share of the queues of its core.
    queued: f64,
    /// The same for dependent accesses, which overlap with nothing.
    pub chained: f64,
    /// Time until posted writes are accepted, independent of load, ns; the second is that of
    /// dependent accesses.
    pub posted_ns: f64,
    pub posted_chained_ns: f64,
    pub read_bytes: f64,
    pub write_bytes: f64,
    /// Service time of the tier for reads and for writes, ns per tuple.
    read_ns: f64,
    write_ns: f64,
    /// Utilisation of the tier by background load, and the share to which the phase can push it
    /// back.
    others: f64,
    others_least: f64,
    duplex: f64,
    switch_ns: f64,
    /// Service time of the tier for streams, ns.
    stream_ns: f64,
    /// Share of its peaks that the tier keeps under the demand of the workers and of the others.
    kept: f64,
    loaded: bool,
}

impl<'a> TierDemand<'a> {
    fn new(machine: &Machine, tier: &'a Tier, workers: u32, options: &Options) -> Self {
        let terms = options.terms;
        let mut demand = TierDemand {
            tier,
            waits: 0.0,
            queued: 0.0,
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
                or(tier.switch_ns.as_ref(), 0.0) + mean_far_ns(machine, tier, workers)
            } else {
                0.0
            },
            stream_ns: 0.0,
            kept: 1.0,
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
        // Several background loads must not starve the phase: at least 1 % is left to it.
        self.others_least = self.others_least.min(0.99);
    }

    /// Service time of the tier for the traffic of one tuple, ns (bytes over GB/s is ns).
    ///
    /// Reads and writes take turns where the tier is half duplex: then the peak of a mix is the
    /// harmonic mean of the two peaks, weighted by traffic.
    pub fn busy_ns(&self) -> f64 {
        taking_turns(self.read_ns, self.write_ns, self.duplex) / self.kept
    }

    /// Utilisation, background load included, when all workers together finish `per_ns` tuples per
    /// ns; at most 1.
    pub fn utilisation(&self, per_ns: f64) -> f64 {
        (per_ns * self.busy_ns() + self.others()).min(1.0)
    }

    /// Throughput that saturates the tier, tuples per ns.
    fn full_per_ns(&self) -> f64 {
        (1.0 - self.others().min(self.others_least)) / self.busy_ns()
    }

    /// Utilisation of the tier by background load, at most 1.
    pub fn others(&self) -> f64 {
        (self.others / self.kept).min(1.0)
    }

    /// Share of the load that is streams.
    ///
    /// Background load is taken to be streams, because what matters here is whether prefetchers
    /// fill the tier's queues.
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

    /// Latency while all workers together finish `per_ns` tuples per ns, ns.
    pub fn latency_at(&self, per_ns: f64) -> f64 {
        self.latency_ns(self.utilisation(per_ns))
    }

    fn latency_ns(&self, u: f64) -> f64 {
        if self.loaded {
            self.tier.mixed_latency_ns(u, self.streams()) + self.switch_ns
        } else {
            self.idle_ns()
        }
    }
}

/// Latency that the way from other clusters adds to the tier's, mean over the workers, ns.
///
/// Workers use near cores first, then the others, then further hardware threads of all of them.
fn mean_far_ns(machine: &Machine, tier: &Tier, workers: u32) -> f64 {
    let (Some(near), Some(far_ns)) = (&tier.near_cores, &tier.far_ns) else {
        return 0.0;
    };
    let used = f64::from(workers).min(machine.cores.value);
    far_ns.value * (used - near.value).max(0.0) / used
}

fn taking_turns(read: f64, write: f64, duplex: f64) -> f64 {
    // A link of duplex 1 is as busy as its busier direction; a bus of duplex 0 is busy for the sum
    // of both.
    read.max(write) + (1.0 - duplex) * read.min(write)
}

/// Service demands of one tuple.
pub(super) struct Demand<'a> {
    /// Workers that run at the same time: at most the hardware threads.
    pub workers: f64,
    pub compute_ns: f64,
    pub cache_ns: f64,
    pub walk_ns: f64,
    /// Time that stores wait for the ownership of lines.
    pub own_ns: f64,
    /// Least time that a core needs to move the lines of a tuple (its bandwidth limit), ns.
    path_ns: f64,
    /// Time of cache hits and posted writes in the worker's share of the queues of its core, ns.
    queued_ns: f64,
    /// Share of the shorter of compute and memory time that out-of-order execution hides.
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
            queued_ns: 0.0,
            overlap: if terms.overlap {
                or(machine.overlap.as_ref(), 0.0)
            } else {
                0.0
            },
            tiers: machine
                .tiers
                .iter()
                .map(|tier| TierDemand::new(machine, tier, workers, options))
                .collect(),
        };
        for access in phase.accesses.iter().filter(|a| a.lines_per_tuple > 0.0) {
            let in_flight = core.in_flight(machine, access);
            let touch = caches.touch(machine, access, terms);
            if let Some(most) = &machine.concurrency.core_gbps {
                let lines = touch.llc_lines + touch.memory_lines;
                demand.path_ns += lines * LINE_BYTES / most.value * core.crowd;
            }
            let hits_ns = touch.llc_lines * machine.cache.llc_latency_ns.value;
            demand.cache_ns += hits_ns / in_flight.of_thread;
            demand.queued_ns += hits_ns / in_flight.share;
            let walks = match access.pattern {
                // Addresses are translated before stores become visible in order.
                Pattern::Scatter { .. } => machine.tlb.walkers.value,
                _ => in_flight.of_thread.min(machine.tlb.walkers.value),
            };
            demand.walk_ns += touch.walks * machine.tlb.walk_ns.value / walks;
            demand.add(machine, access, placement, in_flight, &touch, terms)?;
        }
        if terms.overload {
            demand.lose_by_overload();
        }
        Ok(demand)
    }

    /// Takes from the peaks of each tier what it loses because the workers ask for more.
    ///
    /// What they ask for is what they would get from idle tiers without a limit.
    fn lose_by_overload(&mut self) {
        let asked_per_ns = self.workers / self.cycle_with(TierDemand::idle_ns);
        for tier in &mut self.tiers {
            let asked = asked_per_ns * tier.busy_ns() + tier.others;
            tier.kept = tier.tier.kept_of_peaks(asked);
        }
    }

    /// Adds the lines of one access that miss the caches to the demands on the tiers.
    fn add(
        &mut self,
        machine: &Machine,
        access: &Access,
        placement: &Placement,
        in_flight: InFlight,
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
            // Posted writes wait for the tier to accept the line, not for a read; without a
            // published write latency they count as reads.
            match tier.write_latency_ns.as_ref().map(|v| v.value) {
                Some(posted) if access.op == Op::NtWrite => {
                    let wait = missed * (posted + demand.switch_ns) / in_flight.of_thread;
                    let sum = if is_chain {
                        &mut demand.posted_chained_ns
                    } else {
                        &mut demand.posted_ns
                    };
                    *sum += wait;
                    if !is_chain {
                        self.queued_ns += wait * in_flight.of_thread / in_flight.share;
                    }
                }
                _ if is_chain => demand.chained += missed / in_flight.of_thread,
                _ => {
                    demand.waits += missed / in_flight.of_thread;
                    demand.queued += missed / in_flight.share;
                }
            }
            if asks_owner {
                self.own_ns += missed * or(tier.ownership_ns.as_ref(), 0.0) / in_flight.of_thread;
            }
            let single = if terms.random_share {
                touch.single_share
            } else {
                0.0
            };
            // Single lines do not reach the peak (row misses), nor do streams that prefetchers run
            // ahead of on some devices, so the same bytes keep the tier busy for longer.
            let ahead = match &machine.prefetch {
                Some(_) if terms.random_share => or(tier.prefetched_share.as_ref(), 1.0),
                _ => 1.0,
            };
            let slower = (1.0 - single) / ahead + single / or(tier.random_share.as_ref(), 1.0);
            let write_peak = match access.op {
                Op::NtWrite => or(tier.nt_write_gbps.as_ref(), tier.write_gbps.value),
                _ => tier.write_gbps.value,
            };
            let bytes = missed * LINE_BYTES * slower;
            let vain = touch.vain_lines * share.share * LINE_BYTES;
            demand.read_bytes += missed * reads * LINE_BYTES + vain;
            demand.write_bytes += missed * writes * LINE_BYTES;
            demand.read_ns += (bytes * reads + vain * slower) / tier.read_gbps.value;
            demand.write_ns += bytes * writes / write_peak;
            let busy_ns = bytes * (reads / tier.read_gbps.value + writes / write_peak);
            demand.stream_ns += busy_ns * (1.0 - touch.single_share);
        }
        Ok(())
    }

    /// Memory time of a tuple that may overlap with compute, and that of dependent accesses, ns,
    /// if a line of a tier takes `latency` ns.
    fn memory_ns(&self, latency: impl Fn(&TierDemand<'a>) -> f64) -> (f64, f64) {
        let (mut memory, mut chained) = (self.cache_ns + self.walk_ns + self.own_ns, 0.0);
        for tier in &self.tiers {
            let latency = latency(tier);
            memory += tier.waits * latency + tier.posted_ns;
            chained += tier.chained * latency + tier.posted_chained_ns;
        }
        (memory, chained)
    }

    /// Time that the core's bandwidth limit adds to what its lines in flight need, ns per tuple.
    pub fn path_wait_ns(&self, per_ns: f64) -> f64 {
        let (memory, chained) = self.memory_ns(|tier| tier.latency_at(per_ns));
        (self.path_ns - memory - chained).max(0.0)
    }

    /// Cycle time: ns per tuple and worker while all workers together finish `per_ns` tuples per
    /// ns, without the queue of a full tier.
    pub fn cycle_ns(&self, per_ns: f64) -> f64 {
        self.cycle_with(|tier| tier.latency_at(per_ns))
    }

    /// Cycle time if a line of a tier takes `latency` ns.
    fn cycle_with(&self, latency: impl Fn(&TierDemand<'a>) -> f64) -> f64 {
        let (memory, chained) = self.memory_ns(&latency);
        let memory = memory.max(self.path_ns - chained);
        // Latency (Little's law) and the core's bandwidth both bound the transfer; the slower one
        // counts.
        let (longer, shorter) = if memory > self.compute_ns {
            (memory, self.compute_ns)
        } else {
            (self.compute_ns, memory)
        };
        // Threads that share a core wait for its queues at the latest.
        let worked = longer + (1.0 - self.overlap) * shorter;
        let queued = self.tiers.iter().map(|tier| tier.queued * latency(tier));
        chained + worked.max(self.queued_ns + queued.sum::<f64>())
    }

    /// Saturation throughput: tuples per ns at which a tier becomes full first; infinite if no tier
    /// is touched.
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
