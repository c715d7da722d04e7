"""A model of memory-bound work on machines with DRAM and CXL memory. Nothing is measured.

The same functions are `tierloom.model` in the package `tierloom`, which has the SQL engine too.

>>> import tierloom_model
>>> document = tierloom_model.predict("nus24", "probe", placement="3:2", versus="dram")
>>> document["predictions"][0]["gain"]["value"] > 1
True
"""

from ._model import cost, machine, machines, predict, tune
from ._native import Error, InputError, __version__

# Made by code that the package `tierloom` shares, under whose name they would be shown.
for _error in (Error, InputError):
    _error.__module__ = __name__

__all__ = [
    "Error",
    "InputError",
    "__version__",
    "cost",
    "machine",
    "machines",
    "predict",
    "tune",
]
