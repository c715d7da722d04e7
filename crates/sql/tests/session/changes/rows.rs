//! What INSERT, DELETE, UPDATE and TRUNCATE do to rows.

use super::{changed, made, refused};
use crate::{number, run, text};

const T: &str = "create table t (a int, b varchar, c double)";
const ALL: &str = "select a, b, c from t order by a, b";

#[test]
fn rows_of_values_and_queries_are_appended() {
    let mut s = made(T);
    assert_eq!(
        changed(&mut s, "insert into t values (1, 'x', 0.5), (2, null, -1)"),
        2
    );
    assert_eq!(
        changed(
            &mut s,
            "insert into t (c, a) select value * 2, value from range(3, 5)"
        ),
        2
    );
    assert_eq!(
        changed(&mut s, "insert into t select * from t where a > 100"),
        0
    );
    assert_eq!(
        changed(&mut s, "insert into t select a + 10, b, c from t"),
        4
    );
    assert_eq!(
        text(&mut s, ALL),
        "1,x,0.5\n2,,-1.0\n3,,6.0\n4,,8.0\n11,x,0.5\n12,,-1.0\n13,,6.0\n14,,8.0"
    );
    assert_eq!(
        changed(
            &mut s,
            "insert into t with w as (select 99 as v) select v, 'w', v from w"
        ),
        1
    );
    assert_eq!(
        number(&mut s, "select count(*) from t where b = 'w' and c = 99"),
        1
    );
}

#[test]
fn rows_are_deleted_by_conditions_subqueries_and_joins() {
    let mut s = made(
        "create table t as select value as a, value % 7 as b from range(200000);
         create table u as select value * 10 as a from range(100)",
    );
    assert_eq!(changed(&mut s, "delete from t where a >= 100000"), 100_000);
    assert_eq!(number(&mut s, "select sum(a) from t"), 4_999_950_000);
    assert_eq!(
        changed(&mut s, "delete from t where a in (select a from u)"),
        100
    );
    assert_eq!(
        changed(&mut s, "delete from t using u where t.a = u.a + 1"),
        100
    );
    assert_eq!(
        changed(
            &mut s,
            "delete from t as x where exists (select 1 from u where u.a + 2 = x.a)"
        ),
        100
    );
    assert_eq!(number(&mut s, "select count(*) from t"), 99_700);
    let above = number(
        &mut s,
        "select count(*) from t where a > (select avg(a) from t)",
    );
    assert_eq!(
        changed(&mut s, "delete from t where a > (select avg(a) from t)"),
        above as u64
    );
    assert_eq!(changed(&mut s, "delete from t where null"), 0);
    // Each row once, although it is found for every row of the other table.
    assert_eq!(
        changed(
            &mut s,
            "delete from t using u where t.a < 990 and u.a > t.a"
        ),
        693
    );
    let left = number(&mut s, "select count(*) from t");
    assert_eq!(left, 99_700 - above - 693);
    assert_eq!(changed(&mut s, "delete from t"), left as u64);
    assert_eq!(number(&mut s, "select count(*) from t"), 0);
    assert_eq!(changed(&mut s, "insert into t values (1, 1)"), 1);
}

#[test]
fn values_are_updated_from_what_was_there_before() {
    let mut s = made(
        "create table t as select value as a, value * 2 as b, 'w' || value as c from range(150000);
         create table u as select value as k, value * 100 as v from range(10)",
    );
    // Both sides read the old row.
    assert_eq!(
        changed(
            &mut s,
            "update t set a = b, b = a where a < 3 or a = 149999"
        ),
        4
    );
    assert_eq!(
        text(
            &mut s,
            "select a, b, c from t where b < 3 or b = 149999 order by b"
        ),
        "0,0,w0\n2,1,w1\n4,2,w2\n299998,149999,w149999"
    );
    assert_eq!(
        number(&mut s, "select sum(a + b) from t"),
        3 * 149_999 * 75_000
    );
    assert_eq!(
        changed(
            &mut s,
            "update t as x set c = 'new', b = u.v from u where x.a = u.k"
        ),
        10
    );
    assert_eq!(
        text(&mut s, "select a, b, c from t where a < 10 order by a, b"),
        "0,0,new\n2,200,new\n3,300,new\n4,400,new\n4,400,new\n5,500,new\n6,600,new\n7,700,new\n8,800,new\n9,900,new"
    );
    assert_eq!(
        changed(
            &mut s,
            "update t set b = (select max(v) from u where u.k = t.a % 10) where a > 299000"
        ),
        1
    );
    assert_eq!(
        changed(&mut s, "update t set (a, b) = (-1, -2) where a = 100"),
        1
    );
    assert_eq!(
        text(&mut s, "select a, b, c from t where a = -1"),
        "-1,-2,w100"
    );
    assert_eq!(changed(&mut s, "update t set a = a + 1"), 150_000);
    assert_eq!(number(&mut s, "select min(a) from t"), 0);
    assert_eq!(changed(&mut s, "update t set a = 1 where false"), 0);
}

#[test]
fn tables_are_emptied_and_filled_again() {
    let mut s = made(
        "create table t as select value as a, 'word' as b from range(1000);
         create table u as select 1 as a",
    );
    run(&mut s, "truncate table t, u").unwrap();
    assert_eq!(number(&mut s, "select count(*) from t"), 0);
    assert_eq!(number(&mut s, "select count(*) from u"), 0);
    run(&mut s, "truncate t").unwrap();
    run(&mut s, "insert into t values (5, 'other')").unwrap();
    assert_eq!(text(&mut s, "select * from t"), "5,other");
    run(&mut s, "truncate table if exists nothing").unwrap();
    refused(&mut s, "truncate table nothing", &["no table nothing"]);
    // All or none.
    refused(&mut s, "truncate table t, nothing", &["no table nothing"]);
}

#[test]
fn views_prepared_statements_and_cached_plans_see_the_rows_of_now() {
    let mut s = made(
        "create table t as select value as a from range(4);
         create view v as select sum(a) as s from t;
         prepare p as select sum(a) from t;
         prepare i as insert into t values ($1);
         prepare d as delete from t where a = $1",
    );
    for (change, sum) in [
        ("insert into t values (10)", 16),
        ("update t set a = 20 where a = 10", 26),
        ("delete from t where a = 3", 23),
        ("execute i(7)", 30),
        ("execute d(20)", 10),
    ] {
        run(&mut s, change).unwrap_or_else(|e| panic!("{change}: {e}"));
        for query in ["select sum(a) from t", "select s from v", "execute p"] {
            assert_eq!(number(&mut s, query), sum, "{change}: {query}");
        }
    }
}

#[test]
fn aggregations_over_joins_read_changed_tables_rightly() {
    let mut s = made(
        "create table d as select value as k, 'name' || (value % 3) as n from range(10);
         create table f as select value % 10 as k, value as v from range(30000)",
    );
    let query = "select n, count(*), sum(v) from f join d on f.k = d.k group by n order by n";
    let before = text(&mut s, query);
    run(
        &mut s,
        "update d set n = 'other' where k = 9; delete from f where v >= 20000",
    )
    .unwrap();
    run(
        &mut s,
        "insert into f select k, v + 20000 from f where v < 10000",
    )
    .unwrap();
    let after = text(&mut s, query);
    assert_ne!(before, after);
    let by_hand = "select case when k = 9 then 'other' else 'name' || (k % 3) end as n, count(*), \
                   sum(v) from f group by 1 order by 1";
    assert_eq!(after, text(&mut s, by_hand));
}

#[test]
fn columns_stay_where_they_were_placed() {
    let mut s = made(
        "create table t as select value as a, value * 3 as b from range(100000);
         set tierloom.placement.t.b = 'cxl'",
    );
    let on_cxl = "select count(distinct column_name) from tier_columns where node = 1 and \
                  column_name = 'b' and node_bytes > 0";
    for change in [
        "insert into t values (1, 2)",
        "delete from t where a = 5",
        "update t set b = 7 where a = 6",
    ] {
        run(&mut s, change).unwrap();
        assert_eq!(number(&mut s, on_cxl), 1, "{change}");
        let elsewhere = "select count(*) from tier_columns where node = 1 and column_name = 'a'";
        assert_eq!(number(&mut s, elsewhere), 0, "{change}");
    }
    let shown = text(&mut s, "show tierloom.placement.t.b");
    assert!(shown.contains("cxl"), "{shown}");
}

#[test]
fn what_cannot_be_changed_says_why() {
    let mut s = made("create table t as select 1 as a; create view v as select a from t");
    for (statement, parts) in [
        ("insert into v values (1)", &["v is a view"][..]),
        ("delete from tier_columns", &["system table"]),
        ("update nothing set a = 1", &["no table nothing; there are"]),
        ("update t set z = 1", &["No field named z", "it has a"]),
        ("update t set a = 1, a = 2", &["a is set twice"]),
        (
            "insert into t (a, a) values (1, 2)",
            &["name a: it is named twice"],
        ),
        (
            "insert into t values (1, 2)",
            &["got 2 values in row 0 but expected 1"],
        ),
        (
            "insert into t select 1, 2",
            &["2 columns of values for 1 columns"],
        ),
        (
            "insert into t values (1) on duplicate key update a = 1",
            &["ON DUPLICATE KEY is not supported"],
        ),
        ("delete from t where b = 1", &["b"]),
        ("update t set a = 1 / (a - 1)", &["ivide by zero"]),
    ] {
        refused(&mut s, statement, parts);
    }
}
