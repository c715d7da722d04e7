//! Schemas, and tables and views in them.

use super::{changed, made, refused};
use crate::{error, number, run, text};

const MADE: &str = "
    create schema s;
    create table t as select 1 as a;
    create table s.t (a int primary key, b varchar default 'd');
    insert into s.t values (5, 'five'), (6, default)";

#[test]
fn tables_of_one_name_in_two_schemas_are_two_tables() {
    let mut s = made(MADE);
    assert_eq!(number(&mut s, "select a from t"), 1);
    assert_eq!(number(&mut s, "select count(*) from s.t"), 2);
    assert_eq!(
        number(
            &mut s,
            "select count(*) from public.t join datafusion.s.t on true"
        ),
        2
    );
    assert_eq!(
        changed(&mut s, "update s.t set a = t.a + 1 where t.a = 6"),
        1
    );
    assert_eq!(
        changed(
            &mut s,
            "delete from s.t using public.t as p where s.t.a = p.a + 4"
        ),
        1
    );
    assert_eq!(text(&mut s, "select * from s.t"), "7,d");
    assert!(
        error(&mut s, "insert into s.t values (7)")
            .contains("got 1 values in row 0 but expected 2")
    );
    assert!(error(&mut s, "insert into s.t values (7, 'x')").contains("t_pkey"));
    let names: Vec<String> = s.tables().into_iter().map(|t| t.name).collect();
    assert!(names.contains(&"s.t".to_owned()), "{names:?}");
    run(&mut s, "set tierloom.placement.\"s.t\" = 'cxl'").unwrap();
    let on_cxl = "select count(distinct table_name) from tier_columns where node = 1";
    assert_eq!(number(&mut s, on_cxl), 1);
    run(
        &mut s,
        "alter table s.t rename to u; insert into s.u values (8, 'eight')",
    )
    .unwrap();
    assert_eq!(number(&mut s, "select count(*) from s.u"), 2);
    assert!(run(&mut s, "select * from s.t").is_err());
    run(&mut s, "drop table s.u; truncate t").unwrap();
    assert_eq!(number(&mut s, "select count(*) from t"), 0);
}

#[test]
fn views_follow_tables_of_schemas_and_other_engines_have_them_too() {
    let mut s = made(MADE);
    run(
        &mut s,
        "create view s.v as select sum(a) as x from s.t; create view v as select x from s.v",
    )
    .unwrap();
    assert_eq!(number(&mut s, "select x from v"), 11);
    run(&mut s, "insert into s.t values (100, '')").unwrap();
    assert_eq!(number(&mut s, "select x from v"), 111);
    run(&mut s, "set tierloom.threads = 1").unwrap();
    assert_eq!(number(&mut s, "select x from v"), 111);
    run(&mut s, "create table s.w as select 1 as a").unwrap();
    run(&mut s, "drop view v; drop view s.v; drop table s.w").unwrap();
}

#[test]
fn schemas_are_dropped_with_what_is_in_them_only_if_told() {
    let mut s = made(MADE);
    run(
        &mut s,
        "create view s.v as select a from s.t; create schema if not exists s",
    )
    .unwrap();
    for (statement, part) in [
        ("create schema s", "schema s already"),
        ("create schema public", "already"),
        ("drop schema s", "other tables depend on it: t, v"),
        ("drop schema public", "cannot be dropped"),
        ("drop schema nothing", "no schema nothing"),
        ("create table nothing.t (a int)", "no schema nothing"),
        ("create schema \"a.b\"", "a point"),
        ("create table \"s.x\" as select 1 as a", "another name"),
    ] {
        refused(&mut s, statement, &[part]);
    }
    run(
        &mut s,
        "drop schema if exists nothing; drop schema s cascade",
    )
    .unwrap();
    assert!(run(&mut s, "select * from s.t").is_err());
    assert_eq!(
        number(
            &mut s,
            "select count(*) from tier_columns where table_name <> 't'"
        ),
        0
    );
    // The rules of the table are gone with it.
    run(
        &mut s,
        "create schema s; create table s.t as select 5 as a; insert into s.t values (5)",
    )
    .unwrap();
    assert_eq!(number(&mut s, "select count(*) from s.t"), 2);
}
