//! Turns runs of `tierloom bench` into figures and fits a profile to them.
//!
//! A run becomes a figure if the model has a benchmark that does the same accesses; all others are
//! skipped with a reason, since a run that is priced as something else would distort the fit.

use crate::commands::validate::load;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use tierloom_bench::plan::{RunPlan, Work as Plan};
use tierloom_calibrate::{
    Calibration, Experiment, FigureFile, FigurePoint, Fit, Knowledge, Library, Parameter, Quantity,
    Role, Set, Target, fit,
};
use tierloom_kernels::Simd;
use tierloom_kernels::access::{Access, CacheOp, ChaseLocality, Distribution, Operation, Order};
use tierloom_model::reference::work::{Chase, Filter, RandomAccess, Stream, Work};
use tierloom_model::{Background, Machine, Op, Placement, TierShares};
use tierloom_record::{BenchRecord, RecordSet, Spread, TaskRecord};

/// Lower limit on the uncertainty of a measured figure, per cent: repetitions of one day vary less
/// than days do.
const NOISE_PERCENT: f64 = 2.0;
/// Standard deviation assumed for the numbers of the base profile, per cent.
const PRIOR_PERCENT: f64 = 100.0;
/// Dependent loads measure a tier's latency only if the footprint is at least this many times the
/// last-level cache.
const BEYOND_CACHES: f64 = 8.0;

/// Tier of the profile by NUMA node.
pub type Tiers = BTreeMap<u32, String>;

/// Parses `0=dram,1=cxl`.
pub fn tiers(text: &[String], machine: &Machine) -> Result<Tiers, Failure> {
    let mut tiers = Tiers::new();
    for part in text {
        let parsed = part
            .split_once('=')
            .and_then(|(node, tier)| Some((node.trim().parse().ok()?, tier.trim())));
        let Some((node, tier)) = parsed else {
            return Err(Failure::input(format!(
                "--tier {part}: expected NODE=TIER, 0=dram for example"
            )));
        };
        if machine.tier(tier).is_none() {
            let known: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
            return Err(Failure::input(format!(
                "--tier {part}: machine {} has no tier {tier:?}, it has {}",
                machine.name,
                known.join(", ")
            )));
        }
        if tiers.insert(node, tier.to_owned()).is_some() {
            return Err(Failure::input(format!(
                "--tier {part}: node {node} is given twice"
            )));
        }
    }
    Ok(tiers)
}

/// A fitted profile, and the runs that were left out.
pub struct Fitted {
    pub machine: Machine,
    pub fit: Fit,
    /// Records that were not used, with the reason.
    pub skipped: Vec<String>,
}

/// Fits the numbers of `machine` to the runs in `records`.
pub fn fitted(machine: &Machine, records: &Path, tiers: &Tiers) -> Result<Fitted, Failure> {
    let set = RecordSet::read(records)?;
    let file = records.display().to_string();
    let mut figures = Vec::new();
    let mut skipped = Vec::new();
    for (index, record) in set.benches.iter().enumerate() {
        match figure(record, machine, tiers) {
            Ok(point) => figures.push(FigurePoint {
                id: format!("run {} {}", index + 1, point.what),
                paper: file.clone(),
                file: file.clone(),
                line: index as u64 + 1,
                ..point
            }),
            Err(reason) => skipped.push(format!("run {} ({}): {reason}", index + 1, name(record))),
        }
    }
    // Reported rather than ignored: the user may have named the wrong file.
    let others = set.to_records().len() - set.benches.len();
    if others > 0 {
        skipped.push(format!(
            "{others} records that are no runs of `tierloom bench`"
        ));
    }
    if figures.is_empty() {
        return Err(Failure::input(format!(
            "{file}: no run in it can be fitted: {}",
            skipped.join("; ")
        )));
    }
    let named = tiers
        .values()
        .cloned()
        .collect::<std::collections::BTreeSet<_>>();
    let calibration = Calibration {
        file: "tierloom calibrate --records".into(),
        figures: vec![file.clone()],
        constants: String::new(),
        machines: String::new(),
        parameters: parameters(machine, &named),
    };
    let mut library = Library::default();
    library
        .machines
        .insert(machine.name.clone(), machine.clone());
    let measured = FigureFile {
        file: file.clone(),
        paper: file,
        citation: String::new(),
        figures,
    };
    let fit = fit(&calibration, &[measured], &library).map_err(Failure::input)?;
    let mut fitted = machine.clone();
    for ((target, value), parameter) in fit.values.iter().zip(&fit.parameters) {
        // A number that no run depends on keeps its value and source from the base profile.
        if let (Target::Number { path, .. }, true) =
            (target, parameter.knowledge != Knowledge::Undetermined)
        {
            fitted
                .set_number(path, value.clone())
                .map_err(Failure::runtime)?;
        }
    }
    Ok(Fitted {
        machine: fitted,
        fit,
        skipped,
    })
}

/// Loads the base profile, from a file or built in.
pub fn base(name: &str) -> Result<Machine, Failure> {
    if tierloom_suite::machine::is_file(name) {
        load::machine(Path::new(name))
    } else {
        tierloom_model::profiles::load(name).map_err(Failure::input)
    }
}

/// The numbers that benchmarks can determine, starting from the base profile's values.
fn parameters(machine: &Machine, tiers: &std::collections::BTreeSet<String>) -> Vec<Parameter> {
    let of_tier = [
        "read_gbps",
        "write_gbps",
        "nt_write_gbps",
        "idle_latency_ns",
        "random_share",
        "loaded.ratio_at_peak",
    ];
    let of_core = [
        "sequential_scalar",
        "sequential_simd",
        "random",
        "random_prefetched",
        "store",
        "nt_store",
    ];
    let paths = tiers
        .iter()
        .flat_map(|tier| of_tier.map(|key| format!("tiers[{tier}].{key}")))
        .chain(of_core.map(|key| format!("concurrency.{key}")))
        .chain(["tlb.walk_ns".to_owned()]);
    let parameter = |path: String| {
        // The range is a multiple of the start, so a number that is 0 in the base profile is not
        // fitted.
        let start = machine.number(&path)?.value;
        // Lines in flight and ratios are at least 1, shares at most 1.
        let least = if path.starts_with("concurrency") || path.ends_with("ratio_at_peak") {
            1.0
        } else {
            0.0
        };
        let most = if path.ends_with("random_share") {
            1.0
        } else {
            f64::INFINITY
        };
        (start > 0.0).then(|| Parameter {
            name: path.clone(),
            why: "measured with `tierloom bench`".into(),
            low: (start / 5.0).max(least),
            high: (start * 5.0).min(most),
            start,
            prior_percent: Some(PRIOR_PERCENT),
            line: 0,
            sets: vec![Set {
                target: Target::Number {
                    machine: machine.name.clone(),
                    path,
                },
                times: 1.0,
                plus: 0.0,
                at_most: None,
            }],
        })
    };
    paths
        .filter_map(parameter)
        .filter(|p| p.low < p.high)
        .collect()
}

fn name(record: &BenchRecord) -> String {
    let varied: Vec<String> = record
        .varied
        .iter()
        .map(|s| format!("{}={}", s.key, s.value))
        .collect();
    if varied.is_empty() {
        record.workload.clone()
    } else {
        format!("{}: {}", record.workload, varied.join(", "))
    }
}

/// The run as a figure of `machine`, or the reason why it cannot be one.
fn figure(record: &BenchRecord, machine: &Machine, tiers: &Tiers) -> Result<FigurePoint, String> {
    if !record.valid {
        return Err("the record says that its figures must not be used".into());
    }
    let plan: RunPlan = serde_json::from_value(record.plan.clone())
        .map_err(|e| format!("its plan cannot be read: {e}"))?;
    let (Some(task), Some(main)) = (record.tasks.first(), plan.tasks.first()) else {
        return Err("it has no task".into());
    };
    if plan.tasks.iter().any(|t| t.host.is_some()) {
        return Err("several hosts took part".into());
    }
    let placement = Placement::new(shares(task, tiers)?);
    let size_bytes: u64 = task.regions.iter().map(|r| r.size_bytes).sum();
    let (work, quantity, measured) = match &main.work {
        Plan::Throughput { access, .. } => {
            // The bandwidth of a limited or disturbed task is not what the memory can give.
            if main.rate_gbps.is_some() || plan.tasks.len() > 1 {
                return Err("it was held back or ran beside other tasks".into());
            }
            let rate = task.bandwidth_gbps.as_ref().ok_or("it has no bandwidth")?;
            (throughput(access, size_bytes as f64)?, Quantity::Gbps, rate)
        }
        Plan::Chase { locality } => {
            let latency = task.latency.as_ref().ok_or("it has no latency")?;
            let chase = Work::Chase(Chase {
                footprint_bytes: size_bytes as f64,
                ..Chase::default()
            });
            let quantity = match locality {
                ChaseLocality::Random => Quantity::LatencyNs,
                // Within groups of pages address translation mostly hits, so a load takes the
                // tier's latency alone.
                ChaseLocality::Pages => Quantity::TierLatencyNs,
            };
            if (size_bytes as f64) < BEYOND_CACHES * machine.cache.llc_bytes.value {
                return Err("it stays in the caches in part".into());
            }
            (chase, quantity, &latency.median_ns)
        }
        Plan::Latency { .. } => return Err("single timed accesses hold the timer's fences".into()),
        Plan::Mapping { .. } => return Err("it measures the kernel, not memory".into()),
        Plan::Custom { .. } => return Err("the model has no chains of unlike accesses".into()),
        Plan::Operator { .. } => return Err("operators are no figures of a machine yet".into()),
    };
    let tier = placement
        .default
        .iter()
        .next()
        .map_or_else(String::new, |s| s.tier.clone());
    Ok(FigurePoint {
        id: String::new(),
        series: String::new(),
        x: None,
        paper: String::new(),
        what: name(record),
        role: Role::Fitted,
        because: None,
        quantity,
        published: Some(measured.median),
        relation: None,
        setting: Experiment {
            machine: machine.name.clone(),
            work,
            threads: Some(task.threads),
            placement,
            moves: Vec::new(),
            background: background(record, tiers)?,
            groups: Vec::new(),
            tier,
            tool: Vec::new(),
            compute: Vec::new(),
        },
        versus: None,
        noise_percent: noise_percent(measured),
        source: format!("run {}", record.run_id),
        remark: None,
        file: String::new(),
        line: 0,
    })
}

/// Half of the range relative to the median, but at least [`NOISE_PERCENT`].
fn noise_percent(spread: &Spread) -> f64 {
    let half = (spread.max - spread.min) / 2.0 / spread.median * 100.0;
    half.max(NOISE_PERCENT)
}

/// The tiers of a task's pages, from the page audit.
fn shares(task: &TaskRecord, tiers: &Tiers) -> Result<TierShares, String> {
    let mut weights: BTreeMap<&str, f64> = BTreeMap::new();
    for region in &task.regions {
        let audit = region
            .before
            .as_ref()
            .ok_or("where its pages were is not known (device memory)")?;
        for node in &audit.actual {
            let tier = tiers.get(&node.node).ok_or_else(|| {
                format!(
                    "node {} has no tier; name it with --tier {}=..",
                    node.node, node.node
                )
            })?;
            *weights.entry(tier).or_default() += node.share * region.size_bytes as f64;
        }
    }
    let weights: Vec<(&str, f64)> = weights.into_iter().collect();
    TierShares::from_weights(&weights).map_err(|e| e.to_string())
}

/// The load that ran beside a chase.
fn background(record: &BenchRecord, tiers: &Tiers) -> Result<Vec<Background>, String> {
    let mut loads = Vec::new();
    for task in record.tasks.iter().skip(1) {
        let rate = task
            .bandwidth_gbps
            .as_ref()
            .ok_or("what ran beside it has no bandwidth")?;
        if !task.access.starts_with("read") {
            return Err(format!(
                "beside it ran {:?}; only reads are priced as load",
                task.access
            ));
        }
        for share in shares(task, tiers)?.iter() {
            loads.push(Background::reads(
                share.tier.clone(),
                rate.median * share.share,
            ));
        }
    }
    Ok(loads)
}

/// The model's benchmark with the same accesses.
fn throughput(access: &Access, bytes: f64) -> Result<Work, String> {
    if access.cache_op != CacheOp::None {
        return Err(format!(
            "the model has no {} after an access",
            access.cache_op
        ));
    }
    let simd = access.simd != Simd::Scalar;
    let stream = Stream {
        simd,
        bytes,
        ..Stream::default()
    };
    let is_dense = access.stride_bytes == access.access_bytes;
    match (access.order, access.operation) {
        (Order::Random(Distribution::Zipf { .. }), _) => {
            Err("the model has no skewed accesses".into())
        }
        (Order::Random(Distribution::Uniform), operation) => {
            let op = match operation {
                Operation::Read | Operation::StreamRead => Op::Read,
                Operation::Write => Op::Write,
                Operation::StreamWrite => Op::NtWrite,
                other => return Err(format!("the model has no random {other}")),
            };
            Ok(Work::Random(RandomAccess {
                op,
                access_bytes: access.access_bytes as f64,
                footprint_bytes: bytes,
                prefetched: access.prefetch_bytes > 0,
                compute_ns: 0.0,
            }))
        }
        (_, Operation::Read | Operation::StreamRead) if is_dense => Ok(Work::Read(stream)),
        (_, Operation::Write) if is_dense => Ok(Work::Write(stream)),
        (_, Operation::StreamWrite) if is_dense => Ok(Work::NtWrite(stream)),
        // Half of the region is read and half is written.
        (_, Operation::Copy) if is_dense => Ok(Work::Copy(Stream {
            bytes: bytes / 2.0,
            ..stream
        })),
        (_, Operation::Read | Operation::StreamRead)
            if access.access_bytes <= 64
                && access.stride_bytes.is_multiple_of(access.access_bytes) =>
        {
            let skip = u32::try_from(access.stride_bytes / access.access_bytes - 1)
                .map_err(|_| "its stride is too long")?;
            Ok(Work::Filter(Filter {
                skip,
                value_bytes: access.access_bytes as f64,
                bytes,
                simd,
                compute_ns: 0.0,
            }))
        }
        (_, other) => Err(format!("the model has no {other} of this kind")),
    }
}
