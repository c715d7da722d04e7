//! Tables of several groups of rows: what many small changes leave.

use super::{changed, made};
use crate::{error, number, run, text};

/// The number of groups that a column of `t` is in.
const GROUPS: &str =
    "select count(*) from tier_columns where table_name = 't' and column_name = 'a'";

/// A table of three groups: 100,000 rows, 20,000 and 5.
const MADE: &str = "
    create table t as select value as a, value % 10 as k, 'w' || (value % 5) as w from range(100000);
    insert into t select value, value % 10, 'x' from range(100000, 120000);
    insert into t select value, null, null from range(120000, 120005)";

#[test]
fn appended_rows_are_groups_of_their_own_until_they_are_many() {
    let mut s = made(MADE);
    assert_eq!(number(&mut s, GROUPS), 3);
    assert_eq!(number(&mut s, "select count(*) from t"), 120_005);
    assert_eq!(
        number(&mut s, "select sum(a) from t"),
        120_004 * 120_005 / 2
    );
    assert_eq!(number(&mut s, "select count(*) from t where k is null"), 5);
    assert_eq!(
        number(
            &mut s,
            "select count(*) from t where k not in (select k from t where k < 3)"
        ),
        84_000
    );
    assert_eq!(
        number(
            &mut s,
            "select count(*) from (select * from t limit 120001) x"
        ),
        120_001
    );
    let rows = s.tables().into_iter().find(|t| t.name == "t").unwrap().rows;
    assert_eq!(rows, Some(120_005));
    // Single rows go into the last group.
    for n in 0..20 {
        assert_eq!(
            changed(&mut s, &format!("insert into t values ({n}, 0, 'one')")),
            1
        );
    }
    assert_eq!(number(&mut s, GROUPS), 3);
    assert_eq!(
        changed(&mut s, "insert into t select a, k, w from t"),
        120_025
    );
    assert_eq!(number(&mut s, GROUPS), 1);
    assert_eq!(number(&mut s, "select count(*) from t where w = 'one'"), 40);
}

#[test]
fn changes_of_one_group_leave_the_others_where_they_are() {
    let mut s = made(MADE);
    let place = "select min(a), max(a), count(*), count(k), count(distinct w) from t";
    assert_eq!(
        changed(&mut s, "delete from t where a between 119990 and 120001"),
        12
    );
    assert_eq!(text(&mut s, place), "0,120004,119993,119990,6");
    assert_eq!(
        changed(
            &mut s,
            "update t set w = 'new', k = 77 where a in (5, 100005, 120004)"
        ),
        3
    );
    assert_eq!(
        text(&mut s, "select a, k from t where w = 'new' order by a"),
        "5,77\n100005,77\n120004,77"
    );
    assert_eq!(number(&mut s, GROUPS), 3);
    assert_eq!(changed(&mut s, "delete from t where a >= 120000"), 3);
    assert_eq!(number(&mut s, GROUPS), 2);
    assert_eq!(changed(&mut s, "delete from t where a < 100000"), 100_000);
    assert_eq!(number(&mut s, GROUPS), 1);
    assert_eq!(number(&mut s, "select count(*) from t"), 19_990);
}

#[test]
fn positions_of_several_groups_are_those_of_the_whole_table() {
    let mut s = made(MADE);
    run(&mut s, "create table u as select a, k, w from t").unwrap();
    for change in [
        "update t set a = -a where a % 7 = 3",
        "delete from t where a % 11 = 5",
        "update t set w = w || '!', k = a where a % 13 < 4",
        "delete from t where k is null or w = 'x!'",
    ] {
        let other = change.replacen(" t ", " u ", 1);
        assert_eq!(changed(&mut s, change), changed(&mut s, &other), "{change}");
        for (some, others) in [("t", "u"), ("u", "t")] {
            let more = format!(
                "select count(*) from (select * from {some} except all select * from {others}) x"
            );
            assert_eq!(number(&mut s, &more), 0, "{change}");
        }
    }
}

#[test]
fn vacuum_makes_one_group_that_fused_operators_take() {
    let mut s = made(MADE);
    run(
        &mut s,
        "create table d as select value as k, 'd' || value as n from range(10)",
    )
    .unwrap();
    let query = "select n, sum(a) from t join d on t.k = d.k group by n";
    let plan = |s: &mut _| text(s, &format!("explain {query}"));
    let answer = text(&mut s, &format!("{query} order by n"));
    assert!(!plan(&mut s).contains("StarExec"), "{}", plan(&mut s));
    run(&mut s, "vacuum t").unwrap();
    assert_eq!(number(&mut s, GROUPS), 1);
    assert!(plan(&mut s).contains("StarExec"), "{}", plan(&mut s));
    assert_eq!(text(&mut s, &format!("{query} order by n")), answer);
    run(&mut s, "vacuum t").unwrap();
    assert!(error(&mut s, "vacuum nothing").contains("no table nothing"));
}

#[test]
fn keys_are_compared_with_all_groups_and_placements_move_all() {
    let mut s = made(MADE);
    run(&mut s, "alter table t add primary key (a)").unwrap();
    assert_eq!(number(&mut s, GROUPS), 1);
    run(
        &mut s,
        "insert into t select value, 1, 'y' from range(120005, 130005)",
    )
    .unwrap();
    run(&mut s, "insert into t values (130005, 1, 'z')").unwrap();
    assert_eq!(number(&mut s, GROUPS), 3);
    for row in [7, 125_000, 130_005] {
        let message = error(&mut s, &format!("insert into t values ({row}, 1, 'z')"));
        assert!(message.contains("t_pkey"), "{message}");
    }
    run(&mut s, "set tierloom.placement.t = 'cxl'").unwrap();
    let elsewhere = "select count(*) from tier_columns where table_name = 't' and node <> 1";
    assert_eq!(number(&mut s, elsewhere), 0);
}
