//! The memory of a task: made, filled, and audited before and after.

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

/// Pages looked at before and after a run; all of them up to 4 GiB of 4 KiB pages.
const AUDITED_PAGES: u64 = 1 << 20;
/// How far shares of the kernel's own interleaving may lie from its weights.
const SHARE_TOLERANCE: f64 = 0.01;
/// Pages of one node in a round of the kernel's weights as people set them; a cut round at the end misses by so much.
const LONGEST_KERNEL_ROUND: f64 = 10.0;
/// A fill thread is worth its start from about this much memory on.
const FILL_BYTES_PER_THREAD: usize = 16 << 20;

/// The seam to memory: how a task's region gets its pages. [`HostMemories`] is the real one; tests give fakes.
pub trait Memories: Send + Sync + Debug {
    /// The backend for `plan`, whose pages shall go to `nodes` (empty: the kernel's choice).
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

/// Memory of the machine this runs on.
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

/// A region that is ready to be worked on.
#[derive(Debug)]
pub(super) struct ReadyRegion {
    pub(super) region: Region,
    name: String,
    plan: RegionPlan,
    memory: String,
    resolved: Placement,
    before: Option<PageSnapshot>,
    note: Option<String>,
    /// Reserving and populating, s.
    pub(super) prepare_s: f64,
}

impl ReadyRegion {
    /// Reserves and populates the region of `plan`, called `name`.
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
            // The kernel spreads the pages; asking for more would be asking twice.
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

    /// Looks where the pages are, once everything that prepares them is done.
    pub(super) fn look_before(&mut self) {
        match self.region.snapshot(mode(&self.region)) {
            Ok(snapshot) => self.before = Some(snapshot),
            Err(error) => self.note = Some(format!("pages could not be audited: {error}")),
        }
    }

    /// The region's record, with a second look at its pages, and what the reader must know about them.
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
        // Of memory whose pages nobody can be asked about there is no audit; an empty one would say that all of it is nowhere.
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

    /// What is wrong with where the pages are, if anything. Shares of few pages miss the weights by rounding, so ours are compared page by
    /// page with the plan; the kernel's own rounds may begin anywhere.
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

/// The page size of `plan` in a word.
fn page_word(plan: &RegionPlan) -> String {
    match plan.memory {
        MemoryPlan::Devdax { .. } => "device".into(),
        _ => plan.page_size.to_string(),
    }
}

/// The record of region `name`, which the workers map and unmap themselves.
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

/// Whether the device of `plan`, region `index` of a task, is there and has its bytes; maps nothing.
pub(super) fn check_device(
    plan: &RegionPlan,
    index: usize,
    host: &Host,
    place: &str,
) -> Result<(), BenchError> {
    let size_bytes = plan.page_size.round_up(plan.size_bytes as usize);
    host.memories
        .backend(plan, &[], &host.topology)
        .and_then(|backend| backend.check(&format!("m{index}"), size_bytes, plan.page_size))
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

/// Fills `memory` with the pattern that kernels write, several threads at a time.
pub(super) fn fill(memory: SharedBytes<'_>, place: &str) -> Result<(), BenchError> {
    let access = Access::sequential(Operation::Write);
    let kernel = Kernel::new(access).map_err(|error| BenchError::access(place, error))?;
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(memory.len() / FILL_BYTES_PER_THREAD)
        .max(1);
    // Parts of whole pages; the pattern depends on the offset in the memory, so every thread works on the same one.
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
