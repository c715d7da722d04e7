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

/// Counted as independent of the others, it would make each order look cheap; as a key it makes
/// hash tables larger.
#[test]
fn an_equality_that_follows_from_others_is_no_key_of_a_join() {
    let sql = "SELECT count(*), sum(t.quantity) FROM sales s, stock t, promotions p, customers c \
               WHERE s.item = t.item AND t.item = p.item AND p.item = s.item \
               AND s.customer = c.id AND c.kind = 3";
    let keys = |min_rows: usize| {
        let text = engine(min_rows).plan("query", sql).unwrap().display();
        text.lines()
            .filter_map(|line| Some(line.split_once("on=[")?.1.split_once(']')?.0))
            .map(|on| on.matches('(').count())
            .sum::<usize>()
    };
    assert_eq!((keys(usize::MAX), keys(0)), (4, 3));
    let answers = [usize::MAX, 0].map(|min_rows| run(&engine(min_rows), sql).rows.unwrap());
    assert_eq!(answers[0], answers[1]);
    assert!(!answers[0].is_empty());
}

/// Two conditions through a third table are none that follows: each is needed.
#[test]
fn equalities_of_the_same_columns_stay_where_nothing_else_asks_for_them() {
    let sql = "SELECT count(*), sum(s.quantity) FROM sales s JOIN stock t ON s.day = t.day \
               JOIN promotions p ON p.item = s.item AND p.item = t.item";
    let [as_written, ordered] =
        [usize::MAX, 0].map(|min_rows| run(&engine(min_rows), sql).rows.unwrap());
    assert_eq!(as_written, ordered);
    assert_ne!(as_written, ["0|"]);
}

/// Keys of a table with a filter are unique, so that a scan leaves out most rows before the first
/// join; rows that find many others may be far more than estimated.
#[test]
fn many_to_many_joins_come_late_though_a_filter_is_above_them() {
    let sql = "SELECT count(*) FROM sales s, stock t, customers c \
               WHERE s.item = t.item AND s.customer = c.id AND c.kind = 3";
    let (rows_as_written, answer) = most_rows(&engine(usize::MAX), sql);
    let (rows_ordered, same) = most_rows(&engine(1_000), sql);
    assert_eq!(answer, same);
    assert!(
        rows_ordered * 5 < rows_as_written,
        "{rows_ordered} and {rows_as_written}"
    );
}

const PAIRS: [&str; 6] = [
    "SELECT count(*) FROM sales s, stock t WHERE s.item = t.item AND t.quantity < 50",
    "SELECT c.town, count(*) AS n, min(c.kind), max(c.id) FROM customers c, sales s, stock t \
     WHERE c.id = s.customer AND t.item = c.kind GROUP BY c.town",
    "SELECT c.town + 1, count(*) FROM customers c, sales s, sales r \
     WHERE c.id = s.customer AND c.id = r.customer AND c.kind < 30 GROUP BY 1 HAVING count(*) > 9",
    "SELECT count(*), count(1) FROM sales s JOIN stock t ON s.item = t.item AND s.day = t.day \
     JOIN promotions p ON p.item = t.item",
    "SELECT (SELECT count(*) FROM sales s, stock t WHERE s.item = t.item AND s.shop > 99) + 1",
    "SELECT count(*) FROM sales s, stock t, customers c \
     WHERE s.item = t.item AND s.customer = c.id AND s.quantity < t.quantity",
];

/// Pairs are counted from the rows of either side; NULLs, groups, empty sides and conditions of two
/// tables must not be lost.
#[test]
fn counts_of_pairs_are_those_of_the_joined_rows() {
    let (as_written, counted) = (engine(usize::MAX), engine(0));
    for sql in PAIRS {
        let (expected, found) = (run(&as_written, sql), run(&counted, sql));
        assert_eq!(expected.rows.unwrap(), found.rows.unwrap(), "{sql}");
        let fields = |engine: &Engine| engine.plan("query", sql).unwrap().schema();
        assert_eq!(
            fields(&as_written).fields(),
            fields(&counted).fields(),
            "{sql}"
        );
    }
}

#[test]
fn pairs_are_not_joined_to_be_counted() {
    let (rows_as_written, answer) = most_rows(&engine(usize::MAX), PAIRS[1]);
    let (rows_counted, same) = most_rows(&engine(1_000), PAIRS[1]);
    assert_eq!(answer, same);
    assert!(rows_as_written > 900_000, "{rows_as_written}");
    // Those of the larger table.
    assert!(rows_counted <= STOCK as usize, "{rows_counted}");
}
