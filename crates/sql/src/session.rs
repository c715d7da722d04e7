//! A session: an engine, its tables and settings, and statements run one after the other.
//!
//! Changing a setting may replace the engine; what DataFusion keeps per engine (settings, prepared
//! statements, registered tables) is therefore also kept here and replayed on the new one.

use super::adaptive::SharedDriver;
use super::error::SqlError;
use super::export::BatchWriter;
use super::run::{Flow, Outcome, Sink, StatementTiming, Watch};
use super::script::Piece;
use super::settings::SessionSettings;
use super::statement::{Copy, Statement, recognise};
use super::views::Views;
use super::whole_file::WholeFile;
use super::{WriteOptions, checks, placement_plan, prepared, system};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as Ast};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tierloom_engine::{Engine, EngineError, EngineOptions, PlacedTable, PlannedQuery, stack, star};
use tierloom_memory::{MemoryBackend, PageSize};
use tierloom_placement::Policy;
use tierloom_topology::Topology;

/// Initial configuration of a [`SqlSession`].
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// Threads, batch size, operators and routing of the first engine.
    pub engine: EngineOptions,
    /// Topology that placements and limits are resolved on.
    pub topology: Topology,
    /// Page size of the regions of columns.
    pub page_size: PageSize,
    /// Initial placement policy of columns; cannot be adaptive yet.
    pub placement: Policy,
    /// Source of the columns' memory.
    pub backend: Arc<dyn MemoryBackend>,
}

/// Name and kind of one table, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Name in schema `public`.
    pub name: String,
    /// "table", "view" or "system".
    pub kind: &'static str,
    /// Number of rows; `None` for views and system tables.
    pub rows: Option<u64>,
}

/// A table that was loaded or created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Name in schema `public`.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of its columns as stored.
    pub size_bytes: u64,
}

/// A SQL session.
///
/// A failed or interrupted statement leaves tables, settings and files as they were, and the
/// session stays usable.
pub struct SqlSession {
    pub(super) engine: Engine,
    pub(super) settings: SessionSettings,
    pub(super) tables: BTreeMap<String, Arc<PlacedTable>>,
    pub(super) topology: Arc<Topology>,
    pub(super) backend: Arc<dyn MemoryBackend>,
    pub(super) page_size: PageSize,
    /// Bytes read from each column so far, by "table.column".
    pub(super) reads: BTreeMap<String, u64>,
    /// `SET datafusion...` statements, replayed on a new engine.
    pub(super) set_statements: Vec<String>,
    /// Texts of prepared statements by name, replayed on a new engine.
    pub(super) prepared: BTreeMap<String, String>,
    pub(super) views: Views,
    /// Upper bound of the nesting depth of the running statement, its views included.
    pub(super) levels: usize,
    /// The tables that system tables list; shared with their providers.
    pub(super) shown: Arc<Mutex<BTreeMap<String, Arc<PlacedTable>>>>,
    /// The driver of adaptive placement, if it is on.
    pub(super) drive: SharedDriver,
    /// The running statement with white space normalised.
    ///
    /// The key under which its runs are compared.
    pub(super) statement: String,
}

/// How deep brackets, CASE, NOT and signs may nest.
const MOST_NESTED: usize = 400;

impl SqlSession {
    /// Creates a session without tables.
    ///
    /// # Errors
    /// Threads that cannot be started, a placement that the machine cannot follow, or an adaptive
    /// one (it needs a machine profile first).
    pub fn new(options: SqlOptions) -> Result<Self, SqlError> {
        super::placement::check(&options.placement, &options.topology)?;
        if matches!(options.placement, Policy::Adaptive(_)) {
            return Err(SqlError::input(format!(
                "placement {} begins with a machine profile; start with another, then SET tierloom.machine = 'NAME' and SET tierloom.placement = 'adaptive'",
                options.placement
            )));
        }
        let engine = Engine::new(options.engine.clone())?;
        let session = SqlSession {
            engine,
            settings: SessionSettings::new(options.engine, options.placement),
            tables: BTreeMap::new(),
            topology: Arc::new(options.topology),
            backend: options.backend,
            page_size: options.page_size,
            reads: BTreeMap::new(),
            set_statements: Vec::new(),
            prepared: BTreeMap::new(),
            views: Views::new(),
            levels: 0,
            shown: Arc::default(),
            drive: SharedDriver::default(),
            statement: String::new(),
        };
        session.prepare_engine()?;
        Ok(session)
    }

    /// Applies the settings that every engine of a session needs and registers the system tables.
    pub(super) fn prepare_engine(&self) -> Result<(), SqlError> {
        let context = self.engine.context();
        {
            let state = context.state_ref();
            let mut state = state.write();
            let config = state.config_mut().options_mut();
            // Gives planning errors their position in the script.
            config.sql_parser.collect_spans = true;
            // DataFusion's 50 brackets are few; planning time grows with the square of them.
            let depth = datafusion::common::config::ConfigNonZeroUsize::try_new(MOST_NESTED);
            config.sql_parser.recursion_limit = depth.map_err(|e| SqlError::running(&e))?;
            config.catalog.information_schema = true;
        }
        system::register(context, &self.shown, &self.drive).map_err(|e| SqlError::running(&e))
    }

    /// Parses a statement without running it.
    ///
    /// # Errors
    /// Bad input, with its position in the script.
    pub fn check(&self, piece: &Piece) -> Result<(), SqlError> {
        if recognise(piece)? == Statement::DataFusion {
            check_levels(piece, piece.levels)?;
            stack::with(piece.levels, || self.parse(piece).map(drop))?;
        }
        Ok(())
    }

    /// Whether a statement returns rows, judged by its syntax alone.
    pub fn gives_rows(&self, piece: &Piece) -> bool {
        match recognise(piece) {
            Ok(Statement::ExplainPlacement { .. } | Statement::Show { .. }) => true,
            Ok(Statement::DataFusion) => {
                check_levels(piece, piece.levels).is_ok()
                    && stack::with(piece.levels, || {
                        self.parse(piece).is_ok_and(|p| is_query(&p))
                    })
            }
            _ => false,
        }
    }

    pub(super) fn parse(&self, piece: &Piece) -> Result<Parsed, SqlError> {
        let text = piece.in_place(0, piece.tokens.len());
        self.engine.parse(&text).map_err(|e| {
            // The parser reports no position for input that ends too early, and its own
            // limit as some token that it did not expect.
            let mut error = SqlError::planning(&e);
            if piece.levels > MOST_NESTED
                && let SqlError::Input { message, .. } = &mut error
            {
                *message = format!(
                    "{message} (brackets, CASE, NOT and signs may nest {MOST_NESTED} levels)"
                );
            }
            at(error, piece.place_of(piece.tokens.len()))
        })
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// Bad input, a failure (including a panic in DataFusion) or [`SqlError::Interrupted`]. No
    /// partial effects remain.
    pub fn run(
        &mut self,
        piece: &Piece,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        self.levels = self.levels_of(piece);
        check_levels(piece, self.levels)?;
        let done = stack::with(self.levels, || {
            let statement = AssertUnwindSafe(|| self.statement(piece, sink, watch));
            // The state after a panic is the state that an error at the same point would leave.
            std::panic::catch_unwind(statement).unwrap_or_else(|panic| {
                let panicked = EngineError::panicked("the statement", panic.as_ref());
                Err(SqlError::from(panicked))
            })
        });
        done.map_err(|e| at(e, piece.place))
    }

    fn statement(
        &mut self,
        piece: &Piece,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        let start = Instant::now();
        let words: Vec<&str> = piece.text.split_whitespace().collect();
        self.statement = words.join(" ");
        match recognise(piece)? {
            Statement::DataFusion => self.datafusion(piece, sink, watch),
            Statement::Copy(copy) => self.copy(&copy, watch),
            Statement::Set { name, value } => {
                self.set(&name, &value, watch)?;
                let mut message = format!("tierloom.{} = {value}", name.join("."));
                if let Some(remark) = self.remark(&name) {
                    message = format!("{message}: {remark}");
                }
                Ok(said(message, start))
            }
            Statement::Show { name } => {
                let batch = self.show(name.as_deref())?;
                give(&batch, sink, start)
            }
            Statement::Analyze { table } => {
                let message = self.analyze(&table)?;
                Ok(said(message, start))
            }
            Statement::ExplainPlacement { analyze, query } => {
                let batch = if analyze {
                    placement_plan::explain_analyze(self, &query, watch)?
                } else {
                    placement_plan::explain(self, &query, watch)?
                };
                give(&batch, sink, start)
            }
        }
    }

    fn datafusion(
        &mut self,
        piece: &Piece,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        let start = Instant::now();
        let parsed = self.parse(piece)?;
        if is_query(&parsed) {
            let plan = self.physical(&piece.in_place(0, piece.tokens.len()), watch)?;
            let mut outcome = self.give_rows(&plan, start, sink, watch)?;
            if explains(&parsed) {
                outcome.message = self.notes(parsed, watch);
            }
            return Ok(outcome);
        }
        let logical = self.logical(parsed.clone())?;
        let prepare = prepared::executes(&logical).and_then(|name| self.prepared.get(name));
        let prepare = prepare.and_then(|text| self.engine.parse(text).ok());
        if let Some(query) = prepare.and_then(|p| prepared::with_parameters(&p, &parsed)) {
            let plan = self.plan_of(self.logical(query)?, watch)?;
            return self.give_rows(&plan, start, sink, watch);
        }
        match logical {
            LogicalPlan::Ddl(ddl) => self.define(ddl, piece, start, watch),
            LogicalPlan::Dml(_) => Err(SqlError::input_at(
                piece.place,
                "tables are filled once, when they are made; use CREATE OR REPLACE TABLE name AS SELECT ... to make one with other rows",
            )),
            LogicalPlan::Copy(_) => Err(SqlError::input_at(piece.place, "expected COPY ... TO")),
            other => self.other(other, piece, start, sink, watch),
        }
    }

    /// For an EXPLAIN statement, which aggregations were fused, or why not.
    fn notes(&self, parsed: Parsed, watch: &dyn Watch) -> Option<String> {
        let logical = match self.logical(parsed).ok()? {
            LogicalPlan::Explain(explain) => explain.plan,
            LogicalPlan::Analyze(analyze) => analyze.input,
            _ => return None,
        };
        let plan = self.plan_of(Arc::unwrap_or_clone(logical), watch).ok()?;
        let notes: Vec<String> = star::notes(&plan)
            .into_iter()
            .map(|note| format!("star join: {note}"))
            .collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    /// Runs statements that DataFusion executes itself: its settings and prepared statements.
    fn other(
        &mut self,
        logical: LogicalPlan,
        piece: &Piece,
        start: Instant,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        use datafusion::logical_expr::Statement as S;
        let kept = match &logical {
            LogicalPlan::Statement(S::SetVariable(_) | S::ResetVariable(_)) => {
                LastingEffect::Setting
            }
            LogicalPlan::Statement(S::Prepare(p)) => LastingEffect::Prepared(p.name.clone()),
            LogicalPlan::Statement(S::Deallocate(d)) => LastingEffect::Deallocated(d.name.clone()),
            _ => LastingEffect::Nothing,
        };
        // Of DataFusion's own statements only EXECUTE returns rows.
        let runs = !matches!(&logical, LogicalPlan::Statement(s) if !matches!(s, S::Execute(_)));
        if matches!(
            &logical,
            LogicalPlan::Statement(S::TransactionStart(_) | S::TransactionEnd(_))
        ) {
            return Err(SqlError::input_at(
                piece.place,
                "there are no transactions: every statement takes effect whole or not at all",
            ));
        }
        if let LogicalPlan::Statement(S::SetVariable(set)) = &logical {
            checks::setting(&set.variable)?;
        }
        let context = self.engine.context().clone();
        // Cached plans were made under the old settings.
        self.engine.forget_plans();
        let frame = self
            .engine
            .handle()
            .block_on(context.execute_logical_plan(logical))
            .map_err(|e| SqlError::planning(&e))?;
        // Planned here and not by the frame, so that planning can be cancelled.
        let plan = self.plan_of(frame.logical_plan().clone(), watch)?;
        self.remember(&kept, piece);
        if runs {
            return self.give_rows(&plan, start, sink, watch);
        }
        Ok(said("done".into(), start))
    }

    /// Records what has to be replayed on a new engine.
    fn remember(&mut self, kept: &LastingEffect, piece: &Piece) {
        match kept {
            LastingEffect::Setting => self.set_statements.push(piece.text.clone()),
            LastingEffect::Prepared(name) => {
                self.prepared.insert(name.clone(), piece.text.clone());
            }
            LastingEffect::Deallocated(name) => {
                self.prepared.remove(name);
            }
            LastingEffect::Nothing => {}
        }
    }

    fn give_rows(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        start: Instant,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        let mut timing = StatementTiming {
            planning: start.elapsed(),
            ..StatementTiming::default()
        };
        let rows = self.stream(plan, sink, watch, &mut timing)?.rows;
        Ok(Outcome {
            rows: Some(rows),
            message: None,
            timing,
        })
    }

    /// Plans a query or takes its plan from the cache.
    pub(super) fn physical(
        &self,
        sql: &str,
        watch: &dyn Watch,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        let planned = self
            .engine
            .plan_until("the statement", sql, self.levels, &|| watch.stopped())
            .map_err(|e| self.explained(SqlError::engine_planning(&e)))?;
        // A cached plan may have run before, so its operators need fresh state.
        reset_plan_states(Arc::clone(planned.plan())).map_err(|e| SqlError::planning(&e))
    }

    /// Plans a query and caches the plan, so that the same text finds it later.
    ///
    /// # Errors
    /// Bad input, with its position in the script.
    pub fn plan(&self, query: &Piece) -> Result<PlannedQuery, SqlError> {
        self.engine
            .plan("the statement", &query.in_place(0, query.tokens.len()))
            .map_err(|e| self.with_tables(SqlError::engine_planning(&e)))
    }

    pub(super) fn plan_of(
        &self,
        logical: LogicalPlan,
        watch: &dyn Watch,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        self.engine
            .plan_logical("the statement", logical, self.levels, &|| watch.stopped())
            .map_err(|e| self.explained(SqlError::engine_planning(&e)))
    }

    pub(super) fn optimised(&self, sql: &str, watch: &dyn Watch) -> Result<LogicalPlan, SqlError> {
        self.engine
            .optimised("the statement", sql, self.levels, &|| watch.stopped())
            .map_err(|e| self.explained(SqlError::engine_planning(&e)))
    }

    pub(super) fn logical(&self, parsed: Parsed) -> Result<LogicalPlan, SqlError> {
        let state = self.engine.context().state();
        self.engine
            .handle()
            .block_on(state.statement_to_plan(parsed))
            .map_err(|e| self.explained(SqlError::planning(&e)))
    }

    /// Extends a planning error by hints for the author of the statement.
    fn explained(&self, error: SqlError) -> SqlError {
        let type_of = |column: &str| {
            let mut tables = self.tables.values();
            tables.find_map(|table| {
                let field = table.schema().field_with_name(column).ok()?;
                Some(field.data_type().clone())
            })
        };
        self.with_tables(checks::explained(error, &self.statement, &type_of))
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
        let Some(missing) = missing else {
            return SqlError::Input { place, message };
        };
        let names: Vec<String> = self.tables().into_iter().map(|t| t.name).collect();
        SqlError::Input {
            place,
            message: format!(
                "there is no table {missing}; there are {}",
                names.join(", ")
            ),
        }
    }

    fn copy(&mut self, copy: &Copy, watch: &dyn Watch) -> Result<Outcome, SqlError> {
        let start = Instant::now();
        let plan = self.physical(&copy.query, watch).map_err(|error| {
            match (error, copy.table_place) {
                // The SELECT around a table name is ours; only the name has a position in the
                // script.
                (SqlError::Input { message, .. }, Some(place)) => {
                    SqlError::input_at(place, message)
                }
                (other, _) => other,
            }
        })?;
        let options = WriteOptions {
            format: copy.format,
            delimiter: copy.delimiter,
            header: copy.header,
            to_file: true,
        };
        let mut file = ToFile {
            path: &copy.path,
            options,
            writer: None,
        };
        let mut timing = StatementTiming {
            planning: start.elapsed(),
            ..StatementTiming::default()
        };
        let rows = self.stream(&plan, &mut file, watch, &mut timing)?.rows;
        Ok(Outcome {
            rows: None,
            message: Some(format!("wrote {rows} rows to {}", copy.path)),
            timing,
        })
    }

    /// Lists tables, views and system tables by name.
    pub fn tables(&self) -> Vec<TableInfo> {
        let names = self.engine.context().catalog("datafusion");
        let names = names.and_then(|c| c.schema("public"));
        let mut names = names.map(|s| s.table_names()).unwrap_or_default();
        names.sort();
        names
            .into_iter()
            .map(|name| match self.tables.get(&name) {
                Some(table) => TableInfo {
                    kind: "table",
                    rows: Some(table.rows() as u64),
                    name,
                },
                None if system::NAMES.contains(&name.as_str()) => TableInfo {
                    kind: "system",
                    rows: None,
                    name,
                },
                None => TableInfo {
                    kind: "view",
                    rows: None,
                    name,
                },
            })
            .collect()
    }

    /// The columns of a table or view.
    ///
    /// # Errors
    /// Bad input if there is no table of that name.
    pub fn schema_of(&self, table: &str) -> Result<SchemaRef, SqlError> {
        let context = self.engine.context().clone();
        let name = datafusion::common::TableReference::bare(table);
        let provider = self.engine.handle().block_on(context.table_provider(name));
        provider.map(|p| p.schema()).map_err(|_| {
            let names: Vec<String> = self.tables().into_iter().map(|t| t.name).collect();
            SqlError::input(format!(
                "there is no table {table}; there are {}",
                names.join(", ")
            ))
        })
    }
}

/// The lasting effect of a statement that DataFusion executes itself.
enum LastingEffect {
    Setting,
    Prepared(String),
    Deallocated(String),
    Nothing,
}

fn explains(parsed: &Parsed) -> bool {
    match parsed {
        Parsed::Explain(_) => true,
        Parsed::Statement(ast) => matches!(ast.as_ref(), Ast::Explain { .. }),
        _ => false,
    }
}

/// Refuses a statement that nests deeper than the largest stack allows.
fn check_levels(piece: &Piece, levels: usize) -> Result<(), SqlError> {
    let most = stack::most_levels();
    if levels <= most {
        return Ok(());
    }
    Err(SqlError::input_at(
        piece.place,
        format!(
            "the statement nests up to {levels} levels deep, and at most {most} are taken; a list \
             (IN, VALUES) or a table can have more elements than a chain of operators"
        ),
    ))
}

/// Whether a statement is a query or returns rows like one.
fn is_query(parsed: &Parsed) -> bool {
    match parsed {
        Parsed::Explain(_) => true,
        Parsed::Statement(ast) => match ast.as_ref() {
            // `SELECT ... INTO` creates a table and returns nothing.
            Ast::Query(query) => {
                !matches!(query.body.as_ref(), SetExpr::Select(s) if s.into.is_some())
            }
            other => answers(other),
        },
        _ => false,
    }
}

fn answers(ast: &Ast) -> bool {
    matches!(
        ast,
        Ast::Explain { .. }
            | Ast::ExplainTable { .. }
            | Ast::ShowTables { .. }
            | Ast::ShowColumns { .. }
            | Ast::ShowVariable { .. }
            | Ast::ShowFunctions { .. }
    )
}

/// Adds `place` to an error that has no position.
fn at(error: SqlError, place: super::Position) -> SqlError {
    match error {
        SqlError::Input {
            place: None,
            message,
        } => SqlError::input_at(place, message),
        other => other,
    }
}

pub(super) fn said(message: String, start: Instant) -> Outcome {
    Outcome {
        rows: None,
        message: Some(message),
        timing: StatementTiming {
            running: start.elapsed(),
            ..StatementTiming::default()
        },
    }
}

fn give(batch: &RecordBatch, sink: &mut dyn Sink, start: Instant) -> Result<Outcome, SqlError> {
    let running = start.elapsed();
    sink.begin(&batch.schema())?;
    if sink.rows(batch)? == Flow::More {
        sink.end()?;
    }
    Ok(Outcome {
        rows: Some(batch.num_rows() as u64),
        message: None,
        timing: StatementTiming {
            running,
            ..StatementTiming::default()
        },
    })
}

/// Writes rows to a file that appears under its name only when it is complete.
struct ToFile<'a> {
    path: &'a str,
    options: WriteOptions,
    writer: Option<BatchWriter<WholeFile>>,
}

impl Sink for ToFile<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        // Not before the plan runs, so that a statement that cannot be planned never touches the
        // file.
        let file = WholeFile::create(Path::new(self.path))?;
        self.writer = Some(BatchWriter::new(file, schema, self.options)?);
        Ok(())
    }

    fn rows(&mut self, batch: &RecordBatch) -> Result<Flow, SqlError> {
        if let Some(writer) = &mut self.writer {
            writer.write(batch).map_err(|e| self.named(e))?;
        }
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        writer.finish().map_err(|e| self.named(e))?.keep()
    }
}

impl ToFile<'_> {
    fn named(&self, error: SqlError) -> SqlError {
        match error {
            SqlError::Failed(text) => SqlError::failed(format!("{}: {text}", self.path)),
            other => other,
        }
    }
}
