//! The coordinator's side of runs on several hosts.
//!
//! All hosts prepare, then start at an agreed time. The main task decides when the run ends; where
//! it runs decides how this host takes part:
//!
//! * on this host ([`AgentHosts::lead`]): its part starts and stops the others;
//! * on another host, with tasks here too ([`AgentHosts::follow`]): the own part runs until the
//!   main task is done;
//! * on another host, with none here: this host only starts and collects.

use super::Args;
use super::failures::of_run;
use super::progress::tell;
use crate::commands::agents::{AgentAccess, AgentAt, AgentHost, Agents, START_IN, of_agents};
use crate::failure::Failure;
use crate::stop;
use indicatif::ProgressBar;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tierloom_agent::{AgentError, Coordinator, Stop};
use tierloom_bench::file::{HostSpec, Workloads};
use tierloom_bench::plan::{RunPlan, TaskRole};
use tierloom_bench::run::{self, Control, Event, Host, Part};

use super::agent::Request;

/// Checks that every host that a task names is listed under `hosts:`.
///
/// # Errors
/// Bad input naming the workload and the task.
pub fn check(workloads: &Workloads) -> Result<(), Failure> {
    for plan in &workloads.runs {
        for task in &plan.tasks {
            if let Some(host) = &task.host
                && !workloads.hosts.iter().any(|known| known.name == *host)
            {
                let step = if workloads.hosts.is_empty() && workloads.names.is_empty() {
                    "; records carry no addresses: run the workload file again"
                } else {
                    ""
                };
                return Err(Failure::input(format!(
                    "{}:{}: task {} is for host {host:?}, which `hosts:` does not name{step}",
                    plan.file, plan.line, task.name
                )));
            }
        }
    }
    Ok(())
}

/// Connections to the agents of all hosts.
pub struct AgentHosts {
    agents: Agents,
}

/// Connects to the hosts that `plans` name; `None` if every task is on this machine.
///
/// # Errors
/// A host that cannot be reached or used.
pub fn connect(
    args: &Args,
    workloads: &Workloads,
    plans: &[&RunPlan],
) -> Result<Option<AgentHosts>, Failure> {
    // Only hosts of runs that are still to be done: with --resume others need not be reachable.
    let wanted: BTreeSet<&String> = plans
        .iter()
        .flat_map(|plan| &plan.tasks)
        .filter_map(|task| task.host.as_ref())
        .collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let access = AgentAccess {
        token_file: args.agent.token_file.as_deref(),
        tls_ca: args.agent.tls_ca.as_deref(),
        allow_plain: args.agent.allow_plain,
    };
    let hosts = workloads.hosts.iter();
    let hosts = hosts.filter(|host| wanted.contains(&host.name));
    let hosts: Vec<AgentHost> = hosts.map(agent_of).collect::<Result<_, _>>()?;
    let agents = Agents::connect(access, &hosts, None)?;
    Ok(Some(AgentHosts { agents }))
}

/// Where the agent of a host of the file is.
fn agent_of(host: &HostSpec) -> Result<AgentHost, Failure> {
    let at = match (&host.ssh, &host.address) {
        (Some(destination), _) => AgentAt::Ssh(destination.clone()),
        (None, Some(address)) => AgentAt::Address(address.clone()),
        (None, None) => {
            return Err(Failure::input(format!(
                "line {}: host {} has neither `address` nor `ssh`",
                host.line, host.name
            )));
        }
    };
    Ok(AgentHost {
        name: host.name.clone(),
        at,
    })
}

impl AgentHosts {
    /// Runs `plan` on all its hosts, including this one if it has tasks here.
    ///
    /// # Errors
    /// The first host that fails; the others are stopped.
    pub fn run(
        &mut self,
        plan: &RunPlan,
        host: &Host,
        bar: &ProgressBar,
    ) -> Result<Vec<Part>, Failure> {
        let names: BTreeSet<&String> = plan.tasks.iter().filter_map(|t| t.host.as_ref()).collect();
        let main = plan
            .tasks
            .iter()
            .find(|task| task.role == TaskRole::Main)
            .and_then(|task| task.host.clone());
        let requests = names
            .iter()
            .map(|name| {
                let request = Request::Bench {
                    plan: Box::new(plan.clone()),
                    host: (*name).clone(),
                };
                Ok(((*name).clone(), request.text()?))
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        // Preparing maps and fills memory, which takes different times on different hosts; only
        // when all are ready can a start be agreed on.
        self.agents
            .coordinator
            .prepare(requests)
            .map_err(of_agents)?;
        let here = plan.tasks.iter().any(|task| task.host.is_none());
        let mut parts = match (&main, here) {
            (None, _) => vec![self.lead(plan, host, bar)?],
            (Some(main), true) => self.follow(plan, host, main, bar)?,
            (Some(main), false) => {
                self.agents.coordinator.start(START_IN).map_err(of_agents)?;
                vec![self.part(main)?]
            }
        };
        for name in names
            .into_iter()
            .filter(|name| Some(*name) != main.as_ref())
        {
            self.agents.coordinator.stop(name).map_err(of_agents)?;
            parts.push(self.part(name)?);
        }
        Ok(parts)
    }

    /// Runs the main task on this host: the others start with it and are stopped after it.
    fn lead(&mut self, plan: &RunPlan, host: &Host, bar: &ProgressBar) -> Result<Part, Failure> {
        let trouble = self.agents.coordinator.trouble();
        let control = Leading {
            coordinator: Mutex::new((&mut self.agents.coordinator, None)),
            trouble,
            bar,
        };
        let part = run::run_part(plan, None, host, &control);
        let (coordinator, error) = control
            .coordinator
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        match (part, error) {
            (Ok(part), None) if !control.trouble.requested() => Ok(part),
            (_, Some(error)) => Err(of_agents(error)),
            (part, None) => {
                let _ = coordinator.stop_all();
                // A lost host is the cause of whatever error this host reports.
                let lost = plan
                    .tasks
                    .iter()
                    .filter_map(|task| task.host.as_ref())
                    .find_map(|name| coordinator.wait(name).err());
                match (lost, part) {
                    (Some(error), _) => Err(of_agents(error)),
                    (None, Err(error)) => Err(of_run(error)),
                    (None, Ok(part)) => Ok(part),
                }
            }
        }
    }

    /// Runs this host's tasks beside the main task on host `main`, until that is done. The main
    /// part comes first.
    fn follow(
        &mut self,
        plan: &RunPlan,
        host: &Host,
        main: &str,
        bar: &ProgressBar,
    ) -> Result<Vec<Part>, Failure> {
        let ended = Stop::new();
        let (ready, signal) = channel();
        let (begin, begun) = channel();
        let control = Following {
            ended: ended.clone(),
            ready: Mutex::new(ready),
            begin: Mutex::new(begun),
            bar,
        };
        std::thread::scope(|scope| {
            let own = scope.spawn(move || run::run_part(plan, None, host, &control));
            // An error means that the own part ended before it was ready; its own error explains
            // why.
            let led = match signal.recv() {
                Ok(()) => self
                    .agents
                    .coordinator
                    .start(START_IN)
                    .map_err(of_agents)
                    .and_then(|start| {
                        // If the receiver is gone, the own part ended with an error, which is
                        // returned below.
                        let _ = begin.send(start);
                        self.part(main)
                    })
                    .map(Some),
                Err(_) => Ok(None),
            };
            // Whether the main task ended or failed, the own part must end, or joining it would
            // wait forever.
            ended.request();
            drop(begin);
            let own = match own.join() {
                Ok(own) => own.map_err(of_run),
                Err(panic) => std::panic::resume_unwind(panic),
            };
            match (led?, own?) {
                (Some(main), own) => Ok(vec![main, own]),
                (None, own) => Ok(vec![own]),
            }
        })
    }

    fn part(&mut self, name: &str) -> Result<Part, Failure> {
        let text = self.agents.coordinator.wait(name).map_err(of_agents)?;
        let mut part: Part = serde_json::from_str(&text).map_err(|error| {
            Failure::runtime(format!(
                "host {name} sent a result that cannot be read: {error}"
            ))
        })?;
        if let Some(clock) = self.agents.clock(name) {
            part.host.clock_offset_ns = Some(clock.offset_ns as f64);
            part.host.clock_uncertainty_ns = Some(clock.uncertainty_ns as f64);
        }
        Ok(part)
    }
}

/// Controls this host's part when it has the main task: once ready, it agrees on the start with the
/// others.
struct Leading<'a> {
    coordinator: Mutex<(&'a mut Coordinator, Option<AgentError>)>,
    trouble: Stop,
    bar: &'a ProgressBar,
}

impl Control for Leading<'_> {
    fn ready(&self) -> Option<SystemTime> {
        let mut guard = self
            .coordinator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match guard.0.start(START_IN) {
            Ok(start) => Some(start),
            Err(error) => {
                guard.1 = Some(error);
                None
            }
        }
    }

    fn stopped(&self) -> bool {
        stop::requested() || self.trouble.requested()
    }

    fn event(&self, event: Event) {
        tell(self.bar, event);
    }
}

/// Controls this host's part when the main task is on another host.
struct Following<'a> {
    ended: Stop,
    ready: Mutex<Sender<()>>,
    begin: Mutex<Receiver<SystemTime>>,
    bar: &'a ProgressBar,
}

impl Control for Following<'_> {
    fn ready(&self) -> Option<SystemTime> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.send(()).ok()?;
        let begin = self.begin.lock().unwrap_or_else(PoisonError::into_inner);
        begin.recv().ok()
    }

    fn stopped(&self) -> bool {
        self.ended.requested() || stop::requested()
    }

    fn event(&self, event: Event) {
        tell(self.bar, event);
    }
}
