//! Times queries and checks their answers.
//!
//! One untimed execution per query and placement checks the answer and warms caches; the timed ones
//! follow. Which placement the data has is the caller's concern.

use super::session::Session;
use crate::{RunError, SuiteQuery};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Instant;
use tierloom_engine::adapt::Driver;
use tierloom_engine::answer::{row_count, to_text};
use tierloom_engine::capture::{Captured, HostCosts, capture};
use tierloom_engine::counting::{CounterRow, counter_rows};
use tierloom_engine::load;
use tierloom_engine::{Engine, EngineError, Execution, PlannedQuery, RecordBatch};
use tierloom_placement::ColumnUse;
use tierloom_record::{Answer, CountedRecord, EngineKind};

/// Executions of one query that are captured for the model; more would only take memory.
const MOST_CAPTURED: usize = 100;

/// Completes the message of an interruption.
const RUNNING: &str = "while running queries";

/// The repeated executions of one query under one placement by one engine.
pub struct Measured {
    pub query: SuiteQuery,
    pub placement: String,
    pub engine: EngineKind,
    /// Time of each timed execution, ms.
    pub times_ms: Vec<f64>,
    pub plan_ms: f64,
    /// Time from text to answer of each such execution, ms; empty if that was not measured.
    pub text_ms: Vec<f64>,
    pub answer: Answer,
    /// The captured work of the timed executions, up to [`MOST_CAPTURED`] (Tierloom's engine only).
    pub captured: Vec<Captured>,
    /// What was counted of an untimed execution (Tierloom's engine without a driver only).
    pub counters: Vec<CountedRecord>,
}

/// Runs queries with an engine alone, or under a driver that places data before each run.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    pub engine: &'a Engine,
    pub driver: Option<&'a Driver>,
}

impl<'a> Runner<'a> {
    pub fn of(engine: &'a Engine) -> Self {
        Runner {
            engine,
            driver: None,
        }
    }

    /// Runs a planned query once.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn run(
        &self,
        id: &str,
        planned: &PlannedQuery,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Execution, EngineError> {
        match self.driver {
            Some(driver) => driver.execute(self.engine, id, planned, stop),
            None => self.engine.execute(id, planned, stop),
        }
    }
}

/// Runs every query once, untimed.
///
/// This checks the answers, warms caches and allocators, and shows which columns are read, which
/// the placements that depend on heat need.
///
/// # Errors
/// A failing query, or an interruption.
pub fn first_pass(session: &Session<'_>, host: &HostCosts) -> Result<Vec<Captured>, RunError> {
    let run = |(query, planned): (&SuiteQuery, &PlannedQuery)| {
        let execution = execute(session, Runner::of(&session.engine), query, planned)?;
        check(session, query, &execution)?;
        Ok(capture(&execution, host))
    };
    session
        .plan
        .queries
        .iter()
        .zip(&session.queries)
        .map(run)
        .collect()
}

/// Sizes of all columns, and the bytes that the captured executions read from each.
pub fn column_uses(session: &Session<'_>, seen: &[Captured]) -> Vec<ColumnUse> {
    let mut reads: BTreeMap<String, u64> = BTreeMap::new();
    for (column, bytes) in seen.iter().flat_map(|captured| &captured.column_reads) {
        *reads.entry(column.clone()).or_default() += bytes;
    }
    load::column_uses(&session.data.tables, &reads)
}

/// Times one query under the data's present placement, alternating with the baseline if there is
/// one.
///
/// Also returns what stopped the repeats, if anything did: executions finished before are kept.
///
/// # Errors
/// A failing query, a wrong answer, or an interruption before anything was timed.
pub fn query(
    session: &Session<'_>,
    index: usize,
    placement: &str,
    host: &HostCosts,
    driver: Option<&Driver>,
) -> Result<(Vec<Measured>, Option<RunError>), RunError> {
    let query = &session.plan.queries[index];
    let runner = Runner {
        engine: &session.engine,
        driver,
    };
    let mut ours = started(
        session,
        runner,
        query,
        &session.queries[index],
        placement,
        EngineKind::Tierloom,
    )?;
    if driver.is_none() {
        ours.counters = counters(session, query, &session.queries[index], host)?;
    }
    let mut plain = match &session.baseline {
        Some((engine, planned)) => Some((
            engine,
            &planned[index],
            started(
                session,
                Runner::of(engine),
                query,
                &planned[index],
                placement,
                EngineKind::Datafusion,
            )?,
        )),
        None => None,
    };
    // Alternating instead of one engine after the other spreads slow changes of the machine (clock,
    // other load) over both.
    let mut once = || {
        let execution = execute(session, runner, query, &session.queries[index])?;
        ours.times_ms.push(execution.time.as_secs_f64() * 1e3);
        if ours.captured.len() < MOST_CAPTURED {
            ours.captured.push(capture(&execution, host));
        }
        if let Some((engine, planned, measured)) = &mut plain {
            let execution = execute(session, Runner::of(engine), query, planned)?;
            measured.times_ms.push(execution.time.as_secs_f64() * 1e3);
        }
        Ok(())
    };
    let mut stopped = (0..session.plan.repeat).try_for_each(|_| once()).err();
    // Timed under one placement only, since it doubles the executions.
    if stopped.is_none() && placement == session.loaded_as {
        stopped = from_text(session, &session.engine, &mut ours).err();
        if let (None, Some((engine, _, plain))) = (&stopped, &mut plain) {
            stopped = from_text(session, engine, plain).err();
        }
    }
    let both = [Some(ours), plain.map(|(_, _, m)| m)].into_iter().flatten();
    Ok((both.filter(|m| !m.times_ms.is_empty()).collect(), stopped))
}

/// Times a query from its text to its answer, as a client would that sends it for the first time:
/// the plan is made each time and not found in the cache.
fn from_text(
    session: &Session<'_>,
    engine: &Engine,
    measured: &mut Measured,
) -> Result<(), RunError> {
    let query = measured.query.clone();
    for _ in 0..session.plan.repeat {
        engine.forget_plans();
        let start = Instant::now();
        let planned = engine
            .plan(query.id, &query.sql)
            .map_err(|e| RunError::of_engine(e, RUNNING))?;
        let execution = execute(session, Runner::of(engine), &query, &planned)?;
        measured.text_ms.push(start.elapsed().as_secs_f64() * 1e3);
        // The batches are freed outside the timed part.
        drop(execution);
    }
    Ok(())
}

/// Runs one untimed execution and checks its answer.
fn started(
    session: &Session<'_>,
    runner: Runner<'_>,
    query: &SuiteQuery,
    planned: &PlannedQuery,
    placement: &str,
    kind: EngineKind,
) -> Result<Measured, RunError> {
    let execution = execute(session, runner, query, planned)?;
    let answer = check(session, query, &execution)?;
    Ok(Measured {
        query: query.clone(),
        placement: placement.into(),
        engine: kind,
        times_ms: Vec::new(),
        text_ms: Vec::new(),
        plan_ms: planned.planning.as_secs_f64() * 1e3,
        answer,
        captured: Vec::new(),
        counters: Vec::new(),
    })
}

/// Runs a planned query once more, untimed, and counts what its operators do.
///
/// Not the execution that is checked, which is the first: it fills caches and makes indexes.
fn counters(
    session: &Session<'_>,
    query: &SuiteQuery,
    planned: &PlannedQuery,
    host: &HostCosts,
) -> Result<Vec<CountedRecord>, RunError> {
    let stopped = || session.observer.stopped();
    let execution = session
        .engine
        .execute_counted(query.id, planned, &session.counting, &stopped)
        .map_err(|e| RunError::of_engine(e, RUNNING))?;
    let captured = capture(&execution, host);
    let rows = counter_rows(&captured, None, session.plan.threads).into_iter();
    // One reason is enough for all that this machine cannot count.
    let kept =
        rows.filter(|row| row.value.is_some() || ["busy_ns", "cycles"].contains(&&*row.quantity));
    let record = |row: CounterRow| CountedRecord {
        level: row.level.to_owned(),
        phase: row.phase,
        operator: row.operator,
        quantity: row.quantity,
        value: row.value,
        unit: row.unit,
        source: row.source.to_owned(),
        note: row.note,
    };
    Ok(kept.map(record).collect())
}

/// Runs a planned query once.
///
/// # Errors
/// A failing query, or an interruption.
pub fn execute(
    session: &Session<'_>,
    runner: Runner<'_>,
    query: &SuiteQuery,
    planned: &PlannedQuery,
) -> Result<Execution, RunError> {
    runner
        .run(query.id, planned, &|| session.observer.stopped())
        .map_err(|e| RunError::of_engine(e, RUNNING))
}

/// Compares an answer with the stored one of an independent engine, if one exists for this data.
///
/// # Errors
/// A wrong answer.
pub fn check(
    session: &Session<'_>,
    query: &SuiteQuery,
    execution: &Execution,
) -> Result<Answer, RunError> {
    check_batches(session, query, &execution.batches)
}

/// The same for the batches of an answer.
///
/// # Errors
/// A wrong answer.
pub fn check_batches(
    session: &Session<'_>,
    query: &SuiteQuery,
    batches: &[RecordBatch],
) -> Result<Answer, RunError> {
    let text = to_text(batches)?;
    let unchecked = session.plan.workload.check(query.id, batches, &text)?;
    Ok(Answer {
        rows: row_count(batches),
        digest: digest(&text),
        checked: unchecked.is_none(),
        check: unchecked
            .unwrap_or_else(|| "equals DuckDB's stored answer on the same data".to_owned()),
    })
}

/// The first 16 hex digits of the SHA-256 of the answer's text.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
