//! Streams of queries on loaded tables beside other work of the process.

use super::clock::Clock;
use super::measure::{self, Runner};
use super::price::Pricer;
use super::session::{Session, plan_all};
use super::throughput;
use crate::beside::{StreamsRan, StreamsWork};
use crate::{Observer, PlannedPlacement, RunError, SuitePlan};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tierloom_bench::run::Session as Invocation;
use tierloom_engine::PlannedQuery;
use tierloom_engine::capture::{Captured, HostCosts, probe};
use tierloom_model::Machine;
use tierloom_placement::ColumnUse;
use tierloom_record::AuditRecord;

/// Streams of a plan's queries, on tables that are loaded and placed.
pub struct Streams<'a> {
    session: &'a Session<'a>,
    /// The plans of each stream.
    plans: Vec<Vec<PlannedQuery>>,
    uses: Vec<ColumnUse>,
    work: Vec<Captured>,
}

/// Loads the data of `plan` into `placement`, which this machine has, runs every query, and then
/// `work` with `count` streams of them, which `work` starts when it wants.
///
/// # Errors
/// Memory that cannot be had, a query that fails, a wrong answer, an interruption, or those of
/// `work`.
pub fn with_streams<T, E: From<RunError>>(
    plan: &SuitePlan,
    placement: &PlannedPlacement,
    count: usize,
    invocation: &Invocation,
    observer: &dyn Observer,
    work: impl FnOnce(&Streams<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let session = Session::open(plan, invocation, observer)?;
    work(&Streams::new(&session, placement, count)?)
}

impl<'a> Streams<'a> {
    fn new(
        session: &'a Session<'a>,
        placement: &PlannedPlacement,
        count: usize,
    ) -> Result<Self, RunError> {
        let (plan, tables) = (session.plan, &session.data.tables);
        let host = HostCosts::of(&probe(tables, plan.threads), tables, plan.threads);
        let uses = measure::column_uses(session, &measure::first_pass(session, &host)?);
        session.place(&placement.policy.decide(&uses), "while placing")?;
        let plans = (0..count).map(|_| plan_all(plan, &session.engine));
        Ok(Streams {
            session,
            plans: plans.collect::<Result<_, _>>()?,
            uses,
            // With everything warm, and where the tables are now.
            work: measure::first_pass(session, &host)?,
        })
    }

    /// Runs the streams for so long; queries that have begun by then complete.
    ///
    /// # Errors
    /// A query that fails, an interruption, or no query that ended.
    pub fn run(&self, duration: Duration) -> Result<StreamsRan, RunError> {
        let clock = Clock {
            start: Instant::now(),
            duration,
            failed: &AtomicBool::new(false),
            observer: self.session.observer,
        };
        let runner = Runner::of(&self.session.engine);
        let queries = &self.session.plan.queries;
        let ended = throughput::streams(queries, runner, &self.plans, &clock)?;
        let ran = StreamsRan {
            queries: ended.iter().map(|(stream, _)| stream.queries).sum(),
            queries_per_hour: ended.iter().map(|(s, _)| s.queries_per_hour).sum(),
        };
        match ran.queries {
            0 => Err(RunError::failed(
                "no stream finished a query; use a longer --seconds",
            )),
            _ => Ok(ran),
        }
    }

    /// Looks up the nodes of all pages of the tables. `None` where the kernel does not report them.
    ///
    /// # Errors
    /// Pages that cannot be looked up.
    pub fn audit(&self) -> Result<Option<AuditRecord>, RunError> {
        self.session.audit()
    }

    /// The work of all queries, once each, on a machine of the plan.
    ///
    /// # Errors
    /// Bad input: the machine lacks a tier.
    pub fn work_on(
        &self,
        machine: &Machine,
        placement: &PlannedPlacement,
    ) -> Result<StreamsWork, RunError> {
        let pricer = Pricer::new(self.session.plan, machine, &self.uses);
        let phases = self.work.iter().flat_map(|captured| {
            let grown = pricer.grown(&captured.phases);
            pricer.as_placed(&grown, &placement.policy)
        });
        Ok(StreamsWork {
            queries: self.work.len() as u64,
            phases: phases.collect(),
            placement: pricer.place(&placement.policy)?,
        })
    }
}
