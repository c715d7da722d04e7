"""Risks of cluster_backends.py: a wrong answer that counts as right, a time in another unit."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cluster_backends  # noqa: E402


class Comparing(unittest.TestCase):
    def test_answers_are_the_same_in_any_order_and_up_to_four_digits(self):
        answer = cluster_backends.rows("a,b\n1,x\n2.00001,y\n")
        self.assertEqual(answer, cluster_backends.rows("a,b\n2.00002,y\n1.0,x\n"))
        for other in ["a,b\n1,x\n", "a,b\n1,x\n2.01,y\n", "a,b\n1,x\n2,y\n2,y\n"]:
            self.assertNotEqual(answer, cluster_backends.rows(other))

    def test_times_are_milliseconds_whatever_their_unit(self):
        self.assertEqual(cluster_backends.milliseconds("12.5 ms\ntable t: 3 rows\n1.25 s\n"), [12.5, 1250.0])

    def test_a_time_alone_has_planning_in_it_and_not_printing(self):
        text = "table t: 3 rows\nparse+plan 1.5 ms, execute 0.25 s, print 9.1 ms, 1 row\n"
        self.assertEqual(cluster_backends.milliseconds_alone(text), [251.5])

    def test_the_table_has_medians_sums_and_what_differed(self):
        times = {"q1": {"one process": [1.0, 9.0, 2.0], "ballista": [4.0]}}
        times["q2"] = {"one process": [3.0], "ballista": [6.0]}
        moved = {"q1": {"ballista": 1e6}, "q2": {"ballista": 5e5}}
        text = cluster_backends.table(times, moved, {"q2 by ballista"})
        self.assertIn("| q1 | 2.0 | 4.0 | 1.00 |", text)
        self.assertIn("| sum | 5.0 | 10.0 | 1.50 |", text)
        self.assertIn("other ones: q2 by ballista.", text)
        self.assertIn("all those of one process", cluster_backends.table(times, moved, set()))

    def test_a_way_that_is_not_there_is_an_error(self):
        with self.assertRaises(SystemExit):
            cluster_backends.arguments(["ssb", "--ways", "carrier pigeons"])


if __name__ == "__main__":
    unittest.main()
