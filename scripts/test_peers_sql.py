#!/usr/bin/env python3
"""Tests of peers_sql.py and what it uses, without any engine: `python3 -m unittest discover -s
scripts -p 'test_*.py'`.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers_sql  # noqa: E402
import peers_sql_report as report  # noqa: E402
import peers_sql_worker as worker  # noqa: E402

ANSWER = "revenue,d_year\n5,1992\n7,1993\n"


def run_document(text_ms=None, engine="tierloom", provenance="measured"):
    """The fields of `tierloom run ssb --json` that are read, with one query."""
    access = {"class": "column", "structure": "lineorder.lo_quantity", "lines_per_tuple": 0.25}
    table = {"class": "hash-table", "structure": "hash(date)", "lines_per_tuple": 1.0}
    query = {
        "type": "query",
        "query": "q1.1",
        "engine": engine,
        "provenance": provenance,
        "time_ms": {"values": [2.0, 4.0, 3.0]},
        "plan_ms": 1.5,
        "answer": {"rows": 2, "digest": report.digest(ANSWER)},
        "phases": [{"tuples": 1000.0, "accesses": [access, table]}],
    }
    if text_ms:
        query["text_ms"] = {"values": text_ms}
    opening = {"type": "run", "tool_version": "0.1.0", "build": "release", "commit": None}
    opening["data"] = {"column_bytes": 600, "tables": [{"name": "lineorder", "rows": 1000}]}
    return json.dumps({"records": [opening, query, {"type": "summary", "memory": {"loaded_bytes": 700, "peak_resident_bytes": None}}]})


def sample(engine, number, text_ms, prepared_ms=None, digest=None, rows=2, **more):
    """A sample with one query."""
    entry = {"text_ms": text_ms, "rows": rows, "digest": digest or report.digest(ANSWER)}
    if prepared_ms:
        entry["prepared_ms"] = prepared_ms
    return {"engine": engine, "round": number, "queries": {"q1.1": entry}, **more}


class Parsing(unittest.TestCase):
    def test_planning_is_part_of_the_time_from_text_unless_that_was_timed(self):
        entry = peers_sql.parse_run(run_document())["queries"]["q1.1"]
        self.assertEqual(entry["prepared_ms"], [2.0, 4.0, 3.0])
        self.assertEqual(entry["text_ms"], [3.5, 5.5, 4.5])
        entry = peers_sql.parse_run(run_document(text_ms=[2.1, 4.1]))["queries"]["q1.1"]
        self.assertEqual(entry["text_ms"], [2.1, 4.1])

    def test_modelled_figures_and_those_of_the_other_engine_are_not_taken(self):
        for document in (run_document(provenance="modelled"), run_document(engine="datafusion")):
            with self.assertRaisesRegex(peers_sql.NoFigure, "no measured query"):
                peers_sql.parse_run(document)
        baseline = peers_sql.parse_run(run_document(engine="datafusion"), "baseline")
        self.assertEqual(list(baseline["queries"]), ["q1.1"])

    def test_times_of_several_placements_are_not_mixed(self):
        document = json.loads(run_document())
        document["records"].append(document["records"][1])
        with self.assertRaisesRegex(peers_sql.NoFigure, "several placements"):
            peers_sql.parse_run(json.dumps(document))

    def test_only_columns_count_as_bytes_that_must_be_read(self):
        entry = peers_sql.parse_run(run_document())["queries"]["q1.1"]
        self.assertEqual(entry["column_bytes"], {"lineorder.lo_quantity": 1000 * 0.25 * 64})

    def test_memory_that_the_kernel_did_not_tell_is_unknown_and_not_zero(self):
        parsed = peers_sql.parse_run(run_document())
        self.assertEqual((parsed["resident_bytes"], parsed["peak_bytes"]), (700, None))
        head = {"engine": "tierloom", "scale_factor": 1.0, "version": "0.1.0 (dev, unknown commit)"}
        text = "\n".join(peers_sql.settings_lines([{**head, **{k: v for k, v in parsed.items() if k != "version"}}], {}))
        self.assertIn("at scale factor 1 0 MB resident when loaded", text)
        self.assertNotIn("at most", text)
        self.assertIn("not a release build", text)

    def test_half_a_document_is_no_figure(self):
        for text in ("", "{", '{"records": []}', run_document()[:-40]):
            with self.assertRaises(peers_sql.NoFigure):
                peers_sql.parse_run(text)

    def test_a_worker_that_died_or_said_nonsense_is_no_figure(self):
        loaded = json.dumps({"event": "loaded", "load_s": 1.0, "resident_bytes": 5, "settings": "s"})
        query = {"event": "query", "query": "q1.1", "answer": ANSWER, "rows": 2, "text_ms": [1.0]}
        done = json.dumps({"event": "done", "peak_bytes": 9})
        parsed = peers_sql.parse_worker("\n".join(["a line of the engine", loaded, json.dumps(query), done]))
        self.assertEqual(parsed["queries"]["q1.1"], {"text_ms": [1.0], "rows": 2, "digest": report.digest(ANSWER)})
        with self.assertRaisesRegex(peers_sql.NoFigure, "end"):
            peers_sql.parse_worker("\n".join([loaded, json.dumps(query)]))
        for wrong in (0, -1, "fast", float("nan")):
            with self.assertRaises(peers_sql.NoFigure):
                peers_sql.parse_worker("\n".join([loaded, json.dumps({**query, "text_ms": [wrong]}), done]))


class Answers(unittest.TestCase):
    def test_the_digest_is_the_one_of_the_records(self):
        self.assertEqual(report.digest("revenue\n1\n"), __import__("hashlib").sha256(b"revenue\n1\n").hexdigest()[:16])

    def test_an_answer_that_is_not_the_stored_one_is_told(self):
        samples = [sample("tierloom", 1, [1.0]), sample("duckdb", 1, [1.0], digest="0" * 16)]
        self.assertEqual(report.wrong_answers(samples[:1], {"q1.1": ANSWER}), [])
        (sentence,) = report.wrong_answers(samples, {"q1.1": ANSWER})
        self.assertIn("DuckDB in round 1 differs from the stored answer", sentence)

    def test_without_a_stored_answer_the_odd_one_out_is_told_even_if_it_is_ours(self):
        samples = [sample("tierloom", 2, [1.0], digest="0" * 16, rows=3), sample("duckdb", 2, [1.0]), sample("polars", 2, [1.0])]
        (sentence,) = report.wrong_answers(samples, {})
        self.assertIn("Tierloom in round 2 differs from most others: 3 rows, not 2", sentence)

    def test_no_rows_are_no_rows_with_or_without_a_header(self):
        empty = [sample("tierloom", 1, [1.0], digest=report.digest(""), rows=0), sample("duckdb", 1, [1.0], digest="1" * 16, rows=0)]
        self.assertEqual(report.wrong_answers(empty, {"q1.1": "revenue,d_year\n"}), [])
        self.assertEqual(report.wrong_answers(empty, {}), [])

    def test_stored_answers_exist_for_the_scale_factors_that_have_them(self):
        self.assertEqual(set(peers_sql.stored_answers(1.0, ["q1.1", "q4.3"])), {"q1.1", "q4.3"})
        self.assertEqual(peers_sql.stored_answers(10.0, ["q1.1"]), {})

    def test_answers_are_written_as_the_stored_ones(self):
        stored = peers_sql.stored_answers(1.0, ["q3.1"])["q3.1"]
        header, *rows = [line.split(",") for line in stored.splitlines()]
        self.assertEqual(worker.as_text(header, rows), stored)
        self.assertEqual(worker.as_text(["revenue"], [(None,)]), 'revenue\n""\n')


class Comparing(unittest.TestCase):
    def test_a_ratio_is_of_the_same_round_so_that_a_slow_mode_cancels(self):
        # In round 2 the machine has half its speed for all.
        samples = [sample("tierloom", 1, [1.0]), sample("duckdb", 1, [6.0]), sample("tierloom", 2, [2.0]), sample("duckdb", 2, [12.0])]
        compared = report.compare(samples, ["duckdb"], "text_ms", lambda engine: "text_ms")
        self.assertAlmostEqual(compared["rows"][0]["others"]["duckdb"]["ratio"], 6.0)
        self.assertAlmostEqual(compared["means"]["duckdb"]["ratio"], 6.0)

    def test_rounds_that_one_engine_lacks_do_not_count(self):
        samples = [sample("tierloom", 1, [1.0]), sample("duckdb", 2, [6.0])]
        compared = report.compare(samples, ["duckdb"], "text_ms", lambda engine: "text_ms")
        self.assertIsNone(compared["rows"][0]["others"]["duckdb"]["ratio"])
        self.assertIn("none, some query has no time", report.verdicts(compared, ["duckdb"])[0])

    def test_a_query_that_is_slower_is_named_with_who_is_faster(self):
        samples = [sample("tierloom", 1, [3.0]), sample("duckdb", 1, [9.0]), sample("polars", 1, [2.0])]
        compared = report.compare(samples, ["duckdb", "polars"], "text_ms", lambda engine: "text_ms")
        lines = report.verdicts(compared, ["duckdb", "polars"])
        self.assertIn("3.00x faster than DuckDB", lines[0])
        self.assertIn("1.50x slower than Polars", lines[1])
        self.assertEqual(lines[-1], "- slower than a peer in: 1 query: Polars Q1.1 (1.50x)")

    def test_no_slower_query_is_said_too(self):
        samples = [sample("tierloom", 1, [3.0]), sample("duckdb", 1, [9.0])]
        compared = report.compare(samples, ["duckdb"], "text_ms", lambda engine: "text_ms")
        self.assertEqual(report.verdicts(compared, ["duckdb"])[-1], "- slower than a peer in: no query")

    def test_executions_stand_against_executions(self):
        samples = [sample("tierloom", 1, [9.0], [1.0]), sample("duckdb", 1, [90.0], [4.0])]
        compared = report.compare(samples, ["duckdb"], "prepared_ms", lambda engine: "prepared_ms")
        self.assertAlmostEqual(compared["means"]["duckdb"]["ratio"], 4.0)

    def test_the_table_has_a_dash_where_there_is_no_time(self):
        compared = report.compare([sample("tierloom", 1, [3.0])], ["duckdb"], "text_ms", lambda engine: "text_ms")
        self.assertIn("| Q1.1 | 3.00 | - |", report.table(compared, ["duckdb"]))
        self.assertIn("**-**", report.table(compared, ["duckdb"]))


class Bandwidth(unittest.TestCase):
    def entry(self, number, time_ms, read_gbps):
        found = sample("tierloom", number, [time_ms], [time_ms], read_gbps=read_gbps, column_bytes=600)
        found["queries"]["q1.1"]["column_bytes"] = {"lineorder.lo_quantity": 40e6}
        return found

    def test_the_share_is_of_the_bandwidth_of_the_same_round(self):
        found = report.bandwidth([self.entry(1, 1.0, 50.0), self.entry(2, 2.0, 25.0)])
        self.assertAlmostEqual(found["share"], 0.8)
        self.assertIn("80% of the", report.bandwidth_lines(found, None)[0])

    def test_bytes_that_fit_a_cache_come_with_a_warning(self):
        found = report.bandwidth([self.entry(1, 1.0, 50.0)])
        self.assertEqual(len(report.bandwidth_lines(found, 1_000_000)), 1)
        self.assertIn("says little", report.bandwidth_lines(found, 32_000_000)[1])

    def test_records_without_phases_give_no_share(self):
        self.assertIsNone(report.bandwidth([sample("tierloom", 1, [1.0], [1.0])]))
        self.assertIn("no phases", report.bandwidth_lines(None, None)[0])

    def test_memory_is_told_as_a_share_of_plain_arrow(self):
        found = report.memory([self.entry(1, 1.0, 50.0)], 1000)
        self.assertIn("60% of plain Arrow", report.memory_line(found))
        self.assertIn("not known", report.memory_line(report.memory([], 1000)))


class Command(unittest.TestCase):
    def refused(self, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as ended:
            peers_sql.parse_arguments(list(arguments))
        self.assertEqual(ended.exception.code, 2)
        return errors.getvalue()

    def test_bad_arguments_are_named(self):
        self.assertIn("is not a program", self.refused("--tierloom", "/nowhere/tierloom"))
        self.assertIn("known are duckdb", self.refused("--tierloom", sys.executable, "--engines", "oracle"))
        self.assertIn("unknown: q9.9", self.refused("--tierloom", sys.executable, "--queries", "q1.1,q9.9"))
        self.assertIn("a scale factor", self.refused("--tierloom", sys.executable, "--sf", "1,-2"))
        self.assertIn("there is no folder", self.refused("--tierloom", sys.executable, "--threads", "1", "--json", "/nowhere/x.json"))
        self.assertIn("threads need as many CPUs", self.refused("--tierloom", sys.executable, "--threads", "100000"))

    def test_quick_is_small(self):
        arguments = peers_sql.parse_arguments(["--tierloom", sys.executable, "--threads", "1", "--quick"])
        self.assertEqual((arguments.sf, arguments.rounds, arguments.repeat), ([0.1], 1, 2))

    def test_a_missing_package_comes_with_the_command_that_installs_it(self):
        found = {**peers_sql.VERSIONS, "polars": None}
        self.assertEqual(peers_sql.missing_packages(found, ["duckdb"]), [])
        self.assertEqual(peers_sql.packages_of(["chdb", "chdb-mergetree"]), ["chdb", "pyarrow"])
        (sentence,) = peers_sql.missing_packages(found, ["duckdb", "polars"])
        self.assertIn("pip install polars==2.1.0", sentence)

    def test_an_engine_that_was_asked_for_and_is_missing_is_bad_input(self):
        found = {**peers_sql.VERSIONS, "chdb": None}
        arguments = ["--tierloom", sys.executable, "--threads", "1", "--engines", "chdb"]
        errors = io.StringIO()
        with mock.patch.object(peers_sql, "versions_in", return_value=found), contextlib.redirect_stderr(errors):
            self.assertEqual(peers_sql.main(arguments), 2)
        self.assertIn("package chdb is missing", errors.getvalue())

    def test_scale_factors_are_a_list(self):
        self.assertEqual(peers_sql.scale_factors("0.1,10"), [0.1, 10.0])
        with self.assertRaises(argparse.ArgumentTypeError):
            peers_sql.scale_factors("ten")


class Rounds(unittest.TestCase):
    """The whole way with a bench that has no engines."""

    class FakeBench:
        scale_factor = 1.0

        def __init__(self, broken=()):
            self.order, self.broken = [], broken

        def sample(self, engine):
            self.order.append(engine)
            if engine in self.broken:
                raise peers_sql.NoFigure("exit status 1: out of memory")
            found = sample(engine, 0, [2.0 if engine == "tierloom" else 8.0], [1.0])
            return {key: value for key, value in found.items() if key not in ("engine", "round")}

    def test_another_engine_begins_each_round(self):
        bench = self.FakeBench()
        samples, failures = peers_sql.measure(bench, ["tierloom", "duckdb", "polars"], 3, lambda line: None)
        self.assertEqual([bench.order[first] for first in (0, 3, 6)], ["tierloom", "duckdb", "polars"])
        self.assertEqual((len(samples), failures), (9, []))
        self.assertEqual({entry["round"] for entry in samples}, {1, 2, 3})

    def test_an_engine_that_fails_is_told_and_does_not_end_the_others(self):
        samples, failures = peers_sql.measure(self.FakeBench({"chdb"}), ["tierloom", "chdb"], 2, lambda line: None)
        self.assertEqual([entry["engine"] for entry in samples], ["tierloom", "tierloom"])
        self.assertEqual(failures[0], "chDB in round 1: exit status 1: out of memory")

    def test_files_are_whole_or_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "records.jsonl")
            peers_sql.write_whole(path, "old\n")
            with mock.patch.object(Path, "replace", side_effect=OSError("full")), self.assertRaises(OSError):
                peers_sql.write_whole(path, "new\n")
            self.assertEqual(path.read_text(), "old\n")


class Measuring(unittest.TestCase):
    class FakeEngine:
        def __init__(self, prepared):
            self.calls, self.can_prepare = [], prepared

        def text(self, query, sql):
            return lambda: self.calls.append("text")

        def prepared(self, query, sql):
            return (lambda: self.calls.append("prepared")) if self.can_prepare else None

        def answer(self, result):
            return ["revenue"], [(1,)]

    def test_warm_executions_are_not_among_the_times(self):
        engine = self.FakeEngine(prepared=True)
        record = worker.run_query(engine, "q1.1", "select", warm=2, repeat=3)
        self.assertEqual(engine.calls, ["text"] * 5 + ["prepared"] * 4)
        self.assertEqual((len(record["text_ms"]), len(record["prepared_ms"])), (3, 3))
        self.assertEqual(record["answer"], "revenue\n1\n")

    def test_an_engine_without_prepared_statements_has_no_such_times(self):
        record = worker.run_query(self.FakeEngine(prepared=False), "q1.1", "select", warm=1, repeat=1)
        self.assertNotIn("prepared_ms", record)

    def test_the_collector_is_on_again_after_a_query_that_failed(self):
        import gc

        def broken():
            raise RuntimeError("no such table")

        with self.assertRaises(RuntimeError):
            worker.timed(broken, 1)
        self.assertTrue(gc.isenabled())


if __name__ == "__main__":
    unittest.main()
