//! Which runs a characterisation is made of.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{Access, ChaseLocality, Operation};
use tierloom_memory::{MIB, PageSize, PlacementSpec, Target};
use tierloom_topology::{NodeId, Topology};

use super::{CharacterizeError, CharacterizeOptions, Depth, tier_between};
use crate::plan::{
    Amount, MapAction, MapSharing, MemoryPlan, Pin, RegionPlan, Role, RunPlan, Sharing, TaskPlan,
    Work, WorkersPlan,
};
use crate::run::Host;

/// A region is at least this many times the last-level caches, so that they answer little.
const REGION_OVER_LLC: u64 = 8;
/// Smallest region.
const LEAST_REGION_BYTES: u64 = 256 << 20;
/// At most this share of a node's free memory is used.
const FREE_SHARE: u64 = 3;
/// Smallest and largest footprint of the latency curve.
const FOOTPRINTS: std::ops::RangeInclusive<u32> = 14..=40;
/// Seconds without which a chase is still idle.
const WARMUP_S: f64 = 0.03;

/// One path from cores to memory, possibly several nodes of one tier together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPlan {
    /// Node whose cores access.
    pub initiator: u32,
    /// Nodes that are accessed, page by page in turn.
    pub targets: Vec<u32>,
    /// Tier of the targets for the initiator.
    pub tier: String,
}

/// What a probe measures.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeKind {
    /// Bandwidth of an operation with so many threads.
    Rate {
        /// As records call it.
        operation: String,
        /// Threads.
        threads: u32,
    },
    /// Latency of dependent loads in the large region.
    Idle(ChaseLocality),
    /// Latency of dependent loads beside reads held back to a rate, GB/s (`None`: not held back).
    Loaded {
        /// GB/s; `None` as fast as it goes.
        rate_gbps: Option<f64>,
        /// Whether the load writes too.
        mixed: bool,
    },
    /// Latency of dependent loads in a footprint.
    Footprint {
        /// Bytes.
        bytes: u64,
        /// Order.
        locality: ChaseLocality,
    },
    /// First touch of fresh pages.
    Touch(PageSize),
}

/// One probe: what it measures, on which path, with which run.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// What it measures.
    pub kind: ProbeKind,
    /// Where.
    pub path: PathPlan,
    /// How.
    pub plan: RunPlan,
}

impl Probe {
    /// What it measures, in a few words.
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

/// Order of dependent loads, in words: records tell probes apart by them.
fn order_words(locality: ChaseLocality) -> &'static str {
    match locality {
        ChaseLocality::Pages => "page by page",
        ChaseLocality::Random => "in random order",
    }
}

/// Settings of the probes that follow from machine and options.
struct Shape {
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
            let own = order == 0 && path.tier == "dram" && path.targets.len() == 1;
            probes.extend(path_probes(topology, &shape, path, own));
        }
    }
    Ok(probes)
}

/// Paths over all nodes of a tier that has several.
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
) -> Result<Shape, CharacterizeError> {
    let topology = &host.topology;
    let thp = topology
        .huge_pages
        .thp_mode
        .as_deref()
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
    Ok(Shape {
        depth: options.depth,
        page_size,
        region_bytes,
        seconds,
        repeat,
    })
}

/// Last-level caches of the machine together, bytes.
pub(super) fn llc_bytes(topology: &Topology) -> u64 {
    let caches = &topology.cpus.caches;
    let last = caches.iter().map(|cache| cache.level).max().unwrap_or(0);
    caches
        .iter()
        .filter(|cache| cache.level == last)
        .map(|cache| cache.size_bytes * u64::from(cache.count))
        .sum()
}

fn path_probes(topology: &Topology, shape: &Shape, path: &PathPlan, own: bool) -> Vec<Probe> {
    let cores = topology
        .node(NodeId(path.initiator))
        .map(|node| node.cpus.intersection(&topology.limits.cpus_allowed))
        .unwrap_or_default();
    let cpus: Vec<u32> = cores.iter().collect();
    let all = cpus.len() as u32;
    let maker = Maker { shape, path, cpus };
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
    if path.targets.len() == 1 {
        probes.push(maker.touch(shape.page_size));
        if shape.page_size != PageSize::Base {
            probes.push(maker.touch(PageSize::Base));
        }
    }
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

/// Makes the probes of one path.
struct Maker<'a> {
    shape: &'a Shape,
    path: &'a PathPlan,
    cpus: Vec<u32>,
}

impl Maker<'_> {
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
        };
        let mut probe = Probe {
            kind,
            path: self.path.clone(),
            plan: plan.with_id(),
        };
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
            role: Role::Main,
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

    /// A chase beside reads (and, once, a mix) of the other cores at rising rates.
    fn loaded(&self) -> Vec<Probe> {
        // What one core can add at most is not known yet; steps of a few GB/s per core, then no limit.
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
                    role: Role::Background,
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
