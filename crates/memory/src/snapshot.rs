//! The node of each page of a region at one moment, for comparison with a later one.

use tierloom_topology::NodeId;

use crate::audit::{self, Audit, AuditMode, Counts};
use crate::backend::{PageState, Placing};
use crate::sys::base_page_bytes;
use crate::{MemoryError, PageSize, Placement, Region};

/// Codes for pages without a node, above the kernel's largest node number.
const ABSENT: u16 = u16::MAX;
const UNKNOWN: u16 = u16::MAX - 1;

/// Pages per query: bounds the memory that a query of a large region needs.
const PAGES_PER_QUERY: usize = 1 << 16;

/// Node of each page of one region, two bytes per queried page.
///
/// Two snapshots, taken before and after a run, show how many pages the kernel moved in between
/// ([`PageSnapshot::moved`]); each of them makes an [`Audit`]. Sampled snapshots of one region with
/// one [`AuditMode`] query the same pages.
#[derive(Debug, Clone, PartialEq)]
pub struct PageSnapshot {
    name: String,
    placement: Placement,
    shares: Vec<(NodeId, f64)>,
    start_page: u64,
    page_size: PageSize,
    size_bytes: usize,
    address: usize,
    page_bytes: usize,
    mode: AuditMode,
    /// Node number or code of each queried page, in the order of [`audit::chosen_pages`].
    places: Vec<u16>,
    huge_share: Option<f64>,
    method: String,
}

impl Region {
    /// Queries the kernel for the nodes of the pages.
    ///
    /// # Errors
    /// [`MemoryError::Syscall`] if the kernel refuses the query and more than one node is possible.
    pub fn audit(&self, mode: AuditMode) -> Result<Audit, MemoryError> {
        self.snapshot(mode).map(|snapshot| snapshot.to_audit())
    }

    /// Queries the node of each page and stores it, for comparison with a later snapshot.
    ///
    /// # Errors
    /// Same as [`Region::audit`].
    pub fn snapshot(&self, mode: AuditMode) -> Result<PageSnapshot, MemoryError> {
        take(self, mode)
    }

    /// Number of the pages in `earlier` that are on another node now.
    ///
    /// # Errors
    /// Same as [`Region::audit`], and [`MemoryError::Snapshots`] if `earlier` is of another region.
    pub fn moved_since(&self, earlier: &PageSnapshot) -> Result<u64, MemoryError> {
        earlier.moved(&self.snapshot(earlier.mode())?)
    }
}

/// Takes a snapshot of a region.
fn take(region: &Region, mode: AuditMode) -> Result<PageSnapshot, MemoryError> {
    let page_bytes = if region.page_size().is_hugetlb() {
        region.page_size().bytes()
    } else {
        base_page_bytes()
    };
    let placing = region.backend().placing();
    let (places, method) = match &placing {
        Placing::Fixed { place } => {
            let method = format!("device memory: pages are fixed on {place}");
            (Vec::new(), method)
        }
        // An fsdax file: `FileBackend` reports no fixed place, but the pages are device memory.
        _ if region.mapping().is_device_memory() => {
            let place = region.backend().describe();
            let method = format!("device memory: pages are fixed on the device of {place} (fsdax)");
            (Vec::new(), method)
        }
        _ => locate(region, mode, page_bytes)?,
    };
    let huge_share = (mode == AuditMode::Full && region.page_size() == PageSize::Thp)
        .then(|| region.backend().huge_bytes(region.mapping()))
        .flatten()
        .map(|bytes| bytes as f64 / region.size_bytes() as f64);
    let placement = region.placement();
    let shares = match placing {
        // A migration gives such a region a placement, which then applies.
        Placing::Kernel { shares } if placement == Placement::kernel_default() => shares,
        _ => placement.shares(),
    };
    Ok(PageSnapshot {
        name: region.name().to_owned(),
        placement,
        shares,
        start_page: region.start_page(),
        page_size: region.page_size(),
        size_bytes: region.size_bytes(),
        address: region.address(),
        page_bytes,
        mode,
        places,
        huge_share,
        method,
    })
}

/// Queries the node of each page.
fn locate(
    region: &Region,
    mode: AuditMode,
    page_bytes: usize,
) -> Result<(Vec<u16>, String), MemoryError> {
    let pages_total = (region.size_bytes() / page_bytes) as u64;
    let mut pages = audit::chosen_pages(mode, pages_total);
    let mut places = Vec::new();
    loop {
        let offset = |page| page as usize * page_bytes;
        let offsets: Vec<usize> = pages.by_ref().take(PAGES_PER_QUERY).map(offset).collect();
        if offsets.is_empty() {
            return Ok((places, "page query (move_pages)".to_owned()));
        }
        match region.backend().locate(region.mapping(), &offsets) {
            Ok(states) => places.extend(states.into_iter().map(code)),
            Err(error) => return deduce(region, mode, pages_total, error),
        }
    }
}

/// Falls back to the only usable node where the kernel refuses the query. Containers often forbid
/// `move_pages`, and with one node there is nothing to ask.
fn deduce(
    region: &Region,
    mode: AuditMode,
    pages_total: u64,
    error: MemoryError,
) -> Result<(Vec<u16>, String), MemoryError> {
    match (error, region.only_node()) {
        (MemoryError::Syscall { errno, .. }, Some(node))
            if matches!(errno, libc::EPERM | libc::ENOSYS | libc::EACCES) =>
        {
            let method = format!(
                "deduced: node {node} is the only one with memory here; the page query was refused (errno {errno})"
            );
            let pages = audit::chosen_pages(mode, pages_total);
            Ok((pages.map(|_| code(PageState::On(node))).collect(), method))
        }
        (error, _) => Err(error),
    }
}

fn code(state: PageState) -> u16 {
    match state {
        PageState::Absent => ABSENT,
        // Node numbers are below 1024 in every kernel configuration, so they never reach the codes.
        PageState::On(node) => u16::try_from(node.0).unwrap_or(UNKNOWN),
        PageState::Failed(_) => UNKNOWN,
    }
}

fn node(code: u16) -> Option<NodeId> {
    (code < UNKNOWN).then(|| NodeId(u32::from(code)))
}

impl PageSnapshot {
    /// Name of the region at the time of the snapshot.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which pages were queried.
    pub fn mode(&self) -> AuditMode {
        self.mode
    }

    /// Number of queried pages; 0 for device memory, whose pages are fixed.
    pub fn pages_checked(&self) -> u64 {
        self.places.len() as u64
    }

    /// Size of a page as counted here: the base page for `4k` and `thp`.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes as u64
    }

    /// How the nodes were found out, as text; see [`Audit::method`].
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Number of queried pages that are on one node here and on another in `later`.
    ///
    /// Pages that are absent in either snapshot are not counted; the audits report how many they
    /// are.
    ///
    /// # Errors
    /// [`MemoryError::Snapshots`] if the two are not of the same region and the same pages.
    pub fn moved(&self, later: &PageSnapshot) -> Result<u64, MemoryError> {
        let fail = |reason: &str| {
            Err(MemoryError::Snapshots {
                earlier: self.name.clone(),
                later: later.name.clone(),
                reason: reason.to_owned(),
            })
        };
        if (self.address, self.size_bytes) != (later.address, later.size_bytes)
            || self.name != later.name
        {
            return fail("they are of different memory");
        }
        if self.mode != later.mode || self.page_bytes != later.page_bytes {
            return fail("they looked at different pages");
        }
        let pairs = self.places.iter().zip(&later.places);
        let moved = pairs
            .filter(|(before, after)| before != after)
            .filter(|(before, after)| node(**before).is_some() && node(**after).is_some());
        Ok(moved.count() as u64)
    }

    /// The audit of this moment: requested shares, whole-page shares and actual shares.
    pub fn to_audit(&self) -> Audit {
        let pages_total = (self.size_bytes / self.page_bytes) as u64;
        let granule_bytes = self.page_size.bytes();
        let granules = (self.size_bytes / granule_bytes) as u64;
        let mut counts = Counts::default();
        let mut runs = self.placement.runs(granules, self.start_page);
        let mut run = runs.next();
        for (page, place) in audit::chosen_pages(self.mode, pages_total).zip(&self.places) {
            let granule = page * self.page_bytes as u64 / granule_bytes as u64;
            // Pages and runs both ascend, so one pass over the runs is enough.
            while run.is_some_and(|run| run.first_page + run.pages <= granule) {
                run = runs.next();
            }
            let state = match node(*place) {
                Some(node) => PageState::On(node),
                None if *place == ABSENT => PageState::Absent,
                None => PageState::Failed(libc::EIO),
            };
            counts.add(state, run.and_then(|run| run.node));
        }
        let effective = self.placement.pages_per_node(granules, self.start_page);
        Audit {
            name: self.name.clone(),
            placement: self.placement.to_string(),
            page_size: self.page_size.to_string(),
            size_bytes: self.size_bytes as u64,
            page_bytes: self.page_bytes as u64,
            pages_total,
            pages_checked: self.pages_checked(),
            bytes_checked: self.pages_checked() * self.page_bytes as u64,
            requested: audit::shares(self.shares.iter().copied()),
            effective: audit::shares_of(&effective, granules),
            actual: audit::shares_of(&counts.per_node, self.pages_checked()),
            absent_pages: counts.absent,
            unknown_pages: counts.unknown,
            misplaced_pages: counts.misplaced,
            huge_share: self.huge_share,
            method: self.method.clone(),
        }
    }
}
