//! The table of all keys that a workload file may use, with their aliases.
//!
//! The table says where a key may appear, what its values look like and which other keys it
//! replaces. The values themselves are read by the module that the key belongs to.

use super::error::did_you_mean;

/// Where a key may appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// In a task, or in the workload's own `args:` as a default for all tasks.
    Task,
    /// In a task only.
    OneTask,
    /// In the workload's own `args:` only: it applies to the whole run.
    Run,
}

/// What the values of a key look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    /// A single number or size, so that it can be given as a range.
    Number,
    /// A list; in a matrix a list of lists.
    List,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Other names for the same key, including those of older versions of CXL-Bench.
    pub(super) aliases: &'static [&'static str],
    pub(super) level: Level,
    pub(super) shape: Shape,
    /// Keys that set the same thing in another way.
    ///
    /// When a layer with higher priority (a matrix, `--set`) has this key, those of the layers
    /// below are removed instead of being reported as a contradiction.
    pub(super) replaces: &'static [&'static str],
}

const WHERE: &[&str] = &[
    "memory",
    "device_path",
    "region_offset",
    "numa_memory_nodes",
    "numa_memory_node_weights",
    "percentage_pages_first_partition",
    "node_count_first_partition",
];
const WHERE_SECOND: &[&str] = &[
    "secondary_memory",
    "secondary_device_path",
    "secondary_region_offset",
    "secondary_numa_memory_nodes",
    "secondary_numa_memory_node_weights",
];
const WHO: &[&str] = &["cpus", "thread_pin_mode", "thread_cores", "numa_task_nodes"];

const fn key(
    name: &'static str,
    aliases: &'static [&'static str],
    shape: Shape,
    replaces: &'static [&'static str],
) -> Key {
    Key {
        name,
        aliases,
        level: Level::Task,
        shape,
        replaces,
    }
}

const fn run_key(name: &'static str, aliases: &'static [&'static str], shape: Shape) -> Key {
    Key {
        name,
        aliases,
        level: Level::Run,
        shape,
        replaces: &[],
    }
}

const fn one_task_key(name: &'static str) -> Key {
    Key {
        name,
        aliases: &[],
        level: Level::OneTask,
        shape: Shape::One,
        replaces: &[],
    }
}

use Shape::{List, Number, One};

/// All keys that arguments and matrices may have.
pub(super) const KEYS: &[Key] = &[
    // What is measured.
    key("measure", &[], One, &[]),
    key("exec_mode", &["pattern"], One, &[]),
    key("operation", &[], One, &["read_percent", "operator"]),
    key("read_percent", &[], Number, &[]),
    key("stream", &[], One, &[]),
    key("access_size", &[], Number, &[]),
    key("stride", &[], Number, &["skip"]),
    key("skip", &[], Number, &["stride"]),
    key("cache_instruction", &["flush_instruction"], One, &[]),
    key("prefetch_distance", &[], Number, &[]),
    key("simd", &[], One, &[]),
    key("random_distribution", &[], One, &[]),
    key("zipf_alpha", &[], Number, &[]),
    key("custom_operations", &[], One, &[]),
    key("latency_sample_frequency", &["sample_every"], Number, &[]),
    key("line", &[], One, &[]),
    key("fence", &[], One, &[]),
    key("chase_locality", &[], One, &[]),
    key("populate", &[], One, &[]),
    key(
        "min_io_batch_size",
        &["batch_size", "min_io_chunk_size"],
        Number,
        &[],
    ),
    key("sharing", &[], One, &["number_partitions"]),
    key("number_partitions", &[], Number, &["sharing"]),
    key("generate_read_data", &[], One, &[]),
    // Memory.
    key("memory", &["placement"], One, WHERE),
    key("memory_region_size", &["size"], Number, &[]),
    key(
        "numa_memory_nodes",
        &[],
        List,
        &["memory", "device_path", "region_offset"],
    ),
    key(
        "numa_memory_node_weights",
        &[],
        List,
        &["memory", "device_path"],
    ),
    key(
        "device_path",
        &[],
        One,
        &[
            "memory",
            "numa_memory_nodes",
            "numa_memory_node_weights",
            "percentage_pages_first_partition",
            "node_count_first_partition",
        ],
    ),
    key("region_offset", &[], Number, &[]),
    key("percentage_pages_first_partition", &[], Number, &["memory"]),
    key("node_count_first_partition", &[], Number, &["memory"]),
    key(
        "page_size",
        &[],
        One,
        &["transparent_huge_pages", "explicit_hugepages_size"],
    ),
    key("transparent_huge_pages", &[], One, &["page_size"]),
    key("explicit_hugepages_size", &[], Number, &["page_size"]),
    key("secondary_memory", &[], One, WHERE_SECOND),
    key(
        "secondary_memory_region_size",
        &["secondary_size"],
        Number,
        &[],
    ),
    key(
        "secondary_numa_memory_nodes",
        &[],
        List,
        &[
            "secondary_memory",
            "secondary_device_path",
            "secondary_region_offset",
        ],
    ),
    key(
        "secondary_numa_memory_node_weights",
        &[],
        List,
        &["secondary_memory", "secondary_device_path"],
    ),
    key(
        "secondary_device_path",
        &[],
        One,
        &[
            "secondary_memory",
            "secondary_numa_memory_nodes",
            "secondary_numa_memory_node_weights",
        ],
    ),
    key("secondary_region_offset", &[], Number, &[]),
    key(
        "secondary_page_size",
        &[],
        One,
        &[
            "secondary_transparent_huge_pages",
            "secondary_explicit_hugepages_size",
        ],
    ),
    key(
        "secondary_transparent_huge_pages",
        &[],
        One,
        &["secondary_page_size"],
    ),
    key(
        "secondary_explicit_hugepages_size",
        &[],
        Number,
        &["secondary_page_size"],
    ),
    // Threads.
    key("number_threads", &["threads"], Number, &[]),
    key("cpus", &[], One, WHO),
    key("numa_task_nodes", &["task_nodes"], List, &["cpus"]),
    key("thread_pin_mode", &["pin"], One, &["cpus"]),
    key("thread_cores", &[], List, &["cpus"]),
    one_task_key("role"),
    key("host", &[], One, &[]),
    // The thread that measures latency in loaded-latency runs.
    key("chase_cpus", &[], One, &[]),
    key("chase_memory", &[], One, &[]),
    key("chase_size", &[], Number, &[]),
    // Where copies go to.
    key("destination_memory", &[], One, &[]),
    key("destination_page_size", &[], One, &[]),
    // Operators, and the memory of their structures.
    key("operator", &[], One, &["operation", "read_percent"]),
    key("scale", &[], Number, &[]),
    key("form", &[], One, &[]),
    key("build_tuples", &[], Number, &[]),
    key("probe_tuples", &[], Number, &[]),
    key("tuples", &[], Number, &[]),
    key("fanout", &[], Number, &[]),
    key("load_factor", &[], Number, &[]),
    key("miss_share", &[], Number, &[]),
    key("prefetch_tuples", &[], Number, &[]),
    key("table_buckets", &[], Number, &[]),
    key("probe_passes", &[], Number, &[]),
    key("groups", &[], Number, &[]),
    key("tables", &[], One, &[]),
    key("rows_per_thread", &[], Number, &[]),
    key("selectivity", &[], Number, &[]),
    key("keys", &[], Number, &[]),
    key("operations", &[], Number, &[]),
    key("inserts", &[], Number, &[]),
    key("scans", &[], Number, &[]),
    key("scan_keys", &[], Number, &[]),
    key("node_bytes", &[], Number, &[]),
    key("inner_node_bytes", &[], Number, &[]),
    key("leaf_node_bytes", &[], Number, &[]),
    key("fill", &[], Number, &[]),
    key("build_memory", &[], One, &[]),
    key("build_page_size", &[], One, &[]),
    key("probe_memory", &[], One, &[]),
    key("probe_page_size", &[], One, &[]),
    key("table_memory", &[], One, &[]),
    key("table_page_size", &[], One, &[]),
    key("index_memory", &[], One, &[]),
    key("index_page_size", &[], One, &[]),
    key("build_partitions_memory", &[], One, &[]),
    key("build_partitions_page_size", &[], One, &[]),
    key("probe_partitions_memory", &[], One, &[]),
    key("probe_partitions_page_size", &[], One, &[]),
    key("input_memory", &[], One, &[]),
    key("input_page_size", &[], One, &[]),
    key("output_memory", &[], One, &[]),
    key("output_page_size", &[], One, &[]),
    key("groups_memory", &[], One, &[]),
    key("groups_page_size", &[], One, &[]),
    key("local_groups_memory", &[], One, &[]),
    key("local_groups_page_size", &[], One, &[]),
    key("column_memory", &[], One, &[]),
    key("column_page_size", &[], One, &[]),
    key("row_ids_memory", &[], One, &[]),
    key("row_ids_page_size", &[], One, &[]),
    key("inner_memory", &[], One, &[]),
    key("inner_page_size", &[], One, &[]),
    key("leaves_memory", &[], One, &[]),
    key("leaves_page_size", &[], One, &[]),
    key("requests_memory", &[], One, &[]),
    key("requests_page_size", &[], One, &[]),
    // Amount of work of one repetition.
    key("run_time", &[], Number, &["bytes", "passes"]),
    key("number_operations", &[], Number, &["bytes", "passes"]),
    key(
        "bytes",
        &[],
        Number,
        &["run_time", "number_operations", "passes"],
    ),
    key(
        "passes",
        &[],
        Number,
        &["run_time", "number_operations", "bytes"],
    ),
    key("rate", &["rate_gbps"], Number, &[]),
    // The whole run.
    run_key("repeat", &["replications"], Number),
    run_key("warmup", &["warm_up"], Number),
    run_key("until_stable", &[], One),
    run_key("max_repeat", &[], Number),
    run_key("seed", &[], Number),
];

/// The key with this name or alias.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter()
        .find(|key| key.name == name || key.aliases.contains(&name))
}

/// All names and aliases of the keys at the levels that `allowed` accepts.
pub(super) fn names(allowed: impl Fn(Level) -> bool) -> impl Iterator<Item = &'static str> {
    KEYS.iter()
        .filter(move |key| allowed(key.level))
        .flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied()))
}

/// "unknown key ...", with the most similar known key as a suggestion.
pub(super) fn unknown(typed: &str, allowed: impl Fn(Level) -> bool) -> String {
    let shown: String = typed.chars().take(60).collect();
    format!(
        "unknown key `{shown}`{}",
        did_you_mean(typed, names(allowed))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_for_two_keys_and_all_references_exist() {
        let mut seen = std::collections::BTreeSet::new();
        for name in names(|_| true) {
            assert!(seen.insert(name), "{name} twice");
        }
        for key in KEYS {
            for other in key.replaces {
                assert!(
                    find(other).is_some_and(|found| found.name == *other),
                    "{other}"
                );
            }
        }
    }

    #[test]
    fn a_mistyped_key_is_recognised() {
        assert_eq!(
            unknown("acess_size", |_| true),
            "unknown key `acess_size`, did you mean `access_size`?"
        );
        assert_eq!(unknown("colour", |_| true), "unknown key `colour`");
    }
}
