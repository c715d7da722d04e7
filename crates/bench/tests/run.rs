//! Runs on this machine: every kind of work, several tasks at once, stopping, and the content of
//! the records.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::SystemTime;

use tierloom_bench::plan::{
    Amount, MapAction, MapSharing, MemoryPlan, Pin, RegionPlan, RunPlan, Sharing, TaskPlan,
    TaskRole, UntilStable, Work, WorkersPlan,
};
use tierloom_bench::run::{Control, Event, Host, Part, Session, check, record, run_part};
use tierloom_kernels::access::{
    Access, CacheOp, ChainStep, ChaseLocality, Distribution, FenceMode, LineState, Operation, Order,
};
use tierloom_memory::{PageSize, PlacementSpec};
use tierloom_record::{Record, RecordWriter};

const MIB: u64 = 1 << 20;

fn host() -> &'static Host {
    static HOST: std::sync::OnceLock<Host> = std::sync::OnceLock::new();
    HOST.get_or_init(|| Host::look().unwrap())
}

/// Never stops a run.
struct ToTheEnd;

impl Control for ToTheEnd {
    fn stopped(&self) -> bool {
        false
    }
}

fn region(size_bytes: u64) -> RegionPlan {
    RegionPlan {
        memory: MemoryPlan::Anonymous,
        size_bytes,
        page_size: PageSize::Base,
        placement: PlacementSpec::Default,
    }
}

fn task(name: &str, work: Work, threads: u32, amount: Amount) -> TaskPlan {
    TaskPlan {
        name: name.into(),
        role: TaskRole::Main,
        host: None,
        work,
        regions: vec![region(4 * MIB)],
        workers: WorkersPlan {
            threads,
            pin: Pin::Free,
        },
        amount,
        rate_gbps: None,
    }
}

fn throughput(access: Access, sharing: Sharing) -> Work {
    Work::Throughput {
        access,
        batch_bytes: MIB / 2,
        sharing,
    }
}

fn plan(tasks: Vec<TaskPlan>) -> RunPlan {
    RunPlan {
        id: String::new(),
        workload: "test".into(),
        file: String::new(),
        line: 0,
        varied: vec![("key".into(), "value".into())],
        tasks,
        repeat: 3,
        warmup_s: 0.0,
        until_stable: None,
        seed: 7,
        scale: 1.0,
    }
    .with_id()
}

fn run(plan: &RunPlan) -> Part {
    run_part(plan, None, host(), &ToTheEnd).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a plan of one task; its record must be valid and readable.
fn one(work: Work, threads: u32, amount: Amount) -> tierloom_record::TaskRecord {
    let plan = plan(vec![task("main", work, threads, amount)]);
    let part = run(&plan);
    let session = Session {
        id: "s".into(),
        tool_version: "0".into(),
        commit: None,
        build: "dev".into(),
        command: vec![],
        samples: false,
    };
    let record = record(&plan, vec![part], &session).unwrap();
    assert!(record.valid, "{:?}", record.remarks);
    assert_eq!(
        serde_json::from_value::<RunPlan>(record.plan.clone()).unwrap(),
        plan
    );
    RecordWriter::new(Vec::new(), "x")
        .write(&Record::Bench(Box::new(record.clone())))
        .unwrap();
    record.tasks.into_iter().next().unwrap()
}

#[test]
fn every_operation_makes_exactly_the_operations_asked_for_and_leaves_right_data() {
    let mixed = |read_percent, stream| Operation::Mix {
        read_percent,
        stream,
    };
    for operation in [
        Operation::Read,
        Operation::StreamRead,
        Operation::Write,
        Operation::StreamWrite,
        Operation::Copy,
        Operation::StreamCopy,
        mixed(70, false),
        mixed(50, true),
        Operation::CompareAndSwap,
        Operation::FetchAdd,
    ] {
        for order in [
            Order::Ascending,
            Order::Descending,
            Order::Random(Distribution::Uniform),
            Order::Random(Distribution::Zipf { alpha: 0.9 }),
        ] {
            for sharing in [Sharing::Queue, Sharing::Partitioned] {
                let access = Access {
                    order,
                    ..Access::sequential(operation)
                };
                let done = one(throughput(access, sharing), 2, Amount::Passes(1));
                let copies = matches!(operation, Operation::Copy | Operation::StreamCopy);
                let places = 4 * MIB / 64 / if copies { 2 } else { 1 };
                assert_eq!(
                    done.operations,
                    3 * places,
                    "{operation} {order:?} {sharing:?}"
                );
                assert!(done.data_check.is_some() && done.bandwidth_gbps.is_some());
                assert_eq!(done.thread_gbps.len(), 2);
                assert!(done.overhead_per_batch_ns.is_some_and(|ns| ns > 0.0));
            }
        }
    }
}

#[test]
fn a_copy_to_a_region_of_its_own_copies_every_byte_there() {
    for (operation, order) in [
        (Operation::Copy, Order::Ascending),
        (Operation::StreamCopy, Order::Descending),
        (Operation::StreamCopy, Order::Ascending),
        (Operation::Copy, Order::Random(Distribution::Uniform)),
        (
            Operation::Copy,
            Order::Random(Distribution::Zipf { alpha: 0.9 }),
        ),
    ] {
        for sharing in [Sharing::Queue, Sharing::Partitioned] {
            let access = Access {
                order,
                ..Access::sequential(operation)
            };
            let mut task = task("main", throughput(access, sharing), 3, Amount::Passes(2));
            task.regions.push(region(4 * MIB));
            let part = run(&plan(vec![task]));
            assert!(
                !part.remarks.iter().any(|r| r.invalidates),
                "{:?}",
                part.remarks
            );
            let done = &part.tasks[0];
            assert_eq!(done.regions.len(), 2);
            let places = 4 * MIB / 64;
            // Each thread rounds its part of the amount up.
            let rounded = done.operations - 3 * 2 * places;
            assert!(rounded < 3 * 3, "{operation} {order:?} {sharing:?}");
            let said = done.data_check.as_deref().unwrap_or_default();
            assert!(said.contains("destination"), "{said}");
        }
    }
}

#[test]
fn an_amount_of_bytes_and_of_operations_is_kept_to_also_if_no_batch_divides_it() {
    let access = Access {
        access_bytes: 256,
        stride_bytes: 512,
        ..Access::sequential(Operation::Read)
    };
    let work = || throughput(access, Sharing::Queue);
    assert_eq!(
        one(work(), 1, Amount::Operations(10_001)).operations,
        30_003
    );
    assert_eq!(one(work(), 2, Amount::Bytes(256 * 777)).operations, 3 * 777);
    let crowd = run(&plan(vec![task("main", work(), 300, Amount::Passes(1))]));
    let shared = |text: &str| text.contains("300 threads share");
    assert!(
        crowd
            .remarks
            .iter()
            .any(|r| shared(&r.text) && !r.invalidates)
    );
    let timed = one(work(), 2, Amount::Seconds(0.02));
    assert!(timed.operations > 0 && timed.bytes_per_operation == 256);
}

#[test]
fn latencies_are_sampled_as_often_as_asked_with_the_timer_taken_off() {
    for (operation, line, fence) in [
        (Operation::Read, LineState::Flushed, FenceMode::Full),
        (Operation::Read, LineState::Preloaded, FenceMode::None),
        (Operation::Write, LineState::AsIs, FenceMode::Full),
        (Operation::StreamWrite, LineState::AsIs, FenceMode::Full),
        (Operation::CompareAndSwap, LineState::AsIs, FenceMode::Full),
        (Operation::FetchAdd, LineState::Flushed, FenceMode::Full),
    ] {
        let cache_op = if operation == Operation::Write {
            CacheOp::WriteBack
        } else {
            CacheOp::None
        };
        let access = Access {
            cache_op,
            ..Access::random(operation)
        };
        let work = Work::Latency {
            access,
            sample_every: 10,
            line,
            fence,
        };
        let done = one(work, 2, Amount::Operations(20_000));
        let latency = done.latency.unwrap();
        assert_eq!(
            (done.operations, latency.samples),
            (60_000, 6000),
            "{operation}"
        );
        assert_eq!(latency.median_ns.values.len(), 3);
        assert!(
            latency.timer_overhead_ns > 0.0 && latency.max_ns > latency.min_ns,
            "{operation} {line:?} {fence:?}: {latency:?}"
        );
        assert_eq!(latency.histogram.iter().map(|b| b.count).sum::<u64>(), 6000);
    }
}

#[test]
fn a_chase_of_several_threads_has_a_ring_each_and_counts_loads() {
    for locality in [ChaseLocality::Random, ChaseLocality::Pages] {
        let done = one(Work::Chase { locality }, 2, Amount::Operations(100_000));
        assert_eq!(done.operations, 300_000);
        assert!(done.latency.is_some_and(|latency| latency.samples > 100));
    }
}

#[test]
fn mappings_are_timed_one_by_one() {
    for action in [MapAction::Map, MapAction::Unmap] {
        for sharing in [MapSharing::Private, MapSharing::Shared] {
            let work = Work::Mapping {
                action,
                sharing,
                populate: true,
            };
            let done = one(work, 1, Amount::Operations(4));
            assert_eq!(done.latency.unwrap().samples, 12);
            // There is no bandwidth and no page to audit, so none may be reported. What was mapped
            // is.
            assert!(done.bandwidth_gbps.is_none() && done.thread_gbps.is_empty());
            let [region] = done.regions.as_slice() else {
                panic!("{:?}", done.regions)
            };
            assert_eq!(region.memory, "anonymous memory");
            assert!(region.before.is_none() && region.after.is_none() && region.note.is_some());
        }
    }
}

#[test]
fn a_chain_may_use_a_second_region() {
    let step = |region, write, size_bytes| ChainStep {
        region,
        write,
        size_bytes,
        cache_op: CacheOp::None,
        stream: false,
        offset_bytes: None,
    };
    let work = Work::Custom {
        chain: vec![step(0, false, 64), step(1, true, 256)],
        sample_every: 5,
    };
    let mut task = task("main", work, 2, Amount::Operations(1000));
    let one_region = plan(vec![task.clone()]);
    let error = check(&one_region, None, host()).unwrap_err();
    assert!(
        error.is_bad_input() && error.to_string().contains("m1"),
        "{error}"
    );
    task.regions.push(region(2 * MIB));
    let part = run(&plan(vec![task]));
    let done = &part.tasks[0];
    assert_eq!(
        (
            done.operations,
            done.regions.len(),
            done.bytes_per_operation
        ),
        (3000, 2, 320)
    );
    assert_eq!(done.latency.as_ref().unwrap().samples, 600);
}

#[test]
fn background_load_is_counted_in_the_same_windows_and_keeps_to_its_rate() {
    let mut load = task(
        "load",
        throughput(Access::sequential(Operation::Read), Sharing::Queue),
        1,
        Amount::Seconds(1.0),
    );
    load.role = TaskRole::Background;
    load.rate_gbps = Some(0.05);
    let chase = Work::Chase {
        locality: ChaseLocality::Pages,
    };
    let main = task("main", chase, 1, Amount::Seconds(0.2));
    let part = run(&plan(vec![main, load]));
    let [main, load] = part.tasks.as_slice() else {
        panic!("{:?}", part.tasks);
    };
    assert_eq!(
        (main.role.as_str(), load.role.as_str()),
        ("main", "background")
    );
    let spread = load.bandwidth_gbps.as_ref().unwrap();
    assert_eq!(spread.values.len(), 3);
    // The rate may not exceed the limit by more than a batch per window; how far below it is
    // depends on the machine.
    assert!(spread.max < 0.06, "{spread:?}");
}

#[test]
fn repeating_until_stable_ends_at_the_limit_and_says_so() {
    let mut plan = plan(vec![task(
        "main",
        throughput(Access::sequential(Operation::Read), Sharing::Queue),
        1,
        Amount::Passes(1),
    )]);
    plan.until_stable = Some(UntilStable {
        relative_half_width: 1e-9,
        max_repeat: 8,
    });
    let part = run(&plan);
    let stability = part.stability.unwrap();
    assert!(!stability.stable && stability.repeats == 8);
    assert!(
        part.remarks
            .iter()
            .any(|r| r.text.contains("not stable") && !r.invalidates)
    );
    plan.until_stable = Some(UntilStable {
        relative_half_width: 1e9,
        max_repeat: 8,
    });
    let part = run(&plan);
    assert!(part.stability.is_some_and(|s| s.stable && s.repeats == 6));
}

/// Stops after this many repetitions.
struct StopAfter(AtomicU32, AtomicBool);

impl Control for StopAfter {
    fn stopped(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    fn event(&self, event: Event) {
        if let Event::Repetition { done, .. } = event
            && done >= self.0.load(Ordering::Relaxed)
        {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_stopped_run_keeps_whole_repetitions_and_without_one_has_no_record() {
    let endless = plan(vec![task(
        "main",
        throughput(Access::sequential(Operation::Write), Sharing::Queue),
        2,
        Amount::Seconds(0.01),
    )]);
    let endless = RunPlan {
        repeat: 1000,
        ..endless
    };
    let control = StopAfter(AtomicU32::new(2), AtomicBool::new(false));
    let part = run_part(&endless, None, host(), &control).unwrap();
    assert_eq!(
        part.tasks[0].bandwidth_gbps.as_ref().unwrap().values.len(),
        2
    );
    assert!(
        part.remarks
            .iter()
            .any(|r| r.text == "stopped after 2 of 1000 repetitions")
    );
    let at_once = StopAfter(AtomicU32::new(0), AtomicBool::new(true));
    let error = run_part(&endless, None, host(), &at_once).unwrap_err();
    assert!(
        !error.is_bad_input() && error.to_string().contains("stopped"),
        "{error}"
    );
}

/// Cancels when it is asked for the start time.
struct NoStart;

impl Control for NoStart {
    fn ready(&self) -> Option<SystemTime> {
        None
    }

    fn stopped(&self) -> bool {
        false
    }
}

#[test]
fn a_start_that_never_comes_leaves_nobody_waiting() {
    let plan = plan(vec![task(
        "main",
        throughput(Access::sequential(Operation::Read), Sharing::Queue),
        2,
        Amount::Passes(1),
    )]);
    assert!(run_part(&plan, None, host(), &NoStart).is_err());
}

#[test]
fn what_this_machine_lacks_is_told_before_any_memory_is_touched() {
    let read = || throughput(Access::sequential(Operation::Read), Sharing::Queue);
    let complaint = |change: &dyn Fn(&mut TaskPlan)| {
        let mut task = task("main", read(), 1, Amount::Passes(1));
        change(&mut task);
        let error = check(&plan(vec![task]), None, host()).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        error.to_string()
    };
    let cpus = |cpus: Vec<u32>| {
        move |task: &mut TaskPlan| task.workers.pin = Pin::Cpus { cpus: cpus.clone() }
    };
    assert!(complaint(&cpus(vec![100_000])).contains("CPU 100000 cannot be used"));
    assert!(complaint(&cpus(vec![])).contains("empty list"));
    let node = |task: &mut TaskPlan| {
        task.workers.pin = Pin::Nodes {
            nodes: vec![77],
            spread: tierloom_bench::plan::NodeSpread::AllNodes,
        };
    };
    assert!(complaint(&node).contains("no node 77"));
    assert!(complaint(&|task| task.workers.threads = 0).contains("0 threads"));
    let far = |task: &mut TaskPlan| task.regions[0].placement = "63".parse().unwrap();
    assert!(complaint(&far).contains("63"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    let mine = |task: &mut TaskPlan| {
        task.regions[0].memory = MemoryPlan::File {
            path: path.clone(),
            offset_bytes: 0,
        };
    };
    assert!(complaint(&mine).contains("--overwrite"));
    assert_eq!(std::fs::metadata(file.path()).unwrap().len(), 0);
}
