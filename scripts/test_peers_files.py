"""Risks of peers_files.py: a plan from a cache, a time that is not counted, a query that is left out."""

import sys
import types
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers_files  # noqa: E402


class OwnFiles(unittest.TestCase):
    def test_queries_are_the_lines_that_are_no_comments(self):
        text = "-- of last week\n\nSELECT 1;\n  SELECT 2\n"
        self.assertEqual(peers_files.queries_of(text), {"1": "SELECT 1", "2": "SELECT 2"})

    def test_no_text_occurs_twice_in_a_session(self):
        options = types.SimpleNamespace(warm=1, repeat=3)
        runs = list(peers_files.executions({"1": "SELECT 1"}, options))
        self.assertEqual(len({text for _, text, _ in runs}), 4)
        self.assertEqual([timed for _, _, timed in runs], [False, True, True, True])

    def test_a_time_contains_planning_in_any_unit(self):
        said = "table t: 3 rows\nparse+plan 500.0 µs, execute 1.50 s, print 0.1 ms, 1 row\n"
        self.assertEqual(peers_files.times_in(said), [1500.5])

    def test_a_report_names_what_is_slower(self):
        options = types.SimpleNamespace(queries=Path("q.sql"), threads=2, rounds=1, repeat=1)
        times = {"tierloom": {"1": [[2.0]], "2": [[1.0]]}, "duckdb": {"1": [[1.0]], "2": [[4.0]]}}
        report = peers_files.report({"1": "SELECT 1", "2": "SELECT a || b"}, options, "2.0", times)
        self.assertIn("| 2 | 1.0 | 4.0 | 4.00 | `SELECT a \\|\\| b` |", report)
        self.assertIn("duckdb is faster in 1 of 2 queries: 1 (2.0 times)", report)

    def test_a_table_without_a_file_is_refused(self):
        with self.assertRaises(SystemExit):
            peers_files.arguments(["--table", "hits", "--queries", "q.sql"])


if __name__ == "__main__":
    unittest.main()
