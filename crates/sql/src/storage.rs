//! The memory of a session's columns: which allocator a table gets, and whether it fits.
//!
//! A load that runs out of memory would meet the kernel's OOM killer, not an error. The checks are
//! therefore conservative estimates, before and during a load.

use super::error::SqlError;
use super::settings::SessionSettings;
use std::sync::Arc;
use tierloom_engine::EngineError;
use tierloom_engine::load::ColumnPlacer;
use tierloom_memory::router::{Class, ClassBackend};
use tierloom_memory::{MemoryBackend, PageSize, Placement};
use tierloom_topology::{NodeId, Topology};

/// Memory of a column without rows.
///
/// It consists of pages of its region, its statistics, and the state of reader and plans.
const COLUMN_BYTES: u64 = 16 << 10;

/// Bytes that `columns` columns need without any row.
pub(super) fn least_bytes(columns: usize) -> u64 {
    columns as u64 * COLUMN_BYTES
}

/// Where the columns of a new table are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// By the session's placement.
    Placed,
    /// At the places of class `temp`, if it has any; else by the session's placement.
    ///
    /// The columns are then allocated like operator memory and stay there; placements and policies
    /// do not move them.
    Temp,
}

/// Where the columns of a session's tables are allocated.
#[derive(Clone)]
pub(super) struct Storage {
    pub topology: Arc<Topology>,
    pub backend: Arc<dyn MemoryBackend>,
    pub page_size: PageSize,
}

impl Storage {
    /// The column allocator for tables at the session's placement.
    pub fn placer(&self, threads: usize) -> ColumnPlacer<'_> {
        ColumnPlacer::new(
            Arc::clone(&self.backend),
            &self.topology,
            self.page_size,
            threads,
        )
    }

    /// The column allocator for a new table, and the placement to request from it.
    pub fn placer_for(
        &self,
        home: Home,
        settings: &SessionSettings,
    ) -> Result<(ColumnPlacer<'_>, Placement), SqlError> {
        let threads = settings.engine.threads;
        if home == Home::Placed || !settings.temp_has_places() {
            let placement = settings.first_placement(&self.topology)?;
            return Ok((self.placer(threads), placement));
        }
        let page_size = match self.page_size {
            // Huge page pools are reserved for placed tables; class memory comes from ordinary
            // pages.
            PageSize::Huge2M | PageSize::Huge1G => PageSize::Thp,
            ordinary => ordinary,
        };
        let backend = Arc::new(ClassBackend::new(Class::TempTable));
        let placer = ColumnPlacer::new(backend, &self.topology, page_size, threads);
        Ok((placer, Placement::kernel_default()))
    }

    /// Refuses a table of about `bytes` if the nodes of `placement` have too little free memory.
    pub fn check_memory(
        &self,
        table: &str,
        bytes: u64,
        placement: &Placement,
    ) -> Result<(), SqlError> {
        let shares = placement.shares();
        if shares.is_empty() {
            let nodes = self.topology.nodes.iter().map(|n| n.id);
            let free_bytes = nodes.map(|n| self.free_bytes(n)).sum::<Result<u64, _>>()?;
            return fits(table, bytes, "this machine", free_bytes);
        }
        for (node, share) in shares {
            let needed_bytes = (bytes as f64 * share) as u64;
            let free_bytes = self.free_bytes(node)?;
            fits(table, needed_bytes, &format!("node {node}"), free_bytes)?;
        }
        Ok(())
    }

    /// Aborts a load if the free memory could no longer take its columns.
    ///
    /// `held_bytes` is the size of the rows so far.
    ///
    /// Columns are encoded a few at a time and the rows behind them are freed, so an eighth of the
    /// rows' size is enough.
    pub fn check_room(&self, table: &str, held_bytes: u64) -> Result<(), EngineError> {
        let nodes = self.topology.nodes.iter().map(|n| n.id);
        let free_bytes: u64 = nodes.filter_map(|n| self.free_bytes(n).ok()).sum();
        if held_bytes / 8 <= free_bytes {
            return Ok(());
        }
        Err(EngineError::Table {
            table: table.into(),
            problem: format!(
                "does not fit: its rows take {:.1} GiB so far, and {:.1} GiB are left on this machine; load fewer columns or rows",
                gib(held_bytes),
                gib(free_bytes)
            ),
        })
    }

    fn free_bytes(&self, node: NodeId) -> Result<u64, SqlError> {
        // Base pages even if columns use a huge page pool: rows are first read into ordinary
        // memory.
        let capacity = self.backend.capacity(node, PageSize::Base);
        let capacity = capacity.map_err(SqlError::failed)?;
        Ok(capacity.map_or(u64::MAX, |c| c.free_bytes))
    }
}

fn fits(table: &str, needed_bytes: u64, place: &str, free_bytes: u64) -> Result<(), SqlError> {
    if needed_bytes <= free_bytes {
        return Ok(());
    }
    Err(SqlError::input(format!(
        "table {table} takes about {:.1} GiB of {place} while it is loaded, but {:.1} GiB are free there; \
         load fewer columns or rows (from smaller files), choose another --placement, or use a machine with more memory",
        gib(needed_bytes),
        gib(free_bytes)
    )))
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1u32 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_does_not_fit_is_refused_with_both_sizes_and_a_way_out() {
        assert!(fits("t", 10 << 30, "node 1", 10 << 30).is_ok());
        let message = fits("t", 11 << 30, "node 1", 10 << 30)
            .unwrap_err()
            .to_string();
        for part in [
            "table t",
            "11.0 GiB of node 1",
            "10.0 GiB are free",
            "--placement",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}
