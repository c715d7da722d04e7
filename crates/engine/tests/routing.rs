//! Operator memory is placed by its class, and results are the same as without routing.

mod common;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tierloom_counters::latencies::{LatencyReader, MemoryReads};
use tierloom_counters::stalls::{Breakdown, FakeMeters, StallSource};
use tierloom_engine::adapt::{Driver, DriverOptions, Timing};
use tierloom_engine::answer::to_text;
use tierloom_engine::capture::{Captured, HostCosts, capture};
use tierloom_engine::counting::{CountedOperator, CountedRun, Counting};
use tierloom_engine::routing::{PlaceSpec, RoutingOptions, explain_analyze};
use tierloom_engine::{Engine, EngineError, EngineOptions, PlacedTable};
use tierloom_memory::router::{self, Class, PlaceTarget, PlaceUsage, TierAllocator};
use tierloom_model::{Phase, profiles};
use tierloom_placement::adaptive::{Measured, PhaseDecision, Settings, replay};
use tierloom_topology::{SysRoot, Topology};
use tierloom_workloads::ssb::queries;

#[global_allocator]
static ALLOCATOR: TierAllocator<std::alloc::System> = TierAllocator::new(std::alloc::System);

/// Joins the fact table with itself: the build side is far above the limit for large ones.
const BIG_JOIN: &str = "SELECT count(*), sum(b.lo_revenue) FROM lineorder a JOIN lineorder b \
     ON a.lo_orderkey = b.lo_orderkey AND a.lo_linenumber = b.lo_linenumber";
const MANY_GROUPS: &str = "SELECT count(*) FROM (SELECT lo_orderkey, lo_linenumber, sum(lo_revenue) FROM lineorder GROUP BY 1, 2)";

/// What captures take off for hosts; these tests look at names and rows.
const HOST: HostCosts = HostCosts {
    stream_ns_per_byte: 0.0,
    working_set_bytes: 0,
};

/// The router belongs to the process, so tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tables() -> Vec<Arc<PlacedTable>> {
    let (backend, topology) = common::two_nodes();
    common::ssb(backend, &topology, 0.03)
}

fn engine_with(tables: &[Arc<PlacedTable>], routing: Option<RoutingOptions>) -> Engine {
    let options = EngineOptions {
        routing,
        ..EngineOptions::tuned(2)
    };
    let engine = Engine::new(options).unwrap();
    tables.iter().for_each(|t| engine.register(t).unwrap());
    engine
}

/// A class on node 0 with these limits, one place per limit.
fn limited(class: Class, limits: &[Option<u64>]) -> Option<RoutingOptions> {
    let place = |limit: &Option<u64>| PlaceSpec {
        target: PlaceTarget::Placement("0".parse().unwrap()),
        limit_bytes: *limit,
    };
    // One node, whatever this machine has: the test itself sets the other places.
    let topology: Topology = tierloom_memory::fake_topology(&[tierloom_memory::FakeNode {
        node: 0,
        cpus: 2,
        memory_bytes: 4 << 30,
    }])
    .unwrap();
    Some(RoutingOptions {
        places: vec![(class, limits.iter().map(place).collect())],
        topology: Some(topology),
        ..RoutingOptions::default()
    })
}

fn answer(engine: &Engine, sql: &str) -> Result<String, EngineError> {
    let planned = engine.plan("test", sql)?;
    to_text(&engine.execute("test", &planned, &|| false)?.batches)
}

fn of_class(class: Class) -> Vec<PlaceUsage> {
    let all = router::place_usage().into_iter();
    all.filter(|usage| usage.class == class).collect()
}

/// Tasks that were aborted release their memory a moment later.
fn all_memory_returns() {
    let start = Instant::now();
    loop {
        let left: u64 = router::place_usage().iter().map(|u| u.current_bytes).sum();
        if left == 0 {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{left} bytes were not returned: {:?}",
            router::place_usage()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a ArrayRef {
    batch.column_by_name(name).unwrap()
}

#[test]
fn plans_answers_and_captures_are_those_without_routing() {
    let _turn = turn();
    let tables = tables();
    let plain = engine_with(&tables, None);
    let routed = engine_with(&tables, Some(RoutingOptions::default()));
    let more = [
        BIG_JOIN,
        MANY_GROUPS,
        "SELECT lo_orderkey FROM lineorder ORDER BY lo_revenue, 1 LIMIT 10",
        "SELECT d_year, rank() OVER (PARTITION BY d_year ORDER BY d_datekey) FROM date ORDER BY 1, 2 LIMIT 50",
        "SELECT c_city FROM customer UNION SELECT s_city FROM supplier ORDER BY 1",
    ];
    let all = queries().iter().map(|q| q.sql).chain(more);
    for sql in all {
        let explain = format!("EXPLAIN {sql}");
        assert_eq!(
            answer(&routed, &explain).unwrap(),
            answer(&plain, &explain).unwrap()
        );
        let (with, without) = (
            routed.plan("q", sql).unwrap(),
            plain.plan("q", sql).unwrap(),
        );
        assert_eq!(with.display(), without.display());
        let run = |engine: &Engine, planned| {
            let execution = engine.execute("q", planned, &|| false).unwrap();
            let operators: Vec<_> = capture(&execution, &HOST)
                .operators
                .into_iter()
                .map(|o| (o.operator, o.phase, o.input_rows))
                .collect();
            (to_text(&execution.batches).unwrap(), operators)
        };
        // Twice: the second execution has new states and accounts.
        for _ in 0..2 {
            let (with, without) = (run(&routed, &with), run(&plain, &without));
            assert_eq!(with.0, without.0, "{sql}");
            // Sorted: a star join orders its filters by what they keep while it runs.
            let names = |all: &[(String, String, u64)]| {
                let mut names = all.iter().map(|o| o.0.clone()).collect::<Vec<_>>();
                names.sort();
                names
            };
            assert_eq!(names(&with.1), names(&without.1), "{sql}");
        }
    }
    all_memory_returns();
}

#[test]
fn build_sides_and_groups_are_counted_for_their_operators() {
    let _turn = turn();
    let engine = engine_with(&tables(), Some(RoutingOptions::default()));
    let joins = ["HashJoinExec", "BigJoinExec"].as_slice();
    let groups = ["AggregateExec", "BigAggregateExec", "StarExec"].as_slice();
    for (sql, names, class) in [
        (BIG_JOIN, joins, "join"),
        (MANY_GROUPS, groups, "aggregation"),
    ] {
        let explained = explain_analyze(&engine, sql).unwrap();
        let operators = column(&explained, "operator").as_string::<i32>();
        let peaks = column(&explained, "peak_bytes").as_primitive::<UInt64Type>();
        let of_operator: Vec<usize> = (0..explained.num_rows())
            .filter(|row| names.contains(&operators.value(*row).trim()))
            .collect();
        let peak: u64 = of_operator.iter().map(|row| peaks.value(*row)).sum();
        // 180,000 rows of at least two columns of four bytes.
        assert!(peak > 2 << 20, "{sql}: {peak}");
        for row in of_operator {
            assert_eq!(
                column(&explained, "class").as_string::<i32>().value(row),
                class
            );
        }
    }
    all_memory_returns();
}

#[test]
fn the_system_table_shows_places_and_is_no_trouble_to_query() {
    let _turn = turn();
    let options = limited(Class::JoinBuild, &[Some(1 << 30)]);
    let engine = engine_with(&tables(), options);
    answer(&engine, BIG_JOIN).unwrap();
    let sql = "SELECT place, limit_bytes, peak_bytes > 0 AS used FROM tier_memory WHERE class = 'join' AND operator IS NULL AND place = '0'";
    let text = answer(&engine, sql).unwrap();
    assert_eq!(text, "place,limit_bytes,used\n0,1073741824,true\n");
    all_memory_returns();
}

#[test]
fn a_full_place_falls_to_the_next_and_the_answer_is_right() {
    let _turn = turn();
    let tables = tables();
    let expected = answer(&engine_with(&tables, None), BIG_JOIN).unwrap();
    let options = limited(Class::JoinBuild, &[Some(1 << 20), None]);
    let engine = engine_with(&tables, options);
    let before: u64 = of_class(Class::JoinBuild).iter().map(|u| u.fallbacks).sum();
    assert_eq!(answer(&engine, BIG_JOIN).unwrap(), expected);
    let usage = of_class(Class::JoinBuild);
    let after: u64 = usage.iter().map(|u| u.fallbacks).sum();
    assert!(after > before, "{usage:?}");
    let event = router::events()
        .into_iter()
        .rev()
        .find(|e| e.class == Class::JoinBuild)
        .unwrap();
    assert_eq!(
        (event.why.as_str(), event.to.as_deref()),
        ("limit reached", Some("0"))
    );
    all_memory_returns();
}

#[test]
fn with_nothing_left_the_query_ends_with_one_error_and_the_next_one_runs() {
    let _turn = turn();
    let engine = engine_with(&tables(), limited(Class::JoinBuild, &[Some(1 << 20)]));
    let error = answer(&engine, BIG_JOIN).unwrap_err().to_string();
    assert!(
        error.contains("all places of its memory class (join) are full"),
        "{error}"
    );
    assert_eq!(error.matches("JoinExec").count(), 1, "{error}");
    all_memory_returns();
    assert_eq!(
        answer(&engine, "SELECT count(*) FROM date").unwrap(),
        "count(*)\n2556\n"
    );
}

#[test]
fn a_panic_in_an_operator_is_an_error_and_memory_returns() {
    let _turn = turn();
    let engine = engine_with(&tables(), Some(RoutingOptions::default()));
    let fails = |values: &[ColumnarValue]| -> DfResult<ColumnarValue> {
        let ColumnarValue::Array(array) = &values[0] else {
            return Ok(values[0].clone());
        };
        let numbers: &Int64Array = array.as_primitive();
        assert!(numbers.len() < 10_000, "the function of the test gives up");
        Ok(ColumnarValue::Array(Arc::clone(array)))
    };
    let function = create_udf(
        "gives_up",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Volatile,
        Arc::new(fails),
    );
    engine.context().register_udf(function);
    for sql in [
        // On the calling thread, and in a task behind an exchange.
        "SELECT gives_up(CAST(b.lo_revenue AS BIGINT)) FROM lineorder a JOIN lineorder b ON a.lo_orderkey = b.lo_orderkey",
        "SELECT gives_up(CAST(lo_revenue AS BIGINT)) AS x, count(*) FROM lineorder GROUP BY 1",
    ] {
        let error = answer(&engine, sql).unwrap_err().to_string();
        assert!(
            error.contains("the function of the test gives up"),
            "{error}"
        );
        assert_eq!(router::current(), None, "the scope was left behind");
        all_memory_returns();
    }
    assert_eq!(
        answer(&engine, "SELECT count(*) FROM date").unwrap(),
        "count(*)\n2556\n"
    );
}

#[test]
fn a_cancelled_query_returns_its_memory() {
    let _turn = turn();
    let engine = engine_with(&tables(), Some(RoutingOptions::default()));
    // Hundreds of millions of pairs, so only the cancellation ends it soon.
    let sql = "SELECT sum(a.lo_revenue - b.lo_revenue) FROM lineorder a JOIN lineorder b ON a.lo_quantity = b.lo_quantity";
    let planned = engine.plan("endless", sql).unwrap();
    let start = Instant::now();
    let ended = engine.execute("endless", &planned, &|| {
        start.elapsed() > Duration::from_millis(300)
    });
    assert!(matches!(ended, Err(EngineError::Interrupted)));
    all_memory_returns();
    assert_eq!(
        answer(&engine, "SELECT count(*) FROM date").unwrap(),
        "count(*)\n2556\n"
    );
}

/// The events of a processor that a file describes, all of which grow with the time.
fn counting(meters: FakeMeters) -> Arc<Counting> {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("proc")).unwrap();
    let cpu = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n";
    std::fs::write(root.path().join("proc/cpuinfo"), cpu).unwrap();
    let root = SysRoot::at(root.path());
    Counting::new(StallSource::with_opener(&root, Arc::new(meters)))
}

fn counted(
    engine: &Engine,
    sql: &str,
    counting: &Arc<Counting>,
) -> (CountedRun, Captured, Duration) {
    let planned = engine.plan("test", sql).unwrap();
    let execution = engine
        .execute_counted("test", &planned, counting, &|| false)
        .unwrap();
    let captured = capture(&execution, &HOST);
    (captured.counted.clone().unwrap(), captured, execution.time)
}

#[test]
fn counts_of_operators_are_those_of_their_threads_and_add_up() {
    let _turn = turn();
    let engine = engine_with(&tables(), Some(RoutingOptions::default()));
    let counting = counting(FakeMeters::growing(&[
        ("cycles", 3.0),
        ("instructions", 6.0),
        ("retiring_slots", 6.0),
        ("frontend_slots", 2.0),
        ("backend_slots", 10.0),
        ("memory_slots", 7.2),
        ("store_stall_cycles", 0.3),
    ]));
    let star = queries()[3].sql;
    for sql in [BIG_JOIN, MANY_GROUPS, star] {
        let (run, captured, wall) = counted(&engine, sql, &counting);
        assert_eq!(run.problem, None);
        // Two workers, and the thread that waits for them and takes what is left.
        let most = 3.0 * wall.as_nanos() as f64;
        let busy = run.whole.busy_ns;
        assert!(busy > 0.0 && busy < most, "{sql}: {busy} of {most} ns");
        let sum: f64 = run.operators.iter().map(|o| o.counts.busy_ns).sum();
        assert!((sum - busy).abs() < 1e-6 * busy, "{sql}: {sum} and {busy}");
        assert_eq!(run.phases.len(), captured.phases.len());
        let in_phases: f64 = run.phases.iter().map(|counts| counts.busy_ns).sum();
        assert!(in_phases <= busy * (1.0 + 1e-9), "{sql}");
        assert!(in_phases > 0.5 * busy, "{sql}: {in_phases} of {busy}");
        for operator in &run.operators {
            // Stretches of a few microseconds are rounded to whole events.
            if operator.counts.counted_share(1) * operator.counts.busy_ns < 20_000.0 {
                continue;
            }
            let meaning = Breakdown::of(&operator.counts, &run.plan, None);
            let value = |name| meaning.value(name).unwrap();
            let name = &operator.operator;
            let ipc = value("instructions") / value("cycles");
            assert!((ipc - 2.0).abs() < 0.02, "{name}: {ipc}");
            assert!((value("memory_bound") - 40.0).abs() < 1.0, "{name}");
            assert!((value("core_bound") - 15.6).abs() < 1.0, "{name}");
            assert!((value("store_bound") - 10.0).abs() < 1.0, "{name}");
        }
        // Cycles are extrapolated to the time of all stretches, counted or not. A thread that was
        // not running between a stretch and a read has counts that are too large, and a run may
        // have only stretches that are too short.
        let per_ns = || {
            let (run, ..) = counted(&engine, sql, &counting);
            let whole = Breakdown::of(&run.whole, &run.plan, None);
            Some(whole.value("cycles")? / run.whole.busy_ns)
        };
        let mut runs: Vec<f64> = (0..7).filter_map(|_| per_ns()).collect();
        runs.sort_by(f64::total_cmp);
        assert!(runs.len() > 3, "{sql}: {runs:?}");
        let median = runs[runs.len() / 2];
        assert!((median - 3.0).abs() < 0.2, "{sql}: {runs:?}");
    }
    all_memory_returns();
}

#[test]
fn a_join_builds_in_one_phase_and_probes_in_another() {
    let _turn = turn();
    let engine = engine_with(&tables(), Some(RoutingOptions::default()));
    let (run, captured, _) = counted(&engine, BIG_JOIN, &counting(FakeMeters::growing(&[])));
    let names: Vec<&str> = captured.phases.iter().map(|p| p.name.as_str()).collect();
    assert!(
        names.contains(&"build lineorder") && names.contains(&"lineorder"),
        "{names:?}"
    );
    let join = |operator: &&CountedOperator| operator.operator.ends_with("join");
    let steps: Vec<_> = run.operators.iter().filter(join).collect();
    let [build, probe] = steps.as_slice() else {
        panic!("{:?}", run.operators)
    };
    assert!(build.operator.starts_with("build of "), "{build:?}");
    assert_eq!(
        (build.phase.as_str(), probe.phase.as_str()),
        ("build lineorder", "lineorder")
    );
    assert!(
        build.counts.busy_ns > 0.0 && probe.counts.busy_ns > 0.0,
        "{steps:?}"
    );
    all_memory_returns();
}

#[test]
fn without_hardware_counters_there_are_times_and_the_reason() {
    let _turn = turn();
    let engine = engine_with(&tables(), Some(RoutingOptions::default()));
    const EACCES: i32 = 13;
    let (run, ..) = counted(&engine, BIG_JOIN, &counting(FakeMeters::refusing(EACCES)));
    assert!(run.whole.busy_ns > 0.0);
    let problem = run.problem.as_deref().unwrap();
    assert!(problem.contains("PERFMON"), "{problem}");
    let meaning = Breakdown::of(&run.whole, &run.plan, Some(problem));
    let cycles = meaning
        .quantities
        .iter()
        .find(|q| q.name == "cycles")
        .unwrap();
    assert_eq!(cycles.value, None, "never a zero");
    assert!(
        cycles.note.as_deref().unwrap().contains(problem),
        "{cycles:?}"
    );
    // What was planned before is not counted unless it is asked for.
    let planned = engine.plan("test", BIG_JOIN).unwrap();
    let execution = engine.execute("test", &planned, &|| false).unwrap();
    assert_eq!(capture(&execution, &HOST).counted, None);
    drop(execution);
    all_memory_returns();
}

/// Every placement takes the same time, so that trials show no gain; latencies are as measured.
#[derive(Debug)]
struct SameTime;

impl Timing for SameTime {
    fn of_phase(&self, _: &Phase, decision: &PhaseDecision, measured: Measured) -> Measured {
        const NS: f64 = 1e9;
        let tried = decision.trials.iter().take(measured.trials_ns.len());
        Measured {
            time_ns: NS * decision.rest(),
            trials_ns: tried.map(|trial| NS * trial.share).collect(),
            ..measured
        }
    }
}

/// A first tier whose reads take much longer than those of the other one.
#[derive(Debug)]
struct SlowFirstTier;

impl LatencyReader for SlowFirstTier {
    fn read(&mut self) -> std::io::Result<[MemoryReads; 2]> {
        let reads = |latency_ns: f64| MemoryReads {
            requests: 1e5,
            waiting_ns: 1e5 * latency_ns,
        };
        Ok([reads(900.0), reads(300.0)])
    }
}

#[test]
fn operator_memory_leaves_a_tier_whose_counted_latency_is_longer() {
    let _turn = turn();
    let (backend, topology) = common::two_nodes();
    let tables = common::ssb(backend, &topology, 0.1);
    let engine = engine_with(&tables, Some(RoutingOptions::default()));
    // The tables of a test fit into the caches of a server.
    let mut machine = profiles::load("nus24").unwrap();
    machine.cache.llc_bytes.value = 1e6;
    let options = DriverOptions {
        host: HostCosts {
            stream_ns_per_byte: 0.0,
            working_set_bytes: 100 << 30,
        },
        settings: Settings {
            min_phase_ns: 0.0,
            expected_runs: 1e9,
            ..Settings::new(32)
        },
        ..DriverOptions::new(machine, topology, 2)
    };
    let driver = Driver::new(tables, options).unwrap();
    assert!(driver.no_latencies().unwrap().contains("tierloom.routing"));
    let driver = driver.with_timing(Box::new(SameTime));
    let driver = driver.with_latencies(Box::new(SlowFirstTier));
    assert_eq!(driver.no_latencies(), None);
    let planned = engine.plan("join", BIG_JOIN).unwrap();
    let run = || {
        let ran = driver.execute(&engine, "join", &planned, &|| false);
        to_text(&ran.unwrap().batches).unwrap()
    };
    let answer = run();
    // Machines that are busy may give a run too little time for a sample.
    let is_step = |decided: &tierloom_engine::adapt::Decided| {
        decided.action == "move" && decided.reason.contains("differ in latency")
    };
    for _ in 0..60 {
        assert_eq!(run(), answer);
        if driver.decisions().iter().any(is_step) {
            break;
        }
    }
    let decisions = driver.decisions();
    let step = decisions.iter().find(|d| is_step(d)).unwrap();
    let (_, operators) = step.layout.split_once("operators").unwrap();
    assert!(operators.contains("cxl"), "{step:?}");
    let seen = decisions.iter().filter_map(|d| d.latencies).next().unwrap();
    assert!((seen.first_ns - 900.0).abs() < 1.0, "{seen:?}");
    assert!((seen.others_ns.unwrap() - 300.0).abs() < 1.0, "{seen:?}");
    assert_eq!(replay(&driver.take_log()).unwrap().differing, []);
    all_memory_returns();
}
