//! The memory regions of a task: mapping, filling, and page audits before and after the run.
//!
//! A page audit asks the kernel where the pages are. It is made before the run, to detect pages
//! that are not where the plan says, and after it, to detect pages that moved. Both invalidate the
//! record.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tierloom_kernels::access::{Access, Kernel, Operation, Places, SharedBytes};
use tierloom_memory::{
    AnonymousNuma, Audit, AuditMode, DevdaxBackend, FileBackend, KernelInterleave, MemoryBackend,
    MemoryError, PageSize, PageSnapshot, Placement, Region, RegionOptions,
};
use tierloom_record::{RegionRecord, Remark};
use tierloom_topology::{NodeId, Topology};

use super::{BenchError, Host, cards};
use crate::plan::{MemoryPlan, RegionPlan};

/// Number of pages audited before and after a run: all pages of regions up to 4 GiB.
///
/// Larger regions are sampled. Counted in 4 KiB pages.
const AUDITED_PAGES: u64 = 1 << 20;
/// Tolerated deviation of the shares of kernel interleaving from its weights.
const SHARE_TOLERANCE: f64 = 0.01;
/// Assumed number of consecutive pages of one node in a round of the kernel's weights.
///
/// The last round of a region is incomplete, so a share can deviate by this many pages.
const LONGEST_KERNEL_ROUND: f64 = 10.0;
/// Memory per fill thread, bytes; less does not pay for starting a thread.
const FILL_BYTES_PER_THREAD: usize = 16 << 20;

/// The interface through which regions get their memory.
///
/// [`HostMemories`] is the real implementation; tests provide others.
pub trait Memories: Send + Sync + Debug {
    /// The backend for `plan`, whose pages are to be on `nodes`; empty leaves the choice to the
    /// kernel.
    ///
    /// # Errors
    /// [`MemoryError`] if this machine has no such memory.
    fn backend(
        &self,
        plan: &RegionPlan,
        nodes: &[NodeId],
        topology: &Topology,
    ) -> Result<Arc<dyn MemoryBackend>, MemoryError>;
}

/// The memory of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostMemories;

impl Memories for HostMemories {
    fn backend(
        &self,
        plan: &RegionPlan,
        nodes: &[NodeId],
        topology: &Topology,
    ) -> Result<Arc<dyn MemoryBackend>, MemoryError> {
        Ok(match &plan.memory {
            MemoryPlan::Anonymous => Arc::new(AnonymousNuma::new()),
            MemoryPlan::KernelInterleave { weighted } => {
                Arc::new(KernelInterleave::new(topology, nodes, *weighted)?)
            }
            MemoryPlan::File { path, offset_bytes } => {
                let path = PathBuf::from(path);
                if path.is_dir() {
                    Arc::new(FileBackend::in_directory(path))
                } else {
                    Arc::new(FileBackend::at_path(path).offset_bytes(*offset_bytes))
                }
            }
            MemoryPlan::Devdax { path, offset_bytes } => {
                Arc::new(DevdaxBackend::new(path, *offset_bytes)?)
            }
        })
    }
}

/// A region that is mapped and populated.
#[derive(Debug)]
pub(super) struct ReadyRegion {
    pub(super) region: Region,
    name: String,
    plan: RegionPlan,
    memory: String,
    resolved: Placement,
    before: Option<PageSnapshot>,
    note: Option<String>,
    /// Time for mapping and populating the region, s.
    pub(super) prepare_s: f64,
}

impl ReadyRegion {
    /// Maps and populates the region of `plan`, called `name`.
    pub(super) fn make(
        plan: &RegionPlan,
        name: &str,
        topology: &Topology,
        memories: &dyn Memories,
        place: &str,
    ) -> Result<Self, BenchError> {
        let asked = plan
            .placement
            .resolve(topology)
            .map_err(|error| BenchError::placement(place, error))?;
        let nodes = asked.nodes();
        let resolved = match plan.memory {
            // The kernel spreads the pages by itself; binding them as well would override it.
            MemoryPlan::KernelInterleave { .. } => Placement::kernel_default(),
            _ => asked,
        };
        let memory = |error| BenchError::memory(place, error);
        let backend = memories.backend(plan, &nodes, topology).map_err(memory)?;
        let described = backend.describe();
        let page_size = plan.page_size;
        let options = RegionOptions {
            page_size,
            ..RegionOptions::new(
                name,
                page_size.round_up(plan.size_bytes as usize),
                resolved.clone(),
            )
        };
        let start = Instant::now();
        let region = Region::create(backend, topology, options).map_err(memory)?;
        let prepare_s = start.elapsed().as_secs_f64();
        Ok(Self {
            region,
            name: name.to_owned(),
            plan: plan.clone(),
            memory: described,
            resolved,
            before: None,
            note: None,
            prepare_s,
        })
    }

    /// Records where the pages are; to be called after everything that touches them first.
    pub(super) fn look_before(&mut self) {
        match self.region.snapshot(mode(&self.region)) {
            Ok(snapshot) => self.before = Some(snapshot),
            Err(error) => self.note = Some(format!("pages could not be audited: {error}")),
        }
    }

    /// The record of the region, with a second audit, and remarks for the reader.
    pub(super) fn finish(&self) -> (RegionRecord, Vec<Remark>) {
        let mut remarks = Vec::new();
        let mut note = self.note.clone();
        let after = match self.region.snapshot(mode(&self.region)) {
            Ok(snapshot) => Some(snapshot),
            Err(error) => {
                note = Some(format!("pages could not be audited: {error}"));
                None
            }
        };
        let moved_pages = match (&self.before, &after) {
            (Some(before), Some(after)) => before.moved(after).unwrap_or_else(|error| {
                note = Some(format!("pages could not be compared: {error}"));
                0
            }),
            _ => 0,
        };
        let audits =
            [&self.before, &after].map(|snapshot| snapshot.as_ref().map(PageSnapshot::to_audit));
        if moved_pages > 0 {
            remarks.push(Remark {
                invalidates: true,
                text: format!(
                    "{}: {moved_pages} of the checked pages were on another node after the run; switch automatic NUMA balancing and tiering off \
                     (sysctl kernel.numa_balancing=0) and repeat",
                    self.name
                ),
            });
        }
        if let Some(before) = &audits[0] {
            if let Some(text) = self.misplaced(before) {
                remarks.push(Remark {
                    invalidates: true,
                    text: format!("{}: {text}", self.name),
                });
            }
            if before.absent_pages > 0 {
                remarks.push(Remark {
                    invalidates: false,
                    text: format!(
                        "{}: {} of the checked pages were not present before the run",
                        self.name, before.absent_pages
                    ),
                });
            }
            // Devices cannot be audited page by page: the note says by what the node is known
            // instead.
            if note.is_none() && before.method.contains("device") {
                note = Some(before.method.clone());
            }
        }
        let huge_share = audits[1].as_ref().and_then(|audit| audit.huge_share);
        if self.plan.page_size == PageSize::Thp && huge_share.is_some_and(|share| share < 0.9) {
            remarks.push(Remark {
                invalidates: false,
                text: format!(
                    "{}: only {:.0}% of it is in transparent huge pages; free memory is fragmented or huge pages are switched off",
                    self.name,
                    huge_share.unwrap_or_default() * 100.0
                ),
            });
        }
        // Where the kernel cannot report pages, the audit is left out: an empty one would claim
        // that no page is anywhere.
        let asked = |audit: &&Audit| audit.pages_checked > 0;
        let [before, after] = audits.map(|audit| audit.as_ref().filter(asked).map(cards::audit));
        let record = RegionRecord {
            name: self.name.clone(),
            memory: self.memory.clone(),
            size_bytes: self.region.size_bytes() as u64,
            page_size: page_word(&self.plan),
            placement: self.plan.placement.to_string(),
            resolved: self.resolved.to_string(),
            before,
            after,
            moved_pages,
            huge_share,
            note,
        };
        (record, remarks)
    }

    /// What is wrong with the placement of the pages, if anything.
    ///
    /// Pages that we bind are compared with the plan page by page, because the shares of few pages
    /// deviate by rounding. The kernel's own rounds may start at any node, so only shares are
    /// compared there.
    fn misplaced(&self, audit: &Audit) -> Option<String> {
        if audit.pages_checked == 0 {
            return None;
        }
        if audit.misplaced_pages > 0 {
            return Some(format!(
                "{} of {} checked pages are not on the node where they were wanted",
                audit.misplaced_pages, audit.pages_checked
            ));
        }
        let granule_bytes = self.region.page_size().bytes() as f64;
        let granules = self.region.size_bytes() as f64 / granule_bytes;
        let rounding = audit.requested.len() as f64 * LONGEST_KERNEL_ROUND / granules.max(1.0);
        let kernels_own = matches!(self.plan.memory, MemoryPlan::KernelInterleave { .. });
        let deviation = audit.worst_deviation();
        (kernels_own && deviation > SHARE_TOLERANCE + rounding).then(|| {
            format!(
                "the kernel's interleaving misses its weights by {:.1}%: a node was full, perhaps",
                deviation * 100.0
            )
        })
    }
}

/// The page size in records.
fn page_word(plan: &RegionPlan) -> String {
    match plan.memory {
        MemoryPlan::Devdax { .. } => "device".into(),
        _ => plan.page_size.to_string(),
    }
}

/// The record of a region that the threads of a mapping task map and unmap themselves.
pub(super) fn mapped(
    plan: &RegionPlan,
    name: &str,
    host: &Host,
    place: &str,
) -> Result<RegionRecord, BenchError> {
    let resolved = plan
        .placement
        .resolve(&host.topology)
        .map_err(|error| BenchError::placement(place, error))?;
    let backend = host
        .memories
        .backend(plan, &resolved.nodes(), &host.topology)
        .map_err(|error| BenchError::memory(place, error))?;
    Ok(RegionRecord {
        name: name.to_owned(),
        memory: backend.describe(),
        size_bytes: plan.size_bytes,
        page_size: page_word(plan),
        placement: plan.placement.to_string(),
        resolved: resolved.to_string(),
        before: None,
        after: None,
        moved_pages: 0,
        huge_share: None,
        note: Some("mapped anew by every operation: no page stays to be audited".into()),
    })
}

/// Checks that the device of the region `name` exists and is large enough; maps nothing.
pub(super) fn check_device(
    plan: &RegionPlan,
    name: &str,
    host: &Host,
    place: &str,
) -> Result<(), BenchError> {
    let size_bytes = plan.page_size.round_up(plan.size_bytes as usize);
    host.memories
        .backend(plan, &[], &host.topology)
        .and_then(|backend| backend.check(name, size_bytes, plan.page_size))
        .map_err(|error| BenchError::memory(place, error))
}

fn mode(region: &Region) -> AuditMode {
    let pages = (region.size_bytes() / PageSize::Base.bytes()) as u64;
    if pages <= AUDITED_PAGES {
        AuditMode::Full
    } else {
        AuditMode::Sampled {
            pages: AUDITED_PAGES,
        }
    }
}

/// Fills `memory` with the pattern that kernels write, using several threads.
///
/// Reads can be checked against the pattern after the run.
pub(super) fn fill(memory: SharedBytes<'_>, place: &str) -> Result<(), BenchError> {
    let access = Access::sequential(Operation::Write);
    let kernel = Kernel::new(access).map_err(|error| BenchError::access(place, error))?;
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(memory.len() / FILL_BYTES_PER_THREAD)
        .max(1);
    // Parts are whole pages. The pattern depends on the offset in `memory`, so every thread gets
    // all of it and a range.
    let part_bytes = memory.len().div_ceil(threads).next_multiple_of(4096);
    std::thread::scope(|scope| {
        for start in (0..memory.len()).step_by(part_bytes) {
            let end = (start + part_bytes).min(memory.len());
            scope.spawn(move || {
                let mut places = Places::new(&access, memory.len(), 0, 0);
                kernel.run(memory, start..end, &mut places);
            });
        }
    });
    Ok(())
}
