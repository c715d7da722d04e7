//! Tables created by queries, in memory of class `temp`.
//!
//! If the class has places, the columns are allocated like operator memory and stay there;
//! placements and policies do not move them.

use super::error::SqlError;
use super::session::SqlSession;
use std::sync::Arc;
use tierloom_engine::load::ColumnPlacer;
use tierloom_engine::{PlacedColumn, PlacedTable};
use tierloom_memory::router::{Class, ClassBackend};
use tierloom_memory::{PageSize, Placement};

/// Where the columns of a new table are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// By the session's placement.
    Placed,
    /// At the places of class `temp`, if it has any; else by the session's placement.
    Temp,
}

impl SqlSession {
    /// The column allocator for a new table, and the placement to request from it.
    pub(super) fn placer_for(&self, home: Home) -> Result<(ColumnPlacer<'_>, Placement), SqlError> {
        if home == Home::Placed || !self.temp_has_places() {
            return Ok((self.placer(), self.first_placement()?));
        }
        let page_size = match self.page_size {
            // Huge page pools are reserved for placed tables; class memory comes from ordinary
            // pages.
            PageSize::Huge2M | PageSize::Huge1G => PageSize::Thp,
            ordinary => ordinary,
        };
        let placer = ColumnPlacer::new(
            Arc::new(ClassBackend::new(Class::TempTable)),
            &self.topology,
            page_size,
            self.settings.engine.threads,
        );
        Ok((placer, Placement::kernel_default()))
    }

    fn temp_has_places(&self) -> bool {
        let routing = self.settings.engine.routing.iter();
        let mut places = routing.flat_map(|options| &options.places);
        places.any(|(class, places)| *class == Class::TempTable && !places.is_empty())
    }

    /// Refuses to change `setting` while tables use the places of class `temp`.
    ///
    /// The tables would stay where they are but be counted at the new places.
    pub(super) fn check_no_temp_tables(&self, setting: &str) -> Result<(), SqlError> {
        let there: Vec<&str> = self
            .tables
            .iter()
            .filter(|(_, table)| is_temp(table))
            .map(|(name, _)| name.as_str())
            .collect();
        if there.is_empty() {
            return Ok(());
        }
        Err(SqlError::input(format!(
            "{setting} cannot change while tables are at the places of memory class temp ({}); DROP them first",
            there.join(", ")
        )))
    }
}

/// Whether a table is stored at the places of class `temp`.
pub(super) fn is_temp(table: &PlacedTable) -> bool {
    table.columns().iter().any(PlacedColumn::is_of_class)
}
