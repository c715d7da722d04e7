//! Runs a workload under a tiering policy on a simulated machine.

use super::activity::Activity;
use super::counters::Counting;
use super::machines::TrueMachine;
use super::memory::{Migration, TieredMemory};
use super::policies::TieringPolicy;
use super::tenant::Tenant;
use crate::mixes::Mix;
use tierloom_model::search::SplitMix;
use tierloom_model::{Background, ModelError, Phase};

/// Length of a policy's interval, ns.
const INTERVAL_NS: f64 = 50e6;

/// Bandwidth of page migrations, GB/s: the controller's own assumption.
pub(super) const MIGRATION_GBPS: f64 = 2.0;

/// A machine on which a workload runs, with the load of others.
pub(super) struct Setting<'a> {
    pub machine: &'a TrueMachine,
    /// Indices of the fast and the slow tier.
    pub tiers: [usize; 2],
    pub workers: u32,
    pub mix: &'a Mix,
    pub tenant: Option<Tenant>,
}

/// A workload under one policy.
pub(super) struct TransparentRun<'a> {
    setting: &'a Setting<'a>,
    memory: TieredMemory,
    policy: Box<dyn TieringPolicy>,
    counting: Counting,
    pending: Vec<Migration>,
    random: SplitMix,
    /// Time since the start, ns.
    now_ns: f64,
    /// The last activity of each phase of the mix with what it depends on.
    known: Vec<Vec<Option<KnownActivity>>>,
    started: bool,
}

struct KnownActivity {
    slow: Vec<f64>,
    others: Vec<Background>,
    activity: Activity,
}

impl<'a> TransparentRun<'a> {
    pub fn new(
        setting: &'a Setting<'a>,
        memory: TieredMemory,
        policy: Box<dyn TieringPolicy>,
        seed: u64,
    ) -> Self {
        TransparentRun {
            counting: Counting::new(memory.structures.len()),
            known: setting
                .mix
                .iter()
                .map(|(_, phases)| phases.iter().map(|_| None).collect())
                .collect(),
            setting,
            memory,
            policy,
            pending: Vec::new(),
            random: SplitMix::new(seed),
            now_ns: 0.0,
            started: false,
        }
    }

    /// Runs all queries once and returns the time, ns.
    ///
    /// # Errors
    /// Same as [`TrueMachine::time_ns`].
    pub fn round_ns(&mut self) -> Result<f64, ModelError> {
        let start = self.now_ns;
        if !self.started {
            self.started = true;
            for index in 0..self.memory.structures.len() {
                if !self.memory.structures[index].is_temporary() {
                    let slow = self
                        .policy
                        .slow_share_of_new(&self.memory.structures[index]);
                    self.memory.allocate(index, slow);
                }
            }
        }
        for query in 0..self.setting.mix.len() {
            self.query(query)?;
        }
        Ok(self.now_ns - start)
    }

    /// Ends the first round, after which a policy may start the program again.
    pub fn end_first_round(&mut self) {
        if let Some(shares) = self.policy.restart(&self.memory) {
            for (structure, slow) in self.memory.structures.iter_mut().zip(shares) {
                structure.slow = slow;
            }
        }
    }

    fn query(&mut self, query: usize) -> Result<(), ModelError> {
        let mix = self.setting.mix;
        let phases = &mix[query].1;
        let used = phases.iter().flat_map(|p| &p.accesses);
        let mut own: Vec<(usize, f64)> = Vec::new();
        for access in used {
            let Some(index) = self.memory.index(&access.structure) else {
                continue;
            };
            let bytes = access.footprint_bytes as f64;
            if !self.memory.structures[index].is_temporary() {
                continue;
            }
            match own.iter_mut().find(|(known, _)| *known == index) {
                Some((_, most)) => *most = most.max(bytes),
                None => own.push((index, bytes)),
            }
        }
        for (index, bytes) in &own {
            self.memory.structures[*index].bytes = *bytes;
            let slow = self
                .policy
                .slow_share_of_new(&self.memory.structures[*index]);
            self.memory.allocate(*index, slow);
        }
        for (at, phase) in phases.iter().enumerate() {
            if !phase.is_idle() {
                self.phase((query, at), phase)?;
            }
        }
        for (index, _) in own {
            self.memory.structures[index].live = false;
        }
        Ok(())
    }

    fn phase(&mut self, at: (usize, usize), phase: &Phase) -> Result<(), ModelError> {
        let mut left = 1.0;
        while left > 1e-12 {
            if let Some(shares) = self.policy.enforced(&self.memory) {
                for (structure, slow) in self.memory.structures.iter_mut().zip(shares) {
                    structure.slow = slow;
                }
            }
            let activity = self.activity(at, phase)?;
            let until_tick = (INTERVAL_NS - self.counting.elapsed_ns()).max(1.0);
            let until_change = self.setting.tenant.as_ref();
            let until_change =
                until_change.map_or(f64::INFINITY, |t| t.until_change_ns(self.now_ns));
            let took_ns = (left * activity.time_ns).min(until_tick).min(until_change);
            left -= took_ns / activity.time_ns;
            self.advance(&activity, phase, took_ns);
        }
        Ok(())
    }

    fn advance(&mut self, activity: &Activity, phase: &Phase, took_ns: f64) {
        self.counting.add(activity, self.setting.tiers, took_ns);
        for (access, lines_per_ns) in phase.accesses.iter().zip(&activity.lines_per_ns) {
            if let Some(index) = self.memory.index(&access.structure) {
                let slow = self.memory.structures[index].slow;
                self.counting.add_lines(index, slow, lines_per_ns * took_ns);
            }
        }
        self.now_ns += took_ns;
        let mut bytes = MIGRATION_GBPS * took_ns;
        while let Some(next) = self.pending.first_mut() {
            let moved = self.memory.migrate(next, bytes);
            bytes -= moved;
            next.bytes -= moved;
            // What found no room or no pages is dropped.
            if bytes > 1.0 || next.bytes <= 1.0 {
                self.pending.remove(0);
            } else {
                break;
            }
        }
        if self.counting.elapsed_ns() >= INTERVAL_NS - 1.0 {
            let seen = self.counting.read(&mut self.random);
            self.pending = self.policy.tick(&seen, &self.memory);
            self.pending.retain(|m| m.bytes >= 1.0);
        }
    }

    /// The phase under the present placement and load.
    fn activity(
        &mut self,
        (query, at): (usize, usize),
        phase: &Phase,
    ) -> Result<Activity, ModelError> {
        let others = self.others(query, at);
        let slow: Vec<f64> = phase
            .accesses
            .iter()
            .filter_map(|a| self.memory.index(&a.structure))
            .map(|index| self.memory.structures[index].slow)
            .collect();
        if let Some(known) = &self.known[query][at]
            && known.slow == slow
            && known.others == others
        {
            return Ok(known.activity.clone());
        }
        let Setting {
            machine, workers, ..
        } = *self.setting;
        let placement = self.memory.placement(phase)?;
        let activity = machine.activity(phase, &placement, workers, &others)?;
        self.known[query][at] = Some(KnownActivity {
            slow,
            others,
            activity: activity.clone(),
        });
        Ok(activity)
    }

    /// Load of tenants, of migrations, and of lines that hardware swaps.
    fn others(&self, query: usize, at: usize) -> Vec<Background> {
        let mut others = Vec::new();
        let tiers = self
            .setting
            .tiers
            .map(|tier| &self.setting.machine.machine().tiers[tier]);
        if let Some(tenant) = &self.setting.tenant {
            others.extend(tenant.load(&tiers, self.now_ns));
        }
        let load = |tier: usize, read_gbps: f64, write_gbps: f64| Background {
            write_gbps,
            ..Background::reads(tiers[tier].name.clone(), read_gbps)
        };
        if let Some(next) = self.pending.first() {
            let (from, to) = if next.down { (0, 1) } else { (1, 0) };
            others.push(load(from, MIGRATION_GBPS, 0.0));
            others.push(load(to, 0.0, MIGRATION_GBPS));
        }
        if self.policy.enforced(&self.memory).is_some() {
            // The traffic of the phase on the slow tier when it last ran: each line is swapped.
            let last = self.known[query][at].as_ref();
            let gbps = last.map_or(0.0, |k| k.activity.tiers[self.setting.tiers[1]].gbps);
            others.push(load(0, gbps, gbps));
            others.push(load(1, 0.0, gbps));
        }
        others
    }
}
