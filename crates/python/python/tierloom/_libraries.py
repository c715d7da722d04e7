"""The libraries that results are given to, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from tierloom._native import Error


def library(name: str, for_what: str) -> Any:
    """The module `name`, or an error that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Error(f"{for_what} needs {name}: pip install {name}") from error
