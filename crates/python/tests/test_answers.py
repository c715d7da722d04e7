"""Answers are those of the shell, for queries and for the model."""

import json

import pytest

import tierloom
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


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (
            ["predict", "--machine", "nus24", "--work", "probe", "--placement", "3:2"],
            lambda: tierloom.model.predict("nus24", "probe", "3:2"),
        ),
        (
            "predict --machine nus24 --work probe --versus cxl --workers 4".split(),
            lambda: tierloom.model.predict("nus24", "probe", versus="cxl", workers=4),
        ),
        (
            ["tune", "probe", "scan", "--machine", "nus24"],
            lambda: tierloom.model.tune(["probe", "scan"], "nus24"),
        ),
        (
            ["cost", "--demand", "1TiB..2TiB", "--reuse"],
            lambda: tierloom.model.cost("1TiB..2TiB", reuse=True),
        ),
        (
            ["cost", "--pool", "4", "--demand", "512GiB..2TiB", "--set", "cpu.price=4500"],
            lambda: tierloom.model.cost("512GiB..2TiB", pool=4, set=["cpu.price=4500"]),
        ),
    ],
)
def test_documents_of_the_model_are_those_of_the_program(shell, command, call):
    def without_times(value):
        if isinstance(value, dict):
            return {k: without_times(v) for k, v in value.items() if k != "made_at"}
        return [without_times(v) for v in value] if isinstance(value, list) else value

    printed = json.loads(shell(*command, "--json"))
    assert without_times(call()) == without_times(printed)


def test_machines_are_those_of_the_program(shell):
    listed = shell("machines")
    machines = tierloom.model.machines()
    assert "nus24" in machines
    for name in machines:
        assert name in listed
    assert tierloom.model.machine("nus24").strip() == shell("machines", "nus24").strip()


def test_wrong_arguments_of_the_model_are_input_errors():
    for call in [
        lambda: tierloom.model.predict("nosuch", "probe"),
        lambda: tierloom.model.predict("nus24", "nosuch"),
        lambda: tierloom.model.predict("nus24", "probe", "hbm"),
        lambda: tierloom.model.predict("nus24", "probe", nosuch=1),
        lambda: tierloom.model.tune(["--apply"], "nus24"),
        lambda: tierloom.model.tune("probe", "nus24", apply=True),
        lambda: tierloom.model.cost("much"),
        lambda: tierloom.model.machine("nosuch"),
    ]:
        with pytest.raises(tierloom.InputError) as raised:
            call()
        assert raised.value.line is None
        assert "\n" not in str(raised.value)
