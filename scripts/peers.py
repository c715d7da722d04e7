#!/usr/bin/env python3
"""Compares Tierloom with other memory benchmarks on this machine: CXL-Bench, likwid-bench, STREAM
and multichase.

    scripts/peers.py --tierloom target/release/tierloom --cxl-bench PATH --likwid PATH \\
        --stream PATH --multichase PATH

In each of N rounds every program measures the same thing once, one after the other within seconds,
on the same CPUs and with the same sizes, so that a machine that changes its speed changes it for
all. The first program of a round rotates. The ratio is the median of the ratios of the rounds.
Programs that are not given are named and left out. docs/peers.md describes the comparison. Exit
status: 0 after measuring, whoever is faster; 1 if Tierloom gave no figure for some metric; 2 for
bad arguments.
"""

import argparse
import json
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Callable

GIB = 1 << 30
TIMEOUT_S = 180
PEERS = ["cxl-bench", "likwid", "stream", "multichase"]
NAMES = {"tierloom": "Tierloom", "cxl-bench": "CXL-Bench", "likwid": "likwid-bench", "stream": "STREAM", "multichase": "multichase"}


class NoFigure(Exception):
    """A program gave no figure; the message says why."""


# ---- What the programs print ---------------------------------------------------------------------


def finite(value, what):
    """`value` as a number above 0, else `NoFigure`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise NoFigure(f"{what} is {value!r}, not a number") from None
    if not math.isfinite(number) or number <= 0:
        raise NoFigure(f"{what} is {number}, which cannot be")
    return number


def parse_tierloom(text, statistic="median"):
    """The figure of `tierloom bench --json` with one run: ns of a chase ("median" or "mean"), else
    GB/s. Also the remarks of the run.
    """
    try:
        records = json.loads(text)["records"]
        (record,) = [record for record in records if record.get("type", "bench") == "bench"]
        task = record["tasks"][0]
        remarks = [remark["text"] for remark in record["remarks"]]
        valid = record["valid"]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise NoFigure(f"not the JSON of one run: {error!r}") from None
    if not valid:
        raise NoFigure("the run is not valid: " + "; ".join(remarks))
    if task["kind"] == "chase":
        if not task["latency"]:
            raise NoFigure("the chase has no latency")
        latency_ns = task["latency"]["mean_ns"] if statistic == "mean" else task["latency"]["median_ns"]["median"]
        return finite(latency_ns, f"the {statistic} latency"), remarks
    if not task["bandwidth_gbps"]:
        raise NoFigure("the run has no bandwidth")
    return finite(task["bandwidth_gbps"]["median"], "the bandwidth"), remarks


def parse_cxl_bench(text):
    """GB/s of a CXL-Bench result file, from its bytes and seconds: its own `bandwidth` is GiB/s."""
    try:
        document = json.loads(text)
        workload = document[0] if isinstance(document, list) else document
        results = workload["benchmarks"][0]["results"]
        accessed_bytes, elapsed_s = results["accessed_bytes"], results["execution_time"]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise NoFigure(f"not a result file with one throughput run: {error!r}") from None
    return finite(accessed_bytes, "accessed_bytes") / finite(elapsed_s, "execution_time") / 1e9


def parse_likwid(text, wanted_bytes=None):
    """GB/s of likwid-bench (its `MByte/s` are decimal) and the CPUs it ran on.

    `wanted_bytes` is the working set that was asked for.
    """
    rate = re.search(r"^MByte/s:\s*(\S+)", text, re.MULTILINE)
    if not rate:
        raise NoFigure("no line `MByte/s:`")
    clock = re.search(r"^CPU Clock:\s*(\d+)", text, re.MULTILINE)
    if clock and int(clock[1]) == 0:
        raise NoFigure("likwid found no clock rate (virtual machines may have a CPUID leaf 0x16 of zeros), so its times are wrong")
    size = re.search(r"^Size \(Byte\):\s*(\d+)", text, re.MULTILINE)
    if size and wanted_bytes and not 0.9 < int(size[1]) / wanted_bytes < 1.1:
        raise NoFigure(f"likwid took {size[1]} bytes and not {wanted_bytes}")
    cpus = [int(cpu) for cpu in re.findall(r"^Group: .* running on hwthread (\d+)", text, re.MULTILINE)]
    return finite(rate[1], "MByte/s") / 1e3, cpus


def parse_stream(text, kernel="Copy"):
    """GB/s of a STREAM kernel: the mean over its repetitions and the best one, which is what STREAM
    prints as its rate.
    """
    row = re.search(rf"^{kernel}:\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)", text, re.MULTILINE)
    if not row:
        raise NoFigure(f"no line `{kernel}:`")
    if "Solution Validates" not in text:
        raise NoFigure("STREAM found its own result wrong")
    best_mbps, mean_s, least_s = (finite(row[place], f"the {kernel} row") for place in (1, 2, 3))
    return best_mbps * least_s / mean_s / 1e3, best_mbps / 1e3


def parse_multichase(text):
    """ns per step: the last line that is a number and nothing else."""
    numbers = re.findall(r"^\s*(\d+(?:\.\d+)?)\s*$", text, re.MULTILINE)
    if not numbers:
        raise NoFigure("no line with a latency")
    return finite(numbers[-1], "the latency")


# ---- Running them --------------------------------------------------------------------------------


@dataclass
class Context:
    """The same for all runs of the comparison."""

    paths: dict
    cpus: list
    size_bytes: int
    run_s: float
    access_size: int
    sets: list
    environment: dict
    folder: Path

    def run(self, program, arguments, threads, stdin="", variables=None):
        """Runs a program on the first `threads` CPUs. Returns what it printed, or `NoFigure`."""
        cpus = set(self.cpus[:threads])
        environment = {**os.environ, "LC_ALL": "C", **(variables or {}), **self.environment.get(program, {})}
        try:
            child = subprocess.Popen(
                [str(self.paths[program]), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
                preexec_fn=lambda: os.sched_setaffinity(0, cpus),
            )
        except OSError as error:
            raise NoFigure(f"cannot start {self.paths[program]}: {error}") from None
        try:
            output, errors = child.communicate(stdin, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise NoFigure(f"took more than {TIMEOUT_S} s") from None
        finally:
            # Also after Ctrl-C, which a separate session does not receive.
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        if child.returncode != 0:
            last = " | ".join((errors.strip() or output.strip()).splitlines()[-2:])
            raise NoFigure(f"exit status {child.returncode}: {last}")
        return output


@dataclass
class Sample:
    """What one run of one program gave."""

    value: float
    notes: list = field(default_factory=list)


def tierloom(context, threads, keys, statistic="median"):
    """A run of Tierloom with one workload."""
    arguments = {
        "memory_region_size": context.size_bytes,
        "number_threads": threads,
        "cpus": ",".join(str(cpu) for cpu in context.cpus[:threads]),
        "run_time": f"{context.run_s}s",
        "repeat": 1,
        **keys,
    }
    # JSON is YAML too.
    workload = json.dumps({"peers": {"args": arguments}})
    sets = [part for setting in context.sets for part in ("--set", setting)]
    output = context.run("tierloom", ["bench", "-", "--json", *sets], threads, stdin=workload)
    value, remarks = parse_tierloom(output, statistic)
    return Sample(value, remarks)


def cxl_bench(context, threads, keys):
    """A run of CXL-Bench with one workload. It asks `git` for a revision and loses its results
    without one, so it gets a `git`.
    """
    folder = Path(tempfile.mkdtemp(dir=context.folder))
    (folder / "bin").mkdir()
    git = folder / "bin" / "git"
    git.write_text("#!/bin/sh\necho unknown\n")
    git.chmod(0o755)
    (folder / "results").mkdir()
    arguments = {
        "memory_region_size": context.size_bytes,
        "number_threads": threads,
        "numa_memory_nodes": [0],
        "numa_task_nodes": [0],
        "thread_pin_mode": "single-fixed",
        "thread_cores": context.cpus[:threads],
        "transparent_huge_pages": True,
        "run_time": max(1, round(context.run_s)),
        **keys,
    }
    (folder / "peers.yaml").write_text(json.dumps({"peers": {"args": arguments}}))
    variables = {"PATH": f"{folder / 'bin'}:{os.environ.get('PATH', '')}"}
    context.run("cxl-bench", ["-c", str(folder / "peers.yaml"), "-r", str(folder / "results")], threads, variables=variables)
    files = sorted((folder / "results").glob("*.json"))
    if not files:
        raise NoFigure("left no result file")
    return Sample(parse_cxl_bench(files[-1].read_text()))


def likwid(context, threads, kernel, streams=1):
    """A run of likwid-bench; the working set is divided among its streams and threads.

    It is given in kB: version 5.2 takes the KiB of newer ones for bytes, and no more than 2^31 of
    these.
    """
    size_bytes = streams * context.size_bytes
    group = f"N:{size_bytes // 1000}kB:{threads}"
    variables = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    seconds = str(max(1, round(context.run_s)))
    output = context.run("likwid", ["-t", kernel, "-w", group, "-s", seconds], threads, variables=variables)
    value, cpus = parse_likwid(output, size_bytes)
    wanted = context.cpus[:threads]
    notes = [] if sorted(cpus) == sorted(wanted) else [f"ran on CPUs {cpus} instead of {wanted}"]
    return Sample(value, notes)


def stream(context, threads):
    """A run of STREAM; its arrays have the size that it was built with."""
    variables = {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}
    mean, best = parse_stream(context.run("stream", [], threads, variables=variables))
    return Sample(mean, [f"best repetition {best:.1f} GB/s"])


def multichase(context, options):
    """A run of multichase: the mean of three samples of half a second."""
    arguments = ["-a", "-n", "3", "-t", "1", "-m", str(context.size_bytes), *options]
    return Sample(parse_multichase(context.run("multichase", arguments, 1)))


# ---- What is compared with what ------------------------------------------------------------------


@dataclass
class Contender:
    """A program with its options. The first of a metric is Tierloom; `reference` ones are only
    shown.
    """

    program: str
    options: str
    measure: Callable
    reference: bool = False

    def name(self):
        """For tables."""
        return f"{NAMES[self.program]} {self.options}".strip()


@dataclass
class Metric:
    """Something that is measured by Tierloom and others."""

    name: str
    unit: str
    contenders: list


def likwid_suffix(cpu_flags):
    """Which of likwid's kernels this processor has."""
    if "avx512f" in cpu_flags:
        return "_avx512"
    return "_avx" if "avx" in cpu_flags else ""


def throughput_metrics(threads, own_size, suffix):
    """The metrics of bandwidth with this many threads."""

    def ours(options="", reference=False, **keys):
        keys = {"page_size": "thp", **keys}
        return Contender("tierloom", options, lambda context: tierloom(context, threads, keys), reference)

    def cxl(options, **keys):
        return Contender("cxl-bench", options, lambda context: cxl_bench(context, threads, keys))

    def likwid_with(kernel, streams=1):
        kernel = kernel + suffix
        return Contender("likwid", kernel, lambda context: likwid(context, threads, kernel, streams))

    def both_sizes(operation):
        """Tierloom at its own access size against CXL-Bench at several. CXL-Bench reads in steps of
        64 B only, whatever it accepts.
        """
        sequential = {"exec_mode": "sequential", "operation": operation}
        theirs = [64] if operation == "read" else sorted({64, 256, own_size})
        sizes = [cxl(f"{size} B", access_size=size, **sequential) for size in theirs]
        own = [ours(f"{own_size} B", access_size=own_size, **sequential)]
        if own_size != 64:
            own.append(ours("64 B", access_size=64, reference=True, **sequential))
        return own + sizes

    plural = "thread" if threads == 1 else "threads"
    copy = {"exec_mode": "sequential", "operation": "stream-copy", "access_size": own_size}

    def copies(context):
        """From one half of the region to the other, each as large as the region of a read."""
        keys = {"page_size": "thp", "memory_region_size": 2 * context.size_bytes, **copy}
        return tierloom(context, threads, keys)

    random = {"exec_mode": "random", "operation": "read", "access_size": 64}
    return [
        Metric(f"read, {threads} {plural}", "GB/s", both_sizes("read") + [likwid_with("load")]),
        Metric(f"nt-store, {threads} {plural}", "GB/s", both_sizes("stream-write") + [likwid_with("store_mem")]),
        Metric(
            f"nt-copy, {threads} {plural}",
            "GB/s",
            [
                Contender("tierloom", f"{own_size} B", copies),
                likwid_with("copy_mem", streams=2),
                Contender("stream", "Copy", lambda context: stream(context, threads)),
            ],
        ),
        Metric(f"random-read, {threads} {plural}", "GB/s", [ours("64 B", **random), cxl("64 B", **random)]),
    ]


def chase_metrics(size_bytes):
    """The metrics of latency: all lines in any order, and 64 pages after another."""

    def ours(locality, page_size):
        """Means against means; the median, which is Tierloom's headline and free of interruptions,
        as a reference.
        """
        keys = {"measure": "chase", "chase_locality": locality, "page_size": page_size}
        return [
            Contender("tierloom", f"{locality}, mean", lambda context: tierloom(context, 1, keys, "mean")),
            Contender("tierloom", f"{locality}, median", lambda context: tierloom(context, 1, keys), reference=True),
        ]

    def theirs(options, reference=False):
        return Contender("multichase", " ".join(options), lambda context: multichase(context, options), reference)

    metrics = []
    for page_size, huge in (("4k", []), ("thp", ["-H"])):
        anywhere = theirs(["-s", "64", "-T", str(size_bytes), *huge])
        grouped = [theirs(["-s", "64", "-T", "262144", *huge]), theirs(["-s", "256", "-T", "262144", *huge], reference=True)]
        metrics.append(Metric(f"chase-random, {page_size}", "ns", [*ours("random", page_size), anywhere]))
        metrics.append(Metric(f"chase-pages, {page_size}", "ns", [*ours("pages", page_size), *grouped]))
    return metrics


def all_metrics(arguments, cpu_flags):
    """All metrics for these arguments, in the order of the report."""
    suffix = likwid_suffix(cpu_flags)
    metrics = [metric for threads in arguments.threads for metric in throughput_metrics(threads, arguments.access_size, suffix)]
    metrics.sort(key=lambda metric: ["read", "nt-store", "nt-copy", "random-read"].index(kind(metric)))
    return metrics + chase_metrics(arguments.size)


def kind(metric):
    """The name without its threads or pages."""
    return metric.name.split(",")[0]


# ---- Comparing -----------------------------------------------------------------------------------


def compare(metric, rounds):
    """Summary of a metric: each contender's median, and the median of the ratios to the best peer
    of the rounds that both have.

    `rounds` has a dictionary per round: name of the contender to value. Ratios are oriented so that 1 and more is as good or better.
    """
    ours = metric.contenders[0]
    rows, best = [], None
    for contender in metric.contenders:
        values = [values[contender.name()] for values in rounds if contender.name() in values]
        if not values:
            continue
        row = {
            "program": contender.name(),
            "median": statistics.median(values),
            "min": min(values),
            "max": max(values),
            "rounds": len(values),
            "ratio": None,
        }
        pairs = [(values[ours.name()], values[contender.name()]) for values in rounds if {ours.name(), contender.name()} <= set(values)]
        if contender is not ours and pairs:
            ratios = [own / other if metric.unit == "GB/s" else other / own for own, other in pairs]
            row["ratio"] = statistics.median(ratios)
            row["ratio_min"], row["ratio_max"] = min(ratios), max(ratios)
        rows.append(row)
        if contender.program == "tierloom" or contender.reference or row["ratio"] is None:
            continue
        if best is None or (row["median"] > best["median"]) == (metric.unit == "GB/s"):
            best = row
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "rows": rows,
        "best_peer": best and best["program"],
        "ratio": best and best["ratio"],
    }


def table(summary):
    """The summary as text."""
    lines = [f"{summary['metric']} ({summary['unit']})"]
    width = max([len(row["program"]) for row in summary["rows"]], default=0)
    lines.append(f"  {'':{width}}  {'median':>8} {'min':>8} {'max':>8} {'rounds':>6}  ours/this (median, min-max)")
    for row in summary["rows"]:
        cells = f"{row['median']:8.2f} {row['min']:8.2f} {row['max']:8.2f} {row['rounds']:6}"
        ratio = "" if row["ratio"] is None else f"  {row['ratio']:.3f}  ({row['ratio_min']:.3f}-{row['ratio_max']:.3f})"
        mark = "  <- best peer" if row["program"] == summary["best_peer"] else ""
        lines.append(f"  {row['program']:{width}}  {cells}{ratio}{mark}")
    if summary["ratio"] is None:
        lines.append("  no ratio: Tierloom or all peers gave no figure")
    elif summary["unit"] == "ns":
        lines.append(f"  ratio {summary['ratio']:.3f}: {summary['best_peer']} / Tierloom; above 1 Tierloom's figure is the lower one")
    else:
        lines.append(f"  ratio {summary['ratio']:.3f}: Tierloom / {summary['best_peer']}; above 1 Tierloom is faster")
    return "\n".join(lines)


def measure(metric, context, rounds, say):
    """All rounds of a metric. Returns a dictionary per round, and every run with its notes."""
    results, samples = [], []
    for number in range(rounds):
        turn = number % len(metric.contenders)
        values = {}
        for contender in metric.contenders[turn:] + metric.contenders[:turn]:
            sample = {"metric": metric.name, "unit": metric.unit, "round": number + 1, "program": contender.name()}
            sample["started_at"] = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            began = time.monotonic()
            try:
                outcome = contender.measure(context)
                sample |= {"value": outcome.value, "notes": outcome.notes}
                values[contender.name()] = outcome.value
                say(f"{metric.name}, round {number + 1}: {contender.name()}: {outcome.value:.2f} {metric.unit}")
            except NoFigure as reason:
                sample |= {"value": None, "notes": [str(reason)]}
                say(f"{metric.name}, round {number + 1}: {contender.name()}: no figure: {reason}")
            sample["elapsed_s"] = round(time.monotonic() - began, 3)
            samples.append(sample)
        results.append(values)
    return results, samples


# ---- The command ---------------------------------------------------------------------------------


def text_of(path):
    """Contents of a small file of the kernel; empty if it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def machine_facts():
    """Facts about the machine that a reader of the figures needs."""
    info = text_of("/proc/cpuinfo")

    def first(key):
        found = re.search(rf"^{key}\s*:\s*(.*)$", info, re.MULTILINE)
        return found[1] if found else None

    memory = re.search(r"MemTotal:\s+(\d+)", text_of("/proc/meminfo"))
    return {
        "cpu": first("model name") or platform.machine(),
        "cpus": os.cpu_count(),
        "memory_bytes": int(memory[1]) * 1024 if memory else None,
        "kernel": platform.release(),
        "transparent_huge_pages": text_of("/sys/kernel/mm/transparent_hugepage/enabled").strip(),
        "load_average": list(os.getloadavg()),
        "virtual": "hypervisor" in (first("flags") or "").split(),
    }


def size(text):
    """Bytes of "1G" or "512M"."""
    found = re.fullmatch(r"([1-9]\d{0,11})([KMG]?)(?:iB)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a size such as 1G")
    value = int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]
    if value % (64 << 20):
        raise argparse.ArgumentTypeError(f"{text!r}: CXL-Bench needs a multiple of 64M")
    return value


def whole(text):
    """A number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1")
    return int(text)


def counts(text):
    """A list of numbers from 1."""
    return [whole(part) for part in text.split(",")]


def cpu_list(text):
    """CPU numbers separated by commas."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected CPU numbers such as 0,1")
    return [int(part) for part in text.split(",")]


def variable(text):
    """PROGRAM:NAME=VALUE."""
    found = re.fullmatch(r"([a-z-]+):([A-Za-z_]\w*)=(.*)", text)
    if not found or found[1] not in NAMES:
        raise argparse.ArgumentTypeError(f"{text!r}: expected PROGRAM:NAME=VALUE with one of {', '.join(NAMES)}")
    return found.groups()


def parse_arguments(given):
    """The arguments; exits with status 2 if something is wrong with them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tierloom", type=Path, required=True, help="the built `tierloom` (release build)")
    for peer in PEERS:
        parser.add_argument(f"--{peer}", type=Path, help=f"the built program of {NAMES[peer]}; left out without")
    parser.add_argument("--rounds", type=whole, default=7, help="rounds per metric (default 7)")
    parser.add_argument("--size", type=size, default=GIB, help="bytes of the memory region (default 1G)")
    parser.add_argument("--threads", type=counts, default=[1, 2], help="thread counts of the bandwidth metrics (default 1,2)")
    parser.add_argument("--cpus", type=cpu_list, help="CPUs to run on, as many as threads (default: the first allowed ones)")
    parser.add_argument("--run-time", type=float, default=1.0, help="seconds of each timed run (default 1)")
    parser.add_argument("--access-size", type=whole, default=4096, help="Tierloom's access size in sequential runs, bytes (default 4096)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed to `tierloom bench --set` in all runs")
    parser.add_argument("--env", action="append", type=variable, default=[], metavar="PROGRAM:NAME=VALUE", help="environment of a program")
    parser.add_argument("--metrics", help="only metrics whose names begin with one of these, separated by commas")
    parser.add_argument("--json", type=Path, help="also write all samples, summaries and machine facts to this file")
    parser.add_argument("--list", action="store_true", help="show what would be compared, and stop")
    arguments = parser.parse_args(given)
    check(parser, arguments)
    return arguments


def check(parser, arguments):
    """Checks that need more than one argument."""
    allowed = sorted(os.sched_getaffinity(0))
    arguments.cpus = arguments.cpus or allowed
    absent = [cpu for cpu in arguments.cpus if cpu not in allowed]
    if absent:
        parser.error(f"--cpus: this process may not run on {absent}, only on {allowed}")
    if max(arguments.threads) > len(set(arguments.cpus)):
        parser.error(f"--threads: {max(arguments.threads)} threads need as many CPUs, there are {len(set(arguments.cpus))}")
    if not 0.05 <= arguments.run_time <= 60:
        parser.error("--run-time: expected 0.05 to 60 s")
    if arguments.json and not arguments.json.resolve().parent.is_dir():
        parser.error(f"--json: there is no folder {arguments.json.resolve().parent}")
    for program in NAMES:
        path = getattr(arguments, program.replace("-", "_"))
        if path and not (path.is_file() and os.access(path, os.X_OK)):
            parser.error(f"--{program}: {path} is not a program")


def chosen_metrics(arguments, programs):
    """The metrics that were asked for with the contenders that there are."""
    metrics = all_metrics(arguments, text_of("/proc/cpuinfo"))
    if arguments.metrics:
        wanted = tuple(arguments.metrics.split(","))
        metrics = [metric for metric in metrics if metric.name.startswith(wanted)]
    for metric in metrics:
        metric.contenders = [contender for contender in metric.contenders if contender.program in programs]
    return metrics


def main(given=None):
    """Runs the comparison; returns the exit status."""
    arguments = parse_arguments(given)
    paths = {program: getattr(arguments, program.replace("-", "_")) for program in NAMES}
    paths = {program: path.resolve() for program, path in paths.items() if path}
    for program in PEERS:
        if program not in paths:
            print(f"{NAMES[program]} is left out: give its program with --{program}")
    metrics = chosen_metrics(arguments, paths)
    if not metrics:
        print(f"--metrics: nothing begins with {arguments.metrics!r}; --list without it shows the names", file=sys.stderr)
        return 2
    if arguments.list:
        for metric in metrics:
            print(f"{metric.name} ({metric.unit}): " + "; ".join(contender.name() for contender in metric.contenders))
        return 0
    environment = {}
    for program, name, value in arguments.env:
        environment.setdefault(program, {})[name] = value
    facts = machine_facts()
    print(f"{facts['cpu']}, {facts['cpus']} CPUs, kernel {facts['kernel']}, load {facts['load_average'][0]:.2f}")
    if facts["load_average"][0] > 0.5:
        print("the machine is busy with other work: the figures say little")
    summaries, samples = [], []
    with tempfile.TemporaryDirectory(prefix="tierloom-peers-") as folder:
        context = Context(
            paths, arguments.cpus, arguments.size, arguments.run_time, arguments.access_size, arguments.set, environment, Path(folder)
        )
        for metric in metrics:
            rounds, runs = measure(metric, context, arguments.rounds, lambda line: print(line, file=sys.stderr, flush=True))
            samples += runs
            summaries.append(compare(metric, rounds))
            print("\n" + table(summaries[-1]), flush=True)
            if arguments.json:
                write(arguments.json, given, facts, paths, summaries, samples)
    ours_missing = [s["metric"] for s in summaries if not any(row["program"].startswith("Tierloom") for row in s["rows"])]
    if ours_missing:
        print(f"\nTierloom gave no figure for: {'; '.join(ours_missing)}", file=sys.stderr)
    return 1 if ours_missing else 0


def write(path, given, facts, paths, summaries, samples):
    """Writes the document, whole or not at all."""
    document = {
        "schema": "tierloom-peers/1",
        "command": sys.argv if given is None else given,
        "machine": facts,
        "programs": {program: str(program_path) for program, program_path in paths.items()},
        "summaries": summaries,
        "samples": samples,
    }
    whole_file = path.with_name(path.name + ".part")
    whole_file.write_text(json.dumps(document, indent=1) + "\n")
    whole_file.replace(path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
