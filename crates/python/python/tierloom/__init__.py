"""SQL on columns placed on DRAM and CXL memory, and the model of such memory.

>>> import tierloom
>>> con = tierloom.connect(placement="dram", threads=2)
>>> con.sql("select 1 + $1 as two", [1]).fetchall()
[(2,)]
"""

from tierloom import model
from tierloom._connection import Connection, Placement, connect
from tierloom._native import Error, InputError, __version__
from tierloom._result import Batch, Explanation, Result
from tierloom._report import Report, report

__all__ = [
    "Batch",
    "Connection",
    "Error",
    "Explanation",
    "InputError",
    "Placement",
    "Report",
    "Result",
    "__version__",
    "connect",
    "model",
    "report",
]
