//! Views that follow their tables.
//!
//! DataFusion's views keep the plan they were created with, and with it the tables of that time.
//! Here a view is planned again when a table or view that it names is created, replaced or dropped.
//! A view that can no longer be planned reports why when it is read.

use super::error::SqlError;
use super::planner::{Planner, parse};
use super::script::{Piece, split};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::logical_expr::{CreateView, DdlStatement, LogicalPlan, TableType};
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{Ident, Statement as Ast};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tierloom_engine::scan_at_once;

/// The definition of a view.
pub(super) struct View {
    /// The CREATE VIEW statement.
    piece: Piece,
    /// Tables and views that it names.
    names: BTreeSet<String>,
}

/// The views of an engine by name, shared by its sessions.
#[derive(Default, Clone)]
pub(super) struct Views(Arc<Mutex<BTreeMap<String, View>>>);

impl Views {
    pub fn contains(&self, name: &str) -> bool {
        self.lock().contains_key(name)
    }

    pub fn remove(&mut self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, View>> {
        // Views are inserted and removed whole, so a panic elsewhere leaves the map consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `CREATE VIEW`; refuses views that read themselves, directly or through others.
    ///
    /// Returns the name, whose readers are still as before.
    pub fn create(
        &mut self,
        planner: Planner<'_>,
        view: CreateView,
        piece: &Piece,
    ) -> Result<String, SqlError> {
        let name = planner.catalog().key(&view.name)?;
        if view.temporary {
            return Err(SqlError::input(
                "every view lasts as long as this session; leave out TEMPORARY",
            ));
        }
        match planner.catalog().info(&name) {
            Some(info) if info.kind != "view" || !view.or_replace => {
                return Err(SqlError::input(format!(
                    "there is a {} {name} already; choose another name",
                    info.kind
                )));
            }
            _ => {}
        }
        let names = names_in(planner, piece, &name)?;
        if names.contains(&name) || names.iter().any(|n| self.readers_of(&name).contains(n)) {
            return Err(SqlError::input(format!("view {name} would read itself")));
        }
        register(planner, &name, view)?;
        let piece = piece.clone();
        self.lock().insert(name.clone(), View { piece, names });
        Ok(name)
    }

    /// Gives a view another name. Its readers are still as before.
    ///
    /// # Errors
    /// The name that it had is that of no view.
    pub fn rename(&mut self, planner: Planner<'_>, old: &str, new: &str) -> Result<(), SqlError> {
        let catalog = planner.catalog();
        let none = || SqlError::input(format!("there is no view {old}"));
        let piece = self.lock().get(old).map(|view| view.piece.clone());
        let piece = named(planner, &piece.ok_or_else(none)?, &catalog.reference(new))?;
        let context = catalog.engine().context();
        let provider = context
            .deregister_table(catalog.reference(old))
            .map_err(|e| SqlError::running(&e))?;
        let planned = plan(planner, &piece).and_then(|view| register(planner, new, view));
        if let (Err(_), Some(broken)) = (planned, provider) {
            // One that cannot be read keeps the reason, and can have another name all the same.
            let moved = context.register_table(catalog.reference(new), broken);
            moved.map_err(|e| SqlError::running(&e))?;
        }
        let mut views = self.lock();
        if let Some(view) = views.remove(old) {
            views.insert(new.to_owned(), View { piece, ..view });
        }
        Ok(())
    }

    /// Plans the views that read `changed` again, in dependency order.
    pub fn bind(&self, changed: &str, planner: Planner<'_>) {
        for name in self.readers_of(changed) {
            let piece = self.lock().get(&name).map(|view| view.piece.clone());
            let Some(piece) = piece else { continue };
            let bound = plan(planner, &piece);
            if let Err(error) = bound.and_then(|plan| register(planner, &name, plan)) {
                break_view(planner, &name, &error);
            }
        }
    }

    /// The views that read `name`, directly or through others, in dependency order.
    fn readers_of(&self, name: &str) -> Vec<String> {
        let views = self.lock();
        let mut found = Vec::new();
        let mut waiting: BTreeSet<&str> = views.keys().map(String::as_str).collect();
        let mut reach: BTreeSet<&str> = BTreeSet::from([name]);
        loop {
            let more: Vec<&str> = waiting
                .iter()
                .filter(|v| views[**v].names.iter().any(|n| reach.contains(n.as_str())))
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
                .filter(|v| views[**v].names.iter().all(|n| !reach.contains(n.as_str())))
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

    /// Upper bound of the nesting depth of a statement, including the views that it names.
    pub fn levels_of(&self, piece: &Piece) -> usize {
        let views = self.lock();
        if views.is_empty() {
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
            if let Some(view) = views.get(&name)
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

/// The statement of a view with another name in it.
fn named(planner: Planner<'_>, piece: &Piece, name: &TableReference) -> Result<Piece, SqlError> {
    let no_view = || SqlError::failed("it is no view any more");
    let Parsed::Statement(ast) = parse(planner.catalog().engine(), piece)? else {
        return Err(no_view());
    };
    let Ast::CreateView(mut view) = *ast else {
        return Err(no_view());
    };
    let parts = name.schema().into_iter().chain([name.table()]);
    let parts: Vec<Ident> = parts.map(|part| Ident::with_quote('"', part)).collect();
    view.name = parts.into();
    let text = Ast::CreateView(view).to_string();
    split(&text)?.into_iter().next().ok_or_else(no_view)
}

fn plan(planner: Planner<'_>, piece: &Piece) -> Result<CreateView, SqlError> {
    match planner.logical(parse(planner.catalog().engine(), piece)?)? {
        LogicalPlan::Ddl(DdlStatement::CreateView(view)) => Ok(view),
        _ => Err(SqlError::failed("it is no view any more")),
    }
}

fn register(planner: Planner<'_>, name: &str, view: CreateView) -> Result<(), SqlError> {
    // Not by DataFusion, which first removes a view that it replaces: others may read it now.
    let coercion = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
    let plan = Arc::unwrap_or_clone(view.input);
    let plan = coercion.execute_and_check(plan, &ConfigOptions::default(), |_, _| {});
    let plan = plan.map_err(|e| SqlError::planning(&e))?;
    let provider = Arc::new(ViewTable::new(plan, view.definition));
    let catalog = planner.catalog();
    let context = catalog.engine().context();
    context
        .register_table(catalog.reference(name), provider)
        .map(drop)
        .map_err(|e| SqlError::planning(&e))
}

/// Replaces a view by a provider that reports why it cannot be read.
fn break_view(planner: Planner<'_>, name: &str, error: &SqlError) {
    let catalog = planner.catalog();
    let context = catalog.engine().context();
    let reference = || catalog.reference(name);
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

/// The tables and views that the statement of view `own` names.
fn names_in(planner: Planner<'_>, piece: &Piece, own: &str) -> Result<BTreeSet<String>, SqlError> {
    let engine = planner.catalog().engine();
    let no_query = || SqlError::failed(format!("view {own} has no query"));
    let Parsed::Statement(ast) = parse(engine, piece)? else {
        return Err(no_query());
    };
    let Ast::CreateView(view) = *ast else {
        return Err(no_query());
    };
    let query = Parsed::Statement(Box::new(Ast::Query(view.query)));
    let state = engine.context().state();
    let names = state
        .resolve_table_references(&query)
        .map_err(|e| SqlError::planning(&e))?;
    // What has no key, such as tables of `information_schema`, does not change by statements.
    let keys = names.iter().map(|name| planner.catalog().key(name));
    Ok(keys.filter_map(Result::ok).collect())
}

/// A view whose statement can no longer be planned.
#[derive(Debug)]
struct BrokenView {
    schema: SchemaRef,
    why: String,
}

impl BrokenView {
    fn plan_scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan_err!("{}", self.why)
    }
}

impl TableProvider for BrokenView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    scan_at_once!();
}
