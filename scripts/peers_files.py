#!/usr/bin/env python3
"""Compares Tierloom and DuckDB on your own files and queries: the same rows in memory, warm,
alternating, from the text of a query to its whole answer. Prints a Markdown table.

    scripts/peers_files.py --table hits=hits.parquet --queries queries.sql
    scripts/peers_files.py --table a=a.csv --table b=b.parquet --queries queries.sql --rounds 5

FILE of --queries has one query per line; empty lines and lines that begin with -- are left out. In
a round each engine loads the files into its own tables and runs each query `--warm` times untimed
and `--repeat` times timed; texts differ by spaces after the first word, so that no plan is found in
a cache. A ratio is the median over the rounds of DuckDB's median divided by Tierloom's of the same
round; above 1 Tierloom is faster. Answers are not compared. Requires DuckDB in the running Python.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from golden_tpc import ROOT
from peers_tpc import duckdb_beside, geometric_mean, ratio, row, slower

TIMING = re.compile(r"parse\+plan ([\d.]+) (\S+), execute ([\d.]+) (\S+),")
MILLISECONDS = {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1e3}


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="append", required=True, metavar="NAME=FILE", help="Parquet or CSV")
    parser.add_argument("--queries", type=Path, required=True, metavar="FILE")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=1, help="untimed executions of a query in a round")
    parser.add_argument("--repeat", type=int, default=3, help="timed executions of a query in a round")
    parser.add_argument("--tierloom", type=Path, default=ROOT / "target" / "release" / "tierloom")
    options = parser.parse_args(given)
    tables = [table.partition("=") for table in options.table]
    if wrong := [table for table, (name, _, file) in zip(options.table, tables) if not name or not file]:
        parser.error(f"expected NAME=FILE: {', '.join(wrong)}")
    options.tables = {name: file for name, _, file in tables}
    return options


def queries_of(text):
    """The queries of a file by number."""
    lines = (line.strip().rstrip(";") for line in text.splitlines())
    queries = [line for line in lines if line and not line.startswith("--")]
    return {f"{number}": query for number, query in enumerate(queries, 1)}


def executions(queries, options):
    """Each query as often as it runs in a round, with texts of which no two are the same."""
    for query, text in queries.items():
        for number in range(options.warm + options.repeat):
            first, _, rest = text.partition(" ")
            yield query, f"{first}{' ' * (number + 1)}{rest}", number >= options.warm


def times_in(said):
    """Milliseconds from text to answer of each statement, from what `sql --timing` says."""
    return [float(a) * MILLISECONDS[b] + float(c) * MILLISECONDS[d] for a, b, c, d in TIMING.findall(said)]


def tierloom(queries, options):
    """Pairs of a query and a time."""
    wanted = list(executions(queries, options))
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write("".join(f"{text};\n" for _, text, _ in wanted))
        file.flush()
        command = [options.tierloom, "sql", "--threads", str(options.threads), "--timing", "-f", file.name]
        for table in options.table:
            command += ["-t", table]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    times = times_in(done.stderr)
    if done.returncode or len(times) != len(wanted):
        sys.exit(f"tierloom sql failed: {done.stderr[-2000:]}")
    return [(query, ms) for (query, _, timed), ms in zip(wanted, times) if timed]


def duckdb_rounds(duckdb, queries, options):
    """Pairs of a query and a time."""
    connection = duckdb.connect()
    connection.execute(f"set threads = {options.threads}")
    for name, file in options.tables.items():
        quoted = file.replace("'", "''")
        connection.execute(f"create table \"{name}\" as select * from '{quoted}'")
    for query, text, timed in executions(queries, options):
        start = time.perf_counter()
        connection.execute(text).fetchall()
        if timed:
            yield query, (time.perf_counter() - start) * 1e3
    connection.close()


def report(queries, options, version, times):
    lines = [
        f"{options.queries.name}, {options.threads} threads, DuckDB {version}, {options.rounds} x {options.repeat} "
        f"executions, text in to answer out, ms, on {os.cpu_count()} CPUs",
        "",
        row(["query", "tierloom", "duckdb", "duckdb/tierloom", "text"]),
        "|---|---:|---:|---:|---|",
    ]
    ratios = {}
    for query, text in queries.items():
        ratios[query] = ratio(times["tierloom"][query], times["duckdb"][query])
        medians = [statistics.median(sum(times[engine][query], [])) for engine in ("tierloom", "duckdb")]
        shown = (text[:60] + "..." if len(text) > 60 else text).replace("|", "\\|")
        lines.append(row([query, *(f"{ms:.1f}" for ms in medians), f"{ratios[query]:.2f}", f"`{shown}`"]))
    lines.append(row(["geometric mean", "", "", f"{geometric_mean(ratios.values()):.2f}", ""]) + "\n")
    return "\n".join([*lines, slower("duckdb", ratios)])


def main():
    options = arguments()
    duckdb = duckdb_beside(options.tierloom)
    queries = queries_of(options.queries.read_text())
    if not queries:
        sys.exit(f"{options.queries}: expected a query per line, found none")
    times = {e: {q: [[] for _ in range(options.rounds)] for q in queries} for e in ("tierloom", "duckdb")}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for query, ms in tierloom(queries, options):
            times["tierloom"][query][number].append(ms)
        for query, ms in duckdb_rounds(duckdb, queries, options):
            times["duckdb"][query][number].append(ms)
    print(report(queries, options, duckdb.__version__, times))


if __name__ == "__main__":
    main()
