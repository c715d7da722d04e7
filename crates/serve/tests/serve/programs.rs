//! Programs of Python: drivers that read binary values, prepare statements and fetch some rows at a
//! time.

use super::support::{ENDLESS, Server, open, printed, ssb_answers, with_ssb};
use tierloom_workloads::ssb::queries;

#[test]
fn psycopg_binds_parameters_fetches_parts_and_sees_codes() {
    let server = Server::start();
    let Some(output) = server.python(
        &["psycopg", "datetime", "decimal"],
        r#"
url = f"host=127.0.0.1 port={PORT} user=tester dbname=tierloom"
with psycopg.connect(url, autocommit=True) as c:
    for binary in (False, True):
        cur = c.cursor(binary=binary)
        for n in range(8):  # Prepared by the client from the sixth time on.
            rows = cur.execute("SELECT a, b FROM t WHERE a >= %s ORDER BY a", (2,)).fetchall()
            assert rows == [(2, ""), (3, None)], rows
        row = cur.execute(
            "SELECT 1.25::decimal(6,2), DATE '2024-02-29', TIMESTAMP '2024-02-29 01:02:03.5',"
            " true, 2.5::double, 'ö', CAST(NULL AS int), 18446744073709551615::bigint unsigned").fetchone()
        assert row == (decimal.Decimal("1.25"), datetime.date(2024, 2, 29),
            datetime.datetime(2024, 2, 29, 1, 2, 3, 500000), True, 2.5, "ö", None,
            decimal.Decimal(18446744073709551615)), row
        rows = cur.execute("SELECT %s, %s, %s", ("it's", 7, 1.5)).fetchall()
        assert rows == [("it's", 7, 1.5)], rows
    try:
        c.execute("SELECT * FROM nothing")
        assert False
    except psycopg.errors.UndefinedTable as error:
        assert "nothing" in str(error)
    with c.pipeline():
        a, b = c.execute("SELECT 1"), c.execute("SELECT %s::int", (2,))
    assert (a.fetchone(), b.fetchone()) == ((1,), (2,))
    with c.cursor() as cur, cur.copy("COPY (SELECT a, b FROM t ORDER BY a) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int8", "text"])
        assert list(copy.rows()) == [(1, "one"), (2, ""), (3, None)]
    c.execute("CREATE TABLE arrived (a INT, b TEXT)")
    with c.cursor() as cur:
        with cur.copy("COPY arrived (a, b) FROM STDIN") as copy:
            for row in [(1, "x\ty\n\\"), (2, None), (3, "")]:
                copy.write_row(row)
        assert cur.rowcount == 3, cur.rowcount
    try:
        with c.cursor() as cur, cur.copy("COPY arrived FROM STDIN") as copy:
            copy.write_row((4, "never"))
            raise ValueError("the client gives up")
    except ValueError:
        pass
    rows = c.execute("SELECT a, b FROM arrived ORDER BY a").fetchall()
    assert rows == [(1, "x\ty\n\\"), (2, None), (3, "")], rows
    for n in range(8):  # Prepared by the client from the sixth time on.
        cur = c.execute("UPDATE arrived SET b = %s WHERE a = %s RETURNING a, upper(b)", (f"n{n}", 2))
        assert (cur.fetchall(), cur.rowcount) == ([(2, f"N{n}")], 1), n
    cur = c.execute("INSERT INTO arrived VALUES (%s, 'new') RETURNING a + %s", (7, 1))
    assert (cur.fetchall(), cur.statusmessage) == ([(8,)], "INSERT 0 1"), cur.statusmessage
    with c.cursor() as cur:
        seen = sum(len(row) for row in cur.stream("SELECT a FROM n"))
        assert seen == 20000, seen
with psycopg.connect(url) as c:
    assert c.execute("SELECT count(*) FROM t").fetchone() == (3,)
    assert c.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    c.rollback()
    assert c.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
print("done")
"#,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn asyncpg_reads_binary_values_and_cursors_beside_other_statements() {
    let server = Server::start();
    let Some(output) = server.python(
        &["asyncpg", "asyncio", "datetime", "decimal"],
        r#"
async def main():
    c = await asyncpg.connect(host="127.0.0.1", port=PORT, user="tester", database="tierloom")
    rows = await c.fetch("SELECT a, b FROM t WHERE a >= $1 ORDER BY a", 2)
    assert [tuple(r) for r in rows] == [(2, ""), (3, None)], rows
    row = await c.fetchrow("SELECT 1.25::decimal(6,2), DATE '2024-02-29', TIMESTAMP '2024-02-29 01:02:03.5', 2.5::double")
    assert tuple(row) == (decimal.Decimal("1.25"), datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 500000), 2.5), row
    async with c.transaction():
        seen = 0
        async for row in c.cursor("SELECT a FROM n ORDER BY a", prefetch=1000):
            seen += 1
            if seen % 5000 == 0:
                assert await c.fetchval("SELECT count(*) FROM t") == 3
        assert seen == 20000, seen
    try:
        await c.fetch(ENDLESS, timeout=0.3)
        assert False
    except asyncio.TimeoutError:
        pass
    assert await c.fetchval("SELECT 1") == 1
    await c.execute("CREATE TABLE arrived (a INT, b TEXT, c DOUBLE PRECISION, d DECIMAL(10,2),"
        " e DATE, f TIMESTAMP, g BYTEA, h BOOLEAN, i BIGINT)")
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3, 500000)
    records = [(n, f"n{n}" if n % 3 else None, n / 2, decimal.Decimal(n) / 4,
        datetime.date(1970 + n % 90, 2, 3), moment + datetime.timedelta(microseconds=n),
        bytes([n % 256]), None if n % 5 == 0 else n % 2 == 0, -n << 40) for n in range(20000)]
    said = await c.copy_records_to_table("arrived", records=records)
    assert said == "COPY 20000", said
    assert [tuple(r) for r in await c.fetch("SELECT * FROM arrived ORDER BY a")] == records
    said = await c.copy_records_to_table("arrived", records=[("x", -1)], columns=["b", "a"])
    assert await c.fetchrow("SELECT a, b, c FROM arrived WHERE a < 0") == (-1, "x", None)
    await c.close()
    pool = await asyncpg.create_pool(host="127.0.0.1", port=PORT, user="tester",
        database="tierloom", min_size=60, max_size=60)
    async def one(i):
        async with pool.acquire() as c:
            return await c.fetchval("SELECT sum(a) FROM n WHERE a <= $1", i)
    sums = await asyncio.gather(*(one(i) for i in range(1, 201)))
    assert sums == [i * (i + 1) // 2 for i in range(1, 201)], sums
    await pool.close()
    print("done")
ENDLESS = "SELECT count(*) FROM n x, n y, n z WHERE x.a * y.a + z.a = 7"
asyncio.run(main())
"#,
    ) else {
        return;
    };
    assert!(ENDLESS.starts_with("SELECT count(*) FROM n x"));
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn adbc_reads_the_star_schema_benchmark_by_binary_copies() {
    let server = Server::with(open(), with_ssb());
    let all: Vec<String> = queries().iter().map(|q| format!("{:?}", q.sql)).collect();
    let program = format!(
        "QUERIES = [{}]\n{}",
        all.join(", "),
        r#"
import psycopg
c = adbc_driver_postgresql.dbapi.connect(f"postgresql://tester@127.0.0.1:{PORT}/tierloom")
p = psycopg.connect(f"host=127.0.0.1 port={PORT} user=tester dbname=tierloom", autocommit=True)
def plain(value):
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value
for sql in QUERIES:
    with c.cursor() as cur:
        cur.execute(sql)
        table = cur.fetch_arrow_table()
    rows = [tuple(plain(v) for v in row.values()) for row in table.to_pylist()]
    others = [tuple(plain(v) for v in row) for row in p.execute(sql).fetchall()]
    assert rows == others and (rows or True), (sql, rows[:3], others[:3])
with c.cursor() as cur:
    cur.execute("SELECT a, b FROM t ORDER BY a")
    assert cur.fetchall() == [(1, "one"), (2, ""), (3, None)]
import datetime
t = pyarrow.table({"a": [1, 2, None], "b": ["x", None, ""], "c": [0.5, None, 2.5],
    "d": [True, None, False], "e": [datetime.date(2024, 2, 29), None, datetime.date(1970, 1, 1)]})
with c.cursor() as cur:
    assert cur.adbc_ingest("ingested", t, mode="create") == 3
    assert cur.adbc_ingest("ingested", t, mode="append") == 3
    cur.execute("SELECT a, b, c, d, e FROM ingested ORDER BY a, b")
    back = cur.fetch_arrow_table()
    assert back.num_rows == 6
    assert sorted(back["a"].drop_null().to_pylist()) == [1, 1, 2, 2], back
    assert set(back["b"].to_pylist()) == {"x", None, ""}, back
    assert set(back["e"].to_pylist()) == set(t["e"].to_pylist()), back
print("done")
"#
    );
    let modules = ["adbc_driver_postgresql.dbapi", "pyarrow", "psycopg"];
    let Some(output) = server.python(&modules, &program) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn duckdb_attaches_the_server_reads_writes_and_answers_as_the_shell() {
    let server = Server::with(open(), with_ssb());
    let program = ssb_answers()
        + r#"
from pathlib import Path
folder = Path(duckdb_extension_postgres_scanner.__file__).parent
extension = folder / f"extensions/v{duckdb.__version__}/postgres_scanner.duckdb_extension"
db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
db.execute(f"LOAD '{extension}'")
db.execute(f"ATTACH 'host=127.0.0.1 port={PORT} user=tester dbname=tierloom' AS pg (TYPE postgres)")
tables = {row[2] for row in db.execute("SHOW ALL TABLES").fetchall()}
assert {"lineorder", "date", "customer", "supplier", "part", "t", "n"} <= tables, tables
assert db.execute("SELECT a, b FROM pg.public.t ORDER BY a").fetchall() == [(1, "one"), (2, ""), (3, None)]
assert db.execute("SELECT sum(a) FROM pg.public.n").fetchone() == (200010000,)

def lines(sql):
    return ["|".join(str(v) for v in row) for row in db.execute(sql).fetchall()]

# DuckDB reads the tables and answers itself; then the server answers, in a subquery, which has no
# order, and DuckDB reads that.
db.execute("USE pg.public")
for sql, expected in zip(QUERIES, EXPECTED, strict=True):
    expected = expected.splitlines()
    assert lines(sql) == expected, (sql, lines(sql)[:3], expected[:3])
    asked = sql.replace("'", "''")
    answered = lines(f"SELECT * FROM postgres_query('pg', '{asked}')")
    assert sorted(answered) == sorted(expected), (asked, answered[:3], expected[:3])

made = """SELECT 1 AS a, 'x' AS b, DATE '2024-02-29' AS c, 0.1::DOUBLE AS d, 12.34::DECIMAL(10, 2) AS e,
    TIMESTAMP '2024-01-01 01:02:03' AS f, NULL::INTEGER AS g, 1.5::FLOAT AS h, true AS i, [1, 2] AS j"""
db.execute(f"CREATE TABLE pg.public.made AS {made}")
assert db.execute("SELECT * FROM pg.public.made").fetchall() == db.execute(made).fetchall()
db.execute("INSERT INTO pg.public.made (a, b, d) VALUES (2, 'y', 2.5), (3, NULL, NULL)")
db.execute("CREATE TABLE memory.many AS SELECT range AS a, range * 0.1 AS b FROM range(50000)")
db.execute("CREATE TABLE pg.public.many AS FROM memory.many")
same = "SELECT count(*), sum(a), sum(b) FROM {}.many"
assert db.execute(same.format("pg.public")).fetchone() == db.execute(same.format("memory")).fetchone()
rows = db.execute("SELECT a, b, d FROM pg.public.made ORDER BY a").fetchall()
assert rows == [(1, "x", 0.1), (2, "y", 2.5), (3, None, None)], rows
db.execute("DROP TABLE pg.public.made; DROP TABLE pg.public.many")
print("done")
"#;
    let modules = ["duckdb", "duckdb_extension_postgres_scanner"];
    let Some(output) = server.python(&modules, &program) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn sqlalchemy_reflects_tables_and_pandas_reads_and_writes_them() {
    let server = Server::with(open(), with_ssb());
    let Some(output) = server.python(
        &["sqlalchemy", "pandas", "psycopg", "datetime"],
        r##"
import sqlalchemy as sa, pandas as pd
from sqlalchemy.ext.automap import automap_base
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
e = sa.create_engine(f"postgresql+psycopg://ada@127.0.0.1:{PORT}/tierloom")
see = sa.inspect(e)
assert {"lineorder", "date", "part"} <= set(see.get_table_names()), see.get_table_names()
assert "public" in see.get_schema_names()
columns = {c["name"]: c for c in see.get_columns("supplier")}
assert isinstance(columns["s_suppkey"]["type"], sa.Integer), columns
assert isinstance(columns["s_name"]["type"], sa.Text), columns
for nothing in (see.get_indexes, see.get_foreign_keys, see.get_unique_constraints):
    assert nothing("supplier") == [], nothing
supplier = sa.Table("supplier", sa.MetaData(), autoload_with=e)
with e.connect() as c:
    count = c.execute(sa.select(sa.func.count()).select_from(supplier)).scalar()
    assert count == 20, count
    like = c.execute(sa.text("SELECT count(*) FROM supplier WHERE s_name LIKE '%/_%' ESCAPE '/'"))
    assert like.scalar() == 0
    other = c.execute(sa.select(sa.func.count()).where(supplier.c.s_name.contains("#", autoescape=True)))
    assert other.scalar() == 20
automap_base().prepare(autoload_with=e)

class Base(DeclarativeBase):
    pass

class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]
    since: Mapped[datetime.date]

Base.metadata.create_all(e)
with Session(e) as s:
    s.add_all([User(id=n, name=f"n{n}", since=datetime.date(2020, 1, n)) for n in (1, 2, 3)])
    s.commit()
    s.execute(sa.update(User).where(User.id == 2).values(name="two"))
    s.execute(sa.delete(User).where(User.id == 3))
    s.commit()
    found = [(u.id, u.name, u.since.day) for u in s.scalars(sa.select(User).order_by(User.id))]
    assert found == [(1, "n1", 1), (2, "two", 2)], found

frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0.1, 2.5, None],
    "t": pd.to_datetime(["2020-01-01", "2021-02-03", None])})
for _ in range(2):
    frame.to_sql("frame", e, index=False, if_exists="replace")
frame.to_sql("frame", e, index=False, if_exists="append", method="multi")
back = pd.read_sql_table("frame", e)
assert back["a"].sum() == 12 and back["b"].isna().sum() == 2, back
pd.testing.assert_frame_equal(back.iloc[:3], frame, check_dtype=False)
frame.to_sql("indexed", e, index=True)
rows = sum(len(part) for part in pd.read_sql("SELECT * FROM lineorder", e, chunksize=5000))
assert rows == pd.read_sql("SELECT count(*) n FROM lineorder", e)["n"][0], rows
print("done")
"##,
    ) else {
        return;
    };
    assert_eq!(printed(&output), "done\n");
}
