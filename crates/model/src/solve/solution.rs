//! Answers of the model.

use super::demand::{Demand, TierDemand};
use crate::machine::Machine;
use crate::work::Phase;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Load of one tier during a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierLoad {
    /// The tier's name.
    pub name: String,
    /// Traffic of the phase, reads and writes, GB/s.
    pub bandwidth_gbps: f64,
    /// Reads among it, GB/s.
    #[serde(default)]
    pub read_gbps: f64,
    /// Writes among it, GB/s.
    #[serde(default)]
    pub write_gbps: f64,
    /// Traffic over the peak for this mix of reads and writes, with the load of others, 0 to 1.
    pub utilisation: f64,
    /// Latency at that utilisation, ns (without the wait in the queue of a full tier).
    pub latency_ns: f64,
}

/// Where the time of a worker goes; the four sum to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Processor work, private caches and the core's own path to memory included.
    pub compute: f64,
    /// Hits in the last-level cache.
    pub cache: f64,
    /// Memory at idle latency, and page walks.
    pub latency: f64,
    /// What load adds: higher latency, and the wait for a full tier.
    pub bandwidth: f64,
}

/// What takes the largest part of the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// Processor work.
    Compute,
    /// Hits in the last-level cache.
    Cache,
    /// Idle latency of memory.
    Latency,
    /// A full tier, or load on the named tier.
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

/// One phase, priced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// Throughput of all workers together.
    pub tuples_per_s: f64,
    /// Time of the phase's tuples, ns.
    pub time_ns: f64,
    /// Every tier of the machine, in its order.
    pub tiers: Vec<TierLoad>,
    /// Where the time goes.
    pub shares: TimeShares,
    /// What limits the phase.
    pub bottleneck: Bottleneck,
}

/// A phase of a query with its solution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseSolution {
    /// Name of the phase.
    pub phase: String,
    /// Its solution.
    pub solution: Solution,
}

/// Load of one tier over a query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryTier {
    /// The tier's name.
    pub name: String,
    /// Bytes moved to and from it.
    pub bytes: f64,
    /// Traffic averaged over the query's time, GB/s.
    pub bandwidth_gbps: f64,
    /// Utilisation averaged over the query's time, 0 to 1.
    pub utilisation: f64,
}

/// A query, priced: its phases one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuerySolution {
    /// Time of all phases, ns.
    pub time_ns: f64,
    /// The phases that do work, in order.
    pub phases: Vec<PhaseSolution>,
    /// Where the time goes, over all phases.
    pub shares: TimeShares,
    /// What limits the query.
    pub bottleneck: Bottleneck,
    /// Every tier of the machine, in its order.
    pub tiers: Vec<QueryTier>,
}

/// A solution with what is needed to add it up with others.
pub(super) struct Outcome {
    pub solution: Solution,
    /// Time per tuple that load on each tier adds, as a share of the cycle.
    load: Vec<f64>,
}

impl Outcome {
    pub fn new(machine: &Machine, phase: &Phase, demand: &Demand<'_>, per_ns: f64) -> Self {
        let cycle = demand.workers / per_ns;
        let waits = |t: &TierDemand<'_>| t.waits + t.chained;
        let latency = |t: &TierDemand<'_>| t.latency_ns(t.utilisation(per_ns));
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
        // What is hidden behind something else is taken off every part alike.
        let part = if busy > 0.0 {
            worked / busy / cycle
        } else {
            0.0
        };
        load.iter_mut().for_each(|l| *l *= part);
        let queue = (1.0 - worked / cycle).max(0.0);
        if let Some(full) = fullest(
            &demand
                .tiers
                .iter()
                .map(|t| t.busy_ns() / (1.0 - t.others).max(1e-9))
                .collect::<Vec<_>>(),
        ) {
            load[full] += queue;
        }
        let (compute, cache, latency_share) = (core * part, demand.cache_ns * part, fixed * part);
        // The rest, so that the four sum to 1 in spite of rounding.
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
    pub(super) fn of(machine: &Machine, outcomes: Vec<(&Phase, Outcome)>) -> Self {
        let time_ns: f64 = outcomes.iter().map(|(_, o)| o.solution.time_ns).sum();
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

/// Index of the largest number, if there is one above 0.
fn fullest(numbers: &[f64]) -> Option<usize> {
    let largest = (0..numbers.len()).max_by(|&a, &b| numbers[a].total_cmp(&numbers[b]))?;
    (numbers[largest] > 0.0).then_some(largest)
}

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
