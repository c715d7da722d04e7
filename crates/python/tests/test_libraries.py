"""Rows come from and go to the libraries that people use."""

import datetime
import decimal

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import tierloom

COLUMNS = {
    "i": [1, 2, None, 4],
    "f": [0.5, None, -1.5, 2.0],
    "s": ["a", "", None, "a longer text, of more than twelve bytes"],
    "b": [True, None, False, True],
}
ROWS = list(zip(*COLUMNS.values()))
SELECT = "select i, f, s, b from t order by i nulls last"
SORTED = [ROWS[0], ROWS[1], ROWS[3], ROWS[2]]


def sources():
    arrow = pyarrow.table(COLUMNS)
    yield "pyarrow table", arrow
    yield "pyarrow batch", pyarrow.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches())
    yield "polars frame", polars.DataFrame(COLUMNS)
    yield "pandas frame", arrow.to_pandas(types_mapper=pandas.ArrowDtype)
    yield "pandas frame of objects", pandas.DataFrame(COLUMNS, dtype=object).astype({"f": float})
    yield "duckdb relation", duckdb.sql("select * from arrow")
    yield "pyarrow views", arrow.cast(
        pyarrow.schema([("i", "int64"), ("f", "float64"), ("s", "string_view"), ("b", "bool")])
    )
    words = arrow.column("s").dictionary_encode()
    yield "dictionary", arrow.set_column(2, "s", words)


@pytest.mark.parametrize("name", [name for name, _ in sources()])
def test_rows_of_every_library_are_loaded(con, name):
    source = dict(sources())[name]
    assert con.register("t", source) == 4
    assert con.sql(SELECT).fetchall() == SORTED


def test_results_are_sources_too(con):
    con.register("t", pyarrow.table(COLUMNS))
    with tierloom.connect(threads=1) as other:
        assert other.register("t", con.sql("select * from t")) == 4
        assert other.sql(SELECT).fetchall() == SORTED


@pytest.mark.parametrize("strings", [None, "utf8", "view", "dictionary"])
def test_every_library_reads_results_in_every_form_of_strings(con, strings):
    con.register("t", pyarrow.table(COLUMNS))

    def result():
        return con.sql(SELECT, strings=strings)

    assert result().fetchall() == SORTED
    assert [tuple(row.values()) for row in result().arrow().to_pylist()] == SORTED
    assert result().polars().rows() == SORTED
    assert polars.DataFrame(result()).rows() == SORTED
    assert [tuple(row.values()) for row in result().reader().read_all().to_pylist()] == SORTED
    frame = result().pandas()
    assert list(frame["s"].astype(object).where(frame["s"].notna(), None)) == [r[2] for r in SORTED]
    streamed = result()
    assert duckdb.sql("select * from streamed").fetchall() == SORTED
    batches = [pyarrow.record_batch(batch) for batch in result()]
    assert sum(batch.num_rows for batch in batches) == 4
    form = {
        "utf8": pyarrow.string(),
        "view": pyarrow.string_view(),
        "dictionary": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    }
    if strings:
        assert pyarrow.schema(result()).field("s").type == form[strings]
        assert batches[0].schema.field("s").type == form[strings]


def test_a_requested_schema_is_honoured_for_strings(con):
    con.register("t", pyarrow.table(COLUMNS))
    schema = pyarrow.schema(con.sql(SELECT))
    for form in [pyarrow.string(), pyarrow.string_view(), pyarrow.large_string()]:
        wanted = schema.set(2, pyarrow.field("s", form))
        read = pyarrow.RecordBatchReader.from_stream(con.sql(SELECT), schema=wanted)
        assert read.schema.field("s").type == form
        assert read.read_all().column("s").to_pylist() == [row[2] for row in SORTED]


def test_files_are_loaded_by_path_folder_and_pattern(con, tmp_path):
    table = pyarrow.table(COLUMNS)
    for part in range(3):
        pyarrow.parquet.write_table(table, tmp_path / f"{part}.parquet")
    assert con.read_parquet("one", tmp_path / "1.parquet") == 4
    assert con.read_parquet("some", str(tmp_path / "[01].parquet")) == 8
    assert con.read_parquet("folder", tmp_path) == 12
    text = tmp_path / "t.txt.csv"
    text.write_text("a|b\n1|x\nNA|y\n")
    assert con.read_csv("c", text, delimiter="|", nulls=["NA"]) == 2
    assert con.sql("select a, b from c order by b").fetchall() == [(1, "x"), (None, "y")]
    for path in [tmp_path / "nosuch.csv", tmp_path / "nosuch*.csv"]:
        with pytest.raises(tierloom.InputError, match="nosuch"):
            con.read_csv("d", path)


def test_a_table_is_replaced_only_when_asked_and_only_by_a_whole_one(con):
    con.register("t", pyarrow.table({"x": [1]}))
    with pytest.raises(tierloom.InputError, match="there is a table t already"):
        con.register("t", pyarrow.table({"x": [2]}))

    def broken():
        yield pyarrow.record_batch({"x": [3]})
        raise ValueError("the source broke")

    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema([("x", "int64")]), broken())
    with pytest.raises(tierloom.Error, match="the source broke"):
        con.register("t", reader, replace=True)
    assert con.sql("select x from t").fetchall() == [(1,)]
    con.register("t", pyarrow.table({"x": [2]}), replace=True)
    assert con.sql("select x from t").fetchall() == [(2,)]


def test_what_has_no_rows_of_arrow_is_refused_by_its_type(con):
    with pytest.raises(tierloom.InputError, match="list has no __arrow_c_stream__"):
        con.register("t", [1, 2])
    with pytest.raises(tierloom.InputError, match="two columns named a"):
        con.register("t", pyarrow.Table.from_arrays([[1], [2]], ["a", "a"]))
    with pytest.raises(tierloom.InputError, match="has no columns"):
        con.register("t", pyarrow.table({}))
    with pytest.raises(tierloom.InputError, match="is no name for a table"):
        con.register("a-b", pyarrow.table(COLUMNS))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -5,
        2**63 - 1,
        0.1,
        -1e300,
        1e-320,
        "it's; $1 -- \"x\"\n\\",
        "",
        b"\x00\xff",
        datetime.date(1996, 2, 29),
        datetime.datetime(2024, 1, 2, 3, 4, 5, 678901),
        datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        datetime.time(1, 2, 3, 4),
        decimal.Decimal("-12.340"),
        decimal.Decimal("1e5"),
        decimal.Decimal("0.001"),
    ],
)
def test_parameters_arrive_as_they_are(con, value):
    assert con.sql("select $1 as v", [value]).fetchall() == [(value,)]
    assert con.sql("select 1 where $1 is not distinct from $1", [value]).fetchall() == [(1,)]


def test_long_whole_numbers_stay_exact(con):
    assert con.sql("select $1 as v", [2**70 + 1]).fetchall() == [(2**70 + 1,)]


def test_values_without_a_literal_and_wrong_numbers_are_refused(con):
    for params in [[object()], [[1]], [10**80], [], [1, 2], "x"]:
        with pytest.raises(tierloom.InputError):
            con.sql("select $1", params).fetchall()
    assert str(con.sql("select $1 as f", [float("inf")]).fetchall()) == "[(inf,)]"


def test_the_example_runs():
    import os
    import subprocess
    import sys

    from conftest import ROOT

    script = ROOT / "examples/python/placement.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "revenue" in done.stdout
