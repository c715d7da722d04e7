//! Migrates the pages of a region to another placement while the region is in use.
//!
//! A migration goes through the region in batches: it queries the node of each page, moves the
//! misplaced ones with `move_pages`, and retries busy ones. The kernel keeps the contents, so
//! readers and writers continue. Pages that cannot be moved are counted by errno and left where
//! they are.

mod clock;
mod state;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tierloom_topology::{NodeId, Topology};

use crate::backend::{PageState, Placing};
use crate::placement::PlacementSpec;
use crate::region::{nodes_have_room, placement_nodes};
use crate::sys::base_page_bytes;
use crate::{MIB, MemoryError, PageSize, Placement, Region};
pub use clock::{Clock, FakeClock, SystemClock};
pub use state::MigrationState;

/// Longest single sleep, so that a cancel is noticed soon.
const MAX_SLEEP: Duration = Duration::from_millis(50);
/// A rate-limited batch is at most this part of a second's bytes, so that the traffic is even.
const BATCHES_PER_SECOND: u64 = 20;

/// Rate, batch size and retries of a migration.
#[derive(Debug, Clone)]
pub struct MigrationOptions {
    /// Most bytes to move per second; `None` for no limit.
    pub max_bytes_per_s: Option<u64>,
    /// Pages per step; 0 for 4 MiB worth of pages.
    pub batch_pages: u64,
    /// Retries, within the step, of a page that is busy.
    pub retries: u32,
    /// Clock of the rate limit; tests use a [`FakeClock`].
    pub clock: Arc<dyn Clock>,
}

impl Default for MigrationOptions {
    fn default() -> Self {
        Self {
            max_bytes_per_s: None,
            batch_pages: 0,
            retries: 2,
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Pages that the step looked at.
    pub pages: u64,
    /// Pages that the step moved.
    pub moved_pages: u64,
    /// Time to wait before the next step so as to keep to the rate.
    pub wait: Duration,
    /// Whether all pages have been looked at.
    pub finished: bool,
}

/// A migration under way.
///
/// It can be dropped at any time: each page is on its old or its new node with its contents, and
/// [`Migration::state`] has where to continue.
#[derive(Debug)]
pub struct Migration<'a> {
    region: &'a Region,
    to: Placement,
    state: MigrationState,
    options: MigrationOptions,
    next_step_at: Duration,
    /// The whole region gets the placement, not only some of its pages.
    is_whole: bool,
}

impl Region {
    /// Prepares a migration of the pages to another placement.
    ///
    /// Nothing moves before the first [`Migration::step`]. The region can be read meanwhile, since
    /// the kernel keeps the contents.
    ///
    /// # Errors
    /// [`MemoryError`] if the placement names no nodes, or nodes that cannot be used or are too
    /// full.
    pub fn migrate(
        &self,
        to: &Placement,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Migration<'_>, MemoryError> {
        Migration::begin(self, to, topology, options)
    }

    /// Prepares a migration of some of the pages, to where they would be if the whole region had
    /// the placement.
    ///
    /// [`Region::placement`] does not change, so a migration of the same part to it reverts this
    /// one.
    ///
    /// # Errors
    /// Same as [`Region::migrate`], and [`MemoryError::Migration`] for pages outside the region.
    pub fn migrate_part(
        &self,
        to: &Placement,
        part: Range<u64>,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Migration<'_>, MemoryError> {
        Migration::begin_part(self, to, part, topology, options)
    }

    /// Continues an interrupted migration of this region.
    ///
    /// # Errors
    /// Same as [`Region::migrate`], and [`MemoryError::Migration`] if the state is of another
    /// region.
    pub fn resume_migration(
        &self,
        state: MigrationState,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Migration<'_>, MemoryError> {
        Migration::resume(self, state, topology, options)
    }
}

impl<'a> Migration<'a> {
    fn begin(
        region: &'a Region,
        to: &Placement,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Self, MemoryError> {
        Self::checked(
            region,
            to.clone(),
            MigrationState::new(region, to.to_string()),
            topology,
            options,
            true,
        )
    }

    /// Migrates only the pages of `part`; the region's recorded placement does not change.
    fn begin_part(
        region: &'a Region,
        to: &Placement,
        part: Range<u64>,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Self, MemoryError> {
        if part.start > part.end || part.end > region.pages() {
            return Err(MemoryError::Migration {
                name: region.name().to_owned(),
                reason: format!(
                    "pages {} to {} are not all among its {} pages",
                    part.start,
                    part.end,
                    region.pages()
                ),
            });
        }
        let mut state = MigrationState::new(region, to.to_string());
        // The state covers the part only: its end replaces the number of pages.
        state.next_page = part.start;
        state.pages_total = part.end;
        Self::checked(region, to.clone(), state, topology, options, false)
    }

    fn resume(
        region: &'a Region,
        state: MigrationState,
        topology: &Topology,
        options: MigrationOptions,
    ) -> Result<Self, MemoryError> {
        state.check(region)?;
        let to = state.to.parse::<PlacementSpec>()?.resolve(topology)?;
        Self::checked(region, to, state, topology, options, true)
    }

    fn checked(
        region: &'a Region,
        to: Placement,
        state: MigrationState,
        topology: &Topology,
        options: MigrationOptions,
        is_whole: bool,
    ) -> Result<Self, MemoryError> {
        let fail = |reason: &str| MemoryError::Migration {
            name: region.name().to_owned(),
            reason: reason.to_owned(),
        };
        if to.nodes().is_empty() {
            return Err(fail(
                "`default` names no node to move to; give a node, weights or shares",
            ));
        }
        if options.max_bytes_per_s == Some(0) {
            return Err(fail(
                "a rate of 0 bytes per second never ends; leave the rate out or give a positive one",
            ));
        }
        placement_nodes(topology, &to)?;
        match region.backend().placing() {
            Placing::Fixed { place } => {
                return Err(fail(&format!(
                    "its pages are fixed on {place}; copy them to a region in a node's memory instead"
                )));
            }
            Placing::ByClass { class } => {
                return Err(fail(&format!(
                    "its pages are where memory class {class} has its places; give the class other places and make it again"
                )));
            }
            Placing::Pool { place } => {
                return Err(fail(&format!(
                    "its pages are in pool {place}, where others may read them; load it without \
                     the pool to place it"
                )));
            }
            Placing::ByPlacement | Placing::Kernel { .. } => {}
        }
        let next_step_at = options.clock.now();
        let migration = Self {
            region,
            to,
            is_whole,
            state,
            options,
            next_step_at,
        };
        migration.check_room(topology)?;
        Ok(migration)
    }

    /// Compares the bytes that each node would receive with its free memory.
    ///
    /// Memory that leaving pages free on the way is not counted, so exchanging two full nodes is
    /// refused.
    fn check_room(&self, topology: &Topology) -> Result<(), MemoryError> {
        let mut coming: Vec<(NodeId, u64)> =
            self.to.nodes().into_iter().map(|node| (node, 0)).collect();
        let mut page = self.state.next_page;
        while page < self.state.pages_total {
            let end = (page + self.batch_pages()).min(self.state.pages_total);
            for (_, node, place) in self.look_at(page..end)? {
                if place == PageLocation::Elsewhere {
                    coming
                        .iter_mut()
                        .filter(|(known, _)| *known == node)
                        .for_each(|(_, pages)| *pages += 1);
                }
            }
            page = end;
        }
        nodes_have_room(
            self.region.backend(),
            topology,
            self.region.name(),
            self.region.page_size(),
            &coming,
        )
    }

    /// Progress so far; save it to resume the migration in another process.
    pub fn state(&self) -> &MigrationState {
        &self.state
    }

    /// Looks at the next batch of pages and moves the misplaced ones.
    ///
    /// Does not wait: see [`Step::wait`].
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] if the kernel refuses the call as a whole. Nothing of the batch is
    /// counted then, and the step can be repeated. Single pages that cannot be moved are counted by
    /// errno in [`MigrationState::failed_pages`].
    pub fn step(&mut self) -> Result<Step, MemoryError> {
        let end = (self.state.next_page + self.batch_pages()).min(self.state.pages_total);
        let pages = end - self.state.next_page;
        // Set before the first page moves: an audit during the migration then compares with the
        // target.
        if pages > 0 && self.is_whole {
            self.region.set_placement(self.to.clone());
        }
        let mut tally = Tally::default();
        let mut moves = Vec::new();
        for (offset, node, place) in self.look_at(self.state.next_page..end)? {
            match place {
                PageLocation::Right => tally.already_there += 1,
                PageLocation::Absent => tally.absent += 1,
                PageLocation::Elsewhere => moves.push((offset, node)),
                PageLocation::Unknown(errno) => tally.failed.push(errno),
            }
        }
        self.move_pages(moves, &mut tally)?;
        // After the moves, so that a step that failed can be repeated.
        self.count(end, &tally);
        self.pace(tally.moved);
        let wait = self.next_step_at.saturating_sub(self.options.clock.now());
        Ok(Step {
            pages,
            moved_pages: tally.moved,
            wait,
            finished: self.state.finished(),
        })
    }

    /// Steps until all pages are done or `cancel` is set (noticed within one batch or 50 ms),
    /// keeping to the rate.
    ///
    /// # Errors
    /// Same as [`Migration::step`]; the state stays valid.
    pub fn run_to_end(&mut self, cancel: &AtomicBool) -> Result<&MigrationState, MemoryError> {
        // Relaxed: the flag guards no other data.
        while !self.state.finished() && !cancel.load(Ordering::Relaxed) {
            let wait = self.next_step_at.saturating_sub(self.options.clock.now());
            if wait.is_zero() {
                self.step()?;
            } else {
                self.options.clock.sleep(wait.min(MAX_SLEEP));
            }
        }
        Ok(&self.state)
    }

    fn page_bytes(&self) -> u64 {
        self.region.page_size().bytes() as u64
    }

    fn batch_pages(&self) -> u64 {
        let asked = match self.options.batch_pages {
            0 => (4 * MIB as u64 / self.page_bytes()).max(1),
            asked => asked,
        };
        let smooth = self
            .options
            .max_bytes_per_s
            .map(|rate| (rate / BATCHES_PER_SECOND / self.page_bytes()).max(1));
        asked.min(smooth.unwrap_or(asked))
    }

    /// Offset, target node and current place of each page in a range.
    fn look_at(
        &self,
        pages: std::ops::Range<u64>,
    ) -> Result<Vec<(usize, NodeId, PageLocation)>, MemoryError> {
        let page_bytes = self.page_bytes();
        let wanted: Vec<(usize, NodeId)> = self
            .to
            .runs_in(self.region.pages(), self.region.start_page(), pages)
            .flat_map(|run| {
                let offset = move |page| (page * page_bytes) as usize;
                (run.first_page..run.first_page + run.pages)
                    .filter_map(move |page| Some((offset(page), run.node?)))
            })
            .collect();
        // A transparent huge page may have fallen back to base pages on different nodes, so each
        // base page is queried.
        let step_bytes = if self.region.page_size() == PageSize::Thp {
            base_page_bytes()
        } else {
            page_bytes as usize
        };
        let parts = page_bytes as usize / step_bytes;
        let offsets: Vec<usize> = wanted
            .iter()
            .flat_map(|(offset, _)| (0..parts).map(move |part| offset + part * step_bytes))
            .collect();
        let states = self
            .region
            .backend()
            .locate(self.region.mapping(), &offsets)?;
        Ok(wanted
            .into_iter()
            .zip(states.chunks(parts))
            .map(|((offset, node), states)| (offset, node, PageLocation::of(states, node)))
            .collect())
    }

    fn move_pages(
        &self,
        mut moves: Vec<(usize, NodeId)>,
        tally: &mut Tally,
    ) -> Result<(), MemoryError> {
        for attempt in 0..=self.options.retries {
            if moves.is_empty() {
                break;
            }
            let states = self.region.backend().relocate(
                self.region.mapping(),
                self.region.page_size(),
                &moves,
            )?;
            let mut again = Vec::new();
            for (page, state) in moves.into_iter().zip(states) {
                match state {
                    PageState::On(node) if node == page.1 => tally.moved += 1,
                    PageState::Absent => tally.absent += 1,
                    PageState::Failed(libc::EBUSY | libc::EAGAIN)
                        if attempt < self.options.retries =>
                    {
                        again.push(page)
                    }
                    PageState::Failed(errno) => tally.failed.push(errno),
                    // Still on another node, and no errno: the kernel gave up on the page.
                    PageState::On(_) => tally.failed.push(libc::EAGAIN),
                }
            }
            moves = again;
        }
        Ok(())
    }

    fn count(&mut self, end: u64, tally: &Tally) {
        self.state.next_page = end;
        self.state.moved_pages += tally.moved;
        self.state.already_there_pages += tally.already_there;
        self.state.absent_pages += tally.absent;
        for errno in &tally.failed {
            *self.state.failed_pages.entry(*errno).or_insert(0) += 1;
        }
    }

    /// Sets the earliest time of the next step. Idle time earns no credit: over any interval at
    /// most the rate plus one batch is moved.
    fn pace(&mut self, moved_pages: u64) {
        if let Some(rate) = self.options.max_bytes_per_s {
            let moved_bytes = moved_pages * self.page_bytes();
            let taken = Duration::from_secs_f64(moved_bytes as f64 / rate as f64);
            self.next_step_at = self.next_step_at.max(self.options.clock.now()) + taken;
        }
    }
}

/// Where a page is, relative to its target node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageLocation {
    Right,
    Absent,
    Elsewhere,
    Unknown(i32),
}

impl PageLocation {
    /// State of a page from those of its parts: any part elsewhere means that there is something to
    /// move.
    fn of(parts: &[PageState], wanted: NodeId) -> Self {
        let elsewhere = |state: &PageState| matches!(state, PageState::On(node) if *node != wanted);
        let errno = parts.iter().find_map(|state| match state {
            PageState::Failed(errno) => Some(*errno),
            _ => None,
        });
        match errno {
            _ if parts.iter().any(elsewhere) => Self::Elsewhere,
            Some(errno) => Self::Unknown(errno),
            None if parts.contains(&PageState::On(wanted)) => Self::Right,
            None => Self::Absent,
        }
    }
}

#[derive(Debug, Default)]
struct Tally {
    moved: u64,
    already_there: u64,
    absent: u64,
    failed: Vec<i32>,
}
