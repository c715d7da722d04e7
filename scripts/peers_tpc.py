#!/usr/bin/env python3
"""Compares Tierloom, DataFusion and DuckDB on SSB, TPC-H and TPC-DS: the same data, in memory, warm,
alternating, from the text of a query to its whole answer. Prints Markdown tables.

    scripts/peers_tpc.py                                     all three, scale factor 1, two threads
    scripts/peers_tpc.py tpch --sf 10 --rounds 2             TPC-H
    scripts/peers_tpc.py tpcds --others duckdb               without plain DataFusion, which takes long
    scripts/peers_tpc.py --tierloom target/release/tierloom --json out.json

A round runs Tierloom with `--baseline` (so that plain DataFusion runs on the same tables), then
DuckDB, which loads the Parquet files that `tierloom generate` wrote into its own tables. Each time
begins with the text of the query and ends with the answer in memory: parsing and planning are in it
for all three, and no engine finds the plan in a cache. A ratio is the median over the rounds of the
other engine's median divided by Tierloom's of the same round; above 1 Tierloom is faster. Queries
in which another engine is faster are named. Executions of a plan that is there already, which
Tierloom's users get for a text that they repeat, are a column of their own and in no ratio.
Requires DuckDB in the running Python.
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

BENCHMARKS = ["ssb", "tpch", "tpcds"]
OTHERS = ["datafusion", "duckdb"]


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", metavar="|".join(BENCHMARKS), help="all three if none is named")
    parser.add_argument("--sf", default="1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3, help="timed executions of a query in a round")
    parser.add_argument("--queries", default="", help="as in q1,q6; all if not given")
    parser.add_argument("--without", default="", help="queries to leave out, as in q72")
    parser.add_argument("--others", default=",".join(OTHERS), help="engines to compare with: %(default)s")
    parser.add_argument("--tierloom", type=Path, default=ROOT / "target" / "release" / "tierloom")
    parser.add_argument("--data", type=Path, metavar="DIR", help="DIR/BENCHMARK has the Parquet files already")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all times")
    options = parser.parse_args(given)
    options.benchmarks = options.benchmarks or BENCHMARKS
    if unknown := set(options.benchmarks) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    named = {name.strip() for name in options.others.split(",") if name.strip()}
    if unknown := named - set(OTHERS):
        parser.error(f"no engine {', '.join(sorted(unknown))}; there are {', '.join(OTHERS)}")
    options.others = [engine for engine in OTHERS if engine in named]
    return options


def query_names(text):
    """The names in a list such as q1,q21: files have two digits, those of SSB a point."""
    names = (name.strip() for name in text.split(",") if name.strip())
    return {name if "." in name else f"q{int(name.lstrip('q')):02d}" for name in names}


def texts_of(benchmark, options):
    """The texts of the chosen queries by name."""
    files = sorted((ROOT / "queries" / benchmark).glob("q*.sql"))
    chosen, left_out = query_names(options.queries), query_names(options.without)

    def named(file, names):
        return file.stem in names or file.stem[:3] in names

    files = [f for f in files if (not chosen or named(f, chosen)) and not named(f, left_out)]
    return {f.stem: statement(f, options.sf) for f in files}


def tierloom(benchmark, options, wanted):
    """Samples of one run: engine, query, times from text to answer, times of executions."""
    command = [options.tierloom, "run", benchmark, "--sf", options.sf, "--threads", str(options.threads)]
    command += ["--placement", "dram", "--repeat", str(options.repeat), "--jsonl"]
    command += ["--baseline"] if "datafusion" in options.others else []
    command += ["--queries", ",".join(wanted)]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    return samples_of([json.loads(line) for line in lines])


def samples_of(records):
    queries = [r for r in records if r["type"] == "query" and r["provenance"] == "measured"]
    return [(r["engine"], r["query"], r["text_ms"]["values"], r["time_ms"]["values"]) for r in queries]


def duckdb_beside(tierloom):
    """DuckDB's module; ends the program if it or the binary is not there."""
    try:
        import duckdb
    except ImportError:
        sys.exit("needs DuckDB: python3 -m pip install duckdb, in a virtual environment")
    if not tierloom.exists():
        sys.exit(f"{tierloom} is not there; build it with cargo build --release, or name it with --tierloom")
    return duckdb


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


def ratio(ours, theirs):
    """The median over the rounds of how many times as long the other engine took; None without a
    round in which both answered."""
    rounds = [statistics.median(b) / statistics.median(a) for a, b in zip(ours, theirs) if a and b]
    return statistics.median(rounds) if rounds else None


def data_of(benchmark, options, folder):
    if options.data:
        return options.data / benchmark
    command = [options.tierloom, "generate", benchmark, "--sf", options.sf, "-o", Path(folder) / benchmark]
    command += ["--format", "parquet"] if benchmark == "ssb" else []
    subprocess.run(command, check=True, stdout=sys.stderr)
    return Path(folder) / benchmark


def measure(benchmark, options, duckdb):
    """Times by engine and query, a list for each round; "execution" are those of Tierloom's plans."""
    texts = texts_of(benchmark, options)
    kinds = ["tierloom", "execution", *options.others]
    times = {kind: {query: [[] for _ in range(options.rounds)] for query in texts} for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="peers-tpc-") as folder:
        data = data_of(benchmark, options, folder)
        for number in range(options.rounds):
            print(f"{benchmark}: round {number + 1} of {options.rounds}", file=sys.stderr)
            for engine, query, from_text, executed in tierloom(benchmark, options, texts):
                times[engine][query][number] += from_text
                if engine == "tierloom":
                    times["execution"][query][number] += executed
            if "duckdb" not in options.others:
                continue
            # Its tables would take the memory that the others need if they stayed loaded.
            with load(duckdb, data) as connection:
                connection.execute(f"set threads = {options.threads}")
                for query, text in texts.items():
                    times["duckdb"][query][number] += duckdb_times(connection, text, options.repeat)
    return times


def report(benchmark, options, version, times):
    others = options.others
    header = ["query", "tierloom", *others, *(f"{engine}/tierloom" for engine in others), "tierloom, planned before"]
    lines = [
        f"{benchmark}, scale factor {options.sf}, {options.threads} threads, DuckDB {version}, "
        f"{options.rounds} x {options.repeat} executions, text in to answer out, ms, on {os.cpu_count()} CPUs",
        "",
        row(header),
        "|---|" + "---:|" * (len(header) - 1),
    ]
    ratios = {engine: {} for engine in others}
    medians = {kind: {} for kind in times}
    for query, rounds in times["tierloom"].items():
        cells = {}
        for kind in times:
            every = [one for some in times[kind][query] for one in some]
            cells[kind] = f"{statistics.median(every):.1f}" if every else "-"
            if every:
                medians[kind][query] = statistics.median(every)
        for engine in others:
            found = ratio(rounds, times[engine][query])
            cells[f"{engine} ratio"] = "-" if found is None else f"{found:.2f}"
            if found is not None:
                ratios[engine][query] = found
        columns = ["tierloom", *others, *(f"{engine} ratio" for engine in others), "execution"]
        lines.append(row([query, *(cells[column] for column in columns)]))
    columns = [f"{geometric_mean(medians[kind].values()):.1f}" for kind in ["tierloom", *others]]
    columns += [f"{geometric_mean(ratios[engine].values()):.2f}" for engine in others]
    columns.append(f"{geometric_mean(medians['execution'].values()):.1f}")
    lines.append(row(["geometric mean", *columns]) + "\n")
    return "\n".join(lines + [slower(engine, ratios[engine]) for engine in others])


def row(cells):
    return f"| {' | '.join(cells)} |"


def slower(engine, ratios):
    """Names the queries in which `engine` is faster than Tierloom, the worst first."""
    worse = sorted((found, query) for query, found in ratios.items() if found < 1)
    if not worse:
        return f"* {engine} is faster in none of {len(ratios)} queries."
    named = ", ".join(f"{query} ({1 / found:.1f} times)" for found, query in worse)
    return f"* {engine} is faster in {len(worse)} of {len(ratios)} queries: {named}."


def main():
    options = arguments()
    duckdb = duckdb_beside(options.tierloom)
    kept = {}
    for benchmark in options.benchmarks:
        times = measure(benchmark, options, duckdb)
        kept[benchmark] = times
        print(report(benchmark, options, duckdb.__version__, times), end="\n\n", flush=True)
        if options.json:
            options.json.write_text(json.dumps({"times_ms": kept}, indent=1))


if __name__ == "__main__":
    main()
