"""Statements: streaming, errors with places, threads, signals and forks."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import polars
import pyarrow
import pytest

import tierloom

# Rows of this end only after hours, but come from the start on.
ENDLESS = "select a.value + b.value as x from range(0, 1000000) a, range(0, 1000000) b"


def test_the_first_rows_arrive_while_the_query_runs(con):
    result = con.sql(ENDLESS)
    rows = iter(result)
    assert next(rows).num_rows > 0
    with pytest.raises(tierloom.Error, match="still delivers rows"):
        con.sql("select 1")
    result.close()
    assert con.sql("select 1").fetchall() == [(1,)]


def test_a_consumer_of_arrow_gets_rows_while_the_query_runs(con):
    reader = pyarrow.RecordBatchReader.from_stream(con.sql(ENDLESS))
    assert reader.read_next_batch().num_rows > 0
    reader.close()
    del reader
    assert con.sql("select 1").fetchall() == [(1,)]


def test_memory_does_not_grow_with_the_rows_that_wait():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with tierloom.connect(threads=2) as con:
        rows, most, read = iter(con.sql(ENDLESS)), 0, 0
        next(rows)
        before = resident()
        while read < 30_000_000:
            read += next(rows).num_rows
            most = max(most, resident())
        # The rows read take 240 MB.
        assert most - before < 100 << 20


def test_nothing_runs_before_rows_are_read(con):
    result = con.sql(ENDLESS)
    assert [name for name, _ in result.columns] == ["x"]
    assert pyarrow.schema(result).names == ["x"]
    # Were it running, this would be refused.
    assert con.sql("select 1").fetchall() == [(1,)]


def test_statements_of_one_text_run_in_order_and_the_last_gives_rows(con):
    result = con.sql(
        "create table t as select 1 as x;"
        "create view v as select x + 1 as y from t;"
        "select y from v;"
    )
    assert result.fetchall() == [(2,)]
    assert [(name, kind) for name, kind, _ in con.tables() if kind != "system"] == [
        ("t", "table"),
        ("v", "view"),
    ]
    assert con.sql("drop view v").fetchall() == []
    said = con.sql("create table u as select x from t")
    assert "u" in said.message and said.fetchall() == []


def test_explanations_are_kept_and_shown_in_notebooks(ssb):
    sql = "select sum(lo_revenue) from lineorder where lo_discount < 3"
    explanation = ssb.explain_placement(sql)
    assert "lo_revenue" in str(explanation)
    html = explanation._repr_html_()
    assert html.startswith("<table>") and "lo_revenue" in html
    assert pyarrow.table(explanation).num_rows == len(explanation.fetchall()) > 0
    shown = [line.split() for line in str(explanation).splitlines()[1:]]
    assert [row[0] for row in shown] == [str(row[0]) for row in explanation.fetchall()]
    assert ssb.explain_placement(sql, analyze=True).fetchall()
    assert ssb.sql(f"explain {sql}").arrow().num_rows > 0
    with pytest.raises(tierloom.InputError) as raised:
        ssb.explain_placement("select nosuch from lineorder")
    assert (raised.value.line, raised.value.column) == (1, 8)
    assert str(raised.value).startswith("1:8: ")


def test_an_explanation_is_shown_without_other_libraries(ssb, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    explanation = ssb.explain_placement("select sum(lo_revenue) from lineorder")
    assert "lo_revenue" in str(explanation) and "lo_revenue" in explanation._repr_html_()
    with pytest.raises(tierloom.Error, match="pip install pyarrow"):
        explanation.fetchall()


def test_operator_memory_is_a_table(con):
    names = [name for name, _ in con.memory().columns]
    assert "class" in names
    assert con.memory().arrow().num_rows > 0


@pytest.mark.parametrize(
    ("sql", "params", "line", "column"),
    [
        ("select nosuch", [], 1, 8),
        ("select 1,\n  nosuch", [], 2, 3),
        ("selec 1", [], 1, 1),
        ("select 1; select nosuch", [], 1, 18),
        ("select $1, nosuch", ["a long value\nof two lines"], 1, 12),
        ("select $1", [], 1, 8),
        ("select 2; select 1 as a, 2 as a", [], 1, 11),
        ("set tierloom.placement = 'nosuch'", [], 1, 1),
        ("", [], None, None),
    ],
)
def test_errors_in_statements_have_line_and_column(con, sql, params, line, column):
    with pytest.raises(tierloom.InputError) as raised:
        con.sql(sql, params).fetchall()
    assert isinstance(raised.value, tierloom.Error)
    assert (raised.value.line, raised.value.column) == (line, column)
    if line is not None:
        assert str(raised.value).startswith(f"{line}:{column}: ")


def test_failures_while_rows_are_computed_are_errors_but_not_of_input(con):
    con.register("t", pyarrow.table({"x": [1, 0]}))
    for read in [tierloom.Result.fetchall, tierloom.Result.polars, list]:
        with pytest.raises(tierloom.Error) as raised:
            read(con.sql("select 1 / x from t"))
        assert not isinstance(raised.value, tierloom.InputError)
    with pytest.raises(Exception, match="[Dd]ivide by zero"):
        polars.DataFrame(con.sql("select 1 / x from t"))
    assert con.sql("select 1").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "options",
    [
        {"placement": "nosuch"},
        {"placement": "3:x"},
        {"placement": "tier"},
        {"threads": 0},
        {"threads": 10**6},
        {"pages": "3k"},
        {"tiers": "dram=99"},
        {"machine": "nosuch"},
        {"placement": "--help"},
    ],
)
def test_options_that_cannot_be_are_refused_by_one_line(options):
    with pytest.raises(tierloom.InputError) as raised:
        tierloom.connect(**options)
    assert "\n" not in str(raised.value)


def in_process(code):
    """Runs `code` in a process of its own and returns what it prints."""
    code = textwrap.dedent(code)
    started = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return started


INTERRUPTED = """
    import polars, tierloom
    con = tierloom.connect(threads=2)
    con.sql("create table t as select value as x from range(0, 10000)")
    # No row before the end, which is hours away.
    slow = "select count(*) from t a, t b, t c where a.x + b.x * c.x = 17"

    def given_to_polars():
        # It raises its own error; the interpreter still learns of the signal.
        try:
            polars.DataFrame(con.sql(slow))
        except polars.exceptions.ComputeError as error:
            assert "interrupted" in str(error)

    print("ready", flush=True)
    try:
        {act}
        print("ended", flush=True)
    except KeyboardInterrupt:
        print("interrupted", con.sql("select count(*) from t").fetchall(), flush=True)
"""


@pytest.mark.parametrize(
    "act",
    [
        "con.sql(slow).fetchall()",
        "con.sql(slow).polars()",
        "list(con.sql(slow))",
        "con.sql('create table u as ' + slow)",
        "con.sql(slow).reader().read_all()",
        "given_to_polars()",
    ],
)
def test_ctrl_c_stops_the_statement_and_the_session_goes_on(act):
    started = in_process(INTERRUPTED.format(act=act))
    assert started.stdout.readline() == "ready\n"
    time.sleep(0.5)
    started.send_signal(signal.SIGINT)
    printed, _ = started.communicate(timeout=60)
    assert printed.startswith("interrupted [(10000,)]"), printed


def test_another_thread_can_interrupt_and_the_lock_is_free_meanwhile(con):
    con.sql("create table t as select value as x from range(0, 10000)")
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.01):
            ticks.append(1)
            if len(ticks) == 50:
                con.interrupt()

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        with pytest.raises(tierloom.Error, match="stopped"):
            con.sql("select count(*) from t a, t b, t c where a.x + b.x * c.x = 17").arrow()
    finally:
        done.set()
        thread.join()
    assert len(ticks) >= 50
    assert con.sql("select count(*) from t").fetchall() == [(10000,)]


def test_threads_take_turns_on_one_connection(ssb):
    def sums():
        return ssb.sql("select sum(lo_revenue) from lineorder").fetchall()

    expected, found = sums(), []
    threads = [
        threading.Thread(target=lambda: found.extend(sums() for _ in range(5))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 20


def child(connection, pipe):
    try:
        connection.sql("select 1").fetchall()
        pipe.send("answered")
    except tierloom.Error as error:
        pipe.send(str(error))
    try:
        tierloom.connect()
        pipe.send("connected")
    except tierloom.Error as error:
        pipe.send(str(error))


def fresh(pipe):
    with tierloom.connect(threads=1) as con:
        pipe.send(con.sql("select 1").fetchall())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told_to_spawn_and_does_not_hang(con):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(con, there))
    process.start()
    for _ in range(2):
        assert here.poll(60)
        assert 'method "spawn"' in here.recv()
    process.join(60)
    assert process.exitcode == 0
    assert con.sql("select 1").fetchall() == [(1,)]


def test_a_spawned_process_connects():
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=fresh, args=(there,))
    process.start()
    assert here.poll(60)
    assert here.recv() == [(1,)]
    process.join(60)
    assert process.exitcode == 0


def test_nothing_is_started_by_the_import():
    code = "import os, tierloom; print(len(os.listdir('/proc/self/task')))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "1"


def test_a_report_is_made_of_records_and_shown_in_a_frame(shell, tmp_path):
    records = tmp_path / "records.jsonl"
    shell("cost", "--demand", "1TiB", "--records", str(records))
    report = tierloom.report(records, title="Prices & more")
    assert "Prices &amp; more" in report.html
    assert report._repr_html_().startswith("<iframe srcdoc=")
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == report.html
    with pytest.raises(tierloom.InputError, match="nosuch"):
        tierloom.report(tmp_path / "nosuch.jsonl")
