//! What will be run, resolved: the plan that `--dry-run` prints is the plan that runs and that records carry.
//!
//! Plans are data without handles or addresses: they are compared, hashed ([`RunPlan::id`]) and sent to agents on other hosts. Nodes and
//! tiers are named as on the machine that will run the task; they are resolved there.

mod id;

pub use id::PlanError;

use serde::{Deserialize, Serialize};
use tierloom_kernels::access::{Access, ChainStep, ChaseLocality, FenceMode, LineState};
use tierloom_memory::{PageSize, PlacementSpec};

/// One run: one line of records. The first task is the main one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// 16 hexadecimal digits of a hash over all other fields but `file` and `line`: the same run has the same id wherever it is written.
    pub id: String,
    /// Name of the workload in its file.
    pub workload: String,
    /// The file it is from; empty for plans made by the program.
    pub file: String,
    /// Line of the workload in that file, from 1; 0 for plans made by the program.
    pub line: u64,
    /// The keys that vary within the workload with this run's values as typed, in file order: a curve's axis, a heatmap's row.
    pub varied: Vec<(String, String)>,
    /// What runs at the same time; the first one is the main task and decides how long.
    pub tasks: Vec<TaskPlan>,
    /// Timed repetitions.
    pub repeat: u32,
    /// Seconds that every task runs untimed before the first repetition.
    pub warmup_s: f64,
    /// Go on repeating until the figure is known this well.
    pub until_stable: Option<UntilStable>,
    /// Seed of all random places and contents.
    pub seed: u64,
}

/// When a run has been repeated often enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UntilStable {
    /// Half of the 95% confidence interval of the main figure's median over the median: 0.02 is 2%.
    pub relative_half_width: f64,
    /// Give up after so many repetitions.
    pub max_repeat: u32,
}

/// Whether a task is what the run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Its figures are the run's; it decides when a repetition ends.
    Main,
    /// Runs for as long as the main task does.
    Background,
}

/// One task: workers that do one kind of work on their regions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskPlan {
    /// Its name, unique in the run.
    pub name: String,
    /// Main or background.
    pub role: Role,
    /// Name of the host that runs it; `None` for this one.
    pub host: Option<String>,
    /// What its workers do.
    pub work: Work,
    /// The memory: the first region is `m0`, the second (custom chains only) `m1`.
    pub regions: Vec<RegionPlan>,
    /// Who does it.
    pub workers: WorkersPlan,
    /// How long or how much.
    pub amount: Amount,
    /// Accesses of all workers together are held back to this rate, GB/s (decimal).
    pub rate_gbps: Option<f64>,
}

/// What workers do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Work {
    /// Accesses as fast as they go (or as `rate_gbps` allows); the figure is bandwidth.
    Throughput {
        /// The access.
        access: Access,
        /// Bytes of one batch.
        batch_bytes: u64,
        /// How batches come to workers.
        sharing: Sharing,
    },
    /// Single accesses, some of them timed; the figure is a latency distribution.
    Latency {
        /// The access.
        access: Access,
        /// One access in so many is timed; 1 times all.
        sample_every: u64,
        /// What is done to the line before a timed access.
        line: LineState,
        /// How a timed access is fenced off.
        fence: FenceMode,
    },
    /// Dependent loads through a random cycle of all lines; the figure is the time per load.
    Chase {
        /// Order of the cycle.
        locality: ChaseLocality,
    },
    /// `mmap` (with populating) or `munmap` of the whole region, timed each; the figure is a latency distribution.
    Mapping {
        /// Which of the two is timed.
        action: MapAction,
        /// Kind of mapping.
        sharing: MapSharing,
        /// Whether pages are made present within the timed call.
        populate: bool,
    },
    /// A chain of accesses, each at a place that depends on what the one before read.
    Custom {
        /// The steps.
        chain: Vec<ChainStep>,
        /// One chain in so many is timed; 0 times none and the figure is chains per second.
        sample_every: u64,
    },
}

/// How batches come to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// From one queue over the whole region, to whoever is free.
    Queue,
    /// Each worker has a contiguous part of the region for itself.
    Partitioned,
}

/// What is timed of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapAction {
    /// Making it.
    Map,
    /// Taking it away.
    Unmap,
}

/// Kind of mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapSharing {
    /// `MAP_PRIVATE`.
    Private,
    /// `MAP_SHARED`.
    Shared,
}

/// Memory that a task works on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionPlan {
    /// What its pages come from.
    pub memory: MemoryPlan,
    /// Size, bytes; whole pages.
    pub size_bytes: u64,
    /// Pages.
    pub page_size: PageSize,
    /// Where the pages go; [`PlacementSpec::Default`] on devices and ordinary files.
    pub placement: PlacementSpec,
}

/// What pages come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum MemoryPlan {
    /// Anonymous memory, placed by us page run by page run.
    Anonymous,
    /// Anonymous memory under the kernel's own (weighted) interleaving over the placement's nodes, with the weights the system has.
    KernelInterleave {
        /// Weighted by the system's weights, or evenly.
        weighted: bool,
    },
    /// A file, mapped shared: tmpfs, fsdax, hugetlbfs or an ordinary one. A directory gets a temporary file.
    File {
        /// Its path.
        path: String,
        /// First byte of the file that is mapped, a multiple of the page size; 0 for directories.
        offset_bytes: u64,
    },
    /// A devdax character device.
    Devdax {
        /// Its path.
        path: String,
        /// First byte of the device that is mapped, a multiple of its alignment.
        offset_bytes: u64,
    },
}

/// Who does a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkersPlan {
    /// Threads.
    pub threads: u32,
    /// Where they run.
    pub pin: Pin,
}

/// Where threads run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Pin {
    /// Wherever the process may.
    Free,
    /// Thread i on CPU `cpus[i % cpus.len()]` alone.
    Cpus {
        /// CPU numbers.
        cpus: Vec<u32>,
    },
    /// Threads on the CPUs of NUMA nodes.
    Nodes {
        /// Node numbers.
        nodes: Vec<u32>,
        /// How threads spread over them.
        spread: NodeSpread,
    },
}

/// How threads spread over the CPUs of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeSpread {
    /// Each thread may run on all CPUs of all the nodes.
    AllNodes,
    /// Thread i may run on all CPUs of node `nodes[i % nodes.len()]`.
    OneNodeEach,
    /// Each thread has one CPU: first CPU of each node in turn, then the second ones.
    OneCpuEach,
}

/// How much is done in one repetition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// For this long.
    Seconds(f64),
    /// So many operations, all workers together.
    Operations(u64),
    /// So many bytes, all workers together.
    Bytes(u64),
    /// The whole region so many times.
    Passes(u64),
}
