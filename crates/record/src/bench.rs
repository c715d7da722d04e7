//! What one run of `tierloom bench` leaves: a line that stands alone, with all that is needed to repeat it.

use crate::{AuditRecord, HostCard, Provenance, Spread};
use serde::{Deserialize, Serialize};

/// One run of a memory benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchRecord {
    /// [`crate::SCHEMA`].
    pub schema: String,
    /// Always measured; a reader of mixed records need not know.
    pub provenance: Provenance,
    /// Hash of the resolved run: equal for the same run wherever it is repeated. `--resume` and comparisons go by it.
    pub run_id: String,
    /// The invocation that this run was part of.
    pub session_id: String,
    /// Name of the workload.
    pub workload: String,
    /// Its file; empty for runs made by the program.
    pub file: String,
    /// Its line there, from 1; 0 for runs made by the program.
    pub line: u64,
    /// The keys that vary within the workload with this run's values.
    pub varied: Vec<Setting>,
    /// The resolved run as JSON: `tierloom bench --plan` runs it again.
    pub plan: serde_json::Value,
    /// When the run began, RFC 3339.
    pub started_at: String,
    /// How long it took with all preparation, s.
    pub elapsed_s: f64,
    /// Version of the program.
    pub tool_version: String,
    /// Its commit, if known at build time.
    pub commit: Option<String>,
    /// "release" or "dev".
    pub build: String,
    /// The command line.
    pub command: Vec<String>,
    /// The machines that took part; the first one ran the main task.
    pub hosts: Vec<BenchHost>,
    /// The tasks; the first is the main one.
    pub tasks: Vec<TaskRecord>,
    /// Whether the figures may be used.
    pub valid: bool,
    /// Why not, and what is doubtful although valid ("two modes of speed", "spread of 31%").
    pub remarks: Vec<Remark>,
    /// Repeating until stable, if it was asked for.
    pub stability: Option<StabilityRecord>,
}

/// A key with its value, both as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

/// Something a reader has to know before using a figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Whether it makes the figures unusable.
    pub invalidates: bool,
    /// One sentence.
    pub text: String,
}

/// A machine that took part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchHost {
    /// Name in the workload file; "here" for the machine of the command.
    pub name: String,
    /// What it is.
    pub card: HostCard,
    /// Sub-NUMA clustering as far as it shows ("2 nodes per socket").
    pub snc: String,
    /// Hardware prefetchers as far as they can be read, else why not.
    pub prefetchers: String,
    /// Widest vectors.
    pub simd: String,
    /// How time is taken ("tsc at 2.596 GHz, 24.3 ns per reading pair").
    pub timer: String,
    /// Its clock against the coordinator's, ns, positive if ahead; `None` on the coordinator itself.
    pub clock_offset_ns: Option<f64>,
    /// Half of the round trip in which the offset was measured, ns: the offset's uncertainty.
    pub clock_uncertainty_ns: Option<f64>,
}

/// What one task did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its name.
    pub name: String,
    /// "main" or "background".
    pub role: String,
    /// Name of the machine.
    pub host: String,
    /// What it does, in words ("read, ascending, 64 B, avx512").
    pub access: String,
    /// "throughput", "latency", "chase", "mapping" or "custom".
    pub kind: String,
    /// Its regions.
    pub regions: Vec<RegionRecord>,
    /// Threads.
    pub threads: u32,
    /// CPUs that each thread could run on, in the list syntax of the kernel.
    pub cpus: Vec<String>,
    /// Bandwidth of the bytes accessed, all threads together, GB/s, one value per repetition. Copies count both directions.
    pub bandwidth_gbps: Option<Spread>,
    /// Operations per second, all threads together, one value per repetition.
    pub operations_per_s: Option<Spread>,
    /// Bytes one operation accesses.
    pub bytes_per_operation: u64,
    /// Operations of all repetitions.
    pub operations: u64,
    /// Bandwidth of each thread, GB/s, in thread order.
    pub thread_gbps: Vec<Spread>,
    /// Bandwidth that was asked for, GB/s, if injected load was held back.
    pub rate_gbps: Option<f64>,
    /// Latencies, if any were timed.
    pub latency: Option<LatencyRecord>,
    /// Counters over all timed repetitions.
    pub counters: Vec<CounterRecord>,
    /// Whether the data was as it had to be afterwards, in words; `None` where it could not be checked.
    pub data_check: Option<String>,
    /// Time making the regions took (reserve, populate, fill), s.
    pub prepare_s: f64,
    /// Framework cost per batch with an empty kernel, ns, if batches were used.
    pub overhead_per_batch_ns: Option<f64>,
}

/// One region of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionRecord {
    /// "m0" or "m1".
    pub name: String,
    /// What the pages come from ("anonymous memory", "/dev/dax0.0 from 256 MiB").
    pub memory: String,
    /// Bytes.
    pub size_bytes: u64,
    /// "4k", "thp", "2m" or "1g"; "device" for a DAX device, whose own alignment it is.
    pub page_size: String,
    /// As typed.
    pub placement: String,
    /// With node numbers.
    pub resolved: String,
    /// Where the pages were before the first repetition; `None` where the kernel cannot say (device memory), see `note`.
    pub before: Option<AuditRecord>,
    /// Where they were after the last one.
    pub after: Option<AuditRecord>,
    /// Checked pages that were on another node afterwards.
    pub moved_pages: u64,
    /// Share of the bytes in transparent huge pages, where asked for and known.
    pub huge_share: Option<f64>,
    /// Why something could not be checked.
    pub note: Option<String>,
}

/// A latency distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// What one sample is ("one access", "one dependent load, mean of 1000", "mmap and populate").
    pub what: String,
    /// Samples.
    pub samples: u64,
    /// Cost of taking the time with its fences, ns (mean without the slowest per cent), already subtracted from all figures here.
    pub timer_overhead_ns: f64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Smallest, ns.
    pub min_ns: f64,
    /// Largest, ns.
    pub max_ns: f64,
    /// Percentile and latency in ns, ascending: 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99 as far as the samples allow.
    pub percentiles: Vec<Percentile>,
    /// The histogram: upper end of each bucket in ns and samples in it, ascending, empty buckets left out.
    pub histogram: Vec<Bucket>,
    /// Medians of the repetitions, ns.
    pub median_ns: Spread,
}

/// A percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// 0 to 100.
    pub percent: f64,
    /// ns.
    pub latency_ns: f64,
}

/// A histogram bucket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Upper end, ns.
    pub up_to_ns: f64,
    /// Samples in it.
    pub count: u64,
}

/// One hardware counter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterRecord {
    /// "instructions", "cycles", "llc_misses", "uncore_imc_0/cas_count_read", ...
    pub name: String,
    /// Its value over all timed repetitions; `None` if unavailable.
    pub value: Option<f64>,
    /// "1", "GB/s", "bytes".
    pub unit: String,
    /// Why it is unavailable and what would help, or a word on scaling.
    pub note: Option<String>,
}

/// How repeating until stable ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StabilityRecord {
    /// Asked for: half width of the 95% confidence interval of the median over the median.
    pub asked_relative_half_width: f64,
    /// What was reached.
    pub reached_relative_half_width: f64,
    /// Whether that is enough.
    pub stable: bool,
    /// Repetitions made.
    pub repeats: u32,
}
