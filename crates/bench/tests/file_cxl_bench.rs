//! Every option of CXL-Bench is read with the meaning that it has there. `docs/cxl-bench.md` has a
//! row for each, with the name of its test.

use tierloom_bench::file::{LoadOptions, parse};
use tierloom_bench::plan::{
    Amount, MapAction, MapSharing, MemoryPlan, NodeSpread, Pin, RunPlan, Sharing, TaskPlan,
    TaskRole, Work,
};
use tierloom_kernels::access::{
    Access, CacheOp, ChaseLocality, Distribution, FenceMode, LineState, Operation, Order,
};
use tierloom_memory::PageSize;

fn runs(text: &str) -> Vec<RunPlan> {
    match parse(text, "w.yaml", &LoadOptions::default()) {
        Ok(read) => read.runs,
        Err(errors) => panic!("{errors}\n{text}"),
    }
}

fn errors(text: &str) -> String {
    parse(text, "w.yaml", &LoadOptions::default())
        .expect_err(text)
        .to_string()
}

/// The only task of a workload with these arguments, one per line.
fn task(args: &str) -> TaskPlan {
    let runs = runs(&workload(args));
    assert_eq!(runs.len(), 1);
    runs[0].tasks[0].clone()
}

fn workload(args: &str) -> String {
    let lines: Vec<String> = args
        .split("; ")
        .map(|line| format!("    {line}\n"))
        .collect();
    format!("w:\n  args:\n{}", lines.concat())
}

fn access(args: &str) -> Access {
    match task(args).work {
        Work::Throughput { access, .. } | Work::Latency { access, .. } => access,
        other => panic!("{other:?}"),
    }
}

fn latency(args: &str) -> (Access, u64, LineState, FenceMode) {
    match task(args).work {
        Work::Latency {
            access,
            sample_every,
            line,
            fence,
        } => (access, sample_every, line, fence),
        other => panic!("{other:?}"),
    }
}

const NODES: &str = "numa_memory_nodes: [1]; numa_task_nodes: [0]";

#[test]
fn defaults_are_those_of_cxl_bench() {
    let task = task(NODES);
    let Work::Throughput {
        access,
        batch_bytes,
        sharing,
    } = task.work
    else {
        panic!("{task:?}")
    };
    assert_eq!(access.operation, Operation::Read);
    assert_eq!(access.order, Order::Ascending);
    assert_eq!((access.access_bytes, access.stride_bytes), (256, 256));
    assert_eq!((batch_bytes, sharing), (64 << 20, Sharing::Queue));
    assert_eq!(task.regions[0].size_bytes, 10 << 30);
    assert_eq!(task.regions[0].page_size, PageSize::Base);
    assert_eq!((task.workers.threads, task.amount), (1, Amount::Passes(1)));
}

#[test]
fn exec_mode_gives_order_and_what_is_measured() {
    let order = |mode: &str| access(&format!("{NODES}; exec_mode: {mode}")).order;
    assert_eq!(order("sequential"), Order::Ascending);
    assert_eq!(order("sequential_desc"), Order::Descending);
    assert_eq!(order("random"), Order::Random(Distribution::Uniform));
    assert_eq!(
        latency(&format!("{NODES}; exec_mode: sequential_latency"))
            .0
            .order,
        Order::Ascending
    );
    let random = latency(&format!(
        "{NODES}; exec_mode: random_latency; access_size: 8"
    ));
    assert_eq!(random.0.order, Order::Random(Distribution::Uniform));
    assert_eq!(
        random.0.stride_bytes, 64,
        "each access has a line of its own"
    );
    let atomic = latency(&format!(
        "{NODES}; exec_mode: latency; operation: compare-and-swap"
    ));
    assert_eq!(atomic.0.operation, Operation::CompareAndSwap);
}

#[test]
fn dependent_reads_are_a_chase_within_their_batch() {
    let chase = |args: &str| task(&format!("{NODES}; exec_mode: dependent_reads{args}")).work;
    assert_eq!(
        chase(""),
        Work::Chase {
            locality: ChaseLocality::Random
        }
    );
    assert_eq!(
        chase("; min_io_chunk_size: 16384"),
        Work::Chase {
            locality: ChaseLocality::Pages
        }
    );
}

#[test]
fn operation_knows_all_of_theirs() {
    for (word, operation) in [
        ("read", Operation::Read),
        ("write", Operation::Write),
        ("stream-read", Operation::StreamRead),
        ("stream-write", Operation::StreamWrite),
        ("compare-and-swap", Operation::CompareAndSwap),
        ("fetch-and-add", Operation::FetchAdd),
    ] {
        assert_eq!(
            access(&format!("{NODES}; exec_mode: random; operation: {word}")).operation,
            operation
        );
    }
}

#[test]
fn memory_operations_time_mappings() {
    use MapAction::{Map, Unmap};
    use MapSharing::{Private, Shared};
    for (word, action, sharing) in [
        ("memory-map-private", Map, Private),
        ("memory-map-shared", Map, Shared),
        ("memory-unmap-private", Unmap, Private),
        ("memory-unmap-shared", Unmap, Shared),
    ] {
        let task = task(&format!(
            "{NODES}; exec_mode: latency; operation: {word}; number_operations: 5; latency_sample_frequency: 1"
        ));
        let populate = true;
        assert_eq!(
            task.work,
            Work::Mapping {
                action,
                sharing,
                populate
            }
        );
        assert_eq!(task.amount, Amount::Operations(5));
    }
}

#[test]
fn cache_instruction_follows_writes() {
    let op = |word: &str| {
        access(&format!(
            "{NODES}; operation: write; cache_instruction: {word}"
        ))
    };
    assert_eq!(op("none").cache_op, CacheOp::None);
    assert_eq!(op("write-back").cache_op, CacheOp::WriteBack);
    assert_eq!(op("flush").cache_op, CacheOp::Flush);
    assert_eq!(op("flush-opt").cache_op, CacheOp::FlushOpt);
}

#[test]
fn flush_instruction_of_older_versions_is_understood() {
    let op = |word: &str| {
        access(&format!(
            "{NODES}; operation: write; flush_instruction: {word}"
        ))
    };
    assert_eq!(op("cache").cache_op, CacheOp::WriteBack);
    assert_eq!(
        (op("nocache").operation, op("nocache").cache_op),
        (Operation::StreamWrite, CacheOp::None)
    );
}

#[test]
fn lines_are_prepared_for_latency_as_theirs_are() {
    let line = |rest: &str| latency(&format!("{NODES}; exec_mode: random_latency; {rest}"));
    assert_eq!(line("operation: read").2, LineState::AsIs);
    let flushed = line("operation: read; cache_instruction: flush-opt");
    assert_eq!(
        (flushed.2, flushed.0.cache_op),
        (LineState::Flushed, CacheOp::None)
    );
    let written = line("operation: write; cache_instruction: write-back");
    assert_eq!(
        (written.2, written.0.cache_op),
        (LineState::Preloaded, CacheOp::WriteBack)
    );
    assert_eq!(line("operation: stream-write").2, LineState::Preloaded);
    assert_eq!(line("operation: fetch-and-add").2, LineState::AsIs);
    assert_eq!(line("operation: read").3, FenceMode::Full);
}

#[test]
fn access_size_is_a_power_of_two_from_4_to_65536() {
    for (text, bytes) in [("4", 4), ("64", 64), ("4K", 4096), ("64k", 65536)] {
        assert_eq!(
            access(&format!("{NODES}; access_size: {text}")).access_bytes,
            bytes
        );
    }
    for text in ["3", "96", "128K"] {
        let error = errors(&workload(&format!("{NODES}; access_size: {text}")));
        assert!(error.contains("w.yaml:5:18: access_size: "), "{error}");
    }
}

#[test]
fn memory_region_size_has_binary_suffixes() {
    for (text, bytes) in [
        ("1073741824", 1_u64 << 30),
        ("64M", 64 << 20),
        ("16G", 16 << 30),
        ("8192k", 8 << 20),
    ] {
        assert_eq!(
            task(&format!("{NODES}; memory_region_size: {text}")).regions[0].size_bytes,
            bytes
        );
    }
}

#[test]
fn numa_memory_nodes_bind_one_and_interleave_several() {
    let placement = |nodes: &str| {
        task(&format!("numa_memory_nodes: {nodes}; numa_task_nodes: [0]")).regions[0]
            .placement
            .to_string()
    };
    assert_eq!(placement("[2]"), "2");
    assert_eq!(placement("[0, 2, 5]"), "0:1,2:1,5:1");
}

#[test]
fn numa_memory_node_weights_weigh_the_interleaving() {
    let args = "numa_memory_nodes: [0, 2]; numa_memory_node_weights: [3, 1]; numa_task_nodes: [0]";
    assert_eq!(task(args).regions[0].placement.to_string(), "0:3,2:1");
    let error = errors(&workload(
        "numa_memory_nodes: [0, 2]; numa_memory_node_weights: [3]",
    ));
    assert!(error.contains("1 weights for 2 nodes"), "{error}");
}

#[test]
fn percentage_of_pages_first_partition_splits_the_region() {
    let placement = |nodes: &str, percent: u32, count: &str| {
        task(&format!(
            "numa_memory_nodes: {nodes}; percentage_pages_first_partition: {percent}{count}"
        ))
        .regions[0]
            .placement
            .to_string()
    };
    let one = "; node_count_first_partition: 1";
    assert_eq!(placement("[0, 1]", 70, one), "0=70%,1=30%");
    assert_eq!(placement("[0, 1]", 100, one), "0");
    assert_eq!(placement("[0, 1]", 0, one), "1");
    assert_eq!(
        placement("[0, 1, 8]", 50, "; node_count_first_partition: 2"),
        "0=25%,1=25%,8=50%"
    );
    assert_eq!(
        placement("[0, 1]", 70, ""),
        "0=70%,1=30%",
        "older files have two nodes and no count"
    );
}

#[test]
fn node_count_first_partition_leaves_nodes_for_the_rest() {
    let args = "numa_memory_nodes: [0, 1]; percentage_pages_first_partition: 50; node_count_first_partition: 2";
    assert!(errors(&workload(args)).contains("nothing is left for 50%"));
    let args = "numa_memory_nodes: [0, 1]; percentage_pages_first_partition: 50; node_count_first_partition: 3";
    assert!(errors(&workload(args)).contains("from 1 to 2"));
}

#[test]
fn device_path_and_region_offset_map_a_device() {
    let task = task(
        "device_path: /dev/dax0.0; region_offset: 512G; memory_region_size: 16G; numa_task_nodes: [0]",
    );
    assert_eq!(
        task.regions[0].memory,
        MemoryPlan::Devdax {
            path: "/dev/dax0.0".into(),
            offset_bytes: 512 << 30
        }
    );
    let error = errors(&workload(
        "device_path: /dev/dax0.0; memory_region_size: 3M",
    ));
    assert!(error.contains("multiple of 2 MiB"), "{error}");
}

#[test]
fn device_path_contradicts_numa_memory_nodes() {
    let error = errors(&workload(
        "device_path: /dev/dax0.0; numa_memory_nodes: [0]",
    ));
    assert!(
        error.contains("`numa_memory_nodes` contradicts `device_path`"),
        "{error}"
    );
    assert!(
        error.contains("line 3: `device_path` is given here"),
        "{error}"
    );
}

#[test]
fn region_offset_needs_a_device() {
    assert!(
        errors(&workload("numa_memory_nodes: [0]; region_offset: 1G")).contains("without a device")
    );
}

#[test]
fn huge_pages_are_transparent_or_explicit() {
    let pages = |args: &str| task(&format!("{NODES}; {args}")).regions[0].page_size;
    assert_eq!(
        pages("transparent_huge_pages: True; explicit_hugepages_size: 0"),
        PageSize::Thp
    );
    assert_eq!(pages("transparent_huge_pages: false"), PageSize::Base);
    assert_eq!(
        pages("transparent_huge_pages: true; explicit_hugepages_size: 2M"),
        PageSize::Huge2M
    );
    assert_eq!(pages("explicit_hugepages_size: 1G"), PageSize::Huge1G);
    assert!(
        errors(&workload(&format!("{NODES}; explicit_hugepages_size: 16M")))
            .contains("expected 0, 2M or 1G")
    );
}

#[test]
fn secondary_region_has_keys_of_its_own() {
    let task = task(
        "exec_mode: custom; custom_operations: r_64,m1_r_64; numa_memory_nodes: [0]; \
         secondary_numa_memory_nodes: [1]; secondary_memory_region_size: 1G; secondary_transparent_huge_pages: true",
    );
    assert_eq!(task.regions.len(), 2);
    assert_eq!(task.regions[1].placement.to_string(), "1");
    assert_eq!(
        (task.regions[1].size_bytes, task.regions[1].page_size),
        (1 << 30, PageSize::Thp)
    );
    assert_eq!(task.regions[0].page_size, PageSize::Base);
}

#[test]
fn secondary_device_path_has_its_offset() {
    let task = task(
        "exec_mode: custom; custom_operations: r_64,m1_r_64; numa_memory_nodes: [0]; \
         secondary_device_path: /dev/dax1.0; secondary_region_offset: 2M; secondary_memory_region_size: 1G",
    );
    let path = "/dev/dax1.0".into();
    assert_eq!(
        task.regions[1].memory,
        MemoryPlan::Devdax {
            path,
            offset_bytes: 2 << 20
        }
    );
}

#[test]
fn number_threads_is_at_least_one() {
    assert_eq!(
        task(&format!("{NODES}; number_threads: 16"))
            .workers
            .threads,
        16
    );
    assert!(
        errors(&workload(&format!("{NODES}; number_threads: 0"))).contains("number_threads: `0`")
    );
}

#[test]
fn thread_pin_mode_and_numa_task_nodes_pin_to_nodes() {
    let pin = |mode: &str| {
        task(&format!(
            "numa_memory_nodes: [0]; numa_task_nodes: [0, 2]{mode}"
        ))
        .workers
        .pin
    };
    let nodes = vec![0, 2];
    let on = |spread| Pin::Nodes {
        nodes: nodes.clone(),
        spread,
    };
    assert_eq!(pin(""), on(NodeSpread::AllNodes));
    assert_eq!(pin("; thread_pin_mode: all-numa"), on(NodeSpread::AllNodes));
    assert_eq!(
        pin("; thread_pin_mode: single-numa"),
        on(NodeSpread::OneCpuEach)
    );
    let error = errors(&workload("thread_pin_mode: single-numa"));
    assert!(error.contains("needs `numa_task_nodes`"), "{error}");
}

#[test]
fn thread_cores_pin_one_thread_each() {
    let args = "thread_pin_mode: single-fixed; thread_cores: [0, 3, 4, 8]; number_threads: 4";
    assert_eq!(
        task(args).workers.pin,
        Pin::Cpus {
            cpus: vec![0, 3, 4, 8]
        }
    );
    let error = errors(&workload(
        "thread_pin_mode: single-fixed; thread_cores: [0]; number_threads: 2",
    ));
    assert!(
        error.contains("names 1 CPUs for 2 threads") && error.contains("line 5"),
        "{error}"
    );
    assert!(errors(&workload("thread_pin_mode: single-fixed")).contains("needs `thread_cores`"));
}

#[test]
fn run_time_of_zero_is_one_pass() {
    assert_eq!(
        task(&format!("{NODES}; run_time: 0")).amount,
        Amount::Passes(1)
    );
    assert_eq!(
        task(&format!("{NODES}; run_time: 10")).amount,
        Amount::Seconds(10.0)
    );
}

#[test]
fn number_operations_ends_random_custom_and_latency_runs() {
    let amount = |args: &str| task(&format!("{NODES}; {args}")).amount;
    assert_eq!(amount("exec_mode: random"), Amount::Operations(100_000_000));
    assert_eq!(
        amount("exec_mode: random; number_operations: 5"),
        Amount::Operations(5)
    );
    assert_eq!(
        amount("exec_mode: random; number_operations: 5; run_time: 3"),
        Amount::Seconds(3.0)
    );
    assert_eq!(
        amount("exec_mode: random_latency; number_operations: 5; run_time: 3"),
        Amount::Operations(5)
    );
    assert_eq!(
        amount("exec_mode: custom; custom_operations: r_64"),
        Amount::Operations(100_000_000)
    );
}

#[test]
fn min_io_batch_size_is_cut_to_the_region() {
    let batch = |args: &str| match task(&format!("{NODES}; {args}")).work {
        Work::Throughput { batch_bytes, .. } => batch_bytes,
        other => panic!("{other:?}"),
    };
    assert_eq!(batch("min_io_batch_size: 1G"), 1 << 30);
    assert_eq!(batch("min_io_chunk_size: 16384"), 16384);
    assert_eq!(
        batch("min_io_batch_size: 8G; memory_region_size: 1G"),
        1 << 30
    );
    assert!(errors(&workload("min_io_batch_size: 32")).contains("at least 64 bytes"));
}

#[test]
fn number_partitions_of_older_versions_is_understood() {
    let sharing = |args: &str| match task(&format!("{NODES}; {args}")).work {
        Work::Throughput { sharing, .. } => sharing,
        other => panic!("{other:?}"),
    };
    assert_eq!(sharing("number_partitions: 1"), Sharing::Queue);
    assert_eq!(sharing("number_partitions: 0"), Sharing::Partitioned);
    assert_eq!(
        sharing("number_partitions: 4; number_threads: 4"),
        Sharing::Partitioned
    );
    assert!(
        errors(&workload("number_partitions: 2; number_threads: 4"))
            .contains("2 partitions for 4 threads")
    );
}

#[test]
fn replications_repeat_the_run() {
    assert_eq!(
        runs(&workload(&format!("{NODES}; replications: 40")))[0].repeat,
        40
    );
}

#[test]
fn generate_read_data_is_read_and_contents_are_always_made() {
    let plain = task(NODES);
    assert_eq!(task(&format!("{NODES}; generate_read_data: false")), plain);
    assert!(errors(&workload("generate_read_data: maybe")).contains("expected true or false"));
}

#[test]
fn random_distribution_and_zipf_alpha_skew() {
    let order = |args: &str| access(&format!("{NODES}; exec_mode: random; {args}")).order;
    assert_eq!(
        order("random_distribution: uniform"),
        Order::Random(Distribution::Uniform)
    );
    assert_eq!(
        order("random_distribution: zipf"),
        Order::Random(Distribution::Zipf { alpha: 0.9 })
    );
    assert_eq!(
        order("random_distribution: zipf; zipf_alpha: 1.2"),
        Order::Random(Distribution::Zipf { alpha: 1.2 })
    );
    assert!(
        errors(&workload(
            "exec_mode: random; random_distribution: zipf; zipf_alpha: 0"
        ))
        .contains("zipf_alpha")
    );
}

#[test]
fn latency_sample_frequency_times_one_in_so_many() {
    assert_eq!(
        latency(&format!(
            "{NODES}; exec_mode: random_latency; latency_sample_frequency: 5000"
        ))
        .1,
        5000
    );
    assert!(
        errors(&workload(
            "exec_mode: random_latency; latency_sample_frequency: 0"
        ))
        .contains("latency_sample_frequency")
    );
}

#[test]
fn custom_operations_are_chains() {
    let task = task(
        "exec_mode: custom; custom_operations: \"r_256,w_64_write-back_-64\"; numa_memory_nodes: [0]; latency_sample_frequency: 100",
    );
    let Work::Custom {
        chain,
        sample_every,
    } = task.work
    else {
        panic!()
    };
    assert_eq!((chain.len(), sample_every), (2, 100));
    assert_eq!(chain[1].offset_bytes, Some(-64));
    assert!(errors(&workload("exec_mode: custom")).contains("need `custom_operations`"));
    assert!(
        errors(&workload(
            "exec_mode: custom; custom_operations: \"r_64,m1_r_64\""
        ))
        .contains("no second region")
    );
}

#[test]
fn matrix_makes_every_combination_with_the_last_key_fastest() {
    let runs = runs(
        "w:\n  matrix:\n    number_threads: [1, 2]\n    access_size: [64, 4K, 256]\n    operation: [read]\n  args:\n    numa_memory_nodes: [0]\n",
    );
    let varied: Vec<String> = runs
        .iter()
        .map(|run| {
            run.varied
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(varied.len(), 6);
    assert_eq!(varied[0], "number_threads=1 access_size=64");
    assert_eq!(varied[1], "number_threads=1 access_size=4K");
    assert_eq!(varied[3], "number_threads=2 access_size=64");
}

#[test]
fn matrix_of_lists_varies_nodes() {
    let runs = runs("w:\n  matrix:\n    numa_memory_nodes: [[0], [1, 2]]\n  args: {}\n");
    let placements: Vec<String> = runs
        .iter()
        .map(|run| run.tasks[0].regions[0].placement.to_string())
        .collect();
    assert_eq!(placements, ["0", "1:1,2:1"]);
}

#[test]
fn parallel_benchmark_takes_exactly_two() {
    let text = |names: &[&str]| {
        let inner: String = names
            .iter()
            .map(|name| format!("    {name}:\n      matrix:\n        number_threads: [1, 2]\n      args:\n        numa_memory_nodes: [0]\n"))
            .collect();
        format!("p:\n  parallel_benchmark:\n{inner}")
    };
    let runs = runs(&text(&["a", "b"]));
    assert_eq!(runs.len(), 4);
    assert!(
        runs.iter()
            .all(|run| run.tasks.iter().all(|task| task.role == TaskRole::Main))
    );
    assert_eq!(
        runs[1].varied,
        [
            ("a.number_threads".into(), "1".into()),
            ("b.number_threads".into(), "2".into())
        ]
    );
    assert!(errors(&text(&["a"])).contains("exactly two workloads, found 1"));
    assert!(errors(&text(&["a", "b", "c"])).contains("exactly two workloads, found 3"));
}
