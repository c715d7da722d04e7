//! NOT NULL, keys and checks.

use super::{changed, made, refused};
use crate::{error, number, run, session, text};

const T: &str = "create table t (
    id int primary key,
    name varchar(5) not null default 'n',
    part int,
    amount int constraint positive check (amount > 0),
    constraint pair unique (name, part),
    check (part < amount))";

#[test]
fn rows_that_violate_a_rule_are_refused_with_its_name_and_nothing_changes() {
    let mut s = made(T);
    run(
        &mut s,
        "insert into t values (1, 'a', 1, 10), (2, 'b', null, null)",
    )
    .unwrap();
    for (statement, parts) in [
        (
            "insert into t values (1, 'c', 1, 10)",
            &["t_pkey", "PRIMARY KEY (id)", "(1)"][..],
        ),
        (
            "insert into t values (5, 'c', 1, 10), (5, 'd', 1, 10)",
            &["t_pkey", "(5)"],
        ),
        (
            "insert into t values (null, 'c', 1, 10)",
            &["NOT NULL", "id"],
        ),
        ("insert into t (name) values ('c')", &["NOT NULL", "id"]),
        (
            "insert into t values (3, null, 1, 10)",
            &["NOT NULL", "name"],
        ),
        (
            "insert into t values (3, 'a', 1, 10)",
            &["pair", "UNIQUE (name, part)", "(a, 1)"],
        ),
        (
            "insert into t values (3, 'c', 1, 0)",
            &["positive", "amount > 0"],
        ),
        (
            "insert into t values (3, 'c', 9, 8)",
            &["t_check", "part < amount"],
        ),
        (
            "insert into t values (3, 'toolong', 1, 2)",
            &["7 characters", "name", "takes 5"],
        ),
        ("update t set id = 1", &["t_pkey"]),
        (
            "update t set name = null where id = 1",
            &["NOT NULL", "name"],
        ),
        ("update t set name = 'a', part = 1 where id = 2", &["pair"]),
        ("update t set amount = 0 where id = 1", &["positive"]),
        ("update t set amount = 1 where id = 1", &["t_check"]),
    ] {
        refused(&mut s, statement, parts);
    }
    // Some of the rows of a statement are right: none is there.
    refused(
        &mut s,
        "insert into t values (7, 'x', 1, 10), (8, 'y', 1, -1)",
        &["positive"],
    );
}

#[test]
fn nulls_are_not_equal_and_make_no_check_false() {
    let mut s = made(T);
    run(
        &mut s,
        "insert into t values (1, 'a', null, null), (2, 'a', null, 5)",
    )
    .unwrap();
    assert_eq!(number(&mut s, "select count(*) from t"), 2);
}

#[test]
fn keys_are_checked_when_the_statement_is_over() {
    let mut s = made("create table t (id int unique, f double unique)");
    run(&mut s, "insert into t select value, value from range(1000)").unwrap();
    assert_eq!(changed(&mut s, "update t set id = id + 1"), 1000);
    assert_eq!(changed(&mut s, "delete from t where id = 500"), 1);
    assert_eq!(changed(&mut s, "insert into t values (500, -1)"), 1);
    refused(
        &mut s,
        "insert into t values (501, -2)",
        &["t_id_key", "(501)"],
    );
    // One value, as in comparisons.
    refused(&mut s, "insert into t values (-5, -0.0e0)", &["t_f_key"]);
}

#[test]
fn a_column_without_null_gives_no_wrong_answers() {
    let mut s = made("create table t (a int not null); insert into t values (1)");
    let none = "select (select a from t where a > 5) is null";
    assert_eq!(text(&mut s, none), "true");
    assert_eq!(
        number(
            &mut s,
            "select count(*) from t where (select a from t where a > 5) is null"
        ),
        1
    );
}

#[test]
fn tables_are_declared_with_a_query_and_replaced() {
    let mut s = made("create table t (a int, b varchar not null) as values (1, 'x'), (2.4, 'y')");
    assert_eq!(text(&mut s, "select * from t order by a"), "1,x\n2,y");
    refused(&mut s, "insert into t values (3, null)", &["NOT NULL"]);
    refused(
        &mut s,
        "create or replace table t (a int primary key) as values (1), (1)",
        &["t_pkey"],
    );
    refused(&mut s, "create table t (a int)", &["a table t already"]);
    run(&mut s, "create table if not exists t (a int)").unwrap();
    assert_eq!(number(&mut s, "select count(*) from t"), 2);
    run(&mut s, "create or replace table t (c int)").unwrap();
    assert_eq!(number(&mut s, "select count(c) from t"), 0);
    // The rules of the table before are gone, and so are those of a dropped one.
    run(
        &mut s,
        "create or replace table t as select 1 as a, 'x' as b; insert into t values (1, null)",
    )
    .unwrap();
    run(&mut s, "create table u (a int not null); drop table u; create table u as select 1 as a; insert into u values (null)").unwrap();
}

#[test]
fn wrong_declarations_are_refused_when_they_are_made() {
    let mut s = session();
    for (statement, part) in [
        ("create table u (a int, a int)", "two columns are named a"),
        (
            "create table u (a int primary key, b int primary key)",
            "two primary keys",
        ),
        (
            "create table u (a int, unique (b))",
            "not found in schema: b",
        ),
        ("create table u (a int check (b > 1))", "b"),
        ("create table u (a int default 'x')", "column a"),
        ("create table u (a int default b)", "b"),
        ("create table u (a int references t)", "foreign key"),
        (
            "create table u (a int generated always as identity)",
            "not known here",
        ),
        (
            "create table u (a int constraint x check (a > 1), constraint x unique (a))",
            "constraints named x",
        ),
        ("create temporary table u (a int)", "TEMPORARY"),
        ("create table u (a nonsense)", "nonsense"),
    ] {
        let message = error(&mut s, statement);
        assert!(
            message.to_lowercase().contains(&part.to_lowercase()),
            "{statement}: {message}"
        );
        assert!(
            error(&mut s, "select * from u").contains("no table u"),
            "{statement}"
        );
    }
}
