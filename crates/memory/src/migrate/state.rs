//! What a migration remembers, so that another process start can go on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{MemoryError, PageSize, Region};

/// Progress of a migration. Pages before `next_page` are done: moved, found in place, absent, or
/// counted as failed.
///
/// Serialisable; on resuming it is checked against the region. A repeated or stale state does no
/// harm: pages that are already in place are only counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationState {
    /// Name of the region.
    pub region: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its page size.
    pub page_size: PageSize,
    /// The placement it goes to, in nodes.
    pub to: String,
    /// The first page that was not looked at yet.
    pub next_page: u64,
    /// All pages of the region.
    pub pages_total: u64,
    /// Pages that were moved.
    pub moved_pages: u64,
    /// Pages that were in place.
    pub already_there_pages: u64,
    /// Pages that were not present; they come where the thread that touches them says.
    pub absent_pages: u64,
    /// Pages that stayed where they were, by errno (12: the node is full, 16: busy or pinned, 13:
    /// shared with another process).
    pub failed_pages: BTreeMap<i32, u64>,
}

impl MigrationState {
    pub(super) fn new(region: &Region, to: String) -> Self {
        Self {
            region: region.name().to_owned(),
            size_bytes: region.size_bytes() as u64,
            page_size: region.page_size(),
            to,
            next_page: 0,
            pages_total: region.pages(),
            moved_pages: 0,
            already_there_pages: 0,
            absent_pages: 0,
            failed_pages: BTreeMap::new(),
        }
    }

    /// Whether every page was looked at.
    pub fn finished(&self) -> bool {
        self.next_page >= self.pages_total
    }

    /// Pages that could not be moved, for whatever reason.
    pub fn failed_total_pages(&self) -> u64 {
        self.failed_pages.values().sum()
    }

    pub(super) fn check(&self, region: &Region) -> Result<(), MemoryError> {
        let fits = self.region == region.name()
            && self.size_bytes == region.size_bytes() as u64
            && self.page_size == region.page_size()
            && self.pages_total == region.pages()
            && self.next_page <= self.pages_total;
        if fits {
            return Ok(());
        }
        let reason = format!(
            "the saved state is of region `{}` ({} bytes, {} pages, page {} of {}), this one has {} bytes in {} pages; start a new migration",
            self.region,
            self.size_bytes,
            self.page_size,
            self.next_page,
            self.pages_total,
            region.size_bytes(),
            region.page_size()
        );
        Err(MemoryError::Migration {
            name: region.name().to_owned(),
            reason,
        })
    }
}
