#!/usr/bin/env python3
"""Compares Tierloom with other SQL engines on the Star Schema Benchmark, in memory: DuckDB,
DataFusion, Polars and chDB (ClickHouse).

    scripts/peers_sql.py --tierloom target/release/tierloom --venv DIR
    scripts/peers_sql.py --tierloom target/release/tierloom --venv DIR --quick

In each of N rounds every engine runs alone in a separate process, one after the other within
minutes: it loads the tables, warms each query up and repeats it. The first engine changes from
round to round. A ratio is the median of the ratios of the rounds. Answers are compared with the
stored ones or, where none are stored, with each other. docs/peers-sql.md says what is timed. Exit
status: 0 after measuring, whoever is faster; 1 if Tierloom gave no figure or an answer is wrong; 2
for bad arguments, including missing packages.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers_sql_report as report  # noqa: E402
from peers import NoFigure, cpu_list, finite, machine_facts, parse_tierloom, text_of, whole  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
QUERIES = ROOT / "queries" / "ssb"
WORKER = Path(__file__).resolve().parent / "peers_sql_worker.py"
TABLES = ["lineorder", "customer", "supplier", "part", "date"]
ENGINES = ["duckdb", "datafusion", "polars", "chdb", "chdb-mergetree"]
VERSIONS = {"duckdb": "2.0.0", "datafusion": "55.0.0", "polars": "2.1.0", "chdb": "4.4.0", "pyarrow": "26.0.1"}
# Where engines whose tables are files keep them: memory.
MEMORY_FOLDER = "/dev/shm"
RESIDENT = {"resident_bytes": "resident when loaded", "peak_bytes": "at most"}
TIMEOUT_S = 1800
# Most memory that any engine needs while it loads, as a multiple of the tables' files.
MEMORY_FACTOR = 3.0


# ---- Running programs ----------------------------------------------------------------------------


def run(command, cpus, environment=None, stdin="", timeout_s=TIMEOUT_S):
    """Runs a program on `cpus` only. Returns what it printed, or `NoFigure`."""
    try:
        child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
    except OSError as error:
        raise NoFigure(f"cannot start {command[0]}: {error}") from None
    try:
        output, errors = child.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise NoFigure(f"took more than {timeout_s} s") from None
    finally:
        # Also after Ctrl-C, which a separate session does not receive.
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    if child.returncode != 0:
        last = " | ".join((errors.strip() or output.strip()).splitlines()[-2:])
        raise NoFigure(f"exit status {child.returncode}: {last}")
    return output


def parse_run(text, engine="tierloom"):
    """The sample that a document of `tierloom run ssb --json` holds for one of its two engines.

    `prepared_ms` are executions of a plan that was made once. `text_ms` adds to each what making the plan took, unless the record tells times from
    text to answer itself.
    """
    try:
        records = json.loads(text)["records"]
        opening = next(record for record in records if record["type"] == "run")
        memory = next((record["memory"] for record in records if record["type"] == "summary"), None) or {}
        wanted = "tierloom" if engine == "tierloom" else "datafusion"
        queries = {}
        for record in records:
            if record["type"] != "query" or (record["engine"], record["provenance"]) != (wanted, "measured"):
                continue
            if record["query"] in queries:
                raise NoFigure(f"{record['query']} ran under several placements: give one")
            executed = [finite(value, "a time") for value in record["time_ms"]["values"]]
            told = record.get("text_ms")
            queries[record["query"]] = {
                "prepared_ms": executed,
                "text_ms": told["values"] if told else [value + record["plan_ms"] for value in executed],
                "plan_ms": record["plan_ms"],
                "rows": record["answer"]["rows"],
                "digest": record["answer"]["digest"],
                "column_bytes": report.column_bytes(record.get("phases", [])),
            }
        sample = {
            "queries": queries,
            "column_bytes": opening["data"]["column_bytes"],
            "resident_bytes": memory.get("loaded_bytes"),
            "peak_bytes": memory.get("peak_resident_bytes"),
            "table_rows": {table["name"]: table["rows"] for table in opening["data"]["tables"]},
            "version": f"{opening['tool_version']} ({opening['build']}, {opening['commit'] or 'unknown commit'})",
        }
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise NoFigure(f"not the JSON of a run: {error!r}") from None
    if not queries:
        raise NoFigure("the run has no measured query")
    return sample


def parse_worker(text):
    """The sample that the lines of a worker hold. The answers become digests, as Tierloom's records
    have them.
    """
    sample = {"queries": {}}
    try:
        for line in text.splitlines():
            # Engines may print other lines.
            record = json.loads(line) if line.startswith('{"event"') else {"event": None}
            if record["event"] == "loaded":
                sample |= {key: record[key] for key in ("load_s", "resident_bytes", "settings")}
            elif record["event"] == "query":
                entry = {key: [finite(value, "a time") for value in record[key]] for key in ("text_ms", "prepared_ms") if key in record}
                sample["queries"][record["query"]] = {**entry, "rows": record["rows"], "digest": report.digest(record["answer"])}
            elif record["event"] == "done":
                sample["peak_bytes"] = record["peak_bytes"]
    except (ValueError, KeyError, TypeError) as error:
        raise NoFigure(f"not the lines of a worker: {error!r}") from None
    if "peak_bytes" not in sample:
        raise NoFigure("the worker did not come to its end")
    return sample


class Bench:
    """What is the same for all runs at one scale factor."""

    def __init__(self, arguments, python, scale_factor, data):
        self.arguments, self.python, self.scale_factor, self.data = arguments, python, scale_factor, data
        self.cpus = set(arguments.cpus[: arguments.threads])

    def sample(self, engine):
        """One run of one engine."""
        if engine in ("tierloom", "baseline"):
            return self._tierloom(engine)
        arguments = self.arguments
        command = [self.python, WORKER, engine, "--data", self.data, "--sql", QUERIES, "--threads", arguments.threads]
        command += ["--queries", ",".join(arguments.queries), "--warm", arguments.warm, "--repeat", arguments.repeat]
        with tempfile.TemporaryDirectory(prefix="tierloom-peers-sql-", dir=MEMORY_FOLDER) as scratch:
            return parse_worker(run([*command, "--scratch", scratch], self.cpus, {"POLARS_MAX_THREADS": str(arguments.threads)}))

    def _tierloom(self, engine):
        arguments = self.arguments
        command = [arguments.tierloom, "run", "ssb", "--sf", f"{self.scale_factor:g}", "--placement", arguments.placement, "--json"]
        command += ["--threads", arguments.threads, "--repeat", arguments.repeat, "--queries", ",".join(arguments.queries)]
        command += ["--baseline"] if engine == "baseline" else []
        sample = parse_run(run(command, self.cpus), engine)
        if engine == "tierloom":
            sample["read_gbps"] = self._read_gbps()
        return sample

    def _read_gbps(self):
        """What all threads read from memory, sequentially over 1 GiB."""
        keys = {"memory_region_size": 1 << 30, "number_threads": self.arguments.threads, "run_time": "0.5s", "repeat": 1}
        keys |= {"cpus": ",".join(map(str, sorted(self.cpus))), "page_size": "thp"}
        keys |= {"exec_mode": "sequential", "operation": "read", "access_size": 4096}
        output = run([self.arguments.tierloom, "bench", "-", "--json"], self.cpus, stdin=json.dumps({"read": {"args": keys}}))
        return parse_tierloom(output)[0]


def measure(bench, engines, rounds, say):
    """All rounds at one scale factor. Returns the samples, and a sentence for each run that gave
    none.
    """
    samples, failures = [], []
    for number in range(1, rounds + 1):
        turn = (number - 1) % len(engines)
        for engine in engines[turn:] + engines[:turn]:
            began = time.monotonic()
            name = report.NAMES[engine]
            started_at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            try:
                sample = bench.sample(engine)
            except NoFigure as reason:
                failures.append(f"{name} in round {number}: {reason}")
                say(f"SF {bench.scale_factor:g}, round {number}: {name}: no figure: {reason}")
                continue
            mean = report.geometric_mean([report.statistics.median(entry["text_ms"]) for entry in sample["queries"].values()])
            head = {"engine": engine, "round": number, "scale_factor": bench.scale_factor, "started_at": started_at}
            samples.append({**head, "elapsed_s": round(time.monotonic() - began, 1), **sample})
            say(f"SF {bench.scale_factor:g}, round {number}: {name}: geometric mean {report.ms(mean)} ms ({samples[-1]['elapsed_s']} s in all)")
    return samples, failures


# ---- What a run needs ----------------------------------------------------------------------------


def python_with_packages(venv, engines):
    """The Python to run the workers with, and the version of each package in it. Makes or completes
    the environment if one is named.
    """
    if venv is None:
        return Path(sys.executable), versions_in(sys.executable)
    python = venv.resolve() / "bin" / "python"
    if not python.exists():
        print(f"making a virtual environment in {venv}", file=sys.stderr)
        run([sys.executable, "-m", "venv", venv.resolve()], os.sched_getaffinity(0))
    found = versions_in(python)
    wanted = [f"{name}=={VERSIONS[name]}" for name in packages_of(engines) if found[name] != VERSIONS[name]]
    if wanted:
        print(f"installing {', '.join(wanted)} into {venv}", file=sys.stderr)
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], os.sched_getaffinity(0))
        found = versions_in(python)
    return python, found


def versions_in(python):
    """Version of each package that this Python can import."""
    return json.loads(run([python, WORKER, "versions"], os.sched_getaffinity(0)).splitlines()[-1])


def packages_of(engines):
    """The packages that these engines need."""
    return list(dict.fromkeys([*(engine.split("-")[0] for engine in engines), "pyarrow"]))


def missing_packages(found, engines):
    """What is missing for these engines, as sentences."""
    names = [name for name in packages_of(engines) if found[name] is None]
    return [f"the Python package {name} is missing: pip install {name}=={VERSIONS[name]}, or give a folder with --venv" for name in names]


def make_data(tierloom, scale_factor, folder, cpus):
    """The tables as Arrow files; those that are there already are kept, since a file has its name
    only when it is whole.
    """
    data = folder / f"sf{scale_factor:g}"
    if not all((data / f"{name}.arrow").is_file() for name in TABLES):
        print(f"writing the tables of scale factor {scale_factor:g} into {data}", file=sys.stderr)
        run([tierloom, "generate", "ssb", "--sf", f"{scale_factor:g}", "--format", "arrow", "-o", data], cpus)
    return data


def memory_shortage(data):
    """A sentence if the engines may not have enough memory for these tables; None if they have."""
    size = sum((data / f"{name}.arrow").stat().st_size for name in TABLES) * MEMORY_FACTOR
    found = re.search(r"MemAvailable:\s+(\d+)", text_of("/proc/meminfo"))
    available = int(found[1]) * 1024 if found else None
    if available is None or available >= size:
        return None
    return f"the tables in {data} need about {size / 2**30:.1f} GiB while an engine loads them, {available / 2**30:.1f} GiB are available"


def stored_answers(scale_factor, queries):
    """The stored answers of DuckDB for this scale factor; empty if there are none."""
    folder = QUERIES / "golden" / f"sf{scale_factor:g}"
    return {query: (folder / f"{query}.csv").read_text() for query in queries if (folder / f"{query}.csv").is_file()}


# ---- The command ---------------------------------------------------------------------------------


def scale_factors(text):
    """Numbers above 0 separated by commas."""
    try:
        return [finite(part, "a scale factor") for part in text.split(",")]
    except NoFigure as reason:
        raise argparse.ArgumentTypeError(f"{text!r}: {reason}") from None


def one_of(known):
    """A list of words out of `known`."""

    def parse(text):
        words = text.split(",")
        strange = [word for word in words if word not in known]
        if strange:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(strange)}; known are {', '.join(known)}")
        return words

    return parse


def parse_arguments(given):
    """The arguments; exits with status 2 if something is wrong with them."""
    known = sorted(path.stem for path in QUERIES.glob("q*.sql"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tierloom", type=Path, required=True, help="the built `tierloom` (release build)")
    parser.add_argument("--venv", type=Path, help="virtual environment with the engines; created or completed if necessary (default: this Python's packages)")
    parser.add_argument("--engines", type=one_of(ENGINES), help=f"other engines (default: the available ones of {','.join(ENGINES)})")
    parser.add_argument("--sf", type=scale_factors, default=[1.0, 10.0], help="scale factors (default 1,10)")
    parser.add_argument("--rounds", type=whole, default=5, help="rounds at each scale factor (default 5)")
    parser.add_argument("--repeat", type=whole, default=5, help="timed executions of a query in a round (default 5)")
    parser.add_argument("--warm", type=whole, default=2, help="untimed executions before them; Tierloom always makes 2 (default 2)")
    parser.add_argument("--threads", type=whole, default=2, help="threads of every engine (default 2)")
    parser.add_argument("--cpus", type=cpu_list, help="CPUs to run on, as many as threads (default: the first allowed ones)")
    parser.add_argument("--queries", type=one_of(known), default=known, help="queries, as in q1.1,q4.3 (default all)")
    parser.add_argument("--placement", default="dram", help="placement of Tierloom's tables (default dram)")
    parser.add_argument("--no-baseline", action="store_true", help="leave out DataFusion in Tierloom's own process")
    parser.add_argument("--data", type=Path, help="folder that keeps the tables for the next run (default: a temporary one)")
    parser.add_argument("--json", type=Path, help="also write samples, comparisons and machine facts to this file")
    parser.add_argument("--records", type=Path, help="also write each sample as a JSON line to this file")
    parser.add_argument("--quick", action="store_true", help="scale factor 0.1, one round, two repetitions: a check that everything works")
    arguments = parser.parse_args(given)
    check(parser, arguments)
    return arguments


def check(parser, arguments):
    """Checks that need more than one argument."""
    if not (arguments.tierloom.is_file() and os.access(arguments.tierloom, os.X_OK)):
        parser.error(f"--tierloom: {arguments.tierloom} is not a program")
    arguments.tierloom = arguments.tierloom.resolve()
    allowed = sorted(os.sched_getaffinity(0))
    arguments.cpus = arguments.cpus or allowed
    absent = [cpu for cpu in arguments.cpus if cpu not in allowed]
    if absent:
        parser.error(f"--cpus: this process may not run on {absent}, only on {allowed}")
    if arguments.threads > len(set(arguments.cpus)):
        parser.error(f"--threads: {arguments.threads} threads need as many CPUs, there are {len(set(arguments.cpus))}")
    for name in ("json", "records"):
        path = getattr(arguments, name)
        if path and not path.resolve().parent.is_dir():
            parser.error(f"--{name}: there is no folder {path.resolve().parent}")
    if arguments.quick:
        arguments.sf, arguments.rounds, arguments.repeat = [0.1], 1, 2


def cache_bytes():
    """Size of the largest cache of the first CPU; None if the kernel does not report it."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KM])", path.read_text().strip())
        if found:
            sizes.append(int(found[1]) << {"K": 10, "M": 20}[found[2]])
    return max(sizes, default=None)


def scale_factor_report(arguments, scale_factor, samples, failures, arrow, engines):
    """Everything concluded at one scale factor: a dictionary, and its text."""
    peers = [engine for engine in engines if engine in ENGINES]
    wrong = report.wrong_answers(samples, stored_answers(scale_factor, arguments.queries))
    whole_way = report.compare(samples, peers, "text_ms", lambda engine: "text_ms")
    planned = [engine for engine in ("duckdb", "baseline") if engine in engines]
    executed = report.compare(samples, planned, "prepared_ms", lambda engine: "prepared_ms")
    read, memory = report.bandwidth(samples), report.memory(samples, arrow and arrow["plain_bytes"])
    rows = arrow["rows"]["lineorder"] if arrow else None
    title = f"## SSB at scale factor {scale_factor:g}" + (f": {rows:,} fact rows" if rows else "")
    text = [title, "", f"{arguments.threads} threads, {plural(arguments.rounds, 'round')} of {plural(arguments.repeat, 'execution')}, warm, in memory. Medians; ratio = other / Tierloom.", ""]
    text += ["### Text in, answer out", "", report.table(whole_way, peers), "", *report.verdicts(whole_way, peers)]
    if planned:
        text += ["", "### Executions of a plan made before", "", report.table(executed, planned), "", *report.verdicts(executed, planned)]
    text += ["", "### Memory and bandwidth", "", report.memory_line(memory), *report.bandwidth_lines(read, cache_bytes())]
    text += ["", "### Best / median / worst, ms, text in to answer out", "", report.spread_table(whole_way, peers), ""]
    source = "the stored answers" if stored_answers(scale_factor, arguments.queries) else "each other's"
    text += [f"- answers: {len(wrong)} differ from {source}" if wrong else f"- answers: all equal {source}"]
    text += [f"  - {sentence}" for sentence in wrong] + [f"- no figure: {sentence}" for sentence in failures]
    document = {"scale_factor": scale_factor, "text_to_answer": whole_way, "executions": executed, "bandwidth": read, "memory": memory}
    return {**document, "wrong_answers": wrong, "failures": failures, "arrow": arrow}, "\n".join(text)


def plural(count, word):
    """"1 round", "2 rounds"."""
    return f"{count} {word}" + ("" if count == 1 else "s")


def settings_lines(samples, versions):
    """Which versions ran, with which settings, and what they took to load."""
    lines = ["", "## What ran", ""]
    largest = max((sample["scale_factor"] for sample in samples), default=0)
    seen = {}
    for sample in samples:
        if sample["scale_factor"] == largest:
            seen.setdefault(sample["engine"], sample)
    for engine, sample in seen.items():
        memory = [f"{sample[key] / 1e6:.0f} MB {what}" for key, what in RESIDENT.items() if sample.get(key)]
        memory = f"; at scale factor {largest:g} {', '.join(memory)}" if memory else ""
        if engine in ENGINES:
            lines.append(f"- {report.NAMES[engine]} {versions[engine.split('-')[0]]}: {sample['settings']}{memory}")
        elif engine == "tierloom":
            dev = "" if "(release" in sample["version"] else "; **not a release build, its times say little**"
            lines.append(f"- Tierloom {sample['version']}{memory}{dev}")
    return lines


def write_whole(path, text):
    """Writes a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)


def run_all(arguments, python, versions, engines, folder):
    """Every scale factor in turn. Returns the exit status."""
    facts, documents, samples = machine_facts(), [], []
    print(f"# Tierloom and other engines\n\n{facts['cpu']}, {facts['cpus']} CPUs, kernel {facts['kernel']}, load {facts['load_average'][0]:.2f} at the start")
    if facts["load_average"][0] > 0.5:
        print("\nThe machine is busy with other work: the figures say little.")
    for scale_factor in arguments.sf:
        data = make_data(arguments.tierloom, scale_factor, folder, set(arguments.cpus))
        shortage = memory_shortage(data)
        if shortage:
            print(f"warning: {shortage}", file=sys.stderr)
        arrow = None
        if versions["pyarrow"]:
            arrow = json.loads(run([python, WORKER, "arrow", "--data", data], set(arguments.cpus)).splitlines()[-1])
        bench = Bench(arguments, python, scale_factor, data)
        found, failures = measure(bench, engines, arguments.rounds, lambda line: print(line, file=sys.stderr, flush=True))
        samples += found
        document, text = scale_factor_report(arguments, scale_factor, found, failures, arrow, engines)
        documents.append(document)
        print("\n" + text, flush=True)
        write_results(arguments, facts, versions, documents, samples)
    print("\n".join(settings_lines(samples, versions)))
    ours = {sample["scale_factor"] for sample in samples if sample["engine"] == "tierloom"}
    bad = [f"Tierloom gave no figure at scale factor {scale_factor:g}" for scale_factor in arguments.sf if scale_factor not in ours]
    bad += [sentence for document in documents for sentence in document["wrong_answers"]]
    for sentence in bad:
        print(f"error: {sentence}", file=sys.stderr)
    return 1 if bad else 0


def write_results(arguments, facts, versions, documents, samples):
    """The files that were asked for, with everything measured so far."""
    if arguments.json:
        document = {"schema": "tierloom-peers-sql/1", "command": sys.argv, "machine": facts, "versions": versions}
        write_whole(arguments.json, json.dumps({**document, "scale_factors": documents, "samples": samples}, indent=1) + "\n")
    if arguments.records:
        write_whole(arguments.records, "".join(json.dumps(sample) + "\n" for sample in samples))


def main(given=None):
    """Runs the comparison; returns the exit status."""
    arguments = parse_arguments(given)
    try:
        python, versions = python_with_packages(arguments.venv, arguments.engines or ENGINES)
        missing = missing_packages(versions, arguments.engines or ENGINES)
        if missing and (arguments.engines or versions["pyarrow"] is None):
            print("\n".join(f"error: {sentence}" for sentence in missing), file=sys.stderr)
            return 2
        for sentence in missing:
            print(f"left out: {sentence}", file=sys.stderr)
        engines = [engine for engine in arguments.engines or ENGINES if versions[engine.split("-")[0]]]
        for name in packages_of(engines):
            if versions[name] != VERSIONS[name]:
                print(f"note: {name} is {versions[name]}, the script was written for {VERSIONS[name]}", file=sys.stderr)
        engines = ["tierloom", *engines] + ([] if arguments.no_baseline else ["baseline"])
        if arguments.data:
            arguments.data.mkdir(parents=True, exist_ok=True)
            return run_all(arguments, python, versions, engines, arguments.data.resolve())
        with tempfile.TemporaryDirectory(prefix="tierloom-peers-sql-") as folder:
            return run_all(arguments, python, versions, engines, Path(folder))
    except NoFigure as reason:
        print(f"error: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
