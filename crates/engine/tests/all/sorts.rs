//! Sorts by packed keys give the order that DataFusion gives.

use crate::common::Numbers;
use crate::common::both::{self, Both, batch};
use crate::running_windows::rows;
use arrow::array::{ArrayRef, Float64Array, Int64Array};
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use std::sync::Arc;

/// Columns of all kinds, and expressions of them; some are text, longer than a key has room for.
const KEYS: [&str; 11] = [
    "p",
    "s",
    "o",
    "n",
    "d",
    "f",
    "t",
    "n % 2 = 0",
    "-f",
    "'a long beginning ' || s || (id % 3000)",
    "d * d * d * 1000000",
];

#[test]
fn random_orders_number_rows_alike() {
    let mut numbers = Numbers::of_this_run();
    let mut replaced = 0;
    for (count, partitions) in [(0, 3), (900, 4), (30_000, 7), (30_000, 20_000)] {
        let both = Both::new().table("rows", &[rows(count, partitions, &mut numbers)]);
        for _ in 0..20 {
            let mut order = Vec::new();
            for _ in 0..=numbers.below(3) {
                let key = numbers.one_of(&KEYS);
                let direction = numbers.one_of(&["", " DESC"]);
                let nulls = numbers.one_of(&["", " NULLS FIRST", " NULLS LAST"]);
                order.push(format!("{key}{direction}{nulls}"));
            }
            order.push("id".to_owned());
            let order = order.join(", ");
            let by = *numbers.one_of(&["", "PARTITION BY p ", "PARTITION BY s, p "]);
            let ran = both.same(&format!(
                "SELECT id, s, row_number() OVER ({by}ORDER BY {order}) AS a FROM rows"
            ));
            assert!(ran.rows.is_ok(), "{order}: {:?}", ran.rows);
            replaced += usize::from(ran.plan.contains("BigSortExec"));
        }
    }
    assert!(replaced > 40, "{replaced} of 80 plans have the operator");
}

#[test]
fn the_first_rows_of_a_large_table_are_those_of_a_full_sort() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("rows", &[rows(120_000, 9, &mut numbers)]);
    for _ in 0..30 {
        let key = numbers.one_of(&[
            "p",
            "s",
            "o DESC",
            "d NULLS FIRST",
            "f DESC NULLS LAST",
            "t",
        ]);
        let limit = numbers.below(40);
        let filter = numbers.one_of(&["", "WHERE n > 500 ", "WHERE s IS NULL "]);
        let sql = format!("SELECT * FROM rows {filter}ORDER BY {key}, n, id LIMIT {limit}");
        let ran = both.same(&sql);
        assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
        let drops = ran.plan.contains("WindowTopExec");
        assert!(drops || limit == 0, "{sql}\n{}", ran.plan);
    }
}

#[test]
fn a_limit_bounds_its_own_scan_in_its_own_execution_only() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("rows", &[rows(150_000, 9, &mut numbers)]);
    let first = |key: &str| format!("(SELECT id, f, n FROM rows ORDER BY {key}, id LIMIT 9)");
    let sums = "sum(id), count(n), min(f), max(f)";
    let (up, down) = (first("n"), first("n DESC NULLS LAST"));
    for sql in [
        format!("SELECT {sums} FROM {up} UNION ALL SELECT {sums} FROM {down}"),
        format!("SELECT {sums} FROM {up} UNION ALL SELECT {sums} FROM {up}"),
        format!("SELECT {sums} FROM {down} UNION ALL SELECT {sums} FROM rows"),
        format!("WITH a AS (SELECT {sums} FROM {up} GROUP BY id) SELECT * FROM a, a AS b"),
        format!("SELECT a.id, b.id, b.n FROM {up} AS a JOIN {down} AS b ON a.n < b.n"),
        "SELECT id FROM rows WHERE f > 0.1 ORDER BY n DESC, id LIMIT 5".to_owned(),
    ] {
        let ran = both.same(&sql);
        assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
        let is_bounded = ran.plan.contains("up to the limit of a sort by n");
        assert!(is_bounded, "{sql}\n{}", ran.plan);
        // The plan of the text is found in the cache from now on.
        let run = || both::run(&both.ours, &sql).rows.unwrap();
        let once = run();
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
            for other in others {
                assert_eq!(other.join().unwrap(), once, "{sql}");
            }
        });
    }
}

#[tokio::test]
async fn where_memory_is_limited_the_sort_that_can_spill_runs() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new().table("rows", &[rows(20_000, 9, &mut numbers)]);
    let context = both.ours.context();
    let frame = context
        .sql("SELECT * FROM rows ORDER BY o, s, id")
        .await
        .unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(64 << 20, 1.0);
    let runtime = runtime.build_arc().unwrap();
    let task = Arc::new(TaskContext::default().with_runtime(runtime));
    let batches = collect(Arc::clone(&plan), task).await.unwrap();
    let sorted: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(sorted, 20_000);
    let text =
        datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(plan.as_ref());
    let text = text.indent(false).to_string();
    assert!(
        text.contains("BigSortExec") && text.contains("left_to_datafusion=2"),
        "{text}"
    );
}

#[test]
fn zeros_of_both_signs_are_one_key_where_a_column_may_have_them() {
    let mut numbers = Numbers::of_this_run();
    let rows = 30_000;
    let mut column = |of: &mut dyn FnMut(u64) -> f64| -> ArrayRef {
        let values = (0..rows).map(|_| (numbers.below(9) > 0).then(|| of(numbers.below(400))));
        Arc::new(values.collect::<Float64Array>())
    };
    let columns = vec![
        ("amount", column(&mut |v| v as f64 / 4.0)),
        ("loss", column(&mut |v| -1.0 - v as f64 / 4.0)),
        ("change", column(&mut |v| v as f64 / 4.0 - 20.0)),
        (
            "zeros",
            column(&mut |v| [0.0, -0.0, 0.1 + 0.2][v as usize % 3]),
        ),
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..rows as i64)) as ArrayRef,
        ),
    ];
    let both = Both::new().table("t", &[batch(columns)]);
    for (key, may_have) in [
        ("amount", false),
        ("loss", false),
        ("change", true),
        ("zeros", true),
        ("amount * -1", true),
    ] {
        for order in ["", "DESC", "NULLS FIRST"] {
            let from = "(SELECT * FROM t WHERE id % 3 > 0) AS r";
            let limit = numbers.below(2_000) + 1;
            for sql in [
                format!("SELECT * FROM t ORDER BY {key} {order}, id DESC LIMIT {limit}"),
                format!("SELECT id FROM {from} ORDER BY {key} {order}, id LIMIT {limit}"),
                format!("SELECT id, rank() OVER (ORDER BY {key} {order}) FROM {from}"),
            ] {
                let ran = both.same(&sql);
                assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
                assert_eq!(ran.plan.contains(" + 0"), may_have, "{sql}\n{}", ran.plan);
            }
        }
    }
}
