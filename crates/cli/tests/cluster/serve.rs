//! `tierloom serve --cluster`: clients of PostgreSQL and Flight SQL on the tables of a cluster.

use crate::common::{command, tierloom};
use crate::processes::{Cluster, NOTICED, Process, SF};
use arrow_flight::sql::CommandGetTables;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tierloom_agent::Token;
use tierloom_engine::answer::to_text;
use tierloom_engine::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tierloom_workloads::ssb::{self, SsbConfig};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// A query that runs for hours.
const ENDLESS: &str = "SELECT count(*) FROM part x, part y, part z \
                       WHERE x.p_size * y.p_size + z.p_size = -7";

/// A server of a cluster's tables.
struct Served {
    port: String,
    flight: String,
    _process: Process,
}

impl Served {
    fn start(cluster: &Cluster) -> Served {
        let addresses = ["--pg", "127.0.0.1:0", "--flight", "127.0.0.1:0"];
        let args = [
            &["serve", "--cluster", &cluster.url],
            &addresses[..],
            &cluster.access,
        ];
        let mut child = command(cluster.folder.path(), &args.concat())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = |word: &str| {
            let line = lines.next().expect("the server starts").unwrap();
            line.strip_prefix(word).expect(&line).to_owned()
        };
        let flight = next("flight grpc://");
        let port = next("serving 127.0.0.1:");
        Served {
            port,
            flight,
            _process: Process(child),
        }
    }

    fn psql(&self) -> Command {
        let mut psql = Command::new("psql");
        psql.args(["-X", "--csv", "-v", "VERBOSITY=verbose", "-h", "127.0.0.1"])
            .args(["-p", &self.port, "-U", "tester", "-d", "tierloom"])
            .env("PGCONNECT_TIMEOUT", "20")
            .env_remove("PGPASSWORD")
            .stdin(Stdio::null());
        psql
    }

    /// What psql prints for these commands of one session, errors included.
    fn says(&self, commands: &[&str]) -> String {
        let mut psql = self.psql();
        for command in commands {
            psql.args(["-c", command]);
        }
        let output = psql.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    }

    fn flight(&self) -> Flight {
        let runtime = Runtime::new().unwrap();
        let to = Endpoint::try_from(format!("http://{}", self.flight)).unwrap();
        let channel = runtime.block_on(to.connect()).unwrap();
        Flight {
            client: FlightSqlServiceClient::new(channel),
            runtime,
        }
    }
}

/// Whether psql is there; a note if it is not.
fn has_psql() -> bool {
    let there = Command::new("psql").arg("--version").output().is_ok();
    if !there {
        tierloom_testing::checked_nothing("there is no psql (Debian: postgresql-client)");
    }
    there
}

/// A psql that is given commands one after the other.
struct Session {
    _psql: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn start(served: &Served) -> Session {
        let mut psql = served.psql();
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Errors among the rows, as in a terminal.
        psql.args(["-v", "ON_ERROR_STOP=0"]).stderr(Stdio::null());
        let mut child = psql.spawn().unwrap();
        Session {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            _psql: Process(child),
        }
    }

    /// What is printed for a command, and the last error.
    fn ask(&mut self, command: &str) -> String {
        let end = "\\echo :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE\n\\echo end";
        writeln!(self.input, "{command}\n{end}").unwrap();
        let mut text = String::new();
        for line in self.output.by_ref() {
            match line.unwrap() {
                line if line == "end" => return text,
                line => text = text + &line + "\n",
            }
        }
        panic!("the connection ended: {text}");
    }
}

/// A connection of Flight SQL.
struct Flight {
    client: FlightSqlServiceClient<Channel>,
    runtime: Runtime,
}

impl Flight {
    fn rows(&mut self, sql: &str) -> Result<String, String> {
        let client = &mut self.client;
        self.runtime.block_on(async {
            let info = client.execute(sql.to_owned(), None).await;
            let info = info.map_err(|e| e.to_string())?;
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            // The columns of an answer without rows.
            let columns = info.try_decode_schema().unwrap();
            let mut all = vec![RecordBatch::new_empty(Arc::new(columns))];
            let rows = client.do_get(ticket).await.map_err(|e| e.to_string())?;
            let rows: Vec<RecordBatch> = rows.try_collect().await.map_err(|e| e.to_string())?;
            all.extend(rows);
            Ok(to_text(&all).unwrap())
        })
    }

    /// The rows of a prepared statement with a number as its parameter.
    fn prepared(&mut self, sql: &str, value: i64) -> String {
        let client = &mut self.client;
        self.runtime.block_on(async {
            let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
            let value: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            let values = RecordBatch::try_from_iter([("$1", value)]).unwrap();
            prepared.set_parameters(values).unwrap();
            let info = prepared.execute().await.unwrap();
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let rows = client.do_get(ticket).await.unwrap();
            let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
            to_text(&rows).unwrap()
        })
    }

    fn tables(&mut self) -> String {
        let client = &mut self.client;
        self.runtime.block_on(async {
            let info = client
                .get_tables(CommandGetTables::default())
                .await
                .unwrap();
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let rows = client.do_get(ticket).await.unwrap();
            let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
            to_text(&rows).unwrap()
        })
    }
}

fn with_ssb(executors: usize, more: &[&str]) -> Cluster {
    let cluster = Cluster::start(executors);
    cluster.load(&[&["ssb", "--sf", "0.01", "--shards", "5"], more].concat());
    cluster
}

#[test]
fn psql_and_flight_get_the_answers_of_one_process() {
    if !has_psql() {
        return;
    }
    let cluster = with_ssb(2, &[]);
    let served = Served::start(&cluster);
    let config = SsbConfig::new(SF, 1).unwrap();
    let mut flight = served.flight();
    for query in ssb::queries() {
        let stored = ssb::golden_answer(&config, query.id).unwrap();
        assert_eq!(served.says(&[query.sql]), stored, "{}", query.id);
        assert_eq!(flight.rows(query.sql).unwrap(), stored, "{}", query.id);
    }
    let count = "SELECT count(*) AS n FROM lineorder WHERE lo_discount > ";
    let expected = cluster.text(&format!("{count}7"));
    assert_eq!(flight.prepared(&format!("{count}$1"), 7), expected);
    let prepared = ["PREPARE p AS SELECT count(*) AS n FROM lineorder WHERE lo_discount > $1"];
    let said = served.says(&[prepared[0], "EXECUTE p(7)"]);
    assert_eq!(said, format!("PREPARE\n{expected}"));
    // Values of subqueries, and rows that are no table's.
    let above = "SELECT count(*) AS n FROM part WHERE p_size > (SELECT avg(p_size) FROM part)";
    assert_eq!(served.says(&[above]), cluster.text(above));
    assert_eq!(served.says(&["SELECT 1 AS one"]), "one\n1\n");
    // Tables that are loaded later are there for the next statement.
    let kinds = "SELECT count(*) > 0 AS n FROM nation";
    assert!(served.says(&[kinds]).contains("42P01"));
    cluster.load(&["tpch", "--sf", "0.01", "--shards", "3"]);
    assert_eq!(served.says(&[kinds]), "n\nt\n");
}

#[test]
fn catalogs_and_explanations_show_the_clusters_tables_nodes_and_tiers() {
    if !has_psql() {
        return;
    }
    let cluster = with_ssb(2, &[]);
    let served = Served::start(&cluster);
    let tables = ["customer", "date", "lineorder", "part", "supplier"];
    let listed = served.says(&["\\dt"]);
    let of_schema = served.says(&["SELECT table_name, table_type FROM information_schema.tables"]);
    let functions = served.says(&[
        "SELECT DISTINCT routine_name FROM information_schema.routines WHERE routine_name = 'sqrt'",
    ]);
    assert!(functions.contains("sqrt"), "{functions}");
    let of_flight = served.flight().tables();
    for table in tables {
        assert!(
            listed.contains(&format!("public,{table},table,")),
            "{listed}"
        );
        assert!(
            of_schema.contains(&format!("{table},BASE TABLE")),
            "{of_schema}"
        );
        assert!(
            of_flight.contains(&format!(",{table},TABLE")),
            "{of_flight}"
        );
    }
    let columns = served.says(&["\\d lineorder"]);
    assert!(columns.contains("lo_orderkey,"), "{columns}");
    let rows = cluster.text("SELECT count(*) AS reltuples FROM lineorder");
    let sizes = "SELECT reltuples::bigint AS reltuples FROM pg_class WHERE relname = 'lineorder'";
    assert_eq!(served.says(&[sizes]), rows);
    let query = ssb::query("q2.1").unwrap().sql;
    let placed = served.says(&[&format!("EXPLAIN PLACEMENT {query}")]);
    for node in ["a", "b"] {
        let lines = placed
            .lines()
            .filter(|l| l.starts_with(&format!("1,lineorder,{node},")));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 1, "{placed}");
        assert!(lines[0].ends_with("node 0 (dram): 100%"), "{placed}");
        assert!(
            placed.contains(&format!("1,part,{node},all rows,2000,")),
            "{placed}"
        );
    }
    let plan = served.says(&[&format!("EXPLAIN {query}")]);
    assert!(
        plan.contains("node plan 1, on 5 shards where they lie"),
        "{plan}"
    );
    assert!(plan.contains("final plan"), "{plan}");
    let sessions = served.says(&["SELECT user_name FROM tierloom_sessions"]);
    assert_eq!(sessions, "user_name\ntester\n");
}

#[test]
fn what_a_cluster_cannot_do_is_one_error_that_says_so() {
    if !has_psql() {
        return;
    }
    let cluster = with_ssb(1, &[]);
    let served = Served::start(&cluster);
    let mut session = Session::start(&served);
    for (statement, what) in [
        ("INSERT INTO part SELECT * FROM part;", "INSERT"),
        ("UPDATE part SET p_size = 1;", "UPDATE"),
        ("CREATE TABLE t AS SELECT 1;", "CREATE TABLE"),
        ("CREATE VIEW v AS SELECT * FROM part;", "CREATE VIEW"),
        ("DROP TABLE part;", "DROP TABLE"),
        ("SET tierloom.placement = 'cxl';", "SET tierloom.placement"),
        (
            "SET datafusion.execution.batch_size = 10;",
            "SET datafusion.execution.batch_size",
        ),
        ("ANALYZE part;", "ANALYZE"),
        (
            "EXPLAIN ANALYZE PLACEMENT SELECT * FROM part;",
            "EXPLAIN ANALYZE PLACEMENT",
        ),
        ("EXPLAIN ANALYZE SELECT * FROM part;", "EXPLAIN ANALYZE"),
        ("COPY part FROM STDIN;\n\\.", "taking rows from a client"),
    ] {
        let said = session.ask(statement);
        assert!(
            said.starts_with("0A000 ") || said.contains("\n0A000 "),
            "{statement}: {said}"
        );
        assert!(
            said.contains(&format!("{what} is not supported")),
            "{statement}: {said}"
        );
        assert!(said.contains("cluster"), "{statement}: {said}");
        let rows = session.ask("SELECT count(*) AS n FROM part;");
        assert!(rows.starts_with("n\n2000\n"), "{rows}");
    }
    let both = session.ask("SELECT count(*) FROM part, tierloom_sessions;");
    assert!(both.contains("tierloom_sessions in this server"), "{both}");
    let unknown = session.ask("SELECT * FROM absent;");
    assert!(
        unknown.contains("there is no table absent; there are customer, date"),
        "{unknown}"
    );
    let copied = session.ask("COPY (SELECT count(*) FROM part) TO STDOUT;");
    assert!(copied.starts_with("2000\n"), "{copied}");
    let mut flight = served.flight();
    let error = flight.rows("CREATE TABLE t AS SELECT 1").unwrap_err();
    assert!(
        error.contains("CREATE TABLE is not supported here"),
        "{error}"
    );
}

#[test]
fn a_statement_that_is_cancelled_or_too_slow_ends_and_the_connection_goes_on() {
    if !has_psql() {
        return;
    }
    let cluster = with_ssb(2, &[]);
    let served = Served::start(&cluster);
    let mut session = Session::start(&served);
    session.ask("SET statement_timeout = '500ms';");
    let begun = Instant::now();
    let said = session.ask(&format!("{ENDLESS};"));
    assert!(
        said.contains("57014 canceling statement due to statement timeout"),
        "{said}"
    );
    assert!(begun.elapsed() < NOTICED, "{:?}", begun.elapsed());
    session.ask("SET statement_timeout = 0;");
    let mut other = served.psql();
    other.args(["-c", ENDLESS]).stdout(Stdio::null());
    other.stderr(Stdio::piped());
    let other = Process(other.spawn().unwrap());
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    // psql sends a cancel request and ends.
    other.signal("-INT");
    let said = other.errors();
    assert!(
        said.contains("57014: canceling statement due to user request"),
        "{said}"
    );
    assert!(begun.elapsed() < NOTICED, "{:?}", begun.elapsed());
    // The nodes have ended it too: they have one thread each.
    let begun = Instant::now();
    let said = session.ask("SELECT count(*) AS n FROM lineorder WHERE lo_discount >= 0;");
    assert!(said.starts_with("n\n60190\n"), "{said}");
    assert!(begun.elapsed() < NOTICED, "{:?}", begun.elapsed());
}

#[test]
fn a_killed_executor_is_one_error_or_the_answer_and_the_connection_goes_on() {
    if !has_psql() {
        return;
    }
    let sql = "SELECT sum(lo_revenue) AS n FROM lineorder;";
    let mut cluster = with_ssb(2, &[]);
    let served = Served::start(&cluster);
    let mut session = Session::start(&served);
    let before = session.ask(sql);
    cluster.executors[1].kill();
    // The first meets an executor that is not yet missed, the second one that is.
    for _ in 0..2 {
        let begun = Instant::now();
        let said = session.ask(sql);
        assert!(begun.elapsed() < NOTICED, "{:?}: {said}", begun.elapsed());
        assert!(said.contains("XX000 "), "{said}");
        assert!(said.contains("shard "), "{said}");
        assert!(said.contains("of lineorder"), "{said}");
        assert!(said.contains("b (does not answer)"), "{said}");
    }
    let said = session.ask("SELECT count(*) AS n FROM part;");
    assert!(said.starts_with("n\n2000\n"), "{said}");
    let said = session.ask(
        "SELECT count(*) AS n FROM information_schema.tables \
                            WHERE table_name = 'lineorder';",
    );
    assert!(said.starts_with("n\n1\n"), "{said}");
    cluster.add("b");
    cluster.until(|map| map.usable("lineorder").is_ok());
    let again = session.ask(sql);
    assert_eq!(again.lines().nth(1), before.lines().nth(1), "{again}");
    drop((session, served));
    drop(cluster);
    let mut cluster = with_ssb(2, &["--replicas", "2"]);
    let served = Served::start(&cluster);
    let mut session = Session::start(&served);
    cluster.executors[1].kill();
    let said = session.ask(sql);
    assert_eq!(said.lines().nth(1), before.lines().nth(1), "{said}");
}

#[test]
fn a_cluster_with_a_token_and_certificates_is_served_with_them_alone() {
    if !has_psql() {
        return;
    }
    let cluster = Cluster::guarded(1, true);
    cluster.load(&["ssb", "--sf", "0.01", "--shards", "2"]);
    let served = Served::start(&cluster);
    let count = served.says(&["SELECT count(*) AS n FROM lineorder"]);
    assert_eq!(count, "n\n60190\n");
    let folder = cluster.folder.path();
    let other = Token::generate().expect("random bytes");
    other.write_new(&folder.join("other")).expect("written");
    let head = ["serve", "--pg", "127.0.0.1:0"];
    let of_cluster = ["--cluster", cluster.url.as_str()];
    let trust = ["--tls-ca", "cert.pem"];
    for (args, code, part) in [
        (
            &[&of_cluster[..], &trust, &["--token-file", "other"]].concat()[..],
            2,
            "does not accept this token",
        ),
        (
            &[&of_cluster[..], &["--token-file", "token"]].concat()[..],
            2,
            "--tls-ca",
        ),
        (&["--token-file", "token"], 2, "--cluster <URL>"),
        (&["--cluster", "here"], 2, "is no URL of a scheduler"),
        (
            &["--cluster", "http://127.0.0.1:1", "--token-file", "token"],
            1,
            "does not answer",
        ),
        (
            &[&of_cluster[..], &["-t", "x=x.csv"]].concat()[..],
            2,
            "cannot be used with",
        ),
    ] {
        let ended = tierloom(folder, &[&head[..], args].concat()).with_code(code);
        ended.one_error();
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
    }
}
