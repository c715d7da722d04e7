//! What happens on a machine while a phase runs: the quantities that its counters would count.

use super::machines::TrueMachine;
use super::shaped::utilisation_by_others;
use super::traffic::TupleTraffic;
use crate::adaptive::TierLatencies;
use tierloom_model::{Background, Machine, ModelError, Options, Phase, Placement, solve};

/// Traffic of a phase on one tier.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TierActivity {
    /// Traffic of the phase, reads and writes, GB/s.
    pub gbps: f64,
    /// Latency of a read, ns, queueing in front of a full tier included.
    pub latency_ns: f64,
    pub lines_per_ns: f64,
}

/// A phase under one placement and one load of other programs.
#[derive(Debug, Clone)]
pub(super) struct Activity {
    /// Time of the whole phase, ns.
    pub time_ns: f64,
    /// One entry per tier of the machine, in its order.
    pub tiers: Vec<TierActivity>,
    /// Lines per ns that miss the caches, for each access of the phase.
    pub lines_per_ns: Vec<f64>,
    /// Mean number of lines that a core waits for at a time.
    pub lines_in_flight: f64,
}

/// Utilisation from which a tier counts as full.
const FULL: f64 = 0.995;

impl TrueMachine {
    /// Time, traffic and latencies of a phase.
    ///
    /// Times and bandwidths are the machine's. What a solution of the model does not give is from
    /// the simpler caches of [`TupleTraffic`]: misses of each access, and the queue of a full tier,
    /// which is what the workers' time has left after all latencies.
    ///
    /// # Errors
    /// Same as [`TrueMachine::time_ns`].
    pub(super) fn activity(
        &self,
        phase: &Phase,
        placement: &Placement,
        workers: u32,
        others: &[Background],
    ) -> Result<Activity, ModelError> {
        let machine = self.machine();
        let tuple = TupleTraffic::of(machine, phase, placement);
        let taken = utilisation_by_others(machine, others);
        let (time_ns, mut loads) = match self {
            TrueMachine::Model(machine) => {
                let options = Options {
                    background: others.to_vec(),
                    ..Options::default()
                };
                let solution = solve(machine, phase, placement, workers, &options)?;
                let of =
                    |t: &tierloom_model::TierLoad| (t.bandwidth_gbps, t.utilisation, t.latency_ns);
                (solution.time_ns, solution.tiers.iter().map(of).collect())
            }
            TrueMachine::Other(shaped) => {
                let time_ns = shaped.time_ns(phase, placement, workers, others);
                let per_ns = phase.tuples / time_ns;
                let of = |(tier, load): (usize, &super::traffic::Traffic)| {
                    let u = per_ns * load.busy_ns + taken[tier];
                    (per_ns * load.bytes, u, shaped.latency_ns(tier, u))
                };
                let loads: Vec<(f64, f64, f64)> = tuple.tiers.iter().enumerate().map(of).collect();
                (time_ns, loads)
            }
        };
        let per_ns = phase.tuples / time_ns;
        let cores = f64::from(workers).min(machine.cores.value);
        add_queue(machine, phase, &tuple, cores / per_ns, &mut loads);
        let (waits, lines) = tuple
            .tiers
            .iter()
            .fold((0.0, 0.0), |(w, l), t| (w + t.waits, l + t.lines));
        let tiers = tuple
            .tiers
            .iter()
            .zip(&loads)
            .map(|(t, load)| TierActivity {
                gbps: load.0,
                latency_ns: load.2,
                lines_per_ns: per_ns * t.lines,
            });
        Ok(Activity {
            time_ns,
            tiers: tiers.collect(),
            lines_per_ns: tuple.missed.iter().map(|lines| per_ns * lines).collect(),
            lines_in_flight: if waits > 0.0 { lines / waits } else { 1.0 },
        })
    }
}

impl TrueMachine {
    /// What counters without error would show of a phase; `None` if it reads nothing from the first
    /// tier.
    ///
    /// # Errors
    /// Same as [`TrueMachine::time_ns`].
    pub fn latencies(
        &self,
        phase: &Phase,
        placement: &Placement,
        workers: u32,
        others: &[Background],
    ) -> Result<Option<TierLatencies>, ModelError> {
        let activity = self.activity(phase, placement, workers, others)?;
        let Some((first, rest)) = activity.tiers.split_first() else {
            return Ok(None);
        };
        let lines: f64 = rest.iter().map(|t| t.lines_per_ns).sum();
        let waited: f64 = rest.iter().map(|t| t.lines_per_ns * t.latency_ns).sum();
        Ok((first.lines_per_ns > 0.0).then(|| TierLatencies {
            first_ns: first.latency_ns,
            others_ns: (lines > 0.0).then(|| waited / lines),
        }))
    }
}

/// Adds the time in the queue of a full tier to its latency.
///
/// `loads` are bandwidth, utilisation and latency of each tier, `cycle_ns` a core's time per tuple.
fn add_queue(
    machine: &Machine,
    phase: &Phase,
    tuple: &TupleTraffic,
    cycle_ns: f64,
    loads: &mut [(f64, f64, f64)],
) {
    let fullest = (0..loads.len()).max_by(|&a, &b| loads[a].1.total_cmp(&loads[b].1));
    let Some(full) = fullest.filter(|&tier| loads[tier].1 >= FULL && tuple.tiers[tier].waits > 0.0)
    else {
        return;
    };
    let waited: f64 = tuple
        .tiers
        .iter()
        .zip(loads.iter())
        .map(|(t, l)| t.waits * l.2)
        .sum();
    let memory_ns = tuple.cache_ns + waited;
    let overlap = machine.overlap.as_ref().map_or(0.0, |o| o.value);
    let compute_ns = phase.compute_ns_per_tuple;
    let busy_ns = memory_ns.max(compute_ns) + (1.0 - overlap) * memory_ns.min(compute_ns);
    let queued_ns = (cycle_ns - busy_ns).max(0.0);
    loads[full].2 += queued_ns / tuple.tiers[full].waits;
}
