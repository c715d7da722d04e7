#!/usr/bin/env python3
"""Writes or checks the stored answers of TPC-H and TPC-DS with DuckDB, which shares no code with
Tierloom.

    scripts/golden_tpc.py                      writes queries/{tpch,tpcds}/answers/sf0.01/*.csv
    scripts/golden_tpc.py --check              compares with the stored ones; exit status 1 if
                                               anything differs
    scripts/golden_tpc.py --sf 1 --into DIR    answers at another scale factor, for
                                               `tierloom run tpch --answers DIR`
    scripts/golden_tpc.py --ties               also names the statements whose LIMIT separates rows
                                               that are ordered equally

The data comes from the generator of this repository (`tierloom generate tpch|tpcds`). DuckDB is
installed from PyPI into a virtual environment in a temporary folder, unless the running Python has
the pinned version.

An answer is text: column names, with ~ after those that DuckDB returns as floating-point numbers;
the numbers of the columns that the statement orders by; then the rows. | separates cells, and NULL
is an empty cell.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DUCKDB_VERSION = "2.0.0"
ROOT = Path(__file__).resolve().parent.parent
STORED_SF = "0.01"
Q11_FRACTION = "0.0001000000"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", metavar="tpch|tpcds", help="both if none is named")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--sf", default=STORED_SF, help=f"scale factor of the data ({STORED_SF} is what is stored)")
    parser.add_argument("--into", type=Path, metavar="DIR", help="write DIR/tpch/*.csv and DIR/tpcds/*.csv instead")
    parser.add_argument("--ties", action="store_true", help="look for LIMITs that separate rows ordered equally")
    parser.add_argument("--data", type=Path, metavar="DIR", help="DIR/tpch and DIR/tpcds have the Parquet files already")
    parser.add_argument("--generator", type=Path, help="a built tierloom, instead of running cargo")
    parser.add_argument("--in-environment", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.benchmarks = options.benchmarks or ["tpch", "tpcds"]
    if unknown := set(options.benchmarks) - {"tpch", "tpcds"}:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are tpch and tpcds")
    if options.sf != STORED_SF and not options.into:
        parser.error(f"answers at scale factor {options.sf} are not stored; say where to write them with --into")
    return options


def duckdb_or_none():
    try:
        import duckdb
    except ImportError:
        return None
    return duckdb if duckdb.__version__ == DUCKDB_VERSION else None


def run_in_environment():
    """Runs this script again with a Python that has DuckDB."""
    with tempfile.TemporaryDirectory(prefix="golden-tpc-") as folder:
        python = Path(folder, "venv", "bin", "python")
        print(f"installing duckdb {DUCKDB_VERSION} into a temporary environment", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", Path(folder, "venv")], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"duckdb=={DUCKDB_VERSION}"], check=True)
        return subprocess.run([python, __file__, *sys.argv[1:], "--in-environment"]).returncode


def generate(benchmark, scale_factor, folder, generator):
    command = [generator] if generator else ["cargo", "run", "--quiet", "-p", "tierloom", "--"]
    print(f"generating {benchmark} at scale factor {scale_factor}", file=sys.stderr)
    wanted = ["generate", benchmark, "--sf", scale_factor, "-o", folder]
    subprocess.run([*command, *wanted], check=True, cwd=ROOT, stdout=sys.stderr)


def load(duckdb, folder):
    connection = duckdb.connect()
    # As in DataFusion and PostgreSQL; the specifications leave it open.
    connection.execute("set default_null_order = 'nulls_last_on_asc_first_on_desc'")
    for path in sorted(Path(folder).glob("*.parquet")):
        connection.execute(f"create table {path.stem} as select * from read_parquet('{path}')")
    return connection


def statement(path, scale_factor):
    """The text of a query; the fraction of TPC-H's q11 depends on the scale factor."""
    text = path.read_text()
    if path.parent.name == "tpch" and path.stem == "q11":
        assert Q11_FRACTION in text
        text = text.replace(Q11_FRACTION, f"{0.0001 / float(scale_factor):.10f}")
    return text


def top_level_items(text):
    items, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return [" ".join(item.split()) for item in items]


def order_columns(text, names, all_of_them=False):
    """Numbers, from 1, of the columns that the rows are ordered by: up to the first key that is no
    column, or all but those.
    """
    tail = re.search(r"^order by\b(.*?)(?=^limit\b|\Z)", text, re.MULTILINE | re.DOTALL)
    found = []
    for item in top_level_items(tail.group(1)) if tail else []:
        key = re.sub(r"( asc| desc)?( nulls (first|last))?$", "", item.lower())
        key = key.strip('"')
        if key.isdigit():
            found.append(int(key))
            continue
        places = [i for i, name in enumerate(names, 1) if name.lower() == key.split(".")[-1].strip('"')]
        if len(places) != 1 and not all_of_them:
            break
        found += places[:1]
    return found


def cell(value):
    if value is None:
        return ""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    assert "|" not in text and "\n" not in text, text
    return text


def answer(connection, text):
    result = connection.execute(text)
    names = [column[0] for column in result.description]
    floating = [str(column[1]).upper() in ("DOUBLE", "FLOAT") for column in result.description]
    rows = [[cell(value) for value in row] for row in result.fetchall()]
    lines = ["|".join(name + "~" * f for name, f in zip(names, floating))]
    lines.append("|".join(map(str, order_columns(text, names))))
    lines += ["|".join(row) for row in rows]
    return "\n".join(lines) + "\n", rows


def cuts_ties(connection, text, rows):
    """Whether more rows than the LIMIT lets through could be the last ones."""
    limit = re.search(r"^limit (\d+)", text, re.MULTILINE)
    if not limit or len(rows) < int(limit.group(1)):
        return False
    result = connection.execute(text[: limit.start()])
    keys = order_columns(text, [column[0] for column in result.description], all_of_them=True)
    everything = [[cell(value) for value in row] for row in result.fetchall()]
    key = lambda row: [row[k - 1] for k in keys]
    last = key(everything[len(rows) - 1])
    beyond = everything[len(rows) :]
    tied = [row for row in beyond if key(row) == last]
    return any(row != everything[len(rows) - 1] for row in tied)


def main():
    options = arguments()
    duckdb = duckdb_or_none()
    if duckdb is None:
        if options.in_environment:
            sys.exit(f"duckdb {DUCKDB_VERSION} was installed but cannot be imported")
        sys.exit(run_in_environment())
    different, ties = [], []
    for benchmark in options.benchmarks:
        stored = ROOT / "queries" / benchmark / "answers" / f"sf{STORED_SF}"
        answers = options.into / benchmark if options.into else stored
        with tempfile.TemporaryDirectory(prefix="golden-tpc-data-") as folder:
            if options.data:
                folder = options.data / benchmark
            else:
                generate(benchmark, options.sf, folder, options.generator and options.generator.resolve())
            connection = load(duckdb, folder)
        for path in sorted((ROOT / "queries" / benchmark).glob("q*.sql")):
            text = statement(path, options.sf)
            got, rows = answer(connection, text)
            target = answers / f"{path.stem}.csv"
            if options.check:
                if not target.exists() or target.read_bytes() != got.encode():
                    different.append(os.path.relpath(target, ROOT))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(got.encode())
            if options.ties and cuts_ties(connection, text, rows):
                ties.append(f"{benchmark} {path.stem}")
            print(f"{benchmark} sf{options.sf} {path.stem}: {len(rows)} rows")
        connection.close()
    if ties:
        print("LIMIT cuts through ties in: " + ", ".join(ties))
    if different:
        sys.exit("these stored answers differ: " + ", ".join(different))


if __name__ == "__main__":
    main()
