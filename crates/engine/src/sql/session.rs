//! A session: an engine, its tables and settings, and statements run one after the other.

use super::adaptive::Drive;
use super::error::SqlError;
use super::export::BatchWriter;
use super::run::{Flow, Outcome, Sink, Timing, Watch};
use super::script::Piece;
use super::settings::Settings;
use super::statement::{Copy, Statement, recognise};
use super::whole_file::WholeFile;
use super::{WriteOptions, placement_plan, system};
use crate::session::{Engine, EngineOptions, PlannedQuery};
use crate::star;
use crate::table::PlacedTable;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tierloom_memory::{MemoryBackend, PageSize};
use tierloom_placement::Policy;
use tierloom_topology::Topology;

/// What a session begins with.
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// How the engine runs.
    pub engine: EngineOptions,
    /// The machine.
    pub topology: Topology,
    /// Page size of columns.
    pub page_size: PageSize,
    /// Where columns go.
    pub placement: Policy,
    /// Where their memory comes from.
    pub backend: Arc<dyn MemoryBackend>,
}

/// One table, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// "table", "view" or "system".
    pub kind: &'static str,
    /// Rows, where they are known.
    pub rows: Option<u64>,
}

/// A table that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Its name.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Bytes of its columns.
    pub size_bytes: u64,
}

/// One session.
///
/// A failed or stopped statement leaves tables, settings and files as they were; the next one runs.
pub struct SqlSession {
    pub(super) engine: Engine,
    pub(super) settings: Settings,
    pub(super) tables: BTreeMap<String, Arc<PlacedTable>>,
    pub(super) topology: Arc<Topology>,
    pub(super) backend: Arc<dyn MemoryBackend>,
    pub(super) page_size: PageSize,
    /// Bytes read from each column so far ("table.column").
    pub(super) reads: BTreeMap<String, u64>,
    /// `SET datafusion...` statements, which a new engine is told again.
    pub(super) told: Vec<String>,
    /// What system tables show; shared with their providers.
    pub(super) shown: Arc<Mutex<BTreeMap<String, Arc<PlacedTable>>>>,
    /// Who places data before each query, if placement adapts.
    pub(super) drive: Drive,
    /// The statement that runs, its white space in single blanks: what runs of it are known by.
    pub(super) statement: String,
}

impl SqlSession {
    /// A session without tables.
    ///
    /// # Errors
    /// Threads that cannot be started, a placement that the machine does not have.
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
            settings: Settings::new(options.engine, options.placement),
            tables: BTreeMap::new(),
            topology: Arc::new(options.topology),
            backend: options.backend,
            page_size: options.page_size,
            reads: BTreeMap::new(),
            told: Vec::new(),
            shown: Arc::default(),
            drive: Drive::default(),
            statement: String::new(),
        };
        session.prepare_engine()?;
        Ok(session)
    }

    /// Settings that every engine of a session has, and its system tables.
    pub(super) fn prepare_engine(&self) -> Result<(), SqlError> {
        let context = self.engine.context();
        {
            let state = context.state_ref();
            let mut state = state.write();
            let config = state.config_mut().options_mut();
            config.sql_parser.collect_spans = true;
            config.catalog.information_schema = true;
        }
        system::register(context, &self.shown, &self.drive).map_err(|e| SqlError::running(&e))
    }

    /// Parses a statement without running it.
    ///
    /// # Errors
    /// Bad input, with the place in the script.
    pub fn check(&self, piece: &Piece) -> Result<(), SqlError> {
        if recognise(piece)? == Statement::DataFusion {
            self.parse(piece)?;
        }
        Ok(())
    }

    /// Whether a statement gives rows to its sink, as far as its words tell.
    pub fn gives_rows(&self, piece: &Piece) -> bool {
        match recognise(piece) {
            Ok(Statement::ExplainPlacement { .. } | Statement::Show { .. }) => true,
            Ok(Statement::DataFusion) => self.parse(piece).is_ok_and(|p| is_query(&p)),
            _ => false,
        }
    }

    fn parse(&self, piece: &Piece) -> Result<Parsed, SqlError> {
        let state = self.engine.context().state();
        let dialect = state.config_options().sql_parser.dialect;
        state
            .sql_to_statement(&piece.in_place(0, piece.tokens.len()), &dialect)
            .map_err(|e| {
                // The parser has no place for what is missing at the end.
                at(SqlError::planning(&e), piece.place_of(piece.tokens.len()))
            })
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// Bad input, a failure, or [`SqlError::Interrupted`]. Nothing half-done is left.
    pub fn run(
        &mut self,
        piece: &Piece,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        self.statement(piece, sink, watch)
            .map_err(|e| at(e, piece.place))
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
                    placement_plan::explain(self, &query)?
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
            let plan = self.physical(&piece.in_place(0, piece.tokens.len()))?;
            let mut outcome = self.give_rows(&plan, start, sink, watch)?;
            if explains(&parsed) {
                outcome.message = self.notes(parsed);
            }
            return Ok(outcome);
        }
        let logical = self.logical(parsed)?;
        match logical {
            LogicalPlan::Ddl(ddl) => self.define(ddl, start, watch),
            LogicalPlan::Dml(_) => Err(SqlError::input_at(
                piece.place,
                "tables are filled once, when they are made; use CREATE OR REPLACE TABLE name AS SELECT ... to make one with other rows",
            )),
            LogicalPlan::Copy(_) => Err(SqlError::input_at(piece.place, "expected COPY ... TO")),
            other => self.other(other, piece, start, sink, watch),
        }
    }

    /// Of a statement that explains another: what became of that one's aggregations.
    fn notes(&self, parsed: Parsed) -> Option<String> {
        let logical = match self.logical(parsed).ok()? {
            LogicalPlan::Explain(explain) => explain.plan,
            LogicalPlan::Analyze(analyze) => analyze.input,
            _ => return None,
        };
        let state = self.engine.context().state();
        let plan = state.create_physical_plan(&logical);
        let plan = self.engine.handle().block_on(plan).ok()?;
        let notes: Vec<String> = star::notes(&plan)
            .into_iter()
            .map(|note| format!("star join: {note}"))
            .collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    /// Statements that DataFusion carries out itself: its settings, prepared statements.
    fn other(
        &mut self,
        logical: LogicalPlan,
        piece: &Piece,
        start: Instant,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        use datafusion::logical_expr::Statement as S;
        let keep = matches!(
            &logical,
            LogicalPlan::Statement(
                S::SetVariable(_) | S::ResetVariable(_) | S::Prepare(_) | S::Deallocate(_)
            )
        );
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
        let context = self.engine.context().clone();
        // A setting may change what planning does.
        self.engine.forget_plans();
        let plan = self.engine.handle().block_on(async {
            let frame = context.execute_logical_plan(logical).await?;
            frame.create_physical_plan().await
        });
        let plan = plan.map_err(|e| SqlError::planning(&e))?;
        if keep {
            self.told.push(piece.text.clone());
        }
        if runs {
            return self.give_rows(&plan, start, sink, watch);
        }
        Ok(said("done".into(), start))
    }

    fn give_rows(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        start: Instant,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        let mut timing = Timing {
            planning: start.elapsed(),
            ..Timing::default()
        };
        let rows = self.stream(plan, sink, watch, &mut timing)?.rows;
        Ok(Outcome {
            rows: Some(rows),
            message: None,
            timing,
        })
    }

    /// Plans a query.
    pub(super) fn physical(&self, sql: &str) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        let planned = self
            .engine
            .plan("the statement", sql)
            .map_err(|e| self.with_tables(SqlError::engine_planning(&e)))?;
        // The plan may have run before: its operators get fresh states.
        reset_plan_states(Arc::clone(planned.plan())).map_err(|e| SqlError::planning(&e))
    }

    /// The plan of a query, which is kept: running the same text next finds it.
    ///
    /// # Errors
    /// Bad input.
    pub fn plan(&self, query: &Piece) -> Result<PlannedQuery, SqlError> {
        self.engine
            .plan("the statement", &query.in_place(0, query.tokens.len()))
            .map_err(|e| self.with_tables(SqlError::engine_planning(&e)))
    }

    /// The optimised logical plan of a query.
    pub(super) fn optimised(&self, sql: &str) -> Result<LogicalPlan, SqlError> {
        let state = self.engine.context().state();
        let dialect = state.config_options().sql_parser.dialect;
        let parsed = state
            .sql_to_statement(sql, &dialect)
            .map_err(|e| SqlError::planning(&e))?;
        let logical = self.logical(parsed)?;
        state.optimize(&logical).map_err(|e| SqlError::planning(&e))
    }

    pub(super) fn logical(&self, parsed: Parsed) -> Result<LogicalPlan, SqlError> {
        let state = self.engine.context().state();
        self.engine
            .handle()
            .block_on(state.statement_to_plan(parsed))
            .map_err(|e| self.with_tables(SqlError::planning(&e)))
    }

    /// Adds the names there are to an error about a name that is not there.
    fn with_tables(&self, error: SqlError) -> SqlError {
        let SqlError::Input { place, message } = error else {
            return error;
        };
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
        let plan = self.physical(&copy.query).map_err(|error| {
            match (error, copy.table_place) {
                // The query around a table's name is ours: only the name has a place.
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
        let mut timing = Timing {
            planning: start.elapsed(),
            ..Timing::default()
        };
        let rows = self.stream(&plan, &mut file, watch, &mut timing)?.rows;
        Ok(Outcome {
            rows: None,
            message: Some(format!("wrote {rows} rows to {}", copy.path)),
            timing,
        })
    }

    /// Tables, views and system tables by name.
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
    /// Bad input: there is none of that name.
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

/// `EXPLAIN` of another statement.
fn explains(parsed: &Parsed) -> bool {
    match parsed {
        Parsed::Explain(_) => true,
        Parsed::Statement(ast) => matches!(ast.as_ref(), Ast::Explain { .. }),
        _ => false,
    }
}

/// Queries, and what answers like one.
fn is_query(parsed: &Parsed) -> bool {
    match parsed {
        Parsed::Explain(_) => true,
        Parsed::Statement(ast) => matches!(
            ast.as_ref(),
            Ast::Query(_)
                | Ast::Explain { .. }
                | Ast::ExplainTable { .. }
                | Ast::ShowTables { .. }
                | Ast::ShowColumns { .. }
                | Ast::ShowVariable { .. }
                | Ast::ShowFunctions { .. }
        ),
        _ => false,
    }
}

/// `error` at `place`, if it has none of its own.
fn at(error: SqlError, place: super::Place) -> SqlError {
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
        timing: Timing {
            running: start.elapsed(),
            ..Timing::default()
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
        timing: Timing {
            running,
            ..Timing::default()
        },
    })
}

/// Writes rows to a file that appears when all of them are in it.
struct ToFile<'a> {
    path: &'a str,
    options: WriteOptions,
    writer: Option<BatchWriter<WholeFile>>,
}

impl Sink for ToFile<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
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
