//! One run of queries, ordered and indexed for the sections of a report.

use crate::words;
use tierloom_record::{
    EngineKind, HERE, MachineCard, MeanRecord, Provenance, QueryRecord, RunSet, speedup_over_dram,
};

/// The placement that speed-ups are relative to.
pub(crate) use tierloom_record::REFERENCE as BASELINE;

/// One run with the order in which its queries, placements and machines are shown.
pub(crate) struct RunView<'a> {
    pub set: &'a RunSet,
    /// Prefix of every `id` of this run, so that ids are unique in a document of several runs.
    pub prefix: String,
    /// Query names: those that were requested, in that order, then any others with records.
    pub queries: Vec<&'a str>,
    /// Placements, in the same order as queries.
    pub placements: Vec<&'a str>,
    /// Machines: the one that ran the command first.
    pub machines: Vec<&'a str>,
    means: Vec<MeanRecord>,
}

impl<'a> RunView<'a> {
    /// Orders the parts of a run; `index` is its position in the document.
    pub fn new(index: usize, set: &'a RunSet) -> RunView<'a> {
        let settings = &set.run.settings;
        let named = |asked: &'a [String], found: &mut dyn Iterator<Item = &'a str>| {
            let mut names: Vec<&'a str> = Vec::new();
            // Names without records (of an interrupted run) are left out of charts; the summary
            // lists them.
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
            means: tierloom_record::means(&set.queries),
        }
    }

    /// Whether the run is one of concurrent sessions.
    pub fn has_streams(&self) -> bool {
        self.set.queries.is_empty() && !self.set.throughputs.is_empty()
    }

    /// The record of one query by Tierloom's engine.
    pub fn find(&self, query: &str, placement: &str, machine: &str) -> Option<&'a QueryRecord> {
        self.set
            .find(query, placement, machine, EngineKind::Tierloom)
    }

    /// All records of Tierloom's engine on one machine.
    pub fn on<'s>(&'s self, machine: &'s str) -> impl Iterator<Item = &'a QueryRecord> + 's {
        self.set
            .queries
            .iter()
            .filter(move |q| q.machine == machine && q.engine == EngineKind::Tierloom)
    }

    /// The placements with records on one machine.
    pub fn placements_on(&self, machine: &str) -> Vec<&'a str> {
        self.placements
            .iter()
            .copied()
            .filter(|p| self.on(machine).any(|q| q.placement == *p))
            .collect()
    }

    /// The index of a placement's colour, the same in all charts of a run.
    pub fn series(&self, placement: &str) -> usize {
        self.placements
            .iter()
            .position(|p| *p == placement)
            .unwrap_or(self.placements.len())
    }

    /// Speed-up over DRAM only: as recorded, or computed from the record of DRAM on the same
    /// machine.
    ///
    /// Records that were written before their DRAM record have none.
    pub fn speedup(&self, record: &QueryRecord) -> Option<f64> {
        record
            .speedup_over_dram
            .or_else(|| speedup_over_dram(record, &self.set.queries))
            .filter(|v| v.is_finite() && *v > 0.0)
    }

    /// Speed-ups of the slowest and the fastest repetition over the median of DRAM.
    ///
    /// `None` for modelled times and for a single repetition.
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

    /// Geometric means of Tierloom's engine on one machine, by placement.
    pub fn means(&self, machine: &str) -> Vec<&MeanRecord> {
        let of = |placement: &&str| {
            self.means.iter().find(|m| {
                m.machine == machine
                    && m.placement == *placement
                    && m.engine == EngineKind::Tierloom
            })
        };
        self.placements.iter().filter_map(of).collect()
    }

    /// The profile of a modelled machine; `None` for the machine that ran the command.
    pub fn card(&self, machine: &str) -> Option<&'a MachineCard> {
        self.set
            .run
            .machines
            .iter()
            .find(|card| card.name == machine)
    }

    /// The name of a machine with its processor, or with its title and the scale factor of its
    /// figures.
    pub fn machine_title(&self, machine: &str) -> String {
        if machine == HERE {
            return format!("this machine ({})", self.set.run.host.cpu_model);
        }
        self.card(machine).map_or_else(
            || machine.into(),
            |card| {
                let scale_factor = words::number(self.set.scale_factor_on(machine));
                format!("{machine} ({}), scale factor {scale_factor}", card.title)
            },
        )
    }

    /// Queries by group ("q1" of "q1.1"), in order; names without a dot form one group.
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
