//! Statements that DataFusion executes itself and whose effect lasts as long as its engine: they
//! are kept here and run again on a new one.

use super::error::SqlError;
use datafusion::common::Result;
use datafusion::logical_expr::{LogicalPlan, Statement};
use std::collections::BTreeMap;
use tierloom_engine::Engine;
use tierloom_planner::whole_plan;

/// Settings and prepared statements, by their text.
#[derive(Default)]
pub(super) struct Replay {
    /// `SET datafusion...` statements in their order.
    settings: Vec<String>,
    /// Prepared statements by name.
    prepared: BTreeMap<String, String>,
}

/// The lasting effect of a statement.
pub(super) enum LastingEffect {
    Setting,
    Prepared(String),
    Deallocated(String),
    Nothing,
}

impl LastingEffect {
    pub fn of(logical: &LogicalPlan) -> Self {
        let LogicalPlan::Statement(statement) = logical else {
            return LastingEffect::Nothing;
        };
        match statement {
            Statement::SetVariable(_) | Statement::ResetVariable(_) => LastingEffect::Setting,
            Statement::Prepare(p) => LastingEffect::Prepared(p.name.clone()),
            Statement::Deallocate(d) => LastingEffect::Deallocated(d.name.clone()),
            _ => LastingEffect::Nothing,
        }
    }
}

impl Replay {
    /// Records the effect of the statement `text`.
    pub fn remember(&mut self, effect: LastingEffect, text: &str) {
        match effect {
            LastingEffect::Setting => self.settings.push(text.to_owned()),
            LastingEffect::Prepared(name) => {
                self.prepared.insert(name, text.to_owned());
            }
            LastingEffect::Deallocated(name) => {
                self.prepared.remove(&name);
            }
            LastingEffect::Nothing => {}
        }
    }

    /// The text of a prepared statement.
    pub fn prepared(&self, name: &str) -> Option<&str> {
        self.prepared.get(name).map(String::as_str)
    }

    /// Runs all of them on a new engine that has the tables.
    pub fn run(&self, engine: &Engine) -> std::result::Result<(), SqlError> {
        // In order: a later SET may override an earlier one.
        for statement in &self.settings {
            execute(engine, statement).map_err(|e| SqlError::running(&e))?;
        }
        for statement in self.prepared.values() {
            // The tables that it names may be gone. Then it stays unknown, as it was on the old
            // engine.
            let _ = execute(engine, statement);
        }
        Ok(())
    }

    /// Plans prepared statements again, which hold the tables they were created with.
    ///
    /// One that can no longer be planned is unknown until it can be.
    pub fn prepare_again(&self, engine: &Engine) {
        for (name, text) in &self.prepared {
            // Fails if the statement could not be planned the last time, which does not matter.
            let _ = execute(engine, &format!("DEALLOCATE \"{name}\""));
            let _ = execute(engine, text);
        }
    }
}

/// Executes a statement that returns no rows.
fn execute(engine: &Engine, text: &str) -> Result<()> {
    let context = engine.context();
    engine.handle().block_on(async {
        let plan = whole_plan(&context.state(), engine.parse(text)?).await?;
        context.execute_logical_plan(plan).await.map(drop)
    })
}
