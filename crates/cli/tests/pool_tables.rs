//! Tables in a pool, through the program: they are there after a restart, equal and planned alike,
//! and are loaded again where they must be.
#![cfg(feature = "sql")]

mod common;

use common::{Ended, command, contents, end_of, tierloom};
use serde_json::Value;
use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Pseudorandom numbers from a seed that differs in every run and is printed.
struct Numbers(u64);

impl Numbers {
    fn new() -> Self {
        let now = std::time::SystemTime::now();
        let seed = now.duration_since(std::time::UNIX_EPOCH).unwrap();
        println!("seed {}", seed.as_nanos() as u64);
        Numbers(seed.as_nanos() as u64)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ self.0 >> 31) % bound
    }
}

/// Orders of customers, as CSV.
fn orders(numbers: &mut Numbers, rows: usize) -> String {
    let mut text = "id,customer,day,price,state,comment,paid\n".to_owned();
    for id in 0..rows {
        let customer = numbers.below(1000);
        let day = 1 + numbers.below(28);
        let price = numbers.below(1 << 40) as f64 / 128.0;
        let state = ["open", "sent", "", "done"][numbers.below(4) as usize];
        let comment = numbers.below(1 << 60);
        let paid = numbers.below(2) == 0;
        let row = format!("{id},{customer},2026-02-{day:02},{price},{state},no. {comment},{paid}");
        writeln!(text, "{row}").unwrap();
    }
    text
}

/// A folder with `orders.csv`, `orders.parquet`, `names.csv` and an empty `a.pool`.
fn shop(numbers: &mut Numbers, rows: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("orders.csv"), orders(numbers, rows)).unwrap();
    let names: String = (0..1000).map(|i| format!("{i},customer {i}\n")).collect();
    fs::write(at.join("names.csv"), format!("customer,name\n{names}")).unwrap();
    let copy = "copy orders to 'orders.parquet'";
    tierloom(at, &["sql", "-t", "orders=orders.csv", "-c", copy]).with_code(0);
    tierloom(at, &["pool", "create", "a.pool", "--size", "64MiB"]).with_code(0);
    folder
}

fn sql(folder: &Path, args: &[&str], statements: &str) -> Ended {
    let mut all = vec!["sql", "--format", "csv", "-c", statements];
    all.extend(args);
    tierloom(folder, &all)
}

#[track_caller]
fn rows(folder: &Path, args: &[&str], statements: &str) -> String {
    sql(folder, args, statements).with_code(0).stdout
}

fn status(folder: &Path) -> Value {
    let ended = tierloom(folder, &["pool", "status", "a.pool", "--json"]).with_code(0);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Names, versions and states of the regions.
fn regions(folder: &Path) -> Vec<(String, u64, String)> {
    let status = status(folder);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |r: &Value| {
        (
            text(&r["name"]),
            r["version"].as_u64().unwrap(),
            text(&r["state"]),
        )
    };
    status["regions"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect()
}

const LOAD: [&str; 7] = [
    "pool",
    "load",
    "a.pool",
    "-t",
    "orders=orders.parquet",
    "-t",
    "names=names.csv",
];

const QUERIES: [&str; 4] = [
    "select * from orders order by id",
    "select state, count(*), sum(price), min(day), max(comment) from orders group by state order by 1",
    "select name, count(*) c from orders join names using (customer) where day > '2026-02-14' \
     group by name order by c desc, name limit 20",
    "select count(*) from orders where comment like '%7%' and paid",
];

#[test]
fn tables_are_there_after_a_restart_with_equal_rows_and_equal_plans() {
    let mut numbers = Numbers::new();
    let folder = shop(&mut numbers, 5000);
    let at = folder.path();
    let files = ["-t", "orders=orders.parquet", "-t", "names=names.csv"];
    let would = tierloom(at, &[&LOAD[..], &["--dry-run"]].concat()).with_code(0);
    assert!(
        would.stdout.contains("would load table orders from"),
        "{}",
        would.stdout
    );
    assert_eq!(regions(at), []);
    let loaded = tierloom(at, &[&LOAD[..], &["--json"]].concat()).with_code(0);
    assert!(
        loaded.stderr.contains("no table of this name"),
        "{}",
        loaded.stderr
    );
    let pool: Value = serde_json::from_str(&loaded.stdout).unwrap();
    assert_eq!(pool["regions"][0]["readers"], 0);
    for verify in ["first-use", "all", "manifest"] {
        for query in QUERIES {
            let pooled = ["--pool", "a.pool", "--verify", verify];
            assert_eq!(rows(at, &pooled, query), rows(at, &files, query), "{query}");
            let explain = format!("explain {query}");
            assert_eq!(
                rows(at, &pooled, &explain),
                rows(at, &files, &explain),
                "{query}"
            );
        }
    }
    // The files are as they were: attached, not loaded.
    let both = [&files[..], &["--pool", "a.pool"]].concat();
    let ended = sql(at, &both, QUERIES[1]).with_code(0);
    assert!(
        ended.stderr.contains("table orders: 5000 rows"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        ended.stderr.matches("attached").count(),
        2,
        "{}",
        ended.stderr
    );
    // The files may go: the tables stay.
    fs::remove_file(at.join("orders.parquet")).unwrap();
    fs::remove_file(at.join("names.csv")).unwrap();
    let count = rows(at, &["--pool", "a.pool"], "select count(*) from orders");
    assert_eq!(count, "count(*)\n5000\n");
    tierloom(at, &["pool", "check", "a.pool", "--data"]).with_code(0);
}

#[test]
fn what_lies_where_and_was_verified_is_shown_and_a_placement_is_refused() {
    let mut numbers = Numbers::new();
    let folder = shop(&mut numbers, 3000);
    let at = folder.path();
    tierloom(at, &LOAD).with_code(0);
    let pool = ["--pool", "a.pool"];
    let script = "explain placement select sum(price) from orders; \
                  select sum(price) from orders; \
                  explain placement select sum(price) from orders; \
                  select name, state, rows, damaged, chunks = verified_chunks v, readers, source \
                  from tier_pool order by name";
    let shown = rows(at, &pool, script);
    for part in [
        "pool /",
        "a.pool",
        "member 0, 1 of 1 chunks verified",
        "orders,sealed,3000,false,true,1,/",
        "names,sealed,1000,false,",
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let empty = rows(at, &[], "select count(*) from tier_pool");
    assert_eq!(empty, "count(*)\n0\n");
    let refused = sql(at, &pool, "set tierloom.placement.orders = 'dram'").with_code(2);
    assert!(
        refused.one_error().contains("is in a pool"),
        "{}",
        refused.stderr
    );
    // A policy for all tables leaves them where they are.
    rows(
        at,
        &pool,
        "set tierloom.placement = '0'; select sum(price) from orders",
    );
    // What a session makes of them is its own.
    let own = "create table few as select * from orders where id < 10; drop table names; \
               create or replace table orders as select 1 as one; select * from orders";
    assert!(rows(at, &pool, own).ends_with("one\n1\n"));
    let left = rows(
        at,
        &pool,
        "select count(*) from orders join names using (customer)",
    );
    assert_eq!(left, "count(*)\n3000\n");
    assert!(sql(at, &["--verify", "all"], "select 1").code == Some(2));
}

#[test]
fn changed_files_and_options_are_loaded_again_and_the_reason_is_given() {
    let mut numbers = Numbers::new();
    let folder = shop(&mut numbers, 1000);
    let at = folder.path();
    let args = ["--pool", "a.pool", "-t", "orders=orders.csv"];
    let said = |args: &[&str], count: &str| {
        let ended = sql(at, args, "select count(*) from orders").with_code(0);
        assert_eq!(ended.stdout, format!("count(*)\n{count}\n"));
        ended.stderr
    };
    for (says, version) in [("no table of this name", 1), ("attached", 1)] {
        let told = said(&args, "1000");
        assert!(told.contains(says), "{says} in {told}");
        assert_eq!(regions(at), [("orders".into(), version, "sealed".into())]);
    }
    // So many rows that no draw makes the file as long as it was.
    fs::write(at.join("orders.csv"), orders(&mut numbers, 1500)).unwrap();
    let told = said(&args, "1500");
    assert!(
        told.contains("orders.csv has changed since then (size)"),
        "{told}"
    );
    let told = said(&[&args[..], &["--csv-null", "open"]].concat(), "1500");
    assert!(told.contains("other options for CSV"), "{told}");
    let told = said(&["--pool", "a.pool", "-t", "orders=orders.parquet"], "1000");
    assert!(told.contains("was loaded from /"), "{told}");
    assert_eq!(regions(at), [("orders".into(), 4, "sealed".into())]);
    // A file that cannot be read changes nothing, nor does one of two.
    fs::write(at.join("broken.parquet"), "PAR1 no more").unwrap();
    let before = (regions(at), status(at)["space"].clone());
    let both = ["-t", "orders=orders.csv", "-t", "broken=broken.parquet"];
    let load = [&["pool", "load", "a.pool"], &both[..]].concat();
    let failed = tierloom(at, &load).with_code(2);
    assert!(
        failed.one_error().contains("broken.parquet"),
        "{}",
        failed.stderr
    );
    assert_eq!((regions(at), status(at)["space"].clone()), before);
    let names = ["--pool", "a.pool", "-t", "tier_pool=orders.csv"];
    assert!(
        sql(at, &names, "select 1")
            .with_code(2)
            .stderr
            .contains("system table")
    );
}

#[test]
fn a_full_pool_a_foreign_file_and_a_pool_in_use_are_one_error_each() {
    let mut numbers = Numbers::new();
    let folder = shop(&mut numbers, 1000);
    let at = folder.path();
    tierloom(at, &["pool", "create", "small.pool", "--size", "8MiB"]).with_code(0);
    fs::write(at.join("large.csv"), orders(&mut numbers, 200_000)).unwrap();
    let full = ["pool", "load", "small.pool", "-t", "orders=large.csv"];
    let error = tierloom(at, &full).with_code(1);
    assert!(
        error.one_error().contains("grow the pool or drop"),
        "{}",
        error.stderr
    );
    let before = contents(at);
    for (pool, code, says) in [
        ("orders.parquet", 2, "is no pool"),
        ("missing.pool", 2, "cannot find"),
        (".", 2, "a directory"),
    ] {
        let ended = sql(at, &["--pool", pool], "select 1").with_code(code);
        assert!(ended.one_error().contains(says), "{}", ended.stderr);
    }
    assert!(contents(at) == before, "files changed");
    let options = tierloom_pool::OpenOptions::default();
    let open = options.open(&at.join("a.pool")).unwrap();
    let second = sql(at, &["--pool", "a.pool"], "select 1").with_code(1);
    assert!(
        second.one_error().contains("open in another process"),
        "{}",
        second.stderr
    );
    drop(open);
    rows(at, &["--pool", "a.pool"], "select 1");
}

/// Changes the last of these bytes in the pool's file: views repeat the first ones.
fn damage(path: &Path, bytes: &[u8]) {
    let whole = fs::read(path).unwrap();
    let at = whole.windows(bytes.len()).position(|part| part == bytes);
    let last = bytes.len() - 1;
    let at = (at.expect("the pool has the text") + last) as u64;
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&[bytes[last] ^ 1], at).unwrap();
}

#[test]
fn a_damaged_table_is_one_error_and_is_loaded_again_where_its_files_are_unchanged() {
    let mut numbers = Numbers::new();
    let folder = shop(&mut numbers, 2000);
    let at = folder.path();
    tierloom(at, &LOAD).with_code(0);
    let pool = ["--pool", "a.pool"];
    let query = "select count(*) from orders where comment like '%7%'";
    let expected = rows(at, &pool, query);
    let text = rows(at, &pool, "select comment from orders where id = 1500");
    let comment = text.lines().nth(1).unwrap().as_bytes().to_vec();
    damage(&at.join("a.pool"), &comment);
    let checked = tierloom(at, &["pool", "check", "a.pool", "--data"]).with_code(1);
    assert!(
        checked.stdout.contains("is damaged in bytes"),
        "{}",
        checked.stdout
    );
    // Known to be damaged: loaded again before the first statement.
    let ended = sql(at, &pool, query).with_code(0);
    assert!(
        ended.stderr.contains("its data in the pool is damaged"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, expected);
    // Not known yet: the statement fails, and the next one can be answered.
    damage(&at.join("a.pool"), &comment);
    let ended = sql(at, &pool, query).with_code(1);
    let error = ended.one_error();
    for part in [
        "table `orders`",
        "is damaged in bytes",
        "orders was loaded again from /",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert_eq!(ended.stdout, "");
    let ended = sql(at, &pool, query).with_code(0);
    assert_eq!(
        (ended.stdout, ended.stderr.contains("damaged")),
        (expected, false)
    );
    // Without its file: an error each time, and what is whole can be used.
    fs::write(at.join("orders.parquet"), "PAR1").unwrap();
    damage(&at.join("a.pool"), &comment);
    let ended = sql(at, &pool, query).with_code(1);
    assert!(
        ended.one_error().contains("cannot be loaded again"),
        "{}",
        ended.stderr
    );
    let ended = sql(at, &pool, "select count(*) from names").with_code(0);
    assert!(
        ended.stderr.contains("cannot be relied on"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, "count(*)\n1000\n");
    // A fault that is not looked for is not found.
    let believed = [&pool[..], &["--verify", "manifest"]].concat();
    sql(at, &believed, query).with_code(0);
}

#[test]
fn a_load_that_is_killed_leaves_the_old_tables_or_the_new_ones() {
    let mut numbers = Numbers::new();
    let folder = shop(&mut numbers, 1000);
    let at = folder.path();
    let load = [
        "pool",
        "load",
        "a.pool",
        "-t",
        "orders=orders.csv",
        "-t",
        "again=orders.csv",
    ];
    let start = std::time::Instant::now();
    tierloom(at, &load).with_code(0);
    let whole = start.elapsed();
    let mut before = 1000;
    for round in 0..12 {
        let more = 1001 + numbers.below(20_000) as usize;
        fs::write(at.join("orders.csv"), orders(&mut numbers, more)).unwrap();
        let mut child = command(at, &load).spawn().unwrap();
        let part = numbers.below(1500) as f64 / 1000.0;
        std::thread::sleep(whole.mul_f64(part));
        let _ = child.kill();
        let ended = end_of(child);
        let counts = rows(
            at,
            &["--pool", "a.pool"],
            "select (select count(*) from orders) = (select count(*) from again) as same, \
             (select count(*) from orders) as n",
        );
        let now = [before, more]
            .into_iter()
            .find(|n| counts == format!("same,n\ntrue,{n}\n"));
        before = now.unwrap_or_else(|| panic!("round {round}: {before} or {more}: {counts}"));
        if ended.code == Some(0) {
            assert_eq!(before, more, "round {round}: acknowledged");
        }
        let space = &status(at)["space"];
        let sum = ["free_bytes", "used_bytes", "quarantined_bytes"].map(|n| space[n].as_u64());
        let sum: Option<u64> = sum.into_iter().sum();
        assert_eq!(sum, space["capacity_bytes"].as_u64());
        assert_eq!(regions(at).len(), 2, "round {round}: nothing is left over");
    }
    tierloom(at, &["pool", "check", "a.pool", "--data"]).with_code(0);
}

#[test]
fn restarts_are_measured_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tierloom(at, &["pool", "create", "a.pool", "--size", "128MiB"]).with_code(0);
    let run = [
        "run",
        "tpch",
        "--sf",
        "0.01",
        "--queries",
        "q1,q6,q13",
        "--pool",
        "a.pool",
        "--files",
        "data",
        "--restart",
        "2",
    ];
    let dry = tierloom(at, &[&run[..], &["--dry-run"]].concat()).with_code(0);
    assert!(dry.stdout.contains("would generate"), "{}", dry.stdout);
    assert!(!at.join("data").exists());
    let ended = tierloom(at, &[&run[..], &["--records", "r.jsonl"]].concat()).with_code(0);
    let first = ended.stdout.lines().next().unwrap();
    assert!(first.contains("gives the first answer"), "{}", ended.stdout);
    let lines = fs::read_to_string(at.join("r.jsonl")).unwrap();
    let records: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let ways: Vec<(&str, &str)> = records
        .iter()
        .map(|r| (r["way"].as_str().unwrap(), r["after"].as_str().unwrap()))
        .collect();
    assert_eq!(
        ways,
        [
            ("on demand", "exit"),
            ("loaded", "exit"),
            ("attached", "exit"),
            ("attached", "kill"),
            ("verified", "exit")
        ]
    );
    for record in &records {
        let median = |name: &str| record[name]["median"].as_f64();
        let values = record["first_answer_ms"]["values"].as_array().unwrap();
        assert_eq!(values.len(), 2);
        let order = ["ready_ms", "first_answer_ms", "last_answer_ms"].map(|n| median(n).unwrap());
        assert!(order.is_sorted() && order[0] > 0.0, "{record}");
        assert_eq!(median("load_ms").is_some(), record["way"] == "loaded");
        assert_eq!(median("verify_ms").is_some(), record["way"] == "verified");
    }
    // A report of them can be made, and says the same first.
    tierloom(at, &["report", "r.jsonl", "-o", "r.html"]).with_code(0);
    let html = fs::read_to_string(at.join("r.html")).unwrap();
    assert!(html.contains("gives the first answer"));
}

#[test]
fn restarts_without_a_pool_or_with_options_of_no_use_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let left = |args: &[&str]| tierloom(at, args).with_code(2).stderr;
    assert!(left(&["run", "tpch", "--restart", "2"]).contains("--pool"));
    for option in [
        ["--placement", "dram"],
        ["--repeat", "3"],
        ["--tiers", "dram=0"],
    ] {
        let command = ["run", "tpch", "--pool", "no.pool", "--restart", "1"];
        assert!(left(&[&command[..], &option].concat()).contains(option[0]));
    }
    let none = [
        "run",
        "tpch",
        "--sf",
        "0.01",
        "--pool",
        "no.pool",
        "--restart",
        "1",
        "--files",
        "data",
    ];
    let missing = tierloom(at, &none);
    let error = missing.with_code(2).stderr;
    assert!(error.contains("tierloom pool create no.pool"), "{error}");
}

#[test]
fn every_type_that_sql_makes_comes_back_from_another_process() {
    let mut numbers = Numbers::new();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tierloom(at, &["pool", "create", "a.pool", "--size", "64MiB"]).with_code(0);
    // Values of a column repeat or not, and are NULL or not, by what is drawn.
    let mut value = || {
        let bound = 1 + numbers.below(5000);
        let null = 1 + numbers.below(9);
        let factor = 1 + numbers.below(1 << 20);
        format!("nullif((v % {bound}) * {factor}, {null} * {factor})")
    };
    let casts = [
        "Int8",
        "UInt16",
        "Int64",
        "Float32",
        "Float64",
        "Boolean",
        "Decimal128(30, 2)",
        "Utf8",
        "LargeUtf8",
        "Utf8View",
        "Dictionary(Int32, Utf8)",
        "Dictionary(UInt16, Utf8)",
        "Timestamp(Nanosecond, Some(\"+02:00\"))",
        "Timestamp(Second, None)",
        "Date64",
        "Duration(Millisecond)",
    ];
    let mut columns: Vec<String> = Vec::new();
    for (index, cast) in casts.iter().enumerate() {
        let small = format!("{} % 100", value());
        columns.push(format!("arrow_cast({small}, '{cast}') as c{index}"));
    }
    for (name, text) in [
        (
            "binary",
            format!("arrow_cast('b' || {}, 'LargeBinary')", value()),
        ),
        (
            "record",
            format!("named_struct('a', {}, 'b', 'x' || {})", value(), value()),
        ),
        (
            "long",
            format!("'a text that is no short one: ' || {}", value()),
        ),
        (
            "bytes",
            format!("arrow_cast('b' || {}, 'BinaryView')", value()),
        ),
        ("nothing", "arrow_cast(null, 'Int32')".to_owned()),
        ("same", "'one word'".to_owned()),
    ] {
        columns.push(format!("{text} as {name}"));
    }
    let copy = format!(
        "copy (select v, {} from generate_series(1, 4000) t(v)) to 'all.arrow'",
        columns.join(", ")
    );
    tierloom(at, &["sql", "-c", &copy]).with_code(0);
    let files = ["-t", "t=all.arrow"];
    tierloom(at, &[&["pool", "load", "a.pool"], &files[..]].concat()).with_code(0);
    let pool = ["--pool", "a.pool"];
    for query in [
        "select * from t order by v",
        "select column_name, data_type, is_nullable from information_schema.columns \
         where table_name = 't'",
        "explain select c9, count(*), min(c2), max(c6), sum(c4) from t where c10 > '2' group by c9",
        "explain select a.v from t a join t b on a.c2 = b.c2 where a.c12 < b.c13",
        "select column_name, encoding, size_bytes from tier_columns order by column_name",
    ] {
        let json = |args: &[&str]| {
            let all = [&["sql", "--format", "jsonl", "-c", query], args].concat();
            tierloom(at, &all).with_code(0).stdout
        };
        assert_eq!(json(&pool), json(&files), "{query}");
    }
}

#[test]
fn a_table_in_another_column_format_is_loaded_again_from_its_file() {
    let mut numbers = Numbers::new();
    let folder = shop(&mut numbers, 500);
    let at = folder.path();
    tierloom(at, &LOAD).with_code(0);
    // As an earlier version would have written it.
    let pool = tierloom_pool::OpenOptions::default()
        .open(&at.join("a.pool"))
        .unwrap();
    for name in ["orders", "names"] {
        let table = pool.attach(name).unwrap();
        let mut content = table.content().clone();
        content["column_format"] = 0.into();
        if name == "names" {
            content["note"] = Value::Null;
        }
        let spec = tierloom_pool::TableSpec {
            name: name.to_owned(),
            data_bytes: table.bytes().len() as u64,
            content_bytes: (content.to_string().len() + table.attachment().len()) as u64,
            spread: tierloom_pool::Spread::Pack,
        };
        let mut draft = pool.reserve(&spec).unwrap();
        draft.bytes_mut().copy_from_slice(table.bytes());
        draft.seal(&content, table.attachment()).unwrap();
    }
    drop(pool);
    let count = "select count(*) from orders";
    let ended = sql(at, &["--pool", "a.pool"], count).with_code(0);
    assert_eq!(ended.stdout, "count(*)\n500\n");
    for part in [
        "has column format 0",
        "loaded from /",
        "table names, cannot be relied on",
    ] {
        assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr);
    }
    let none = sql(at, &["--pool", "a.pool"], "select count(*) from names").with_code(2);
    assert!(
        none.stderr.contains("there is no table names"),
        "{}",
        none.stderr
    );
    let given = ["--pool", "a.pool", "-t", "names=names.csv"];
    assert_eq!(
        rows(at, &given, "select count(*) from names"),
        "count(*)\n1000\n"
    );
}

#[test]
fn intermediate_results_use_the_pool_fall_back_when_it_is_full_and_leave_nothing() {
    let numbers = &mut Numbers::new();
    let folder = shop(numbers, 60_000);
    let at = folder.path();
    let pool = ["--pool", "a.pool", "-t", "orders=orders.parquet"];
    let query = "select count(*), count(distinct comment), sum(id) from big";
    let make = "create table big as select a.id, a.comment, b.price, b.day from orders a \
                join orders b on a.id = b.id order by a.comment";
    let used = "select class, place, current_bytes > 0 from tier_memory \
                where class = 'temp' and operator is null and current_bytes > 0";
    let plain = rows(
        at,
        &["-t", "orders=orders.parquet"],
        &format!("{make}; {query}"),
    );
    let everywhere = "set tierloom.memory.temp = 'pool'; set tierloom.memory.join = 'pool'; \
                      set tierloom.memory.sort = 'pool:1GiB';";
    let placed = rows(at, &pool, &format!("{everywhere} {make}; {query}; {used}"));
    let (answer, places) = placed.split_once("class,place").expect("two answers");
    assert_eq!(answer.trim(), plain.trim());
    assert!(places.contains("temp,pool,true"), "{places}");
    let scratch = |status: &Value| {
        let regions = status["regions"].as_array().unwrap();
        regions.iter().filter(|r| r["kind"] == "scratch").count()
    };
    assert_eq!(scratch(&status(at)), 0, "scratch regions were left");

    // The table alone takes nearly all of a small pool.
    tierloom(at, &["pool", "create", "small.pool", "--size", "12MiB"]).with_code(0);
    let small = ["--pool", "small.pool", "-t", "orders=orders.parquet"];
    let twice = format!(
        "set tierloom.memory.temp = 'pool,dram'; {make}; create table more as select * from big; \
         {query}; {used}"
    );
    let placed = rows(at, &small, &twice);
    let (answer, places) = placed.split_once("class,place").expect("two answers");
    assert_eq!(answer.trim(), plain.trim());
    assert!(places.contains("temp,dram,true"), "{places}");

    // Without a pool there is no such place.
    let refused = sql(at, &["-t", "orders=orders.parquet"], everywhere).with_code(2);
    assert!(
        refused.stderr.contains("no pool is open"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_read_is_an_error_and_no_death() {
    let numbers = &mut Numbers::new();
    let folder = shop(numbers, 60_000);
    let at = folder.path();
    tierloom(
        at,
        &["pool", "load", "a.pool", "-t", "orders=orders.parquet"],
    )
    .with_code(0);
    let query = "select count(distinct comment), sum(id), max(price) from orders";
    // Begun when everything is checked, so that no checksum is looked at again, and busy until the
    // file is shorter.
    let busy = "select count(*) from generate_series(1, 120000) a, generate_series(1, 120000) b \
                where a.value % 7 = b.value % 5";
    let all = format!("copy (select 1 as x) to 'ready.csv'; {busy}; {query}");
    let child = command(
        at,
        &["sql", "--pool", "a.pool", "--verify", "all", "-c", &all],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let begin = Instant::now();
    while !at.join("ready.csv").exists() {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "it does not begin"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let file = File::options().write(true).open(at.join("a.pool")).unwrap();
    file.set_len(5 << 20).unwrap();
    let ended = end_of(child);
    ended.no_panic();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("gone"), "{}", ended.stderr);
    assert!(
        !ended.stdout.contains("max("),
        "an answer of zeroes: {}",
        ended.stdout
    );
}
