#!/usr/bin/env python3
"""Compares the ways in which a cluster of processes on this machine finishes statements: the client
asks the nodes, Ballista's scheduler gives out all work, or nodes pass rows to each other. Prints a
Markdown table with one process beside them.

    scripts/cluster_backends.py ssb                            two executors with one thread each
    scripts/cluster_backends.py tpch --sf 1 --executors 3
    scripts/cluster_backends.py tpch --sql "SELECT count(*) FROM orders JOIN lineitem ON o_custkey = l_partkey"

Needs a tierloom with the feature `cluster`. A time begins with the text of a statement and ends
with its rows in the client; the first of each series, which makes plans and connections, is left
out. Ways take turns within each round, after one process, whose tables are gone then. Bytes are
those that the loopback interface carried for one statement, all processes together: other programs
should not use it meanwhile. Each executor has CPUs of its own (taskset), if there are enough.
Answers are compared with those of one process, numbers to four digits.
"""

import argparse
import csv
import io
import os
import re
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from golden_tpc import ROOT, statement

WAYS = {
    "asking nodes": ["--backend", "ballista"],
    "ballista": ["--backend", "ballista", "--direct", "0"],
    "distributed": ["--backend", "distributed", "--direct", "0"],
}
TIME = re.compile(r"^([\d.]+) (ms|s)$", re.MULTILINE)
# Without what printing takes.
TIMES_ALONE = re.compile(r"^parse\+plan ([\d.]+) (ms|s), execute ([\d.]+) (ms|s)", re.MULTILINE)


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=["ssb", "tpch", "tpcds"])
    parser.add_argument("--sf", default="1")
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each executor; one process has them all")
    parser.add_argument("--shards", default="16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5, help="timed executions in a round")
    parser.add_argument("--queries", default="", help="as in q01,q06; all if not given")
    parser.add_argument("--sql", action="append", default=[], help="this statement in the place of the queries")
    parser.add_argument("--ways", default=",".join(WAYS), help="%(default)s")
    parser.add_argument("--tierloom", type=Path, default=ROOT / "target" / "release" / "tierloom")
    options = parser.parse_args(given)
    # Processes of a cluster have another working directory.
    options.tierloom = options.tierloom.resolve()
    options.ways = [way.strip() for way in options.ways.split(",")]
    if unknown := set(options.ways) - set(WAYS):
        parser.error(f"no way {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    return options


def statements(options):
    if options.sql:
        return {f"statement {number}": text for number, text in enumerate(options.sql, 1)}
    named = {name.strip() for name in options.queries.split(",") if name.strip()}
    paths = sorted((ROOT / "queries" / options.benchmark).glob("*.sql"))
    return {
        path.stem: bare(statement(path, options.sf)) for path in paths if not named or path.stem in named
    }


def bare(text):
    """A statement without comments in front of it, which the command line takes for options."""
    lines = [line for line in text.strip().rstrip(";").splitlines() if not line.startswith("--")]
    return "\n".join(lines)


def milliseconds(text):
    """The times that `cluster sql --timing` printed."""
    return [in_milliseconds(*time) for time in TIME.findall(text)]


def milliseconds_alone(text):
    """Those of `sql --timing`: planning and execution together."""
    found = TIMES_ALONE.findall(text)
    return [in_milliseconds(*time[:2]) + in_milliseconds(*time[2:]) for time in found]


def in_milliseconds(number, unit):
    return float(number) * (1000 if unit == "s" else 1)


def rows(text):
    """The rows of an answer, in any order, with numbers to four digits."""

    def rounded(value):
        try:
            return f"{float(value):.4g}"
        except ValueError:
            return value

    lines = csv.reader(io.StringIO(text))
    return sorted([rounded(value) for value in row] for row in lines if row)


def carried():
    """Bytes that the loopback interface has carried."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, fields = line.partition(":")
        if name.strip() == "lo":
            return int(fields.split()[0])
    sys.exit("/proc/net/dev has no interface lo")


def done(*command, script=None):
    """The outcome of a command, which may read a script; what it said if it failed."""
    ended = subprocess.run(command, capture_output=True, text=True, input=script)
    if ended.returncode:
        sys.exit(f"{texts_of(command)}: {ended.stderr}")
    return ended


def texts_of(command):
    """A command in one line that is not too long."""
    return " ".join(map(str, command)).replace("\n", " ")[:400]


def cpus_of(number, executors, threads):
    """The CPUs that an executor has for itself, as on a machine of its own; all if there are too few."""
    cpus = sorted(os.sched_getaffinity(0))
    if executors * threads > len(cpus):
        return ""
    return ",".join(map(str, cpus[number * threads : (number + 1) * threads]))


class Cluster:
    """A scheduler and executors on loopback."""

    def __init__(self, options, stack):
        self.program = options.tierloom
        folder = stack.enter_context(tempfile.TemporaryDirectory())

        def process(*words, cpus=""):
            command = ["taskset", "--cpu-list", cpus] if cpus else []
            child = subprocess.Popen(
                [*command, self.program, "cluster", *words], stdout=subprocess.PIPE, cwd=folder, text=True
            )
            stack.callback(child.wait)
            stack.callback(child.kill)
            return child.stdout.readline().split()

        self.url = process("scheduler", "--listen", "127.0.0.1:0")[1]
        for number in range(options.executors):
            words = ["--scheduler", self.url, "--name", f"n{number}", "--threads", str(options.threads)]
            process("executor", *words, cpus=cpus_of(number, options.executors, options.threads))
        load = ["load", options.benchmark, "--sf", options.sf, "--shards", options.shards]
        subprocess.run([self.program, "cluster", *load, "--scheduler", self.url], check=True)

    def ask(self, words, texts):
        command = ["cluster", "sql", "--scheduler", self.url, "--timing", "--format", "csv", *words, *texts]
        return done(self.program, *command)


END = "answer_ends"


def alone(options, script):
    """What one process with the threads of all executors prints for a script."""
    threads = str(options.executors * options.threads)
    tables = ["--generate", f"{options.benchmark}:{options.sf}", "--threads", threads]
    return done(options.tierloom, "sql", *tables, "--timing", "--format", "csv", script=script)


def times_alone(options, texts, count):
    """By statement; the first of each is left out."""
    ended = alone(options, "".join(f"{text};\n" * count for text in texts.values()))
    taken = milliseconds_alone(ended.stderr)
    return {name: taken[at * count + 1 : (at + 1) * count] for at, name in enumerate(texts)}


def answers_alone(options, texts):
    """By statement."""
    ended = alone(options, "".join(f"{text};\nSELECT 1 AS {END};\n" for text in texts.values()))
    return dict(zip(texts, map(rows, ended.stdout.split(f"{END}\n1\n"))))


def table(times, moved, wrong):
    """A Markdown table; `times` by statement and way, `moved` bytes likewise."""
    ways = list(next(iter(times.values())))
    others = [way for way in ways if way != "one process"]
    heads = [*ways, *[f"{way}, MB" for way in others]]
    lines = ["| statement | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for name, by_way in times.items():
        cells = [f"{statistics.median(by_way[way]):.1f}" for way in ways]
        cells += [f"{moved[name][way] / 1e6:.2f}" for way in others]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    sums = [sum(statistics.median(by_way[way]) for by_way in times.values()) for way in ways]
    bytes_moved = [sum(by_way[way] for by_way in moved.values()) for way in others]
    cells = [f"{value:.1f}" for value in sums] + [f"{value / 1e6:.2f}" for value in bytes_moved]
    lines.append("| sum | " + " | ".join(cells) + " |")
    lines.append("")
    lines.append("Answers: " + (f"other ones: {', '.join(sorted(wrong))}." if wrong else "all those of one process."))
    return "\n".join(lines)


def main():
    options = arguments()
    texts = statements(options)
    times = {name: {way: [] for way in ["one process", *options.ways]} for name in texts}
    moved = {name: {way: [] for way in options.ways} for name in texts}
    wrong = set()
    answers = answers_alone(options, texts)
    with ExitStack() as stack:
        cluster = Cluster(options, stack)
        for name, text in texts.items():
            for way in options.ways:
                if rows(cluster.ask(WAYS[way], [text]).stdout) != answers[name]:
                    wrong.add(f"{name} by {way}")
    for _ in range(options.rounds):
        count = options.repeat + 1
        for name, taken in times_alone(options, texts, count).items():
            times[name]["one process"] += taken
        with ExitStack() as stack:
            cluster = Cluster(options, stack)
            for name, text in texts.items():
                for way in options.ways:
                    before = carried()
                    taken = milliseconds(cluster.ask(WAYS[way], [text] * count).stderr)
                    moved[name][way].append((carried() - before) / count)
                    times[name][way] += taken[1:]
    moved = {name: {way: statistics.median(sizes) for way, sizes in ways.items()} for name, ways in moved.items()}
    print(table(times, moved, wrong))


if __name__ == "__main__":
    main()
