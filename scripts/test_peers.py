#!/usr/bin/env python3
"""Tests of peers.py: `python3 -m unittest discover -s scripts -p 'test_*.py'`. The outputs were
recorded from the programs, shortened.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers  # noqa: E402

LIKWID = """Allocate: Process running on hwthread 0 (Domain N) - Vector length 134217728/1073741824 Offset 0 Alignment 512
--------------------------------------------------------------------------------
LIKWID MICRO BENCHMARK
Test: load_avx512
--------------------------------------------------------------------------------
Using 2 threads
--------------------------------------------------------------------------------
Group: 0 Thread 0 Global Thread 0 running on hwthread 0 - Vector length 67108864 Offset 0
Group: 0 Thread 1 Global Thread 1 running on hwthread 1 - Vector length 67108864 Offset 67108864
--------------------------------------------------------------------------------
Cycles:\t\t\t8982099542
CPU Clock:\t\t2596079039
Cycle Clock:\t\t2596079039
Time:\t\t\t3.459871e+00 sec
Size (Byte):\t\t1073741824
MFlops/s:\t\t0.00
Data volume (Byte):\t34359738368
MByte/s:\t\t9930.93
"""

STREAM = """-------------------------------------------------------------
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           12783.3     0.124712     0.111994     0.154086
Scale:          12726.1     0.135855     0.112498     0.168780
Add:            13253.1     0.188408     0.162036     0.221664
Triad:          13468.8     0.199308     0.159441     0.256626
-------------------------------------------------------------
Solution Validates: avg error less than 1.000000e-13 on all three arrays
-------------------------------------------------------------
"""

CXL_BENCH = """[{"benchmarks": [{"config": {"access_size": 64, "exec_mode": "random", "number_threads": 2, "operation": "read"},
  "results": {"accessed_bytes": 8388608000, "bandwidth": 7.684394247311286, "execution_time": 1.016670898, "start_time": 0,
   "thread_bandwidth_avg": 3.842197123655643, "threads": [{"accessed_bytes": 4160749568, "bandwidth": 3.835393460410268}]}}],
  "bm_name": "peers", "bm_type": "single", "compiler": "gcc 12.2", "git_hash": "unknown", "matrix_args": []}]"""


def record(kind="throughput", valid=True, bandwidth=None, latency=None, remarks=()):
    """The fields of a record that are read."""
    spread = lambda value: value and {"min": value, "median": value, "max": value, "values": [value]}  # noqa: E731
    latency = latency and {"median_ns": spread(latency), "mean_ns": latency + 2}
    task = {"kind": kind, "bandwidth_gbps": spread(bandwidth), "latency": latency}
    remarks = [{"invalidates": not valid, "text": text} for text in remarks]
    return json.dumps({"records": [{"type": "bench", "valid": valid, "remarks": remarks, "tasks": [task]}]})


class Parsers(unittest.TestCase):
    def test_cxl_bench_is_decimal_although_its_files_are_binary(self):
        self.assertAlmostEqual(peers.parse_cxl_bench(CXL_BENCH), 8.251055, places=5)

    def test_likwid_gives_its_rate_and_the_cpus_it_really_used(self):
        rate, cpus = peers.parse_likwid(LIKWID)
        self.assertAlmostEqual(rate, 9.93093)
        self.assertEqual(cpus, [0, 1])

    def test_likwid_without_a_clock_gives_no_figure(self):
        output = LIKWID.replace("CPU Clock:\t\t2596079039", "CPU Clock:\t\t0").replace("9930.93", "0.00")
        with self.assertRaisesRegex(peers.NoFigure, "clock"):
            peers.parse_likwid(output)

    def test_likwid_with_another_working_set_gives_no_figure(self):
        self.assertAlmostEqual(peers.parse_likwid(LIKWID, 1 << 30)[0], 9.93093)
        # Its sizes are multiples of the loop's stride.
        self.assertAlmostEqual(peers.parse_likwid(LIKWID, 1_073_000_000)[0], 9.93093)
        with self.assertRaisesRegex(peers.NoFigure, "1073741824 bytes"):
            peers.parse_likwid(LIKWID, 1 << 20)

    def test_stream_is_the_mean_of_its_repetitions_not_the_best(self):
        mean, best = peers.parse_stream(STREAM)
        self.assertAlmostEqual(best, 12.7833)
        self.assertAlmostEqual(mean, 16 * 89478485 / 0.124712 / 1e9, places=3)

    def test_stream_with_wrong_results_gives_no_figure(self):
        with self.assertRaisesRegex(peers.NoFigure, "wrong"):
            peers.parse_stream(STREAM.replace("Solution Validates", "Failed Validation"))

    def test_multichase_is_its_last_number(self):
        self.assertEqual(peers.parse_multichase(" 277.7\n"), 277.7)
        self.assertEqual(peers.parse_multichase("cpu 3 is offline\n 319\n"), 319.0)
        with self.assertRaises(peers.NoFigure):
            peers.parse_multichase("usage: multichase [options]\n")

    def test_tierloom_bandwidth_and_chase(self):
        self.assertEqual(peers.parse_tierloom(record(bandwidth=38.5, remarks=["spread of 12%"])), (38.5, ["spread of 12%"]))
        chase = record("chase", bandwidth=0.3, latency=181.5)
        self.assertEqual(peers.parse_tierloom(chase), (181.5, []))
        self.assertEqual(peers.parse_tierloom(chase, "mean"), (183.5, []))

    def test_an_invalid_run_of_tierloom_is_not_compared(self):
        with self.assertRaisesRegex(peers.NoFigure, "pages moved"):
            peers.parse_tierloom(record(valid=False, bandwidth=38.5, remarks=["pages moved"]))

    def test_garbage_is_no_figure_and_no_crash(self):
        parsers = [peers.parse_tierloom, peers.parse_cxl_bench, peers.parse_likwid, peers.parse_stream, peers.parse_multichase]
        garbage = ["", "{", "[]", "null", "[{}]", '{"records": []}', '{"records": [{}]}', "MByte/s: x", "Copy: 1 2 3", "\0", record()]
        for parse in parsers:
            for text in garbage:
                with self.subTest(parser=parse.__name__, text=text), self.assertRaises(peers.NoFigure):
                    parse(text)

    def test_zero_and_infinity_are_no_figures(self):
        for text in ["MByte/s: 0.00", "MByte/s: inf", "MByte/s: -nan"]:
            with self.subTest(text=text), self.assertRaises(peers.NoFigure):
                peers.parse_likwid(text)


class Comparing(unittest.TestCase):
    def metric(self, unit, *others):
        """Ours against `others`; the last one as a reference if its name says so."""
        contenders = [peers.Contender("tierloom", "", None)]
        contenders += [peers.Contender("likwid", other, None, other == "reference") for other in others]
        return peers.Metric("m", unit, contenders)

    def test_the_ratio_is_the_median_of_rounds_and_not_the_ratio_of_medians(self):
        metric = self.metric("GB/s", "a")
        # The machine changes its speed between rounds, for both programs alike but for one run.
        rounds = [{"Tierloom": own, "likwid-bench a": other} for own, other in [(40, 40), (80, 80), (40, 40), (80, 40), (80, 80)]]
        summary = peers.compare(metric, rounds)
        self.assertEqual(summary["ratio"], 1.0)
        self.assertEqual(summary["rows"][0]["median"], 80)
        self.assertEqual(summary["rows"][1]["median"], 40)

    def test_the_best_peer_is_fastest_by_bandwidth_and_lowest_by_latency(self):
        rounds = [{"Tierloom": 100, "likwid-bench a": 80, "likwid-bench b": 125}]
        fastest = peers.compare(self.metric("GB/s", "a", "b"), rounds)
        self.assertEqual((fastest["best_peer"], fastest["ratio"]), ("likwid-bench b", 0.8))
        lowest = peers.compare(self.metric("ns", "a", "b"), rounds)
        self.assertEqual((lowest["best_peer"], lowest["ratio"]), ("likwid-bench a", 0.8))

    def test_references_are_shown_but_never_the_best_peer(self):
        rounds = [{"Tierloom": 100, "likwid-bench a": 80, "likwid-bench reference": 500}]
        summary = peers.compare(self.metric("GB/s", "a", "reference"), rounds)
        self.assertEqual(summary["best_peer"], "likwid-bench a")
        self.assertIn("likwid-bench reference", peers.table(summary))

    def test_a_round_without_one_of_both_does_not_count_for_the_ratio(self):
        rounds = [{"Tierloom": 50, "likwid-bench a": 50}, {"likwid-bench a": 10}, {"Tierloom": 10}]
        summary = peers.compare(self.metric("GB/s", "a"), rounds)
        self.assertEqual(summary["ratio"], 1.0)
        self.assertEqual([row["rounds"] for row in summary["rows"]], [2, 2])

    def test_without_our_figure_there_is_no_ratio(self):
        summary = peers.compare(self.metric("GB/s", "a"), [{"likwid-bench a": 50}])
        self.assertIsNone(summary["ratio"])
        self.assertIn("no ratio", peers.table(summary))

    def test_no_two_contenders_of_a_metric_have_the_same_name(self):
        with tempfile.TemporaryDirectory() as folder:
            for access_size in ["64", "256", "4096"]:
                program = script(Path(folder), "tierloom", "exit 0")
                arguments = peers.parse_arguments(["--tierloom", str(program), "--threads", "1", "--access-size", access_size])
                for metric in peers.all_metrics(arguments, "avx512f"):
                    names = [contender.name() for contender in metric.contenders]
                    self.assertEqual(len(names), len(set(names)), metric.name)
                    self.assertEqual(metric.contenders[0].program, "tierloom", metric.name)


def script(folder, name, text):
    """An executable shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def command(self, *arguments):
        """Exit status and what was printed."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = peers.main(list(arguments))
            except SystemExit as end:
                status = end.code
        return status, out.getvalue(), err.getvalue()

    def tierloom(self, printed):
        """A program that keeps its workload and prints this."""
        (self.folder / "printed").write_text(printed)
        text = f"cat > {self.folder}/workload; echo \"$@\" > {self.folder}/arguments; cat {self.folder}/printed"
        return str(script(self.folder, "tierloom", text))

    def test_bad_arguments_have_status_2(self):
        program = self.tierloom("")
        for bad in [
            [],
            ["--tierloom", "/does/not/exist"],
            ["--tierloom", program, "--stream", str(self.folder)],
            ["--tierloom", program, "--rounds", "0"],
            ["--tierloom", program, "--size", "100M"],
            ["--tierloom", program, "--threads", "100000"],
            ["--tierloom", program, "--cpus", "99999"],
            ["--tierloom", program, "--env", "bash:A=1"],
            ["--tierloom", program, "--json", "/does/not/exist/x.json"],
            ["--tierloom", program, "--run-time", "nan"],
            ["--tierloom", program, "--threads", "1", "--metrics", "colour"],
        ]:
            with self.subTest(bad=bad):
                status, _, errors = self.command(*bad)
                self.assertEqual(status, 2)
                self.assertTrue(errors)

    def test_peers_that_are_missing_are_named(self):
        status, out, _ = self.command("--tierloom", self.tierloom(""), "--threads", "1", "--list")
        self.assertEqual(status, 0)
        for name in ["CXL-Bench", "likwid-bench", "STREAM", "multichase"]:
            self.assertIn(f"{name} is left out", out)

    def test_a_whole_comparison_alternates_and_is_status_0_although_slower(self):
        stream = script(self.folder, "stream", f"echo \"$OMP_NUM_THREADS $EXTRA\" > {self.folder}/variables\ncat <<'E'\n{STREAM}E")
        document = self.folder / "all.json"
        arguments = ["--tierloom", self.tierloom(record(bandwidth=5.0)), "--stream", str(stream), "--threads", "1", "--rounds", "2"]
        arguments += ["--metrics", "nt-copy", "--json", str(document), "--env", "stream:EXTRA=more", "--set", "simd=avx2"]
        status, out, _ = self.command(*arguments)
        self.assertEqual(status, 0)
        self.assertIn("Tierloom / STREAM Copy", out)
        written = json.loads(document.read_text())
        self.assertAlmostEqual(written["summaries"][0]["ratio"], 5.0 * 0.124712 / (16 * 89478485 / 1e9), places=3)
        programs = [sample["program"].split()[0] for sample in written["samples"]]
        self.assertEqual(programs, ["Tierloom", "STREAM", "STREAM", "Tierloom"])
        self.assertEqual((self.folder / "variables").read_text(), "1 more\n")
        self.assertEqual((self.folder / "arguments").read_text(), "bench - --json --set simd=avx2\n")
        keys = json.loads((self.folder / "workload").read_text())["peers"]["args"]
        self.assertEqual((keys["operation"], keys["number_threads"], keys["memory_region_size"]), ("stream-copy", 1, 2 << 30))

    def test_a_peer_that_fails_is_told_with_its_message_and_the_rest_goes_on(self):
        broken = script(self.folder, "multichase", "echo 'cannot allocate' >&2; exit 3")
        document = self.folder / "all.json"
        arguments = ["--tierloom", self.tierloom(record("chase", latency=200.0)), "--multichase", str(broken), "--threads", "1"]
        arguments += ["--rounds", "1", "--metrics", "chase-random", "--json", str(document)]
        status, out, errors = self.command(*arguments)
        self.assertEqual(status, 0)
        self.assertIn("exit status 3: cannot allocate", errors)
        self.assertIn("no ratio", out)
        notes = [sample["notes"] for sample in json.loads(document.read_text())["samples"] if sample["value"] is None]
        self.assertEqual(len(notes), 2)

    def test_a_program_that_hangs_is_ended_with_its_children(self):
        script(self.folder, "tierloom", f"sleep 1000 & echo $! > {self.folder}/child; wait")
        limit, peers.TIMEOUT_S = peers.TIMEOUT_S, 0.5
        self.addCleanup(setattr, peers, "TIMEOUT_S", limit)
        arguments = ["--tierloom", str(self.folder / "tierloom"), "--threads", "1", "--rounds", "1", "--metrics", "random-read"]
        status, _, errors = self.command(*arguments)
        self.assertEqual(status, 1)
        self.assertIn("took more than", errors)
        state = Path("/proc", (self.folder / "child").read_text().strip(), "stat")
        # Gone, or dead and not yet collected by whoever adopted it.
        self.assertTrue(not state.exists() or state.read_text().split(")")[1].split()[0] == "Z")

    def test_tierloom_without_a_figure_is_status_1(self):
        arguments = ["--tierloom", self.tierloom("{}"), "--threads", "1", "--rounds", "1", "--metrics", "random-read"]
        status, _, errors = self.command(*arguments)
        self.assertEqual(status, 1)
        self.assertIn("gave no figure for: random-read", errors)

    def test_cxl_bench_gets_a_git_that_answers_and_its_result_file_is_found(self):
        text = 'git describe > revision && [ "$(cat revision)" = unknown ] || exit 9\n'
        text += f"cp \"$2\" {self.folder}/cxl.yaml\ncat > \"$4/peers-1.json\" <<'E'\n{CXL_BENCH}\nE"
        program = script(self.folder, "cxlbench", text)
        arguments = ["--tierloom", self.tierloom(record(bandwidth=16.50211)), "--cxl-bench", str(program), "--threads", "1"]
        arguments += ["--rounds", "1", "--metrics", "random-read", "--json", str(self.folder / "all.json")]
        status, _, errors = self.command(*arguments)
        self.assertEqual(status, 0, errors)
        summary = json.loads((self.folder / "all.json").read_text())["summaries"][0]
        self.assertAlmostEqual(summary["ratio"], 2.0, places=4)
        keys = json.loads((self.folder / "cxl.yaml").read_text())["peers"]["args"]
        self.assertEqual(keys["thread_cores"], sorted(os.sched_getaffinity(0))[:1])


if __name__ == "__main__":
    unittest.main()
