//! Times queries and checks their answers.
//!
//! One untimed execution per query and placement checks the answer and warms caches; the timed ones
//! follow. Which placement the data has is the caller's concern.

use super::data::{Session, failure};
use super::plan::RunPlan;
use super::workload::{RunQuery, Workload};
use crate::failure::Failure;
use crate::stop;
use sha2::{Digest, Sha256};
use std::time::Instant;
use tierloom_engine::adapt::Driver;
use tierloom_engine::answer::{row_count, to_text};
use tierloom_engine::capture::{Captured, HostCosts, capture};
use tierloom_engine::{Engine, EngineError, Execution, PlannedQuery};
use tierloom_record::{Answer, EngineKind};
use tierloom_workloads::ssb;

/// Executions of one query that are captured for the model; more would only take memory.
const MOST_CAPTURED: usize = 100;

/// The repeated executions of one query under one placement by one engine.
pub struct Measured {
    pub query: RunQuery,
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
pub fn first_pass(
    plan: &RunPlan,
    session: &Session,
    host: &HostCosts,
) -> Result<Vec<Captured>, Failure> {
    let run = |(query, planned): (&RunQuery, &PlannedQuery)| {
        let execution = execute(Runner::of(&session.engine), query, planned)?;
        check(plan, query, &execution)?;
        Ok(capture(&execution, host))
    };
    plan.queries.iter().zip(&session.queries).map(run).collect()
}

/// Times one query under the data's present placement, alternating with the baseline if there is
/// one.
///
/// Also returns what stopped the repeats, if anything did: executions finished before are kept.
///
/// # Errors
/// A failing query, a wrong answer, or an interruption before anything was timed.
pub fn query(
    plan: &RunPlan,
    session: &Session,
    index: usize,
    placement: &str,
    host: &HostCosts,
    driver: Option<&Driver>,
) -> Result<(Vec<Measured>, Option<Failure>), Failure> {
    let query = &plan.queries[index];
    let runner = Runner {
        engine: &session.engine,
        driver,
    };
    let mut ours = started(
        plan,
        runner,
        query,
        &session.queries[index],
        placement,
        EngineKind::Tierloom,
    )?;
    let mut plain = match &session.baseline {
        Some((engine, planned)) => Some((
            engine,
            &planned[index],
            started(
                plan,
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
        let execution = execute(runner, query, &session.queries[index])?;
        ours.times_ms.push(execution.time.as_secs_f64() * 1e3);
        if ours.captured.len() < MOST_CAPTURED {
            ours.captured.push(capture(&execution, host));
        }
        if let Some((engine, planned, measured)) = &mut plain {
            let execution = execute(Runner::of(engine), query, planned)?;
            measured.times_ms.push(execution.time.as_secs_f64() * 1e3);
        }
        Ok(())
    };
    let mut stopped = (0..plan.repeat).try_for_each(|_| once()).err();
    // Timed under one placement only, since it doubles the executions.
    if stopped.is_none() && placement == session.loaded_as {
        stopped = from_text(plan.repeat, &session.engine, &mut ours).err();
        if let (None, Some((engine, _, plain))) = (&stopped, &mut plain) {
            stopped = from_text(plan.repeat, engine, plain).err();
        }
    }
    let both = [Some(ours), plain.map(|(_, _, m)| m)].into_iter().flatten();
    Ok((both.filter(|m| !m.times_ms.is_empty()).collect(), stopped))
}

/// Times a query from its text to its answer, as a client would.
fn from_text(repeat: u32, engine: &Engine, measured: &mut Measured) -> Result<(), Failure> {
    let query = measured.query.clone();
    for _ in 0..repeat {
        let start = Instant::now();
        let planned = engine
            .plan(query.id, &query.sql)
            .map_err(|e| failure(e, "while running queries"))?;
        let execution = execute(Runner::of(engine), &query, &planned)?;
        measured.text_ms.push(start.elapsed().as_secs_f64() * 1e3);
        // The batches are freed outside the timed part.
        drop(execution);
    }
    Ok(())
}

/// Runs one untimed execution and checks its answer.
fn started(
    plan: &RunPlan,
    runner: Runner<'_>,
    query: &RunQuery,
    planned: &PlannedQuery,
    placement: &str,
    kind: EngineKind,
) -> Result<Measured, Failure> {
    let execution = execute(runner, query, planned)?;
    let answer = check(plan, query, &execution)?;
    Ok(Measured {
        query: query.clone(),
        placement: placement.into(),
        engine: kind,
        times_ms: Vec::new(),
        text_ms: Vec::new(),
        plan_ms: planned.planning.as_secs_f64() * 1e3,
        answer,
        captured: Vec::new(),
    })
}

/// Runs a planned query once.
///
/// # Errors
/// A failing query, or an interruption.
pub fn execute(
    runner: Runner<'_>,
    query: &RunQuery,
    planned: &PlannedQuery,
) -> Result<Execution, Failure> {
    runner
        .run(query.id, planned, &stop::requested)
        .map_err(|e| failure(e, "while running queries"))
}

/// Compares an answer with the stored one of an independent engine, if one exists for this data.
///
/// # Errors
/// A wrong answer.
pub fn check(plan: &RunPlan, query: &RunQuery, execution: &Execution) -> Result<Answer, Failure> {
    let text = to_text(&execution.batches).map_err(Failure::runtime)?;
    let unchecked = match &plan.workload {
        Workload::Ssb(config) => check_ssb(config, query, &text)?,
        Workload::Tpc { .. } => super::tpc::check(&plan.workload, query, &execution.batches)?,
    };
    Ok(Answer {
        rows: row_count(&execution.batches),
        digest: digest(&text),
        checked: unchecked.is_none(),
        check: unchecked
            .unwrap_or_else(|| "equals DuckDB's stored answer on the same data".to_owned()),
    })
}

/// The reason why the answer could not be checked; `None` if it was checked and is right.
fn check_ssb(
    config: &ssb::SsbConfig,
    query: &RunQuery,
    text: &str,
) -> Result<Option<String>, Failure> {
    let Some(golden) = ssb::golden_answer(config, query.id) else {
        return Ok(Some(format!(
            "no stored answer for scale factor {} and seed {}; stored are scale factors 0.01, 0.1 and 1 with seed 1",
            config.scale_factor, config.seed
        )));
    };
    if same_rows(golden, text) {
        return Ok(None);
    }
    Err(Failure::Runtime(format!(
        "{} answers wrongly (its lines: {}, DuckDB's on the same data: {}); first difference:\n{}",
        query.id,
        text.lines().count(),
        golden.lines().count(),
        first_difference(golden, text)
    )))
}

/// Whether two answers are equal; one without rows may lack its header, since an engine may return
/// no batch.
fn same_rows(expected: &str, got: &str) -> bool {
    expected == got || (got.is_empty() && expected.lines().count() == 1)
}

fn first_difference(expected: &str, got: &str) -> String {
    let longest = expected.lines().count().max(got.lines().count());
    let line = |text: &str, index: usize| text.lines().nth(index).unwrap_or("(nothing)").to_owned();
    (0..longest)
        .map(|i| (line(expected, i), line(got, i)))
        .find(|(e, g)| e != g)
        .map(|(e, g)| format!("  expected {e}\n  got      {g}"))
        .unwrap_or_default()
}

/// The first 16 hex digits of the SHA-256 of the answer's text.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
