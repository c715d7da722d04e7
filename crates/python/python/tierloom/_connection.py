"""Connections: sessions of SQL with tables in placed memory."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Literal

from tierloom import _native
from tierloom._native import InputError
from tierloom._result import Explanation, Result
from tierloom._values import literal, name as quoted, text

Strings = Literal["utf8", "view", "dictionary"]
Path = str | os.PathLike[str]


def connect(
    *,
    placement: str = "dram",
    threads: int | None = None,
    pages: str = "thp",
    tiers: str | None = None,
    machine: str | None = None,
) -> Connection:
    """Opens a connection: a session with tables and settings of its own.

    `placement` says where columns go (`"dram"`, `"cxl"`, `"3:2"`, a node), `threads` how many
    workers run (default: all CPUs of the process), `pages` how large the pages of columns are,
    `tiers` which nodes are which tier (`"dram=0;cxl=1"`), and `machine` the profile that
    `explain_placement` models. Raises InputError for what this machine cannot have.
    """
    arguments = [f"--placement={placement}", f"--pages={pages}"]
    if threads is not None:
        arguments.append(f"--threads={threads}")
    if tiers is not None:
        arguments.append(f"--tiers={tiers}")
    connection = Connection(_native.Connection(arguments))
    if machine is not None:
        connection._run(f"set tierloom.machine = {text(machine)}")
    return connection


class Connection:
    """A session; made by `connect()`.

    One statement runs at a time. A statement of another thread waits for its turn; one of the same
    thread is refused while an earlier result still delivers rows.
    """

    def __init__(self, native: _native.Connection) -> None:
        self._native = native

    def sql(
        self,
        query: str,
        params: Sequence[Any] = (),
        *,
        strings: Strings | None = None,
    ) -> Result:
        """Runs statements and returns the result of the last.

        A query runs when its rows are read. `params` are the values of `$1`, `$2` and so on;
        `strings` is the form of strings in the rows (default: as the engine has them).
        """
        if isinstance(params, (str, bytes)):
            raise _input("params has to be a list of values, not one text")
        return Result(self._native.sql(query, [literal(value) for value in params], strings))

    def register(self, name: str, rows: Any, *, replace: bool = False) -> int:
        """Copies rows into placed columns as table `name`, and returns how many there are.

        `rows` is anything with `__arrow_c_stream__`: frames of polars and pandas 3, tables and
        readers of pyarrow, relations of DuckDB.
        """
        return self._native.register(name, rows, replace)

    def read_parquet(self, name: str, path: Path, *, replace: bool = False) -> int:
        """Loads a Parquet file, a folder of them, or those of a pattern; returns the rows."""
        return self._native.load(name, _files(path), replace)

    def read_csv(
        self,
        name: str,
        path: Path,
        *,
        replace: bool = False,
        delimiter: str | None = None,
        header: bool = True,
        infer_rows: int = 10_000,
        nulls: Sequence[str] = (),
    ) -> int:
        """Loads a CSV file, a folder of them, or those of a pattern; returns the rows.

        Types are inferred from `infer_rows` rows of each file, 0 for all; a field that is empty or
        one of `nulls` is NULL.
        """
        files, texts = _files(path), list(nulls)
        return self._native.load(name, files, replace, delimiter, header, infer_rows, texts)

    def read_arrow(self, name: str, path: Path, *, replace: bool = False) -> int:
        """Loads an Arrow IPC file, a folder of them, or those of a pattern; returns the rows."""
        return self._native.load(name, _files(path), replace)

    def generate(self, what: str) -> list[tuple[str, int]]:
        """Generates benchmark data, as in `"ssb:0.1"`; returns names and rows of the tables."""
        return self._native.generate(what)

    def tables(self) -> list[tuple[str, str, int | None]]:
        """Name, kind and number of rows of every table, view and system table."""
        return self._native.tables()

    def explain_placement(self, query: str, *, analyze: bool = False) -> Explanation:
        """Where the columns of a query are, and what the model says; see docs/sql.md.

        With `analyze` the query runs and the figures are measured.
        """
        words = "explain analyze placement" if analyze else "explain placement"
        try:
            # On a line of its own, so that columns in errors are those of the query.
            return Explanation(self._native.sql(f"{words}\n{query}", []))
        except InputError as error:
            raise _line_before(error) from None

    @property
    def placement(self) -> Placement:
        """Where tables and columns are wanted: `con.placement["orders.price"] = "cxl"`."""
        return Placement(self)

    def memory(self) -> Result:
        """How much operator memory of each class is where: the table `tier_memory`."""
        return self.sql("select * from tier_memory")

    def interrupt(self) -> None:
        """Stops the statement that runs, from another thread; that raises Error there."""
        self._native.interrupt()

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self._native.closed

    def close(self) -> None:
        """Ends the session. Memory that results point to is freed with the last of them."""
        self._native.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tierloom.Connection{' (closed)' if self.closed else ''}>"

    def _run(self, statement: str) -> None:
        self._native.sql(statement, []).close()


class Placement(MutableMapping[str, str]):
    """Placements of tables and columns, by `table` or `table.column`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def default(self) -> str:
        """The placement of all columns without their own."""
        rows = self._connection.sql("show tierloom.placement", strings="utf8").fetchall()
        return str(rows[0][1])

    @default.setter
    def default(self, placement: str) -> None:
        self._connection._run(f"set tierloom.placement = {text(placement)}")

    def __getitem__(self, key: str) -> str:
        """The placement wanted for a column, or for a table whose columns have all the same."""
        table, column = _parts(key)
        sql = "select distinct wanted from tier_columns where table_name = $1"
        params = [table]
        if column is not None:
            sql += " and column_name = $2"
            params.append(column)
        wanted = self._connection.sql(sql + " order by wanted", params).fetchall()
        if not wanted:
            raise KeyError(key)
        return ", ".join(str(row[0]) for row in wanted)

    def __setitem__(self, key: str, placement: str) -> None:
        """Moves the pages of a table or column."""
        table, column = _parts(key)
        names = [f'"{n.replace(chr(34), chr(34) * 2)}"' for n in (table, column) if n is not None]
        self._connection._run(f"set tierloom.placement.{'.'.join(names)} = {text(placement)}")

    def __delitem__(self, key: str) -> None:
        raise _input(f"{key} is always somewhere; set another placement instead")

    def __iter__(self) -> Iterator[str]:
        sql = "select distinct table_name, column_name from tier_columns order by 1, 2"
        return (f"{table}.{column}" for table, column in self._connection.sql(sql).fetchall())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _parts(key: str) -> tuple[str, str | None]:
    """Table and column of a key; names follow SQL: lower case unless in double quotes."""
    parts: list[str] = [""]
    in_quotes = False
    for char in key:
        if char == '"':
            in_quotes = not in_quotes
        if char == "." and not in_quotes:
            parts.append("")
        else:
            parts[-1] += char
    names = [quoted(part)[1:-1].replace('""', '"') for part in parts]
    if len(names) > 2 or not all(names) or in_quotes:
        raise _input(f"{key!r} names no table or column; expected table or table.column")
    return names[0], names[1] if len(names) == 2 else None


def _files(path: Path) -> list[str]:
    """The files that a path or pattern names, in order of their names."""
    pattern = os.fspath(path)
    if os.path.exists(pattern) or not glob.has_magic(pattern):
        return [pattern]
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        raise _input(f"no file fits the pattern {pattern}")
    return found


def _input(message: str) -> InputError:
    error = InputError(message)
    error.line = error.column = None
    return error


def _line_before(error: InputError) -> InputError:
    """`error` with the line of the text without its first."""
    if error.line is None or error.line < 2:
        return error
    message = str(error).removeprefix(f"{error.line}:{error.column}: ")
    moved = InputError(f"{error.line - 1}:{error.column}: {message}")
    moved.line, moved.column = error.line - 1, error.column
    return moved
