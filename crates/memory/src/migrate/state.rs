//! Serialisable progress of a migration, so that a later process can continue it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{MemoryError, PageSize, Region};

/// Progress of a migration: pages before `next_page` are done.
///
/// Done means moved, found in place, absent, or counted as failed. The state is checked against the
/// region when a migration resumes. A repeated or stale state does no harm: pages already in place
/// are only counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationState {
    /// Name of the region.
    pub region: String,
    /// Size of the region in bytes.
    pub size_bytes: u64,
    /// Page size of the region.
    pub page_size: PageSize,
    /// The target placement, with node numbers.
    pub to: String,
    /// The first page that has not been looked at.
    pub next_page: u64,
    /// Number of pages to look at, counted from the start of the region.
    pub pages_total: u64,
    /// Pages moved so far.
    pub moved_pages: u64,
    /// Pages that were on their node already.
    pub already_there_pages: u64,
    /// Pages that were not present.
    ///
    /// When they are touched later, the policy of the touching thread places them.
    pub absent_pages: u64,
    /// Pages that could not be moved, by errno.
    ///
    /// 12 (`ENOMEM`): the node is full. 16 (`EBUSY`): busy or pinned. 13 (`EACCES`): shared with
    /// another process.
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

    /// Whether every page has been looked at.
    pub fn finished(&self) -> bool {
        self.next_page >= self.pages_total
    }

    /// Pages that could not be moved, over all errno values.
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
