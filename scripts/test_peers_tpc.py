"""Risks of peers_tpc.py: an unfair time, a slow query that is not named, a round that does not count."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers_tpc  # noqa: E402


def record(**more):
    times = {"text_ms": {"values": [3.0]}, "time_ms": {"values": [1.0]}}
    return {"type": "query", "provenance": "measured", "engine": "tierloom", "query": "q1.1", **times, **more}


class Comparing(unittest.TestCase):
    def test_our_time_contains_planning_as_that_of_the_others_does(self):
        self.assertEqual(peers_tpc.samples_of([record()]), [("tierloom", "q1.1", [3.0], [1.0])])

    def test_modelled_figures_are_not_taken(self):
        self.assertEqual(peers_tpc.samples_of([record(provenance="modelled"), {"type": "run"}]), [])

    def test_a_ratio_is_of_the_same_round_so_that_a_slow_mode_cancels(self):
        self.assertEqual(peers_tpc.ratio([[1.0], [2.0]], [[3.0], [6.0]]), 3.0)
        self.assertEqual(peers_tpc.ratio([[1.0], []], [[3.0], [6.0]]), 3.0)
        self.assertIsNone(peers_tpc.ratio([[]], [[3.0]]))

    def test_every_query_in_which_another_engine_is_faster_is_named_the_worst_first(self):
        line = peers_tpc.slower("duckdb", {"q01": 0.5, "q02": 2.0, "q03": 0.25})
        self.assertEqual(line, "* duckdb is faster in 2 of 3 queries: q03 (4.0 times), q01 (2.0 times).")
        self.assertIn("none of 1", peers_tpc.slower("duckdb", {"q01": 1.5}))

    def test_the_table_has_all_queries_and_geometric_means(self):
        options = peers_tpc.arguments(["ssb", "--rounds", "1"])
        times = {"tierloom": {"q1.1": [[2.0]], "q1.2": [[2.0]]}, "execution": {"q1.1": [[1.0]], "q1.2": [[1.0]]}}
        times |= {"datafusion": {"q1.1": [[8.0]], "q1.2": [[]]}, "duckdb": {"q1.1": [[1.0]], "q1.2": [[16.0]]}}
        text = peers_tpc.report("ssb", options, "2.0.0", times)
        self.assertIn("| q1.1 | 2.0 | 8.0 | 1.0 | 4.00 | 0.50 | 1.0 |", text)
        self.assertIn("| q1.2 | 2.0 | - | 16.0 | - | 8.00 | 1.0 |", text)
        self.assertIn("| geometric mean | 2.0 | 8.0 | 4.0 | 4.00 | 2.00 | 1.0 |", text)
        self.assertIn("duckdb is faster in 1 of 2 queries: q1.1 (2.0 times).", text)


    def test_an_engine_that_is_not_compared_has_no_column(self):
        options = peers_tpc.arguments(["ssb", "--others", "duckdb"])
        times = {"tierloom": {"q1.1": [[2.0]]}, "execution": {"q1.1": [[1.0]]}, "duckdb": {"q1.1": [[8.0]]}}
        text = peers_tpc.report("ssb", options, "2.0.0", times)
        self.assertIn("| q1.1 | 2.0 | 8.0 | 4.00 | 1.0 |", text)
        self.assertNotIn("datafusion", text)
        with self.assertRaises(SystemExit):
            peers_tpc.arguments(["--others", "sqlite"])


class Choosing(unittest.TestCase):
    def test_queries_are_found_by_the_names_that_run_takes(self):
        self.assertEqual(peers_tpc.query_names("q1,q21, 3"), {"q01", "q21", "q03"})
        self.assertEqual(peers_tpc.query_names("q1.1"), {"q1.1"})

    def test_what_is_left_out_is_left_out(self):
        options = peers_tpc.arguments(["tpcds", "--without", "q72,q14"])
        names = set(peers_tpc.texts_of("tpcds", options))
        self.assertTrue({"q01", "q99", "q23a"} <= names)
        self.assertFalse({"q72", "q14a", "q14b"} & names)

    def test_all_three_are_compared_if_none_is_named(self):
        self.assertEqual(peers_tpc.arguments([]).benchmarks, ["ssb", "tpch", "tpcds"])


if __name__ == "__main__":
    unittest.main()
