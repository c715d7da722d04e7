//! The steps of the coordinator: all hosts load; then, case by case, each host is timed alone, and
//! each is timed while all others run the same queries until it is done.
//!
//! So every timed execution meets the others at work from its begin to its end, whichever host is
//! the faster one.

use super::super::args::RunOptions;
use super::{HostCase, Plan};
use crate::commands::agents::{Agents, START_IN, of_agents};
use crate::commands::bench::agent::Request;
use crate::failure::Failure;
use std::time::Duration;
use tierloom_record::{
    HostBeside, HostInCase, HostRun, InterferenceCase, InterferenceHost, InterferenceRecord,
    QueryOnHost, Spread,
};
use tierloom_suite::hosts::{HostQuery, HostRan, HostResult, HostStep};

/// Longest time that hosts may take to load their data and to place it.
const PREPARE_WITHIN: Duration = Duration::from_secs(24 * 3600);

/// Measures all cases. The record is there if a case was measured as a whole.
pub fn measure(
    plan: &Plan<'_>,
    options: &RunOptions,
    opened: InterferenceRecord,
) -> (Option<InterferenceRecord>, Result<(), Failure>) {
    let mut record = opened;
    let ended = all(plan, options, &mut record);
    if record.cases.is_empty() {
        return (None, ended);
    }
    if ended.is_err() {
        record.interrupted = Some(format!(
            "{} of {} cases were done",
            record.cases.len(),
            plan.cases.len()
        ));
    }
    record.remarks.extend(unlike(&record));
    (Some(record.judged()), ended)
}

fn all(
    plan: &Plan<'_>,
    options: &RunOptions,
    record: &mut InterferenceRecord,
) -> Result<(), Failure> {
    let access = options.several.access();
    let agents = Agents::connect(access, &plan.hosts, Some(PREPARE_WITHIN))?;
    let mut lead = Lead { plan, agents };
    record.hosts = lead.load()?;
    for (number, case) in plan.cases.iter().enumerate() {
        let measured = lead.case(number, case)?;
        same_rows(record, &measured)?;
        record.cases.push(measured);
    }
    Ok(())
}

/// The sessions with the agents of all hosts, and what is to be measured there.
struct Lead<'a> {
    plan: &'a Plan<'a>,
    agents: Agents,
}

impl Lead<'_> {
    /// Has all hosts load their data, at the same time.
    fn load(&mut self) -> Result<Vec<InterferenceHost>, Failure> {
        let names: Vec<&str> = self.names().collect();
        note!(
            "generating {} on {}",
            self.plan.workload.title(),
            names.join(", ")
        );
        let all: Vec<usize> = (0..self.plan.hosts.len()).collect();
        self.start(&all, |_| HostStep::Load)?;
        all.into_iter().map(|host| self.loaded(host)).collect()
    }

    fn loaded(&mut self, host: usize) -> Result<InterferenceHost, Failure> {
        let HostResult::Loaded(loaded) = self.result(host)? else {
            return Err(self.unexpected(host));
        };
        let name = &self.plan.hosts[host].name;
        let agents = self.agents.coordinator.hosts();
        let agent = agents.iter().find(|(known, _)| known == name);
        Ok(InterferenceHost {
            name: name.clone(),
            agent: agent.map_or_else(String::new, |(_, agent)| (*agent).to_owned()),
            card: loaded.card,
            threads: loaded.threads,
            column_bytes: loaded.column_bytes,
        })
    }

    fn case(&mut self, number: usize, case: &HostCase) -> Result<InterferenceCase, Failure> {
        let hosts = self.plan.hosts.len();
        let mut alone = Vec::new();
        for host in 0..hosts {
            note!("{}: {} alone", case.name, self.name(host));
            self.start(&[host], |_| HostStep::Timed { place: number })?;
            let ran = self.ran(host)?;
            alone.push((self.run_of(host, &ran, Vec::new()), ran.queries));
        }
        let mut measured = Vec::new();
        for (host, (alone, queries)) in alone.into_iter().enumerate() {
            note!("{}: {} with the others", case.name, self.name(host));
            let (together, with) = self.together(number, host)?;
            let place = &case.places[host];
            measured.push(HostInCase {
                host: self.name(host).to_owned(),
                placement: place.placement.clone(),
                pool: place.pool.as_ref().map(|path| path.display().to_string()),
                alone,
                together,
                queries: self.compared(host, queries, with)?,
            });
        }
        Ok(InterferenceCase {
            case: case.name.clone(),
            hosts: measured,
        })
    }

    /// Times one host while all others work.
    fn together(
        &mut self,
        place: usize,
        timed: usize,
    ) -> Result<(HostRun, Vec<HostQuery>), Failure> {
        let hosts = self.plan.hosts.len();
        let all: Vec<usize> = (0..hosts).collect();
        self.start(&all, |host| match host == timed {
            true => HostStep::Timed { place },
            // In another order than the timed host and the others.
            false => HostStep::Beside {
                place,
                stream: host + 1,
            },
        })?;
        let ran = self.ran(timed)?;
        let others: Vec<usize> = all.into_iter().filter(|host| *host != timed).collect();
        for host in &others {
            let name = self.plan.hosts[*host].name.as_str();
            self.agents.coordinator.stop(name).map_err(of_agents)?;
        }
        let mut beside = Vec::new();
        for host in others {
            let other = self.ran(host)?;
            beside.push(HostBeside {
                host: self.name(host).to_owned(),
                executions: other.executions,
                late_ns: other.late_ns,
                clock_uncertainty_ns: self.clock(host).1,
            });
        }
        Ok((self.run_of(timed, &ran, beside), ran.queries))
    }

    /// Prepares steps on hosts and starts them together.
    fn start(&mut self, hosts: &[usize], step: impl Fn(usize) -> HostStep) -> Result<(), Failure> {
        let request = |host: &usize| {
            let task = self.plan.task_of(*host, step(*host));
            let name = task.host.clone();
            Ok((name, Request::Queries(Box::new(task)).text()?))
        };
        let requests = hosts.iter().map(request);
        let requests = requests.collect::<Result<Vec<_>, Failure>>()?;
        let coordinator = &mut self.agents.coordinator;
        coordinator.prepare(requests).map_err(of_agents)?;
        coordinator.start(START_IN).map_err(of_agents).map(drop)
    }

    fn result(&mut self, host: usize) -> Result<HostResult, Failure> {
        let name = &self.plan.hosts[host].name;
        let text = self.agents.coordinator.wait(name).map_err(of_agents)?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::runtime(format!(
                "host {name} sent a result that cannot be read: {error}"
            ))
        })
    }

    fn ran(&mut self, host: usize) -> Result<HostRan, Failure> {
        match self.result(host)? {
            HostResult::Ran(ran) => Ok(*ran),
            HostResult::Loaded(_) => Err(self.unexpected(host)),
        }
    }

    fn run_of(&self, host: usize, ran: &HostRan, beside: Vec<HostBeside>) -> HostRun {
        let (clock_offset_ns, clock_uncertainty_ns) = self.clock(host);
        HostRun {
            late_ns: ran.late_ns,
            clock_offset_ns,
            clock_uncertainty_ns,
            elapsed_s: ran.elapsed_s,
            audit_before: ran.audit_before.clone(),
            audit_after: ran.audit_after.clone(),
            beside,
        }
    }

    /// The offset of a host's clock and its uncertainty, as measured before the last start.
    fn clock(&self, host: usize) -> (i64, u64) {
        let clock = self.agents.clock(self.name(host));
        clock.map_or((0, u64::MAX), |clock| {
            (clock.offset_ns, clock.uncertainty_ns)
        })
    }

    fn compared(
        &self,
        host: usize,
        alone: Vec<HostQuery>,
        together: Vec<HostQuery>,
    ) -> Result<Vec<QueryOnHost>, Failure> {
        let one = |(alone, with): (HostQuery, HostQuery)| {
            let times = Spread::of(alone.times_ms).zip(Spread::of(with.times_ms));
            let (times, others) = times.ok_or_else(|| self.unexpected(host))?;
            if alone.answer.rows != with.answer.rows {
                return Err(Failure::runtime(format!(
                    "host {}: {} has {} rows alone and {} with the others; please report this",
                    self.name(host),
                    alone.query,
                    alone.answer.rows,
                    with.answer.rows
                )));
            }
            Ok(QueryOnHost::new(alone.query, times, others, alone.answer))
        };
        alone.into_iter().zip(together).map(one).collect()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.plan.hosts.iter().map(|host| host.name.as_str())
    }

    fn name(&self, host: usize) -> &str {
        &self.plan.hosts[host].name
    }

    fn unexpected(&self, host: usize) -> Failure {
        Failure::runtime(format!(
            "host {} answered another request than it was sent; please report this",
            self.name(host)
        ))
    }
}

/// Refuses answers of other sizes than in the cases and on the hosts before.
fn same_rows(record: &InterferenceRecord, case: &InterferenceCase) -> Result<(), Failure> {
    let first = record.cases.first().unwrap_or(case).hosts.first();
    let Some(first) = first else {
        return Ok(());
    };
    for host in &case.hosts {
        for (one, other) in first.queries.iter().zip(&host.queries) {
            if one.answer.rows != other.answer.rows {
                return Err(Failure::runtime(format!(
                    "{}: {} has {} rows on host {} and {} on host {}; please report this",
                    case.case, one.query, one.answer.rows, first.host, other.answer.rows, host.host
                )));
            }
        }
    }
    Ok(())
}

/// A remark about answers that nobody checked and that are not the same text everywhere.
fn unlike(record: &InterferenceRecord) -> Option<String> {
    let hosts = record.cases.iter().flat_map(|case| &case.hosts);
    let hosts: Vec<&HostInCase> = hosts.collect();
    let (first, others) = hosts.split_first()?;
    let mut unlike: Vec<&str> = Vec::new();
    for (index, query) in first.queries.iter().enumerate() {
        let mut there = others.iter().filter_map(|host| host.queries.get(index));
        if !query.answer.checked && there.any(|other| other.answer.digest != query.answer.digest) {
            unlike.push(&query.query);
        }
    }
    (!unlike.is_empty()).then(|| {
        format!(
            "the answers of {} are not the same text on all hosts, which rows of equal rank and \
             the last digits of floats explain; --answers checks them",
            unlike.join(", ")
        )
    })
}
