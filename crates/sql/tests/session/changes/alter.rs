//! ALTER TABLE.

use super::{made, refused};
use crate::{error, number, run, text};

#[test]
fn columns_are_added_dropped_and_renamed() {
    let mut s = made("create table t as select value as a, 'w' || value as b from range(3)");
    run(&mut s, "alter table t add column c int default a_default()").unwrap_err();
    run(
        &mut s,
        "alter table t add column c int default 7;
         alter table t add d varchar;
         alter table t add column if not exists d int;
         alter table t rename column a to \"Key\"",
    )
    .unwrap();
    assert_eq!(
        text(&mut s, "select \"Key\", b, c, d from t order by 1"),
        "0,w0,7,\n1,w1,7,\n2,w2,7,"
    );
    run(
        &mut s,
        "insert into t (\"Key\") values (9);
         alter table t drop column b, add column e int not null default 0",
    )
    .unwrap();
    assert_eq!(text(&mut s, "select * from t where \"Key\" = 9"), "9,7,,0");
    run(
        &mut s,
        "alter table t drop column if exists b; alter table t drop d",
    )
    .unwrap();
    assert_eq!(text(&mut s, "select * from t where \"Key\" = 9"), "9,7,0");
    for (statement, part) in [
        ("alter table t add column c int", "column c already"),
        ("alter table t drop column b", "No field named b"),
        ("alter table t rename column c to e", "column e already"),
        ("alter table t add column n int not null", "NOT NULL"),
        ("alter table t add column n int default 'x'", "column n"),
        ("alter table t add column n int default 1 unique", "t_n_key"),
        (
            "alter table t add column n int, drop column nothing",
            "No field named nothing",
        ),
    ] {
        refused(&mut s, statement, &[part]);
    }
    run(&mut s, "create table one (a int)").unwrap();
    assert!(error(&mut s, "alter table one drop column a").contains("only column"));
}

#[test]
fn a_renamed_table_keeps_its_rows_and_rules_and_views_say_that_it_is_gone() {
    let mut s = made(
        "create table t (a int primary key); insert into t values (1);
         create view v as select a from t; create table u as select 1 as a",
    );
    refused(&mut s, "alter table t rename to u", &["table u already"]);
    run(&mut s, "alter table t rename to w").unwrap();
    assert_eq!(number(&mut s, "select count(*) from w"), 1);
    assert!(error(&mut s, "select * from t").contains("no table t"));
    assert!(error(&mut s, "select * from v").contains("cannot be read any more"));
    assert!(error(&mut s, "insert into w values (1)").contains("t_pkey"));
    run(&mut s, "alter table if exists t rename to x").unwrap();
    run(&mut s, "create table t as select 5 as a").unwrap();
    assert_eq!(number(&mut s, "select a from v"), 5);
}

#[test]
fn types_defaults_and_rules_of_columns_change() {
    let mut s = made(
        "create table t as select value as a, value * 1.5 as b, cast(value as varchar) as c from range(4)",
    );
    run(
        &mut s,
        "alter table t alter column b type int;
         alter table t alter column c set data type smallint;
         alter table t alter column c set default 5;
         alter table t alter column a set not null;
         alter table t add constraint small check (a < 100);
         alter table t add primary key (a)",
    )
    .unwrap();
    assert_eq!(
        text(&mut s, "select b, c from t order by a"),
        "0,0\n2,1\n3,2\n4,3"
    );
    run(&mut s, "insert into t (a) values (9)").unwrap();
    assert_eq!(
        number(&mut s, "select count(*) from t where c = 5 and b is null"),
        1
    );
    for (statement, part) in [
        ("insert into t (a) values (9)", "t_pkey"),
        ("insert into t (a) values (100)", "small"),
        ("insert into t (b) values (1)", "NOT NULL"),
        ("alter table t alter column a drop not null", "primary key"),
        ("alter table t alter column b set not null", "NOT NULL"),
        ("alter table t alter column a type boolean", "Boolean"),
        ("alter table t add constraint big check (a > 5)", "big"),
        ("alter table t add unique (z)", "not found in schema: z"),
        (
            "alter table t drop constraint nothing",
            "no constraint nothing",
        ),
    ] {
        refused(&mut s, statement, &[part]);
    }
    run(
        &mut s,
        "alter table t drop constraint small;
         alter table t drop constraint t_pkey;
         alter table t alter column a drop not null;
         alter table t alter column c drop default;
         insert into t (a) values (100), (100), (null)",
    )
    .unwrap();
    assert_eq!(number(&mut s, "select count(*) from t where c is null"), 3);
}
