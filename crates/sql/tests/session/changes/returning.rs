//! Rows that changes return, and what happens to new rows whose keys are there.

use super::{changed, made, refused};
use crate::{number, text};

const T: &str = "create table t (id int primary key, n int default 7, b varchar);
    insert into t values (1, 10, 'x'), (2, 20, null), (3, 30, 'z')";
const ALL: &str = "select * from t order by id";

#[test]
fn a_change_returns_its_rows_as_they_are_afterwards_or_were_before_it_deleted_them() {
    let mut s = made(T);
    assert_eq!(
        text(
            &mut s,
            "insert into t (id, b) values (5, 'e'), (4, 'd') returning *"
        ),
        "5,7,e\n4,7,d"
    );
    assert_eq!(
        text(
            &mut s,
            "insert into t values (6, 60, 'f') returning t.id + 1 as next, upper(b)"
        ),
        "7,F"
    );
    assert_eq!(
        text(
            &mut s,
            "update t as u set n = n + 1 where id <= 2 returning u.id, u.n, b"
        ),
        "1,11,x\n2,21,"
    );
    assert_eq!(
        text(
            &mut s,
            "delete from t using (select 3 as x) k where t.id >= k.x returning t.*"
        ),
        "3,30,z\n5,7,e\n4,7,d\n6,60,f"
    );
    assert_eq!(text(&mut s, "delete from t returning n"), "11\n21");
    for empty in [
        "delete from t returning *",
        "update t set n = 1 returning id",
        "insert into t select * from t returning *",
    ] {
        assert_eq!(text(&mut s, empty), "", "{empty}");
        assert_eq!(changed(&mut s, empty), 0, "{empty}");
    }
}

#[test]
fn rows_are_returned_across_groups_and_counted_as_changed() {
    let mut s = made(
        "create table t as select value as id, value % 3 as n from range(100000);
         insert into t select value + 100000, 9 from range(20000)",
    );
    let updated = "update t set n = 5 where id % 1000 = 0 returning id";
    assert_eq!(changed(&mut s, updated), 120);
    let ids = text(&mut s, updated);
    let mut ids: Vec<u32> = ids.lines().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    let expected: Vec<u32> = (0..120).map(|n| n * 1000).collect();
    assert_eq!(ids, expected);
    assert_eq!(
        text(
            &mut s,
            "insert into t values (-1, -1) returning n, (select count(*) from t)"
        ),
        "-1,120000"
    );
}

#[test]
fn an_error_in_what_is_returned_leaves_the_table_as_it_was() {
    let mut s = made(T);
    for (statement, parts) in [
        (
            "insert into t values (9, 0, 'q') returning 1 / n",
            &["ivide by zero"][..],
        ),
        ("delete from t returning nothing", &["nothing"]),
        ("update t set n = 0 returning 1 / n", &["ivide by zero"]),
        (
            "delete from t returning * except (id)",
            &["name the columns"],
        ),
    ] {
        refused(&mut s, statement, parts);
    }
}

#[test]
fn new_rows_whose_keys_are_there_are_left_out() {
    let mut s = made(T);
    let statement = "insert into t values (2, 0, 'no'), (4, 40, 'd'), (4, 41, 'no')
        on conflict (id) do nothing returning id, n";
    assert_eq!(text(&mut s, statement), "4,40");
    assert_eq!(
        changed(
            &mut s,
            "insert into t values (4, 1, '') on conflict do nothing"
        ),
        0
    );
    assert_eq!(text(&mut s, ALL), "1,10,x\n2,20,\n3,30,z\n4,40,d");
    // With two keys a row is only in the way of others if it was inserted itself.
    let mut s = made("create table t (a int unique, b int unique); insert into t values (1, null)");
    let statement =
        "insert into t values (1, 5), (2, 5), (3, 5), (3, 6), (null, null), (null, null)
        on conflict do nothing";
    assert_eq!(changed(&mut s, statement), 4);
    assert_eq!(
        text(&mut s, "select a, b from t where a > 1 order by a"),
        "2,5\n3,6"
    );
}

#[test]
fn new_rows_whose_keys_are_there_change_what_is_there() {
    let mut s = made(T);
    let statement = "insert into t values (2, 5, 'new'), (8, 80, 'h'), (3, 1, 'low')
        on conflict (id) do update set n = t.n + excluded.n, b = excluded.b
        where excluded.n > 1 returning *";
    assert_eq!(text(&mut s, statement), "2,25,new\n8,80,h");
    assert_eq!(text(&mut s, ALL), "1,10,x\n2,25,new\n3,30,z\n8,80,h");
    let renamed = "insert into t values (1, 0, null)
        on conflict on constraint t_pkey do update set n = default, b = coalesce(excluded.b, t.b)";
    assert_eq!(changed(&mut s, renamed), 1);
    assert_eq!(text(&mut s, "select n, b from t where id = 1"), "7,x");
    // The same from a query, for many rows at once.
    let all = "insert into t select value, 1, 'r' from range(50000)
        on conflict (id) do update set n = 100";
    assert_eq!(changed(&mut s, all), 50000);
    assert_eq!(number(&mut s, "select count(*) from t where n = 100"), 4);
    assert_eq!(number(&mut s, "select count(*) from t"), 50000);
}

#[test]
fn conflicts_that_cannot_be_settled_say_why() {
    let mut s = made(T);
    for (statement, parts) in [
        (
            "insert into t values (9, 1, 'a'), (9, 2, 'b') on conflict (id) do update set n = 0",
            &["twice", "same id"][..],
        ),
        (
            "insert into t values (1, 1, 'a') on conflict (n) do nothing",
            &["no primary or unique key (n)"],
        ),
        (
            "insert into t values (1, 1, 'a') on conflict (id) do update set n = n",
            &["n"],
        ),
        (
            "insert into t values (1, 1, 'a') on conflict (id) do update set id = 3",
            &["twice"],
        ),
        (
            "insert into t values (1, 1, 'a') on conflict (id) do update set id = null",
            &["NOT NULL"],
        ),
    ] {
        refused(&mut s, statement, parts);
    }
}
