//! Joins that multiply rows, in the order of their text and in the planner's.

use crate::common::both::{batch, placed, run};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use tierloom_engine::load::Encoding;
use tierloom_engine::{Engine, EngineOptions, JoinOrderOptions};

const SALES: i64 = 6_000;
const STOCK: i64 = 8_000;

/// Sales and stock meet on 40 items, so their join has 200 times as many rows as sales.
const MULTIPLIED: &str = "\
    SELECT s.item, count(*), sum(t.quantity) FROM sales s \
    JOIN stock t ON s.item = t.item JOIN customers c ON s.customer = c.id \
    JOIN days d1 ON s.day = d1.day JOIN days d2 ON t.day = d2.day \
    LEFT JOIN promotions p ON p.item = s.item AND p.day = s.day \
    WHERE d1.week = d2.week AND t.quantity < s.quantity AND c.kind = 3 GROUP BY s.item";

fn ints(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

fn tables() -> Vec<(&'static str, RecordBatch)> {
    let table = |columns: Vec<(&str, ArrayRef)>| batch(columns);
    vec![
        (
            "sales",
            table(vec![
                ("item", ints((0..SALES).map(|i| i * 7 % 40))),
                ("customer", ints((0..SALES).map(|i| i % 500))),
                ("day", ints((0..SALES).map(|i| i * 13 % 350))),
                ("quantity", ints((0..SALES).map(|i| i % 100))),
                ("shop", ints((0..SALES).map(|i| i / 500 % 10))),
            ]),
        ),
        (
            "shops",
            table(vec![
                ("id", ints(0..10)),
                ("town", ints((0..10).map(|i| i * 3))),
                ("kind", ints((0..10).map(|i| i % 4))),
            ]),
        ),
        (
            "stock",
            table(vec![
                ("item", ints((0..STOCK).map(|i| i % 40))),
                ("day", ints((0..STOCK).map(|i| i / 40 % 350))),
                ("quantity", ints((0..STOCK).map(|i| i * 31 % 100))),
            ]),
        ),
        (
            "customers",
            table(vec![
                ("id", ints(0..500)),
                ("kind", ints((0..500).map(|i| i % 50))),
                ("town", ints((0..500).map(|i| i % 100))),
            ]),
        ),
        (
            "days",
            table(vec![
                ("day", ints(0..350)),
                ("week", ints((0..350).map(|i| i / 7))),
            ]),
        ),
        (
            "promotions",
            table(vec![("item", ints(0..40)), ("day", ints(0..40))]),
        ),
    ]
}

fn engine(min_rows: usize) -> Engine {
    let engine = Engine::new(EngineOptions {
        join_order: JoinOrderOptions { min_rows },
        // Scans would leave out rows, whatever the order of the joins, and a star join has none.
        runtime_filters: false,
        fused: false,
        ..EngineOptions::tuned(2)
    });
    let engine = engine.unwrap();
    for (name, rows) in tables() {
        let table = placed(name, &[rows], Encoding::Auto);
        engine.register(&table).unwrap();
    }
    engine
}

/// The most rows that an operator of `sql` gave, and the sorted answer.
fn most_rows(engine: &Engine, sql: &str) -> (usize, Vec<String>) {
    fn most(plan: &Arc<dyn ExecutionPlan>) -> usize {
        let own = plan.metrics().and_then(|metrics| metrics.output_rows());
        let below = plan.children().into_iter().map(most).max();
        own.max(below).unwrap_or(0)
    }
    let planned = engine.plan("query", sql).unwrap();
    let done = engine.execute("query", &planned, &|| false).unwrap();
    (most(&done.plan), run(engine, sql).rows.unwrap())
}

#[test]
fn tables_that_multiply_rows_are_joined_after_those_that_filter() {
    let as_written = engine(usize::MAX);
    let (rows_as_written, answer) = most_rows(&as_written, MULTIPLIED);
    let ordered = engine(1_000);
    let (rows_ordered, same) = most_rows(&ordered, MULTIPLIED);
    assert_eq!(answer, same);
    assert!(!answer.is_empty());
    assert!(rows_as_written > 300_000, "{rows_as_written}");
    assert!(rows_ordered < 30_000, "{rows_ordered}");
}

/// Customers in the town of a shop of one kind are few; the text begins with all sales.
#[test]
fn tables_in_a_ring_begin_with_the_few_rows_that_it_leaves_in_subqueries_too() {
    const RING: &str = "FROM sales s, shops p, customers c \
        WHERE s.shop = p.id AND s.customer = c.id AND p.town = c.town AND p.kind = 1";
    fn joined(plan: &Arc<dyn ExecutionPlan>) -> usize {
        let rows = plan.metrics().and_then(|metrics| metrics.output_rows());
        let own = match plan.name().contains("JoinExec") {
            true => rows.unwrap_or(0),
            false => 0,
        };
        own + plan.children().into_iter().map(joined).sum::<usize>()
    }
    let alone = format!("SELECT sum(s.quantity), count(*) {RING}");
    let in_subquery = format!("SELECT id FROM shops WHERE id < (SELECT sum(s.quantity) {RING})");
    for sql in [&alone, &in_subquery] {
        let found = [usize::MAX, 1_000].map(|min_rows| {
            let engine = engine(min_rows);
            let planned = engine.plan("query", sql).unwrap();
            let done = engine.execute("query", &planned, &|| false).unwrap();
            (joined(&done.plan), run(&engine, sql).rows.unwrap())
        });
        let [(as_written, answer), (ordered, same)] = found;
        assert_eq!(answer, same);
        assert!(
            ordered * 5 < as_written,
            "{ordered} rows and {as_written}: {sql}"
        );
    }
}

#[test]
fn names_and_order_of_columns_stay_as_written() {
    let sql = "SELECT * FROM sales s JOIN stock t ON s.item = t.item \
               JOIN customers c ON s.customer = c.id WHERE c.kind = 3";
    let (as_written, ordered) = (engine(usize::MAX), engine(0));
    let text = |engine: &Engine| engine.plan("query", sql).unwrap().display();
    assert_ne!(text(&as_written), text(&ordered), "the order is the same");
    assert_eq!(
        run(&as_written, sql).rows.unwrap(),
        run(&ordered, sql).rows.unwrap()
    );
    let fields = |engine: &Engine| engine.plan("query", sql).unwrap().schema();
    assert_eq!(fields(&as_written).fields(), fields(&ordered).fields());
}

/// A condition that has another value for each row must be asked as often as the text says.
#[test]
fn random_conditions_keep_joins_where_they_are() {
    let sql = "SELECT count(*) FROM sales s JOIN stock t ON s.item = t.item AND random() * s.day < t.day \
               JOIN customers c ON s.customer = c.id WHERE c.kind = 3";
    let text = |engine: &Engine| engine.plan("query", sql).unwrap().display();
    assert_eq!(text(&engine(usize::MAX)), text(&engine(0)));
}
