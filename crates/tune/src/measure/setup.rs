//! Resources of a search, resolved and checked before any page is allocated.

use tierloom_bench::run::Host;
use tierloom_memory::PageSize;
use tierloom_model::search::MAX_WEIGHT;
use tierloom_topology::{IdSet, NodeId, TierKind, Topology};

use super::{KernelPhase, MeasureError, Runs};
use crate::apply::TierNodes;

/// Size of a region relative to all last-level caches, so that few accesses hit them.
const REGION_OVER_LLC: u64 = 8;
/// Default minimum size of a region.
const LEAST_REGION_BYTES: u64 = 256 << 20;
/// Divisor of a tier's free memory: by default a region takes at most a third of it.
const FREE_SHARE: u64 = 3;
/// Size of a huge page; regions consist of whole ones.
const GRANULE_BYTES: u64 = 2 << 20;
/// Smallest region accepted: below it only caches are measured.
const LEAST_USEFUL_BYTES: u64 = 4 << 20;
/// A structure of less than this part of the largest one may hold fewer rounds.
const SMALL_SHARE: u64 = 16;
/// Interleaving rounds that fit a region even at the largest weight.
const ROUNDS: u64 = 8;

/// Options of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasureOptions {
    /// Tiers to interleave over, the first being the base; all tiers of the machine if empty.
    pub tiers: Vec<String>,
    /// Number of threads; `None` for one per CPU of the first tier's nodes.
    pub workers: Option<u32>,
    /// Page size; `None` for transparent huge pages where the system allows them.
    pub page_size: Option<PageSize>,
    /// Bytes of a region; `None` derives the size from caches and free memory.
    pub region_bytes: Option<u64>,
    /// Maximum number of measured points per phase, at least 3.
    pub points: usize,
    /// Duration of one repetition, s.
    pub seconds: f64,
    /// Number of repetitions of each point.
    pub repeat: u32,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        MeasureOptions {
            tiers: Vec::new(),
            workers: None,
            page_size: None,
            region_bytes: None,
            points: 12,
            seconds: 0.15,
            repeat: 3,
        }
    }
}

/// Options resolved on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Tiers with their nodes.
    pub tiers: Vec<TierNodes>,
    /// CPUs to pin threads to, one for each thread.
    pub cpus: Vec<u32>,
    /// Page size of the regions.
    pub page_size: PageSize,
    /// Bytes of a region.
    pub region_bytes: u64,
    /// Maximum number of measured points per phase.
    pub points: usize,
    /// Duration of one repetition, s.
    pub seconds: f64,
    /// Number of repetitions of each point.
    pub repeat: u32,
}

impl Setup {
    /// Resolves `options` on `host`.
    ///
    /// # Errors
    /// [`MeasureError`] that names what is missing: a second tier, CPUs, or memory.
    pub fn new(host: &Host, options: &MeasureOptions) -> Result<Self, MeasureError> {
        let topology = &host.topology;
        let tiers = tiers(topology, &options.tiers)?;
        let cpus = cpus(topology, &tiers[0], options.workers)?;
        let thp = topology.huge_pages.thp_mode.as_deref();
        let page_size = options.page_size.unwrap_or(match thp {
            Some(mode) if mode != "never" => PageSize::Thp,
            _ => PageSize::Base,
        });
        let region_bytes = region_bytes(topology, &tiers, options.region_bytes)?;
        Ok(Setup {
            tiers,
            cpus,
            page_size,
            region_bytes,
            points: options.points.max(3),
            seconds: options.seconds,
            repeat: options.repeat.max(1),
        })
    }

    /// Largest weight for which the structures of a phase hold several interleaving rounds.
    ///
    /// Structures far smaller than the others (requests, histograms) do not count: their pages
    /// hardly matter.
    pub fn max_weight(&self, phase: &KernelPhase) -> u32 {
        let sizes = self.sizes(phase);
        let largest = sizes.iter().max().copied().unwrap_or(0);
        let matters = sizes
            .into_iter()
            .filter(|bytes| *bytes >= largest / SMALL_SHARE);
        let pages = matters.min().unwrap_or(0) / self.page_size.bytes() as u64;
        // Several rounds per structure keep shares accurate even if the last one is incomplete.
        let round = pages / ROUNDS / self.tiers.len() as u64;
        round.clamp(1, u64::from(MAX_WEIGHT)) as u32
    }

    /// Sizes of the regions of a phase, bytes.
    pub(super) fn sizes(&self, phase: &KernelPhase) -> Vec<u64> {
        match &phase.runs {
            Runs::Operator { operator, .. } => {
                let structures = operator.structures(self.workers()).into_iter();
                structures.map(|structure| structure.size_bytes).collect()
            }
            Runs::Access(_) | Runs::Chase | Runs::Queries(_) => vec![self.region_bytes],
        }
    }

    /// Names of the tiers, base tier first.
    pub fn tier_names(&self) -> Vec<String> {
        self.tiers.iter().map(|tier| tier.tier.clone()).collect()
    }

    /// Number of worker threads, one per CPU of the setup.
    pub fn workers(&self) -> u32 {
        self.cpus.len() as u32
    }
}

fn tiers(topology: &Topology, asked: &[String]) -> Result<Vec<TierNodes>, MeasureError> {
    let allowed = &topology.limits.mems_allowed;
    let usable = |kind: TierKind| {
        let nodes = topology.tier(kind).map(|tier| tier.nodes.clone());
        let nodes = nodes.into_iter().flatten().map(|node| node.0);
        nodes
            // A cpuset may exclude some nodes of a tier.
            .filter(|node| allowed.contains(*node))
            .collect::<Vec<u32>>()
    };
    let there: Vec<TierNodes> = TierKind::ALL
        .into_iter()
        .map(|kind| TierNodes {
            tier: kind.to_string(),
            nodes: usable(kind),
        })
        .filter(|tier| !tier.nodes.is_empty())
        .collect();
    let list = || {
        let one = |tier: &TierNodes| {
            let nodes: IdSet = tier.nodes.iter().copied().map(NodeId).collect();
            format!("{}: node {nodes}", tier.tier)
        };
        there.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    if there.len() < 2 {
        return Err(MeasureError::OneTier { found: list() });
    }
    if asked.is_empty() {
        return Ok(there);
    }
    let find = |name: &String| {
        let found = there.iter().find(|tier| tier.tier == *name).cloned();
        found.ok_or_else(|| MeasureError::NoTier {
            tier: name.clone(),
            known: list(),
        })
    };
    let chosen = asked.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    match chosen.as_slice() {
        [one] => Err(MeasureError::OneTier {
            found: format!("{} was asked for", one.tier),
        }),
        _ => Ok(chosen),
    }
}

/// CPUs of the first tier's nodes; all usable CPUs if these nodes have none.
fn cpus(
    topology: &Topology,
    home: &TierNodes,
    workers: Option<u32>,
) -> Result<Vec<u32>, MeasureError> {
    let allowed = &topology.limits.cpus_allowed;
    let near: IdSet = home
        .nodes
        .iter()
        .filter_map(|node| topology.node(NodeId(*node)))
        .flat_map(|node| node.cpus.intersection(allowed).iter().collect::<Vec<_>>())
        .collect();
    // If the user chose a memory-only tier as the first one, no CPU is local to it.
    let usable = if near.is_empty() {
        allowed.clone()
    } else {
        near
    };
    let wanted = workers.unwrap_or(usable.len() as u32);
    if wanted == 0 || wanted as usize > usable.len() {
        let nodes: IdSet = home.nodes.iter().copied().map(NodeId).collect();
        return Err(MeasureError::Workers {
            asked: wanted,
            cpus: usable.len(),
            nodes: nodes.to_string(),
        });
    }
    Ok(usable.iter().take(wanted as usize).collect())
}

fn region_bytes(
    topology: &Topology,
    tiers: &[TierNodes],
    asked: Option<u64>,
) -> Result<u64, MeasureError> {
    let free = |tier: &TierNodes| -> u64 {
        let nodes = tier
            .nodes
            .iter()
            .filter_map(|node| topology.node(NodeId(*node)));
        nodes.map(|node| node.mem_free_bytes).sum()
    };
    // The search may put a whole region on any tier, so the one with the least free memory counts.
    let fullest = tiers.iter().min_by_key(|tier| free(tier));
    let (name, least) = fullest.map_or(("", 0), |tier| (tier.tier.as_str(), free(tier)));
    let wanted = (llc_bytes(topology) * REGION_OVER_LLC).max(LEAST_REGION_BYTES);
    let bytes = asked.unwrap_or_else(|| wanted.min(least / FREE_SHARE));
    let bytes = bytes / GRANULE_BYTES * GRANULE_BYTES;
    // Only an explicit size can exceed free memory; the default is a fraction of it.
    let too_much = asked.is_some_and(|asked| asked > least);
    if bytes < LEAST_USEFUL_BYTES || too_much {
        return Err(MeasureError::Region {
            region_mib: asked.unwrap_or(bytes) >> 20,
            why: format!("tier {name} has {} MiB free", least >> 20),
        });
    }
    Ok(bytes)
}

/// Total size of the last-level caches of the machine, bytes.
pub(super) fn llc_bytes(topology: &Topology) -> u64 {
    let caches = &topology.cpus.caches;
    let last = caches.iter().map(|cache| cache.level).max().unwrap_or(0);
    let last = caches.iter().filter(|cache| cache.level == last);
    last.map(|cache| cache.size_bytes * u64::from(cache.count))
        .sum()
}
