"""Risks of peers_tpcc.py: a failed or invalid run that counts, unlike durability, a wrong mix."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers_tpcc  # noqa: E402

PRINTED = """number of transactions actually processed: 100
number of failed transactions: {failed} (0.000%)
tps = 50.5 (without initial connection time)
SQL script 1: new-order.sql
 - 45 transactions (45.0% of total, tps = 22.7)
"""


def record(**more):
    kinds = [{"commits": 90, "rollbacks": 10}, {"commits": 100, "rollbacks": 0}]
    of = {"provenance": "measured", "transactions_per_s": 95.0, "duration_s": 2.0, "kinds": kinds}
    return json.dumps(of | more)


class Comparing(unittest.TestCase):
    def test_a_rate_of_pgbench_is_that_of_all_scripts_and_of_a_run_without_failures(self):
        self.assertEqual(peers_tpcc.rate_of_pgbench(PRINTED.format(failed=0)), 50.5)
        with self.assertRaises(SystemExit):
            peers_tpcc.rate_of_pgbench(PRINTED.format(failed=1))

    def test_our_rate_counts_what_pgbench_counts_and_is_measured_and_valid(self):
        modelled = record(provenance="modelled", duration_s=1.0)
        self.assertEqual(peers_tpcc.rate_of_records([modelled, record()]), 100.0)
        for wrong in [[record(invalid="moved")], [record(ended_early="full")], []]:
            with self.assertRaises(SystemExit):
                peers_tpcc.rate_of_records(wrong)

    def test_the_mix_is_that_of_run_tpcc(self):
        weights = {name: weight for name, (weight, _) in peers_tpcc.MIX.items()}
        self.assertEqual(weights["new-order"] + weights["undone"], 4500)
        self.assertEqual(sum(weights.values()), 10_000)

    def test_durability_is_alike_in_both(self):
        fast = peers_tpcc.settings(peers_tpcc.arguments([]))
        safe = peers_tpcc.settings(peers_tpcc.arguments(["--durable"]))
        self.assertEqual({fast["fsync"], fast["synchronous_commit"]}, {"off"})
        self.assertEqual({safe["fsync"], safe["synchronous_commit"]}, {"on"})
        self.assertEqual(safe["wal_sync_method"], "fdatasync")

    def test_a_ratio_is_of_the_same_round_so_that_a_slow_mode_cancels(self):
        own, other = [(100.0, 60.0), (50.0, 60.0)], [(10.0, 5.0), (5.0, 5.0)]
        rates = {"tierloom": own, "postgres": other}
        text = peers_tpcc.report(peers_tpcc.arguments([]), rates)
        self.assertIn("| 10.0 (10.0 to 10.0) |", text)
        self.assertIn("| 12.0 (12.0 to 12.0) |", text)


if __name__ == "__main__":
    unittest.main()
