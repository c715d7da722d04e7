#!/usr/bin/env python3
"""Writes or checks the stored answers of the Star Schema Benchmark with DuckDB, which shares no
code with Tierloom.

    scripts/golden_ssb.py            writes queries/ssb/golden/sf*/q*.csv
    scripts/golden_ssb.py --check    compares with the stored ones; exit status 1 if anything differs

The data comes from the generator of this repository
(`cargo run -p tierloom-workloads --example ssb_csv`), seed 1. DuckDB is installed from PyPI into a
virtual environment in a temporary folder, unless the running Python has the pinned version.
"""

import argparse
import csv
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

DUCKDB_VERSION = "2.0.0"
ROOT = Path(__file__).resolve().parent.parent
QUERIES = ROOT / "queries" / "ssb"
SCALE_FACTORS = ["0.01", "0.1", "1"]
SEED = 1
TABLES = ["lineorder", "customer", "supplier", "part", "date"]
INTEGERS = set(
    """lo_orderkey lo_linenumber lo_custkey lo_partkey lo_suppkey lo_orderdate lo_shippriority lo_quantity
    lo_extendedprice lo_ordtotalprice lo_discount lo_revenue lo_supplycost lo_tax lo_commitdate c_custkey s_suppkey
    p_partkey p_size d_datekey d_year d_yearmonthnum d_daynuminweek d_daynuminmonth d_daynuminyear d_monthnuminyear
    d_weeknuminyear d_lastdayinweekfl d_lastdayinmonthfl d_holidayfl d_weekdayfl""".split()
)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--sf", action="append", choices=SCALE_FACTORS, help="only this scale factor (repeatable)")
    parser.add_argument("--generator", type=Path, help="a built ssb_csv example, instead of running cargo")
    parser.add_argument("--in-environment", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def duckdb_or_none():
    try:
        import duckdb
    except ImportError:
        return None
    return duckdb if duckdb.__version__ == DUCKDB_VERSION else None


def run_in_environment():
    """Runs this script again with a Python that has DuckDB."""
    with tempfile.TemporaryDirectory(prefix="golden-ssb-") as folder:
        python = Path(folder, "venv", "bin", "python")
        print(f"installing duckdb {DUCKDB_VERSION} into a temporary environment", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", Path(folder, "venv")], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"duckdb=={DUCKDB_VERSION}"], check=True)
        return subprocess.run([python, __file__, *sys.argv[1:], "--in-environment"]).returncode


def generate(scale_factor, folder, generator):
    command = [generator] if generator else "cargo run --quiet -p tierloom-workloads --example ssb_csv --".split()
    wanted = ["--sf", scale_factor, "--seed", str(SEED), "--out", folder]
    print(f"generating scale factor {scale_factor}", file=sys.stderr)
    subprocess.run([*command, *wanted], check=True, cwd=ROOT, stdout=sys.stderr)


def load(duckdb, folder):
    connection = duckdb.connect()
    for table in TABLES:
        path = Path(folder, f"{table}.csv")
        with path.open() as file:
            names = file.readline().strip().split(",")
        types = {name: "INTEGER" if name in INTEGERS else "VARCHAR" for name in names}
        connection.execute(
            f"create table {table} as select * from read_csv('{path}', header=true, auto_detect=false, delim=',', "
            f"quote='\"', escape='\"', nullstr='', columns={types})"
        )
    return connection


def answer(connection, query):
    """The answer as CSV text; a sum over no rows is an empty field."""
    result = connection.execute(query.read_text())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column[0] for column in result.description])
    rows = result.fetchall()
    writer.writerows(rows)
    return text.getvalue(), len(rows)


def main():
    options = arguments()
    duckdb = duckdb_or_none()
    if duckdb is None:
        if options.in_environment:
            sys.exit(f"duckdb {DUCKDB_VERSION} was installed but cannot be imported")
        sys.exit(run_in_environment())
    different = []
    for scale_factor in options.sf or SCALE_FACTORS:
        golden = QUERIES / "golden" / f"sf{scale_factor}"
        with tempfile.TemporaryDirectory(prefix="golden-ssb-data-") as folder:
            generate(scale_factor, folder, options.generator and options.generator.resolve())
            connection = load(duckdb, folder)
            for query in sorted(QUERIES.glob("q*.sql")):
                text, rows = answer(connection, query)
                path = golden / f"{query.stem}.csv"
                if options.check:
                    if not path.exists() or path.read_bytes() != text.encode():
                        different.append(os.path.relpath(path, ROOT))
                else:
                    golden.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(text.encode())
                print(f"sf{scale_factor} {query.stem}: {rows} rows")
            connection.close()
    if different:
        sys.exit("these golden answers differ: " + ", ".join(different))


if __name__ == "__main__":
    main()
