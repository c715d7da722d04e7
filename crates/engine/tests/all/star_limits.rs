//! A star join that gets no memory or panics.

use crate::common::both::{Both, batch, placed};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tierloom_engine::load::Encoding;
use tierloom_engine::star::StarJoinRule;
use tierloom_engine::{PlacedTable, PlacedTableProvider};

const ROWS: i32 = 600_000;
/// More combinations than always use an array, and few enough for one to pay.
const GROUPS: i32 = 70_000;

fn ints(values: impl Iterator<Item = i32>) -> ArrayRef {
    Arc::new(values.collect::<Int32Array>())
}

/// A fact table of few rows: `k` refers to 60 rows of a dimension.
fn sales() -> RecordBatch {
    batch(vec![
        ("k", ints((0..20_000).map(|i| i % 60))),
        ("v", ints((0..20_000).map(|i| i % 97 - 40))),
    ])
}

fn tables() -> Vec<Arc<PlacedTable>> {
    let fact = batch(vec![
        ("id", ints((0..ROWS).map(|i| (i * 11) % GROUPS))),
        ("k", ints((0..ROWS).map(|i| i % 50_000))),
        ("v", ints((0..ROWS).map(|i| i % 1000))),
    ]);
    let wide = |i: i32| i64::from(i) * 1_000_003;
    let d = batch(vec![
        ("key", ints(0..50_000)),
        (
            "wide",
            Arc::new((0..50_000).map(wide).collect::<Int64Array>()),
        ),
    ]);
    [("f", fact), ("d", d)]
        .map(|(name, batch)| placed(name, &[batch], Encoding::Auto))
        .to_vec()
}

/// A session with or without star joins whose memory pool has `bytes` for `threads` partitions.
fn session(
    tables: &[Arc<PlacedTable>],
    fused: bool,
    bytes: usize,
    threads: usize,
) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0);
    let mut state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(threads))
        .with_runtime_env(runtime.build_arc().unwrap())
        .with_default_features();
    if fused {
        state = state.with_physical_optimizer_rule(Arc::new(StarJoinRule));
    }
    let context = SessionContext::new_with_state(state.build());
    for table in tables {
        let provider = PlacedTableProvider::new(Arc::clone(table));
        context
            .register_table(table.name(), Arc::new(provider))
            .unwrap();
    }
    context
}

/// The rows as sorted text, or the error; and the plan after it ran.
async fn run(context: &SessionContext, sql: &str) -> (Result<Vec<String>, String>, String) {
    let frame = context.sql(sql).await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let batches: Result<Vec<RecordBatch>, _> = collect(Arc::clone(&plan), context.task_ctx()).await;
    let rows = batches.map(|batches| {
        let text = pretty_format_batches(&batches).unwrap().to_string();
        let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
        rows.sort();
        rows
    });
    let text = displayable(plan.as_ref()).indent(false).to_string();
    (rows.map_err(|e| e.to_string()), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accumulators_and_tables_are_counted_and_what_has_no_room_is_left_to_datafusion() {
    const ALL: usize = 1 << 30;
    let tables = tables();
    let (by_id, few) = (
        "select id, sum(v), count(*) from f group by id",
        "select id, sum(v), count(*) from f where v = 3 group by id",
    );
    let joined = "select wide % 100, sum(v) from f join d on k = key group by wide % 100";
    // Arrays take 1.7 MB per worker, the dimension's rows 600 KB. If DataFusion's operators have to
    // continue, there is one worker: with two of them and little memory, repartitioning in
    // DataFusion 55 can wait for ever (https://github.com/apache/datafusion/issues/24883).
    for (sql, bytes, limited) in [
        (by_id, ALL, false),
        (by_id, 1 << 20, true),
        (few, 2 << 20, false),
        (joined, ALL, false),
        (joined, 300 << 10, true),
    ] {
        let threads = if limited { 1 } else { 2 };
        let ours = session(&tables, true, bytes, threads);
        let plain = session(&tables, false, ALL, 2);
        let (expected, _) = run(&plain, sql).await;
        let (found, plan) = run(&ours, sql).await;
        assert!(plan.contains("StarExec"), "{sql}\n{plan}");
        let fell_back = plan.contains("fell back: memory is limited");
        assert_eq!(fell_back, limited, "{sql} with {bytes} bytes\n{plan}");
        match found {
            Err(error) if limited => assert!(error.contains("exhausted"), "{error}"),
            found => assert_eq!(found, expected, "{sql} with {bytes} bytes"),
        }
        let pool = &ours.runtime_env().memory_pool;
        assert!(matches!(pool.memory_limit(), MemoryLimit::Finite(_)));
        // DataFusion's tasks that a failure has stopped may still hold some memory.
        assert!(limited || pool.reserved() == 0, "{sql}");
    }
}

/// `calm(x)` returns x; its first `panics` evaluations panic.
fn calm(panics: usize) -> ScalarUDF {
    let calls = AtomicUsize::new(0);
    let calm = move |arguments: &[ColumnarValue]| {
        assert!(
            calls.fetch_add(1, Ordering::Relaxed) >= panics,
            "not calm yet"
        );
        Ok(arguments[0].clone())
    };
    let types = (vec![DataType::Int32], DataType::Int32);
    create_udf(
        "calm",
        types.0,
        types.1,
        Volatility::Immutable,
        Arc::new(calm),
    )
}

#[test]
fn a_star_join_that_breaks_down_is_done_by_datafusions_operators() {
    let d = batch(vec![
        ("id", ints(0..60)),
        ("x", ints((0..60).map(|i| i % 3))),
    ]);
    for (sql, said) in [
        (
            "select calm(x), count(*) from f join d on k = id group by 1",
            true,
        ),
        ("select sum(calm(x)) from f join d on k = id", true),
        ("select calm(v), count(*) from f group by 1", false),
        ("select count(*), sum(k) from f where calm(v) = 3", false),
    ] {
        let both = Both::new()
            .table("f", &[sales()])
            .table("d", std::slice::from_ref(&d));
        both.ours.context().register_udf(calm(1));
        both.plain.context().register_udf(calm(0));
        let ran = both.same(sql);
        let (broke_down, plan) = (
            "fell back: the star join broke down (not calm yet",
            &ran.plan,
        );
        assert_eq!(plan.contains(broke_down), said, "{sql}\n{plan}");
    }
}
