"""The model: what work takes on machine profiles. Nothing is measured.

The functions return the documents that `tierloom predict`, `tierloom tune` and `tierloom cost`
print with `--json`, and take their options as keywords: `sensitivity=True` for `--sensitivity`,
`workers=8` for `--workers 8`, lists for options that may be given several times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

# Relative, since this file is the model of two packages.
from . import _native

__all__ = ["cost", "machine", "machines", "predict", "tune"]

Value = str | int | float | bool | Sequence[str] | None


def predict(
    machine: str | Sequence[str],
    work: str | None = None,
    placement: str | None = None,
    versus: str | None = None,
    **options: Value,
) -> dict[str, Any]:
    """Throughput, load of each tier and bottleneck of work on machines and a placement."""
    names = [machine] if isinstance(machine, str) else machine
    named = {"work": work, "placement": placement, "versus": versus}
    return _document("predict", [], {"machine": ",".join(names), **named, **options})


def tune(
    phases: str | Sequence[str] = (),
    machine: str | Sequence[str] = (),
    **options: Value,
) -> dict[str, Any]:
    """The best weights of memory tiers for phases of work, on machines."""
    names = [machine] if isinstance(machine, str) else machine
    listed = [phases] if isinstance(phases, str) else phases
    return _document("tune", listed, {"machine": ",".join(names) or None, **options})


def cost(demand: str | None = None, **options: Value) -> dict[str, Any]:
    """Prices of servers with and without CXL memory, by memory demand."""
    return _document("cost", [], {"demand": demand, **options})


def machines() -> dict[str, str]:
    """Names and titles of the built-in machine profiles."""
    return dict(_native.machines())


def machine(name: str) -> str:
    """A machine profile as YAML, each number with its source."""
    return _native.machine(name)


def _document(command: str, words: Sequence[str], options: dict[str, Value]) -> dict[str, Any]:
    arguments: list[str] = []
    for key, value in options.items():
        option = "--" + key.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
        elif isinstance(value, (str, int, float)):
            arguments.append(f"{option}={value}")
        else:
            arguments += [f"{option}={one}" for one in value]
    # Behind the options and a double dash, so that none of them is taken for an option.
    arguments += ["--", *words] if words else []
    document: dict[str, Any] = json.loads(_native.document(command, arguments))
    return document
