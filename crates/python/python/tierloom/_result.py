"""Results of statements: rows that are read once, as they come."""

from __future__ import annotations

import html
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tierloom._libraries import library
from tierloom._native import Batch, Rows

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Batch", "Explanation", "Result"]


class Result:
    """The rows of a statement.

    A query starts with the first read and delivers batches while it runs; its rows can be read
    once. Every library with Arrow's interface takes a result as it is:
    `polars.DataFrame(result)`, `pyarrow.table(result)`, DuckDB's `from result`.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Name and type of every column; nothing is run for this."""
        return self._rows.columns()

    @property
    def message(self) -> str | None:
        """What a statement without rows said, such as `table t: 10 rows`."""
        return self._rows.message

    def arrow(self) -> pyarrow.Table:
        """All rows as a table of pyarrow; columns are not copied."""
        pyarrow = library("pyarrow", "arrow()")
        return pyarrow.table(self._rows.collect())

    def reader(self) -> pyarrow.RecordBatchReader:
        """The rows as a reader of pyarrow, batch by batch."""
        pyarrow = library("pyarrow", "reader()")
        # By way of Python and not from_stream(): an exception, such as that of Ctrl-C, stays one.
        batches = (pyarrow.record_batch(batch) for batch in self)
        return pyarrow.RecordBatchReader.from_batches(pyarrow.schema(self), batches)

    def polars(self) -> polars.DataFrame:
        """All rows as a frame of polars."""
        frame: polars.DataFrame = library("polars", "polars()").DataFrame(self._rows.collect())
        return frame

    def pandas(self) -> pandas.DataFrame:
        """All rows as a frame of pandas, by way of pyarrow."""
        library("pandas", "pandas()")
        frame: pandas.DataFrame = self.arrow().to_pandas()
        return frame

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples, by way of pyarrow."""
        table = self.arrow()
        columns = [column.to_pylist() for column in table.columns]
        return list(zip(*columns)) if columns else [()] * table.num_rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, None if there is none; the rest is not read and the statement ends."""
        pyarrow = library("pyarrow", "fetchone()")
        try:
            for batch in self:
                if batch.num_rows:
                    first = pyarrow.record_batch(batch).slice(0, 1)
                    return tuple(column[0].as_py() for column in first.columns)
            return None
        finally:
            self.close()

    def close(self) -> None:
        """Ends the statement. Rows that were read stay valid."""
        self._rows.close()

    def __iter__(self) -> Iterator[Batch]:
        while (batch := self._rows.next_batch()) is not None:
            yield batch

    def __enter__(self) -> Result:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows for a consumer of Arrow's C interface, batch by batch."""
        return self._rows.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """The columns for a consumer of Arrow's C interface."""
        return self._rows.__arrow_c_schema__()

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        return f"<tierloom.Result ({columns})>"


class Explanation:
    """Where the columns of a query are, and what the model says about other placements."""

    def __init__(self, rows: Rows) -> None:
        self._table = rows.collect()
        self._columns = rows.columns()

    def arrow(self) -> pyarrow.Table:
        """The rows as a table of pyarrow."""
        return library("pyarrow", "arrow()").table(self._table)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as tuples."""
        return list(zip(*(column.to_pylist() for column in self.arrow().columns)))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self._table.__arrow_c_schema__()

    def _texts(self) -> list[list[str]]:
        return [[name for name, _ in self._columns], *self._table.texts()]

    def __str__(self) -> str:
        rows = self._texts()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ("  ".join(text.ljust(w) for text, w in zip(row, widths)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        head, *rows = self._texts()

        def line(cell: str, row: list[str]) -> str:
            return "<tr>" + "".join(f"<{cell}>{html.escape(t)}</{cell}>" for t in row) + "</tr>"

        body = "".join(line("td", row) for row in rows)
        return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"
