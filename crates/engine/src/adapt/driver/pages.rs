//! Moving the pages of columns, whole and in part, and knowing where they are.

use super::tiers::{Pages, Tiers, add, distance};
use crate::{EngineError, PlacedColumn, PlacedTable};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use tierloom_memory::{Migration, MigrationOptions, Placement, Region};
use tierloom_model::search::Weights;

/// When to stop moving.
pub(super) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// The columns of the driver's tables.
#[derive(Debug)]
pub(super) struct Columns {
    tables: Vec<Arc<PlacedTable>>,
    /// Columns of which some page may lie elsewhere than their regions' placements say: a move was stopped or refused half-way.
    unsettled: BTreeSet<String>,
}

/// Pages of one region.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub column: String,
    pub region: Arc<Region>,
    pub pages: Range<u64>,
}

/// What bringing columns to their places did.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// Bytes that the kernel moved.
    pub moved_bytes: u64,
    /// What did not work.
    pub problems: Vec<String>,
}

impl Columns {
    pub fn new(tables: Vec<Arc<PlacedTable>>) -> Self {
        Columns {
            tables,
            unsettled: BTreeSet::new(),
        }
    }

    /// Other tables; columns of those that are still there stay as unsettled as they are.
    pub fn set_tables(&mut self, tables: Vec<Arc<PlacedTable>>) {
        self.tables = tables;
    }

    /// The column of that name, "table.column".
    pub fn find(&self, name: &str) -> Option<&PlacedColumn> {
        let (table, column) = name.split_once('.')?;
        let table = self.tables.iter().find(|t| t.name() == table)?;
        table.columns().iter().find(|c| c.name() == column)
    }

    /// Bytes by tier of the named columns; `None` if where they are is not known.
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

    /// Moves columns to where they are wanted, as far as `budget_bytes` goes; columns that do not fit in it wait for the next time.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if `stop` says so. A move that the machine refuses is a problem told, not an error.
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
                let part = Part {
                    column: name.clone(),
                    pages: 0..region.pages(),
                    region,
                };
                brought.moved_bytes += self.go(&part, &to, tiers, stop, &mut brought.problems)?;
            }
        }
        Ok(brought)
    }

    /// Moves some pages of a region to where they would lie under `to`. Answers the bytes that were moved.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`] if `stop` says so.
    pub fn go(
        &mut self,
        part: &Part,
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
        let mut told = |problem: String| problems.push(format!("{}: {problem}", part.column));
        let mut migration = match begun {
            Ok(migration) => migration,
            // Nothing moved: it lies where it lay.
            Err(error) => {
                told(error.to_string());
                return Ok(0);
            }
        };
        let ended = steps(&mut migration, stop);
        let state = migration.state();
        let moved = state.moved_pages * region.page_size().bytes() as u64;
        let failed = state.failed_total_pages();
        if let Err(error) = &ended {
            told(error.to_string());
        } else if failed > 0 {
            told(format!("{failed} pages could not be moved to {to}"));
        }
        if ended.is_ok() && failed == 0 && state.finished() {
            if whole {
                self.unsettled.remove(&part.column);
            }
            return Ok(moved);
        }
        self.unsettled.insert(part.column.clone());
        if !state.finished() && ended.is_ok() {
            return Err(EngineError::Interrupted);
        }
        Ok(moved)
    }

    /// Brings parts back to the placements of their regions. Does not stop half-way: parts are small.
    pub fn take_back(&mut self, parts: &[Part], tiers: &Tiers) -> Vec<String> {
        let mut problems = Vec::new();
        for part in parts {
            let to = part.region.placement();
            let before = problems.len();
            // Without a wish to stop it cannot be interrupted.
            let gone = self.go(part, &to, tiers, &|| false, &mut problems);
            if gone.is_err() || problems.len() > before {
                self.unsettled.insert(part.column.clone());
            }
        }
        problems
    }
}

/// Steps to the end or until told to stop.
fn steps(
    migration: &mut Migration<'_>,
    stop: Stop<'_>,
) -> Result<(), tierloom_memory::MemoryError> {
    while !migration.state().finished() && !stop() {
        migration.step()?;
    }
    Ok(())
}

/// Pages of the codes of a range of rows: those that begin in it. `None` for a column that is not kept as codes.
pub(super) fn pages_of_rows(column: &PlacedColumn, rows: &Range<usize>) -> Option<Range<u64>> {
    let coded = column.coded()?;
    let page_bytes = coded.region().page_size().bytes();
    let page = |row: usize| (row * coded.width().bytes()).div_ceil(page_bytes) as u64;
    let end = if rows.end >= coded.rows() {
        coded.region().pages()
    } else {
        page(rows.end)
    };
    Some(page(rows.start).min(end)..end)
}
