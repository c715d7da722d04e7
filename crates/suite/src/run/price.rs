//! Prices captured work on machine profiles.
//!
//! The phases captured from an execution here are solved by the model for another machine and
//! placement. Of the times measured here only the CPU time per tuple enters a modelled time.

use super::measure::Measured;
use crate::growth::Growth;
use crate::{PlannedPlacement, RunError, SuitePlan};
use tierloom_model::{
    Machine, Options, Phase, Placement, QuerySolution, StructureClass, TierShares, solve_all,
};
use tierloom_placement::{ColumnUse, Policy, model_placement};
use tierloom_record::{EngineKind, Provenance, QueryRecord, Spread, TierUse, TimeShares};

/// CPU times per fact tuple for which the sensitivity of a result is shown, ns.
pub const INTENSITIES_NS: [f64; 8] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// Blind interleaves of the two published studies: Lebedev et al. (2025) and Huang et al. (2024).
pub const BLIND: [Blind; 2] = [
    Blind {
        text: "9:1",
        weights: (9.0, 1.0),
    },
    Blind {
        text: "3:2",
        weights: (3.0, 2.0),
    },
];

/// The same weights for all memory of a process, tables and operator memory alike.
#[derive(Debug, Clone, Copy)]
pub struct Blind {
    pub text: &'static str,
    /// Weights of dram and cxl.
    pub weights: (f64, f64),
}

/// The work of a query as it is at the scale factor of a machine.
pub struct MachineWork<'m> {
    pub measured: &'m Measured,
    /// Phases of each captured execution.
    executions: Vec<Vec<Phase>>,
}

impl MachineWork<'_> {
    /// Phases of one execution as captured and as they are there; it represents all executions,
    /// which run the same plan on the same data.
    pub fn typical(&self) -> Option<(&[Phase], &[Phase])> {
        let typical = self.executions.len() / 2;
        let captured = self.measured.captured.get(typical)?;
        Some((&captured.phases, self.executions.get(typical)?))
    }
}

/// Prices captured work on one machine profile.
pub struct Pricer<'a> {
    plan: &'a SuitePlan,
    machine: &'a Machine,
    /// Columns of the captured data.
    captured: &'a [ColumnUse],
    /// Columns at the scale factor of the machine.
    columns: Vec<ColumnUse>,
    growth: Option<&'a Growth>,
    workers: u32,
}

impl<'a> Pricer<'a> {
    /// Creates a pricer for `machine`; `captured` are the columns that column policies decide on.
    pub fn new(plan: &'a SuitePlan, machine: &'a Machine, captured: &'a [ColumnUse]) -> Self {
        let growth = plan.growth.get(&machine.name);
        Pricer {
            plan,
            machine,
            captured,
            columns: growth.map_or_else(|| captured.to_vec(), |growth| growth.columns(captured)),
            growth,
            // A plan with more workers than the machine has threads was refused.
            workers: machine
                .workers(plan.model_workers)
                .unwrap_or_else(|_| machine.hardware_threads()),
        }
    }

    /// The captured work of a query, grown to the scale factor of the machine.
    pub fn work<'m>(&self, measured: &'m Measured) -> MachineWork<'m> {
        let captured = measured.captured.iter();
        MachineWork {
            measured,
            executions: captured.map(|c| self.grown(&c.phases)).collect(),
        }
    }

    /// Captured phases, grown to the scale factor of the machine.
    pub fn grown(&self, phases: &[Phase]) -> Vec<Phase> {
        self.growth.map_or_else(
            || phases.to_vec(),
            |growth| growth.phases(phases, self.captured, self.plan.threads),
        )
    }

    /// The modelled record of `work` under `placement`, with one modelled time per captured
    /// execution.
    ///
    /// `placed` is what `placement` means on this machine, see [`Pricer::place`].
    ///
    /// # Errors
    /// Errors of the model, which the checks of the plan should have caught before.
    pub fn record(
        &self,
        run_id: &str,
        work: &MachineWork<'_>,
        placement: &PlannedPlacement,
        placed: &Placement,
    ) -> Result<QueryRecord, RunError> {
        let measured = work.measured;
        let solutions = work
            .executions
            .iter()
            .map(|phases| self.solve(phases, &placement.policy, placed))
            .collect::<Result<Vec<_>, _>>()?;
        let times: Vec<f64> = solutions.iter().map(|s| s.time_ns / 1e6).collect();
        let time_ms = Spread::of(times.clone())
            .ok_or_else(|| RunError::failed(format!("{} was never executed", measured.query.id)))?;
        // Shares and tier loads are those of one execution, the one nearest to the median, so that
        // they are consistent with each other.
        let typical = (0..times.len())
            .min_by(|&a, &b| {
                (times[a] - time_ms.median)
                    .abs()
                    .total_cmp(&(times[b] - time_ms.median).abs())
            })
            .unwrap_or(0);
        let solution = &solutions[typical];
        Ok(QueryRecord {
            run_id: run_id.into(),
            query: measured.query.id.into(),
            placement: placement.text.clone(),
            machine: self.machine.name.clone(),
            provenance: Provenance::Modelled,
            engine: EngineKind::Tierloom,
            time_ms,
            speedup_over_dram: None,
            plan_ms: None,
            text_ms: None,
            answer: None,
            shares: Some(TimeShares {
                compute: solution.shares.compute,
                cache: solution.shares.cache,
                latency: solution.shares.latency,
                bandwidth: solution.shares.bandwidth,
            }),
            bottleneck: Some(solution.bottleneck.to_string()),
            tiers: solution
                .tiers
                .iter()
                .map(|t| TierUse {
                    tier: t.name.clone(),
                    bandwidth_gbps: t.bandwidth_gbps,
                    utilisation: t.utilisation,
                    bytes: t.bytes,
                })
                .collect(),
            phases: Vec::new(),
            operators: Vec::new(),
            counters: Vec::new(),
        })
    }

    /// What a policy means on this machine.
    ///
    /// # Errors
    /// Bad input, if the machine does not have what it names.
    pub fn place(&self, policy: &Policy) -> Result<Placement, RunError> {
        Ok(model_placement(policy, &self.columns, self.machine)?)
    }

    fn solve(
        &self,
        phases: &[Phase],
        policy: &Policy,
        placement: &Placement,
    ) -> Result<QuerySolution, RunError> {
        self.price(&self.as_placed(phases, policy), placement)
    }

    /// Phases of [`Pricer::grown`] as they run under a policy.
    pub fn as_placed(&self, phases: &[Phase], policy: &Policy) -> Vec<Phase> {
        let phases = with_intensity(phases, self.plan.time_per_tuple_ns);
        // TIER copies each batch through a buffer in DRAM, which adds accesses to every scan.
        match policy {
            Policy::Tier => {
                let buffered = phases.into_iter().map(|p| p.through_buffer(self.workers));
                buffered.collect()
            }
            _ => phases,
        }
    }

    /// Prices `phases` of [`Pricer::work`] with everything, operator memory too, interleaved
    /// `dram:cxl`.
    pub fn solve_blind(
        &self,
        phases: &[Phase],
        weights: (f64, f64),
        time_per_tuple_ns: Option<f64>,
    ) -> Result<QuerySolution, RunError> {
        let shares = TierShares::from_weights(&[("dram", weights.0), ("cxl", weights.1)])?;
        let phases = with_intensity(phases, time_per_tuple_ns);
        self.price(&phases, &Placement::new(shares))
    }

    fn price(&self, phases: &[Phase], placement: &Placement) -> Result<QuerySolution, RunError> {
        let options = Options::default();
        Ok(solve_all(
            self.machine,
            phases,
            placement,
            self.workers,
            &options,
        )?)
    }

    pub fn machine(&self) -> &Machine {
        self.machine
    }
}

/// The phases with `time_per_tuple_ns` instead of their own CPU time where they read table columns.
///
/// Phases on intermediate rows keep theirs.
fn with_intensity(phases: &[Phase], time_per_tuple_ns: Option<f64>) -> Vec<Phase> {
    let mut phases = phases.to_vec();
    if let Some(ns) = time_per_tuple_ns {
        let reads_columns = |phase: &&mut Phase| {
            let mut accesses = phase.accesses.iter();
            accesses.any(|a| a.class == StructureClass::Column)
        };
        for phase in phases.iter_mut().filter(reads_columns) {
            phase.compute_ns_per_tuple = ns;
        }
    }
    phases
}
