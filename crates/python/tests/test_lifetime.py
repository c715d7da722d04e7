"""What results point to lives as long as they do, and is freed with them."""

import gc

import polars
import pyarrow
import pytest

import tierloom

ROWS = 200_000


def regions():
    """The ranges of this process's memory that are not files."""
    found = []
    for line in open("/proc/self/maps"):
        ends, _, _, _, inode, *_ = line.split()
        if inode == "0":
            first, last = ends.split("-")
            found.append((int(first, 16), int(last, 16)))
    return found


def addresses(chunks):
    """Where the values of arrays of pyarrow are."""
    return [chunk.buffers()[1].address + 8 * chunk.offset for chunk in chunks]


def of_polars(series):
    return addresses(chunk.to_arrow() for chunk in series.get_chunks())


def filled():
    con = tierloom.connect(threads=1)
    # Not multiples of anything that codes could stand for: these are stored as they are.
    con.register("t", pyarrow.table({"x": [i * 0.37 for i in range(ROWS)]}))
    return con


def test_columns_are_not_copied_into_results():
    with filled() as con:
        # Two reads share their memory, in one region of the size of the column, with two libraries.
        first, second = con.sql("select x from t").arrow(), con.sql("select x from t").polars()
        one = addresses(first.column("x").chunks)
        assert one == of_polars(second["x"])
        region = [r for r in regions() if r[0] <= min(one) < r[1]]
        assert len(region) == 1 and region[0][0] <= max(one) < region[0][1]
        assert max(one) - min(one) < 8 * ROWS


def test_placement_of_a_column_is_read_and_set():
    with filled() as con:
        con.placement["t.x"] = "0"
        assert con.placement["t.x"] == con.placement["t"]
        assert "0" in con.placement["t.x"]
        assert list(con.placement) == ["t.x"] and len(con.placement) == 1
        con.placement.default = "0"
        assert con.placement.default == "0"
        with pytest.raises(tierloom.InputError, match="has no column y"):
            con.placement["t.y"] = "dram"
        with pytest.raises(KeyError):
            con.placement["nosuch"]
        with pytest.raises(tierloom.InputError, match="expected table or table.column"):
            con.placement["a.b.c"] = "dram"


@pytest.mark.parametrize("end", ["drop", "close", "del"])
def test_frames_outlive_their_table_and_their_connection(end):
    con = filled()
    frame = con.sql("select x from t").polars()
    arrow = con.sql("select x from t").arrow()
    if end == "drop":
        con.sql("drop table t")
    elif end == "close":
        con.close()
    else:
        del con
        gc.collect()
    expected = sum(i * 0.37 for i in range(ROWS))
    assert frame["x"].sum() == pytest.approx(expected)
    assert arrow.column("x").to_pylist()[-1] == (ROWS - 1) * 0.37


def test_memory_is_freed_with_the_last_frame():
    con = filled()
    frame = con.sql("select x from t").polars()
    start = min(of_polars(frame["x"]))

    def mapped():
        return any(first <= start < last for first, last in regions())

    con.close()
    gc.collect()
    assert mapped()
    del frame
    gc.collect()
    assert not mapped()


def test_a_closed_connection_says_so_and_closing_twice_is_allowed():
    con = filled()
    waiting = con.sql("select x from t")
    con.close()
    con.close()
    assert con.closed and "closed" in repr(con)
    for act in [lambda: con.sql("select 1"), waiting.arrow, con.tables]:
        with pytest.raises(tierloom.Error, match="the connection is closed"):
            act()


def test_closing_while_a_result_is_read_ends_it():
    con = filled()
    con.sql("set tierloom.batch_rows = 100")
    result = con.sql("select x from t")
    rows = iter(result)
    assert next(rows).num_rows > 0
    con.close()
    with pytest.raises(tierloom.Error, match="stopped"):
        for _ in rows:
            pass


def test_many_connections_leave_no_threads_and_no_memory():
    def threads():
        import os

        return len(os.listdir("/proc/self/task"))

    tierloom.connect(threads=2).close()
    before, ranges = threads(), len(regions())
    for _ in range(50):
        with tierloom.connect(threads=2) as con:
            con.register("t", pyarrow.table({"x": [1]}))
            assert con.sql("select x from t").fetchall() == [(1,)]
    gc.collect()
    assert threads() <= before + 1
    assert len(regions()) <= ranges + 20


def test_a_result_is_read_once(ssb):
    result = ssb.sql("select count(*) from lineorder")
    assert result.fetchall()
    with pytest.raises(tierloom.Error, match="were read"):
        result.fetchall()
    assert [name for name, _ in result.columns] == ["count(*)"]


def test_frames_of_polars_compute_on_the_placed_columns(ssb):
    frame = ssb.sql("select lo_revenue, lo_discount from lineorder").polars()
    total = frame.select(polars.col("lo_revenue").cast(int).sum()).item()
    assert ssb.sql("select sum(lo_revenue) from lineorder").fetchone() == (total,)
