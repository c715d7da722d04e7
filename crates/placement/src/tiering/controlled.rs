//! Runs a workload under the adaptive controller on a simulated machine, as the engine does.
//!
//! One placement per column, settled by [`Claims`]; pages move between queries, and the time of
//! that counts. Operator memory is allocated where the longest phase that uses it requests it. A
//! phase whose columns are elsewhere than decided is measured on a control part, one whose operator
//! memory is elsewhere is not learned from. The first run of a query only shows its phases.
//!
//! Other than in the engine, every phase can be tried in part, not only passes of star joins.

use super::counters::LATENCY_ERROR;
use super::memory::TieredMemory;
use super::transparent::{MIGRATION_GBPS, Setting};
use crate::AdaptError;
use crate::adaptive::{Claims, Controller, Layout, Measured, PhaseDecision, TierLatencies};
use std::collections::BTreeSet;
use tierloom_model::search::{SplitMix, Weights};
use tierloom_model::{Background, Phase, Placement, StructureClass};

/// Standard deviations of the measured times of phases and of trials.
const PHASE_NOISE: f64 = 0.01;
const TRIAL_NOISE: f64 = 0.02;

/// Standard deviation of the time of a trial of this share: short ones are noisier.
fn trial_noise(share: f64) -> f64 {
    TRIAL_NOISE * (0.01 / share).sqrt().max(1.0)
}

/// Share of the bytes elsewhere up to which a phase counts as placed as decided.
const ELSEWHERE: f64 = 0.03;

/// Share of a phase that is its control part.
const CONTROL: f64 = 0.04;

/// A workload under the controller.
pub(super) struct ControlledRun<'a> {
    setting: &'a Setting<'a>,
    memory: TieredMemory,
    controller: Controller,
    claims: Claims,
    shown: BTreeSet<usize>,
    random: SplitMix,
    now_ns: f64,
}

impl<'a> ControlledRun<'a> {
    pub fn new(
        setting: &'a Setting<'a>,
        mut memory: TieredMemory,
        controller: Controller,
        seed: u64,
    ) -> Self {
        for index in 0..memory.structures.len() {
            memory.allocate(index, 0.0);
        }
        ControlledRun {
            setting,
            memory,
            controller,
            claims: Claims::default(),
            shown: BTreeSet::new(),
            random: SplitMix::new(seed),
            now_ns: 0.0,
        }
    }

    /// Runs all queries once and returns the time, migrations included, ns.
    ///
    /// # Errors
    /// [`AdaptError::Model`] if the model rejects a phase.
    pub fn round_ns(&mut self) -> Result<f64, AdaptError> {
        let start = self.now_ns;
        for query in 0..self.setting.mix.len() {
            self.query(query)?;
        }
        Ok(self.now_ns - start)
    }

    fn query(&mut self, query: usize) -> Result<(), AdaptError> {
        let mix = self.setting.mix;
        let (name, phases) = &mix[query];
        let decisions = self.controller.plan(name, phases)?;
        for (phase, decision) in phases.iter().zip(&decisions) {
            self.claims.note(phase, decision);
        }
        self.move_columns();
        self.allocate_operators(phases, &decisions);
        let mut measured = Vec::with_capacity(phases.len());
        for (phase, decision) in phases.iter().zip(&decisions) {
            measured.push(match phase.is_idle() {
                true => None,
                false => self.phase(phase, decision)?,
            });
        }
        if !self.shown.insert(query) {
            self.controller.learn(name, &measured)?;
        }
        Ok(())
    }

    fn slow_share(&self, weights: &Weights) -> f64 {
        weights.share(&self.memory.tiers[1])
    }

    /// Moves columns to their settled placements, before the query.
    fn move_columns(&mut self) {
        let mut moved = 0.0;
        for (column, weights) in self.claims.settle() {
            let Some(index) = self.memory.index(column) else {
                continue;
            };
            let slow = weights.share(&self.memory.tiers[1]);
            let here = &mut self.memory.structures[index];
            moved += here.bytes * (here.slow - slow).abs();
            here.slow = slow;
        }
        self.now_ns += moved / MIGRATION_GBPS;
    }

    fn allocate_operators(&mut self, phases: &[Phase], decisions: &[PhaseDecision]) {
        let mut order: Vec<usize> = (0..phases.len()).collect();
        order.sort_by(|&a, &b| {
            decisions[a]
                .expected_ns
                .total_cmp(&decisions[b].expected_ns)
        });
        // The longest phase comes last and so decides.
        for at in order {
            let slow = self.slow_share(&decisions[at].layout.operators);
            for access in &phases[at].accesses {
                if let Some(index) = self.memory.index(&access.structure)
                    && self.memory.structures[index].is_temporary()
                {
                    self.memory.structures[index].slow = slow;
                }
            }
        }
    }

    /// Share of a phase's bytes that is elsewhere than decided: of columns, or of operator memory.
    fn elsewhere(&self, phase: &Phase, layout: &Layout, columns: bool) -> f64 {
        let decided = if columns {
            &layout.columns
        } else {
            &layout.operators
        };
        let decided = self.slow_share(decided);
        let (mut bytes, mut apart) = (0.0, 0.0);
        for access in &phase.accesses {
            let Some(index) = self.memory.index(&access.structure) else {
                continue;
            };
            if (access.class == StructureClass::Column) == columns {
                let footprint = access.footprint_bytes as f64;
                bytes += footprint;
                apart += footprint * (self.memory.structures[index].slow - decided).abs();
            }
        }
        apart / f64::max(bytes, 1.0)
    }

    /// Runs a phase with its trials; returns its measured times.
    fn phase(
        &mut self,
        phase: &Phase,
        decision: &PhaseDecision,
    ) -> Result<Option<Measured>, AdaptError> {
        let actual = self.memory.placement(phase)?;
        let controlled = self.elsewhere(phase, &decision.layout, true) > ELSEWHERE;
        let unknown = self.elsewhere(phase, &decision.layout, false) > ELSEWHERE;
        let mut trials_ns = Vec::with_capacity(decision.trials.len());
        let mut tried_bytes = 0.0;
        for trial in &decision.trials {
            let placement = self.with_columns(&actual, phase, &trial.layout.columns)?;
            let took_ns = self.run(phase, &placement, trial.share)?;
            trials_ns.push(took_ns * (1.0 + trial_noise(trial.share) * self.random.normal()));
            let moved = decision.layout.moved_bytes(&trial.layout, phase) as f64;
            tried_bytes += 2.0 * trial.share * moved;
        }
        // Pages of trials move before the query and return after it.
        self.now_ns += tried_bytes / MIGRATION_GBPS;
        let rest = decision.rest();
        let time_ns = if controlled {
            let as_decided = self.with_columns(&actual, phase, &decision.layout.columns)?;
            let part_ns = self.run(phase, &as_decided, CONTROL)?;
            self.run(phase, &actual, (rest - CONTROL).max(0.0))?;
            part_ns / CONTROL * rest * (1.0 + TRIAL_NOISE * self.random.normal())
        } else {
            let took_ns = self.run(phase, &actual, rest)?;
            took_ns * (1.0 + PHASE_NOISE * self.random.normal())
        };
        let latencies = self.latencies(phase, &actual)?;
        Ok((!unknown).then_some(Measured {
            time_ns,
            trials_ns,
            latencies,
        }))
    }

    /// Latencies that counters read at the end of the phase.
    fn latencies(
        &mut self,
        phase: &Phase,
        placement: &Placement,
    ) -> Result<Option<TierLatencies>, AdaptError> {
        let setting = self.setting;
        let tiers = setting
            .tiers
            .map(|tier| &setting.machine.machine().tiers[tier]);
        let load = setting
            .tenant
            .as_ref()
            .and_then(|t| t.load(&tiers, self.now_ns));
        let others: Vec<Background> = load.into_iter().collect();
        let latencies = setting
            .machine
            .latencies(phase, placement, setting.workers, &others)?;
        let mut read = |ns: f64| ns * (1.0 + LATENCY_ERROR * self.random.normal()).max(0.1);
        Ok(latencies.map(|l| TierLatencies {
            first_ns: read(l.first_ns),
            others_ns: l.others_ns.map(read),
        }))
    }

    fn with_columns(
        &self,
        actual: &Placement,
        phase: &Phase,
        columns: &Weights,
    ) -> Result<Placement, AdaptError> {
        let mut placement = actual.clone();
        let shares = self.memory.shares(self.slow_share(columns))?;
        for access in phase
            .accesses
            .iter()
            .filter(|a| a.class == StructureClass::Column)
        {
            placement
                .by_structure
                .insert(access.structure.clone(), shares.clone());
        }
        Ok(placement)
    }

    /// Runs a part of a phase and returns its time, ns.
    fn run(&mut self, phase: &Phase, placement: &Placement, part: f64) -> Result<f64, AdaptError> {
        let (start, mut left) = (self.now_ns, part);
        let setting = self.setting;
        let tiers = setting
            .tiers
            .map(|tier| &setting.machine.machine().tiers[tier]);
        while left > 1e-12 {
            let tenant = setting.tenant.as_ref();
            let load = tenant.and_then(|t| t.load(&tiers, self.now_ns));
            let others: Vec<Background> = load.into_iter().collect();
            let whole_ns = setting
                .machine
                .time_ns(phase, placement, setting.workers, &others)?;
            let until = tenant.map_or(f64::INFINITY, |t| t.until_change_ns(self.now_ns));
            let took_ns = (left * whole_ns).min(until);
            left -= took_ns / whole_ns;
            self.now_ns += took_ns;
        }
        Ok(self.now_ns - start)
    }
}
