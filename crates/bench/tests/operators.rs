//! Operators in workload files: what a file means, what is wrong with one, and what a run records.

use std::sync::atomic::{AtomicU32, Ordering};

use tierloom_bench::dry_run::render_dry_run;
use tierloom_bench::file::{LoadOptions, parse};
use tierloom_bench::plan::{Amount, MemoryPlan, RunPlan, TaskPlan, Work};
use tierloom_bench::run::{Control, Event, Host, Session, check, record, run_part};
use tierloom_kernels::Simd;
use tierloom_memory::PageSize;
use tierloom_operators::{Form, Operator};
use tierloom_record::{BenchRecord, TaskRecord};

fn host() -> &'static Host {
    static HOST: std::sync::OnceLock<Host> = std::sync::OnceLock::new();
    HOST.get_or_init(|| Host::look().unwrap())
}

fn runs(args: &str) -> Vec<RunPlan> {
    let text = format!("w:\n  args: {{warmup: 0, {args}}}\n");
    match parse(&text, "w.yaml", &LoadOptions::default()) {
        Ok(read) => read.runs,
        Err(errors) => panic!("{errors}\n{text}"),
    }
}

fn task(args: &str) -> TaskPlan {
    runs(args).remove(0).tasks.remove(0)
}

fn operator(args: &str) -> Operator {
    match task(args).work {
        Work::Operator { operator } => operator,
        other => panic!("{other:?}"),
    }
}

fn errors(args: &str) -> String {
    let text = format!("w:\n  args:\n    {}\n", args.replace(", ", "\n    "));
    let read = parse(&text, "w.yaml", &LoadOptions::default());
    read.expect_err(&text).to_string()
}

/// Stops after a number of repetitions.
struct After(u32, AtomicU32);

impl After {
    fn never() -> Self {
        Self(u32::MAX, AtomicU32::new(0))
    }
}

impl Control for After {
    fn stopped(&self) -> bool {
        self.1.load(Ordering::Relaxed) >= self.0
    }

    fn event(&self, event: Event) {
        if let Event::Repetition { done, figure, .. } = event {
            assert!(figure.is_some_and(|tuples_per_s| tuples_per_s > 0.0));
            self.1.store(done, Ordering::Relaxed);
        }
    }
}

fn run(plan: &RunPlan, control: &dyn Control) -> BenchRecord {
    let part = run_part(plan, None, host(), control).unwrap_or_else(|error| panic!("{error}"));
    let session = Session {
        id: "s".into(),
        tool_version: "0".into(),
        commit: None,
        build: "dev".into(),
        command: vec![],
        samples: false,
    };
    record(plan, vec![part], &session).unwrap()
}

fn sound(record: &BenchRecord) -> &TaskRecord {
    assert!(record.valid, "{:?}", record.remarks);
    &record.tasks[0]
}

#[test]
fn sizes_are_those_of_the_publications_and_shrink_together() {
    let bytes = |args: &str| -> Vec<u64> {
        task(args)
            .regions
            .iter()
            .map(|region| region.size_bytes)
            .collect()
    };
    let gib = |gib: u64| gib << 30;
    assert_eq!(bytes("operator: index-join"), [gib(2), gib(16)]);
    assert_eq!(bytes("operator: hash-join"), [gib(2), gib(8), gib(4)]);
    assert_eq!(bytes("operator: radix-partition"), [gib(8), gib(8)]);
    assert_eq!(
        bytes("operator: radix-partition, scale: 1/64"),
        [gib(8) / 64; 2]
    );
    assert_eq!(
        bytes("operator: hash-join, scale: 0.5, build_tuples: 1M, probe_tuples: 3"),
        [4 << 20, 4096, 8 << 20]
    );
    let Operator::RadixJoin(join) = operator("operator: radix-join, scale: 1/1024") else {
        panic!("another operator");
    };
    assert_eq!(
        (join.build_tuples, join.fanout),
        (1 << 18, 16),
        "fits an L2 cache"
    );
    let Operator::HashJoin(join) = operator(
        "operator: hash-join, miss_share: 10%, random_distribution: zipf, zipf_alpha: 1.1, form: plain",
    ) else {
        panic!("another operator");
    };
    assert_eq!(
        (join.miss_share, join.zipf_alpha, join.form),
        (0.1, Some(1.1), Form::Plain)
    );
}

#[test]
fn each_structure_has_a_placement_and_pages_of_its_own() {
    let task = task(
        "operator: hash-join, scale: 1/1024, memory: dram, table_memory: \"dram:3,cxl:2\", probe_page_size: thp",
    );
    let placements: Vec<String> = task
        .regions
        .iter()
        .map(|r| r.placement.to_string())
        .collect();
    assert_eq!(placements, ["dram", "dram", "dram:3,cxl:2"]);
    let pages: Vec<PageSize> = task.regions.iter().map(|r| r.page_size).collect();
    assert_eq!(pages, [PageSize::Base, PageSize::Thp, PageSize::Base]);
}

#[test]
fn structures_on_one_device_follow_one_another() {
    let offsets = |args: &str| -> Vec<Option<u64>> {
        let regions = task(args).regions.into_iter();
        regions
            .map(|region| match region.memory {
                MemoryPlan::Devdax { offset_bytes, .. } => Some(offset_bytes),
                _ => None,
            })
            .collect()
    };
    let join = "operator: hash-join, build_tuples: 1M, probe_tuples: 300000";
    assert_eq!(
        offsets(&format!("{join}, memory: /dev/dax0.0, region_offset: 4M")),
        [4, 12, 16].map(|mib| Some(mib << 20))
    );
    assert_eq!(
        offsets(&format!(
            "{join}, memory: dram, build_memory: /dev/dax0.0, table_memory: /dev/dax0.0"
        )),
        [Some(0), None, Some(8 << 20)]
    );
}

/// Wrong arguments, the line of the problem, and what the message has to say.
const MISTAKES: &[(&str, u64, &[&str])] = &[
    (
        "operator: hash-jion",
        3,
        &["hash-jion", "expected one of", "did you mean `hash-join`"],
    ),
    (
        "operator: hash-join, fanout: 64",
        4,
        &["`fanout` has no meaning for hash-join", "load_factor"],
    ),
    (
        "operator: radix-partition, fanout: 1000",
        4,
        &["fanout: 1000; expected a power of two from 2 to"],
    ),
    (
        "operator: radix-partition, run_time: 2s",
        4,
        &["`run_time` has no meaning", "`passes`"],
    ),
    (
        "operator: radix-partition, operation: read",
        4,
        &["`operation` has no meaning"],
    ),
    (
        "operator: radix-partition, table_memory: cxl",
        4,
        &["`table_memory`", "input, output", "input_memory"],
    ),
    (
        "operator: radix-partition, tuples: 12X",
        4,
        &["12X", "powers of 1024"],
    ),
    (
        "operator: radix-partition, tuples: 0",
        4,
        &["tuples: 0; expected 1 to"],
    ),
    (
        "operator: radix-partition, scale: 2",
        4,
        &["expected a factor above 0 and at most 1"],
    ),
    (
        "operator: radix-partition, scale: 1/0",
        4,
        &["expected a factor above 0"],
    ),
    (
        "operator: radix-partition, input_memory: nowhere",
        4,
        &["input_memory", "nowhere"],
    ),
    (
        "operator: radix-partition, output_page_size: 3m",
        4,
        &["output_page_size", "4k"],
    ),
    (
        "operator: radix-partition, rate: 5",
        4,
        &["`rate` has no meaning"],
    ),
    (
        "operator: hash-join, load_factor: 1.5",
        4,
        &["load_factor: 1.5; expected"],
    ),
    (
        "operator: hash-join, build_tuples: 2G",
        4,
        &["build_tuples", "2147483647"],
    ),
    (
        "operator: hash-join, miss_share: 101%",
        4,
        &["miss_share", "from 0% to 100%"],
    ),
    (
        "operator: hash-join, zipf_alpha: 1.1",
        4,
        &["zipf_alpha", "random_distribution: zipf"],
    ),
    (
        "operator: hash-join, form: fast",
        4,
        &["form", "tuned, plain"],
    ),
    (
        "operator: index-join, table_buckets: 1M",
        2,
        &["build_tuples: 268435456; expected 1 to 1048576"],
    ),
    (
        "operator: aggregation, groups: 0",
        4,
        &["groups: 0; expected 1 to"],
    ),
    (
        "operator: aggregation, tables: own",
        4,
        &["tables", "shared, local"],
    ),
    (
        "operator: column-scan, selectivity: 101%",
        4,
        &["selectivity", "from 0% to 100%"],
    ),
    (
        "operator: column-scan, rows_per_thread: 8G",
        4,
        &["rows_per_thread: 8589934592; expected 1 to 4294967296"],
    ),
    (
        "operator: column-scan, skip: 3",
        4,
        &["`skip` has no meaning for column-scan", "selectivity"],
    ),
    (
        "operator: selective-read, skip: 3M",
        4,
        &["skip", "whole number"],
    ),
    (
        "operator: selective-read, skip: 3000000",
        4,
        &["skip: 3000000; expected 0 to 1048576"],
    ),
    (
        "operator: btree, node_bytes: 1000",
        2,
        &["inner_node_bytes: nodes of 1000 bytes; expected a power of two from 256"],
    ),
    (
        "operator: btree, leaf_node_bytes: 8K",
        4,
        &["leaf_node_bytes: nodes of 8192 bytes; expected a power of two"],
    ),
    (
        "operator: btree, scans: 96%",
        4,
        &["scans: 0.96; expected at most 0.95"],
    ),
    (
        "operator: btree, inserts: 120%",
        4,
        &["inserts", "from 0% to 100%"],
    ),
    ("operator: btree, keys: 0", 4, &["keys: 0; expected 1 to"]),
    (
        "operator: btree, table_memory: cxl",
        4,
        &["`table_memory`", "inner, leaves, requests", "inner_memory"],
    ),
    (
        "operator: hash-join, inserts: 5%",
        4,
        &["`inserts` has no meaning for hash-join"],
    ),
    (
        "operation: read, leaves_memory: dram",
        4,
        &["`leaves_memory` has no meaning without `operator`"],
    ),
    (
        "operation: read, fanout: 64",
        4,
        &["`fanout` has no meaning without `operator`"],
    ),
    (
        "operation: read, table_memory: dram",
        4,
        &["`table_memory` has no meaning without `operator`"],
    ),
];

#[test]
fn what_an_operator_does_not_have_is_an_error_with_its_line() {
    for (args, line, words) in MISTAKES {
        let said = errors(args);
        let place = format!("w.yaml:{line}:");
        // A parameter that is not in the file is wrong for the workload as a whole.
        let place = if *line == 2 { "w.yaml:1:" } else { &place };
        assert!(said.starts_with(place), "{args}: {said}");
        for word in *words {
            assert!(said.contains(word), "{args}: no {word:?} in {said}");
        }
    }
}

#[test]
fn a_dry_run_names_the_structures() {
    let plans = runs("operator: index-join, scale: 1/1024, table_memory: cxl, threads: 3");
    let text = render_dry_run(&plans);
    for word in [
        "index: default + table: cxl",
        "index-join, 262144 of 1048576 buckets",
        "1 pass x 3",
    ] {
        assert!(text.contains(word), "{word}\n{text}");
    }
}

#[test]
fn every_operator_runs_in_both_forms_and_records_phases_structures_and_audits() {
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .subsec_nanos();
    println!("seed {seed}");
    for name in Operator::NAMES {
        for form in ["tuned", "plain"] {
            let plan = runs(&format!(
                "operator: {name}, form: {form}, scale: 1/4096, threads: 3, repeat: 2, passes: 2, seed: {seed}"
            ))
            .remove(0);
            let json = serde_json::to_value(&plan).unwrap();
            assert_eq!(RunPlan::from_json(json).unwrap(), plan, "a plan runs again");
            check(&plan, None, host()).unwrap();
            let record = run(&plan, &After::never());
            let task = sound(&record);
            let Work::Operator { operator } = &plan.tasks[0].work else {
                panic!("another work");
            };
            assert_eq!(
                (task.kind.as_str(), task.access.clone()),
                ("operator", operator.to_string())
            );
            let names: Vec<&str> = operator.structures(3).iter().map(|s| s.name).collect();
            let regions: Vec<&str> = task.regions.iter().map(|r| r.name.as_str()).collect();
            assert_eq!(regions, names);
            assert!(
                task.regions
                    .iter()
                    .all(|r| r.before.is_some() && r.after.is_some())
            );
            assert_eq!(
                task.operations,
                2 * 2 * operator.tuples(3),
                "repetitions times passes"
            );
            assert!(task.data_check.is_some() && task.bandwidth_gbps.is_none());
            let done = task.operator.as_ref().expect("what the operator did");
            assert_eq!((done.name.as_str(), done.passes), (name, 2));
            let traffic = done.phases.iter().flat_map(|phase| &phase.traffic);
            assert!(
                traffic
                    .clone()
                    .all(|t| names.contains(&t.structure.as_str()))
            );
            assert!(
                names
                    .iter()
                    .all(|name| traffic.clone().any(|t| t.structure == *name))
            );
            let rates = task.operations_per_s.as_ref().unwrap();
            for repetition in 0..2 {
                let counted = done.phases.iter().filter(|phase| phase.counted);
                let seconds: f64 = counted
                    .map(|phase| phase.seconds.as_ref().unwrap().values[repetition])
                    .sum();
                let rate = 2.0 * operator.tuples(3) as f64 / seconds;
                assert!(
                    (rates.values[repetition] / rate - 1.0).abs() < 1e-9,
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn a_matrix_varies_placements_threads_and_fanouts_and_warm_up_ends_within_a_phase() {
    let text = "w: {matrix: {fanout: [16, 4K], threads: [1, 2]}, args: {operator: radix-partition, tuples: 3M, warmup: 1ms, repeat: 1}}";
    let plans = parse(text, "w.yaml", &LoadOptions::default()).unwrap().runs;
    assert_eq!(plans.len(), 4);
    for plan in &plans {
        sound(&run(plan, &After::never()));
    }
}

#[test]
fn an_operator_repeats_until_it_is_stable_and_stops_when_told_to() {
    let plan =
        runs("operator: hash-join, scale: 1/8192, until_stable: 50%, max_repeat: 8, repeat: 6")
            .remove(0);
    let record = run(&plan, &After::never());
    sound(&record);
    let repeats = record.stability.expect("a stability").repeats;
    assert!((6..=8).contains(&repeats), "{repeats}");
    let plan = runs("operator: hash-join, scale: 1/8192, repeat: 500").remove(0);
    let stopped = run(&plan, &After(2, AtomicU32::new(0)));
    let done = sound(&stopped)
        .operations_per_s
        .as_ref()
        .unwrap()
        .values
        .len();
    assert!((1..=3).contains(&done), "{done}");
}

#[test]
fn an_operator_runs_beside_a_chase_and_is_counted_from_outside() {
    let text = "w:\n  args: {warmup: 0, repeat: 2}\n  tasks:\n    latency: {measure: chase, size: 1M, run_time: 100ms}\n    join: {operator: hash-join, scale: 1/16384, threads: 2}\n";
    let plan = parse(text, "w.yaml", &LoadOptions::default())
        .unwrap()
        .runs
        .remove(0);
    let record = run(&plan, &After::never());
    sound(&record);
    let join = &record.tasks[1];
    assert!(
        join.operations_per_s
            .as_ref()
            .is_some_and(|rate| rate.median > 0.0),
        "{join:?}"
    );
}

#[test]
fn structures_share_a_folder_or_a_file_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    let plan = |memory: &std::path::Path| {
        let args = "operator: radix-partition, tuples: 300001, threads: 2, repeat: 1";
        runs(&format!("{args}, memory: \"file:{}\"", memory.display())).remove(0)
    };
    sound(&run(&plan(folder.path()), &After::never()));
    let error = check(&plan(&path), None, host()).expect_err("a new file");
    assert!(
        error.is_bad_input() && error.to_string().contains("name a folder"),
        "{error}"
    );
    std::fs::File::create(&path)
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    let error = check(&plan(&path), None, host()).expect_err("a file with contents");
    assert!(
        error.to_string().contains("input: ") && error.to_string().contains("--overwrite"),
        "{error}"
    );
    let mut overwriting = Host::look().unwrap();
    overwriting.overwrite = true;
    let part = run_part(&plan(&path), None, &overwriting, &After::never()).unwrap();
    assert!(
        part.remarks.iter().all(|remark| !remark.invalidates),
        "{:?}",
        part.remarks
    );
    assert!(part.tasks[0].data_check.is_some());
}

/// Overwrites the start of a file after the first repetition.
struct Spoils<'p>(&'p std::path::Path);

impl Control for Spoils<'_> {
    fn stopped(&self) -> bool {
        false
    }

    fn event(&self, event: Event) {
        if let Event::Repetition { done: 1, .. } = event {
            let file = std::fs::File::options().write(true).open(self.0).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], 0).unwrap();
        }
    }
}

#[test]
fn a_pass_with_another_result_than_the_input_must_give_makes_the_record_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    for (args, said) in [
        (
            "operator: hash-join, build_tuples: 5000, probe_tuples: 70000",
            "expected 70000",
        ),
        (
            "operator: radix-partition, tuples: 100000",
            "do not hold the tuples",
        ),
        (
            "operator: selective-read, tuples: 100000, skip: 3",
            "the checksum of the values",
        ),
    ] {
        std::fs::File::create(&path)
            .unwrap()
            .set_len(16 << 20)
            .unwrap();
        let plan = runs(&format!(
            "{args}, repeat: 3, memory: \"file:{}\"",
            path.display()
        ));
        let mut overwriting = Host::look().unwrap();
        overwriting.overwrite = true;
        let part = run_part(&plan[0], None, &overwriting, &Spoils(&path)).unwrap();
        let invalid = part.remarks.iter().find(|remark| remark.invalidates);
        let text = &invalid
            .unwrap_or_else(|| panic!("{args}: {:?}", part.tasks[0]))
            .text;
        assert!(text.contains(said), "{args}: {text}");
    }
}

#[test]
fn a_plan_that_was_changed_by_hand_is_refused_before_anything_runs() {
    let plan = runs("operator: radix-partition, scale: 1/8192").remove(0);
    let refused = |change: fn(&mut TaskPlan), word: &str| {
        let mut plan = plan.clone();
        change(&mut plan.tasks[0]);
        let error = check(&plan, None, host()).expect_err(word);
        assert!(
            error.is_bad_input() && error.to_string().contains(word),
            "{error}"
        );
    };
    refused(|task| task.regions.truncate(1), "needs 2 regions, found 1");
    refused(|task| task.regions[1].size_bytes = 4096, "output needs");
    refused(|task| task.amount = Amount::Seconds(1.0), "whole passes");
    refused(|task| task.rate_gbps = Some(1.0), "whole passes");
    let absent = [Simd::Neon, Simd::Avx512, Simd::Avx2]
        .into_iter()
        .find(|simd| !simd.available());
    if let Some(simd) = absent {
        let mut plan = plan.clone();
        if let Work::Operator {
            operator: Operator::RadixPartition(partition),
        } = &mut plan.tasks[0].work
        {
            partition.simd = simd;
        }
        let error = check(&plan, None, host()).expect_err("a processor without it");
        assert!(
            error.to_string().contains("this processor has no"),
            "{error}"
        );
    }
}

#[test]
fn a_tree_has_placements_and_node_sizes_of_its_own_and_records_latencies_and_splits() {
    let args = "operator: btree, scale: 1/2048, node_bytes: 512, leaf_node_bytes: 2K, fill: 95%, inserts: 50%, scans: 10%, random_distribution: zipf, threads: 2, repeat: 2, latency_sample_frequency: 4, leaves_memory: \"0\"";
    let plan = runs(args).remove(0);
    let Work::Operator {
        operator: Operator::BTree(tree),
    } = &plan.tasks[0].work
    else {
        panic!("another work");
    };
    assert_eq!((tree.inner_node_bytes, tree.leaf_node_bytes), (512, 2048));
    assert_eq!((tree.inserts, tree.scans), (0.5, 0.1));
    assert_eq!((tree.zipf_alpha, tree.sample_every), (Some(0.9), 4));
    let placements = plan.tasks[0].regions.iter();
    let placements: Vec<String> = placements.map(|r| r.placement.to_string()).collect();
    assert_eq!(placements, ["default", "0", "default"]);
    let record = run(&plan, &After::never());
    let task = sound(&record);
    let latency = task.latency.as_ref().expect("times of operations");
    assert_eq!(latency.what, "one operation");
    // One in four of each thread, the first one included.
    assert!(
        latency.samples.abs_diff(2 * tree.operations / 4) <= 4,
        "{}",
        latency.samples
    );
    assert_eq!(latency.median_ns.values.len(), 2);
    let said = task.data_check.as_ref().unwrap();
    assert!(said.contains("keys in order with their values"), "{said}");
    let counts = &task.operator.as_ref().unwrap().counts;
    let names: Vec<&str> = counts.iter().map(|count| count.name.as_str()).collect();
    assert_eq!(names, ["restarts", "splits"]);
    // 407 leaves of 127 pairs, 120 of them at first, and ten insertions for each in each of two
    // passes: most of them are split once.
    assert_eq!(
        counts[1].per_tuple,
        counts[1].count as f64 / task.operations as f64
    );
    assert!((400..900).contains(&counts[1].count), "{counts:?}");
}
