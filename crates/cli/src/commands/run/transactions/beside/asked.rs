//! Streams of queries as they are asked for, with everything that can be wrong found.

use crate::commands::run::transactions::args::StoreOptions;
use crate::failure::Failure;
use std::fmt::Write;
use tierloom_model::Machine;
use tierloom_suite::hosts::{HostPlace, WorkloadSpec};
use tierloom_suite::{PlannedPlacement, RunError, StreamPlan, SuitePlan, SuiteRequest};
use tierloom_topology::Topology;

/// More rounds than anybody waits for.
const MOST_ROUNDS: u32 = 1000;

/// What runs beside the transactions.
#[derive(Debug)]
pub struct BesidePlan {
    pub suite: SuitePlan,
    pub streams: usize,
    pub rounds: u32,
    /// Where the tables are to be on modelled machines.
    pub placement: PlannedPlacement,
    /// Where they are on this one: the same if it has it, else in dram.
    pub here: PlannedPlacement,
    /// Workers of the streams on modelled machines; `None` for half of the cores.
    model_workers: Option<u32>,
}

impl BesidePlan {
    /// The streams that the options ask for.
    ///
    /// # Errors
    /// Bad input.
    pub fn of(options: &StoreOptions, topology: &Topology) -> Result<Option<Self>, Failure> {
        let asked = &options.streams;
        let Some(text) = &asked.beside else {
            return Ok(None);
        };
        let (id, sf) = text.split_once(':').unwrap_or((text, "1"));
        let scale_factor = sf.parse().map_err(|_| {
            Failure::input(format!(
                "--beside {text}: expected ssb, tpch or tpcds, then :SF if it is not 1, as in ssb:10"
            ))
        })?;
        let spec = WorkloadSpec {
            id: id.to_owned(),
            scale_factor,
            seed: options.seed,
            answers: None,
        };
        let workload = spec.workload().map_err(|error| match error {
            // The same on every machine.
            RunError::NoEngine => Failure::from(error),
            error => Failure::input(format!("--beside {text}: {error}")),
        })?;
        let (streams, most) = (asked.beside_streams, StreamPlan::MOST);
        if !(1..=most).contains(&streams) {
            return Err(Failure::input(format!(
                "--beside-streams {streams}: expected a number from 1 to {most}"
            )));
        }
        if !(1..=MOST_ROUNDS).contains(&asked.rounds) {
            let given = asked.rounds;
            return Err(Failure::input(format!(
                "--rounds {given}: expected a number from 1 to {MOST_ROUNDS}"
            )));
        }
        let place = HostPlace::parse(&asked.beside_placement, None)
            .map_err(|e| Failure::input(format!("--beside-placement {e}")))?;
        let request = SuiteRequest {
            threads: asked.beside_threads,
            machines: options.machine.clone(),
            elsewhere: options.here.sysroot.is_some(),
            // In brackets, so that no comma is taken for one between placements.
            ..SuiteRequest::new(format!("[{}]", place.placement), options.pages.clone())
        };
        let suite = SuitePlan::resolve(workload, &request, topology.clone())?;
        let found = suite.placements.iter().find(|p| p.is(&place.placement));
        let placement = found.cloned().ok_or_else(|| {
            Failure::runtime(format!("placement {} is not planned", place.placement))
        })?;
        let here = match &placement.why_not_here {
            None => Some(&placement),
            Some(_) => suite.measured().next(),
        };
        let here = here.cloned().ok_or_else(|| {
            Failure::input("--beside: this machine has no tier for the tables of the streams")
        })?;
        Ok(Some(Self {
            suite,
            streams,
            rounds: asked.rounds,
            placement,
            here,
            model_workers: asked.model_beside_workers,
        }))
    }

    /// Runs of the transactions on one store.
    pub fn runs(&self) -> u32 {
        2 * self.rounds
    }

    /// Workers of the streams on a modelled machine.
    pub fn workers(&self, machine: &Machine) -> u32 {
        self.model_workers.unwrap_or(half_of_cores(machine))
    }

    /// Workers of the transactions on a modelled machine.
    ///
    /// # Errors
    /// Bad input: there are not so many threads beside those of the streams.
    pub fn other_workers(&self, machine: &Machine, asked: Option<u32>) -> Result<u32, Failure> {
        let (own, threads) = (self.workers(machine), machine.hardware_threads());
        let others = asked.unwrap_or(half_of_cores(machine));
        match own > 0 && others.saturating_add(own) <= threads {
            true => Ok(others),
            false => Err(Failure::input(format!(
                "{} has {threads} hardware threads: {others} workers of the transactions and {own} of the streams (--model-workers, --model-beside-workers) must be at least 1 each, and together no more than that",
                machine.name
            ))),
        }
    }

    /// The plan as text, for `--dry-run`.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        let (workload, threads) = (self.suite.workload.title(), self.suite.threads);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "beside {} streams of {workload} with {threads} threads, {} rounds of both alone and together",
            self.streams, self.rounds
        );
        let _ = match &self.placement.why_not_here {
            None => writeln!(text, "tables in {}", self.placement.text),
            Some(why) => writeln!(
                text,
                "tables in {}, measured in {}: {why}",
                self.placement.text, self.here.text
            ),
        };
        text
    }

    /// Says what else than memory is shared here, with so many CPUs.
    pub fn remark(&self, clients: u32, cpus: u32) -> Option<String> {
        let threads = self.suite.threads;
        (clients as usize + threads > cpus as usize).then(|| {
            format!(
                "{clients} clients and {threads} threads of the streams share {cpus} CPUs: what they take from each other here is processor time first of all (--clients, --beside-threads)"
            )
        })
    }
}

fn half_of_cores(machine: &Machine) -> u32 {
    (machine.cores.value as u32 / 2).max(1)
}
