//! ODBC and connectorx: what reporting tools and polars read tables by.

use super::support::{Server, open, printed, with_ssb};
use tierloom_workloads::ssb::queries;

/// The queries of the Star Schema Benchmark, and their rows as psycopg reads them.
fn with_queries(program: &str) -> String {
    let all: Vec<String> = queries().iter().map(|q| format!("{:?}", q.sql)).collect();
    format!(
        r#"
QUERIES = [{}]
assert len(QUERIES) == 13
other = psycopg.connect(f"host=127.0.0.1 port={{PORT}} user=tester dbname=tierloom")
def plain(rows):
    # A sum without places after the point is a whole number in some and a text in others.
    def one(v):
        return int(v) if isinstance(v, (str, decimal.Decimal)) and re.fullmatch(r"-?\d+", str(v)) else v
    return [tuple(map(one, row)) for row in rows]
def expected(sql):
    return plain(other.execute(sql).fetchall())
assert any(expected(sql) for sql in QUERIES)
{program}
print("done")
"#,
        all.join(", ")
    )
}

#[test]
fn odbc_reads_the_star_schema_benchmark_lists_tables_and_binds_values() {
    let server = Server::with(open(), with_ssb());
    let program = with_queries(
        r#"
if "PostgreSQL Unicode" not in pyodbc.drivers():
    print("there is no ODBC driver (Debian: odbc-postgresql)")
    raise SystemExit
c = pyodbc.connect(f"Driver=PostgreSQL Unicode;Server=127.0.0.1;Port={PORT};Database=tierloom;"
    "Uid=tester", autocommit=True)
cursor = c.cursor()
for sql in QUERIES:
    assert plain(cursor.execute(sql).fetchall()) == expected(sql), sql
tables = {row.table_name: row.table_type for row in cursor.tables()}
assert tables["lineorder"] == "TABLE", tables
columns = [(row.column_name, row.type_name) for row in cursor.columns(table="supplier")]
assert columns[:2] == [("s_suppkey", "int4"), ("s_name", "text")], columns
cursor.execute("CREATE TABLE o (a INT PRIMARY KEY, b TEXT, c DECIMAL(10, 2), d DATE, e TIMESTAMP,"
    " f DOUBLE PRECISION)")
assert [row.column_name for row in cursor.primaryKeys("o")] == ["a"]
rows = [(n, None if n % 2 else f"é'{n}", decimal.Decimal("1.25"), datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 1, 2, 3), n / 2) for n in range(20)]
cursor.executemany("INSERT INTO o VALUES (?, ?, ?, ?, ?, ?)", rows)
back = cursor.execute("SELECT * FROM o WHERE a >= ? ORDER BY a", 7).fetchall()
assert list(map(tuple, back)) == rows[7:], back
assert cursor.execute("UPDATE o SET b = ? WHERE a < ?", "x", 3).rowcount == 3
try:
    cursor.execute("INSERT INTO o (a) VALUES (1)")
    assert False
except pyodbc.IntegrityError as error:
    assert error.args[0] == "23505", error
"#,
    );
    let modules = ["pyodbc", "psycopg", "decimal", "datetime", "re"];
    let Some(output) = server.python(&modules, &program) else {
        return;
    };
    let said = printed(&output);
    if said.starts_with("there is no") {
        tierloom_testing::checked_nothing(said.trim());
        return;
    }
    assert_eq!(said, "done\n");
}

#[test]
fn connectorx_and_polars_read_by_every_protocol_and_in_parts() {
    let server = Server::with(open(), with_ssb());
    let program = with_queries(
        r#"
url = f"postgresql://tester@127.0.0.1:{PORT}/tierloom"
for sql in QUERIES:
    text = sql.strip().rstrip(";")
    for protocol in ("binary", "csv", "cursor", "simple"):
        table = connectorx.read_sql(url, text, return_type="arrow", protocol=protocol)
        rows = plain(row.values() for row in table.to_pylist())
        assert rows == expected(sql), (protocol, sql)
count = other.execute("SELECT count(*) FROM lineorder").fetchone()[0]
# It asks for the least and the greatest value and reads each part by a connection of its own.
parts = connectorx.read_sql(url, "SELECT lo_orderkey, lo_revenue FROM lineorder",
    return_type="arrow", partition_on="lo_orderkey", partition_num=3)
assert parts.num_rows == count, parts.num_rows
for engine in ("connectorx", "adbc"):
    frame = polars.read_database_uri("SELECT lo_orderkey FROM lineorder", url, engine=engine)
    assert frame.height == count, (engine, frame)
"#,
    );
    let modules = [
        "connectorx",
        "polars",
        "psycopg",
        "adbc_driver_postgresql.dbapi",
        "decimal",
        "re",
    ];
    let Some(output) = server.python(&modules, &program) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}
