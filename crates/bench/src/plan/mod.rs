//! Resolved plans: what `--dry-run` prints, what runs, and what records contain.
//!
//! Plans are plain data without handles or addresses, so they can be compared, hashed
//! ([`RunPlan::id`]) and sent to agents on other hosts. Nodes and tiers are named as on the machine
//! that runs the task, and are resolved there. The field names are part of the record format.

mod id;

pub use id::PlanError;

use serde::{Deserialize, Serialize};
use tierloom_kernels::access::{Access, ChainStep, ChaseLocality, FenceMode, LineState};
use tierloom_memory::{PageSize, PlacementSpec};
use tierloom_operators::Operator;

/// One run, which becomes one record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// 16 hexadecimal digits of a hash over all other fields except `file`, `line` and `scale`.
    ///
    /// The same run has the same id in whichever file it is written.
    pub id: String,
    /// Name of the workload in its file.
    pub workload: String,
    /// The file that the workload is in; empty for plans made by the program.
    pub file: String,
    /// Line of the workload in that file, from 1; 0 for plans made by the program.
    pub line: u64,
    /// The keys that vary within the workload, with this run's values as typed, in file order.
    ///
    /// Reports use them as the axes of curves and heatmaps.
    pub varied: Vec<(String, String)>,
    /// The tasks that run at the same time, main tasks first.
    ///
    /// A repetition lasts for the time of the first one or, if that has an amount of work instead,
    /// until all main tasks have done theirs.
    pub tasks: Vec<TaskPlan>,
    /// Number of timed repetitions; with `until_stable`, the smallest number.
    pub repeat: u32,
    /// Seconds that every task runs untimed before the first repetition.
    pub warmup_s: f64,
    /// Repeat until the median is known this precisely; `None` for exactly `repeat` repetitions.
    pub until_stable: Option<UntilStable>,
    /// Seed of all random addresses and contents.
    pub seed: u64,
    /// Factor on the sizes of structures that file and command asked for; 1 for sizes as given.
    ///
    /// For readers only, and no part of the id: the sizes of regions and the parameters of
    /// operators are scaled already.
    #[serde(default = "unscaled", skip_serializing_if = "is_unscaled")]
    pub scale: f64,
}

fn unscaled() -> f64 {
    1.0
}

fn is_unscaled(scale: &f64) -> bool {
    *scale == unscaled()
}

/// When a run has been repeated often enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UntilStable {
    /// Half of the 95% confidence interval of the main figure's median, divided by the median.
    ///
    /// 0.02 is 2%.
    pub relative_half_width: f64,
    /// Number of repetitions after which to stop in any case.
    pub max_repeat: u32,
}

/// Whether the figures of a task are those of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskRole {
    /// The figures of this task are the run's; it takes part in ending a repetition.
    Main,
    /// Runs for as long as the main tasks do, to load the memory.
    Background,
}

/// One task: a group of threads that do one kind of work on their regions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskPlan {
    /// Name of the task, unique in the run.
    pub name: String,
    /// Whether its figures are the run's.
    pub role: TaskRole,
    /// Name of the host that runs it; `None` for the machine of the coordinator.
    pub host: Option<String>,
    /// What its threads do, and so which figure is reported.
    pub work: Work,
    /// The memory: the first region is `m0`, the second `m1` (custom chains; where copies go to).
    ///
    /// Operators have one for each structure, in the order of [`Operator::structures`].
    pub regions: Vec<RegionPlan>,
    /// The number of threads, and where they run.
    pub workers: WorkersPlan,
    /// How long a repetition takes, or how much it does.
    pub amount: Amount,
    /// Limit of the bandwidth of all threads together, GB/s (decimal); `None` for no limit.
    pub rate_gbps: Option<f64>,
}

/// What the threads of a task do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Work {
    /// Accesses at full speed, or at `rate_gbps`; the figure is bandwidth.
    Throughput {
        /// Operation, order, size and stride of the accesses.
        access: Access,
        /// Bytes that a thread takes from the queue at a time.
        batch_bytes: u64,
        /// How batches are distributed over the threads.
        sharing: Sharing,
    },
    /// Single accesses, some of them timed; the figure is a latency distribution.
    Latency {
        /// Operation, order, size and stride of the accesses.
        access: Access,
        /// One access in this many is timed; 1 times all.
        sample_every: u64,
        /// The cache state that a line is brought into before a timed access.
        line: LineState,
        /// Which fences surround a timed access.
        fence: FenceMode,
    },
    /// Dependent loads through a random cycle of all lines; the figure is the time per load.
    Chase {
        /// Order of the lines in the cycle.
        locality: ChaseLocality,
    },
    /// `mmap` or `munmap` of the whole region; the figure is a latency distribution of the calls.
    Mapping {
        /// Which of the two calls is timed.
        action: MapAction,
        /// Whether the mapping is private or shared.
        sharing: MapSharing,
        /// Whether `mmap` also makes the pages present.
        populate: bool,
    },
    /// A chain of accesses, where the address of each depends on what the previous one read.
    Custom {
        /// The accesses in order; the first is a read.
        chain: Vec<ChainStep>,
        /// One chain in this many is timed; 0 times none, and the figure is chains per second.
        ///
        /// Values above 256 have the effect of 256.
        sample_every: u64,
    },
    /// A database operator on its structures; the figure is tuples per second.
    Operator {
        /// The operator with its parameters.
        operator: Operator,
    },
}

/// How batches are distributed over the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// From one queue over the whole region, to whichever thread is free.
    Queue,
    /// Each thread has a separate contiguous part of the region.
    Partitioned,
}

/// Which call is timed when mappings are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapAction {
    /// `mmap`, including populating if the plan says so.
    Map,
    /// `munmap` of the whole region.
    Unmap,
}

/// Whether a mapping is private or shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapSharing {
    /// `MAP_PRIVATE`: writes stay in this mapping.
    Private,
    /// `MAP_SHARED`: writes are visible to other mappings.
    Shared,
}

/// One region: the memory that a task works on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionPlan {
    /// The backend of its pages.
    pub memory: MemoryPlan,
    /// Size, bytes; a multiple of the page size.
    pub size_bytes: u64,
    /// Page size; devices have their own, and are listed with base pages.
    pub page_size: PageSize,
    /// Where the pages are placed; [`PlacementSpec::Default`] on devices and ordinary files.
    pub placement: PlacementSpec,
}

/// The backend of a region's pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum MemoryPlan {
    /// Anonymous memory, bound to nodes by this program.
    Anonymous,
    /// Anonymous memory under the kernel's own interleaving over the nodes of the placement.
    KernelInterleave {
        /// Whether the kernel's system-wide weights apply; otherwise pages alternate evenly.
        weighted: bool,
    },
    /// A file, mapped shared: tmpfs, fsdax, hugetlbfs or an ordinary one.
    File {
        /// Path of the file; in a directory, a temporary file is created.
        path: String,
        /// First byte of the file that is mapped, a multiple of the page size; 0 for directories.
        offset_bytes: u64,
    },
    /// A devdax character device.
    Devdax {
        /// Path of the device, such as `/dev/dax0.0`.
        path: String,
        /// First byte of the device that is mapped, a multiple of its alignment.
        offset_bytes: u64,
    },
}

/// The threads of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkersPlan {
    /// Number of threads, at least 1.
    pub threads: u32,
    /// The CPUs that they may run on.
    pub pin: Pin,
}

/// The CPUs that the threads of a task may run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Pin {
    /// All CPUs that the process may use.
    Free,
    /// Thread i runs on CPU `cpus[i % cpus.len()]` only.
    Cpus {
        /// CPU numbers as Linux assigns them, in the order of the threads.
        cpus: Vec<u32>,
    },
    /// The CPUs of NUMA nodes.
    Nodes {
        /// Node numbers as Linux assigns them, in the order of the threads.
        nodes: Vec<u32>,
        /// How the threads are distributed over the nodes.
        spread: NodeSpread,
    },
}

/// How threads are distributed over the CPUs of several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeSpread {
    /// Each thread may run on all CPUs of all the nodes.
    AllNodes,
    /// Thread i may run on all CPUs of node `nodes[i % nodes.len()]`.
    OneNodeEach,
    /// Each thread has one CPU: the first CPU of each node in turn, then the second ones.
    OneCpuEach,
}

/// How much is done in one repetition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// For this many seconds.
    Seconds(f64),
    /// This many operations, all threads together.
    Operations(u64),
    /// This many bytes, all threads together.
    Bytes(u64),
    /// This many passes over the whole region.
    Passes(u64),
}
