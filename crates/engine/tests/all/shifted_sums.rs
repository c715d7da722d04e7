//! Sums of shifted values come from one sum, with the same answers and errors.

use crate::common::Numbers;
use crate::common::both::{Both, batch};
use arrow::array::{ArrayRef, Int32Array, Int64Array};
use std::sync::Arc;
use tierloom_engine::answer::to_text;

fn table() -> Both {
    let mut numbers = Numbers::of_this_run();
    let small = (0..500).map(|_| (numbers.below(7) != 0).then(|| numbers.below(1000) as i32 - 500));
    let small: ArrayRef = Arc::new(small.collect::<Int32Array>());
    let key: ArrayRef = Arc::new(Int64Array::from_iter_values((0..500).map(|row| row % 9)));
    let edge: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..500).map(|row| i64::MAX - row),
    ));
    Both::new().table(
        "t",
        &[batch(vec![("k", key), ("x", small), ("edge", edge)])],
    )
}

#[test]
fn sums_that_differ_by_a_shift_come_from_one_sum() {
    let both = table();
    for (aggregates, is_one) in [
        ("sum(x), sum(x + 1), sum(x - 2), sum(7 + x)", true),
        ("sum(x + 1), sum(x - 2), min(x), sum(x)", true),
        // Too few, of values that may leave their type, or not of the same rows.
        ("sum(x), sum(x + 1)", false),
        ("sum(x), sum(x + 1), sum(x + 3000000000)", false),
        ("sum(x), sum(x + 1), sum(x + 2) FILTER (WHERE k = 1)", false),
    ] {
        for (key, from) in [
            ("", "t"),
            ("k, ", "t GROUP BY k"),
            ("k, ", "t GROUP BY k HAVING sum(x + 1) > 0"),
            ("", "t WHERE k > 10"),
        ] {
            let distinct = format!("SELECT {key}{aggregates}, sum(DISTINCT x + 2) FROM {from}");
            assert!(both.same(&distinct).rows.is_ok());
            let sql = format!("SELECT {key}{aggregates} FROM {from}");
            let ran = both.same(&sql);
            assert!(ran.rows.is_ok(), "{sql}: {:?}", ran.rows);
            let mut operators = ran.plan.lines();
            let lowest = operators.rfind(|line| line.contains("aggr")).unwrap();
            let computes_one = !lowest.contains("Int64(1)");
            assert_eq!(computes_one, is_one, "{sql}\n{}", ran.plan);
        }
    }
}

#[test]
fn a_count_that_is_asked_for_is_counted_once() {
    let both = table();
    // Plain DataFusion does the same and makes two columns of one name.
    let rows = |aggregates: &str| {
        let planned = both
            .ours
            .plan("query", &format!("SELECT {aggregates} FROM t"));
        let done = both.ours.execute("query", &planned.unwrap(), &|| false);
        to_text(&done.unwrap().batches).unwrap()
    };
    let one = rows("sum(x) + count(x), sum(x) - 2 * count(x), count(x), sum(x)");
    let shifted = rows("sum(x + 1), sum(x - 2), count(x), sum(x)");
    let numbers = |text: &str| text.lines().nth(1).map(|line| line.replace(' ', ""));
    assert!(numbers(&one).is_some());
    assert_eq!(numbers(&one), numbers(&shifted));
}

#[test]
fn a_sum_that_leaves_its_type_is_an_error_with_others_too() {
    let both = table();
    for sql in [
        "SELECT sum(edge), sum(edge + 1), sum(edge - 1) FROM t",
        "SELECT sum(x), sum(x + 1), sum(edge + 2), sum(x + 3) FROM t",
    ] {
        let planned = both.ours.plan("query", sql).unwrap();
        assert!(
            both.ours.execute("query", &planned, &|| false).is_err(),
            "{sql}"
        );
    }
}
