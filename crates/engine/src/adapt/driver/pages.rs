//! Moves the pages of columns, whole or in part, and keeps track of which moves completed.
//!
//! Moves run to the end or until they are stopped; a column of which a move was incomplete is
//! marked unsettled, because its pages may no longer match its placement. What to move, and the
//! budget, are decided elsewhere.

use super::tiers::{Pages, Tiers, add, distance};
use crate::{EngineError, PlacedColumn, PlacedTable};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use tierloom_memory::{Migration, MigrationOptions, Placement, Region};
use tierloom_model::search::Weights;

/// Returns true when moving should stop.
pub(super) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// The columns of the driver's tables.
#[derive(Debug)]
pub(super) struct Columns {
    tables: Vec<Arc<PlacedTable>>,
    /// Columns whose pages may differ from their regions' placements after an incomplete move.
    unsettled: BTreeSet<String>,
}

/// A range of pages of one region.
#[derive(Debug, Clone)]
pub(super) struct PageRange {
    pub column: String,
    pub region: Arc<Region>,
    pub pages: Range<u64>,
}

/// The result of placing columns.
#[derive(Debug, Default)]
pub(super) struct Brought {
    pub moved_bytes: u64,
    /// Moves that were refused or postponed, as text.
    pub problems: Vec<String>,
}

impl Columns {
    pub fn new(tables: Vec<Arc<PlacedTable>>) -> Self {
        Columns {
            tables,
            unsettled: BTreeSet::new(),
        }
    }

    /// Replaces the tables. Columns that remain keep their unsettled mark.
    pub fn set_tables(&mut self, tables: Vec<Arc<PlacedTable>>) {
        self.tables = tables;
    }

    /// Finds the column named "table.column".
    pub fn find(&self, name: &str) -> Option<&PlacedColumn> {
        let (table, column) = name.split_once('.')?;
        let table = self.tables.iter().find(|t| t.name() == table)?;
        table.columns().iter().find(|c| c.name() == column)
    }

    /// Bytes by tier of the named columns; `None` if one of them is unsettled.
    pub fn bytes<'a>(&self, tiers: &Tiers, names: impl Iterator<Item = &'a str>) -> Option<Pages> {
        let mut sum = Pages::new();
        for name in names {
            if self.unsettled.contains(name) {
                return None;
            }
            add(&mut sum, tiers.of_column(self.find(name)?));
        }
        Some(sum)
    }

    /// Moves columns to their settled weights within `budget_bytes`.
    ///
    /// Columns that do not fit into the budget wait for a later run.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if `stop` returns true. A move that the machine refuses is
    /// reported in [`Brought::problems`], not as an error.
    pub fn bring(
        &mut self,
        wanted: &BTreeMap<String, Weights>,
        tiers: &Tiers,
        mut budget_bytes: u64,
        stop: Stop<'_>,
    ) -> Result<Brought, EngineError> {
        let mut brought = Brought::default();
        for (name, weights) in wanted {
            let regions = self.find(name).map_or(&[][..], |c| c.regions()).to_vec();
            for region in regions {
                let to = tiers.placement(weights, region.pages())?;
                let settled = !self.unsettled.contains(name);
                // An unsettled column is moved again even if its region already has the placement,
                // because some of its pages may not be there.
                if settled && region.placement() == to {
                    continue;
                }
                let now = tiers.pages(&region, &region.placement(), 0..region.pages());
                let bytes = (region.size_bytes() as f64 * distance(&now, weights)) as u64;
                if bytes > budget_bytes {
                    let problem = format!("{name} waits for the migration budget");
                    brought.problems.push(problem);
                    continue;
                }
                budget_bytes -= bytes;
                let part = PageRange {
                    column: name.clone(),
                    pages: 0..region.pages(),
                    region,
                };
                brought.moved_bytes += self.go(&part, &to, tiers, stop, &mut brought.problems)?;
            }
        }
        Ok(brought)
    }

    /// Moves some pages of a region to where `to` puts them; returns the bytes moved.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if `stop` says so.
    pub fn go(
        &mut self,
        part: &PageRange,
        to: &Placement,
        tiers: &Tiers,
        stop: Stop<'_>,
        problems: &mut Vec<String>,
    ) -> Result<u64, EngineError> {
        let (region, options) = (&part.region, MigrationOptions::default());
        let whole = part.pages == (0..region.pages());
        let begun = if whole {
            region.migrate(to, tiers.topology(), options)
        } else {
            region.migrate_part(to, part.pages.clone(), tiers.topology(), options)
        };
        let mut report = |problem: String| problems.push(format!("{}: {problem}", part.column));
        let mut migration = match begun {
            Ok(migration) => migration,
            // Nothing moved, so the column stays settled.
            Err(error) => {
                report(error.to_string());
                return Ok(0);
            }
        };
        let ended = steps(&mut migration, stop);
        let state = migration.state();
        let moved = state.moved_pages * region.page_size().bytes() as u64;
        let failed = state.failed_total_pages();
        if let Err(error) = &ended {
            report(error.to_string());
        } else if failed > 0 {
            report(format!("{failed} pages could not be moved to {to}"));
        }
        if ended.is_ok() && failed == 0 && state.finished() {
            // Only a complete move of the whole region shows that all of its pages are where its
            // placement says.
            if whole {
                self.unsettled.remove(&part.column);
            }
            return Ok(moved);
        }
        self.unsettled.insert(part.column.clone());
        // Only `stop` ends a migration before it is finished without an error.
        if !state.finished() && ended.is_ok() {
            return Err(EngineError::Interrupted);
        }
        Ok(moved)
    }

    /// Moves parts back to the placements of their regions. Runs to the end: parts are small.
    pub fn take_back(&mut self, parts: &[PageRange], tiers: &Tiers) -> Vec<String> {
        let mut problems = Vec::new();
        for part in parts {
            let to = part.region.placement();
            let before = problems.len();
            // `stop` is constantly false, so the only errors left are refused moves.
            let gone = self.go(part, &to, tiers, &|| false, &mut problems);
            if gone.is_err() || problems.len() > before {
                self.unsettled.insert(part.column.clone());
            }
        }
        problems
    }
}

/// Migrates until done or until `stop` returns true.
fn steps(
    migration: &mut Migration<'_>,
    stop: Stop<'_>,
) -> Result<(), tierloom_memory::MemoryError> {
    while !migration.state().finished() && !stop() {
        migration.step()?;
    }
    Ok(())
}

/// Pages of the codes of a range of rows, counted where they begin; `None` unless kept as codes.
pub(super) fn pages_of_rows(column: &PlacedColumn, rows: &Range<usize>) -> Option<Range<u64>> {
    let coded = column.coded()?;
    let page_bytes = coded.region().page_size().bytes();
    // A page belongs to the rows that begin in it, so adjacent ranges of rows never share one.
    let page = |row: usize| (row * coded.width().bytes()).div_ceil(page_bytes) as u64;
    let end = if rows.end >= coded.rows() {
        coded.region().pages()
    } else {
        page(rows.end)
    };
    Some(page(rows.start).min(end)..end)
}
