//! Placement of a session's columns: checks and moves for `SET tierloom.placement`.
//!
//! A new policy moves columns before it becomes the session's setting. Placements of single tables
//! and columns override it until the next policy.

use super::catalog::is_temp;
use super::error::SqlError;
use super::run::Watch;
use super::session::SqlSession;

use std::sync::Arc;
use tierloom_engine::PlacedTable;
use tierloom_engine::load::column_uses;
use tierloom_memory::PlacementSpec;
use tierloom_placement::{Decision, Policy};

impl SqlSession {
    /// `SET tierloom.placement`: moves all tables.
    ///
    /// Placements of single tables and columns are cleared.
    pub(super) fn set_placement(
        &mut self,
        policy: Policy,
        watch: &dyn Watch,
    ) -> Result<(), SqlError> {
        // Created before anything moves, so that a missing profile changes nothing.
        let driver = self.driver_for(&policy)?;
        if policy.needs_heat() && self.shared.reads().is_empty() {
            return Err(SqlError::input(format!(
                "placement {policy} goes by what queries read, and none has run yet; run the queries that matter, then set it"
            )));
        }
        // Out of its slot while columns move for the new policy; put back if that fails.
        let before = self.drive.take();
        let decisions = policy.decide(&column_uses(&self.catalog.placed(), &self.shared.reads()));
        if let Err(error) = self.move_columns(&decisions, watch) {
            self.drive.put_back(before);
            return Err(error);
        }
        drop(before);
        self.settings.placement = policy;
        self.settings.placements.clear();
        self.drive.set(driver);
        Ok(())
    }

    /// `SET tierloom.placement.table[.column]`: moves a table or one of its columns.
    pub(super) fn set_placement_of(
        &mut self,
        table: &str,
        column: Option<&str>,
        value: &str,
        watch: &dyn Watch,
    ) -> Result<(), SqlError> {
        if self.drive.get().is_some() {
            return Err(SqlError::input(format!(
                "the placement of {table} is decided by adaptive placement; SET tierloom.placement to another first"
            )));
        }
        let schema = self.catalog.schema_of(table)?;
        let Some(found) = self.catalog.get(table) else {
            return Err(SqlError::input(format!(
                "{table} has no columns that could be placed"
            )));
        };
        if is_temp(&found) {
            return Err(SqlError::input(format!(
                "{table} is at the places of memory class temp; SET tierloom.memory.temp chooses them, before the table is made"
            )));
        }
        if found.columns().iter().any(|column| !column.is_movable()) {
            return Err(SqlError::input(format!(
                "{table} is in a pool, where its columns stay; load it without --pool to place it"
            )));
        }
        if let Some(column) = column
            && schema.index_of(column).is_err()
        {
            let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            return Err(SqlError::input(format!(
                "table {table} has no column {column}; it has {}",
                names.join(", ")
            )));
        }
        let name = column.map_or(table.to_owned(), |column| format!("{table}.{column}"));
        let spec: PlacementSpec = value
            .parse()
            .map_err(|e| SqlError::input(format!("tierloom.placement.{name}: {e}")))?;
        spec.resolve(&self.storage.topology)
            .map_err(SqlError::input)?;
        let decisions: Vec<Decision> = schema
            .fields()
            .iter()
            .filter(|f| column.is_none_or(|c| c == f.name()))
            .map(|f| Decision {
                column: format!("{table}.{}", f.name()),
                placement: spec.clone(),
                staged: false,
                reason: "set".into(),
            })
            .collect();
        self.move_columns(&decisions, watch)?;
        // A placement of the whole table replaces those of its columns.
        let inside = format!("{table}.");
        if column.is_none() {
            self.settings
                .placements
                .retain(|n, _| !n.starts_with(&inside));
        }
        self.settings.placements.insert(name, spec);
        Ok(())
    }

    fn move_columns(&self, decisions: &[Decision], watch: &dyn Watch) -> Result<(), SqlError> {
        for table in self.catalog.placed() {
            table.place(decisions, &self.storage.topology, watch.stop())?;
        }
        Ok(())
    }

    /// Moves the columns of a new table to where the session's policy wants them.
    ///
    /// Under a uniform placement they were loaded there.
    pub(super) fn settle(
        &self,
        table: &Arc<PlacedTable>,
        watch: &dyn Watch,
    ) -> Result<(), SqlError> {
        if matches!(self.settings.placement, Policy::Uniform(_)) {
            return Ok(());
        }
        let mut tables = self.catalog.placed();
        tables.push(Arc::clone(table));
        let decisions = self
            .settings
            .placement
            .decide(&column_uses(&tables, &self.shared.reads()));
        Ok(table.place(&decisions, &self.storage.topology, watch.stop())?)
    }
}
