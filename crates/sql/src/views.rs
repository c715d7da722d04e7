//! Views that follow their tables.
//!
//! DataFusion's views keep the plan they were created with, and with it the tables of that time.
//! Here a view is planned again when a table or view that it names is created, replaced or dropped.
//! A view that can no longer be planned reports why when it is read.

use super::error::SqlError;
use super::run::Outcome;
use super::script::Piece;
use super::session::{SqlSession, said};
use super::tables::plain_name;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::logical_expr::{CreateView, DdlStatement, DropView, Expr, LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use datafusion::sql::sqlparser::tokenizer::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// The definition of a view.
pub(super) struct View {
    /// The CREATE VIEW statement.
    piece: Piece,
    /// Tables and views that it names.
    names: BTreeSet<String>,
}

pub(super) type Views = BTreeMap<String, View>;

impl SqlSession {
    /// `CREATE VIEW`; refuses views that read themselves, directly or through others.
    pub(super) fn create_view(
        &mut self,
        view: CreateView,
        piece: &Piece,
        start: Instant,
    ) -> Result<Outcome, SqlError> {
        let name = plain_name(&view.name)?.to_owned();
        if view.temporary {
            return Err(SqlError::input(
                "every view lasts as long as this session; leave out TEMPORARY",
            ));
        }
        self.check_view(&name, view.or_replace)?;
        let names = self.names_in(piece, &name)?;
        if names.contains(&name) || names.iter().any(|n| self.readers_of(&name).contains(n)) {
            return Err(SqlError::input(format!("view {name} would read itself")));
        }
        self.register_view(&name, view)?;
        let piece = piece.clone();
        self.views.insert(name.clone(), View { piece, names });
        self.bind_views(&name);
        Ok(said(format!("view {name}"), start))
    }

    pub(super) fn drop_view(
        &mut self,
        view: DropView,
        start: Instant,
    ) -> Result<Outcome, SqlError> {
        let name = plain_name(&view.name)?.to_owned();
        let known = self.views.contains_key(&name);
        if !known {
            let found = self.tables().into_iter().find(|t| t.name == name);
            return match found {
                Some(info) => Err(SqlError::input(format!(
                    "{name} is a {}; it cannot be dropped as a view",
                    info.kind
                ))),
                None if view.if_exists => Ok(said(format!("there is no view {name}"), start)),
                None => Err(SqlError::input(format!("there is no view {name}"))),
            };
        }
        self.engine
            .context()
            .deregister_table(TableReference::bare(name.as_str()))
            .map_err(|e| SqlError::running(&e))?;
        self.views.remove(&name);
        self.bind_views(&name);
        Ok(said(format!("dropped view {name}"), start))
    }

    fn check_view(&self, name: &str, replace: bool) -> Result<(), SqlError> {
        let found = self.tables().into_iter().find(|t| t.name == name);
        match found {
            Some(info) if info.kind != "view" || !replace => Err(SqlError::input(format!(
                "there is a {} {name} already; choose another name",
                info.kind
            ))),
            _ => Ok(()),
        }
    }

    /// Plans the views that read `changed` again, in dependency order, and all prepared statements.
    ///
    /// Also clears the plan cache.
    pub(super) fn bind_views(&self, changed: &str) {
        self.engine.forget_plans();
        for name in self.readers_of(changed) {
            let Some(view) = self.views.get(&name) else {
                continue;
            };
            let bound = self.plan_view(&view.piece);
            if let Err(error) = bound.and_then(|plan| self.register_view(&name, plan)) {
                self.break_view(&name, &error);
            }
        }
        self.prepare_again();
    }

    /// Plans prepared statements again, which hold the tables they were created with.
    ///
    /// One that can no longer be planned is unknown until it can be.
    fn prepare_again(&self) {
        let context = self.engine.context().clone();
        self.engine.handle().block_on(async {
            for (name, text) in &self.prepared {
                // Fails if the statement could not be planned the last time, which does not matter.
                let _ = context.sql(&format!("DEALLOCATE \"{name}\"")).await;
                let state = context.state();
                if let Ok(parsed) = self.engine.parse(text)
                    && let Ok(plan) = state.statement_to_plan(parsed).await
                {
                    let _ = context.execute_logical_plan(plan).await;
                }
            }
        });
    }

    fn plan_view(&self, piece: &Piece) -> Result<CreateView, SqlError> {
        match self.logical(self.parse(piece)?)? {
            LogicalPlan::Ddl(DdlStatement::CreateView(view)) => Ok(view),
            _ => Err(SqlError::failed("it is no view any more")),
        }
    }

    fn register_view(&self, name: &str, mut view: CreateView) -> Result<(), SqlError> {
        view.or_replace = true;
        view.name = TableReference::bare(name);
        let context = self.engine.context().clone();
        let plan = LogicalPlan::Ddl(DdlStatement::CreateView(view));
        self.engine
            .handle()
            .block_on(context.execute_logical_plan(plan))
            .map(drop)
            .map_err(|e| SqlError::planning(&e))
    }

    /// Replaces a view by a provider that reports why it cannot be read.
    fn break_view(&self, name: &str, error: &SqlError) {
        let context = self.engine.context();
        let reference = || TableReference::bare(name);
        let Ok(Some(old)) = context.deregister_table(reference()) else {
            return;
        };
        let broken = BrokenView {
            schema: old.schema(),
            why: format!("view {name} cannot be read any more: {error}"),
        };
        // The name was freed above, so registering cannot fail.
        let _ = context.register_table(reference(), Arc::new(broken));
    }

    /// The views that read `name`, directly or through others, in dependency order.
    fn readers_of(&self, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut waiting: BTreeSet<&str> = self.views.keys().map(String::as_str).collect();
        let mut reach: BTreeSet<&str> = BTreeSet::from([name]);
        loop {
            let more: Vec<&str> = waiting
                .iter()
                .filter(|v| {
                    self.views[**v]
                        .names
                        .iter()
                        .any(|n| reach.contains(n.as_str()))
                })
                .copied()
                .collect();
            if more.is_empty() {
                break;
            }
            for view in more {
                waiting.remove(view);
                reach.insert(view);
            }
        }
        reach.remove(name);
        // Topological order: take views whose remaining dependencies have all been taken.
        while !reach.is_empty() {
            let ready: Vec<&str> = reach
                .iter()
                .filter(|v| {
                    self.views[**v]
                        .names
                        .iter()
                        .all(|n| !reach.contains(n.as_str()))
                })
                .copied()
                .collect();
            if ready.is_empty() {
                break;
            }
            for view in ready {
                reach.remove(view);
                found.push(view.to_owned());
            }
        }
        found
    }

    /// The tables and views that the statement of view `own` names.
    fn names_in(&self, piece: &Piece, own: &str) -> Result<BTreeSet<String>, SqlError> {
        let no_query = || SqlError::failed(format!("view {own} has no query"));
        let Parsed::Statement(ast) = self.parse(piece)? else {
            return Err(no_query());
        };
        let Ast::CreateView(view) = *ast else {
            return Err(no_query());
        };
        let query = Parsed::Statement(Box::new(Ast::Query(view.query)));
        let state = self.engine.context().state();
        let names = state
            .resolve_table_references(&query)
            .map_err(|e| SqlError::planning(&e))?;
        Ok(names.iter().map(|n| n.table().to_owned()).collect())
    }

    /// Upper bound of the nesting depth of a statement, including the views that it names.
    pub(super) fn levels_of(&self, piece: &Piece) -> usize {
        if self.views.is_empty() {
            return piece.levels;
        }
        let words = piece.tokens.iter().filter_map(|t| match &t.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
            Token::Word(word) => Some(word.value.clone()),
            _ => None,
        });
        let mut levels = piece.levels;
        let mut waiting: Vec<String> = words.collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = waiting.pop() {
            if let Some(view) = self.views.get(&name)
                && seen.insert(name)
            {
                // The view's subquery and alias add levels to the plan as well.
                levels += view.piece.levels + 3;
                waiting.extend(view.names.iter().cloned());
            }
        }
        levels
    }
}

/// A view whose statement can no longer be planned.
#[derive(Debug)]
struct BrokenView {
    schema: SchemaRef,
    why: String,
}

#[async_trait]
impl TableProvider for BrokenView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan_err!("{}", self.why)
    }
}
