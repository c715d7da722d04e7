//! Workload files beyond CXL-Bench: placements, ranges, several tasks, loaded latency, hosts,
//! overrides.

use std::path::{Path, PathBuf};

use tierloom_bench::file::{FileError, LoadOptions, Workloads, load, parse};
use tierloom_bench::plan::{Amount, MemoryPlan, Pin, PlanError, RunPlan, TaskPlan, TaskRole, Work};
use tierloom_kernels::Simd;
use tierloom_kernels::access::{ChaseLocality, FenceMode, LineState, Operation};
use tierloom_memory::{PageSize, PlacementSpec};

fn read(text: &str, options: &LoadOptions) -> Workloads {
    match parse(text, "w.yaml", options) {
        Ok(read) => read,
        Err(errors) => panic!("{errors}\n{text}"),
    }
}

fn runs(text: &str) -> Vec<RunPlan> {
    read(text, &LoadOptions::default()).runs
}

fn errors(text: &str) -> String {
    let read = parse(text, "w.yaml", &LoadOptions::default());
    read.expect_err(text).to_string()
}

fn workload(args: &str) -> String {
    format!("w: {{args: {{{args}}}}}")
}

fn task(args: &str) -> TaskPlan {
    runs(&workload(args)).remove(0).tasks.remove(0)
}

fn set(overrides: &[(&str, &str)]) -> LoadOptions {
    LoadOptions {
        overrides: overrides
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
        ..LoadOptions::default()
    }
}

#[test]
fn memory_is_any_placement_file_device_or_kernel_policy() {
    let memory = |text: &str| {
        let region = task(&format!("memory: \"{text}\", size: 64M"))
            .regions
            .remove(0);
        (region.memory, region.placement.to_string())
    };
    let file = |path: &str| MemoryPlan::File {
        path: path.into(),
        offset_bytes: 0,
    };
    for placement in ["dram", "cxl", "0", "dram:3,cxl:2", "0=70%,2=30%", "default"] {
        assert_eq!(memory(placement), (MemoryPlan::Anonymous, placement.into()));
    }
    assert_eq!(memory("3:2").1, "dram:3,cxl:2");
    assert_eq!(
        memory("file:/mnt/pmem"),
        (file("/mnt/pmem"), "default".into())
    );
    assert_eq!(memory("/tmp/x").0, file("/tmp/x"));
    assert!(matches!(memory("/dev/dax0.0").0, MemoryPlan::Devdax { .. }));
    assert_eq!(
        memory("kernel-weighted:0,1"),
        (
            MemoryPlan::KernelInterleave { weighted: true },
            "0:1,1:1".into()
        )
    );
    assert_eq!(
        memory("kernel-interleave:dram,cxl"),
        (
            MemoryPlan::KernelInterleave { weighted: false },
            "dram:1,cxl:1".into()
        )
    );
    assert!(errors(&workload("memory: cxk")).contains("w.yaml:1:20: memory: "));
}

#[test]
fn a_matrix_loops_over_placements_and_weights() {
    let runs =
        runs("w:\n  matrix:\n    memory: [dram, 3:1, \"1:1\"]\n    page_size: [4k, thp, 2m, 1g]\n");
    assert_eq!(runs.len(), 12);
    assert_eq!(
        runs[4].varied,
        [
            ("memory".into(), "3:1".into()),
            ("page_size".into(), "4k".into())
        ]
    );
    assert_eq!(runs[3].tasks[0].regions[0].page_size, PageSize::Huge1G);
}

#[test]
fn sizes_are_rounded_up_to_whole_pages() {
    assert_eq!(task("size: 5000").regions[0].size_bytes, 8192);
    assert_eq!(
        task("size: 5000, page_size: thp").regions[0].size_bytes,
        2 << 20
    );
}

#[test]
fn operations_beyond_cxl_bench_are_read() {
    let operation = |args: &str| match task(args).work {
        Work::Throughput { access, .. } => access.operation,
        other => panic!("{other:?}"),
    };
    let mix = |read_percent, stream| Operation::Mix {
        read_percent,
        stream,
    };
    assert_eq!(operation("operation: copy"), Operation::Copy);
    assert_eq!(operation("operation: stream-copy"), Operation::StreamCopy);
    assert_eq!(
        operation("operation: copy, stream: true"),
        Operation::StreamCopy
    );
    assert_eq!(operation("operation: nop"), Operation::Nop);
    assert_eq!(operation("operation: \"mix 70:30\""), mix(70, false));
    assert_eq!(
        operation("operation: stream-mix, read_percent: 0"),
        mix(0, true)
    );
    assert_eq!(operation("read_percent: 70, stream: true"), mix(70, true));
    assert!(errors(&workload("operation: mix 70:40")).contains("add up to 100"));
    assert!(errors(&workload("operation: read, read_percent: 5")).contains("contradicts"));
}

#[test]
fn strides_skips_prefetching_and_widths_reach_the_access() {
    let access = |args: &str| match task(args).work {
        Work::Throughput { access, .. } => access,
        other => panic!("{other:?}"),
    };
    assert_eq!(access("access_size: 64, skip: 3").stride_bytes, 256);
    assert_eq!(access("access_size: 64, stride: 4K").stride_bytes, 4096);
    assert_eq!(access("prefetch_distance: 2K").prefetch_bytes, 2048);
    assert_eq!(access("simd: scalar").simd, Simd::Scalar);
    assert_eq!(access("simd: neon").simd, Simd::Neon);
    let options = LoadOptions {
        simd: Simd::Avx2,
        ..LoadOptions::default()
    };
    let run = read(&workload("simd: auto"), &options).runs.remove(0);
    assert!(
        matches!(&run.tasks[0].work, Work::Throughput { access, .. } if access.simd == Simd::Avx2)
    );
    assert!(errors(&workload("skip: 1, stride: 128")).contains("`stride` contradicts `skip`"));
    assert!(
        errors(&workload("stride: 32"))
            .contains("stride: 32 bytes; expected at least the access size")
    );
    assert!(errors(&workload("size: 4K, access_size: 64, skip: 100")).contains("no access fits"));
}

#[test]
fn latency_keys_override_what_the_mode_implies() {
    let work =
        task("measure: latency, operation: write, line: flushed, fence: none, sample_every: 7")
            .work;
    let Work::Latency {
        line,
        fence,
        sample_every,
        access,
    } = work
    else {
        panic!("{work:?}")
    };
    assert_eq!(
        (line, fence, sample_every),
        (LineState::Flushed, FenceMode::None, 7)
    );
    assert_eq!((access.access_bytes, access.stride_bytes), (64, 64));
}

#[test]
fn threads_follow_the_cpus_that_are_named() {
    let workers = task("cpus: \"0-2,6\"").workers;
    assert_eq!(
        (workers.threads, workers.pin),
        (
            4,
            Pin::Cpus {
                cpus: vec![0, 1, 2, 6]
            }
        )
    );
    assert_eq!(task("cpus: 3").workers.threads, 1);
    assert!(errors(&workload("cpus: 0-1, threads: 3")).contains("names 2 CPUs for 3 threads"));
    assert!(errors(&workload("cpus: \"3-1\"")).contains("cpus: "));
    assert!(errors(&workload("cpus: 0, task_nodes: [0]")).contains("contradicts"));
}

#[test]
fn amounts_are_exactly_one() {
    assert_eq!(task("bytes: 4GiB").amount, Amount::Bytes(4 << 30));
    assert_eq!(task("passes: 3").amount, Amount::Passes(3));
    assert_eq!(task("run_time: 500ms").amount, Amount::Seconds(0.5));
    assert_eq!(task("number_operations: 5").amount, Amount::Operations(5));
    assert!(errors(&workload("bytes: 1G, passes: 1")).contains("contradicts"));
    assert!(errors(&workload("bytes: 1G, run_time: 2")).contains("contradicts"));
    assert_eq!(
        task("bytes: 1G, run_time: 0").amount,
        Amount::Bytes(1 << 30)
    );
}

#[test]
fn repetition_and_seed_belong_to_the_run() {
    let run = runs(&workload(
        "repeat: 4, warmup: 2s, until_stable: 2%, max_repeat: 9, seed: 7",
    ))
    .remove(0);
    assert_eq!((run.repeat, run.warmup_s, run.seed), (4, 2.0, 7));
    let stable = run.until_stable.unwrap();
    assert_eq!((stable.relative_half_width, stable.max_repeat), (0.02, 9));
    assert!(errors(&workload("max_repeat: 9")).contains("no meaning without `until_stable`"));
    assert!(
        errors(&workload("repeat: 9, max_repeat: 5, until_stable: 2%"))
            .contains("less than repeat")
    );
    assert!(errors("w: {tasks: {a: {seed: 1}}}").contains("`seed` cannot stand here"));
}

#[test]
fn loaded_latency_is_a_chaser_and_a_load() {
    let text = "w:\n  matrix:\n    rate: [0, {from: 2, to: 8, factor: 2}, max]\n  args: {measure: loaded-latency, cpus: 1-2, chase_cpus: 0, chase_size: 1G, memory: cxl, chase_locality: pages}\n";
    let runs = runs(text);
    assert_eq!(runs.len(), 5);
    assert_eq!(runs[0].tasks.len(), 1, "a rate of 0 is the idle point");
    let [chase, load] = runs[1].tasks.as_slice() else {
        panic!()
    };
    assert_eq!(
        (chase.role, load.role),
        (TaskRole::Main, TaskRole::Background)
    );
    assert_eq!(
        chase.work,
        Work::Chase {
            locality: ChaseLocality::Pages
        }
    );
    assert_eq!(chase.workers.pin, Pin::Cpus { cpus: vec![0] });
    assert_eq!(
        (chase.regions[0].size_bytes, load.regions[0].size_bytes),
        (1 << 30, 10 << 30)
    );
    assert_eq!(chase.regions[0].placement, load.regions[0].placement);
    let rates: Vec<_> = runs[1..].iter().map(|run| run.tasks[1].rate_gbps).collect();
    assert_eq!(rates, [Some(2.0), Some(4.0), Some(8.0), None]);
    assert_eq!(runs[2].varied, [("rate".into(), "4".into())]);
}

#[test]
fn tasks_share_defaults_and_have_their_own() {
    let text = "w:\n  matrix:\n    size: [64M, 128M]\n    load.rate: [1, 2]\n  args: {memory: dram}\n  tasks:\n    load: {operation: stream-write, threads: 2}\n    probe: {role: main, measure: chase, memory: cxl}\n    other: {role: background}\n";
    let runs = runs(text);
    assert_eq!(runs.len(), 4);
    let names: Vec<&str> = runs[0]
        .tasks
        .iter()
        .map(|task| task.name.as_str())
        .collect();
    assert_eq!(names, ["load", "probe", "other"], "main tasks come first");
    assert_eq!(runs[0].tasks[1].regions[0].placement.to_string(), "cxl");
    assert_eq!(runs[0].tasks[2].regions[0].placement.to_string(), "dram");
    assert_eq!(runs[3].tasks[0].rate_gbps, Some(2.0));
    assert_eq!(runs[3].tasks[1].rate_gbps, None);
    assert!(
        runs[3]
            .tasks
            .iter()
            .all(|task| task.regions[0].size_bytes == 128 << 20)
    );
    assert!(errors("w: {tasks: {a: {role: background}}}").contains("no task has the role main"));
    assert!(
        errors("w: {matrix: {x.rate: [1]}, tasks: {a: {}, b: {}}}")
            .contains("no task is called `x`")
    );
}

#[test]
fn the_main_task_comes_first_wherever_it_stands() {
    let runs = runs("w: {tasks: {load: {role: background}, probe: {role: main, measure: chase}}}");
    assert_eq!(runs[0].tasks[0].name, "probe");
}

#[test]
fn hosts_are_listed_and_checked() {
    let text = "hosts:\n  left: {ssh: me@a}\n  right: b:2\nw: {args: {host: left}}\n";
    let read = read(text, &LoadOptions::default());
    assert_eq!(read.hosts.len(), 2);
    assert_eq!(
        (read.hosts[0].ssh.as_deref(), read.hosts[0].line),
        (Some("me@a"), 2)
    );
    assert_eq!(read.hosts[1].address.as_deref(), Some("b:2"));
    assert_eq!(read.runs[0].tasks[0].host.as_deref(), Some("left"));
    let error = errors(&text.replace("host: left", "host: lefd"));
    assert!(error.contains("did you mean `left`?"), "{error}");
    let both = errors("hosts: {a: {ssh: me@a, address: \"a:1\"}}\nw: {args: {}}");
    assert!(both.contains("both address and ssh"), "{both}");
    assert!(errors("hosts: {a: {ssh: -oProxyCommand=x}}\nw: {args: {}}").contains("not an option"));
}

#[test]
fn set_overrides_arguments_matrices_and_other_ways_to_say_it() {
    let text = "w:\n  matrix: {numa_memory_nodes: [[0], [1]], threads: [1, 2]}\n  args: {access_size: 64}\n";
    let with = |overrides: &[(&str, &str)]| read(text, &set(overrides)).runs;
    assert_eq!(with(&[]).len(), 4);
    let runs = with(&[("memory", "cxl"), ("access_size", "4K")]);
    assert_eq!(runs.len(), 2, "the matrix of nodes is overridden");
    assert_eq!(runs[0].tasks[0].regions[0].placement.to_string(), "cxl");
    assert_eq!(with(&[("number_threads", "[3, 4, 5]")]).len(), 6);
    assert_eq!(with(&[("repeat", "9")])[0].repeat, 9);
    let error = parse(text, "w.yaml", &set(&[("treads", "1")]))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "--set treads=1: unknown key `treads`, did you mean `threads`?"
    );
    let error = parse(text, "w.yaml", &set(&[("load.rate", "1")]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no task is called `load`"), "{error}");
}

#[test]
fn anchors_and_merge_keys_work() {
    let runs =
        runs("a:\n  args: &base {size: 64M, threads: 2}\nb:\n  args: {<<: *base, threads: 3}\n");
    assert_eq!(
        (
            runs[1].tasks[0].regions[0].size_bytes,
            runs[1].tasks[0].workers.threads
        ),
        (64 << 20, 3)
    );
}

#[test]
fn plans_of_more_runs_than_anyone_waits_for_are_refused() {
    let axis = "{from: 1, to: 1000, step: 1}";
    let error = errors(&format!("w: {{matrix: {{threads: {axis}, seed: {axis}}}}}"));
    assert!(
        error.contains("more than 100000 runs") && error.contains("threads x 1000"),
        "{error}"
    );
}

#[test]
fn ids_follow_contents_and_not_places() {
    let id = |text: &str, file: &str| {
        parse(text, file, &LoadOptions::default()).unwrap().runs[0]
            .id
            .clone()
    };
    let plain = id("w: {args: {size: 64M}}", "a.yaml");
    assert_eq!(plain.len(), 16);
    assert_eq!(
        plain,
        id(
            "# moved\n\nw: {args: {memory_region_size: 64MiB}}",
            "b.yaml"
        )
    );
    assert_ne!(plain, id("w: {args: {size: 128M}}", "a.yaml"));
}

#[test]
fn json_with_a_foreign_id_is_refused() {
    let run = runs(&workload("size: 64M")).remove(0);
    let mut json = run.to_json();
    assert_eq!(RunPlan::from_json(json.clone()).unwrap(), run);
    json["repeat"] = 99.into();
    assert!(matches!(
        RunPlan::from_json(json.clone()),
        Err(PlanError::Id { .. })
    ));
    json["id"] = "".into();
    assert_eq!(RunPlan::from_json(json).unwrap().repeat, 99);
    assert!(matches!(
        RunPlan::from_json(serde_json::json!({})),
        Err(PlanError::Json(_))
    ));
}

#[test]
fn folders_are_read_in_order_and_missing_names_are_suggested() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("deep")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("b.yaml", "second: {args: {size: 64M}}");
    write("a.yml", "first: {args: {size: 64M}}");
    write("deep/c.yaml", "third: {args: {size: 64M}}");
    write("notes.txt", "not a workload");
    let paths = [folder.path().to_owned()];
    let all = load(&paths, &LoadOptions::default()).unwrap();
    let names: Vec<&str> = all.runs.iter().map(|run| run.workload.as_str()).collect();
    assert_eq!(names, ["first", "second", "third"]);
    let only = |name: &str| {
        let options = LoadOptions {
            only: vec![name.into()],
            ..LoadOptions::default()
        };
        load(&paths, &options)
    };
    assert_eq!(only("third").unwrap().runs.len(), 1);
    let error = only("thrid").unwrap_err();
    assert!(
        error.to_string().contains("did you mean `third`?"),
        "{error}"
    );
    assert!(matches!(
        load(&[PathBuf::from("/no/such.yaml")], &LoadOptions::default()),
        Err(FileError::Read { .. })
    ));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(
        load(&[empty.path().to_owned()], &LoadOptions::default()),
        Err(FileError::NoFiles { .. })
    ));
}

#[test]
fn files_that_disagree_on_a_host_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, address) in [("a.yaml", "x:1"), ("b.yaml", "y:1")] {
        let text = format!("hosts: {{h: \"{address}\"}}\nw: {{args: {{host: h}}}}");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let error = load(&[folder.path().to_owned()], &LoadOptions::default()).unwrap_err();
    assert!(matches!(error, FileError::HostTwice { .. }), "{error}");
}

#[test]
fn a_copy_has_a_destination_with_memory_and_pages_of_its_own() {
    let copy = |rest: &str| task(&format!("operation: stream-copy, size: 1G, {rest}")).regions;
    assert_eq!(copy("memory: dram").len(), 1);
    let regions =
        copy("memory: dram, destination_memory: \"dram:3,cxl:2\", destination_page_size: thp");
    let placements: Vec<String> = regions.iter().map(|r| r.placement.to_string()).collect();
    assert_eq!(placements, ["dram", "dram:3,cxl:2"]);
    assert!(regions.iter().all(|region| region.size_bytes == 512 << 20));
    let pages: Vec<PageSize> = regions.iter().map(|region| region.page_size).collect();
    assert_eq!(pages, [PageSize::Base, PageSize::Thp]);
    let device = copy("memory: /dev/dax0.0, destination_memory: /dev/dax0.0");
    let second = MemoryPlan::Devdax {
        path: "/dev/dax0.0".into(),
        offset_bytes: 512 << 20,
    };
    assert_eq!(device[1].memory, second);
    for wrong in [
        "operation: read, destination_memory: dram",
        "operation: copy, measure: latency, destination_memory: dram",
    ] {
        let said = errors(&workload(wrong));
        assert!(
            said.contains("it is for the throughput of copies"),
            "{said}"
        );
    }
    let said = errors(&workload("operation: copy, destination_memory: nowhere"));
    assert!(
        said.contains("destination_memory") && said.contains("nowhere"),
        "{said}"
    );
}

#[test]
fn all_examples_make_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bench");
    let all = load(&[folder], &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(all.names.len() >= 15, "{:?}", all.names);
    for run in &all.runs {
        assert_ne!(
            run.tasks[0].regions[0].placement,
            PlacementSpec::Partitioned(Vec::new())
        );
    }
}

#[test]
fn all_suites_of_publications_make_runs_at_any_usual_scale() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/papers");
    let at = |scale| {
        let options = LoadOptions {
            scale,
            cpus: 4,
            ..LoadOptions::default()
        };
        load(std::slice::from_ref(&folder), &options).unwrap_or_else(|error| panic!("{error}"))
    };
    let whole = at(1.0);
    for scale in [1.0 / 16.0, 1.0 / 64.0, 1.0 / 1024.0] {
        let small = at(scale);
        assert_eq!(small.runs.len(), whole.runs.len());
        assert_eq!(
            small.published, whole.published,
            "what is asked does not depend on sizes"
        );
        for (small, whole) in small.runs.iter().zip(&whole.runs) {
            let bytes = |run: &RunPlan| -> u64 {
                let regions = run.tasks.iter().flat_map(|task| &task.regions);
                regions.map(|region| region.size_bytes).sum()
            };
            assert!(bytes(small) <= bytes(whole), "{}", small.workload);
            assert_eq!(
                small.tasks[0].amount, whole.tasks[0].amount,
                "{}",
                small.workload
            );
        }
    }
    assert!(
        whole
            .published
            .iter()
            .all(|asked| asked.points.iter().all(|p| p.missing.is_none()))
    );
    for paper in ["nus24", "epfl25", "hpi25", "bench25"] {
        let mut asked = whole.published.iter();
        assert!(
            asked.any(|figure| figure.figure.starts_with(paper)),
            "{paper}"
        );
    }
}
