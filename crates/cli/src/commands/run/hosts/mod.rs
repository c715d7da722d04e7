//! `tierloom run ... --interference`: one workload on several hosts, each alone and all at once.
//!
//! [`args`] has the hosts and cases, [`lead`] the steps that the coordinator takes, [`agent`] what
//! an agent does with them, [`render`] the text. The sessions with the agents, their clocks and the
//! agreed start are those of benchmarks ([`crate::commands::agents`]).

mod agent;
mod args;
mod lead;
mod render;

pub use agent::QueryRunner;
pub use args::HostArgs;

use super::args::RunOptions;
use super::results::Results;
use crate::commands::agents::{AgentAt, AgentHost};
use crate::failure::Failure;
use crate::invocation::open_session;
use crate::output;
use args::HostCase;
use std::fmt::Write as _;
use std::time::SystemTime;
use tierloom_record::{InterferenceRecord, Provenance, Record, SCHEMA};
use tierloom_suite::Workload;
use tierloom_suite::hosts::{HostStep, HostTask, WorkloadSpec};

/// What is measured on which hosts.
struct Plan<'a> {
    workload: &'a dyn Workload,
    hosts: Vec<AgentHost>,
    cases: Vec<HostCase>,
    /// What every host is asked, but for its name and places.
    task: HostTask,
}

/// Resolves the plan, then prints it (`--dry-run`) or carries it out.
///
/// # Errors
/// Bad input; the first host that fails or is lost, by name; an interruption. Cases that were
/// measured as a whole are kept.
pub(super) fn run(
    workload: &dyn Workload,
    spec: WorkloadSpec,
    queries: &[String],
    options: &RunOptions,
) -> Result<(), Failure> {
    let plan = Plan::resolve(workload, spec, queries, options)?;
    if options.dry_run {
        return output::print(&plan.describe()?);
    }
    let (record, ended) = lead::measure(&plan, options, plan.opened());
    let mut written = Ok(());
    if let Some(record) = record {
        let mut results = Results::new(options);
        results.push(Record::Interference(Box::new(record)))?;
        written = results.write(options, &|set| {
            set.interferences.iter().map(render::text).collect()
        });
    }
    // What ended the measurement is more important than an output.
    ended.and(written)
}

impl<'a> Plan<'a> {
    fn resolve(
        workload: &'a dyn Workload,
        spec: WorkloadSpec,
        queries: &[String],
        options: &RunOptions,
    ) -> Result<Self, Failure> {
        let hosts = options.several.hosts()?;
        let placement = options.placement.as_deref();
        let pool = options.pool.as_ref();
        let cases = options.several.cases(&hosts, placement, pool)?;
        let task = HostTask {
            command: open_session().id,
            host: String::new(),
            workload: spec,
            queries: queries.to_vec(),
            threads: options.threads,
            repeat: options.repeat,
            pages: options.pages.clone(),
            plain_operators: options.plain_operators,
            operator_memory: options.operator_memory.operator_memory.clone(),
            places: Vec::new(),
            step: HostStep::Load,
        };
        task.check(workload)?;
        Ok(Plan {
            workload,
            hosts,
            cases,
            task,
        })
    }

    /// What host number `host` is asked to do.
    fn task_of(&self, host: usize, step: HostStep) -> HostTask {
        let places = self.cases.iter().map(|case| case.places[host].clone());
        HostTask {
            host: self.hosts[host].name.clone(),
            places: places.collect(),
            step,
            ..self.task.clone()
        }
    }

    fn describe(&self) -> Result<String, Failure> {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<18} {value}");
        };
        line("workload", &self.workload.title());
        let queries = self.workload.queries(&self.task.queries)?;
        let queries: Vec<&str> = queries.iter().map(|query| query.id).collect();
        line("queries", &queries.join(" "));
        line(
            "timed executions",
            &format!(
                "{} per query, alone and with all hosts, after one untimed",
                self.task.repeat
            ),
        );
        for host in &self.hosts {
            let at = match &host.at {
                AgentAt::Address(address) => format!("{}: agent at {address}", host.name),
                AgentAt::Ssh(to) => format!("{}: agent started by ssh on {to}", host.name),
            };
            line("host", &at);
        }
        for case in &self.cases {
            let places = self.hosts.iter().zip(&case.places);
            let places: Vec<String> = places
                .map(|(host, place)| format!("{} {place}", host.name))
                .collect();
            line("case", &format!("{}: {}", case.name, places.join(", ")));
        }
        Ok(text)
    }

    /// The record of the command before anything was measured.
    fn opened(&self) -> InterferenceRecord {
        let session = open_session();
        InterferenceRecord {
            schema: SCHEMA.to_owned(),
            provenance: Provenance::Measured,
            run_id: self.task.command.clone(),
            tool_version: session.tool_version,
            commit: session.commit,
            build: session.build,
            started_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            command: session.command,
            workload: self.workload.id().to_owned(),
            scale_factor: self.workload.scale_factor(),
            seed: self.workload.seed(),
            generator_version: self.workload.generator_version(),
            repeat: self.task.repeat,
            page_size: self.task.pages.clone(),
            hosts: Vec::new(),
            cases: Vec::new(),
            interrupted: None,
            valid: true,
            remarks: Vec::new(),
        }
    }
}
