//! How values become those of a column.

use super::{changed, made, refused};
use crate::{number, run, text};

#[test]
fn numbers_are_rounded_and_checked_and_keep_their_digits() {
    let mut s = made(
        "create table t (i int, d decimal(20, 4), f real, u bigint unsigned);
         insert into t values (2.5, 1234567890123456.78905, 0.1, 18446744073709551615)",
    );
    assert_eq!(
        text(&mut s, "select * from t"),
        "3,1234567890123456.7891,0.1,18446744073709551615"
    );
    assert_eq!(changed(&mut s, "update t set i = -3.5, d = -0.00005"), 1);
    assert_eq!(text(&mut s, "select i, d from t"), "-4,-0.0001");
    assert_eq!(changed(&mut s, "insert into t (i) select 3.5e0"), 1);
    assert_eq!(number(&mut s, "select count(*) from t where i = 4"), 1);
    for (statement, column) in [
        ("insert into t (i) values (3000000000)", "column i"),
        ("insert into t (i) select 3000000000", "column i"),
        ("insert into t (u) values (-1)", "column u"),
        ("insert into t (f) values (1e300)", "column f"),
        ("insert into t (d) values (12345678901234567)", "column d"),
        ("update t set i = 1e20", "column i"),
    ] {
        refused(&mut s, statement, &["cannot be converted", column]);
    }
}

#[test]
fn text_becomes_what_it_reads_as_and_kinds_stay_apart() {
    let mut s = made(
        "create table t (d date, z timestamp, b boolean, v varchar, i int);
         insert into t values ('2024-02-29', '2024-02-29 01:02:03', 'true', 5, '17')",
    );
    assert_eq!(
        text(&mut s, "select * from t"),
        "2024-02-29,2024-02-29T01:02:03,true,5,17"
    );
    run(
        &mut s,
        "insert into t (d, z) values (timestamp '2024-03-01 05:00:00', date '2024-03-02')",
    )
    .unwrap();
    assert_eq!(
        text(&mut s, "select d, z from t where v is null"),
        "2024-03-01,2024-03-02T00:00:00"
    );
    for (statement, part) in [
        ("insert into t (d) values ('2023-02-29')", "column d"),
        ("insert into t (d) values (5)", "of type Date32"),
        ("insert into t (b) values (1)", "of type Boolean"),
        ("insert into t (i) values (true)", "of type Int32"),
        ("update t set i = 'x'", "column i"),
        ("update t set i = d", "of type Int32"),
    ] {
        refused(&mut s, statement, &[part]);
    }
}

#[test]
fn defaults_stand_where_nothing_is_given() {
    let mut s = made(
        "create table t (a int default 1 + 1, b varchar default 'none', c int, r double default random());
         insert into t (c) values (1), (2);
         insert into t values (5, default, default, default);
         insert into t default values",
    );
    assert_eq!(
        text(&mut s, "select a, b, c from t order by c, a"),
        "2,none,1\n2,none,2\n2,none,\n5,none,"
    );
    // Evaluated for each row.
    assert_eq!(number(&mut s, "select count(distinct r) from t"), 4);
    run(&mut s, "update t set a = default, c = default where c = 2").unwrap();
    assert_eq!(
        number(&mut s, "select count(*) from t where a = 2 and c is null"),
        2
    );
}

#[test]
fn dictionaries_take_more_words_than_their_keys_can_count() {
    let mut s = made(
        "create table t as select arrow_cast('w' || value, 'Dictionary(UInt8, Utf8)') as w from range(250);
         insert into t select 'new' || value from range(3)",
    );
    assert_eq!(number(&mut s, "select count(distinct w) from t"), 253);
    run(
        &mut s,
        "insert into t select 'more' || value from range(300)",
    )
    .unwrap();
    assert_eq!(number(&mut s, "select count(distinct w) from t"), 553);
    run(&mut s, "update t set w = 'changed' where w like 'more%'").unwrap();
    assert_eq!(number(&mut s, "select count(distinct w) from t"), 254);
    assert_eq!(changed(&mut s, "delete from t where w = 'changed'"), 300);
}

#[test]
fn lists_structs_and_bytes_can_be_inserted() {
    let mut s = made(
        "create table t as select 1 as a, make_array(1, 2) as l, {'x': 1, 'y': 'z'} as r;
         insert into t values (2, make_array(3), {'x': 4, 'y': 'w'}), (3, null, null)",
    );
    assert_eq!(
        text(&mut s, "select a, l[1], r['y'] from t order by a"),
        "1,1,z\n2,3,w\n3,,"
    );
    run(
        &mut s,
        "update t set l = make_array(9) where a = 3; delete from t where a = 1",
    )
    .unwrap();
    assert_eq!(text(&mut s, "select l from t order by a"), "[3]\n[9]");
}
