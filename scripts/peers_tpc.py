#!/usr/bin/env python3
"""Compares Tierloom, DataFusion and DuckDB on TPC-H or TPC-DS: the same data, in memory, warm,
alternating. Prints a Markdown table of medians and ratios.

    scripts/peers_tpc.py                                     TPC-H, scale factor 1, two threads, 3 rounds of 3
    scripts/peers_tpc.py tpcds --sf 1 --rounds 2             TPC-DS
    scripts/peers_tpc.py --tierloom target/release/tierloom --json out.json

A round runs Tierloom with `--baseline` (so that plain DataFusion runs on the same tables,
alternating within each query), then DuckDB. DuckDB loads the Parquet files that `tierloom generate`
wrote into its own tables. Times of DuckDB include planning, as its users see them. Those of
Tierloom and DataFusion do not; their planning time is a separate column. Medians are over all
rounds. Requires DuckDB in the running Python.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from golden_tpc import ROOT, load, statement


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", nargs="?", choices=["tpch", "tpcds"], default="tpch")
    parser.add_argument("--sf", default="1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3, help="timed executions of a query in a round")
    parser.add_argument("--queries", default="", help="as in q1,q6; all if not given")
    parser.add_argument("--tierloom", type=Path, default=ROOT / "target" / "release" / "tierloom")
    parser.add_argument("--data", type=Path, metavar="DIR", help="has the Parquet files already")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all times")
    return parser.parse_args()


def tierloom(options, wanted):
    """Times by engine and query, and planning times, of one run."""
    command = [options.tierloom, "run", options.benchmark, "--sf", options.sf, "--threads", str(options.threads)]
    command += ["--placement", "dram", "--repeat", str(options.repeat), "--baseline", "--jsonl"]
    command += ["--queries", ",".join(wanted)]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    records = [json.loads(line) for line in lines]
    queries = [r for r in records if r["type"] == "query" and r["provenance"] == "measured"]
    return [(r["engine"], r["query"], r["time_ms"]["values"], r["plan_ms"]) for r in queries]


def duckdb_times(connection, text, repeat):
    connection.execute(text).fetchall()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        connection.execute(text).fetchall()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def main():
    options = arguments()
    try:
        import duckdb
    except ImportError:
        sys.exit("needs DuckDB: python3 -m pip install duckdb, in a virtual environment")
    if not options.tierloom.exists():
        sys.exit(f"{options.tierloom} is not there; build it with cargo build --release, or name it with --tierloom")
    files = sorted((ROOT / "queries" / options.benchmark).glob("q*.sql"))
    named = {f"q{int(q.strip().lstrip('q')):02d}" for q in options.queries.split(",") if q.strip()}
    files = [f for f in files if not named or f.stem in named or f.stem[:3] in named]
    texts = {f.stem: statement(f, options.sf) for f in files}
    with tempfile.TemporaryDirectory(prefix="peers-tpc-") as folder:
        data = options.data or Path(folder)
        if not options.data:
            generate = [options.tierloom, "generate", options.benchmark, "--sf", options.sf, "-o", data]
            subprocess.run(generate, check=True)
        connection = load(duckdb, data)
    connection.execute(f"set threads = {options.threads}")
    times = {engine: {query: [] for query in texts} for engine in ("tierloom", "datafusion", "duckdb")}
    planning = {query: [] for query in texts}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for engine, query, samples, plan_ms in tierloom(options, texts):
            times[engine][query] += samples
            if engine == "tierloom":
                planning[query].append(plan_ms)
        for query, text in texts.items():
            times["duckdb"][query] += duckdb_times(connection, text, options.repeat)
    report(options, duckdb.__version__, times, planning)
    if options.json:
        options.json.write_text(json.dumps({"times_ms": times, "planning_ms": planning}, indent=1))


def report(options, version, times, planning):
    medians = {e: {q: statistics.median(t) for q, t in by.items() if t} for e, by in times.items()}
    print(f"{options.benchmark}, scale factor {options.sf}, {options.threads} threads, DuckDB {version}, ", end="")
    print(f"median of {options.rounds} x {options.repeat}, ms, on {os.cpu_count()} CPUs\n")
    print("| query | tierloom | datafusion | duckdb | datafusion/tierloom | duckdb/tierloom | planning |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    queries = [q for q in times["duckdb"] if all(q in medians[e] for e in medians)]
    for query in queries:
        ours, plain, duck = (medians[e][query] for e in ("tierloom", "datafusion", "duckdb"))
        plan = statistics.median(planning[query])
        print(f"| {query} | {ours:.1f} | {plain:.1f} | {duck:.1f} | {plain / ours:.2f} | {duck / ours:.2f} | {plan:.1f} |")
    means = [geometric_mean([medians[e][q] for q in queries]) for e in ("tierloom", "datafusion", "duckdb")]
    ours, plain, duck = means
    print(f"| geo mean | {ours:.1f} | {plain:.1f} | {duck:.1f} | {plain / ours:.2f} | {duck / ours:.2f} | |")


if __name__ == "__main__":
    main()
