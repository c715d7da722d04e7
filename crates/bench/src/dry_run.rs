//! What `--dry-run` prints: the resolved runs as a table, with an estimate of time and memory.
//!
//! Nothing is mapped or measured. The estimate uses fixed assumptions about bandwidth and latency;
//! it shows whether a file takes minutes or days, not what the machine can do.

use tierloom_kernels::access::{Access, CacheOp, Distribution, Order};
use tierloom_topology::IdSet;

use crate::plan::{
    Amount, MapAction, MapSharing, MemoryPlan, NodeSpread, Pin, RegionPlan, RunPlan, Sharing,
    TaskPlan, Work,
};
use tierloom_text::Bytes;

/// Bandwidth per thread that estimates assume, GB/s.
///
/// It is between what one core of a server reads from local and from CXL memory.
pub const ASSUMED_GBPS_PER_THREAD: f64 = 8.0;
/// Latency of one access that estimates assume, ns.
pub const ASSUMED_LATENCY_NS: f64 = 250.0;
/// Time of one tuple in one phase of an operator that estimates assume, ns per thread.
pub const ASSUMED_TUPLE_NS: f64 = 10.0;
/// Rate of allocating and filling memory that estimates assume, GB/s.
pub const ASSUMED_PREPARE_GBPS: f64 = 1.5;

/// Estimated time and memory of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Preparation, warm-up and the repetitions that are certain to be made, s.
    pub seconds: f64,
    /// Whether the plan gives the length of a repetition as a time, so that only preparation is
    /// estimated.
    pub timed: bool,
    /// Memory by host, bytes, sorted by name; `None` is this machine and comes first.
    pub memory_bytes: Vec<(Option<String>, u64)>,
}

/// Estimates time and memory of a run.
pub fn estimate(plan: &RunPlan) -> Estimate {
    let mut memory_bytes: Vec<(Option<String>, u64)> = Vec::new();
    for task in &plan.tasks {
        let bytes = task.regions.iter().map(|region| region.size_bytes).sum();
        add(&mut memory_bytes, &task.host, bytes);
    }
    memory_bytes.sort();
    // Hosts prepare their regions at the same time, so the largest one takes longest.
    let prepared = memory_bytes.iter().map(|(_, bytes)| *bytes).max();
    let prepare_s = prepared.unwrap_or(0) as f64 / (ASSUMED_PREPARE_GBPS * 1e9);
    let repetition = plan.tasks.first().map_or(0.0, repetition_s);
    let timed = plan
        .tasks
        .first()
        .is_some_and(|task| matches!(task.amount, Amount::Seconds(_)));
    Estimate {
        // A run with `until_stable` may repeat more often; `totals` says so.
        seconds: prepare_s + plan.warmup_s + repetition * f64::from(plan.repeat),
        timed,
        memory_bytes,
    }
}

fn add(memory: &mut Vec<(Option<String>, u64)>, host: &Option<String>, bytes: u64) {
    match memory.iter_mut().find(|(name, _)| name == host) {
        Some((_, sum)) => *sum = sum.saturating_add(bytes),
        None => memory.push((host.clone(), bytes)),
    }
}

/// Estimated time of one repetition of the first task, s.
fn repetition_s(task: &TaskPlan) -> f64 {
    let region_bytes = task.regions.first().map_or(0, |region| region.size_bytes) as f64;
    let threads = f64::from(task.workers.threads);
    let (operation_bytes, operation_ns, per_pass) = match &task.work {
        Work::Throughput { access, .. } => {
            let bytes = access.access_bytes as f64;
            // Bytes per (GB/s) are ns.
            let gbps = task.rate_gbps.unwrap_or(ASSUMED_GBPS_PER_THREAD * threads);
            (
                bytes,
                bytes / gbps,
                region_bytes / access.stride_bytes.max(1) as f64,
            )
        }
        Work::Latency { access, .. } => (
            access.access_bytes as f64,
            ASSUMED_LATENCY_NS / threads,
            region_bytes / access.stride_bytes.max(1) as f64,
        ),
        Work::Chase { .. } => (64.0, ASSUMED_LATENCY_NS / threads, region_bytes / 64.0),
        Work::Mapping { .. } => (region_bytes, region_bytes / ASSUMED_PREPARE_GBPS, 1.0),
        Work::Custom { chain, .. } => {
            let bytes: usize = chain.iter().map(|step| step.size_bytes).sum();
            let bytes = bytes.max(64) as f64;
            (
                bytes,
                chain.len() as f64 * ASSUMED_LATENCY_NS / threads,
                region_bytes / bytes,
            )
        }
        Work::Operator { operator } => {
            let tuples = operator.tuples(task.workers.threads) as f64;
            (0.0, 2.0 * ASSUMED_TUPLE_NS / threads, tuples)
        }
    };
    let operations = match task.amount {
        Amount::Seconds(seconds) => return seconds,
        Amount::Operations(operations) => operations as f64,
        Amount::Bytes(bytes) => bytes as f64 / operation_bytes.max(1.0),
        Amount::Passes(passes) => passes as f64 * per_pass,
    };
    operations * operation_ns * 1e-9
}

/// The column titles of [`rows`].
pub const HEADER: [&str; 10] = [
    "run", "workload", "varied", "task", "work", "memory", "size", "threads", "amount", "time",
];

/// The table of a dry run, one row per task.
///
/// Cells about the whole run are only in the row of its first task.
pub fn rows(plans: &[RunPlan]) -> Vec<[String; 10]> {
    let mut rows = Vec::new();
    for plan in plans {
        for (index, task) in plan.tasks.iter().enumerate() {
            let first = |text: String| if index == 0 { text } else { String::new() };
            rows.push([
                first(plan.id.clone()),
                first(plan.workload.clone()),
                first(varied_text(plan)),
                task_name(plan, task),
                work_text(task),
                each_region(task, memory_text),
                each_region(task, size_text),
                workers_text(task),
                first(amount_text(plan, task)),
                first(time_text(&estimate(plan))),
            ]);
        }
    }
    rows
}

/// Time and memory of all runs together, as text.
pub fn totals(plans: &[RunPlan]) -> String {
    let estimates: Vec<Estimate> = plans.iter().map(estimate).collect();
    let seconds: f64 = estimates.iter().map(|estimate| estimate.seconds).sum();
    // Runs follow one another, so a host needs the memory of its largest run.
    let mut most: Vec<(Option<String>, u64)> = Vec::new();
    for (host, bytes) in estimates.iter().flat_map(|estimate| &estimate.memory_bytes) {
        match most.iter_mut().find(|(name, _)| name == host) {
            Some((_, peak)) => *peak = (*peak).max(*bytes),
            None => most.push((host.clone(), *bytes)),
        }
    }
    most.sort();
    let memory = join(&most, ", ", |(host, bytes)| {
        format!(
            "{} on {}",
            Bytes(*bytes),
            host.as_deref().unwrap_or("this machine")
        )
    });
    let mut text = format!(
        "{} {}, about {} ({}).\nMemory, at most: {}.\n",
        plans.len(),
        if plans.len() == 1 { "run" } else { "runs" },
        duration_text(seconds),
        format_args!(
            "preparing at {ASSUMED_PREPARE_GBPS} GB/s; where no time is given, {ASSUMED_GBPS_PER_THREAD} GB/s per thread and {ASSUMED_LATENCY_NS} ns per access are assumed"
        ),
        if memory.is_empty() { "none" } else { &memory },
    );
    let open = plans
        .iter()
        .filter(|plan| plan.until_stable.is_some())
        .count();
    if open > 0 {
        text += &format!("{open} of them may take longer, until they are stable.\n");
    }
    text
}

/// The table with aligned columns, followed by the totals.
pub fn render_dry_run(plans: &[RunPlan]) -> String {
    let rows = rows(plans);
    let mut widths = HEADER.map(|title| title.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; 10]| {
        let padded = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| cell.clone() + &" ".repeat(width - cell.chars().count()));
        let line = padded.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    let mut text = line(&HEADER.map(str::to_owned));
    rows.iter().for_each(|row| text += &line(row));
    format!("{text}\n{}", totals(plans))
}

fn join<T>(items: &[T], separator: &str, text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(separator)
}

fn varied_text(plan: &RunPlan) -> String {
    join(&plan.varied, " ", |(key, value)| format!("{key}={value}"))
}

fn task_name(plan: &RunPlan, task: &TaskPlan) -> String {
    let host = task
        .host
        .as_deref()
        .map_or(String::new(), |host| format!("@{host}"));
    let role = match (plan.tasks.len(), task.role) {
        (1, _) | (_, crate::plan::TaskRole::Main) => "",
        _ => " (background)",
    };
    format!("{}{host}{role}", task.name)
}

/// What a task does, as text.
fn work_text(task: &TaskPlan) -> String {
    let mut text = match &task.work {
        Work::Throughput {
            access,
            batch_bytes,
            sharing,
        } => {
            let sharing = match sharing {
                Sharing::Queue => "",
                Sharing::Partitioned => ", partitioned",
            };
            format!(
                "{}, batches of {}{sharing}",
                access_text(access),
                Bytes(*batch_bytes)
            )
        }
        Work::Latency {
            access,
            sample_every,
            line,
            fence,
        } => format!(
            "latency of {}, 1 in {sample_every} timed, line {}, fence {}",
            access_text(access),
            word(line),
            word(fence)
        ),
        Work::Chase { locality } => format!("chase, {}", word(locality)),
        Work::Mapping {
            action,
            sharing,
            populate,
        } => format!(
            "{} {}{}",
            match action {
                MapAction::Map => "map",
                MapAction::Unmap => "unmap",
            },
            match sharing {
                MapSharing::Private => "private",
                MapSharing::Shared => "shared",
            },
            if *populate { ", populated" } else { "" }
        ),
        Work::Custom {
            chain,
            sample_every,
        } => format!(
            "chain of {} accesses{}",
            chain.len(),
            match sample_every {
                0 => String::new(),
                every => format!(", 1 in {every} timed"),
            }
        ),
        Work::Operator { operator } => operator.to_string(),
    };
    if let Some(rate) = task.rate_gbps {
        text += &format!(", at {rate} GB/s");
    }
    text
}

/// The name of a value in files and records, with hyphens.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word.replace('_', "-"),
        _ => String::new(),
    }
}

/// A text for each region; those of operators with the name of the structure.
fn each_region(task: &TaskPlan, text: impl Fn(&RegionPlan) -> String) -> String {
    let structures = match &task.work {
        Work::Operator { operator } => operator.structures(task.workers.threads),
        _ => Vec::new(),
    };
    let regions = task.regions.iter().enumerate();
    let texts: Vec<String> = regions
        .map(|(index, region)| match structures.get(index) {
            Some(structure) => format!("{}: {}", structure.name, text(region)),
            None => text(region),
        })
        .collect();
    texts.join(" + ")
}

fn access_text(access: &Access) -> String {
    let order = match access.order {
        Order::Ascending => "sequential".to_owned(),
        Order::Descending => "descending".to_owned(),
        Order::Random(Distribution::Uniform) => "random".to_owned(),
        Order::Random(Distribution::Zipf { alpha }) => format!("zipf {alpha}"),
    };
    let mut text = format!(
        "{} {order} {}",
        access.operation,
        Bytes(access.access_bytes as u64)
    );
    if access.stride_bytes != access.access_bytes {
        text += &format!(" every {}", Bytes(access.stride_bytes as u64));
    }
    if access.cache_op != CacheOp::None {
        text += &format!(", {}", access.cache_op);
    }
    if access.prefetch_bytes > 0 {
        text += &format!(", prefetch {}", Bytes(access.prefetch_bytes as u64));
    }
    text + &format!(", {}", access.simd)
}

fn memory_text(region: &RegionPlan) -> String {
    let from = |path: &str, offset: u64| match offset {
        0 => path.to_owned(),
        _ => format!("{path} from {}", Bytes(offset)),
    };
    match &region.memory {
        MemoryPlan::Anonymous => region.placement.to_string(),
        MemoryPlan::KernelInterleave { weighted: true } => {
            format!("kernel-weighted {}", region.placement)
        }
        MemoryPlan::KernelInterleave { weighted: false } => {
            format!("kernel-interleave {}", region.placement)
        }
        MemoryPlan::File { path, offset_bytes } => from(path, *offset_bytes),
        MemoryPlan::Devdax { path, offset_bytes } => from(path, *offset_bytes),
    }
}

fn size_text(region: &RegionPlan) -> String {
    let pages = match region.memory {
        MemoryPlan::Devdax { .. } => String::new(),
        _ => format!(" {}", word(&region.page_size)),
    };
    format!("{}{pages}", Bytes(region.size_bytes))
}

fn workers_text(task: &TaskPlan) -> String {
    let list = |ids: &[u32]| {
        // A list that is not ascending assigns threads to CPUs in that order, which ranges would
        // hide.
        if ids.is_sorted() {
            ids.iter().copied().collect::<IdSet>().to_string()
        } else {
            join(ids, ",", u32::to_string)
        }
    };
    let pin = match &task.workers.pin {
        Pin::Free => String::new(),
        Pin::Cpus { cpus } => format!(" on CPU {}", list(cpus)),
        Pin::Nodes { nodes, spread } => format!(
            " on node {}{}",
            list(nodes),
            match spread {
                NodeSpread::AllNodes => "",
                NodeSpread::OneNodeEach => ", one node each",
                NodeSpread::OneCpuEach => ", one CPU each",
            }
        ),
    };
    format!("{}{pin}", task.workers.threads)
}

fn amount_text(plan: &RunPlan, task: &TaskPlan) -> String {
    let amount = match task.amount {
        Amount::Seconds(seconds) => format!("{seconds} s"),
        Amount::Operations(operations) => format!("{operations} operations"),
        Amount::Bytes(bytes) => Bytes(bytes).to_string(),
        Amount::Passes(1) => "1 pass".to_owned(),
        Amount::Passes(passes) => format!("{passes} passes"),
    };
    match plan.until_stable {
        Some(stable) => format!(
            "{amount} x {}-{}, until within {}%",
            plan.repeat,
            stable.max_repeat,
            (stable.relative_half_width * 1e6).round() / 1e4
        ),
        None => format!("{amount} x {}", plan.repeat),
    }
}

fn time_text(estimate: &Estimate) -> String {
    let about = if estimate.timed { "" } else { "~" };
    format!("{about}{}", duration_text(estimate.seconds))
}

/// A duration in its two largest units: `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`.
fn duration_text(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    match whole {
        ..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86400, whole % 86400 / 3600),
    }
}
