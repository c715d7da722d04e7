#!/usr/bin/env python3
"""Runs the Star Schema Benchmark in one engine and prints times and memory: started by
peers_sql.py, one process per engine and round.

    peers_sql_worker.py ENGINE --data DIR --sql DIR [--scratch DIR] [--threads N]
        [--queries q1.1,q2.1] [--warm N] [--repeat N]
    peers_sql_worker.py arrow --data DIR
    peers_sql_worker.py versions

Prints JSON lines: one "loaded", one "query" for each query, one "done". The data are the Arrow
files of `tierloom generate ssb --format arrow`.
"""

import argparse
import csv
import gc
import importlib
import importlib.metadata
import io
import json
import os
import sys
import time
from pathlib import Path

TABLES = ["lineorder", "customer", "supplier", "part", "date"]
ENGINES = ["duckdb", "datafusion", "polars", "chdb", "chdb-mergetree"]
PACKAGES = ["duckdb", "datafusion", "polars", "chdb", "pyarrow"]
# Rows per batch of the tables that DataFusion gets; with 8,192, 16,384 and 131,072 its times were
# the same or longer.
DATAFUSION_BATCH_ROWS = 32768


def mapped(data, name):
    """A table as Arrow, backed by its file: for engines that copy it into their own tables."""
    import pyarrow

    return pyarrow.ipc.open_file(pyarrow.memory_map(str(data / f"{name}.arrow"))).read_all()


def in_memory(data, name):
    """A table as Arrow in memory, for engines that work on Arrow data itself."""
    import pyarrow

    with pyarrow.OSFile(str(data / f"{name}.arrow")) as file:
        return pyarrow.ipc.open_file(file).read_all()


# ---- Engines: load the tables, run a text, run a prepared plan, return the answer ----------------


class DuckDb:
    """Its own tables in memory; a text is parsed, planned and run in one call; PREPARE and EXECUTE
    leave planning out.
    """

    settings = "in-memory database, `threads` set"

    def load(self, data, threads, scratch):
        import duckdb

        self.connection = duckdb.connect(config={"threads": threads})
        for name in TABLES:
            self.connection.register("arrow_source", mapped(data, name))
            self.connection.execute(f"create table {name} as select * from arrow_source")
            self.connection.unregister("arrow_source")

    def text(self, query, sql):
        return lambda: self._rows(sql)

    def prepared(self, query, sql):
        name = query.replace(".", "_")
        self.connection.execute(f"prepare {name} as {sql}")
        return lambda: self._rows(f"execute {name}")

    def _rows(self, statement):
        cursor = self.connection.execute(statement)
        return cursor.description, cursor.fetchall()

    def answer(self, result):
        description, rows = result
        return [column[0] for column in description], rows


class DataFusion:
    """Record batches in memory, two partitions of each table; a logical plan can be kept, which
    leaves out parsing and resolving only.
    """

    settings = f"in-memory record batches of {DATAFUSION_BATCH_ROWS} rows, `target_partitions` set"

    def load(self, data, threads, scratch):
        import datafusion

        config = datafusion.SessionConfig().with_target_partitions(threads).with_batch_size(DATAFUSION_BATCH_ROWS)
        self.context = datafusion.SessionContext(config)
        for name in TABLES:
            batches = in_memory(data, name).combine_chunks().to_batches(max_chunksize=DATAFUSION_BATCH_ROWS)
            parts = [batches[first::threads] for first in range(threads)]
            self.context.register_record_batches(name, [part for part in parts if part])

    def text(self, query, sql):
        return lambda: self.context.sql(sql).collect()

    def prepared(self, query, sql):
        return None

    def answer(self, result):
        names = result[0].schema.names if result else []
        return names, [tuple(row.values()) for batch in result for row in batch.to_pylist()]


class Polars:
    """Lazy frames over contiguous Arrow columns; hand-written expressions, optimised and run at
    each call.
    """

    settings = "hand-written lazy expressions, in-memory engine, `POLARS_MAX_THREADS` set"

    def load(self, data, threads, scratch):
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import peers_sql_polars
        import polars

        self.queries = peers_sql_polars.QUERIES
        self.frames = {name: polars.from_arrow(in_memory(data, name), rechunk=True).lazy() for name in TABLES}

    def text(self, query, sql):
        build = self.queries[query]
        return lambda: build(self.frames).collect()

    def prepared(self, query, sql):
        return None

    def answer(self, result):
        return result.columns, result.rows()


class ChDb:
    """ClickHouse in this process: tables of the Memory engine, text as LowCardinality; it has no
    prepared statements.
    """

    settings = "Memory tables, LowCardinality(String), `max_threads` set, otherwise default settings"
    storage = "Memory"
    on_files = False

    def load(self, data, threads, scratch):
        import pyarrow
        from chdb import session

        self.session = session.Session(str(scratch)) if self.on_files else session.Session()
        self.suffix = f" settings max_threads = {threads}"
        for name in TABLES:
            path = data / f"{name}.arrow"
            schema = pyarrow.ipc.open_file(pyarrow.memory_map(str(path))).schema
            columns = [f"{field.name} {'Int32' if pyarrow.types.is_int32(field.type) else 'LowCardinality(String)'}" for field in schema]
            self.session.query(f"create table {name} ({', '.join(columns)}) engine = {self.storage}")
            self.session.query(f"insert into {name} select * from file('{path}', 'Arrow')")

    def text(self, query, sql):
        return lambda: self.session.query(sql + self.suffix, "CSVWithNames").bytes()

    def prepared(self, query, sql):
        return None

    def answer(self, result):
        rows = list(csv.reader(io.StringIO(bytes(result).decode())))
        return rows[0], rows[1:]


class ChDbMergeTree(ChDb):
    """The same with ClickHouse's usual tables, compressed and without an order, in files in memory.
    """

    settings = "MergeTree tables without a sort key in tmpfs, LowCardinality(String), `max_threads` set, otherwise default settings"
    storage = "MergeTree order by tuple()"
    on_files = True


MAKERS = {"duckdb": DuckDb, "datafusion": DataFusion, "polars": Polars, "chdb": ChDb, "chdb-mergetree": ChDbMergeTree}


# ---- Measuring -----------------------------------------------------------------------------------


def as_text(header, rows):
    """The answer as CSV, as the stored answers have it: whole numbers, text as it is, nothing for
    NULL.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def timed(action, repeat):
    """Milliseconds of each of N calls, without garbage collection in between."""
    times_ms = []
    for _ in range(repeat):
        gc.collect()
        gc.disable()
        try:
            began = time.perf_counter_ns()
            result = action()
            times_ms.append((time.perf_counter_ns() - began) / 1e6)
        finally:
            gc.enable()
        del result
    return times_ms


def memory_of_process(key):
    """Bytes of `VmRSS` or `VmHWM` of this process; None where the kernel does not report it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":")]
    return found[0] if found else None


def run_query(engine, query, sql, warm, repeat):
    """Warms one query up, times it from text to answer and, where the engine can, prepared."""
    action = engine.text(query, sql)
    for _ in range(warm):
        result = action()
    header, rows = engine.answer(result)
    record = {"event": "query", "query": query, "answer": as_text(header, rows), "rows": len(rows), "text_ms": timed(action, repeat)}
    action = engine.prepared(query, sql)
    if action:
        action()
        record["prepared_ms"] = timed(action, repeat)
    return record


def arrow_facts(data):
    """Rows of each table, and bytes of all tables as plain Arrow: int32 and utf8 arrays with
    offsets of 32 bits, no validity.
    """
    import pyarrow

    rows, plain_bytes = {}, 0
    for name in TABLES:
        table = mapped(data, name)
        rows[name] = table.num_rows
        for column in table.columns:
            for chunk in column.chunks:
                plain_bytes += (chunk.cast(pyarrow.string()) if pyarrow.types.is_dictionary(chunk.type) else chunk).nbytes
    return {"rows": rows, "plain_bytes": plain_bytes}


def versions():
    """Version of each package; None for those that cannot be imported."""
    found = {}
    for name in PACKAGES:
        try:
            importlib.import_module(name)
            found[name] = importlib.metadata.version(name)
        except (ImportError, importlib.metadata.PackageNotFoundError):
            found[name] = None
    return found


def say(record):
    """Prints one record."""
    print(json.dumps(record), flush=True)


def main(given=None):
    """Runs the queries; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=[*ENGINES, "arrow", "versions"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sql", type=Path)
    parser.add_argument("--scratch", type=Path, help="empty folder for engines whose tables are files")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--queries")
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args(given)
    if arguments.engine == "versions":
        say(versions())
        return 0
    if arguments.engine == "arrow":
        say(arrow_facts(arguments.data.resolve()))
        return 0
    engine = MAKERS[arguments.engine]()
    began = time.monotonic()
    engine.load(arguments.data.resolve(), arguments.threads, arguments.scratch)
    gc.collect()
    say({"event": "loaded", "load_s": round(time.monotonic() - began, 3), "resident_bytes": memory_of_process("VmRSS"), "settings": engine.settings})
    for query in arguments.queries.split(","):
        sql = (arguments.sql / f"{query}.sql").read_text()
        say(run_query(engine, query, sql, max(1, arguments.warm), arguments.repeat))
    say({"event": "done", "peak_bytes": memory_of_process("VmHWM")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
