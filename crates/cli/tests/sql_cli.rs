//! `tierloom sql` run as a program: files in, rows out, and what is refused.
#![cfg(feature = "sql")]

mod common;

use common::{Ended, command, contents, end_of, refused, tierloom, wait};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const PEOPLE: &str = "id,name,born,height,member\n\
    1,\"Zoë, \"\"Z\"\"\",1999-12-31,1.75,true\n\
    2,李,2001-02-28,,false\n\
    3,,,1.5,\n";

/// A folder with `people.csv`.
fn people() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("people.csv"), PEOPLE).unwrap();
    folder
}

fn sql(folder: &Path, args: &[&str], statements: &str) -> Ended {
    let mut all = vec!["sql", "-c", statements];
    all.extend(args);
    tierloom(folder, &all)
}

/// Standard output of statements about `people.csv`.
#[track_caller]
fn rows(folder: &Path, format: &str, statements: &str) -> String {
    let args = ["--table", "people=people.csv", "--format", format];
    sql(folder, &args, statements).with_code(0).stdout
}

/// Runs a statement about `people` that must be refused with one error.
#[track_caller]
fn refused_sql(folder: &Path, statements: &str, says: &[&str]) {
    let before = contents(folder);
    let ended = sql(folder, &["--table", "people=people.csv"], statements).with_code(2);
    let error = ended.one_error();
    for part in says {
        assert!(error.contains(part), "{statements}: no {part:?} in {error}");
    }
    assert_eq!(ended.stdout, "", "{statements}");
    assert!(contents(folder) == before, "{statements}: files changed");
}

#[test]
fn nulls_dates_unicode_and_decimals_keep_their_values_in_every_text_format() {
    let folder = people();
    let query = "select *, cast(height as decimal(5,2)) d from people order by id";
    assert_eq!(
        rows(folder.path(), "csv", query),
        "id,name,born,height,member,d\n\
         1,\"Zoë, \"\"Z\"\"\",1999-12-31,1.75,true,1.75\n\
         2,李,2001-02-28,,false,\n\
         3,,,1.5,,1.50\n"
    );
    let objects = [
        r#"{"id":1,"name":"Zoë, \"Z\"","born":"1999-12-31","height":1.75,"member":true,"d":1.75}"#,
        r#"{"id":2,"name":"李","born":"2001-02-28","height":null,"member":false,"d":null}"#,
        r#"{"id":3,"name":null,"born":null,"height":1.5,"member":null,"d":1.50}"#,
    ];
    let lines: Vec<String> = rows(folder.path(), "jsonl", query)
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(lines, objects);
    assert_eq!(
        rows(folder.path(), "json", query),
        format!("[{}]\n", objects.join(","))
    );
    let table = rows(folder.path(), "table", query);
    for part in ["Zoë, \"Z\"", "李", "2001-02-28", "NULL", "1.50", "(3 rows)"] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
}

#[test]
fn every_kind_of_file_gives_back_the_rows_that_were_copied_into_it() {
    let folder = people();
    let expected = rows(folder.path(), "csv", "select * from people order by id");
    let copies = "copy people to 'p.parquet'; copy people to 'p.arrow'; \
                  copy (select * from people) to 'p.txt' (format csv, delimiter ';'); copy people to 'p.csv'";
    sql(folder.path(), &["-t", "people=people.csv"], copies).with_code(0);
    // The stream format comes from stdout.
    let stream = fs::File::create(folder.path().join("p.arrows")).unwrap();
    let args = [
        "sql",
        "-t",
        "people=people.csv",
        "--format",
        "arrow",
        "-c",
        "select * from people",
    ];
    let streamed = command(folder.path(), &args)
        .stdout(stream)
        .spawn()
        .unwrap();
    end_of(streamed).with_code(0);
    for file in ["p.parquet", "p.arrow", "p.arrows", "p.csv"] {
        let table = format!("t={file}");
        let back = sql(
            folder.path(),
            &["--table", &table, "--format", "csv"],
            "select * from t order by id",
        )
        .with_code(0);
        assert_eq!(back.stdout, expected, "{file}");
    }
    let text = fs::read_to_string(folder.path().join("p.txt")).unwrap();
    assert!(text.starts_with("id;name;born;height;member\n1;"), "{text}");
}

#[test]
fn a_folder_is_one_table_and_types_that_parts_infer_are_widened() {
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("parts");
    fs::create_dir(&parts).unwrap();
    fs::write(parts.join("a.csv"), "x,y\n1,\n2,\n").unwrap();
    fs::write(parts.join("b.csv"), "x,y\n2.5,z\n").unwrap();
    fs::write(parts.join("_SUCCESS"), "").unwrap();
    let ended = sql(
        folder.path(),
        &["-t", "t=parts", "--format", "csv"],
        "select sum(x) s, count(y) n, count(*) c from t",
    );
    assert_eq!(ended.with_code(0).stdout, "s,n,c\n5.5,1,3\n");
}

#[test]
fn files_that_do_not_belong_together_are_refused_by_name() {
    let folder = people();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("parts")).unwrap();
    fs::write(at("parts/a.csv"), "x,y\n1,2\n").unwrap();
    fs::write(at("parts/b.csv"), "x,z\n1,2\n").unwrap();
    refused(
        folder.path(),
        &["sql", "-c", "select 1", "-t", "t=parts"],
        &["parts/b.csv differs from parts/a.csv", "column 2 is z"],
    );
    fs::remove_file(at("parts/b.csv")).unwrap();
    let copy = "copy (select 1 as x, 2 as y) to 'parts/b.parquet'";
    sql(folder.path(), &[], copy).with_code(0);
    refused(
        folder.path(),
        &["sql", "-c", "select 1", "-t", "t=parts"],
        &["parts/b.parquet is Parquet", "parts/a.csv is CSV"],
    );
}

#[test]
fn files_that_are_not_what_they_should_be_are_refused_with_the_place() {
    let folder = people();
    let mut long = String::from("a,b\n");
    for i in 0..50 {
        long.push_str(&format!("{i},{i}\n"));
    }
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("value.csv", &format!("{long}x y,3\n"));
    write("fields.csv", &format!("{long}1,2,3\n"));
    write("twice.csv", "a,a\n1,2\n");
    write("empty.csv", "");
    write("not.parquet", "PAR1 but nothing more");
    write("not.arrow", "no arrow");
    write("data.bin", "?");
    fs::create_dir(folder.path().join("nothing")).unwrap();
    for (table, says) in [
        (
            "t=value.csv",
            &[
                "value.csv",
                "line 52",
                "\"x y\" in column a",
                "--csv-infer-rows 0",
            ][..],
        ),
        ("t=fields.csv", &["fields.csv", "52"]),
        ("t=twice.csv", &["twice.csv", "\"a\"", "line 1"]),
        ("t=empty.csv", &["empty.csv"]),
        ("t=not.parquet", &["not.parquet cannot be read as Parquet"]),
        ("t=not.arrow", &["not.arrow cannot be read as Arrow IPC"]),
        ("t=data.bin", &["data.bin", "expected .csv"]),
        ("t=nothing", &["nothing", "no file"]),
        (
            "t=missing.csv",
            &["cannot read missing.csv", "No such file"],
        ),
        ("t", &["expected NAME=PATH"]),
        ("2t=people.csv", &["no name for a table"]),
        ("tier_columns=people.csv", &["system table"]),
    ] {
        let args = [
            "sql",
            "-c",
            "select 1",
            "--csv-infer-rows",
            "20",
            "--table",
            table,
        ];
        refused(folder.path(), &args, says);
    }
    refused(
        folder.path(),
        &[
            "sql",
            "-c",
            "select 1",
            "-t",
            "t=people.csv",
            "-t",
            "T=people.csv",
        ],
        &["given twice"],
    );
}

#[test]
fn a_table_that_cannot_fit_is_refused_before_it_is_read() {
    let folder = people();
    let file = fs::OpenOptions::new()
        .append(true)
        .open(folder.path().join("people.csv"));
    // A sparse file: it claims four TiB and takes no space.
    if let Err(error) = file.unwrap().set_len(4 << 40) {
        return tierloom_testing::checked_nothing(format!("no file of 4 TiB can be made: {error}"));
    }
    let args = [
        "sql",
        "-c",
        "select 1",
        "--csv-infer-rows",
        "2",
        "-t",
        "t=people.csv",
    ];
    let ended = tierloom(folder.path(), &args).with_code(2);
    let error = ended.one_error();
    for part in ["table t takes about 4096.0 GiB", "are free", "--placement"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn statements_that_cannot_be_are_refused_with_line_and_column() {
    let folder = people();
    for (statements, says) in [
        ("select 1;\nselect from people where", &["-c:2:"][..]),
        ("select nam from people", &["-c:1:8", "nam"]),
        (
            "select *\nfrom peple",
            &["-c:2:6", "there is no table peple", "people"],
        ),
        ("select 'open", &["-c:1:", "nterminated"]),
        ("copy peple to 'x.csv'", &["-c:1:6", "no table peple"]),
        (
            "copy people to 'no/x.csv'",
            &["no/x.csv", "folder does not exist"],
        ),
        ("copy people to 'x.csv' (format xml)", &["xml", "parquet"]),
        ("copy people to 'x'", &["FORMAT csv"]),
        (
            "set tierloom.placment = 'dram'",
            &["tierloom.placment", "tierloom.threads"],
        ),
        ("set tierloom.placement = '0:0'", &["0:0"]),
        ("set tierloom.placement = '77'", &["node 77"]),
        (
            "set tierloom.placement.people.nam = '0'",
            &["no column nam", "born"],
        ),
        ("set tierloom.placement.peple = '0'", &["no table peple"]),
        ("set tierloom.threads = 0", &["whole number from 1"]),
        ("set tierloom.threads = many", &["\"many\""]),
        ("set tierloom.batch_rows = -1", &["\"-1\""]),
        ("set tierloom.memory.heap = 'dram'", &["heap", "join"]),
        ("set tierloom.memory.join = '77'", &["node 77"]),
        ("set tierloom.routing = perhaps", &["expected on or off"]),
        ("show tierloom.x", &["tierloom.placement"]),
        ("analyze peple", &["no table peple"]),
        ("drop table peple", &["no table peple"]),
        ("drop table tier_columns", &["system"]),
        ("create table people as select 1", &["people already"]),
        ("create table t (a int references b)", &["Foreign key"]),
        ("create table t", &["AS SELECT"]),
        (
            "update people set id = 'x'",
            &["1:1", "cannot be converted", "column id"],
        ),
        (
            "insert into people select 1",
            &["1:1", "1 columns of values"],
        ),
        (
            "create external table t stored as parquet location 'people.csv'",
            &["a CSV file, not PARQUET"],
        ),
        (
            "create external table t stored as csv location 's3://b/x.csv'",
            &["s3"],
        ),
        ("explain placement", &["expected a query"]),
    ] {
        refused_sql(folder.path(), statements, says);
    }
}

#[test]
fn a_failure_while_running_is_code_1_and_leaves_no_file_and_no_table() {
    let folder = people();
    let before = contents(folder.path());
    for statements in [
        "copy (select 1 / (id - 3) as x from people) to 'x.csv'",
        "create table t as select 1 / (id - 3) as x from people",
    ] {
        let ended = sql(folder.path(), &["-t", "people=people.csv"], statements).with_code(1);
        assert!(ended.one_error().to_lowercase().contains("divide by zero"));
        assert!(contents(folder.path()) == before, "{statements}");
    }
    // The name is free afterwards: the session continues after its first statement fails.
    let args = [
        "sql",
        "-t",
        "people=people.csv",
        "-c",
        "drop table if exists t; select count(*) as n from people",
        "--format",
        "csv",
    ];
    assert_eq!(tierloom(folder.path(), &args).with_code(0).stdout, "n\n3\n");
}

#[test]
fn tables_made_by_queries_can_be_queried_replaced_copied_and_dropped() {
    let folder = people();
    let statements = "create table t as select id, name from people where id < 3;
        create or replace table t as select id + 1 as id, name from t;
        create table if not exists t as select 1 as x;
        create view v as select name from t where id = 3;
        copy v to 'v.json';
        select * from t order by id;
        drop view v; drop table t; drop table if exists t;
        create table \"T u\" as select 1 as one;
        select * from \"T u\"";
    let ended = sql(
        folder.path(),
        &["-t", "people=people.csv", "--format", "csv"],
        statements,
    );
    let ended = ended.with_code(0);
    assert_eq!(
        ended.stdout, "id,name\n2,\"Zoë, \"\"Z\"\"\"\n3,李\n\none\n1\n",
        "{}",
        ended.stderr
    );
    let json = fs::read_to_string(folder.path().join("v.json")).unwrap();
    assert_eq!(json, "[{\"name\":\"李\"}]");
}

#[test]
fn tables_are_changed_and_what_violates_their_rules_is_code_2() {
    let folder = people();
    let args = ["-t", "people=people.csv", "--format", "csv"];
    let statements = "create table t (id int primary key, name varchar default 'nobody');
        insert into t select id, name from people;
        insert into t (id) values (7), (8);
        update t set name = upper(name) where id > 7;
        delete from t using people where t.id = people.id and people.height is null;
        alter table t add column n int default 5;
        select * from t order by id;
        truncate t;
        select count(*) as left from t";
    let ended = sql(folder.path(), &args, statements).with_code(0);
    assert_eq!(
        ended.stdout,
        "id,name,n\n1,\"Zoë, \"\"Z\"\"\",5\n3,,5\n7,nobody,5\n8,NOBODY,5\n\nleft\n0\n",
        "{}",
        ended.stderr
    );
    for said in [
        "3 rows inserted",
        "2 rows inserted",
        "1 row updated",
        "1 row deleted",
        "emptied t",
    ] {
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
    let twice = "create table t (id int primary key);\ninsert into t values (4), (4)";
    let ended = sql(folder.path(), &args, twice).with_code(2);
    let error = ended.one_error();
    for part in ["-c:2:1", "t_pkey", "(4)"] {
        assert!(error.contains(part), "no {part} in {error}");
    }
}

#[test]
fn settings_move_tables_and_are_shown() {
    let folder = people();
    let statements = "set tierloom.placement = '0'; set tierloom.placement.people.name = '0=100%';
        set tierloom.threads = 1; set tierloom.batch_rows = 1000;
        show tierloom.*;
        select count(*) as n from people;
        select distinct node from tier_columns where table_name = 'people';
        set tierloom.memory.join = '[0]:512MiB';
        show tierloom.memory.join;
        select count(*) as classes from tier_memory where class = 'join';
        explain placement select name from people where id = 1;
        explain analyze placement select name from people";
    let ended = sql(
        folder.path(),
        &["-t", "people=people.csv", "--format", "csv"],
        statements,
    );
    let out = ended.with_code(0).stdout;
    for part in [
        "tierloom.placement,0,",
        "tierloom.placement.people.name,",
        "tierloom.threads,1,",
        "tierloom.batch_rows,1000,",
        "\nn\n3\n",
        "\nnode\n0\n",
        "people.name",
        "node 0: 100.0%",
        "tierloom.memory.join,[0]:512MiB,",
        "classes\n",
        "operator,",
        "read_bytes",
    ] {
        assert!(out.contains(part), "no {part:?} in\n{out}");
    }
}

#[test]
fn a_session_counts_what_its_statements_do_and_says_what_it_cannot() {
    let folder = people();
    let statements = "create table f as select value as id, value % 100 as k, value * 0.5 as x \
            from generate_series(1, 400000);
        create table d as select value as k, value % 7 as g from generate_series(0, 99);
        set tierloom.counters = machine; set tierloom.machine = 'nus24';
        show tierloom.counters;
        select g, sum(x) from f join d on f.k = d.k group by g;
        select * from tierloom_counters;
        set tierloom.counters = on;
        explain analyze select g, sum(x) from f join d on f.k = d.k group by g;
        set tierloom.counters = off;
        select 'rows ' || count(*) as n from tierloom_counters";
    let args = ["--format", "csv"];
    let out = sql(folder.path(), &args, statements).with_code(0).stdout;
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split(',').collect()).collect();
    let value = |level: &str, quantity: &str, source: &str| -> Vec<String> {
        let here = lines.iter().filter(|line| {
            let at = line.iter().position(|field| *field == level);
            at.is_some_and(|at| {
                line.get(at + 3) == Some(&quantity) && line.get(at + 6) == Some(&source)
            })
        });
        // Level, phase, operator, quantity, value, unit, source.
        let number = |line: &Vec<&str>| {
            let at = line.iter().position(|field| *field == level).unwrap();
            line[at + 4].to_owned()
        };
        here.map(number).collect()
    };
    let sum = |values: Vec<String>| {
        values
            .iter()
            .map(|v| v.parse::<f64>().unwrap())
            .sum::<f64>()
    };
    let whole = sum(value("query", "busy_ns", "timed"));
    let operators = sum(value("operator", "busy_ns", "timed"));
    assert!(
        whole > 0.0 && (whole - operators).abs() < 1e-6 * whole,
        "{out}"
    );
    let read = sum(value("phase", "requested_read_bytes", "computed"));
    assert!(read > 400_000.0, "{out}");
    assert!(
        !value("phase", "memory_bound", "modelled").is_empty(),
        "{out}"
    );
    // Here or not: a count, or the reason and no zero.
    for cycles in value("query", "cycles", "counted") {
        match cycles.as_str() {
            "" => assert!(out.contains("not available: "), "{out}"),
            count => assert!(count.parse::<f64>().unwrap() > 0.0, "{out}"),
        }
    }
    let [latency] = &value("machine", "dram/read_latency", "counted")[..] else {
        panic!("no latency of dram in\n{out}")
    };
    match latency.as_str() {
        "" => assert!(out.contains("dram/read_latency,,ns,counted,"), "{out}"),
        ns => assert!(ns.parse::<f64>().unwrap() > 10.0, "{out}"),
    }
    for part in ["tierloom.counters,machine,", "busy=", "rows 0"] {
        assert!(out.contains(part), "no {part:?} in\n{out}");
    }
    refused_sql(
        folder.path(),
        "set tierloom.counters = sometimes",
        &["\"sometimes\"", "on, machine or off"],
    );
    refused_sql(
        folder.path(),
        "set tierloom.routing = off; set tierloom.counters = on",
        &["SET tierloom.routing = on"],
    );
}

#[test]
fn scripts_come_from_files_and_pipes_and_say_where_they_are_wrong() {
    let folder = people();
    fs::write(
        folder.path().join("s.sql"),
        "-- a script\nselect 1 as a;\n\nselect b;\n",
    )
    .unwrap();
    let ended = tierloom(folder.path(), &["sql", "-f", "s.sql", "--format", "csv"]).with_code(2);
    assert_eq!(
        ended.stdout, "a\n1\n",
        "what ran before the error was printed"
    );
    assert!(ended.one_error().contains("s.sql:4:8"), "{}", ended.stderr);

    let mut piped = command(folder.path(), &["sql", "--format", "jsonl"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = piped.stdin.take().unwrap();
    stdin.write_all(b"select 1 as a;select 'x' as b").unwrap();
    drop(stdin);
    assert_eq!(
        end_of(piped).with_code(0).stdout,
        "{\"a\":1}\n{\"b\":\"x\"}\n"
    );
    refused(
        folder.path(),
        &["sql", "-f", "missing.sql"],
        &["missing.sql"],
    );
}

#[test]
fn generated_tables_have_the_rows_of_their_scale_factor() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "--generate",
        "ssb:0.01",
        "--generate",
        "tpch:0.01",
        "--format",
        "csv",
    ];
    // Both have a table of suppliers.
    let twice = sql(folder.path(), &args, "select 1").with_code(2);
    assert!(
        twice.one_error().contains("--generate tpch:0.01"),
        "{}",
        twice.stderr
    );
    let count = "select count(*) as n from nation";
    let args = ["--generate", "tpch:0.01", "--format", "csv"];
    assert_eq!(
        sql(folder.path(), &args, count).with_code(0).stdout,
        "n\n25\n"
    );
    for (bad, says) in [
        ("ssb:x", "no scale factor"),
        ("imdb:1", "tpcds:SF"),
        ("tpch:-1", "tpch:-1"),
    ] {
        refused(
            folder.path(),
            &["sql", "-c", "select 1", "--generate", bad],
            &[says],
        );
    }
}

#[test]
fn an_output_file_holds_one_result_whole() {
    let folder = people();
    let args = [
        "-t",
        "people=people.csv",
        "--format",
        "parquet",
        "-o",
        "out.parquet",
    ];
    sql(folder.path(), &args, "select id from people").with_code(0);
    let back = sql(
        folder.path(),
        &["-t", "t=out.parquet", "--format", "csv"],
        "select sum(id) s from t",
    );
    assert_eq!(back.with_code(0).stdout, "s\n6\n");
    let two = ["sql", "-c", "select 1; select 2", "--format", "arrow"];
    refused(
        folder.path(),
        &two,
        &["-c:1:11", "second statement with rows"],
    );
    let stream = ["sql", "-c", "select 1", "--format", "parquet"];
    refused(folder.path(), &stream, &["-o FILE"]);
    let none = ["sql", "-c", "select 1", "--format", "xml"];
    refused(folder.path(), &none, &["expected table, csv"]);
}

#[test]
fn long_tables_are_cut_with_a_notice_and_counted_whole() {
    let folder = people();
    let ended = sql(
        folder.path(),
        &["--max-rows", "2", "--timing"],
        "select * from range(1000)",
    );
    let ended = ended.with_code(0);
    assert!(ended.stdout.contains("(1000 rows)"), "{}", ended.stdout);
    assert_eq!(ended.stdout.lines().count(), 7, "{}", ended.stdout);
    assert!(
        ended.stderr.contains("the first 2 of 1000 rows"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("parse+plan") && ended.stderr.contains("1000 rows"));
}

#[test]
fn an_interrupted_statement_ends_with_130_and_leaves_no_file() {
    let folder = people();
    let before = contents(folder.path());
    let copy = "copy (select a.value, sum(b.value) from range(100000) a, range(1000000) b group by a.value) to 'x.csv'";
    let mut child = command(
        folder.path(),
        &[
            "sql",
            "-c",
            &format!("select 1 as begun; {copy}"),
            "--format",
            "csv",
        ],
    )
    .spawn()
    .unwrap();
    stop_while_running(&mut child, "INT");
    assert!(contents(folder.path()) == before, "a file was left");
}

/// Sends `signal` to a shell some time after its first result, `begun`, has appeared: the shell
/// must end with the exit code of an interrupt.
fn stop_while_running(child: &mut Child, signal: &str) {
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "begun\n");
    std::thread::sleep(Duration::from_millis(300));
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {}", child.id())])
        .status();
    assert!(kill.unwrap().success());
    let status = wait(child, Duration::from_secs(60)).expect("it ends");
    assert_eq!(status.code(), Some(130));
}

#[test]
fn planning_that_takes_long_can_be_interrupted() {
    let folder = people();
    let lpad = "select 1 as begun; select length(lpad('x', 2147483647, 'y'))";
    let mut child = command(folder.path(), &["sql", "--format", "csv", "-c", lpad])
        .spawn()
        .unwrap();
    stop_while_running(&mut child, "TERM");
}

#[test]
fn deep_statements_and_panics_end_with_an_answer_or_one_error() {
    let folder = people();
    let ands = format!("select 1 as a where 1=1{}", " and 1=1".repeat(10_000));
    let unions = format!("select 1 as a{}", " union all select 1".repeat(3_000));
    let nots = format!("select {} true", "not ".repeat(200_000));
    let panics = "select avg(arrow_cast(id * 100, 'Decimal128(10, -2)')) from people";
    for statement in [ands.as_str(), &unions, &nots, panics] {
        fs::write(folder.path().join("s.sql"), statement).unwrap();
        let args = ["sql", "-f", "s.sql", "-t", "people=people.csv"];
        let ended = tierloom(folder.path(), &args);
        let shown: String = statement.chars().take(80).collect();
        match ended.code {
            Some(0) => {}
            Some(1 | 2) => drop(ended.one_error()),
            other => panic!("{shown}: {other:?}\n{}", ended.stderr),
        }
    }
}

#[test]
fn json_says_what_is_no_number_and_never_repeats_a_key() {
    let folder = people();
    let query = "select cast('NaN' as double) a, cast('-inf' as double) b, 1.5 c";
    assert_eq!(
        rows(folder.path(), "jsonl", query),
        "{\"a\":\"NaN\",\"b\":\"-Infinity\",\"c\":1.5}\n"
    );
    let args = ["--table", "people=people.csv", "--format", "json"];
    let twice = "select a.id, b.id from people a join people b on a.id = b.id";
    let ended = sql(folder.path(), &args, twice).with_code(2);
    assert!(ended.one_error().contains("named id"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn words_for_missing_values_in_csv_files_are_null_where_they_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("m.csv"),
        "k,v\n1,NA\n2,5\n3,-\n4,\n5,7\n",
    )
    .unwrap();
    let message = sql(folder.path(), &["-t", "m=m.csv"], "select sum(v) from m").with_code(2);
    for part in ["column v", "text", "CAST(v AS DOUBLE)", "--csv-null"] {
        assert!(message.one_error().contains(part), "{}", message.stderr);
    }
    let sum = "select sum(v), count(*) - count(v) from m";
    let args = [
        "-t",
        "m=m.csv",
        "--csv-null",
        "NA",
        "--csv-null",
        "-",
        "--format",
        "csv",
    ];
    let ended = sql(folder.path(), &args, sum).with_code(0);
    assert!(ended.stdout.ends_with("\n12,3\n"), "{}", ended.stdout);
    fs::write(folder.path().join("n.csv"), "v\nNA\n12\n").unwrap();
    let external = "create external table n stored as csv location 'n.csv' \
                    options ('format.null_value' 'NA'); select sum(v) as s from n";
    let ended = sql(folder.path(), &["--format", "csv"], external).with_code(0);
    assert_eq!(ended.stdout, "s\n12\n");
}

#[test]
fn explain_says_which_aggregations_are_fused_and_why_others_are_not() {
    let folder = people();
    let explained = |query: &str| {
        let statement = format!("explain {query}");
        let ended = sql(folder.path(), &["--table", "people=people.csv"], &statement).with_code(0);
        assert!(ended.stdout.contains("physical_plan"), "{}", ended.stdout);
        (ended.stdout.contains("StarExec"), ended.stderr)
    };
    let (fused, says) = explained("select sum(id) from people");
    assert!(
        fused && says.contains("star join: fused: fact=people"),
        "{says}"
    );
    let (fused, says) = explained("select sum(height * random()) from people");
    assert!(!fused && says.contains("star join: not fused: "), "{says}");
    assert!(says.contains("height"), "{says}");
}
