//! One run, ordered and indexed for reading.

use crate::words;
use tierloom_record::{
    EngineKind, HERE, MachineCard, Provenance, QueryRecord, RunSet, geometric_mean,
};

/// The placement that all others are compared with.
pub(crate) const BASELINE: &str = "dram";

/// One run with the orders in which its parts are shown.
pub(crate) struct RunView<'a> {
    /// The records.
    pub set: &'a RunSet,
    /// Goes before every `id` of this run, so that ids stay unique in a document of several runs.
    pub prefix: String,
    /// Query names: as asked for, then any others that have records.
    pub queries: Vec<&'a str>,
    /// Placements, likewise.
    pub placements: Vec<&'a str>,
    /// Machines: this one first.
    pub machines: Vec<&'a str>,
}

/// Geometric means of one placement on one machine, over the queries that are there.
pub(crate) struct Mean<'a> {
    /// The placement.
    pub placement: &'a str,
    /// Of the median times, ms.
    pub time_ms: f64,
    /// Of the speed-ups over DRAM only, if there is any.
    pub speedup: Option<f64>,
    /// Queries in it.
    pub queries: usize,
    /// Measured or modelled.
    pub provenance: Provenance,
}

impl<'a> RunView<'a> {
    /// Orders the parts of a run; `index` is its place in the document.
    pub fn new(index: usize, set: &'a RunSet) -> RunView<'a> {
        let settings = &set.run.settings;
        let named = |asked: &'a [String], found: &mut dyn Iterator<Item = &'a str>| {
            let mut names: Vec<&'a str> = Vec::new();
            // What was asked for but has no record yet (an interrupted run) is left out of charts and named in words.
            let found: Vec<&'a str> = found.collect();
            for name in asked
                .iter()
                .map(String::as_str)
                .filter(|name| found.contains(name))
                .chain(found.iter().copied())
            {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names
        };
        let mut machines = named(
            &settings.machines,
            &mut set.queries.iter().map(|q| q.machine.as_str()),
        );
        machines.sort_by_key(|name| *name != HERE);
        RunView {
            set,
            prefix: format!("r{index}"),
            queries: named(
                &settings.queries,
                &mut set.queries.iter().map(|q| q.query.as_str()),
            ),
            placements: named(
                &settings.placements,
                &mut set.queries.iter().map(|q| q.placement.as_str()),
            ),
            machines,
        }
    }

    /// The record of one query of Tierloom's engine.
    pub fn find(&self, query: &str, placement: &str, machine: &str) -> Option<&'a QueryRecord> {
        self.set
            .find(query, placement, machine, EngineKind::Tierloom)
    }

    /// All records of Tierloom's engine on a machine.
    pub fn on<'s>(&'s self, machine: &'s str) -> impl Iterator<Item = &'a QueryRecord> + 's {
        self.set
            .queries
            .iter()
            .filter(move |q| q.machine == machine && q.engine == EngineKind::Tierloom)
    }

    /// The placements that a machine has records of.
    pub fn placements_on(&self, machine: &str) -> Vec<&'a str> {
        self.placements
            .iter()
            .copied()
            .filter(|p| self.on(machine).any(|q| q.placement == *p))
            .collect()
    }

    /// The number that picks a placement's colour, the same in all charts of a run.
    pub fn series(&self, placement: &str) -> usize {
        self.placements
            .iter()
            .position(|p| *p == placement)
            .unwrap_or(self.placements.len())
    }

    /// Speed-up over DRAM only: as recorded, or from the record of DRAM on the same machine.
    pub fn speedup(&self, record: &QueryRecord) -> Option<f64> {
        let computed = || {
            Some(
                self.find(&record.query, BASELINE, &record.machine)?
                    .time_ms
                    .median
                    / record.time_ms.median,
            )
        };
        record
            .speedup_over_dram
            .or_else(computed)
            .filter(|v| v.is_finite() && *v > 0.0)
    }

    /// The speed-ups of the slowest and the fastest repeat against the median of DRAM, if there are repeats.
    pub fn speedup_range(&self, record: &QueryRecord) -> Option<(f64, f64)> {
        if record.provenance != Provenance::Measured || record.time_ms.values.len() < 2 {
            return None;
        }
        let center = self.speedup(record)?;
        let (low, high) = (
            center * record.time_ms.median / record.time_ms.max,
            center * record.time_ms.median / record.time_ms.min,
        );
        (low.is_finite() && high.is_finite() && low > 0.0).then_some((low, high))
    }

    /// Geometric means on a machine, by placement.
    pub fn means(&self, machine: &str) -> Vec<Mean<'a>> {
        let mean = |placement: &'a str| {
            let records: Vec<&QueryRecord> = self
                .on(machine)
                .filter(|q| q.placement == placement)
                .collect();
            let speedups: Option<Vec<f64>> = records.iter().map(|q| self.speedup(q)).collect();
            Some(Mean {
                placement,
                time_ms: geometric_mean(records.iter().map(|q| q.time_ms.median))?,
                speedup: speedups.and_then(geometric_mean),
                queries: records.len(),
                provenance: records.first()?.provenance,
            })
        };
        self.placements_on(machine)
            .into_iter()
            .filter_map(mean)
            .collect()
    }

    /// The profile of a modelled machine.
    pub fn card(&self, machine: &str) -> Option<&'a MachineCard> {
        self.set
            .run
            .machines
            .iter()
            .find(|card| card.name == machine)
    }

    /// A machine's name as a reader knows it.
    pub fn machine_title(&self, machine: &str) -> String {
        if machine == HERE {
            return format!("this machine ({})", self.set.run.host.cpu_model);
        }
        self.card(machine).map_or_else(
            || machine.into(),
            |card| format!("{machine} ({})", card.title),
        )
    }

    /// Queries by group ("q1" of "q1.1"), in order; names without a dot are one group.
    pub fn groups(&self) -> Vec<(&'a str, Vec<&'a str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for query in &self.queries {
            let group = words::group_of(query);
            match groups.iter_mut().find(|(name, _)| *name == group) {
                Some((_, members)) => members.push(query),
                None => groups.push((group, vec![query])),
            }
        }
        groups
    }
}
