//! Dimensions whose keys are texts: airports by their codes, products by their numbers.

use crate::common::Numbers;
use crate::common::both::{Both, batch};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, StringViewArray};
use std::sync::Arc;

fn code(at: u64) -> String {
    match at % 3 {
        0 => format!("{at}"),
        1 => format!("a longer code, {at}"),
        _ => format!("ä{at} "),
    }
}

/// 20,000 rows with one of 50 codes, NULL, or one that no dimension has.
fn flights(numbers: &mut Numbers) -> RecordBatch {
    let origin = (0..20_000).map(|_| match numbers.below(60) {
        at @ 0..50 => Some(code(at)),
        50..55 => Some("nowhere".into()),
        _ => None,
    });
    let origin: StringViewArray = origin.collect();
    let miles: Int64Array = (0..20_000).map(|row| Some(row % 977)).collect();
    batch(vec![
        ("origin", Arc::new(origin)),
        ("miles", Arc::new(miles)),
    ])
}

/// 55 airports, of which some fly nowhere; `again` of them twice.
fn airports(again: u64) -> RecordBatch {
    let all = || (0..55).chain(0..again);
    let codes: ArrayRef = Arc::new(all().map(|at| Some(code(at))).collect::<StringViewArray>());
    let states = all().map(|at| Some(format!("state {}", at % 7)));
    batch(vec![
        ("code", codes),
        ("state", Arc::new(states.collect::<StringArray>())),
        (
            "gates",
            Arc::new(all().map(|at| Some(at as i64 % 5)).collect::<Int64Array>()),
        ),
    ])
}

#[test]
fn facts_are_joined_with_dimensions_by_text() {
    let mut numbers = Numbers::of_this_run();
    let both = Both::new()
        .table("f", &[flights(&mut numbers)])
        .table("a", &[airports(0)])
        .table("twice", &[airports(3)]);
    for sql in [
        "select state, count(*), sum(miles), max(gates) from f join a on origin = code group by state",
        "select sum(miles * gates) from f join a on origin = code where state <> 'state 3'",
        "select gates, origin, count(*) from f join a on origin = code where miles < 500 \
         group by gates, origin",
        "select one.state, count(*) from f join a one on origin = one.code group by one.state",
    ] {
        both.same_fused(sql);
    }
    // Rows that match two of a dimension's are counted twice.
    both.same(
        "select state, count(*), sum(miles) from f join twice on origin = code group by state",
    );
    both.same("select count(*) from f join a on origin = code || ''");
    both.same("select count(*) from f join a on origin = upper(code)");
}
