//! Runs statements one after the other.

use super::change::{is_change, returns};
use super::error::SqlError;
use super::planner::parse;
use super::replay::LastingEffect;
use super::run::{Flow, Outcome, Sink, StatementTiming, Watch, said};
use super::script::Piece;
use super::session::SqlSession;
use super::shared::changed_by;
use super::statement::{Statement, recognise};
use super::{checks, placement_plan, prepared};
use arrow::array::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as Ast};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tierloom_engine::{EngineError, stack, star};

impl SqlSession {
    /// Parses a statement without running it.
    ///
    /// # Errors
    /// Bad input, with its position in the script.
    pub fn check(&self, piece: &Piece) -> Result<(), SqlError> {
        if recognise(piece)? == Statement::DataFusion {
            check_levels(piece, piece.levels)?;
            stack::with(piece.levels, || {
                parse(self.catalog.engine(), piece).map(drop)
            })?;
        }
        Ok(())
    }

    /// Whether a statement returns rows, judged by its syntax alone.
    pub fn gives_rows(&self, piece: &Piece) -> bool {
        match recognise(piece) {
            Ok(Statement::ExplainPlacement { .. } | Statement::Show { .. }) => true,
            Ok(Statement::DataFusion) => self.reads_as(piece, |p| is_query(p) || returns(p)),
            _ => false,
        }
    }

    /// Whether a statement can be parsed and is `such`.
    pub(super) fn reads_as(&self, piece: &Piece, such: impl Fn(&Parsed) -> bool) -> bool {
        check_levels(piece, piece.levels).is_ok()
            && stack::with(piece.levels, || {
                parse(self.catalog.engine(), piece).is_ok_and(|parsed| such(&parsed))
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
        self.guarded(piece, watch, |session| {
            session.statement(piece, sink, watch)
        })
    }

    /// Runs `work` on a stack that is deep enough for the statement; a panic becomes an error.
    pub(super) fn guarded<T>(
        &mut self,
        piece: &Piece,
        watch: &dyn Watch,
        work: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.running.levels = self.views.levels_of(piece);
        check_levels(piece, self.running.levels)?;
        let done = stack::with(self.running.levels, || {
            let work = AssertUnwindSafe(|| work(self));
            // The state after a panic is the state that an error at the same point would leave.
            std::panic::catch_unwind(work).unwrap_or_else(|panic| {
                let panicked = EngineError::panicked("the statement", panic.as_ref());
                Err(SqlError::from(panicked))
            })
        });
        done.map_err(|e| self.mended(e, watch).or_at(piece.place))
    }

    /// What comes before every statement.
    pub(super) fn begin(&mut self, piece: &Piece, watch: &dyn Watch) -> Result<(), SqlError> {
        self.follow_pool(watch)?;
        self.follow_others();
        self.follow_elsewhere()?;
        let words: Vec<&str> = piece.text.split_whitespace().collect();
        self.running.text = words.join(" ");
        self.running.kind = None;
        Ok(())
    }

    fn statement(
        &mut self,
        piece: &Piece,
        sink: &mut dyn Sink,
        watch: &dyn Watch,
    ) -> Result<Outcome, SqlError> {
        self.begin(piece, watch)?;
        self.check_elsewhere(piece)?;
        let start = Instant::now();
        match recognise(piece)? {
            Statement::DataFusion => self.datafusion(piece, sink, watch),
            Statement::Copy(copy) => self.copy(&copy, watch),
            Statement::Set { name, value } => {
                self.set(&name, &value, watch)?;
                let mut message = format!("tierloom.{} = {value}", name.join("."));
                if let Some(remark) = self.drive.remark(&name) {
                    message = format!("{message}: {remark}");
                }
                Ok(said(message, start))
            }
            Statement::Show { name } => {
                let batch = self.settings.show(name.as_deref())?;
                give(&batch, sink, start)
            }
            Statement::Analyze { table } => {
                let message = self.analyze(&table)?;
                Ok(said(message, start))
            }
            Statement::Vacuum { table } => self.vacuum(&table, start, watch),
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
        let mut parsed = parse(self.catalog.engine(), piece)?;
        self.running.owner = self.take_temporary(&mut parsed)?;
        if is_query(&parsed) {
            let plan = self
                .planner()
                .physical(&piece.in_place(0, piece.tokens.len()), watch)?;
            let mut outcome = self.give_rows(&plan, start, sink, watch)?;
            if explains(&parsed) {
                outcome.message = self.notes(parsed, watch);
            }
            return Ok(outcome);
        }
        // Before planning, so that it plans with what others that changed the same have left.
        let _held = self.shared.hold(changed_by(&parsed), watch)?;
        if is_change(&parsed) {
            return self.change(&parsed, start, sink, watch);
        }
        let logical = self.planner().logical(parsed.clone())?;
        let prepare = prepared::executes(&logical).and_then(|name| self.replay.prepared(name));
        let prepare = prepare.and_then(|text| self.catalog.engine().parse(text).ok());
        if let Some(query) = prepare.and_then(|p| prepared::with_parameters(&p, &parsed)) {
            if is_change(&query) {
                let _held = self.shared.hold(changed_by(&query), watch)?;
                return self.change(&query, start, sink, watch);
            }
            let plan = self
                .planner()
                .plan_of(self.planner().logical(query)?, watch)?;
            return self.give_rows(&plan, start, sink, watch);
        }
        match logical {
            LogicalPlan::Ddl(ddl) => self.define(ddl, piece, start, watch),
            LogicalPlan::Dml(_) => Err(SqlError::input_at(
                piece.place,
                "MERGE is not part of this shell; say it in UPDATE, INSERT and DELETE",
            )),
            LogicalPlan::Copy(_) => Err(SqlError::input_at(piece.place, "expected COPY ... TO")),
            other => self.other(other, piece, start, sink, watch),
        }
    }

    /// For an EXPLAIN statement, which aggregations were fused, or why not.
    fn notes(&self, parsed: Parsed, watch: &dyn Watch) -> Option<String> {
        let logical = match self.planner().logical(parsed).ok()? {
            LogicalPlan::Explain(explain) => explain.plan,
            LogicalPlan::Analyze(analyze) => analyze.input,
            _ => return None,
        };
        let plan = self
            .planner()
            .plan_of(Arc::unwrap_or_clone(logical), watch)
            .ok()?;
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
        let kept = LastingEffect::of(&logical);
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
        let context = self.catalog.engine().context().clone();
        // Cached plans were made under the old settings.
        self.catalog.engine().forget_plans();
        let handle = self.catalog.engine().handle();
        let frame = handle
            .block_on(context.execute_logical_plan(logical))
            .map_err(|e| SqlError::planning(&e))?;
        // Planned here and not by the frame, so that planning can be cancelled.
        let plan = self
            .planner()
            .plan_of(frame.logical_plan().clone(), watch)?;
        self.replay.remember(kept, &piece.text);
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
pub(super) fn is_query(parsed: &Parsed) -> bool {
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
