//! One task from its arguments.

use tierloom_kernels::Simd;
use tierloom_kernels::access::{
    Access, AccessError, CacheOp, ChaseLocality, Distribution, FenceMode, LineState, Operation,
    Order,
};

use crate::plan::{
    MapAction, MapSharing, NodeSpread, Pin, RegionPlan, Role, Sharing, TaskPlan, Work,
    WorkersPlan,
};

use super::error::{Place, Trouble};
use super::settings::{Reader, Setting};
use super::values::{self, gbps, one_of, size_bytes, whole};
use super::{chain, memory, workers};

/// CXL-Bench's access size; it has no latency of it, so those have a line.
const DEFAULT_ACCESS_BYTES: u64 = 256;
/// A cache line.
const LINE_BYTES: u64 = 64;
/// CXL-Bench's batch.
const DEFAULT_BATCH_BYTES: u64 = 64 << 20;
/// CXL-Bench's skew.
const DEFAULT_ZIPF_ALPHA: f64 = 0.9;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Throughput,
    Latency,
    LoadedLatency,
    Chase,
    Mapping,
    Custom,
}

/// `exec_mode` and `pattern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    order: ModeOrder,
    /// What the mode measures; `None` leaves it to `measure` and the operation.
    measure: Option<Measure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModeOrder {
    Ascending,
    Descending,
    Random,
    Zipf,
}

const MODES: &[(&str, Mode)] = {
    use Measure::{Chase, Custom, Latency};
    use ModeOrder::{Ascending, Descending, Random, Zipf};
    const fn mode(order: ModeOrder, measure: Option<Measure>) -> Mode {
        Mode { order, measure }
    }
    &[
        ("sequential", mode(Ascending, None)),
        ("ascending", mode(Ascending, None)),
        ("sequential_desc", mode(Descending, None)),
        ("descending", mode(Descending, None)),
        ("random", mode(Random, None)),
        ("zipf", mode(Zipf, None)),
        ("custom", mode(Random, Some(Custom))),
        ("sequential_latency", mode(Ascending, Some(Latency))),
        ("random_latency", mode(Random, Some(Latency))),
        ("latency", mode(Random, Some(Latency))),
        ("dependent_reads", mode(Random, Some(Chase))),
    ]
};

const MEASURES: &[(&str, Measure)] = &[
    ("throughput", Measure::Throughput),
    ("latency", Measure::Latency),
    ("loaded-latency", Measure::LoadedLatency),
    ("chase", Measure::Chase),
    ("mapping", Measure::Mapping),
    ("custom", Measure::Custom),
];

/// `operation`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Verb {
    Access(Operation),
    Map(MapAction, MapSharing),
}

const VERBS: &[(&str, Verb)] = {
    use MapAction::{Map, Unmap};
    use MapSharing::{Private, Shared};
    const MIX: Verb = Verb::Access(Operation::Mix {
        read_percent: 50,
        stream: false,
    });
    const STREAM_MIX: Verb = Verb::Access(Operation::Mix {
        read_percent: 50,
        stream: true,
    });
    &[
        ("read", Verb::Access(Operation::Read)),
        ("r", Verb::Access(Operation::Read)),
        ("write", Verb::Access(Operation::Write)),
        ("w", Verb::Access(Operation::Write)),
        ("stream-read", Verb::Access(Operation::StreamRead)),
        ("sr", Verb::Access(Operation::StreamRead)),
        ("stream-write", Verb::Access(Operation::StreamWrite)),
        ("sw", Verb::Access(Operation::StreamWrite)),
        ("copy", Verb::Access(Operation::Copy)),
        ("stream-copy", Verb::Access(Operation::StreamCopy)),
        ("mix", MIX),
        ("stream-mix", STREAM_MIX),
        ("compare-and-swap", Verb::Access(Operation::CompareAndSwap)),
        ("fetch-and-add", Verb::Access(Operation::FetchAdd)),
        ("nop", Verb::Access(Operation::Nop)),
        ("memory-map-private", Verb::Map(Map, Private)),
        ("memory-map-shared", Verb::Map(Map, Shared)),
        ("memory-unmap-private", Verb::Map(Unmap, Private)),
        ("memory-unmap-shared", Verb::Map(Unmap, Shared)),
    ]
};

/// Keys that say nothing unless one of these is measured.
const ONLY_FOR: &[(&str, &[Measure])] = &[
    ("line", &[Measure::Latency]),
    ("fence", &[Measure::Latency]),
    ("chase_locality", &[Measure::Chase, Measure::LoadedLatency]),
    ("chase_cpus", &[Measure::LoadedLatency]),
    ("chase_memory", &[Measure::LoadedLatency]),
    ("chase_size", &[Measure::LoadedLatency]),
    ("populate", &[Measure::Mapping]),
    ("custom_operations", &[Measure::Custom]),
    ("rate", &[Measure::Throughput, Measure::LoadedLatency]),
    ("secondary_memory_region_size", &[Measure::Custom]),
];

/// A task to be read.
#[derive(Debug, Clone)]
pub(super) struct Wanted<'n> {
    pub(super) name: &'n str,
    /// Where it stands.
    pub(super) place: Place,
    /// Its role unless it says another one.
    pub(super) role: Role,
    /// Whether it is the only one, so that its arguments are meant for it.
    pub(super) alone: bool,
}

/// The tasks that the arguments make: one, or two for loaded latency. `None` after a problem.
pub(super) fn tasks(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    default_simd: Simd,
) -> Option<Vec<TaskPlan>> {
    let mode = reader.optional("exec_mode", |text| one_of(text, MODES))?;
    let verb = verb(reader)?;
    let measure = measure(reader, mode, verb)?;
    if wanted.alone {
        check_relevance(reader, measure)?;
    }
    let role = reader.or("role", wanted.role, |text| {
            one_of(text, &[("main", Role::Main), ("background", Role::Background)])
        })?;
    let host = reader.optional("host", |text| Ok(text.to_owned()))?;
    // All of these are read before giving up, so that one look shows all problems.
    let regions = memory::regions(reader);
    let workers = workers::workers(reader);
    let order = order(reader, mode, measure, verb);
    let random = matches!(order, Some(Order::Random(_)));
    let amount = workers::amount(reader, measure, random);
    let rate = rate(reader);
    let work = work(wanted, reader, measure, verb, order, regions.as_deref(), default_simd);
    if let Some(setting) = reader.settings.get("generate_read_data") {
        // Read for its errors only: contents are always made, or reads would see one shared zero page.
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
        reader.wrong(setting, "a rate of 0 is no work; leave the key out for full speed".into());
        return None;
    }
    Some(vec![task])
}

/// A chaser under the load of `load`.
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
            Trouble::new("loaded-latency makes two tasks of its own and cannot be one of several")
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
        role: Role::Main,
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
    load.role = Role::Background;
    Some(if idle { vec![chase] } else { vec![chase, load] })
}

fn verb(reader: &mut Reader<'_, '_, '_>) -> Option<Verb> {
    let mut verb = reader.or("operation", Verb::Access(Operation::Read), parse_verb)?;
    let percent = reader.optional("read_percent", |text| {
        whole(text, 0..=100).map(|percent| percent as u8)
    })?;
    let wants_stream = reader.or("stream", false, values::flag)?;
    if percent.is_some() && !reader.settings.has("operation") {
        verb = Verb::Access(Operation::Mix {
            read_percent: 0,
            stream: false,
        });
    }
    match &mut verb {
        Verb::Access(Operation::Mix {
            read_percent,
            stream,
        }) => {
            *read_percent = percent.unwrap_or(*read_percent);
            *stream |= wants_stream;
        }
        Verb::Access(operation) if percent.is_none() => {
            if wants_stream {
                *operation = match *operation {
                    Operation::Read => Operation::StreamRead,
                    Operation::Write => Operation::StreamWrite,
                    Operation::Copy => Operation::StreamCopy,
                    other => other,
                };
            }
        }
        _ => {
            let setting = reader.settings.get("read_percent")?;
            let operation = reader.settings.get("operation")?;
            reader.conflict(setting, operation, "a share of reads is for `operation: mix`");
            return None;
        }
    }
    Some(verb)
}

/// A word of [`VERBS`], or `mix 70:30`.
fn parse_verb(text: &str) -> Result<Verb, String> {
    let text = text.trim();
    let Some((word, ratio)) = text.split_once(' ') else {
        return one_of(text, VERBS);
    };
    let stream = match word {
        "mix" => false,
        "stream-mix" => true,
        _ => return one_of(text, VERBS),
    };
    let wrong = || {
        format!(
            "`{}`; expected shares of reads and writes that add up to 100, as in `mix 70:30`",
            values::shown(text)
        )
    };
    let (reads, writes) = ratio.trim().split_once(':').ok_or_else(wrong)?;
    let share = |text: &str| whole(text, 0..=100).map_err(|_| wrong());
    let (reads, writes) = (share(reads)?, share(writes)?);
    if reads + writes != 100 {
        return Err(wrong());
    }
    Ok(Verb::Access(Operation::Mix {
        read_percent: reads as u8,
        stream,
    }))
}

fn measure(reader: &mut Reader<'_, '_, '_>, mode: Option<Mode>, verb: Verb) -> Option<Measure> {
    let asked = reader.optional("measure", |text| one_of(text, MEASURES))?;
    // A mapping is timed whatever the mode is called; CXL-Bench calls it "latency".
    let of_mode = match verb {
        Verb::Map(..) => Some(Measure::Mapping),
        Verb::Access(_) => mode.and_then(|mode| mode.measure),
    };
    let measure = match (asked, of_mode) {
        (Some(asked), Some(implied)) if asked != implied => {
            let measure = reader.settings.get("measure")?;
            let other = match verb {
                Verb::Map(..) => reader.settings.get("operation")?,
                Verb::Access(_) => reader.settings.get("exec_mode")?,
            };
            reader.conflict(measure, other, "they say different things are measured");
            return None;
        }
        (Some(measure), _) | (None, Some(measure)) => measure,
        (None, None) if mode.is_none() && reader.settings.has("custom_operations") => {
            Measure::Custom
        }
        (None, None) => Measure::Throughput,
    };
    Some(measure)
}

/// Refuses keys that would be ignored.
fn check_relevance(reader: &mut Reader<'_, '_, '_>, measure: Measure) -> Option<()> {
    for (name, measures) in ONLY_FOR {
        let Some(setting) = reader.settings.get(name) else {
            continue;
        };
        // 0 is how CXL-Bench says "no second region".
        let none = *name == "secondary_memory_region_size"
            && setting.value.as_text().map(size_bytes) == Some(Ok(0));
        if measures.contains(&measure) || none {
            continue;
        }
        let word = |measure: &Measure| {
            let found = MEASURES.iter().find(|(_, known)| known == measure);
            found.map_or("", |(word, _)| word)
        };
        let for_what: Vec<&str> = measures.iter().map(word).collect();
        reader.problems.push(
            setting.key_place,
            Trouble::new(format!(
                "`{name}` has no meaning here: it is for {}, and this measures {}",
                for_what.join(" and "),
                word(&measure)
            ))
            .help("leave it out, or change `measure`, `exec_mode` or `operation`"),
        );
        return None;
    }
    Some(())
}

fn order(
    reader: &mut Reader<'_, '_, '_>,
    mode: Option<Mode>,
    measure: Measure,
    verb: Verb,
) -> Option<Order> {
    let zipf = reader.or("random_distribution", false, |text| {
            one_of(text, &[("uniform", false), ("zipf", true)])
        })?;
    let alpha = reader.or("zipf_alpha", DEFAULT_ZIPF_ALPHA, values::number)?;
    let atomic = matches!(verb, Verb::Access(operation) if operation.is_atomic());
    let kind = mode.map_or_else(
        || match measure {
            Measure::Latency => ModeOrder::Random,
            _ if atomic => ModeOrder::Random,
            _ => ModeOrder::Ascending,
        },
        |mode| mode.order,
    );
    Some(match kind {
        ModeOrder::Ascending => Order::Ascending,
        ModeOrder::Descending => Order::Descending,
        ModeOrder::Random if !zipf => Order::Random(Distribution::Uniform),
        ModeOrder::Random | ModeOrder::Zipf => Order::Random(Distribution::Zipf { alpha }),
    })
}

/// How fast accesses may be.
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
        text => gbps(text).map(|rate| if rate > 0.0 { Rate::Limited(rate) } else { Rate::None }),
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
        // A map operation always measures a mapping.
        (_, Verb::Map(..)) => return None,
    };
    let (access, line) = access(wanted, reader, measure, operation, order?, default_simd)?;
    let region_bytes = regions?.first()?.size_bytes;
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
            one_of(text, &[("full", FenceMode::Full), ("none", FenceMode::None)])
        })?;
    Some(Work::Latency {
        access,
        sample_every: sample_every(reader, 1, 1)?,
        line,
        fence,
    })
}

fn throughput(
    reader: &mut Reader<'_, '_, '_>,
    access: Access,
    region_bytes: u64,
) -> Option<Work> {
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
        // A batch is one access at least, and never more than there is.
        batch_bytes: batch_bytes.max(access.stride_bytes as u64).min(region_bytes),
        sharing: sharing(reader)?,
        access,
    })
}

fn sharing(reader: &mut Reader<'_, '_, '_>) -> Option<Sharing> {
    if reader.not_both("sharing", "number_partitions", "both say how work is shared") {
        return None;
    }
    if reader.settings.has("sharing") {
        return reader.value("sharing", |text| {
            one_of(
                text,
                &[("queue", Sharing::Queue), ("partitioned", Sharing::Partitioned)],
            )
        });
    }
    let Some(setting) = reader.settings.get("number_partitions") else {
        return Some(Sharing::Queue);
    };
    let threads = reader.value("number_threads", |text| whole(text, 1..=u64::MAX)).unwrap_or(1);
    match reader.value("number_partitions", |text| whole(text, 0..=u64::from(u16::MAX)))? {
        1 => Some(Sharing::Queue),
        0 => Some(Sharing::Partitioned),
        partitions if partitions == threads => Some(Sharing::Partitioned),
        partitions => {
            reader.problems.push(
                setting.value.place,
                Trouble::new(format!("{partitions} partitions for {threads} threads"))
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

/// Versions of CXL-Bench with dependent reads take their places out of one batch after another: small batches keep to few pages.
fn default_locality(reader: &Reader<'_, '_, '_>) -> ChaseLocality {
    let batch = reader.settings.get("min_io_batch_size");
    let bytes = batch.and_then(|setting| size_bytes(setting.value.as_text()?).ok());
    match bytes {
        Some(bytes) if bytes <= 256 << 10 => ChaseLocality::Pages,
        _ => ChaseLocality::Random,
    }
}

fn chase_locality(reader: &mut Reader<'_, '_, '_>, default: ChaseLocality) -> Option<ChaseLocality> {
    reader.or("chase_locality", default, |text| {
            one_of(
                text,
                &[("random", ChaseLocality::Random), ("pages", ChaseLocality::Pages)],
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
        let place = reader.settings.get("exec_mode").map_or(wanted.place, |setting| setting.key_place);
        reader.problems.push(
            place,
            Trouble::new("custom accesses need `custom_operations`")
                .help("such as `custom_operations: \"r_64,w_64_none\"`"),
        );
        return None;
    };
    let chain = reader.value("custom_operations", chain::parse)?;
    if chain.iter().any(|step| step.region == 1) && regions?.len() < 2 {
        reader.problems.push(
            setting.value.place,
            Trouble::new("the chain works on m1, but there is no second region")
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

/// The access, and what CXL-Bench does to a line before timing it.
fn access(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    measure: Measure,
    operation: Operation,
    order: Order,
    default_simd: Simd,
) -> Option<(Access, LineState)> {
    let latency = measure == Measure::Latency;
    let (mut cache_op, no_cache) = reader.or("cache_instruction", (CacheOp::None, false), chain::cache_instruction)?;
    let operation = match operation {
        Operation::Write if no_cache => Operation::StreamWrite,
        Operation::Copy if no_cache => Operation::StreamCopy,
        Operation::Mix { read_percent, .. } if no_cache => Operation::Mix {
            read_percent,
            stream: true,
        },
        other => other,
    };
    let mut line = LineState::AsIs;
    if latency && matches!(operation, Operation::Read | Operation::StreamRead) {
        if matches!(cache_op, CacheOp::Flush | CacheOp::FlushOpt) {
            line = LineState::Flushed;
        }
        cache_op = CacheOp::None;
    } else if latency && matches!(operation, Operation::Write | Operation::StreamWrite) {
        line = LineState::Preloaded;
    }
    let default_bytes = match operation {
        _ if operation.is_atomic() => 8,
        _ if latency => LINE_BYTES,
        _ => DEFAULT_ACCESS_BYTES,
    };
    let access_bytes = reader.or("access_size", default_bytes, size_bytes)?;
    // Single accesses at random places go to lines of their own, as in CXL-Bench.
    let own_line = matches!(order, Order::Random(_)) && (latency || operation.is_atomic());
    let natural = if own_line { access_bytes.max(LINE_BYTES) } else { access_bytes };
    let prefetch_bytes = reader.or("prefetch_distance", 0, size_bytes)?;
    let simd = reader.or("simd", default_simd, |text| {
            one_of(
                text,
                &[
                    ("auto", default_simd),
                    ("scalar", Simd::Scalar),
                    ("avx2", Simd::Avx2),
                    ("avx512", Simd::Avx512),
                    ("neon", Simd::Neon),
                ],
            )
        })?;
    let access = Access {
        operation,
        order,
        access_bytes: access_bytes as usize,
        stride_bytes: stride(reader, access_bytes, natural)? as usize,
        cache_op,
        prefetch_bytes: prefetch_bytes as usize,
        simd,
    };
    if let Err(error) = access.check() {
        let (key, problem) = match &error {
            AccessError::Invalid { field, problem } => (*field, problem.clone()),
            AccessError::Unsupported { .. } => ("operation", error.to_string()),
        };
        // A skip makes the stride.
        let key = if key == "stride" && reader.settings.has("skip") { "skip" } else { key };
        match reader.settings.get(key) {
            Some(setting) => reader.wrong(setting, problem),
            None => reader.problems.push(wanted.place, format!("{key}: {problem}")),
        }
        return None;
    }
    Some((access, line))
}

fn stride(reader: &mut Reader<'_, '_, '_>, access_bytes: u64, natural: u64) -> Option<u64> {
    if reader.not_both("stride", "skip", "skipping k records is a stride of (k + 1) records") {
        return None;
    }
    if reader.settings.has("skip") {
        let skip = reader.value("skip", |text| whole(text, 0..=1 << 30))?;
        return Some(natural.max((skip + 1).saturating_mul(access_bytes)));
    }
    reader.or("stride", natural, size_bytes)
}

/// The region has room for at least one access (copies need one in each half).
fn check_fits(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    access: &Access,
    region_bytes: u64,
) -> Option<()> {
    let span = match access.operation {
        Operation::Copy | Operation::StreamCopy => region_bytes / 2,
        _ => region_bytes,
    };
    if span >= access.stride_bytes as u64 {
        return Some(());
    }
    let setting: Option<Setting<'_>> = ["stride", "skip", "access_size", "memory_region_size"]
        .into_iter()
        .find_map(|name| reader.settings.get(name));
    let message = format!(
        "no access fits: {} apart in a region of {}",
        values::bytes_text(access.stride_bytes as u64),
        values::bytes_text(region_bytes)
    );
    match setting {
        Some(setting) => reader.wrong(setting, message),
        None => reader.problems.push(wanted.place, message),
    }
    None
}

