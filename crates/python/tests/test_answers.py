"""Answers of queries are those of the shell."""

import json

from conftest import ROOT


def ssb_queries():
    files = sorted((ROOT / "queries/ssb").glob("*.sql"))
    return {file.stem: file.read_text() for file in files}


def test_all_queries_of_the_benchmark_are_found():
    assert len(ssb_queries()) == 13


def test_ssb_answers_are_those_of_the_shell(ssb, shell):
    for name, sql in ssb_queries().items():
        printed = shell("sql", "--generate", "ssb:0.01", "--format", "jsonl", "-c", sql)
        expected = [tuple(json.loads(line).values()) for line in printed.splitlines()]
        assert ssb.sql(sql).fetchall() == expected, name
