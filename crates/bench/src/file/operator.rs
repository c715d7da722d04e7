//! Operator tasks: `operator:` with its parameters, and a region for each of its structures.
//!
//! Sizes are those of the publications unless they are given; `scale` (module `scale`) shrinks all
//! of them.

use tierloom_kernels::Simd;
use tierloom_operators::{
    Aggregation, BTree, ColumnScan, Form, GroupTables, HashJoin, IndexJoin, Operator,
    ParameterError, RadixJoin, RadixPartition, SelectiveRead,
};

use crate::plan::{Amount, TaskPlan, Work};

use super::error::{ProblemText, did_you_mean};
use super::settings::Reader;
use super::values::{self, count, number, one_of, whole};
use super::wanted::{Wanted, host, role, simd};
use super::{memory, workers};

/// Default skew of `random_distribution: zipf`, as for accesses.
const DEFAULT_ZIPF_ALPHA: f64 = 0.9;

/// Keys that every operator has, besides those of its structures.
const COMMON: &[&str] = &[
    "operator",
    "scale",
    "form",
    "passes",
    "memory",
    "numa_memory_nodes",
    "numa_memory_node_weights",
    "percentage_pages_first_partition",
    "node_count_first_partition",
    "device_path",
    "region_offset",
    "page_size",
    "transparent_huge_pages",
    "explicit_hugepages_size",
    "number_threads",
    "cpus",
    "numa_task_nodes",
    "thread_pin_mode",
    "thread_cores",
    "role",
    "host",
];

/// Keys that no other work has, besides those of structures.
const OWN: &[&str] = &[
    "form",
    "build_tuples",
    "probe_tuples",
    "tuples",
    "fanout",
    "load_factor",
    "miss_share",
    "prefetch_tuples",
    "table_buckets",
    "probe_passes",
    "groups",
    "tables",
    "rows_per_thread",
    "selectivity",
    "keys",
    "operations",
    "inserts",
    "scans",
    "scan_keys",
    "node_bytes",
    "inner_node_bytes",
    "leaf_node_bytes",
    "fill",
];

/// The parameters of an operator, as keys.
fn parameters(operator: &Operator) -> &'static [&'static str] {
    match operator {
        Operator::HashJoin(_) => &[
            "build_tuples",
            "probe_tuples",
            "load_factor",
            "miss_share",
            "random_distribution",
            "zipf_alpha",
            "prefetch_tuples",
        ],
        Operator::IndexJoin(_) => &[
            "build_tuples",
            "table_buckets",
            "probe_passes",
            "prefetch_tuples",
        ],
        Operator::RadixJoin(_) => &[
            "build_tuples",
            "probe_tuples",
            "fanout",
            "miss_share",
            "random_distribution",
            "zipf_alpha",
            "simd",
        ],
        Operator::RadixPartition(_) => &["tuples", "fanout", "simd"],
        Operator::Aggregation(_) => &[
            "tuples",
            "groups",
            "tables",
            "random_distribution",
            "zipf_alpha",
            "prefetch_tuples",
        ],
        Operator::ColumnScan(_) => &["rows_per_thread", "selectivity", "simd"],
        Operator::SelectiveRead(_) => &["tuples", "skip", "prefetch_tuples"],
        Operator::BTree(_) => &[
            "keys",
            "operations",
            "inserts",
            "scans",
            "scan_keys",
            "node_bytes",
            "inner_node_bytes",
            "leaf_node_bytes",
            "fill",
            "random_distribution",
            "zipf_alpha",
            "latency_sample_frequency",
        ],
    }
}

/// Reports keys of operators in a task without one.
pub(super) fn check_absent(reader: &mut Reader<'_, '_, '_>) -> Option<()> {
    let of_structure = |key: &str| {
        Operator::NAMES
            .iter()
            .filter_map(|name| Operator::by_name(name))
            .any(|operator| is_of_structure(key, &operator))
    };
    let stray = reader
        .settings
        .iter()
        .find(|setting| OWN.contains(&setting.key.name) || of_structure(setting.key.name));
    let Some(setting) = stray else {
        return Some(());
    };
    let name = setting.key.name;
    reader.problems.push(
        setting.key_place,
        ProblemText::new(format!("`{name}` has no meaning without `operator`")).help(format!(
            "add `operator: {}`, or leave it out",
            Operator::NAMES[0]
        )),
    );
    None
}

/// Whether a key is the memory or the page size of a structure of `operator`.
fn is_of_structure(key: &str, operator: &Operator) -> bool {
    let name = key
        .strip_suffix("_memory")
        .or_else(|| key.strip_suffix("_page_size"));
    // The tables of threads are there for one value of `tables` only.
    let local = matches!(operator, Operator::Aggregation(_)).then_some("local_groups");
    let structures = operator.structures(1).into_iter();
    let mut names = structures.map(|structure| structure.name).chain(local);
    name.is_some_and(|name| names.any(|known| known == name))
}

/// The task that runs an operator; `None` after a problem.
pub(super) fn task(
    wanted: &Wanted<'_>,
    reader: &mut Reader<'_, '_, '_>,
    default_simd: Simd,
) -> Option<TaskPlan> {
    let named = reader.value("operator", |text| {
        Operator::by_name(text.trim()).ok_or_else(|| {
            format!(
                "`{}`; expected one of: {}{}",
                values::shown(text),
                Operator::NAMES.join(", "),
                did_you_mean(text, Operator::NAMES)
            )
        })
    })?;
    if wanted.alone {
        check_relevance(reader, &named)?;
    }
    let role = role(wanted, reader);
    let host = host(reader);
    let workers = workers::workers(reader);
    let common = memory::of_structures(reader);
    let passes = reader.or("passes", 1, |text| whole(text, 1..=1_000_000));
    let operator = read(reader, named, default_simd)?;
    if let Err(error) = operator.check() {
        wrong(wanted, reader, &error);
        return None;
    }
    let (workers, common) = (workers?, common?);
    let mut regions = Vec::new();
    for structure in operator.structures(workers.threads) {
        let region = memory::of_structure(reader, &structure, &common, &regions)?;
        regions.push(region);
    }
    Some(TaskPlan {
        name: wanted.name.to_owned(),
        role: role?,
        host: host?,
        work: Work::Operator { operator },
        regions,
        workers,
        amount: Amount::Passes(passes?),
        rate_gbps: None,
    })
}

/// Reports keys that the operator does not have.
fn check_relevance(reader: &mut Reader<'_, '_, '_>, operator: &Operator) -> Option<()> {
    let parameters = parameters(operator);
    let known = |key: &str| {
        COMMON.contains(&key) || parameters.contains(&key) || is_of_structure(key, operator)
    };
    let stray = reader
        .settings
        .iter()
        .find(|setting| reader.settings.has(setting.key.name) && !known(setting.key.name));
    let Some(setting) = stray else {
        return Some(());
    };
    let structures = operator.structures(1);
    let names: Vec<&str> = structures.iter().map(|structure| structure.name).collect();
    reader.problems.push(
        setting.key_place,
        ProblemText::new(format!(
            "`{}` has no meaning for {}; its parameters: {}",
            setting.key.name,
            operator.name(),
            parameters.join(", ")
        ))
        .help(format!(
            "its structures ({}) have keys such as {}_memory; `passes` says how much a repetition does",
            names.join(", "),
            names[0]
        )),
    );
    None
}

/// Reports a parameter that the operator refuses, at its key if there is one.
fn wrong(wanted: &Wanted<'_>, reader: &mut Reader<'_, '_, '_>, error: &ParameterError) {
    match reader.settings.get(error.field) {
        Some(setting) => reader.wrong(setting, error.problem.clone()),
        None => reader.problems.push(wanted.place, error.to_string()),
    }
}

/// Reads the parameters of `operator`, whose fields are the defaults.
fn read(
    reader: &mut Reader<'_, '_, '_>,
    operator: Operator,
    default_simd: Simd,
) -> Option<Operator> {
    let form = reader.or("form", Form::Tuned, |text| {
        one_of(text, &[("tuned", Form::Tuned), ("plain", Form::Plain)])
    })?;
    Some(match operator {
        Operator::HashJoin(default) => Operator::HashJoin(HashJoin {
            build_tuples: reader.scaled_count("build_tuples", default.build_tuples)?,
            probe_tuples: reader.scaled_count("probe_tuples", default.probe_tuples)?,
            load_factor: reader.or("load_factor", default.load_factor, number)?,
            miss_share: reader.or("miss_share", 0.0, values::share)?,
            zipf_alpha: zipf_alpha(reader)?,
            form,
            prefetch_tuples: prefetch(reader, default.prefetch_tuples)?,
        }),
        Operator::IndexJoin(default) => Operator::IndexJoin(IndexJoin {
            build_tuples: reader.scaled_count("build_tuples", default.build_tuples)?,
            // Positions are the bits of a hash.
            table_buckets: reader
                .scaled_count("table_buckets", default.table_buckets)?
                .next_power_of_two(),
            probe_passes: reader.or("probe_passes", default.probe_passes, |text| {
                whole(text, 1..=1024).map(|passes| passes as u32)
            })?,
            form,
            prefetch_tuples: prefetch(reader, default.prefetch_tuples)?,
        }),
        Operator::RadixJoin(default) => {
            let build_tuples = reader.scaled_count("build_tuples", default.build_tuples)?;
            Operator::RadixJoin(RadixJoin {
                build_tuples,
                probe_tuples: reader.scaled_count("probe_tuples", default.probe_tuples)?,
                fanout: reader.or("fanout", RadixJoin::fanout_for(build_tuples), count)?,
                miss_share: reader.or("miss_share", 0.0, values::share)?,
                zipf_alpha: zipf_alpha(reader)?,
                form,
                simd: simd(reader, default_simd)?,
            })
        }
        Operator::RadixPartition(default) => Operator::RadixPartition(RadixPartition {
            tuples: reader.scaled_count("tuples", default.tuples)?,
            fanout: reader.or("fanout", default.fanout, count)?,
            form,
            simd: simd(reader, default_simd)?,
        }),
        Operator::Aggregation(default) => Operator::Aggregation(Aggregation {
            tuples: reader.scaled_count("tuples", default.tuples)?,
            groups: reader.or("groups", default.groups, count)?,
            zipf_alpha: zipf_alpha(reader)?,
            tables: reader.or("tables", default.tables, |text| {
                one_of(
                    text,
                    &[
                        ("shared", GroupTables::Shared),
                        ("local", GroupTables::Local),
                    ],
                )
            })?,
            form,
            prefetch_tuples: prefetch(reader, default.prefetch_tuples)?,
        }),
        Operator::ColumnScan(default) => Operator::ColumnScan(ColumnScan {
            rows_per_thread: reader.scaled_count("rows_per_thread", default.rows_per_thread)?,
            selectivity: reader.or("selectivity", default.selectivity, values::share)?,
            form,
            simd: simd(reader, default_simd)?,
        }),
        Operator::SelectiveRead(default) => Operator::SelectiveRead(SelectiveRead {
            tuples: reader.scaled_count("tuples", default.tuples)?,
            skip: reader.or("skip", default.skip, |text| whole(text, 0..=u64::MAX))?,
            form,
            prefetch_tuples: prefetch(reader, default.prefetch_tuples)?,
        }),
        Operator::BTree(default) => Operator::BTree(tree(reader, &default, form)?),
    })
}

fn tree(reader: &mut Reader<'_, '_, '_>, default: &BTree, form: Form) -> Option<BTree> {
    // A number of bytes that the tree refuses itself if it is no size of a node.
    let bytes = |text: &str| values::size_bytes(text).map(|bytes| bytes.min(1 << 31) as u32);
    let node_bytes = reader.or("node_bytes", default.leaf_node_bytes, bytes)?;
    Some(BTree {
        keys: reader.scaled_count("keys", default.keys)?,
        operations: reader.scaled_count("operations", default.operations)?,
        inserts: reader.or("inserts", default.inserts, values::share)?,
        scans: reader.or("scans", default.scans, values::share)?,
        scan_keys: reader.or("scan_keys", default.scan_keys, |text| {
            count(text).map(|keys| keys.min(1 << 31) as u32)
        })?,
        zipf_alpha: zipf_alpha(reader)?,
        inner_node_bytes: reader.or("inner_node_bytes", node_bytes, bytes)?,
        leaf_node_bytes: reader.or("leaf_node_bytes", node_bytes, bytes)?,
        fill: reader.or("fill", default.fill, values::share)?,
        form,
        sample_every: reader.or("latency_sample_frequency", default.sample_every, |text| {
            whole(text, 0..=1_000_000_000_000)
        })?,
    })
}

fn prefetch(reader: &mut Reader<'_, '_, '_>, default: u32) -> Option<u32> {
    reader.or("prefetch_tuples", default, |text| {
        whole(text, 0..=u64::from(u32::MAX)).map(|tuples| tuples as u32)
    })
}

/// The skew of keys; `None` within for uniform ones.
fn zipf_alpha(reader: &mut Reader<'_, '_, '_>) -> Option<Option<f64>> {
    let zipf = reader.or("random_distribution", false, |text| {
        one_of(text, &[("uniform", false), ("zipf", true)])
    })?;
    let alpha = reader.or("zipf_alpha", DEFAULT_ZIPF_ALPHA, number)?;
    if let Some(setting) = reader.settings.get("zipf_alpha").filter(|_| !zipf) {
        reader.wrong(
            setting,
            "a skew is for `random_distribution: zipf`, and keys are uniform here".into(),
        );
        return None;
    }
    Some(zipf.then_some(alpha))
}
