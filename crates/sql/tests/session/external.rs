//! `CREATE EXTERNAL TABLE` with columns, patterns of files and folders named after partitions.

use super::{error, run, session, text};
use std::path::Path;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

fn csv(name: &str, columns: &str, rest: &str, root: &Path, pattern: &str) -> String {
    let location = root.join(pattern);
    format!(
        "create external table {name} {columns} stored as csv {rest} location '{}'",
        location.display()
    )
}

#[test]
fn declared_types_decide_and_not_what_the_values_look_like() {
    let root = folder(&[(
        "a.csv",
        "code,price,day,small\n007,1.005,2024-02-29,1\n1e3,2,2024-03-01,\n",
    )]);
    let mut session = session();
    let columns = "(code text, price decimal(10, 3), day date, small smallint)";
    run(&mut session, &csv("t", columns, "", root.path(), "a.csv")).unwrap();
    assert_eq!(
        text(
            &mut session,
            "select code, price, day + interval '1 day', small from t"
        ),
        "007,1.005,2024-03-01T00:00:00,1\n1e3,2.000,2024-03-02T00:00:00,".replace("T00:00:00", "")
    );
    assert_eq!(
        text(
            &mut session,
            "select arrow_typeof(small), arrow_typeof(price) from t limit 1"
        ),
        "Int16,\"Decimal128(10, 3)\""
    );
}

#[test]
fn columns_are_found_by_the_names_of_the_first_line_or_by_position() {
    let root = folder(&[
        ("swapped.csv", "B,a\n1,x\n"),
        ("other.csv", "left,right\ny,2\n"),
        ("none.csv", "z,3\n"),
    ]);
    let mut session = session();
    let columns = "(a text, b bigint)";
    for (file, rest, row) in [
        ("swapped.csv", "", "x,1"),
        ("other.csv", "", "y,2"),
        ("none.csv", "options ('format.has_header' 'false')", "z,3"),
    ] {
        let statement = csv("t", columns, "", root.path(), file) + " " + rest;
        run(
            &mut session,
            &statement.replace("external", "or replace external"),
        )
        .unwrap_or_else(|_| {
            run(&mut session, "drop table if exists t").unwrap();
            run(&mut session, &statement).unwrap()
        });
        assert_eq!(text(&mut session, "select a, b from t"), row, "{file}");
    }
}

#[test]
fn folders_named_after_partitions_become_columns() {
    let root = folder(&[
        ("year=2023/city=Bonn/1.csv", "v\n1\n2\n"),
        ("year=2024/city=__HIVE_DEFAULT_PARTITION__/1.csv", "v\n3\n"),
        ("year=2024/city=K%C3%B6ln/2.csv", "v\n4\n"),
        ("_temporary/year=1/city=x/9.csv", "v\n9\n"),
    ]);
    let mut session = session();
    let partitioned = "partitioned by (year, city)";
    let columns = "(v int, year smallint, city text)";
    run(
        &mut session,
        &csv("t", columns, partitioned, root.path(), ""),
    )
    .unwrap();
    assert_eq!(
        text(
            &mut session,
            "select v, year, coalesce(city, '?') from t order by v"
        ),
        "1,2023,Bonn\n2,2023,Bonn\n3,2024,?\n4,2024,Köln"
    );
    assert_eq!(
        text(
            &mut session,
            "select year, sum(v) from t where city is not null group by 1 order by 1"
        ),
        "2023,3\n2024,4"
    );
    // Without columns the files say what is in them, and partitions are text.
    run(&mut session, &csv("u", "", partitioned, root.path(), "")).unwrap();
    assert_eq!(
        text(
            &mut session,
            "select sum(v), min(year), arrow_typeof(min(year)) from u"
        ),
        "10,2023,Utf8View"
    );
}

#[test]
fn patterns_and_several_locations_are_one_table() {
    let root = folder(&[
        ("a/1.csv", "v\n1\n"),
        ("a/2.csv", "v\n2\n"),
        ("b/c/3.csv", "v\n4\n"),
        ("b/readme.txt", "no table"),
    ]);
    let mut session = session();
    run(&mut session, &csv("t", "", "", root.path(), "**/*.csv")).unwrap();
    assert_eq!(text(&mut session, "select sum(v), count(*) from t"), "7,3");
    let two = format!(
        "create external table u stored as csv location ('{0}/a/*.csv', '{0}/b/c')",
        root.path().display()
    );
    run(&mut session, &two).unwrap();
    assert_eq!(text(&mut session, "select sum(v) from u"), "7");
}

#[test]
fn parquet_files_give_the_declared_columns_by_name_and_null_for_others() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("p.parquet");
    let mut session = session();
    run(
        &mut session,
        &format!(
            "copy (select value as a, value * 2 as b from range(3)) to '{}'",
            file.display()
        ),
    )
    .unwrap();
    let location = file.display();
    run(
        &mut session,
        &format!("create external table t (b int, c text) stored as parquet location '{location}'"),
    )
    .unwrap();
    assert_eq!(
        text(
            &mut session,
            "select sum(b), count(c), arrow_typeof(max(b)) from t"
        ),
        "6,0,Int32"
    );
    let none = format!("create external table u (x int) stored as parquet location '{location}'");
    let message = error(&mut session, &none);
    assert!(
        message.contains("none of the declared columns x; it has a, b"),
        "{message}"
    );
}

#[test]
fn what_does_not_fit_the_declaration_is_one_error_and_no_table() {
    let root = folder(&[
        ("a.csv", "a,b\n1,x\n300,y\n"),
        ("null.csv", "a,b\n1,\n"),
        ("year=x/a.csv", "v\n1\n"),
    ]);
    let mut session = session();
    for (columns, rest, file, part) in [
        (
            "(a tinyint, b text)",
            "",
            "a.csv",
            "line 3: \"300\" in column a is no Int8",
        ),
        (
            "(a bigint, b bigint)",
            "",
            "a.csv",
            "line 2: \"x\" in column b is no Int64",
        ),
        (
            "(a int)",
            "",
            "a.csv",
            "a.csv has 2 columns, and 1 are declared",
        ),
        (
            "(a int, b text not null)",
            "",
            "null.csv",
            "column b is declared NOT NULL",
        ),
        (
            "(a int primary key, b text)",
            "",
            "a.csv",
            "a key or another constraint",
        ),
        ("(a int default 1, b text)", "", "a.csv", "a default"),
        (
            "(v int, year int)",
            "partitioned by (year)",
            "year=x",
            "column year",
        ),
        (
            "(v int, day int)",
            "partitioned by (day)",
            "year=x",
            "day=VALUE",
        ),
        ("", "partitioned by (v)", "year=x", "v=VALUE"),
        ("", "", "*.arrow", "no file matches"),
    ] {
        let statement = csv("t", columns, rest, root.path(), file);
        let message = error(&mut session, &statement);
        assert!(message.contains(part), "{statement}\n{message}");
        assert!(error(&mut session, "select 1 from t").contains("no table t"));
    }
}

#[test]
fn not_null_is_kept_for_rows_that_come_later() {
    let root = folder(&[("a.csv", "a,b\n1,x\n")]);
    let mut session = session();
    let columns = "(a int not null, b text)";
    run(&mut session, &csv("t", columns, "", root.path(), "a.csv")).unwrap();
    let message = error(&mut session, "insert into t values (null, 'y')");
    assert!(message.contains("NULL"), "{message}");
    run(&mut session, "insert into t values (2, null)").unwrap();
    assert_eq!(text(&mut session, "select sum(a), count(b) from t"), "3,1");
}
