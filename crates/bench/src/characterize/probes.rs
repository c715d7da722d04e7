//! The probes of a characterisation: which small runs are made on which path.
//!
//! Every initiator is measured against every target; the first initiator also against all nodes of
//! a tier together, and for latency over footprints on its own DRAM.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{Access, ChaseLocality, Operation};
use tierloom_memory::{MIB, PageSize, PlacementSpec, Target};
use tierloom_topology::{NodeId, Topology};

use super::{CharacterizeError, CharacterizeOptions, Depth, tier_between};
use crate::plan::{
    Amount, MapAction, MapSharing, MemoryPlan, Pin, RegionPlan, RunPlan, Sharing, TaskPlan,
    TaskRole, Work, WorkersPlan,
};
use crate::run::Host;

/// Minimum ratio of region size to all last-level caches, so that caches answer few accesses.
const REGION_OVER_LLC: u64 = 8;
/// Smallest region that is chosen automatically, bytes.
const LEAST_REGION_BYTES: u64 = 256 << 20;
/// Divisor: a region takes at most a third of the free memory of a node.
const FREE_SHARE: u64 = 3;
/// Footprints of the latency curve, as powers of two: 16 KiB to 1 TiB, limited by the region.
const FOOTPRINTS: std::ops::RangeInclusive<u32> = 14..=40;
/// Warm-up of each probe, s; a core that was idle is slow at first.
const WARMUP_S: f64 = 0.03;

/// A path from cores to memory; the memory may be several nodes of one tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPlan {
    /// Number of the node whose cores access the memory.
    pub initiator: u32,
    /// Numbers of the nodes that are accessed; pages alternate between them.
    pub targets: Vec<u32>,
    /// Name of the tier that the targets are for this initiator.
    pub tier: String,
}

/// The measurement that a probe makes.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeKind {
    /// Bandwidth of an operation with a number of threads.
    Rate {
        /// Name of the operation in records and profiles.
        operation: String,
        /// Number of threads, one per CPU.
        threads: u32,
    },
    /// Latency of dependent loads in the large region, without other load.
    Idle(ChaseLocality),
    /// Latency of dependent loads while other cores load the memory.
    Loaded {
        /// Rate of the load, GB/s; `None` for full speed.
        rate_gbps: Option<f64>,
        /// Whether a third of the load are writes; otherwise it only reads.
        mixed: bool,
    },
    /// Latency of dependent loads in a region of a given size, to show caches and TLB.
    Footprint {
        /// Size of the region.
        bytes: u64,
        /// Order of the loads.
        locality: ChaseLocality,
    },
    /// Time of populating fresh pages of this size.
    Touch(PageSize),
}

/// One probe: a measurement, its path and the run that makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// The measurement that the figure of the run is.
    pub kind: ProbeKind,
    /// The cores and memory that it uses.
    pub path: PathPlan,
    /// The run, with its id set.
    pub plan: RunPlan,
}

impl Probe {
    /// The measurement and its path, as text.
    ///
    /// It is also the value of `probe` in the `varied` keys of its records.
    pub fn words(&self) -> String {
        let nodes = self
            .path
            .targets
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let path = format!(
            "node {} to {} (node {nodes})",
            self.path.initiator, self.path.tier
        );
        let what = match &self.kind {
            ProbeKind::Rate { operation, threads } => format!("{operation}, {threads} threads"),
            ProbeKind::Idle(locality) => format!("idle latency {}", order_words(*locality)),
            ProbeKind::Loaded { rate_gbps, mixed } => {
                let load = if *mixed { "mixed load" } else { "reads" };
                match rate_gbps {
                    Some(rate) => format!("latency beside {rate:.1} GB/s of {load}"),
                    None => format!("latency beside {load} at full speed"),
                }
            }
            ProbeKind::Footprint { bytes, locality } => {
                format!(
                    "latency within {} KiB {}",
                    bytes >> 10,
                    order_words(*locality)
                )
            }
            ProbeKind::Touch(size) => format!("first touch, {size} pages"),
        };
        format!("{what}, {path}")
    }
}

/// Order of dependent loads, as text; records are told apart by it.
fn order_words(locality: ChaseLocality) -> &'static str {
    match locality {
        ChaseLocality::Pages => "page by page",
        ChaseLocality::Random => "in random order",
    }
}

/// Settings that all probes share.
struct ProbeSettings {
    depth: Depth,
    page_size: PageSize,
    region_bytes: u64,
    seconds: f64,
    repeat: u32,
}

/// All probes, in the order of a round.
pub(super) fn all(
    host: &Host,
    options: &CharacterizeOptions,
) -> Result<Vec<Probe>, CharacterizeError> {
    let topology = &host.topology;
    let initiators = initiators(topology, &options.initiators)?;
    let targets = targets(topology, &options.targets)?;
    let shape = shape(host, options, &targets)?;
    let mut probes = Vec::new();
    for (order, initiator) in initiators.iter().enumerate() {
        let mut paths: Vec<PathPlan> = targets
            .iter()
            .map(|target| PathPlan {
                initiator: *initiator,
                targets: vec![*target],
                tier: tier_between(host, *initiator, *target).into(),
            })
            .collect();
        if order == 0 {
            paths.extend(joint_paths(&paths));
        }
        for path in &paths {
            // The footprint curve of the initiator's own DRAM gives the cache and TLB parameters.
            let own = order == 0 && path.tier == "dram" && path.targets.len() == 1;
            probes.extend(path_probes(topology, &shape, path, own));
        }
    }
    Ok(probes)
}

/// A path over all nodes of a tier, for each tier with several nodes.
fn joint_paths(paths: &[PathPlan]) -> Vec<PathPlan> {
    let mut joint: Vec<PathPlan> = Vec::new();
    for path in paths {
        match joint.iter_mut().find(|known| known.tier == path.tier) {
            Some(known) => known.targets.extend(&path.targets),
            None => joint.push(path.clone()),
        }
    }
    joint.retain(|path| path.targets.len() > 1);
    joint
}

fn initiators(topology: &Topology, asked: &[u32]) -> Result<Vec<u32>, CharacterizeError> {
    let allowed = &topology.limits.cpus_allowed;
    let known: Vec<u32> = topology
        .nodes
        .iter()
        .filter(|node| !node.cpus.intersection(allowed).is_empty())
        .map(|node| node.id.0)
        .collect();
    chosen(
        "initiator",
        "nodes with CPUs this process may use",
        &known,
        asked,
    )
}

fn targets(topology: &Topology, asked: &[u32]) -> Result<Vec<u32>, CharacterizeError> {
    let known: Vec<u32> = topology
        .memory_nodes()
        .iter()
        .map(|node| node.0)
        .filter(|node| topology.limits.mems_allowed.contains(*node))
        .collect();
    chosen(
        "target",
        "nodes with memory this process may use",
        &known,
        asked,
    )
}

fn chosen(
    what: &str,
    known_as: &str,
    known: &[u32],
    asked: &[u32],
) -> Result<Vec<u32>, CharacterizeError> {
    let list = |nodes: &[u32]| {
        nodes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    if let Some(wrong) = asked.iter().find(|node| !known.contains(node)) {
        return Err(CharacterizeError::Input(format!(
            "{what} {wrong} cannot be used; {known_as}: {}",
            list(known)
        )));
    }
    let nodes = if asked.is_empty() { known } else { asked };
    if nodes.is_empty() {
        return Err(CharacterizeError::Input(format!("there are no {known_as}")));
    }
    Ok(nodes.to_vec())
}

fn shape(
    host: &Host,
    options: &CharacterizeOptions,
    targets: &[u32],
) -> Result<ProbeSettings, CharacterizeError> {
    let topology = &host.topology;
    let thp = topology
        .huge_pages
        .thp_mode
        .as_deref()
        // In mode "madvise" huge pages are available too: regions ask for them.
        .is_some_and(|mode| mode != "never");
    let page_size = options
        .page_size
        .unwrap_or(if thp { PageSize::Thp } else { PageSize::Base });
    let least_free = targets
        .iter()
        .filter_map(|node| topology.node(NodeId(*node)))
        .map(|node| node.mem_free_bytes)
        .min()
        .unwrap_or(0);
    let wanted = (llc_bytes(topology) * REGION_OVER_LLC).max(match options.depth {
        Depth::Quick => LEAST_REGION_BYTES,
        Depth::Full => 4 * LEAST_REGION_BYTES,
    });
    let region_bytes = options
        .region_bytes
        .unwrap_or_else(|| wanted.min(least_free / FREE_SHARE));
    // Whole 2 MiB pages, so that regions of base and of huge pages have the same size.
    let region_bytes = region_bytes / (2 * MIB as u64) * (2 * MIB as u64);
    if region_bytes < 4 * MIB as u64 {
        return Err(CharacterizeError::Input(format!(
            "regions of {} MiB are too small to measure memory; the fullest node has {} MiB free, of which a third is used",
            region_bytes >> 20,
            least_free >> 20
        )));
    }
    let (seconds, repeat) = match options.depth {
        Depth::Quick => (0.12, 2),
        Depth::Full => (0.4, 3),
    };
    Ok(ProbeSettings {
        depth: options.depth,
        page_size,
        region_bytes,
        seconds,
        repeat,
    })
}

/// Size of all last-level caches of the machine together, bytes.
pub(super) fn llc_bytes(topology: &Topology) -> u64 {
    let caches = &topology.cpus.caches;
    let last = caches.iter().map(|cache| cache.level).max().unwrap_or(0);
    caches
        .iter()
        .filter(|cache| cache.level == last)
        .map(|cache| cache.size_bytes * u64::from(cache.count))
        .sum()
}

fn path_probes(
    topology: &Topology,
    shape: &ProbeSettings,
    path: &PathPlan,
    own: bool,
) -> Vec<Probe> {
    let cores = topology
        .node(NodeId(path.initiator))
        .map(|node| node.cpus.intersection(&topology.limits.cpus_allowed))
        .unwrap_or_default();
    let cpus: Vec<u32> = cores.iter().collect();
    let all = cpus.len() as u32;
    let maker = PathProbes { shape, path, cpus };
    let mut probes = vec![
        maker.chase(ProbeKind::Idle(ChaseLocality::Pages), shape.region_bytes),
        maker.chase(ProbeKind::Idle(ChaseLocality::Random), shape.region_bytes),
    ];
    let mix = Operation::Mix {
        read_percent: 67,
        stream: false,
    };
    let few: &[u32] = &[1, all];
    let many: Vec<u32> = std::iter::successors(Some(1), |n| Some(n * 2))
        .take_while(|n| *n < all)
        .chain([all])
        .collect();
    let counts = match shape.depth {
        Depth::Quick => few,
        Depth::Full => &many,
    };
    for operation in [
        Operation::Read,
        Operation::StreamWrite,
        Operation::Write,
        mix,
        Operation::StreamCopy,
    ] {
        for threads in distinct(counts) {
            probes.push(maker.rate(
                &operation.to_string(),
                Access::sequential(operation),
                threads,
            ));
        }
    }
    // One word at a time: gives the lines in flight of loops that are not vectorised.
    let scalar = Access {
        simd: Simd::Scalar,
        access_bytes: 8,
        stride_bytes: 8,
        ..Access::sequential(Operation::Read)
    };
    probes.push(maker.rate("scalar read", scalar, 1));
    let random = Access::random(Operation::Read);
    for threads in distinct(counts) {
        probes.push(maker.rate("random read", random, threads));
    }
    let prefetched = Access {
        prefetch_bytes: 16 * 64,
        ..random
    };
    probes.push(maker.rate("prefetched random read", prefetched, 1));
    for threads in distinct(few) {
        let add = Access::random(Operation::FetchAdd);
        probes.push(maker.rate("random fetch-and-add", add, threads));
    }
    // First touch of one page has one target node, so joint paths add nothing.
    if path.targets.len() == 1 {
        probes.push(maker.touch(shape.page_size));
        if shape.page_size != PageSize::Base {
            probes.push(maker.touch(PageSize::Base));
        }
    }
    // One thread chases; the load needs at least one other core.
    if all > 1 {
        probes.extend(maker.loaded());
    }
    if own {
        probes.extend(maker.footprints());
    }
    probes
}

fn distinct(counts: &[u32]) -> Vec<u32> {
    let mut counts = counts.to_vec();
    counts.dedup();
    counts
}

/// Builds the probes of one path.
struct PathProbes<'a> {
    shape: &'a ProbeSettings,
    path: &'a PathPlan,
    cpus: Vec<u32>,
}

impl PathProbes<'_> {
    fn probe(&self, kind: ProbeKind, tasks: Vec<TaskPlan>) -> Probe {
        let plan = RunPlan {
            id: String::new(),
            workload: "characterize".into(),
            file: String::new(),
            line: 0,
            varied: vec![
                ("initiator".into(), self.path.initiator.to_string()),
                ("target".into(), self.path.tier.clone()),
            ],
            tasks,
            repeat: self.shape.repeat,
            warmup_s: WARMUP_S,
            until_stable: None,
            seed: 1,
            scale: 1.0,
        };
        let mut probe = Probe {
            kind,
            path: self.path.clone(),
            plan: plan.with_id(),
        };
        // The name needs the kind and the path, and it is part of what the id covers.
        let words = probe.words();
        probe.plan.varied.push(("probe".into(), words));
        probe.plan = probe.plan.with_id();
        probe
    }

    fn region(&self, size_bytes: u64, page_size: PageSize) -> RegionPlan {
        let targets: Vec<(Target, u32)> = self
            .path
            .targets
            .iter()
            .map(|node| (Target::Node(NodeId(*node)), 1))
            .collect();
        RegionPlan {
            memory: MemoryPlan::Anonymous,
            size_bytes,
            page_size,
            placement: match targets.as_slice() {
                [(only, _)] => PlacementSpec::Bind(*only),
                _ => PlacementSpec::Weighted(targets),
            },
        }
    }

    fn task(&self, name: &str, work: Work, region: RegionPlan, cpus: &[u32]) -> TaskPlan {
        TaskPlan {
            name: name.into(),
            role: TaskRole::Main,
            host: None,
            work,
            regions: vec![region],
            workers: WorkersPlan {
                threads: cpus.len() as u32,
                pin: Pin::Cpus {
                    cpus: cpus.to_vec(),
                },
            },
            amount: Amount::Seconds(self.shape.seconds),
            rate_gbps: None,
        }
    }

    fn stream(&self, name: &str, access: Access, cpus: &[u32]) -> TaskPlan {
        let work = Work::Throughput {
            access,
            batch_bytes: 4 << 20,
            sharing: Sharing::Queue,
        };
        let region = self.region(self.shape.region_bytes, self.shape.page_size);
        self.task(name, work, region, cpus)
    }

    fn rate(&self, operation: &str, access: Access, threads: u32) -> Probe {
        let cpus = &self.cpus[..threads as usize];
        let kind = ProbeKind::Rate {
            operation: operation.to_owned(),
            threads,
        };
        self.probe(kind, vec![self.stream("main", access, cpus)])
    }

    fn chase_task(&self, locality: ChaseLocality, bytes: u64) -> TaskPlan {
        let region = self.region(bytes, self.shape.page_size);
        self.task("main", Work::Chase { locality }, region, &self.cpus[..1])
    }

    fn chase(&self, kind: ProbeKind, bytes: u64) -> Probe {
        let locality = match &kind {
            ProbeKind::Idle(locality) | ProbeKind::Footprint { locality, .. } => *locality,
            _ => ChaseLocality::Pages,
        };
        self.probe(kind, vec![self.chase_task(locality, bytes)])
    }

    /// The latency probe with the other cores reading at increasing rates, then at full speed, once
    /// also with mixed load.
    fn loaded(&self) -> Vec<Probe> {
        // The peak is not known yet, so the rates are steps in GB/s per core.
        let shares: &[f64] = match self.shape.depth {
            Depth::Quick => &[2.0, 8.0],
            Depth::Full => &[0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0],
        };
        let others = &self.cpus[1..];
        let mix = Operation::Mix {
            read_percent: 67,
            stream: false,
        };
        let limited = shares
            .iter()
            .map(|share| (Some(share * others.len() as f64), false));
        limited
            .chain([(None, false), (None, true)])
            .map(|(rate_gbps, mixed)| {
                let operation = if mixed { mix } else { Operation::Read };
                let load = TaskPlan {
                    name: "load".into(),
                    role: TaskRole::Background,
                    rate_gbps,
                    ..self.stream("load", Access::sequential(operation), others)
                };
                let chase = self.chase_task(ChaseLocality::Pages, self.shape.region_bytes);
                self.probe(ProbeKind::Loaded { rate_gbps, mixed }, vec![chase, load])
            })
            .collect()
    }

    fn footprints(&self) -> Vec<Probe> {
        let step = match self.shape.depth {
            Depth::Quick => 2,
            Depth::Full => 1,
        };
        FOOTPRINTS
            .step_by(step)
            .map(|shift| 1_u64 << shift)
            .take_while(|bytes| *bytes <= self.shape.region_bytes)
            .flat_map(|bytes| {
                [ChaseLocality::Pages, ChaseLocality::Random]
                    .map(|locality| self.chase(ProbeKind::Footprint { bytes, locality }, bytes))
            })
            .collect()
    }

    fn touch(&self, page_size: PageSize) -> Probe {
        let work = Work::Mapping {
            action: MapAction::Map,
            sharing: MapSharing::Private,
            populate: true,
        };
        let region = self.region(LEAST_REGION_BYTES.min(self.shape.region_bytes), page_size);
        let mut task = self.task("main", work, region, &self.cpus[..1]);
        task.amount = Amount::Operations(1);
        self.probe(ProbeKind::Touch(page_size), vec![task])
    }
}
