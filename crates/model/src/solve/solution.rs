//! Results of the model: throughput, time, tier loads and the bottleneck.
//!
//! Divides the cycle time of a worker into components, and sums phases up to queries.

use super::demand::{Demand, TierDemand};
use crate::machine::Machine;
use crate::work::Phase;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Load of one tier during a phase.
///
/// `read_gbps` and `write_gbps` default to 0 when a stored result lacks them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierLoad {
    /// Name as in the machine profile.
    pub name: String,
    /// Traffic of the phase, reads and writes, GB/s.
    pub bandwidth_gbps: f64,
    /// Read traffic, with lines fetched in vain and reads for ownership, GB/s.
    #[serde(default)]
    pub read_gbps: f64,
    /// Write traffic as seen at the memory, GB/s.
    #[serde(default)]
    pub write_gbps: f64,
    /// Utilisation, 0 to 1: traffic over the peak for this mix of reads and writes, background load
    /// included.
    pub utilisation: f64,
    /// Loaded latency at that utilisation, ns, without the queueing delay of a full tier.
    pub latency_ns: f64,
}

/// Breakdown of a worker's time; the four shares sum to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Compute with private caches, and the core's bandwidth limit.
    pub compute: f64,
    /// Hits in the last-level cache.
    pub cache: f64,
    /// Memory at idle latency, page walks, and waits for ownership and posted writes.
    pub latency: f64,
    /// Time that load adds: loaded over idle latency, and the queueing delay of a full tier.
    pub bandwidth: f64,
}

/// Component with the largest share of the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// Compute, or the bandwidth of a core.
    Compute,
    /// Hits in the last-level cache.
    Cache,
    /// Idle memory latency, with page walks.
    Latency,
    /// Bandwidth of the named tier: it is full, or its loaded latency dominates.
    Bandwidth(String),
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bottleneck::Compute => f.pad("compute"),
            Bottleneck::Cache => f.pad("last-level cache"),
            Bottleneck::Latency => f.pad("latency"),
            Bottleneck::Bandwidth(tier) => f.pad(&format!("bandwidth of {tier}")),
        }
    }
}

/// Solution of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// Throughput of all workers together.
    pub tuples_per_s: f64,
    /// Time in which all tuples of the phase are processed, ns.
    pub time_ns: f64,
    /// Load of every tier of the machine, in the profile's order.
    pub tiers: Vec<TierLoad>,
    /// Breakdown of a worker's time, the queueing delay included.
    pub shares: TimeShares,
    /// Component with the largest share of `shares`.
    pub bottleneck: Bottleneck,
}

/// A query's phase with its solution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseSolution {
    /// Name of the phase, as in [`Phase`].
    pub phase: String,
    /// Result for this phase as if it ran alone.
    pub solution: Solution,
}

/// Load of one tier over a whole query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryTier {
    /// Name as in the machine profile.
    pub name: String,
    /// Bytes read and written, with lines fetched in vain.
    pub bytes: f64,
    /// Traffic averaged over the query time, GB/s.
    pub bandwidth_gbps: f64,
    /// Utilisation averaged over the query time, 0 to 1.
    pub utilisation: f64,
}

/// Solution of a query, whose phases run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuerySolution {
    /// Sum of the times of all phases, ns.
    pub time_ns: f64,
    /// Phases that do work, in order; idle ones are left out.
    pub phases: Vec<PhaseSolution>,
    /// Breakdown of a worker's time, averaged over the phases by their times.
    pub shares: TimeShares,
    /// Component with the largest share of `shares`.
    pub bottleneck: Bottleneck,
    /// Load of every tier of the machine, in the profile's order.
    pub tiers: Vec<QueryTier>,
}

/// A solution with what is needed to sum it with those of other phases.
pub(super) struct Outcome {
    pub solution: Solution,
    /// Share of the cycle that load on each tier adds (loaded over idle latency, and queueing).
    load: Vec<f64>,
}

impl Outcome {
    pub fn new(machine: &Machine, phase: &Phase, demand: &Demand<'_>, per_ns: f64) -> Self {
        let cycle = demand.workers / per_ns;
        let waits = |t: &TierDemand<'_>| t.waits + t.chained;
        let latency = |t: &TierDemand<'_>| t.latency_at(per_ns);
        let idle: f64 = demand
            .tiers
            .iter()
            .map(|t| waits(t) * t.idle_ns() + t.posted_ns + t.posted_chained_ns)
            .sum();
        let mut load: Vec<f64> = demand
            .tiers
            .iter()
            .map(|t| waits(t) * (latency(t) - t.idle_ns()))
            .collect();
        let fixed = demand.walk_ns + demand.own_ns + idle;
        let core = demand.compute_ns + demand.path_wait_ns(per_ns);
        let busy = core + demand.cache_ns + fixed + load.iter().sum::<f64>();
        let worked = demand.cycle_ns(per_ns);
        // Overlap hides time, but not of one component in particular: all are scaled alike to the
        // visible time.
        let part = if busy > 0.0 {
            worked / busy / cycle
        } else {
            0.0
        };
        load.iter_mut().for_each(|l| *l *= part);
        let queue = (1.0 - worked / cycle).max(0.0);
        // Only one tier can hold the queue: the one that saturates first.
        if let Some(full) = fullest(
            &demand
                .tiers
                .iter()
                .map(|t| t.busy_ns() / (1.0 - t.others()).max(1e-9))
                .collect::<Vec<_>>(),
        ) {
            load[full] += queue;
        }
        let (compute, cache, latency_share) = (core * part, demand.cache_ns * part, fixed * part);
        // The remainder, so that the four sum to 1 in spite of rounding.
        let bandwidth = (1.0 - compute - cache - latency_share).max(0.0);
        let shares = TimeShares {
            compute,
            cache,
            latency: latency_share,
            bandwidth,
        };
        let tiers = demand.tiers.iter().map(|t| TierLoad {
            name: t.tier.name.clone(),
            bandwidth_gbps: per_ns * (t.read_bytes + t.write_bytes),
            read_gbps: per_ns * t.read_bytes,
            write_gbps: per_ns * t.write_bytes,
            utilisation: t.utilisation(per_ns),
            latency_ns: latency(t),
        });
        let bottleneck = bottleneck(machine, &shares, &load);
        let solution = Solution {
            tuples_per_s: per_ns * 1e9,
            time_ns: phase.tuples / per_ns,
            tiers: tiers.collect(),
            shares,
            bottleneck,
        };
        Outcome { solution, load }
    }
}

impl QuerySolution {
    /// Traffic to a tier, averaged over the query time: reads and writes, GB/s.
    pub fn read_write_gbps(&self, tier: &str) -> (f64, f64) {
        let of_phase = |solution: &Solution| {
            let found = solution.tiers.iter().find(|t| t.name == tier);
            let weight = solution.time_ns / self.time_ns;
            found.map_or((0.0, 0.0), |t| {
                (t.read_gbps * weight, t.write_gbps * weight)
            })
        };
        let phases = self.phases.iter().map(|phase| of_phase(&phase.solution));
        phases.fold((0.0, 0.0), |sum, (read, write)| {
            (sum.0 + read, sum.1 + write)
        })
    }

    pub(super) fn of(machine: &Machine, outcomes: Vec<(&Phase, Outcome)>) -> Self {
        let time_ns: f64 = outcomes.iter().map(|(_, o)| o.solution.time_ns).sum();
        // Phases run in sequence, so averages are weighted by time.
        let mean = |of: &dyn Fn(&Outcome) -> f64| {
            outcomes
                .iter()
                .map(|(_, o)| of(o) * o.solution.time_ns / time_ns)
                .sum::<f64>()
        };
        let (compute, cache, latency) = (
            mean(&|o| o.solution.shares.compute),
            mean(&|o| o.solution.shares.cache),
            mean(&|o| o.solution.shares.latency),
        );
        let shares = TimeShares {
            compute,
            cache,
            latency,
            bandwidth: (1.0 - compute - cache - latency).max(0.0),
        };
        let load: Vec<f64> = (0..machine.tiers.len())
            .map(|t| mean(&|o| o.load[t]))
            .collect();
        let tier = |t: usize| {
            let bandwidth_gbps = mean(&|o| o.solution.tiers[t].bandwidth_gbps);
            let utilisation = mean(&|o| o.solution.tiers[t].utilisation);
            QueryTier {
                name: machine.tiers[t].name.clone(),
                bytes: bandwidth_gbps * time_ns,
                bandwidth_gbps,
                utilisation,
            }
        };
        let tiers = (0..machine.tiers.len()).map(tier).collect();
        let bottleneck = bottleneck(machine, &shares, &load);
        let phases = outcomes
            .into_iter()
            .map(|(phase, o)| PhaseSolution {
                phase: phase.name.clone(),
                solution: o.solution,
            })
            .collect();
        QuerySolution {
            time_ns,
            phases,
            shares,
            bottleneck,
            tiers,
        }
    }
}

/// Index of the largest number; `None` if none is above 0.
fn fullest(numbers: &[f64]) -> Option<usize> {
    let largest = (0..numbers.len()).max_by(|&a, &b| numbers[a].total_cmp(&numbers[b]))?;
    (numbers[largest] > 0.0).then_some(largest)
}

// Ties go to compute, then latency: a tier is named only if it dominates.
fn bottleneck(machine: &Machine, shares: &TimeShares, load: &[f64]) -> Bottleneck {
    let largest = shares.compute.max(shares.cache).max(shares.latency);
    match fullest(load) {
        Some(tier) if shares.bandwidth > largest => {
            Bottleneck::Bandwidth(machine.tiers[tier].name.clone())
        }
        _ if shares.compute == largest => Bottleneck::Compute,
        _ if shares.latency == largest => Bottleneck::Latency,
        _ => Bottleneck::Cache,
    }
}
