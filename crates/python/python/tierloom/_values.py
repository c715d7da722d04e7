"""Values of Python as literals of SQL."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from tierloom._native import InputError


def literal(value: Any) -> str:
    """The SQL literal of `value`: NULL, a number, text, bytes, a date or a time.

    Raises InputError for values that SQL has no literal for.
    """
    # Scalars of numpy and pandas know their value in Python.
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "item"):
        value = value.item()
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        # The planner would take longer ones for doubles, which are not exact.
        is_short = -(2**63) <= value < 2**64
        return f"({value})" if is_short else literal(decimal.Decimal(value))
    if isinstance(value, float):
        if math.isfinite(value):
            return f"CAST({value!r} AS DOUBLE)"
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, decimal.Decimal) and value.is_finite():
        _, digits, exponent = value.as_tuple()
        scale = max(-int(exponent), 0)
        width = max(len(digits) + max(int(exponent), 0), scale, 1)
        if width > 76:
            raise _unknown(value)
        return f"CAST('{value:f}' AS DECIMAL({width}, {scale}))"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, datetime.datetime):
        instant = text(value.isoformat(sep=" "))
        if value.tzinfo is None:
            return f"TIMESTAMP {instant}"
        return f"""arrow_cast({instant}, 'Timestamp(Microsecond, Some("+00:00"))')"""
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime.time):
        return f"TIME '{value.isoformat()}'"
    raise _unknown(value)


def text(value: str) -> str:
    """`value` in single quotes."""
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """`value` as a name of SQL in double quotes: lower case unless it is in quotes already."""
    if len(value) > 1 and value.startswith('"') and value.endswith('"'):
        return value
    return '"' + value.lower().replace('"', '""') + '"'


def _unknown(value: Any) -> InputError:
    error = InputError(
        f"a parameter cannot be {value!r} of type {type(value).__name__}; expected None, bool, "
        "int, float, Decimal, str, bytes, date, time or datetime"
    )
    error.line = error.column = None
    return error
