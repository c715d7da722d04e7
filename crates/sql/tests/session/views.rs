//! Statements are resolved when they run: views, prepared statements and cached plans follow the
//! tables that they name.

use super::{error, number, run, session, text};

const SUM: &str = "select sum(a) from v";

#[test]
fn the_same_text_reads_the_view_of_now() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a from range(4); create view v as select a from t",
    )
    .unwrap();
    assert_eq!(number(&mut session, SUM), 6);
    assert_eq!(number(&mut session, SUM), 6);
    run(
        &mut session,
        "create or replace view v as select a * 10 as a from t",
    )
    .unwrap();
    assert_eq!(number(&mut session, SUM), 60);
    run(
        &mut session,
        "drop view v; create view v as select a from t where a = 3",
    )
    .unwrap();
    assert_eq!(number(&mut session, SUM), 3);
    run(&mut session, "drop view v").unwrap();
    assert!(error(&mut session, SUM).contains("no table v"));
}

#[test]
fn views_of_views_follow_their_tables_and_say_when_they_cannot() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a from range(4);
         create view w as select a + 1 as a from t;
         create view v as select a from w where a > 1;
         prepare p as select sum(a) from v",
    )
    .unwrap();
    assert_eq!(number(&mut session, SUM), 9);
    assert_eq!(number(&mut session, "execute p"), 9);
    run(&mut session, "create or replace table t as select 100 as a").unwrap();
    assert_eq!(number(&mut session, SUM), 101);
    assert_eq!(number(&mut session, "execute p"), 101);
    run(&mut session, "create or replace view w as select a from t").unwrap();
    assert_eq!(number(&mut session, SUM), 100);
    run(&mut session, "drop table t").unwrap();
    let message = error(&mut session, SUM);
    assert!(message.contains("cannot be read any more"), "{message}");
    run(&mut session, "create table t as select 8 as a, 'x' as b").unwrap();
    assert_eq!(number(&mut session, SUM), 8);
    assert_eq!(number(&mut session, "execute p"), 8);
    run(&mut session, "create or replace table t as select 8 as b").unwrap();
    assert!(error(&mut session, SUM).contains("view"));
    run(&mut session, "drop view w; drop view v").unwrap();
}

#[test]
fn a_view_cannot_read_itself_and_other_engines_keep_views() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select 1 as a; create view v as select a from t;
         create view w as select a from v",
    )
    .unwrap();
    for wrong in [
        "create or replace view v as select a from w",
        "create or replace view v as select a from v",
    ] {
        assert!(
            error(&mut session, wrong).contains("read itself"),
            "{wrong}"
        );
    }
    run(&mut session, "set tierloom.threads = 1").unwrap();
    assert_eq!(number(&mut session, "select a from w"), 1);
    run(&mut session, "create or replace table t as select 2 as a").unwrap();
    assert_eq!(text(&mut session, "select a from w"), "2");
}

#[test]
fn a_view_with_another_name_reads_the_same_and_its_old_name_is_free() {
    let mut session = session();
    run(
        &mut session,
        "create table t as select value as a from range(4);
         create view w as select a from t;
         create view v as select a from w;
         alter view w rename to x",
    )
    .unwrap();
    assert_eq!(number(&mut session, "select sum(a) from x"), 6);
    let message = error(&mut session, SUM);
    assert!(message.contains("cannot be read any more"), "{message}");
    run(&mut session, "create view w as select a + 1 as a from x").unwrap();
    assert_eq!(number(&mut session, SUM), 10);
    // It still follows its table, and one that cannot be read can be put aside.
    run(&mut session, "create or replace table t as select 5 as a").unwrap();
    assert_eq!(number(&mut session, SUM), 6);
    run(
        &mut session,
        "drop table t; create schema s; alter table x rename to s.aside",
    )
    .unwrap();
    assert!(error(&mut session, "select * from s.aside").contains("cannot be read any more"));
    run(&mut session, "create table t as select 7 as a").unwrap();
    assert_eq!(number(&mut session, "select sum(a) from s.aside"), 7);
    for (text, part) in [
        ("alter view v rename to t", "there is a table t already"),
        ("alter view absent rename to b", "absent"),
        ("alter table v add column b int", "CREATE OR REPLACE VIEW"),
    ] {
        let message = error(&mut session, text);
        assert!(message.contains(part), "{text}: {message}");
    }
    run(&mut session, "drop view s.aside").unwrap();
}
