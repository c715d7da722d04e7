//! Backend that simulates a machine: real bytes on the host, with any nodes, capacities and
//! failures.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierloom_topology::NodeId;

use super::{MemoryBackend, NodeCapacity, PageState, Placing};
use crate::placement::Run;
use crate::{Mapping, MemoryError, PageSize, Placement, PlacementError};

/// One call that a [`FakeBackend`] received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FakeCall {
    /// Address space was reserved for a region.
    Reserve {
        /// Name of the region.
        name: String,
        /// Size of the region in bytes.
        size_bytes: usize,
    },
    /// A run was populated, or failed to be.
    Populate(Run),
    /// Pages were to be moved: this many.
    Relocate(usize),
    /// A region was unmapped.
    Release,
}

/// Backend with a simulated page table over real anonymous memory.
///
/// Nodes fill up as on a real machine, the n-th populate or page move can be made to fail, and
/// every call is logged. Its numbers are simulated, never measurements.
#[derive(Debug, Clone)]
pub struct FakeBackend {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    free_bytes: BTreeMap<NodeId, u64>,
    interleave: Option<Placement>,
    fixed_place: Option<String>,
    drift: Option<Drift>,
    queries: u64,
    tables: HashMap<usize, Table>,
    calls: Vec<FakeCall>,
    populate_failure: Option<(u64, i32)>,
    move_failures: BTreeMap<u64, i32>,
    query_failure: Option<i32>,
    populated_runs: u64,
    moved_pages: u64,
}

/// Pages that will be found on another node from some query on.
#[derive(Debug)]
struct Drift {
    query: u64,
    pages: Range<u64>,
    node: NodeId,
}

#[derive(Debug)]
struct Table {
    page_bytes: usize,
    nodes: Vec<Option<NodeId>>,
}

impl FakeBackend {
    /// A machine with these nodes, given as number and free bytes.
    pub fn with_nodes(nodes: &[(u32, u64)]) -> Self {
        let free_bytes = nodes
            .iter()
            .map(|(node, bytes)| (NodeId(*node), *bytes))
            .collect();
        Self {
            state: Arc::new(Mutex::new(State {
                free_bytes,
                ..State::default()
            })),
        }
    }

    /// Interleaves pages over these nodes, as a policy of the kernel would ([`Placing::Kernel`]).
    ///
    /// # Errors
    /// [`PlacementError`] if the weights do not make a placement.
    pub fn interleaved(self, weights: &[(u32, u32)]) -> Result<Self, PlacementError> {
        let weights = weights
            .iter()
            .map(|(node, weight)| (NodeId(*node), *weight))
            .collect();
        self.lock().interleave = Some(Placement::weighted(weights)?);
        Ok(self)
    }

    /// Simulates device memory ([`Placing::Fixed`]): it takes nothing from the nodes, and page
    /// queries report absent pages.
    pub fn fixed_on(self, place: impl Into<String>) -> Self {
        self.lock().fixed_place = Some(place.into());
        self
    }

    /// Simulates that the kernel moves pages by itself.
    ///
    /// From the `nth` page query from now on (0 is the next one), the pages `pages` of all regions
    /// are on `node`. A later call replaces an earlier one.
    pub fn drift_at_query(&self, nth: u64, pages: Range<u64>, node: u32) {
        let mut state = self.lock();
        state.drift = Some(Drift {
            query: state.queries + nth,
            pages,
            node: NodeId(node),
        });
    }

    /// Makes the `nth` run populated from now on (0 is the next one) fail with `errno`.
    pub fn fail_populate(&self, nth: u64, errno: i32) {
        let mut state = self.lock();
        state.populate_failure = Some((state.populated_runs + nth, errno));
    }

    /// Makes the `nth` page move from now on (0 is the next one) fail once with `errno`.
    ///
    /// Calls add up: several moves can be made to fail.
    pub fn fail_move(&self, nth: u64, errno: i32) {
        let mut state = self.lock();
        let at = state.moved_pages + nth;
        state.move_failures.insert(at, errno);
    }

    /// Makes page queries fail as a whole with `errno`; `None` makes them work again.
    pub fn fail_queries(&self, errno: Option<i32>) {
        self.lock().query_failure = errno;
    }

    /// Free bytes of a node now; `None` if there is no such node.
    pub fn free_bytes(&self, node: NodeId) -> Option<u64> {
        self.lock().free_bytes.get(&node).copied()
    }

    /// All calls so far, oldest first; populates of several threads are in order of arrival.
    pub fn calls(&self) -> Vec<FakeCall> {
        self.lock().calls.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is plain numbers, valid even if a test panicked while it held the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn populate(&mut self, address: usize, run: Run) -> Result<(), i32> {
        self.calls.push(FakeCall::Populate(run));
        let number = self.populated_runs;
        self.populated_runs += 1;
        if let Some((_, errno)) = self.populate_failure.filter(|(nth, _)| *nth == number) {
            return Err(errno);
        }
        let table = self.tables.get_mut(&address).ok_or(libc::EFAULT)?;
        let page_bytes = table.page_bytes as u64;
        for page in run.first_page..run.first_page + run.pages {
            let slot = usize::try_from(page)
                .ok()
                .and_then(|page| table.nodes.get_mut(page))
                .ok_or(libc::EFAULT)?;
            if self.fixed_place.is_some() {
                continue;
            }
            let interleaved = self
                .interleave
                .as_ref()
                .and_then(|placement| placement.runs_in(u64::MAX, 0, page..page + 1).next()?.node);
            // Without a policy the kernel takes the nearest node with room: here the first one.
            let node = match run.node.or(interleaved) {
                Some(node) => node,
                None => {
                    *self
                        .free_bytes
                        .iter()
                        .find(|(_, free)| **free >= page_bytes)
                        .ok_or(libc::ENOMEM)?
                        .0
                }
            };
            let free = self.free_bytes.get_mut(&node).ok_or(libc::EINVAL)?;
            *free = free.checked_sub(page_bytes).ok_or(libc::ENOMEM)?;
            *slot = Some(node);
        }
        Ok(())
    }

    fn relocate(&mut self, address: usize, offset: usize, node: NodeId) -> PageState {
        let number = self.moved_pages;
        self.moved_pages += 1;
        if let Some(errno) = self.move_failures.remove(&number) {
            return PageState::Failed(errno);
        }
        let Some(table) = self.tables.get_mut(&address) else {
            return PageState::Failed(libc::EFAULT);
        };
        let page_bytes = table.page_bytes;
        match table.nodes.get_mut(offset / page_bytes) {
            None => PageState::Failed(libc::EFAULT),
            Some(None) => PageState::Absent,
            Some(Some(old)) if *old == node => PageState::On(node),
            Some(Some(old)) => {
                let page_bytes = page_bytes as u64;
                match self.free_bytes.get_mut(&node) {
                    None => return PageState::Failed(libc::ENODEV),
                    Some(free) if *free < page_bytes => return PageState::Failed(libc::ENOMEM),
                    Some(free) => *free -= page_bytes,
                }
                let left = std::mem::replace(old, node);
                self.free_bytes
                    .entry(left)
                    .and_modify(|free| *free += page_bytes);
                PageState::On(node)
            }
        }
    }

    /// Applies a pending drift. Free memory is not adjusted.
    fn query(&mut self) {
        let number = self.queries;
        self.queries += 1;
        let Some(drift) = self.drift.take_if(|drift| drift.query <= number) else {
            return;
        };
        for table in self.tables.values_mut() {
            let pages = table.nodes.iter_mut().enumerate();
            pages
                .filter(|(page, _)| drift.pages.contains(&(*page as u64)))
                .filter_map(|(_, node)| node.as_mut())
                .for_each(|node| *node = drift.node);
        }
    }

    fn release(&mut self, address: usize) {
        self.calls.push(FakeCall::Release);
        if let Some(table) = self.tables.remove(&address) {
            for node in table.nodes.into_iter().flatten() {
                self.free_bytes
                    .entry(node)
                    .and_modify(|free| *free += table.page_bytes as u64);
            }
        }
    }
}

impl MemoryBackend for FakeBackend {
    fn describe(&self) -> String {
        "invented machine (no real placement)".to_owned()
    }

    fn placing(&self) -> Placing {
        let state = self.lock();
        match (&state.fixed_place, &state.interleave) {
            (Some(place), _) => Placing::Fixed {
                place: place.clone(),
            },
            (None, Some(placement)) => Placing::Kernel {
                shares: placement.shares(),
            },
            (None, None) => Placing::ByPlacement,
        }
    }

    fn capacity(
        &self,
        node: NodeId,
        _page_size: PageSize,
    ) -> Result<Option<NodeCapacity>, MemoryError> {
        if self.lock().fixed_place.is_some() {
            return Ok(None);
        }
        let free_bytes = self.free_bytes(node).unwrap_or(0);
        Ok(Some(NodeCapacity {
            free_bytes,
            margin_bytes: 0,
        }))
    }

    fn reserve(
        &self,
        name: &str,
        size_bytes: usize,
        page_size: PageSize,
    ) -> Result<Mapping, MemoryError> {
        // The real memory always has base pages, so that no hugetlb pool is needed.
        let mapping = Mapping::anonymous(size_bytes, PageSize::Base).map_err(|errno| {
            MemoryError::syscall(
                "mmap",
                format!("region `{name}` of {size_bytes} bytes"),
                errno,
            )
        })?;
        let mut state = self.lock();
        state.calls.push(FakeCall::Reserve {
            name: name.to_owned(),
            size_bytes,
        });
        let page_bytes = page_size.bytes();
        let table = Table {
            page_bytes,
            nodes: vec![None; size_bytes / page_bytes],
        };
        state.tables.insert(mapping.address(), table);
        let (shared, address) = (Arc::clone(&self.state), mapping.address());
        Ok(mapping.before_unmap(move || {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .release(address)
        }))
    }

    fn populate(
        &self,
        mapping: &Mapping,
        page_size: PageSize,
        runs: &mut dyn Iterator<Item = Run>,
    ) -> Result<(), MemoryError> {
        for run in runs {
            self.lock()
                .populate(mapping.address(), run)
                .map_err(|errno| {
                    let node = run
                        .node
                        .map_or_else(|| "any node".to_owned(), |node| format!("node {node}"));
                    let what = format!(
                        "{} pages ({page_size}) from page {} on {node}",
                        run.pages, run.first_page
                    );
                    MemoryError::syscall("populate (invented)", what, errno)
                })?;
        }
        Ok(())
    }

    fn locate(&self, mapping: &Mapping, offsets: &[usize]) -> Result<Vec<PageState>, MemoryError> {
        let mut state = self.lock();
        state.query();
        if let Some(errno) = state.query_failure {
            return Err(MemoryError::syscall(
                "move_pages (invented query)",
                format!("{} pages", offsets.len()),
                errno,
            ));
        }
        let table = state.tables.get(&mapping.address());
        let find = |offset: &usize| match table
            .and_then(|table| table.nodes.get(offset / table.page_bytes))
        {
            None => PageState::Failed(libc::EFAULT),
            Some(None) => PageState::Absent,
            Some(Some(node)) => PageState::On(*node),
        };
        Ok(offsets.iter().map(find).collect())
    }

    fn relocate(
        &self,
        mapping: &Mapping,
        _page_size: PageSize,
        moves: &[(usize, NodeId)],
    ) -> Result<Vec<PageState>, MemoryError> {
        let mut state = self.lock();
        state.calls.push(FakeCall::Relocate(moves.len()));
        Ok(moves
            .iter()
            .map(|(offset, node)| state.relocate(mapping.address(), *offset, *node))
            .collect())
    }
}
