//! psql: queries, its own commands, copies, errors.

use super::support::{ENDLESS, Server, answer, complaint, open, printed, with_ssb};
use std::io::Write;
use std::process::{Command, Stdio};
use tierloom_sql::{AdmissionOptions, SharedEngine};
use tierloom_workloads::ssb::queries;

fn run(psql: &mut Command, text: &str) -> std::process::Output {
    psql.args(["-c", text]).output().unwrap()
}

#[test]
fn all_queries_of_the_star_schema_benchmark_have_the_shells_answers() {
    let server = Server::with(open(), with_ssb());
    let alone = SharedEngine::new(with_ssb(), AdmissionOptions::default());
    assert_eq!(queries().len(), 13);
    for query in queries() {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        let expected = answer(&alone, query.sql);
        assert_eq!(
            printed(&run(&mut psql, query.sql)),
            expected,
            "{}",
            query.id
        );
    }
}

#[test]
fn null_and_empty_text_differ_and_types_of_all_kinds_are_shown() {
    let server = Server::start();
    for (text, expected) in [
        (
            "SELECT a, b IS NULL, b FROM t ORDER BY a",
            "1|f|one\n2|f|\n3|t|\n",
        ),
        (
            "SELECT 1.50::decimal(10,2), true, DATE '2024-02-29'",
            "1.50|t|2024-02-29\n",
        ),
        (
            "SELECT TIMESTAMP '2024-02-29 12:34:56.789'",
            "2024-02-29 12:34:56.789000\n",
        ),
        (
            "SELECT 18446744073709551615::bigint unsigned",
            "18446744073709551615\n",
        ),
        ("SELECT 1.5e300, -0.5::real", "1.5e300|-0.5\n"),
        ("SELECT 1; SELECT 'b'", "1\nb\n"),
        ("SHOW server_version_num", "160006\n"),
        ("SELECT version() LIKE 'PostgreSQL 16%'", "t\n"),
        ("SELECT 0.1::float = 0.1::double precision", "t\n"),
        (
            "SELECT current_database(), current_user, session_user",
            "tierloom|tester|tester\n",
        ),
        (
            "SELECT datname FROM pg_database WHERE datname = current_database()",
            "tierloom\n",
        ),
        (
            "SELECT DISTINCT table_catalog FROM information_schema.tables",
            "tierloom\n",
        ),
        (
            "SELECT user_name FROM tierloom_sessions WHERE pid = pg_backend_pid()",
            "tester\n",
        ),
        (
            "SELECT pg_typeof(1::int), pg_typeof(DATE '2026-01-01'), pg_typeof(ARRAY[1.5::float8])",
            "integer|date|double precision[]\n",
        ),
        (
            "SELECT length(gen_random_uuid()), clock_timestamp() = statement_timestamp()",
            "36|t\n",
        ),
    ] {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        assert_eq!(printed(&run(&mut psql, text)), expected, "{text}");
    }
}

#[test]
fn functions_and_tables_that_clients_ask_for_are_those_of_the_session() {
    let server = Server::start();
    for (text, expected) in [
        (
            "SELECT current_setting('timezone'), current_setting('no.such', true) IS NULL",
            "UTC|t\n",
        ),
        (
            "SELECT set_config('application_name', 'me', false); SHOW application_name; \
             SELECT current_setting('application_name')",
            "me\nme\nme\n",
        ),
        ("SELECT pg_sleep(0.01), pg_sleep(NULL) IS NULL", "|t\n"),
        (
            "SELECT txid_current() < pg_current_xact_id() OR txid_current() > 0",
            "t\n",
        ),
        (
            "SELECT usename, usesuper FROM pg_user JOIN pg_catalog.pg_roles ON rolname = usename",
            "tester|t\n",
        ),
        (
            "SELECT count(*) FROM pg_locks, pg_catalog.pg_available_extensions",
            "0\n",
        ),
        (
            "SELECT quote_literal('it''s'), quote_literal(E'a\\\\b'), every(a > 1), \
             variance(a) = 1 FROM t",
            "'it''s'|E'a\\\\b'|f|t\n",
        ),
        (
            "CREATE TEMP TABLE j (id uuid, d jsonb, n json); \
             INSERT INTO j VALUES ('01234567-89ab-cdef-0123-456789abcdef', '{\"a\": 1}', '[1]'); \
             SELECT d, n FROM j WHERE id = '01234567-89ab-cdef-0123-456789abcdef'::uuid",
            "CREATE TABLE\nINSERT 0 1\n{\"a\": 1}|[1]\n",
        ),
        (
            "SELECT age(TIMESTAMP '2001-04-10', TIMESTAMP '1957-06-13'), \
             age(DATE '2026-01-31', DATE '2026-03-01'), age(current_date), \
             age(NULL::timestamp) IS NULL",
            "43 years 9 mons 27 days|-1 mons -1 days|00:00:00|t\n",
        ),
        (
            "SELECT justify_interval(INTERVAL '1 mon -1 hour'), \
             justify_hours(INTERVAL '27 hours'), justify_days(INTERVAL '35 days')",
            "29 days 23:00:00|1 day 03:00:00|1 mon 5 days\n",
        ),
        ("SELECT EXISTS (SELECT 1 FROM t)", "t\n"),
        ("SELECT pg_postmaster_start_time() <= now()", "t\n"),
    ] {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        assert_eq!(printed(&run(&mut psql, text)), expected, "{text}");
    }
}

#[test]
fn changes_of_tables_report_their_rows_and_violations_their_codes() {
    let server = Server::start();
    for (text, expected) in [
        (
            "CREATE TABLE u (id int PRIMARY KEY, v text NOT NULL DEFAULT 'd', CHECK (id < 100))",
            "CREATE TABLE\n",
        ),
        ("INSERT INTO u SELECT a, 'x' FROM t", "INSERT 0 3\n"),
        ("INSERT INTO u (id) VALUES (4), (5)", "INSERT 0 2\n"),
        ("UPDATE u SET v = upper(v) WHERE id > 3", "UPDATE 2\n"),
        ("DELETE FROM u WHERE id = 1", "DELETE 1\n"),
        ("ALTER TABLE u ADD COLUMN w int DEFAULT 8", "ALTER TABLE\n"),
        (
            "SELECT * FROM u ORDER BY id",
            "2|x|8\n3|x|8\n4|D|8\n5|D|8\n",
        ),
        (
            "INSERT INTO u VALUES (5, 'E', 1), (6, 'F', 2) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING id, v",
            "5|E\n6|F\nINSERT 0 2\n",
        ),
        (
            "DELETE FROM u WHERE id > 4 RETURNING *",
            "5|E|8\n6|F|2\nDELETE 2\n",
        ),
        ("TRUNCATE TABLE u", "TRUNCATE TABLE\n"),
        ("SELECT count(*) FROM u", "0\n"),
    ] {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        assert_eq!(printed(&run(&mut psql, text)), expected, "{text}");
    }
    for (text, code) in [
        ("INSERT INTO u VALUES (1), (1)", "42000"),
        ("INSERT INTO u (id) VALUES (1), (1)", "23505"),
        ("INSERT INTO u VALUES (1, NULL, 2)", "23502"),
        ("INSERT INTO u (id) VALUES (100)", "23514"),
        ("INSERT INTO u (id) VALUES ('x')", "22P02"),
        ("INSERT INTO nothing VALUES (1)", "42P01"),
        ("UPDATE u SET nothing = 1", "42703"),
        (
            "INSERT INTO u VALUES (1) ON DUPLICATE KEY UPDATE id = 2",
            "0A000",
        ),
    ] {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        psql.args(["-v", "VERBOSITY=verbose"]);
        let said = complaint(&run(&mut psql, text));
        assert!(said.contains(code), "{text}: {said}");
    }
}

#[test]
fn tables_are_listed_and_described() {
    let server = Server::start();
    for (text, parts) in [
        ("\\dt", &["public|t|table"][..]),
        ("\\d", &["public|t|table", "public|n|table"]),
        ("\\d t", &["a|", "b|text"]),
        ("\\l", &["tierloom"]),
        ("\\dn", &["public"]),
        (
            "SELECT user_name, state FROM tierloom_sessions",
            &["tester|active"],
        ),
    ] {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        let listed = printed(&run(&mut psql, text));
        for part in parts {
            assert!(listed.contains(part), "{text}: {listed}");
        }
    }
}

#[test]
fn copies_leave_as_text_and_csv_and_without_rows() {
    let server = Server::start();
    for (text, expected) in [
        ("COPY t TO STDOUT", "1\tone\n2\t\n3\t\\N\n"),
        (
            "COPY (SELECT a, b FROM t) TO STDOUT (FORMAT csv, HEADER)",
            "a,b\n1,\"one\"\n2,\"\"\n3,\n",
        ),
        ("COPY (SELECT a FROM t WHERE a > 9) TO STDOUT", ""),
        (
            "\\copy (SELECT 'x,\"y\"' AS q) TO STDOUT CSV",
            "\"x,\"\"y\"\"\"\n",
        ),
    ] {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        assert_eq!(printed(&run(&mut psql, text)), expected, "{text}");
    }
}

/// psql with these statements, and this after them on its input.
fn fed(server: &Server, statements: &[&str], input: &[u8]) -> Option<std::process::Output> {
    let mut psql = server.psql("tester")?;
    for statement in statements {
        psql.args(["-c", statement]);
    }
    let piped = psql.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
    // psql may have failed before it has read all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    Some(child.wait_with_output().unwrap())
}

#[test]
fn copies_arrive_as_text_and_csv_and_are_one_statement() {
    let server = Server::start();
    let made =
        "CREATE TABLE c (a INT PRIMARY KEY, b TEXT, d DATE DEFAULT DATE '2020-01-01', x BYTEA)";
    let copy = "COPY c (b, a) FROM STDIN (FORMAT csv, HEADER)";
    let csv = b"b,a\none,1\n\"\",2\n,3\n\"two\nlines\",4\n";
    let Some(output) = fed(&server, &[made, copy], csv) else {
        return;
    };
    assert!(printed(&output).contains("COPY 4"), "{output:?}");
    let text = b"5\tfive\\tfifth\t2024-02-29\t\\\\x00fF\n6\t\\N\t\\N\t\\N\n\\.\n";
    let output = fed(&server, &["COPY c FROM STDIN"], text).unwrap();
    assert_eq!(printed(&output), "COPY 2\n");
    let mut psql = server.psql("tester").unwrap();
    let rows =
        "SELECT a, b IS NULL, replace(b, E'\\n', '/'), d, encode(x, 'hex') FROM c ORDER BY a";
    assert_eq!(
        printed(&run(&mut psql, rows)),
        "1|f|one|2020-01-01|\n2|f||2020-01-01|\n3|t||2020-01-01|\n4|f|two/lines|2020-01-01|\n\
         5|f|five\tfifth|2024-02-29|00ff\n6|t|||\n"
    );
    // A row of a copy that fails leaves none of the others.
    for (copy, input, code) in [
        ("COPY c (a) FROM STDIN", &b"7\n1\n"[..], "twice"),
        ("COPY c (a) FROM STDIN", b"7\nx\n", "column a"),
        ("COPY c (a, b) FROM STDIN", b"7\ta\n8\n", "missing data"),
        ("COPY c (a) FROM STDIN", b"7\n8\t9\n", "extra data"),
        ("COPY c (z) FROM STDIN", b"7\n", "z"),
        ("COPY nothing FROM STDIN", b"7\n", "nothing"),
        (
            "COPY c FROM STDIN (FORMAT binary)",
            b"7\n",
            "unexpected end",
        ),
    ] {
        let output = fed(&server, &[copy], input).unwrap();
        assert!(complaint(&output).contains(code), "{copy}: {output:?}");
    }
    let mut psql = server.psql("tester").unwrap();
    assert_eq!(printed(&run(&mut psql, "SELECT count(*) FROM c")), "6\n");
}

#[test]
fn a_large_table_is_the_same_after_it_left_and_came_back() {
    let server = Server::with(open(), with_ssb());
    let folder = tempfile::tempdir().unwrap();
    let columns = "lo_orderkey, lo_linenumber, lo_custkey, lo_revenue, lo_shipmode";
    let sums = |table: &str| {
        let sums = format!(
            "SELECT count(*), sum(lo_orderkey), sum(lo_revenue), count(DISTINCT lo_shipmode), max(lo_shipmode) FROM {table}"
        );
        Some(printed(&run(&mut server.psql("tester")?, &sums)))
    };
    let Some(before) = sums("lineorder") else {
        return;
    };
    for format in ["text", "csv", "binary"] {
        let file = folder.path().join(format);
        let file = file.display();
        let table = format!("back_{format}");
        let made = format!("CREATE TABLE {table} AS SELECT {columns} FROM lineorder WHERE false");
        let out = format!("\\copy (SELECT {columns} FROM lineorder) TO '{file}' (FORMAT {format})");
        let back = format!("\\copy {table} FROM '{file}' (FORMAT {format})");
        for statement in [made, out, back] {
            printed(&run(&mut server.psql("tester").unwrap(), &statement));
        }
        assert_eq!(sums(&table).unwrap(), before, "{format}");
    }
}

#[test]
fn errors_have_codes_and_positions_and_the_session_goes_on() {
    let server = Server::start();
    for (text, parts) in [
        (
            "SELECT * FROM nothing",
            &["42P01", "there is no table nothing"][..],
        ),
        ("SELECT b\nFROM t WHERE )", &["42601", "LINE 2"]),
        ("SET no_such = 1", &["42704"]),
        ("SELECT current_setting('no_such')", &["42704", "no_such"]),
        (
            "SELECT set_config('server_version', '9', false)",
            &["55P02"],
        ),
        ("SELECT set_config('timezone')", &["42883"]),
        (
            "SET statement_timeout = 100; SELECT pg_sleep(3600) FROM t",
            &["57014"],
        ),
        ("SELECT 1/0", &["22012"]),
        ("COPY t FROM STDIN (FREEZE)", &["0A000"]),
        ("BEGIN; SELECT * FROM nothing", &["42P01"]),
        ("SET client_encoding = 'LATIN1'", &["22023", "UTF8"]),
    ] {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        psql.args(["-v", "VERBOSITY=verbose"]);
        let told = complaint(&run(&mut psql, text));
        for part in parts {
            assert!(told.contains(part), "{text}: {told}");
        }
    }
    let Some(mut psql) = server.psql("tester") else {
        return;
    };
    psql.args([
        "-v",
        "ON_ERROR_STOP=0",
        "-c",
        "BEGIN",
        "-c",
        "SELECT x",
        "-c",
        "SELECT 1",
    ]);
    let output = psql
        .args(["-c", "ROLLBACK", "-c", "SELECT 2"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("current transaction is aborted"), "{told}");
    assert_eq!(printed(&output), "BEGIN\nROLLBACK\n2\n");
}

#[test]
fn a_statement_ends_by_its_timeout_or_by_the_clients_cancel_request() {
    let server = Server::start();
    let Some(mut psql) = server.psql("tester") else {
        return;
    };
    let text = format!("SET statement_timeout = 100; {ENDLESS}");
    psql.args(["-v", "VERBOSITY=verbose"]);
    let told = complaint(&run(&mut psql, &text));
    assert!(
        told.contains("57014") && told.contains("statement timeout"),
        "{told}"
    );
    let (Some(mut psql), Some(mut other)) = (server.psql("tester"), server.psql("other")) else {
        return;
    };
    let child = psql
        .args(["-c", ENDLESS])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    other.args(["-c", "SELECT count(*) FROM tierloom_sessions WHERE statement LIKE '%x.a * y.a%' AND user_name = 'tester'"]);
    super::support::eventually(|| printed(&other.output().unwrap()) == "1\n");
    // As Ctrl-C does: psql then asks the server to cancel.
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let told = complaint(&child.wait_with_output().unwrap());
    assert!(
        told.contains("canceling statement due to user request"),
        "{told}"
    );
}

#[test]
fn settings_of_the_machine_and_its_files_are_for_operators() {
    let mut options = open();
    options.operators = vec!["chief".into()];
    let server = Server::with(options, super::support::session());
    for text in [
        "SET tierloom.placement = 'cxl'",
        "COPY t TO '/tmp/never.csv'",
    ] {
        let Some(mut psql) = server.psql("tester") else {
            return;
        };
        psql.args(["-v", "VERBOSITY=verbose"]);
        let told = complaint(&run(&mut psql, text));
        assert!(told.contains("42501"), "{text}: {told}");
    }
    let Some(mut psql) = server.psql("chief") else {
        return;
    };
    printed(&run(&mut psql, "SET tierloom.placement = 'cxl'"));
    let Some(mut psql) = server.psql("tester") else {
        return;
    };
    let shown = printed(&run(&mut psql, "SHOW tierloom.placement"));
    assert!(shown.contains("|cxl|"), "{shown}");
    let Some(mut psql) = server.psql("tester") else {
        return;
    };
    let explained = printed(&run(&mut psql, "EXPLAIN PLACEMENT SELECT sum(a) FROM t"));
    assert!(explained.contains("t.a"), "{explained}");
}

#[test]
fn names_of_three_parts_and_temporary_tables_are_those_of_postgresql() {
    let server = Server::start();
    let Some(mut psql) = server.psql("tester") else {
        return;
    };
    let text = "CREATE TEMPORARY TABLE \"tierloom\".public.part AS
            SELECT \"tierloom\".\"public\".\"t\".a FROM tierloom.public.t;
        CREATE VIEW tierloom.public.seen AS SELECT * FROM tierloom.public.part;
        ALTER VIEW tierloom.public.seen RENAME TO known;
        SELECT sum(a) FROM \"tierloom\".\"public\".\"known\";
        DROP VIEW tierloom.public.known";
    let shown = printed(&run(psql.arg("-q"), text));
    assert_eq!(shown, "6\n");
    super::support::eventually(|| {
        let mut psql = server.psql("tester").unwrap();
        let part = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'part'";
        printed(&run(&mut psql, part)) == "0\n"
    });
    // A mistake has its place, and settings have names that begin in the same way.
    let mut psql = server.psql("tester").unwrap();
    let told = complaint(&run(
        &mut psql,
        "SELECT 1,\n  nothing FROM tierloom.public.t",
    ));
    assert!(
        told.contains("LINE 2:   nothing FROM tierloom.public.t"),
        "{told}"
    );
    let mut psql = server.psql("tester").unwrap();
    let set = "SET tierloom.placement.t = 'cxl'; SHOW tierloom.placement.t";
    assert!(printed(&run(&mut psql, set)).contains("cxl"));
}
