//! The record of one run of `tierloom bench`, with everything that is needed to repeat it.

use crate::{AuditRecord, HostCard, Provenance, Spread};
use serde::{Deserialize, Serialize};

/// One run of a memory benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRecord {
    /// Schema of the record, [`crate::SCHEMA`].
    pub schema: String,
    /// Always measured; written so that readers of mixed records find it in the same place.
    pub provenance: Provenance,
    /// Hash of the resolved plan: the same run has the same id wherever it is repeated.
    ///
    /// `--resume` and comparisons match records by it.
    pub run_id: String,
    /// Identifier of the invocation that the run was part of.
    pub session_id: String,
    /// Name of the workload in its file.
    pub workload: String,
    /// The workload file; empty for runs made by the program.
    pub file: String,
    /// Line of the workload in the file, from 1; 0 for runs made by the program.
    pub line: u64,
    /// The keys that vary within the workload, with this run's values.
    pub varied: Vec<Setting>,
    /// The resolved plan; `tierloom bench --plan` runs it again.
    ///
    /// It is kept as JSON, so that readers of records do not depend on the benchmark crate.
    pub plan: serde_json::Value,
    /// Start of the run, RFC 3339.
    pub started_at: String,
    /// Duration of the run including preparation, s.
    pub elapsed_s: f64,
    /// Version of the program.
    pub tool_version: String,
    /// Git commit of the build; `None` if unknown.
    pub commit: Option<String>,
    /// Build profile, "release" or "dev".
    pub build: String,
    /// The command line, one element per argument.
    pub command: Vec<String>,
    /// The machines that took part; the first one ran the main task.
    pub hosts: Vec<BenchHost>,
    /// The tasks, the main one first.
    pub tasks: Vec<TaskRecord>,
    /// Whether the figures may be used; false if any remark invalidates them.
    pub valid: bool,
    /// What a reader must know, including why the record is invalid ("two modes of speed").
    pub remarks: Vec<Remark>,
    /// Precision of the median; `None` unless `until_stable` was set.
    pub stability: Option<StabilityRecord>,
}

/// A key with its value, both as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    /// Name of the key, with the task before it if it is for one task only.
    pub key: String,
    /// Value as typed in the workload file.
    pub value: String,
}

/// End of the remark on runs whose structures the caches can hold.
pub const FITS_CACHES: &str = "the figure may be the cache's; take a larger region";

/// Something that a reader must know before using a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Whether it makes the figures unusable.
    pub invalidates: bool,
    /// The remark, one sentence.
    pub text: String,
}

/// A machine that took part in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchHost {
    /// Name of the host in the workload file; [`HERE`](crate::HERE) for the coordinator's machine.
    pub name: String,
    /// Processor, memory, tiers and kernel settings.
    pub card: HostCard,
    /// Sub-NUMA clustering, where it can be determined ("2 nodes per socket").
    pub snc: String,
    /// State of the hardware prefetchers, or why it cannot be read.
    pub prefetchers: String,
    /// Widest vector instructions of the processor.
    pub simd: String,
    /// Source, resolution and cost of time stamps, as text.
    pub timer: String,
    /// Offset of its clock from the coordinator's, ns, positive if ahead; `None` on the
    /// coordinator.
    pub clock_offset_ns: Option<f64>,
    /// Half of the round trip in which the offset was measured, ns; `None` on the coordinator.
    ///
    /// The true offset differs from the measured one by at most this.
    pub clock_uncertainty_ns: Option<f64>,
}

/// What one task did, and its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Name of the task, unique in the run.
    pub name: String,
    /// "main", or "background" for tasks that only load the memory.
    pub role: String,
    /// Name of its host in `hosts`.
    pub host: String,
    /// The access as text ("read, ascending, 64 B, avx512").
    pub access: String,
    /// "throughput", "latency", "chase", "mapping", "custom" or "operator".
    pub kind: String,
    /// The memory regions of the task, with page audits.
    pub regions: Vec<RegionRecord>,
    /// Number of threads of the task.
    pub threads: u32,
    /// CPUs that each thread could run on, in the kernel's list syntax.
    pub cpus: Vec<String>,
    /// Bandwidth of all threads together, GB/s, one value per repetition; `None` if no bytes move.
    ///
    /// Copies count the bytes read and the bytes written.
    pub bandwidth_gbps: Option<Spread>,
    /// Operations per second of all threads together, one value per repetition.
    pub operations_per_s: Option<Spread>,
    /// Bytes that one operation accesses.
    pub bytes_per_operation: u64,
    /// Number of operations in all timed repetitions.
    pub operations: u64,
    /// Bandwidth of each thread, GB/s, in thread order; empty if no bytes move.
    pub thread_gbps: Vec<Spread>,
    /// Requested limit of the bandwidth, GB/s; `None` for no limit.
    pub rate_gbps: Option<f64>,
    /// Latency distribution; `None` if none was timed.
    pub latency: Option<LatencyRecord>,
    /// Counters over all timed repetitions; only in the first task of a host.
    pub counters: Vec<CounterRecord>,
    /// Result of the check of the data after the run, as text; `None` if nothing can be checked.
    pub data_check: Option<String>,
    /// Time for mapping, populating and filling the regions, s.
    pub prepare_s: f64,
    /// Cost of a batch with an empty kernel, ns; `None` if the task uses no batches.
    pub overhead_per_batch_ns: Option<f64>,
    /// What an operator did; `None` for all other work.
    #[serde(default)]
    pub operator: Option<OperatorTaskRecord>,
    /// The raw values of each repetition, in order; empty unless they were asked for (`--samples`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<RepetitionSamples>,
}

/// The raw values of one repetition of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepetitionSamples {
    /// From the begin of the first thread to the end of the last one, s; of a background task, the
    /// time in which its operations were counted.
    pub seconds: f64,
    /// Operations of all threads.
    pub operations: u64,
    /// Bytes accessed by all threads; 0 if no bytes move, and for operators.
    pub bytes: u64,
    /// The threads in their order; empty for background tasks, which run through all repetitions.
    pub threads: Vec<ThreadSamples>,
}

/// What one thread did in one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadSamples {
    /// Begin of its work after that of the first thread, s.
    pub begun_s: f64,
    /// Duration of its work, s.
    pub seconds: f64,
    /// Its operations; of an operator, the first thread has those of all.
    pub operations: u64,
    /// Bytes that it accessed.
    pub bytes: u64,
    /// Of an operator: time that the thread worked in each phase, all passes together, s; in the
    /// order of [`OperatorTaskRecord::phases`]. Waiting for other threads is not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phase_seconds: Vec<f64>,
    /// Median of the latencies that the thread timed, ns; `None` if it timed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_median_ns: Option<f64>,
}

/// What a database operator did. Its tuples per second are the task's operations per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorTaskRecord {
    /// Name of the operator ("hash-join", "radix-partition").
    pub name: String,
    /// Tuples of one pass: those of all inputs.
    pub tuples: u64,
    /// Passes of one repetition.
    pub passes: u64,
    /// The phases of a pass, in order.
    pub phases: Vec<OperatorPhase>,
    /// Events besides the tuples themselves; none for most operators.
    #[serde(default)]
    pub counts: Vec<OperatorCount>,
}

/// How often something occurred in an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorCount {
    /// What it is ("restarts", "splits").
    pub name: String,
    /// How often, in all timed repetitions.
    pub count: u64,
    /// How often per tuple or operation.
    pub per_tuple: f64,
}

/// One phase of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorPhase {
    /// Name of the phase ("build", "probe", "histogram").
    pub name: String,
    /// Tuples that pass through it in one pass; 0 for phases that prepare one.
    pub tuples: u64,
    /// Whether its time is part of the operator's.
    pub counted: bool,
    /// Duration of the phase, all passes of a repetition together, s; one value per repetition.
    ///
    /// `None` for background tasks, which run through all repetitions.
    pub seconds: Option<Spread>,
    /// What it does to each structure.
    pub traffic: Vec<StructureTraffic>,
}

/// What a phase does to one structure in one pass, all threads together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructureTraffic {
    /// Name of the structure, which is that of its region.
    pub structure: String,
    /// Bytes loaded by instructions.
    pub read_bytes: u64,
    /// Bytes stored by instructions.
    pub written_bytes: u64,
    /// Accesses at addresses that do not follow from the one before.
    pub random_accesses: u64,
}

/// One memory region of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionRecord {
    /// "m0", or "m1" for the second region (of custom chains, and where copies go to); the
    /// structure of an operator.
    pub name: String,
    /// Backend of the pages ("anonymous memory", "/dev/dax0.0 from 256 MiB").
    pub memory: String,
    /// Size of the region, bytes; whole pages.
    pub size_bytes: u64,
    /// "4k", "thp", "2m" or "1g"; "device" for a DAX device, which has its own alignment.
    pub page_size: String,
    /// Placement as typed in the workload file.
    pub placement: String,
    /// Placement with node numbers.
    pub resolved: String,
    /// Page audit before the first repetition.
    ///
    /// `None` where the kernel cannot report pages (device memory, mapping tasks); `note` says why.
    pub before: Option<AuditRecord>,
    /// Page audit after the last repetition; `None` as for `before`.
    pub after: Option<AuditRecord>,
    /// Number of audited pages that were on another node after the run.
    ///
    /// 0 also if there was no audit: check `after` first.
    pub moved_pages: u64,
    /// Share of the bytes in transparent huge pages, 0 to 1; `None` if not asked for or unknown.
    pub huge_share: Option<f64>,
    /// Why something could not be checked.
    pub note: Option<String>,
}

/// A latency distribution over all samples of all repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// What one sample is ("one access", "one dependent load, mean of 256 in a row").
    pub what: String,
    /// Number of samples in the distribution.
    pub samples: u64,
    /// Cost of the two time stamps with their fences, ns; already subtracted from all latencies.
    ///
    /// It is a mean without the slowest per cent of the readings.
    pub timer_overhead_ns: f64,
    /// Mean of the samples, ns.
    pub mean_ns: f64,
    /// Smallest sample, ns.
    pub min_ns: f64,
    /// Largest sample, ns.
    pub max_ns: f64,
    /// Percentiles, ascending: 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99.
    ///
    /// Those with less than one sample beyond them are left out, except the 50th.
    pub percentiles: Vec<Percentile>,
    /// Histogram buckets, ascending; empty buckets are left out.
    pub histogram: Vec<Bucket>,
    /// Median of each repetition, ns.
    pub median_ns: Spread,
}

/// One percentile of a latency distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Percentile, 0 to 100.
    pub percent: f64,
    /// Latency that this share of the samples does not exceed, ns.
    pub latency_ns: f64,
}

/// One bucket of a latency histogram; it starts where the bucket below it ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Upper bound, ns.
    pub up_to_ns: f64,
    /// Number of samples in the bucket.
    pub count: u64,
}

/// One hardware or kernel counter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterRecord {
    /// Name ("instructions", "cycles", "llc_misses", "uncore_imc_0/cas_count_read", ...).
    pub name: String,
    /// Value over all timed repetitions; `None` if the counter is unavailable.
    pub value: Option<f64>,
    /// Unit: "1" for counts, "GB/s", "bytes".
    pub unit: String,
    /// Why it is unavailable and what would help, or how it was scaled.
    pub note: Option<String>,
}

/// Whether the run reached the requested precision of the median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StabilityRecord {
    /// Requested half width of the 95% confidence interval of the median, divided by the median.
    pub asked_relative_half_width: f64,
    /// Half width that was reached, divided by the median; 1 with fewer than six repetitions.
    pub reached_relative_half_width: f64,
    /// Whether the reached half width is small enough.
    pub stable: bool,
    /// Number of repetitions.
    pub repeats: u32,
}
