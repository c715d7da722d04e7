//! Operator memory is placed by its class, and results are the same as without routing.

mod common;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tierloom_engine::answer::to_text;
use tierloom_engine::capture::{HostCosts, capture};
use tierloom_engine::routing::{PlaceSpec, RoutingOptions, explain_analyze};
use tierloom_engine::{Engine, EngineError, EngineOptions, PlacedTable};
use tierloom_memory::router::{self, Class, PlaceTarget, PlaceUsage, TierAllocator};
use tierloom_topology::Topology;
use tierloom_workloads::ssb::queries;

#[global_allocator]
static ALLOCATOR: TierAllocator<std::alloc::System> = TierAllocator::new(std::alloc::System);

/// Joins the fact table with itself: the build side is far above the limit for large ones.
const BIG_JOIN: &str = "SELECT count(*), sum(b.lo_revenue) FROM lineorder a JOIN lineorder b \
     ON a.lo_orderkey = b.lo_orderkey AND a.lo_linenumber = b.lo_linenumber";
const MANY_GROUPS: &str = "SELECT count(*) FROM (SELECT lo_orderkey, lo_linenumber, sum(lo_revenue) FROM lineorder GROUP BY 1, 2)";

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
            let host = HostCosts {
                stream_ns_per_byte: 0.0,
                working_set_bytes: 0,
            };
            let operators: Vec<_> = capture(&execution, &host)
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
