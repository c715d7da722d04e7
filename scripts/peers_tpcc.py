#!/usr/bin/env python3
"""Compares `tierloom run tpcc` with PostgreSQL on one machine: the same warehouses, clients and
mix, in turn. Prints a Markdown table.

    scripts/peers_tpcc.py                            nothing durable, 4 warehouses, two clients
    scripts/peers_tpcc.py --durable --clients 16     commits wait for the device, in both
    scripts/peers_tpcc.py --tierloom target/release/tierloom --json out.json

A store that is called as functions is compared with a server: each transaction is one call of a
procedure of PostgreSQL (peers_tpcc.sql), prepared, by pgbench over a local socket, which is the
least that a user of a server pays. PostgreSQL has all data in its buffers. Without --durable its
tables are unlogged and nothing waits for a device; with it, both use `fdatasync` and group commit,
below --folder. PostgreSQL runs at its default isolation, read committed, as its users run TPC-C;
Tierloom's transactions are serialisable. Each round runs both, the first one changing; every run of
Tierloom begins with new data, PostgreSQL goes on with its own.

Requires the programs of PostgreSQL 15 or later, in --postgres or PATH. Started by root it runs the
server as the user `postgres`. No figure is a TPC result.
"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PORT = "54873"
# Weights of pgbench's scripts, per 10,000: the mix of `run tpcc`, one new order in 100 undone.
MIX = {
    "new-order": (4455, "select new_order(:warehouses, false);"),
    "undone": (45, "begin;\nselect new_order(:warehouses, true);\nrollback;"),
    "payment": (4300, "select payment(:warehouses);"),
    "order-status": (400, "select order_status(:warehouses);"),
    "delivery": (400, "select delivery(:warehouses);"),
    "stock-level": (400, "select stock_level(:warehouses);"),
}


def arguments(given=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--warehouses", type=int, default=4)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=5, help="of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--durable", action="store_true", help="commits wait for the device")
    parser.add_argument("--folder", default="/dev/shm", help="where the data and logs are")
    parser.add_argument("--buffers", default="4GB", help="memory of PostgreSQL for pages")
    parser.add_argument("--postgres", type=Path, help="folder with initdb, postgres, pgbench")
    parser.add_argument(
        "--tierloom", type=Path, default=ROOT / "target" / "release" / "tierloom"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all rates")
    return parser.parse_args(given)


def settings(options, folder="."):
    """The server's settings: all data in memory, and no check-point while it is measured."""
    durable = "on" if options.durable else "off"
    return {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "port": PORT,
        "max_connections": str(options.clients + 10),
        "shared_buffers": options.buffers,
        "max_wal_size": "20GB",
        "checkpoint_timeout": "1h",
        "fsync": durable,
        "synchronous_commit": durable,
        "full_page_writes": durable,
        "wal_sync_method": "fdatasync",
        "jit": "off",
    }


class Server:
    """A server in a folder of its own, with the data."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.user = {"user": "postgres"} if os.geteuid() == 0 else {}
        if self.user:
            shutil.chown(folder, "postgres")
        self.run("initdb", "-D", "data", "-U", "postgres", "--auth=trust", "--no-sync")
        lines = [f"{name} = '{value}'" for name, value in settings(options, folder).items()]
        with open(folder / "data" / "postgresql.auto.conf", "a", encoding="utf-8") as conf:
            conf.write("\n".join(lines) + "\n")
        for name, (_, text) in MIX.items():
            (folder / f"{name}.sql").write_text(text + "\n", encoding="utf-8")
        shutil.copy(Path(__file__).with_suffix(".sql"), folder / "load.sql")
        command = [self.program("postgres"), "-D", "data"]
        log = open(folder / "server.log", "wb")
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, **self.user
        )

    def program(self, name):
        return str(self.options.postgres / name) if self.options.postgres else name

    def run(self, name, *given):
        command = [self.program(name), *given]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, **self.user
        )
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def client(self, name, *given):
        place = ["-h", str(self.folder), "-p", PORT, "-U", "postgres"]
        return self.run(name, *place, *given, "postgres")

    def load(self):
        for _ in range(100):
            ready = [self.program("pg_isready"), "-q", "-h", str(self.folder), "-p", PORT]
            if subprocess.run(ready).returncode == 0:
                break
            time.sleep(0.2)
        kind = "" if self.options.durable else "unlogged"
        variables = [f"-vwarehouses={self.options.warehouses}", f"-vkind={kind}"]
        self.client("psql", "-q", "-X", "-vON_ERROR_STOP=1", *variables, "-f", "load.sql")
        self.client("psql", "-q", "-X", "-c", "checkpoint")

    def cpu_s(self):
        """Processor time of the server's processes that have ended, and of pgbench."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cpu_of_process_s(self.process.pid, 13) + used.ru_utime + used.ru_stime

    def wait_for_sessions(self):
        """Until the server has taken note of the end of its sessions, and of their time."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for _ in range(100):
            commands = [command_of(pid) for pid in children.read_text().split()]
            # One that has ended and that the server has not asked about yet has no command.
            if not any("[local]" in command or not command for command in commands):
                return
            time.sleep(0.1)
        sys.exit("sessions of the server do not end")

    def measure(self):
        """Transactions per second of the whole mix, and per second of processor time."""
        clients, seconds = str(self.options.clients), str(self.options.seconds)
        given = ["-n", "-M", "prepared", "-c", clients, "-j", clients, "-T", seconds]
        given += ["--max-tries=100", f"-Dwarehouses={self.options.warehouses}"]
        for name, (weight, _) in MIX.items():
            given += ["-f", f"{name}.sql@{weight}"]
        self.wait_for_sessions()
        before = self.cpu_s()
        rate = rate_of_pgbench(self.client("pgbench", *given))
        self.wait_for_sessions()
        return rate, rate * self.options.seconds / (self.cpu_s() - before)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    except OSError:
        return ""


def cpu_of_process_s(pid, field=11):
    """Processor time of a process, or (field 13) of its children that have ended."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    ticks = stat.rpartition(")")[2].split()[field : field + 2]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def rate_of_pgbench(text):
    """The rate that pgbench printed; a run with failed transactions gives none."""
    failed = re.search(r"number of failed transactions: (\d+)", text)
    rate = re.search(r"^tps = ([0-9.]+)", text, re.MULTILINE)
    if not rate or (failed and int(failed[1])):
        sys.exit(f"pgbench: {text}")
    return float(rate[1])


def rate_of_records(lines):
    """Transactions of one measured and valid record, those that were rolled back as well."""
    for record in map(json.loads, lines):
        if record.get("provenance") == "measured" and "transactions_per_s" in record:
            if record.get("invalid") or record.get("ended_early"):
                sys.exit(f"tierloom: {record.get('invalid') or record['ended_early']}")
            done = sum(kind["commits"] + kind["rollbacks"] for kind in record["kinds"])
            return done / record["duration_s"]
    sys.exit("tierloom gave no record")


def tierloom(options, folder):
    command = [options.tierloom, "run", "tpcc", "--jsonl", "--pages", "4k"]
    command += ["--warehouses", str(options.warehouses), "--clients", str(options.clients)]
    command += ["--seconds", str(options.seconds)]
    log = folder / "redo.log"
    if options.durable:
        log.unlink(missing_ok=True)
        command += ["--log", log]
    pipe = subprocess.PIPE
    run = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    notes, cpu = [], []
    for note in run.stderr:
        notes.append(note)
        # The clients run between these.
        if "running" in note or "checking" in note:
            cpu.append(cpu_of_process_s(run.pid))
    lines = run.stdout.read().splitlines()
    if run.wait():
        sys.exit(f"tierloom: {''.join(notes)}")
    rate = rate_of_records(lines)
    return rate, rate * options.seconds / (cpu[1] - cpu[0])


def report(options, rates):
    def spread(values, digits):
        middle, low, high = statistics.median(values), min(values), max(values)
        return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"

    durable = "durable" if options.durable else "nothing durable"
    what = f"{options.warehouses} warehouses, {options.clients} clients, {durable}"
    text = "| | Tierloom, transactions | PostgreSQL | ratio |\n|---|---|---|---|\n"
    for at, unit in enumerate(["per s", "per s of CPU time"]):
        own, other = ([turn[at] for turn in rates[name]] for name in ("tierloom", "postgres"))
        ratios = [mine / theirs for mine, theirs in zip(own, other)]
        cells = [spread(own, 0), spread(other, 0), spread(ratios, 1)]
        text += f"| {what}, {unit} | {' | '.join(cells)} |\n"
    return text


def main():
    options = arguments()
    rates = {"tierloom": [], "postgres": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = Path(folder)
        os.chmod(folder, 0o755)
        server = Server(options, folder)
        try:
            server.load()
            turns = [("tierloom", lambda: tierloom(options, folder)), ("postgres", server.measure)]
            # The first round warms up.
            for number in range(options.rounds + 1):
                for name, turn in turns if number % 2 else reversed(turns):
                    rate = turn()
                    if number > 0:
                        rates[name].append(rate)
        finally:
            server.stop()
    print(report(options, rates), end="")
    if options.json:
        options.json.write_text(json.dumps(rates) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
