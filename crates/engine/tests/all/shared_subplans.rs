//! What occurs several times in a plan runs once, and only if it returns the same rows.

use crate::common::both::{Both, batch, run};
use crate::common::{Numbers, engine_of};
use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use tierloom_engine::EngineOptions;
use tierloom_engine::load::Encoding;

const ROWS: u64 = 30_000;

fn facts(numbers: &mut Numbers) -> RecordBatch {
    let mut ints = |below: u64, nulls: u64| -> ArrayRef {
        let value = |_| (numbers.below(nulls) != 0).then(|| numbers.below(below) as i32);
        Arc::new(Int32Array::from_iter((0..ROWS).map(value)))
    };
    let columns = vec![
        ("k", ints(40, 9)),
        ("shop", ints(12, 9)),
        ("day", ints(300, u64::MAX)),
        ("amount", ints(1_000, 20)),
    ];
    batch(columns)
}

fn shops() -> RecordBatch {
    let id: ArrayRef = Arc::new(Int32Array::from_iter_values(0..12));
    let city = (0..12).map(|i| format!("city {}", i % 5));
    let city: ArrayRef = Arc::new(StringViewArray::from_iter_values(city));
    batch(vec![("id", id), ("city", city)])
}

fn both() -> Both {
    let mut numbers = Numbers::of_this_run();
    let facts = facts(&mut numbers);
    Both::new()
        .table("facts", &[facts])
        .table("shops", &[shops()])
}

/// Places in a plan that read the rows of another one.
fn readers(plan: &str) -> usize {
    plan.matches("SharedExec: rows of").count()
}

const TWICE: &str = "WITH t AS (SELECT k, shop, sum(amount) AS total FROM facts GROUP BY k, shop) \
    SELECT a.k, a.shop, a.total, b.n FROM t a, (SELECT k, max(total) AS n FROM t GROUP BY k) b WHERE a.k = b.k";

#[test]
fn aggregations_of_the_same_rows_run_once_and_others_do_not() {
    let both = both();
    let by = |condition: &str, function: &str| {
        format!("SELECT k, {function} AS v FROM facts WHERE {condition} GROUP BY k")
    };
    let union = |one: String, other: String| format!("{one} UNION ALL {other}");
    let joined = "SELECT city, sum(amount) AS v FROM facts, shops WHERE shop = id GROUP BY city";
    let one = || by("day < 100", "sum(amount)");
    let ranks = |by: &str| {
        let days = "(SELECT k, day, count(*) AS n FROM facts GROUP BY k, day) t";
        format!("SELECT k, rank() OVER (PARTITION BY k ORDER BY {by}) AS v FROM {days}")
    };
    for (sql, expected) in [
        (TWICE.to_owned(), 1),
        (union(one(), one()), 1),
        (format!("{} UNION ALL {}", union(one(), one()), one()), 2),
        (union(joined.into(), joined.into()), 1),
        (union(ranks("day"), ranks("day")), 1),
        // Of two windows over the same aggregation, only that.
        (union(ranks("n, day"), ranks("day, n")), 1),
        // Another filter, function or key; other values in every execution.
        (union(one(), by("day < 101", "sum(amount)")), 0),
        (union(one(), by("day < 100", "max(amount)")), 0),
        (
            union(
                one(),
                "SELECT shop, sum(amount) FROM facts WHERE day < 100 GROUP BY shop".into(),
            ),
            0,
        ),
        (
            union(joined.into(), joined.replace("shop = id", "k = id")),
            0,
        ),
        (
            union(
                joined.into(),
                joined.replace("WHERE", "WHERE city <> 'city 3' AND"),
            ),
            0,
        ),
    ] {
        let ran = both.same(&sql);
        assert_eq!(readers(&ran.plan), expected, "{sql}\n{}", ran.plan);
    }
    let random = by("random() < 0.5", "count(*)");
    let ran = run(&both.ours, &union(random.clone(), random));
    assert_eq!(readers(&ran.plan), 0, "{}", ran.plan);
    // A runtime filter on one of the two leaves out rows that the other needs.
    let sql = format!(
        "SELECT x.city, x.v FROM ({joined}) x, shops s WHERE x.city = s.city AND s.id = 3 UNION ALL {joined}"
    );
    let ran = both.same(&sql);
    assert_eq!(readers(&ran.plan), 0, "{}", ran.plan);
}

#[test]
fn every_execution_of_a_plan_has_rows_of_its_own() {
    let both = both();
    let planned = both.ours.plan("query", TWICE).unwrap();
    let rows = |done: &tierloom_engine::Execution| -> usize {
        done.batches.iter().map(RecordBatch::num_rows).sum()
    };
    let expected = rows(&both.ours.execute("query", &planned, &|| false).unwrap());
    assert!(expected > 300, "{expected} rows");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let done = both.ours.execute("query", &planned, &|| false).unwrap();
                        assert_eq!(rows(&done), expected);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn a_place_that_stops_early_or_never_asks_leaves_the_rows_to_the_others() {
    let both = both();
    let one = "SELECT k, sum(amount) AS v FROM facts GROUP BY k";
    for sql in [
        // Nobody asks for the rows of the probe side where the build side has none.
        format!("SELECT count(*) FROM ({one}) a, shops WHERE a.k = id AND city = 'nowhere'"),
        format!(
            "SELECT a.k FROM ({one}) a WHERE a.k IN (SELECT id FROM shops WHERE city = 'nowhere') UNION ALL SELECT k FROM ({one}) b"
        ),
        format!(
            "SELECT count(*) FROM (SELECT * FROM ({one}) a LIMIT 3) UNION ALL SELECT count(*) FROM ({one}) b"
        ),
        format!(
            "SELECT (SELECT max(v) FROM ({one}) a), b.k FROM ({one}) b WHERE b.v > (SELECT avg(v) FROM ({one}) c)"
        ),
    ] {
        both.same(&sql);
    }
}

#[test]
fn a_failure_is_the_error_of_the_statement() {
    let both = both();
    let one = "SELECT k, sum(100 / (amount - amount)) AS v FROM facts GROUP BY k";
    let ran = both.same(&format!("{one} UNION ALL {one}"));
    let error = ran.rows.unwrap_err();
    assert!(error.to_lowercase().contains("divide by zero"), "{error}");
}

#[test]
fn without_memory_for_the_rows_each_place_runs_for_itself() {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    let mut numbers = Numbers::of_this_run();
    let facts = facts(&mut numbers);
    let table = crate::common::both::placed("facts", &[facts], Encoding::Auto);
    let engine = engine_of(EngineOptions::tuned(2), &[table]);
    let planned = engine.plan("query", TWICE).unwrap();
    assert_eq!(readers(&planned.display()), 1, "{}", planned.display());
    let whole = engine.execute("query", &planned, &|| false).unwrap();
    let rows: usize = whole.batches.iter().map(RecordBatch::num_rows).sum();
    // Execute the plan itself with pools of all sizes: an answer or an error, and never other rows.
    let (mut answers, mut errors) = (0, 0);
    for bytes in [
        1 << 10,
        1 << 14,
        1 << 16,
        1 << 17,
        1 << 18,
        1 << 19,
        1 << 20,
        1 << 22,
        1 << 24,
    ] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&pool))
            .build_arc();
        let context = datafusion::execution::TaskContext::default()
            .with_session_config(engine.context().copied_config())
            .with_runtime(runtime.unwrap());
        let plan: Arc<dyn ExecutionPlan> = whole.plan.clone().reset_state().unwrap();
        let plan = datafusion::physical_plan::execution_plan::reset_plan_states(plan).unwrap();
        let found = engine
            .handle()
            .block_on(datafusion::physical_plan::collect(plan, Arc::new(context)));
        match found {
            Ok(batches) => {
                answers += 1;
                assert_eq!(
                    batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
                    rows
                );
            }
            Err(_) => errors += 1,
        }
        // After an error other tasks of the statement end a moment later.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while pool.reserved() > 0 && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(pool.reserved(), 0, "with {bytes} bytes");
    }
    assert!(
        answers > 0 && errors > 0,
        "{answers} answers, {errors} errors"
    );
}
