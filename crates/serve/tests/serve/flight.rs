//! Clients of Flight SQL: drivers of Python, and the protocol itself with tickets and tokens that
//! are wrong.

use super::support::{
    ENDLESS, Server, open, printed, resident_mib, secret, session, ssb_answers, with_ssb,
};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    Any, CommandGetTables, CommandPreparedStatementQuery, CommandStatementQuery, ProstMessageExt,
    TicketStatementQuery,
};
use arrow_flight::{Action, FlightClient, FlightDescriptor, FlightInfo, Ticket};
use futures::TryStreamExt;
use prost::Message;
use std::process::{Command, Stdio};
use std::time::Duration;
use tierloom_serve::{Certificate, Passwords, ServeOptions};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

/// A server for Flight SQL and PostgreSQL.
pub fn both() -> ServeOptions {
    ServeOptions {
        flight: Some("127.0.0.1:0".parse().unwrap()),
        ..open()
    }
}

/// Same with names and passwords.
fn guarded(folder: &std::path::Path) -> ServeOptions {
    let names = secret(folder, "names", "ada:right\nbob:other\n");
    ServeOptions {
        passwords: Some(Passwords::read(&names).unwrap()),
        operators: vec!["ada".into()],
        ..both()
    }
}

/// What programs of Python begin with.
const CONNECT: &str = r#"
import adbc_driver_manager
def connect(port=None, **options):
    return adbc_driver_flightsql.dbapi.connect(
        f"grpc://127.0.0.1:{port or FLIGHT}", db_kwargs=options or None, autocommit=True)
"#;

pub fn python(server: &Server, modules: &[&str], program: &str) -> Option<std::process::Output> {
    let port = server.flight.as_ref().unwrap().rsplit(':').next().unwrap();
    let modules = [&["adbc_driver_flightsql.dbapi"], modules].concat();
    server.python(&modules, &format!("FLIGHT = {port}\n{CONNECT}\n{program}"))
}

#[test]
fn adbc_reads_the_star_schema_benchmark_as_the_shell_does() {
    let server = Server::with(both(), with_ssb());
    let program = ssb_answers()
        + r#"
with connect() as c, c.cursor() as cur:
    for sql, expected in zip(QUERIES, EXPECTED, strict=True):
        cur.execute(sql)
        rows = "".join("|".join(str(v) for v in row) + "\n" for row in cur.fetchall())
        assert rows == expected, (sql, rows[:200], expected[:200])
print("done")
"#;
    let Some(output) = python(&server, &["pyarrow"], &program) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn adbc_binds_parameters_changes_tables_and_sees_kinds_of_errors() {
    let server = Server::with(both(), session());
    let Some(output) = python(
        &server,
        &["datetime", "decimal", "pyarrow"],
        r#"
with connect() as c, c.cursor() as cur:
    for _ in range(3):
        cur.execute("SELECT a, b FROM t WHERE a >= ? ORDER BY a", (2,))
        assert cur.fetchall() == [(2, ""), (3, None)]
    cur.execute("SELECT a, b FROM t WHERE b = $1", ("one",))
    assert cur.fetchall() == [(1, "one")]
    cur.execute("SELECT ?, ?, ?", ("it's", 7, 1.5))
    assert cur.fetchall() == [("it's", 7, 1.5)]
    cur.execute("SELECT 1.25::decimal(6,2), DATE '2024-02-29', TIMESTAMP '2024-02-29 01:02:03.5',"
        " true, 'ö', CAST(NULL AS int), 18446744073709551615::bigint unsigned, [1, 2]")
    row = cur.fetchone()
    assert row == (decimal.Decimal("1.25"), datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 500000), True, "ö", None,
        18446744073709551615, [1, 2]), row
    # What has no rows has happened when execute returns.
    cur.execute("CREATE TABLE made (a INT PRIMARY KEY, b TEXT)")
    cur.execute("INSERT INTO made VALUES (1, 'x')")
    cur.executemany("INSERT INTO made VALUES (?, ?)", [(2, "it's"), (3, None), (4, "z")])
    assert cur.rowcount == 3, cur.rowcount
    cur.execute("UPDATE made SET b = ? WHERE a = ?", ("new", 1))
    cur.execute("SELECT a, b FROM made ORDER BY a")
    assert cur.fetchall() == [(1, "new"), (2, "it's"), (3, None), (4, "z")]
    cur.execute("SET statement_timeout = '5s'")
    cur.execute("SHOW statement_timeout")
    assert cur.fetchall() == [("5s",)]
    cur.execute("SELECT user_name, state FROM tierloom_sessions")
    assert cur.fetchall() == [("anonymous", "active")]
    parameters = cur.adbc_prepare("SELECT a + ? AS s, b FROM t WHERE b = ?")
    assert [str(f.type) for f in parameters] == ["int64", "string"], parameters
    for sql, part in [
        ("SELECT * FROM nothing", "there is no table nothing"),
        ("SELECT )", "Expected"),
        ("SELECT 1; SELECT 2", "multiple commands"),
        ("-- nothing", "no statement"),
        ("SELECT 1/0 FROM t", "ivide by zero"),
        ("COPY t TO STDOUT", "COPY"),
        ("SET no_such = 1", "no_such"),
        ("INSERT INTO made VALUES (1, 'again')", "twice"),
    ]:
        try:
            cur.execute(sql)
            cur.fetchall()
            assert False, sql
        except adbc_driver_manager.Error as error:
            assert part in str(error), (sql, str(error))
    cur.execute("SELECT 1")
    assert cur.fetchall() == [(1,)]
print("done")
"#,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn drivers_list_catalogs_tables_columns_keys_and_facts() {
    let server = Server::with(both(), session());
    let Some(output) = python(
        &server,
        &["pyarrow"],
        r#"
with connect() as c, c.cursor() as cur:
    cur.execute("CREATE TABLE keyed (k INT PRIMARY KEY, v TEXT)")
    cur.execute("CREATE VIEW seen AS SELECT a FROM t")
    cur.execute("CREATE SCHEMA s")
    cur.execute("CREATE TABLE s.inner_one (x DOUBLE)")
    assert c.adbc_get_table_types() == ["SYSTEM TABLE", "TABLE", "VIEW"], c.adbc_get_table_types()
    objects = c.adbc_get_objects(depth="all").read_all().to_pylist()
    assert [o["catalog_name"] for o in objects] == ["datafusion"]
    schemas = {s["db_schema_name"]: s["db_schema_tables"] for s in objects[0]["catalog_db_schemas"]}
    assert set(schemas) == {"public", "s"}, schemas
    kinds = {t["table_name"]: t["table_type"] for t in schemas["public"]}
    assert kinds["keyed"] == "TABLE" and kinds["seen"] == "VIEW", kinds
    assert kinds["tierloom_sessions"] == "SYSTEM TABLE", kinds
    columns = {t["table_name"]: [x["column_name"] for x in t["table_columns"]] for t in schemas["s"]}
    assert columns == {"inner_one": ["x"]}, columns
    one = c.adbc_get_objects(depth="tables", table_name_filter="key%").read_all().to_pylist()
    assert [t["table_name"] for t in one[0]["catalog_db_schemas"][0]["db_schema_tables"]] == ["keyed"]
    schema = c.adbc_get_table_schema("t")
    assert str(schema.field("b").type) == "string", schema
    info = c.adbc_get_info()
    assert info["vendor_name"] == "Tierloom", info
print("done")
"#,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn rows_are_ingested_whole_or_not_at_all() {
    let server = Server::with(both(), session());
    let Some(output) = python(
        &server,
        &["pyarrow as pa"],
        r#"
def rows(n, start=0):
    return pa.table({"a": pa.array(range(start, start + n), pa.int64()),
        "b": pa.array([f"v{i % 7}" if i % 3 else None for i in range(n)])})
def count(cur, table):
    cur.execute(f"SELECT count(*), count(b), sum(a) FROM {table}")
    return cur.fetchone()
with connect() as c, c.cursor() as cur:
    big = rows(300000)
    assert cur.adbc_ingest("arrived", big, mode="create") in (300000, -1)
    assert count(cur, "arrived") == (300000, 200000, sum(range(300000)))
    # Where the placement of the session says.
    cur.execute("SELECT DISTINCT table_name, wanted FROM tier_columns WHERE column_name = 'a'")
    wanted = dict(cur.fetchall())
    assert wanted["arrived"] == wanted["n"] and wanted["n"], wanted
    for mode, error in [("create", "there is a table arrived already")]:
        try:
            cur.adbc_ingest("arrived", rows(3), mode=mode)
            assert False
        except adbc_driver_manager.Error as e:
            assert error in str(e), str(e)
    cur.adbc_ingest("arrived", rows(10, 300000), mode="append")
    assert count(cur, "arrived")[0] == 300010
    cur.adbc_ingest("arrived", rows(5), mode="replace")
    assert count(cur, "arrived") == (5, 3, 10)
    cur.adbc_ingest("arrived", rows(5), mode="create_append")
    assert count(cur, "arrived")[0] == 10
    # The driver sends nothing at all for a table without batches.
    none = rows(1).to_batches()[0].slice(0, 0)
    cur.adbc_ingest("fresh", none, mode="create_append")
    assert count(cur, "fresh") == (0, 0, None)
    try:
        cur.adbc_ingest("absent", rows(5), mode="append")
        assert False
    except adbc_driver_manager.Error as e:
        assert "absent" in str(e), str(e)
    try:
        wrong = pa.table({"a": pa.array(["x"]), "b": pa.array(["y"])})
        cur.adbc_ingest("arrived", wrong, mode="append")
        assert False
    except adbc_driver_manager.Error as e:
        assert "column a" in str(e), str(e)
    def broken():
        yield from rows(100000).to_batches(max_chunksize=10000)
        raise ValueError("the client gives up")
    for table, mode in [("never", "create"), ("arrived", "append"), ("arrived", "replace")]:
        try:
            reader = pa.RecordBatchReader.from_batches(rows(1).schema, broken())
            cur.adbc_ingest(table, reader, mode=mode)
            assert False
        except (adbc_driver_manager.Error, ValueError, OSError):
            pass
    arrived = count(cur, "arrived")
    assert arrived[0] == 10, arrived
    cur.execute("SELECT count(*) FROM information_schema.tables WHERE table_name = 'never'")
    never = cur.fetchone()
    assert never == (0,), never
print("done")
"#,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn frames_come_and_go_by_adbc_and_by_the_client_of_pyarrow() {
    let server = Server::with(both(), with_ssb());
    let Some(output) = python(
        &server,
        &["polars", "pandas", "pyarrow.flight"],
        r#"
with connect() as c:
    frame = polars.read_database("SELECT lo_shipmode, lo_revenue FROM lineorder", c)
    with c.cursor() as cur:
        cur.execute("SELECT count(*), sum(lo_revenue) FROM lineorder")
        n, total = cur.fetchone()
    revenue = frame["lo_revenue"].cast(polars.Int64).sum()
    assert (len(frame), revenue) == (n, total) and n > 1000, (len(frame), revenue, n, total)
    again = pandas.read_sql("SELECT lo_shipmode, count(*) AS n FROM lineorder GROUP BY 1", c)
    assert again["n"].sum() == n
    frame.head(1000).write_database("first_rows", c, engine="adbc")
    assert pandas.read_sql("SELECT count(*) AS n FROM first_rows", c)["n"][0] == 1000
flight = pyarrow.flight.connect(f"grpc://127.0.0.1:{FLIGHT}")
actions = {a.type for a in flight.list_actions()}
assert {"CancelFlightInfo", "CreatePreparedStatement", "CloseSession"} <= actions, actions
for rubbish in [b"", b"\x00", b"\xff" * 40, b"\x0a\x05hello"]:
    try:
        flight.do_get(pyarrow.flight.Ticket(rubbish)).read_all()
        assert False
    except pyarrow.flight.FlightError as error:
        assert "panic" not in str(error)
    except pyarrow.ArrowException as error:
        assert "panic" not in str(error)
print("done")
"#,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn names_passwords_and_roles_are_those_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = guarded(folder.path());
    options.connections = 2;
    let server = Server::with(options, session());
    let Some(output) = python(
        &server,
        &["pyarrow.flight"],
        r#"
def fails(part, call):
    try:
        call()
    except (adbc_driver_manager.Error, pyarrow.flight.FlightError, pyarrow.ArrowException) as error:
        assert part in str(error), str(error)
        return str(error)
    assert False, part
def ask(c, sql):
    with c.cursor() as cur:
        cur.execute(sql)
        return cur.fetchall()
told = [fails("password authentication failed", lambda: ask(connect(username=name, password=password), "SELECT 1"))
    for name, password in [("ada", "wrong"), ("eve", "right")]]
assert told[0].replace("ada", "eve") == told[1], told
fails("token", lambda: ask(connect(), "SELECT 1"))
fails("token", lambda: pyarrow.flight.connect(f"grpc://127.0.0.1:{FLIGHT}").list_actions().__next__())
ada = connect(username="ada", password="right")
bob = connect(username="bob", password="other")
assert ask(ada, "SELECT user_name FROM tierloom_sessions ORDER BY 1") == [("ada",), ("bob",)]
fails("too many clients", lambda: ask(connect(username="bob", password="other"), "SELECT 1"))
fails("operator", lambda: ask(bob, "SET tierloom.placement = 'cxl'"))
ask(ada, "SET tierloom.placement = 'cxl'")
ask(bob, "SET datafusion.execution.batch_size = 77")
assert ask(bob, "SHOW datafusion.execution.batch_size")[0][1] == "77"
assert ask(ada, "SHOW datafusion.execution.batch_size")[0][1] != "77"
bob.close()
# A session that its client has closed is gone.
assert ask(ada, "SELECT user_name FROM tierloom_sessions") == [("ada",)]
print("done")
"#,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn with_a_certificate_flight_is_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let certificate = secret(folder.path(), "c.pem", &made.cert.pem());
    let key = secret(folder.path(), "k.pem", &made.signing_key.serialize_pem());
    let mut options = guarded(folder.path());
    options.certificate = Some(Certificate::read(&certificate, &key).unwrap());
    let server = Server::with(options, session());
    assert!(server.flight.as_ref().unwrap().starts_with("grpc+tls://"));
    let program = format!(
        "ROOTS = open({:?}).read()\n{}",
        certificate.display().to_string(),
        r#"
c = adbc_driver_flightsql.dbapi.connect(f"grpc+tls://localhost:{FLIGHT}", db_kwargs={
    "username": "ada", "password": "right", "adbc.flight.sql.client_option.tls_root_certs": ROOTS}, autocommit=True)
with c.cursor() as cur:
    cur.execute("SELECT a FROM t ORDER BY a")
    assert cur.fetchall() == [(1,), (2,), (3,)]
try:
    with connect(username="ada", password="right").cursor() as cur:
        cur.execute("SELECT 1")
    assert False
except adbc_driver_manager.Error:
    pass
print("done")
"#
    );
    let Some(output) = python(&server, &["pyarrow"], &program) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

/// Runs `work` with a connection to a server.
pub fn over<T>(server: &Server, work: impl AsyncFnOnce(Channel) -> T) -> T {
    let url = server.flight.clone().unwrap().replace("grpc://", "http://");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(url).unwrap();
        work(endpoint.connect().await.unwrap()).await
    })
}

/// The code of an error.
#[track_caller]
fn code<T>(answer: Result<T, FlightError>) -> (Code, String) {
    match answer.err() {
        Some(FlightError::Tonic(status)) => (status.code(), status.message().to_owned()),
        Some(other) => panic!("no status: {other}"),
        None => panic!("no error"),
    }
}

#[test]
fn rubbish_is_one_error_each_and_the_server_goes_on() {
    let server = Server::with(both(), session());
    over(&server, async |channel| {
        let mut client = FlightClient::new(channel.clone());
        let ticket = |handle: &[u8]| {
            let handle = handle.to_vec().into();
            TicketStatementQuery {
                statement_handle: handle,
            }
            .as_any()
            .encode_to_vec()
        };
        let unknown = CommandPreparedStatementQuery {
            prepared_statement_handle: vec![7; 8].into(),
        };
        let mut random = fastrand::Rng::with_seed(7);
        let mut tickets = vec![
            Vec::new(),
            vec![0xff; 64],
            ticket(b""),
            ticket(&[1; 8]),
            ticket(&[1; 9]),
            unknown.as_any().encode_to_vec(),
            Any {
                type_url: "type.googleapis.com/no.such.Command".into(),
                value: vec![1, 2, 3].into(),
            }
            .encode_to_vec(),
        ];
        tickets.extend((0..100).map(|_| {
            let length = random.usize(1..80);
            (0..length).map(|_| random.u8(..)).collect()
        }));
        for bytes in tickets {
            let (code, told) = code(client.do_get(Ticket::new(bytes.clone())).await);
            assert!(
                code != Code::Unknown && !told.contains("panic"),
                "{bytes:?}: {told}"
            );
            let info = client.get_flight_info(FlightDescriptor::new_cmd(bytes.clone()));
            assert!(info.await.is_err(), "{bytes:?}");
            for action in [
                "CancelFlightInfo",
                "CancelQuery",
                "CreatePreparedStatement",
                "x",
            ] {
                let action = Action::new(action, bytes.clone());
                let answer = match client.do_action(action).await {
                    Ok(answer) => answer.try_collect::<Vec<_>>().await,
                    Err(error) => Err(error),
                };
                assert!(answer.is_err(), "{bytes:?}");
            }
        }
        let mut client = FlightSqlServiceClient::new(channel);
        let info = client.execute("SELECT 1".into(), None).await.unwrap();
        let rows = rows(&mut client, info).await;
        assert_eq!(rows[0].num_rows(), 1);
    });
    assert_eq!(server.end(), Ok(()));
}

#[test]
fn tickets_and_handles_belong_to_their_session() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(guarded(folder.path()), session());
    over(&server, async |channel| {
        let mut ada = FlightSqlServiceClient::new(channel.clone());
        ada.handshake("ada", "right").await.unwrap();
        let mut bob = FlightSqlServiceClient::new(channel.clone());
        bob.handshake("bob", "other").await.unwrap();
        let info = ada.execute("SELECT a FROM t".into(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        assert!(bob.do_get(ticket.clone()).await.is_err());
        let rows = ada.do_get(ticket).await.unwrap();
        assert_eq!(rows.try_collect::<Vec<_>>().await.unwrap()[0].num_rows(), 3);
        let mut wrong = FlightSqlServiceClient::new(channel);
        for token in ["", "1.2", "1073741824.00", "x", "99999999999999999999.ab"] {
            wrong.set_token(token.to_owned());
            let told = wrong.execute("SELECT 1".into(), None).await.unwrap_err();
            assert!(told.to_string().contains("token"), "{token}: {told}");
        }
    });
}

#[test]
fn columns_are_announced_as_they_are_sent() {
    let server = Server::with(both(), with_ssb());
    over(&server, async |channel| {
        let mut client = FlightSqlServiceClient::new(channel);
        for text in [
            "SELECT * FROM lineorder LIMIT 5",
            "SELECT b, count(*) FROM t GROUP BY b",
            "SELECT upper(b), arrow_cast(b, 'Utf8View'), [b] FROM t",
            "EXPLAIN SELECT a FROM t",
            "SHOW tierloom.placement",
            "SHOW server_version",
            "SELECT 1 AS x WHERE false",
        ] {
            let info = client.execute(text.into(), None).await.unwrap();
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let announced = info.try_decode_schema().unwrap();
            let mut rows = client.do_get(ticket).await.unwrap();
            while rows.try_next().await.unwrap().is_some() {}
            let sent = rows.schema().unwrap();
            assert_eq!(sent.as_ref(), &announced, "{text}");
            let is_plain = |t: &DataType| !matches!(t, DataType::Dictionary(..));
            assert!(!sent.fields().is_empty(), "{text}");
            assert!(
                sent.fields().iter().all(|f| is_plain(f.data_type())),
                "{text}"
            );
            let prepared = client.prepare(text.into(), None).await.unwrap();
            assert_eq!(prepared.dataset_schema().unwrap(), &announced, "{text}");
            prepared.close().await.unwrap();
        }
        let prepared = client.prepare("SELECT a, $2 FROM t WHERE a > $1".into(), None);
        let prepared = prepared.await.unwrap();
        let parameters = prepared.parameter_schema().unwrap();
        let types = parameters
            .fields()
            .iter()
            .map(|f| f.data_type().to_string());
        assert_eq!(types.collect::<Vec<_>>(), ["Int64", "Utf8"]);
        let tables = client.get_tables(CommandGetTables {
            include_schema: true,
            table_name_filter_pattern: Some("lineorder".into()),
            ..CommandGetTables::default()
        });
        let info = tables.await.unwrap();
        let rows = rows(&mut client, info).await;
        assert_eq!(rows[0].num_rows(), 1);
    });
}

/// All rows of an announcement.
pub(super) async fn rows(
    client: &mut FlightSqlServiceClient<Channel>,
    info: FlightInfo,
) -> Vec<RecordBatch> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client.do_get(ticket).await.unwrap();
    rows.try_collect().await.unwrap()
}

/// How many statements run, the question itself left out.
async fn running(client: &mut FlightSqlServiceClient<Channel>, part: &str) -> usize {
    let text = format!(
        "SELECT 1 FROM tierloom_sessions WHERE state = 'active' AND statement LIKE '%{part}%' AND statement NOT LIKE '%LIKE%'"
    );
    let info = client.execute(text, None).await.unwrap();
    let rows = rows(client, info).await;
    rows.iter().map(|rows| rows.num_rows()).sum()
}

#[test]
fn statements_end_when_they_are_cancelled_dropped_or_too_long() {
    let server = Server::with(both(), session());
    let url = server.flight.clone().unwrap().replace("grpc://", "http://");
    over(&server, async |channel| {
        let other = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let mut other = FlightSqlServiceClient::new(other);
        let mut client = FlightSqlServiceClient::new(channel.clone());
        for how in ["cancel", "drop"] {
            let info = client.execute(ENDLESS.into(), None).await.unwrap();
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let rows = client.do_get(ticket).await.unwrap();
            while running(&mut other, "x.a * y.a").await == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let begun = std::time::Instant::now();
            if how == "cancel" {
                let body = arrow_flight::CancelFlightInfoRequest::new(info).encode_to_vec();
                let mut low = FlightClient::new(channel.clone());
                let answer = low.do_action(Action::new("CancelFlightInfo", body.clone()));
                let answer: Vec<_> = answer.await.unwrap().try_collect().await.unwrap();
                assert_eq!(answer.len(), 1);
                let told = code(rows.try_collect::<Vec<_>>().await);
                assert_eq!(told.0, Code::Cancelled, "{}", told.1);
                eprintln!("cancelled after {:?}", begun.elapsed());
                let again = match low.do_action(Action::new("CancelFlightInfo", body)).await {
                    Ok(answer) => answer.try_collect::<Vec<_>>().await,
                    Err(error) => Err(error),
                };
                assert_eq!(code(again).0, Code::NotFound);
            } else {
                drop(rows);
            }
            while running(&mut other, "x.a * y.a").await > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                assert!(begun.elapsed() < Duration::from_secs(60));
            }
            eprintln!("{how}: over after {:?}", begun.elapsed());
        }
        client
            .execute_update("SET statement_timeout = 100".into(), None)
            .await
            .unwrap();
        let info = client.execute(ENDLESS.into(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let rows = client.do_get(ticket).await.unwrap();
        let told = code(rows.try_collect::<Vec<_>>().await);
        assert_eq!(told.0, Code::DeadlineExceeded, "{}", told.1);
    });
}

#[test]
fn clients_that_are_killed_while_rows_come_leave_nothing_behind() {
    let server = Server::with(both(), session());
    let port = server.flight.as_ref().unwrap().rsplit(':').next().unwrap();
    let python =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pg-clients/bin/python");
    let Some(_) = self::python(&server, &[], "") else {
        return;
    };
    let program = format!(
        "import adbc_driver_flightsql.dbapi, time\nFLIGHT = {port}\n{CONNECT}\n{}",
        r#"
c = connect()
cur = c.cursor()
cur.execute("SELECT a.a, b.a, repeat('x', 100) FROM n a, n b")
cur.fetchone()
print("reading", flush=True)
time.sleep(600)
"#
    );
    let mut after = Vec::new();
    for _ in 0..3 {
        let mut client = Command::new(&python)
            .args(["-c", &program])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = client.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert_eq!(line, "reading\n");
        client.kill().unwrap();
        client.wait().unwrap();
        over(&server, async |channel| {
            let mut watcher = FlightSqlServiceClient::new(channel);
            let begun = std::time::Instant::now();
            while running(&mut watcher, "repeat").await > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                assert!(begun.elapsed() < Duration::from_secs(60));
            }
        });
        after.push(resident_mib());
    }
    eprintln!("MiB after each client: {after:?}");
    assert!(
        after[2] <= after[1] + 64,
        "MiB after each client: {after:?}"
    );
}

#[test]
fn a_client_that_takes_no_rows_does_not_keep_others_waiting() {
    let server = Server::with(both(), session());
    let url = server.flight.clone().unwrap().replace("grpc://", "http://");
    over(&server, async |channel| {
        let mut idle = Vec::new();
        // More than may run at a time, each with more rows than buffers take; over connections of
        // their own, because one of them takes only so much that is not read.
        for _ in 0..6 {
            let endpoint = Endpoint::from_shared(url.clone()).unwrap();
            let mut lazy = FlightSqlServiceClient::new(endpoint.connect().await.unwrap());
            let text = "SELECT a.a, b.a FROM n a, n b";
            let info = lazy.execute(text.into(), None).await.unwrap();
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let mut rows = lazy.do_get(ticket).await.unwrap();
            assert!(rows.try_next().await.unwrap().is_some());
            idle.push(rows);
        }
        let mut client = FlightSqlServiceClient::new(channel);
        let info = client.execute("SELECT count(*) FROM t".into(), None);
        let info = info.await.unwrap();
        let rows = rows(&mut client, info).await;
        assert_eq!(rows[0].num_rows(), 1);
    });
}

#[test]
fn flight_alone_is_served_and_strangers_are_refused() {
    let mut options = both();
    options.addresses.clear();
    let server = Server::with(options.clone(), session());
    over(&server, async |channel| {
        let mut client = FlightClient::new(channel);
        let query = CommandStatementQuery {
            query: "SELECT 1".into(),
            transaction_id: None,
        };
        let command = FlightDescriptor::new_cmd(query.as_any().encode_to_vec());
        assert_eq!(
            client
                .get_flight_info(command)
                .await
                .unwrap()
                .endpoint
                .len(),
            1
        );
    });
    assert_eq!(server.end(), Ok(()));
    for (passwords, part) in [
        (None, "no password is needed"),
        (Some(Passwords::One("x".into())), "nothing is encrypted"),
    ] {
        options.flight = Some("0.0.0.0:0".parse().unwrap());
        options.passwords = passwords;
        let told = Server::refused(&options, session()).to_string();
        assert!(
            told.contains("Flight SQL at") && told.contains(part),
            "{told}"
        );
    }
}
