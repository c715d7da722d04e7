//! The steps of a command on loaded data: place, run every query once, wait for the start, run.

use super::super::measure::{self, Runner};
use super::super::pooled::Pooled;
use super::super::session::Session;
use crate::hosts::{Begin, HostLoaded, HostQuery, HostRan, HostResult, HostStep, HostTask};
use crate::{RunError, SuitePlan};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use tierloom_bench::run::host_card;
use tierloom_engine::RecordBatch;
use tierloom_engine::capture::HostCosts;
use tierloom_placement::ColumnUse;
use tierloom_pool::Pool;
use tierloom_record::{Answer, AuditRecord};
use tierloom_topology::Environment;

/// Host costs for captured work: only the bytes read per column are used.
const UNPROBED: HostCosts = HostCosts {
    stream_ns_per_byte: 0.0,
    working_set_bytes: 0,
};

/// Completes the message of an interruption.
const PREPARING: &str = "while preparing";

/// A session on the tables in memory or in a pool.
enum Tables<'s, 'a> {
    Memory(&'s Session<'a>),
    Pool(Rc<Session<'a>>),
}

impl<'a> Tables<'_, 'a> {
    fn session(&self) -> &Session<'a> {
        match self {
            Tables::Memory(session) => session,
            Tables::Pool(session) => session,
        }
    }
}

/// A step that waits for its start.
struct Prepared<'s, 'a> {
    step: HostStep,
    tables: Tables<'s, 'a>,
    audit_before: Option<AuditRecord>,
}

/// The loaded data of a command and what is done with it.
pub(super) struct OnHost<'s> {
    task: &'s HostTask,
    session: &'s Session<'s>,
    pooled: Vec<(&'s Path, Pooled<'s>)>,
    uses: Vec<ColumnUse>,
    prepared: Option<Prepared<'s, 's>>,
}

impl<'s> OnHost<'s> {
    /// On the data of `session`, and in `pools`; runs every query once.
    ///
    /// # Errors
    /// A failing query, a wrong answer, or an interruption.
    pub fn new(
        task: &'s HostTask,
        session: &'s Session<'s>,
        pools: &'s [(&'s Path, Pool)],
    ) -> Result<Self, RunError> {
        let seen = measure::first_pass(session, &UNPROBED)?;
        let pooled = pools.iter();
        Ok(OnHost {
            task,
            session,
            pooled: pooled
                .map(|(path, pool)| (*path, Pooled::new(session, Some(pool))))
                .collect(),
            uses: measure::column_uses(session, &seen),
            prepared: None,
        })
    }

    fn plan(&self) -> &'s SuitePlan {
        self.session.plan
    }

    /// Places the tables for a step and runs every query once.
    ///
    /// # Errors
    /// A placement that cannot be had, a failing query, a wrong answer, or an interruption.
    pub fn prepare(&mut self, step: HostStep) -> Result<(), RunError> {
        self.prepared = None;
        let place = match step {
            HostStep::Load => None,
            HostStep::Timed { place } | HostStep::Beside { place, .. } => Some(place),
        };
        let tables = match place {
            None => Tables::Memory(self.session),
            Some(number) => self.tables_at(number)?,
        };
        if place.is_some() {
            // Every query once: caches are warm, and answers on these tables are checked.
            measure::first_pass(tables.session(), &UNPROBED)?;
        }
        let audit_before = tables.session().audit()?;
        self.prepared = Some(Prepared {
            step,
            tables,
            audit_before,
        });
        Ok(())
    }

    /// Places the tables.
    fn tables_at(&mut self, number: usize) -> Result<Tables<'s, 's>, RunError> {
        let place = self.task.places.get(number);
        let place = place.ok_or_else(|| RunError::failed(format!("there is no place {number}")))?;
        let plan = self.plan();
        let found = plan.placements.iter().find(|p| p.is(&place.placement));
        let placement = found.ok_or_else(|| {
            RunError::failed(format!("placement {} is not planned", place.placement))
        })?;
        let mut pools = self.pooled.iter_mut();
        let pooled = pools.find(|(path, _)| Some(*path) == place.pool.as_deref());
        if let Some((_, pooled)) = pooled
            && let Some(session) = pooled.session(placement)?
        {
            return Ok(Tables::Pool(session));
        }
        let decisions = placement.policy.decide(&self.uses);
        self.session.place(&decisions, PREPARING)?;
        Ok(Tables::Memory(self.session))
    }

    /// Carries out the step that was prepared.
    ///
    /// # Errors
    /// As [`OnHost::prepare`].
    pub fn run(&mut self, begin: Begin) -> Result<HostResult, RunError> {
        let ready = self.prepared.take();
        let ready = ready.ok_or_else(|| RunError::failed("nothing was prepared"))?;
        let Some(late) = begin() else {
            return Err(RunError::Interrupted("before the start".to_owned()));
        };
        let session = ready.tables.session();
        let start = Instant::now();
        let (executions, queries) = match ready.step {
            HostStep::Load => return Ok(self.loaded()),
            HostStep::Timed { .. } => timed(session)?,
            HostStep::Beside { stream, .. } => (beside(session, stream)?, Vec::new()),
        };
        Ok(HostResult::Ran(Box::new(HostRan {
            late_ns: u64::try_from(late.as_nanos()).unwrap_or(u64::MAX),
            elapsed_s: start.elapsed().as_secs_f64(),
            executions,
            queries: checked(session, queries)?,
            audit_before: ready.audit_before,
            audit_after: session.audit()?,
        })))
    }

    fn loaded(&self) -> HostResult {
        let topology = &self.plan().topology;
        let tables = self.session.data.tables.iter();
        HostResult::Loaded(Box::new(HostLoaded {
            card: host_card(topology, &Environment::read(&topology.root, topology)),
            threads: u32::try_from(self.plan().threads).unwrap_or(u32::MAX),
            column_bytes: tables.map(|table| table.size_bytes()).sum(),
        }))
    }
}

/// Times of a query, and the batches of its last execution.
struct Timed {
    times_ms: Vec<f64>,
    last: Vec<RecordBatch>,
}

/// Runs all queries `repeat` times, round by round: each query meets the others' load at different
/// moments, and slow changes of the machine are spread over all of them.
fn timed(session: &Session<'_>) -> Result<(u64, Vec<Timed>), RunError> {
    let (plan, mut executions) = (session.plan, 0);
    let mut all: Vec<Timed> = Vec::new();
    for _ in 0..plan.repeat {
        for (index, (query, planned)) in plan.queries.iter().zip(&session.queries).enumerate() {
            let runner = Runner::of(&session.engine);
            let execution = measure::execute(session, runner, query, planned)?;
            let time_ms = execution.time.as_secs_f64() * 1e3;
            executions += 1;
            match all.get_mut(index) {
                Some(timed) => {
                    timed.times_ms.push(time_ms);
                    timed.last = execution.batches;
                }
                None => all.push(Timed {
                    times_ms: vec![time_ms],
                    last: execution.batches,
                }),
            }
        }
    }
    Ok((executions, all))
}

/// Runs the queries over and over until stopped, and returns how many were finished.
fn beside(session: &Session<'_>, stream: usize) -> Result<u64, RunError> {
    let mut finished = 0;
    let order = tierloom_tpc::stream_order(stream, session.queries.len());
    for index in order.into_iter().cycle() {
        let query = &session.plan.queries[index];
        let runner = Runner::of(&session.engine);
        match measure::execute(session, runner, query, &session.queries[index]) {
            Ok(_) => finished += 1,
            Err(RunError::Interrupted(_)) => break,
            Err(other) => return Err(other),
        }
    }
    Ok(finished)
}

/// The times with their answers checked, outside of the timed part.
fn checked(session: &Session<'_>, timed: Vec<Timed>) -> Result<Vec<HostQuery>, RunError> {
    let queries = session.plan.queries.iter().zip(timed);
    let one = |(query, timed): (&crate::SuiteQuery, Timed)| {
        let answer: Answer = measure::check_batches(session, query, &timed.last)?;
        Ok(HostQuery {
            query: query.id.to_owned(),
            times_ms: timed.times_ms,
            answer,
        })
    };
    queries.map(one).collect()
}
