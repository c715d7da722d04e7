//! Builds one task of a plan from its merged arguments.
//!
//! Keys that contradict each other are reported and, in a workload with one task, so are keys
//! without effect: a benchmark that silently measures something else is worse than one that does
//! not run.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{Access, ChaseLocality, FenceMode, LineState, Operation, Order};

use crate::plan::{
    MapAction, MapSharing, NodeSpread, Pin, RegionPlan, Sharing, TaskPlan, TaskRole, Work,
    WorkersPlan,
};

use super::access::{access, check_fits, order};
use super::error::ProblemText;
use super::settings::Reader;
use super::values::{self, gbps, one_of, size_bytes, whole};
use super::wanted::{Wanted, host, role};
use super::words::{MODES, Measure, Verb, check_relevance, measure, verb};
use super::{LINE_BYTES, chain, memory, operator, workers};

/// CXL-Bench's default batch size.
const DEFAULT_BATCH_BYTES: u64 = 64 << 20;

/// The tasks that the arguments describe: one, or two for loaded latency; `None` after a problem.
pub(super) fn tasks(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    default_simd: Simd,
) -> Option<Vec<TaskPlan>> {
    if reader.settings.has("operator") {
        return operator::task(wanted, reader, default_simd).map(|task| vec![task]);
    }
    if wanted.alone {
        operator::check_absent(reader)?;
    }
    let mode = reader.optional("exec_mode", |text| one_of(text, MODES))?;
    let verb = verb(reader)?;
    let measure = measure(reader, mode, verb)?;
    if wanted.alone {
        check_relevance(reader, measure)?;
    }
    let role = role(wanted, reader)?;
    let host = host(reader)?;
    // Everything is read before returning, so that one attempt reports all problems.
    let copies = measure == Measure::Throughput
        && matches!(verb, Verb::Access(Operation::Copy | Operation::StreamCopy));
    let regions = match memory::has_destination(reader, copies, wanted.alone)? {
        true => memory::copy_regions(reader),
        false => memory::regions(reader).map(|mut regions| {
            // With several tasks, a second region may be meant for others.
            regions.truncate(if copies { 1 } else { regions.len() });
            regions
        }),
    };
    let workers = workers::workers(reader);
    let order = order(reader, mode, measure, verb);
    let random = matches!(order, Some(Order::Random(_)));
    let amount = workers::amount(reader, measure, random);
    let rate = rate(reader);
    let work = work(
        wanted,
        reader,
        measure,
        verb,
        order,
        regions.as_deref(),
        default_simd,
    );
    if let Some(setting) = reader.settings.get("generate_read_data") {
        // Parsed only to report errors. Data is always written: reads of untouched memory would all
        // hit the kernel's shared zero page.
        reader.value(setting.key.name, values::flag)?;
    }
    let task = TaskPlan {
        name: wanted.name.to_owned(),
        role,
        host,
        work: work?,
        regions: regions?,
        workers: workers?,
        amount: amount?,
        rate_gbps: match rate? {
            Rate::Limited(rate_gbps) => Some(rate_gbps),
            Rate::Full | Rate::None => None,
        },
    };
    if measure == Measure::LoadedLatency {
        return loaded(wanted, reader, task, rate == Some(Rate::None));
    }
    if rate == Some(Rate::None) {
        let setting = reader.settings.get("rate")?;
        reader.wrong(
            setting,
            "a rate of 0 is no work; leave the key out for full speed".into(),
        );
        return None;
    }
    Some(vec![task])
}

/// Splits a loaded-latency task into a latency thread and its background load.
///
/// At a rate of 0 (`idle`), the load is left out: this is the first point of a loaded-latency
/// curve.
fn loaded(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    mut load: TaskPlan,
    idle: bool,
) -> Option<Vec<TaskPlan>> {
    if !wanted.alone {
        let setting = reader.settings.get("measure")?;
        reader.problems.push(
            setting.value.place,
            ProblemText::new(
                "loaded-latency consists of two tasks, so it cannot be one of several",
            )
            .help("in `tasks:`, use `measure: chase` for one and `rate:` for the other"),
        );
        return None;
    }
    let region = memory::chase_region(reader, load.regions.first()?)?;
    let pin = match reader.settings.has("chase_cpus") {
        true => Pin::Cpus {
            cpus: workers::cpus(reader, "chase_cpus")?,
        },
        false => match &load.workers.pin {
            Pin::Nodes { nodes, .. } => Pin::Nodes {
                nodes: nodes.clone(),
                spread: NodeSpread::AllNodes,
            },
            _ => Pin::Free,
        },
    };
    let chase = TaskPlan {
        name: "chase".into(),
        role: TaskRole::Main,
        host: load.host.clone(),
        work: Work::Chase {
            locality: chase_locality(reader, ChaseLocality::Random)?,
        },
        regions: vec![region],
        workers: WorkersPlan { threads: 1, pin },
        amount: load.amount,
        rate_gbps: None,
    };
    load.name = "load".into();
    load.role = TaskRole::Background;
    Some(if idle { vec![chase] } else { vec![chase, load] })
}

/// The bandwidth limit of a task.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rate {
    Full,
    None,
    Limited(f64),
}

fn rate(reader: &mut Reader<'_, '_, '_>) -> Option<Rate> {
    if !reader.settings.has("rate") {
        return Some(Rate::Full);
    }
    reader.value("rate", |text| match text.trim() {
        "max" => Ok(Rate::Full),
        text => gbps(text).map(|rate| {
            if rate > 0.0 {
                Rate::Limited(rate)
            } else {
                Rate::None
            }
        }),
    })
}

fn work(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    measure: Measure,
    verb: Verb,
    order: Option<Order>,
    regions: Option<&[RegionPlan]>,
    default_simd: Simd,
) -> Option<Work> {
    let operation = match (measure, verb) {
        (Measure::Mapping, Verb::Map(action, sharing)) => {
            return mapping(reader, action, sharing);
        }
        (Measure::Mapping, Verb::Access(_)) => {
            return match reader.settings.get("operation") {
                None => mapping(reader, MapAction::Map, MapSharing::Private),
                Some(setting) => {
                    let message = "expected a mapping operation such as memory-map-private, because a mapping is measured";
                    reader.wrong(setting, message.into());
                    None
                }
            };
        }
        (Measure::Custom, _) => return custom(wanted, reader, regions),
        (Measure::Chase, _) => {
            let default = default_locality(reader);
            return Some(Work::Chase {
                locality: chase_locality(reader, default)?,
            });
        }
        (_, Verb::Access(operation)) => operation,
        // Unreachable: a map operation always measures a mapping.
        (_, Verb::Map(..)) => return None,
    };
    let (access, line) = access(wanted, reader, measure, operation, order?, default_simd)?;
    let region_bytes = match regions? {
        // As if both were halves of one region.
        [source, _] if matches!(operation, Operation::Copy | Operation::StreamCopy) => {
            2 * source.size_bytes
        }
        [first, ..] => first.size_bytes,
        [] => return None,
    };
    check_fits(wanted, reader, &access, region_bytes)?;
    if measure != Measure::Latency {
        return throughput(reader, access, region_bytes);
    }
    let line = reader.or("line", line, |text| {
        one_of(
            text,
            &[
                ("as-is", LineState::AsIs),
                ("preloaded", LineState::Preloaded),
                ("flushed", LineState::Flushed),
            ],
        )
    })?;
    let fence = reader.or("fence", FenceMode::Full, |text| {
        one_of(
            text,
            &[("full", FenceMode::Full), ("none", FenceMode::None)],
        )
    })?;
    Some(Work::Latency {
        access,
        sample_every: sample_every(reader, 1, 1)?,
        line,
        fence,
    })
}

fn throughput(reader: &mut Reader<'_, '_, '_>, access: Access, region_bytes: u64) -> Option<Work> {
    let batch_bytes = match reader.settings.get("min_io_batch_size") {
        Some(setting) => {
            let bytes = reader.value("min_io_batch_size", size_bytes)?;
            if bytes < LINE_BYTES {
                reader.wrong(setting, "a batch has at least 64 bytes".into());
                return None;
            }
            bytes
        }
        None => DEFAULT_BATCH_BYTES,
    };
    Some(Work::Throughput {
        // A batch holds at least one access, and is not larger than the region.
        batch_bytes: batch_bytes
            .max(access.stride_bytes as u64)
            .min(region_bytes),
        sharing: sharing(reader)?,
        access,
    })
}

fn sharing(reader: &mut Reader<'_, '_, '_>) -> Option<Sharing> {
    if reader.not_both(
        "sharing",
        "number_partitions",
        "both say how work is shared",
    ) {
        return None;
    }
    if reader.settings.has("sharing") {
        return reader.value("sharing", |text| {
            one_of(
                text,
                &[
                    ("queue", Sharing::Queue),
                    ("partitioned", Sharing::Partitioned),
                ],
            )
        });
    }
    let Some(setting) = reader.settings.get("number_partitions") else {
        return Some(Sharing::Queue);
    };
    let cpus = reader.options.cpus;
    let threads = reader
        .value("number_threads", |text| match text.trim() {
            "all" => Ok(u64::from(cpus)),
            text => whole(text, 1..=u64::MAX),
        })
        .unwrap_or(1);
    match reader.value("number_partitions", |text| {
        whole(text, 0..=u64::from(u16::MAX))
    })? {
        1 => Some(Sharing::Queue),
        0 => Some(Sharing::Partitioned),
        // One partition per thread is what partitioning means here; other numbers have no
        // equivalent.
        partitions if partitions == threads => Some(Sharing::Partitioned),
        partitions => {
            reader.problems.push(
                setting.value.place,
                ProblemText::new(format!("{partitions} partitions for {threads} threads"))
                    .help("use 1 (a queue over the whole region) or 0 (a part for each thread); for shared parts use `tasks:` with a region each"),
            );
            None
        }
    }
}

fn sample_every(reader: &mut Reader<'_, '_, '_>, default: u64, least: u64) -> Option<u64> {
    reader.or("latency_sample_frequency", default, |text| {
        whole(text, least..=1_000_000_000_000)
    })
}

/// The default order of dependent loads.
///
/// Versions of CXL-Bench with dependent reads take addresses from one batch after another, so small
/// batches stay within a few pages. This keeps their files comparable.
fn default_locality(reader: &Reader<'_, '_, '_>) -> ChaseLocality {
    let batch = reader.settings.get("min_io_batch_size");
    let bytes = batch.and_then(|setting| size_bytes(setting.value.as_text()?).ok());
    match bytes {
        Some(bytes) if bytes <= 256 << 10 => ChaseLocality::Pages,
        _ => ChaseLocality::Random,
    }
}

fn chase_locality(
    reader: &mut Reader<'_, '_, '_>,
    default: ChaseLocality,
) -> Option<ChaseLocality> {
    reader.or("chase_locality", default, |text| {
        one_of(
            text,
            &[
                ("random", ChaseLocality::Random),
                ("pages", ChaseLocality::Pages),
            ],
        )
    })
}

fn mapping(
    reader: &mut Reader<'_, '_, '_>,
    action: MapAction,
    sharing: MapSharing,
) -> Option<Work> {
    let populate = reader.or("populate", true, values::flag)?;
    Some(Work::Mapping {
        action,
        sharing,
        populate,
    })
}

fn custom(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    regions: Option<&[RegionPlan]>,
) -> Option<Work> {
    let Some(setting) = reader.settings.get("custom_operations") else {
        let place = reader
            .settings
            .get("exec_mode")
            .map_or(wanted.place, |setting| setting.key_place);
        reader.problems.push(
            place,
            ProblemText::new("custom accesses need `custom_operations`")
                .help("such as `custom_operations: \"r_64,w_64_none\"`"),
        );
        return None;
    };
    let chain = reader.value("custom_operations", chain::parse)?;
    if chain.iter().any(|step| step.region == 1) && regions?.len() < 2 {
        reader.problems.push(
            setting.value.place,
            ProblemText::new("the chain works on m1, but there is no second region")
                .help("add secondary_memory_region_size and secondary_memory (or secondary_numa_memory_nodes)"),
        );
        return None;
    }
    let sample_every = sample_every(reader, 0, 0)?;
    Some(Work::Custom {
        chain,
        sample_every,
    })
}
