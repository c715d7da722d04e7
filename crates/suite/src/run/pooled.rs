//! The tables of a run in a pool, for the placement `pool`.

use super::Data;
use super::session::Session;
use crate::{PlannedPlacement, RunError};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::rc::Rc;
use tierloom_engine::EngineError;
use tierloom_engine::load::LoadTimes;
use tierloom_engine::pooled::{PooledTable, Verification, attach, write};
use tierloom_placement::Policy;
use tierloom_pool::{Pool, RegionState};

/// In the note of a table in a pool: the benchmark that it is of.
const BENCHMARK: &str = "benchmark";

/// The session over the tables in the pool, which is opened when a placement first needs it.
pub struct Pooled<'a> {
    generated: &'a Session<'a>,
    pool: Option<&'a Pool>,
    session: Option<Rc<Session<'a>>>,
}

impl<'a> Pooled<'a> {
    /// For the data of `generated`.
    pub fn new(generated: &'a Session<'a>, pool: Option<&'a Pool>) -> Self {
        Pooled {
            generated,
            pool,
            session: None,
        }
    }

    /// The pool, if one is open.
    pub fn pool(&self) -> Option<&'a Pool> {
        self.pool
    }

    /// The session that `placement` is measured in, if that is not the one over generated data.
    ///
    /// # Errors
    /// Bad input: the pool has a table of the same name that no benchmark made. Otherwise those of
    /// the pool, such as too little space; it then has what it had before.
    pub fn session(
        &mut self,
        placement: &PlannedPlacement,
    ) -> Result<Option<Rc<Session<'a>>>, RunError> {
        let (Policy::Pool, Some(pool)) = (&placement.policy, self.pool) else {
            return Ok(None);
        };
        if self.session.is_none() {
            self.session = Some(Rc::new(open(self.generated, pool)?));
        }
        Ok(self.session.clone())
    }
}

fn open<'a>(generated: &Session<'a>, pool: &Pool) -> Result<Session<'a>, RunError> {
    let (plan, observer) = (generated.plan, generated.observer);
    let workload = &plan.workload;
    let note = json!({ BENCHMARK: {
        "workload": workload.id(),
        "scale_factor": workload.scale_factor(),
        "seed": workload.seed(),
        "generator_version": workload.generator_version(),
    }});
    let regions = pool.status().regions.into_iter();
    let sealed = regions.filter(|region| region.state == RegionState::Sealed);
    let known: HashSet<String> = sealed.map(|region| region.name).collect();
    let mut missing = Vec::new();
    for table in &generated.data.tables {
        if !known.contains(table.name()) || !is_same(pool, table.name(), &note)? {
            missing.push(write(pool, table.name(), table, note.clone())?);
        }
    }
    let (all, written) = (generated.data.tables.len(), missing.len());
    pool.seal_together(missing).map_err(EngineError::from)?;
    let tables = generated.data.tables.iter().map(|table| {
        let table = attach(pool, table.name(), Verification::FirstUse)?;
        // Before anything is timed: bytes are checked once.
        table.verify_all()?;
        Ok(table)
    });
    let tables: Vec<PooledTable> = tables.collect::<Result<_, EngineError>>()?;
    observer.note(&format!(
        "tables in the pool {}: {} attached, {written} written, all checked",
        pool.path().display(),
        all - written,
    ));
    let data = Data {
        tables: tables.iter().map(|t| t.table().clone()).collect(),
        times: LoadTimes::default(),
    };
    Session::over(data, plan, generated.invocation, observer)
}

/// Whether the table in the pool is of this benchmark, and whole.
fn is_same(pool: &Pool, name: &str, note: &Value) -> Result<bool, RunError> {
    let found = attach(pool, name, Verification::FirstUse)?;
    if found.note().get(BENCHMARK).is_none() {
        return Err(RunError::refused(format!(
            "the pool {} has a table {name} that no benchmark made; drop it (`tierloom pool drop`) or name another pool",
            pool.path().display(),
        )));
    }
    Ok(found.note() == note && !found.attached().is_damaged())
}
