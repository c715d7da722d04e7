//! Parses and plans the running statement, with hints for its author in the errors.

use super::catalog::{Catalog, MOST_NESTED};
use super::change::ExtraTables;
use super::checks;
use super::error::SqlError;
use super::run::Watch;
use super::script::Piece;
use super::statement::is_word;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::sql::parser::Statement as Parsed;
use std::sync::Arc;
use tierloom_engine::{Engine, EngineError, PlannedQuery};
use tierloom_metrics::Kind;
use tierloom_planner::{read_statement, whole_plan};

/// The statement that a session runs.
#[derive(Default)]
pub(super) struct Running {
    /// With white space normalised: the key under which its runs are compared.
    pub text: String,
    /// Upper bound of its nesting depth, its views included.
    pub levels: usize,
    /// The session with which the table ends that it makes.
    pub owner: Option<u64>,
    /// What it was, known when its plan has run.
    pub kind: Option<Kind>,
}

/// Plans on the engine of a catalog.
#[derive(Clone, Copy)]
pub(super) struct Planner<'s> {
    catalog: &'s Catalog,
    running: &'s Running,
}

/// What an engine calls the statement in its errors.
const NAME: &str = "the statement";

/// Parses a statement, with positions in the script.
pub(super) fn parse(engine: &Engine, piece: &Piece) -> Result<Parsed, SqlError> {
    let text = as_table(piece).unwrap_or_else(|| piece.in_place(0, piece.tokens.len()));
    engine.parse(&text).map_err(|e| {
        // The parser reports no position for input that ends too early, and its own
        // limit as some token that it did not expect.
        let mut error = SqlError::planning(&e);
        if piece.levels > MOST_NESTED
            && let SqlError::Input { message, .. } = &mut error
        {
            *message =
                format!("{message} (brackets, CASE, NOT and signs may nest {MOST_NESTED} levels)");
        }
        error.or_at(piece.place_of(piece.tokens.len()))
    })
}

/// `ALTER VIEW name RENAME TO ...` as the statement about tables that the parser knows.
fn as_table(piece: &Piece) -> Option<String> {
    let is = |at: usize, word: &str| {
        let token = piece.tokens.get(at);
        token.is_some_and(|t| is_word(&t.token, word))
    };
    if !(is(0, "ALTER") && is(1, "VIEW") && (2..piece.tokens.len()).any(|at| is(at, "RENAME"))) {
        return None;
    }
    let (before, after) = (piece.in_place(0, 1), piece.source(2, piece.tokens.len()));
    Some(format!("{before} TABLE {after}"))
}

impl<'s> Planner<'s> {
    pub fn new(catalog: &'s Catalog, running: &'s Running) -> Self {
        Planner { catalog, running }
    }

    pub fn catalog(&self) -> &'s Catalog {
        self.catalog
    }

    /// Plans a query or takes its plan from the cache.
    pub fn physical(
        &self,
        sql: &str,
        watch: &dyn Watch,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        if self.catalog.elsewhere().is_some()
            && let Some(plan) = self.elsewhere(&self.read(sql)?)?
        {
            return Ok(plan);
        }
        let stop = || watch.stopped();
        let engine = self.catalog.engine();
        let planned = engine.plan_until(NAME, sql, self.running.levels, &stop);
        let planned = planned.map_err(|e| self.failed(&e))?;
        // A cached plan may have run before, so its operators need fresh state.
        reset_plan_states(Arc::clone(planned.plan())).map_err(|e| SqlError::planning(&e))
    }

    /// Plans a query and caches the plan, so that the same text finds it later.
    pub fn cached(&self, query: &Piece) -> Result<PlannedQuery, SqlError> {
        let engine = self.catalog.engine();
        engine
            .plan(NAME, &query.in_place(0, query.tokens.len()))
            .map_err(|e| self.with_tables(SqlError::engine_planning(&e)))
    }

    pub fn plan_of(
        &self,
        logical: LogicalPlan,
        watch: &dyn Watch,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        if let Some(plan) = self.elsewhere(&logical)? {
            return Ok(plan);
        }
        let stop = || watch.stopped();
        let engine = self.catalog.engine();
        let plan = engine.plan_logical(NAME, logical, self.running.levels, &stop);
        plan.map_err(|e| self.failed(&e))
    }

    pub fn optimised(&self, sql: &str, watch: &dyn Watch) -> Result<LogicalPlan, SqlError> {
        let stop = || watch.stopped();
        let engine = self.catalog.engine();
        let plan = engine.optimised(NAME, sql, self.running.levels, &stop);
        plan.map_err(|e| self.failed(&e))
    }

    /// The plan of a query as it is written.
    pub fn read(&self, sql: &str) -> Result<LogicalPlan, SqlError> {
        let engine = self.catalog.engine();
        let state = engine.context().state();
        let planned = engine.handle().block_on(read_statement(&state, sql));
        planned.map_err(|e| self.explained(SqlError::planning(&e)))
    }

    pub fn logical(&self, parsed: Parsed) -> Result<LogicalPlan, SqlError> {
        let engine = self.catalog.engine();
        let state = engine.context().state();
        let plan = engine.handle().block_on(whole_plan(&state, parsed));
        plan.map_err(|e| self.explained(SqlError::planning(&e)))
    }

    /// The plan of a statement that sees `extra` beside the session's tables.
    pub fn logical_with(
        &self,
        parsed: Parsed,
        extra: ExtraTables,
    ) -> Result<LogicalPlan, SqlError> {
        let engine = self.catalog.engine();
        let state = extra.state(engine.context())?;
        let plan = engine.handle().block_on(whole_plan(&state, parsed));
        plan.map_err(|e| self.explained(SqlError::planning(&e)))
    }

    /// The operator for a query on tables that somebody else has.
    fn elsewhere(&self, query: &LogicalPlan) -> Result<Option<Arc<dyn ExecutionPlan>>, SqlError> {
        let Some(elsewhere) = self.catalog.elsewhere() else {
            return Ok(None);
        };
        let plan = elsewhere.plan(query);
        plan.map_err(|error| self.explained(error))
    }

    fn failed(&self, error: &EngineError) -> SqlError {
        self.explained(SqlError::engine_planning(error))
    }

    /// Extends a planning error by hints for the author of the statement.
    fn explained(&self, error: SqlError) -> SqlError {
        let type_of = |column: &str| self.catalog.type_of(column);
        self.with_tables(checks::explained(error, &self.running.text, &type_of))
    }

    /// Extends an error about an unknown table by the names of the known ones.
    fn with_tables(&self, error: SqlError) -> SqlError {
        let SqlError::Input { place, message } = error else {
            return error;
        };
        // DataFusion has no error kind for an unknown table, only this text.
        let missing = message
            .strip_prefix("table 'datafusion.public.")
            .and_then(|rest| rest.strip_suffix("' not found"));
        let lost = |name: &str| self.catalog.elsewhere()?.missing(name);
        if let Some(why) = missing.and_then(lost) {
            return SqlError::Failed(why);
        }
        let message = match missing {
            Some(missing) => self.catalog.unknown(missing),
            None => message,
        };
        SqlError::Input { place, message }
    }
}
