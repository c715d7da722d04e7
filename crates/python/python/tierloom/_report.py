"""Reports of saved records."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence

from tierloom import _native

Path = str | os.PathLike[str]


class Report:
    """A self-contained HTML report, shown by notebooks."""

    def __init__(self, text: str) -> None:
        self.html = text

    def save(self, path: Path) -> None:
        """Writes the report to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        # In a frame, since its styles would change the notebook's.
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'


def report(records: Path | Sequence[Path], *, title: str | None = None) -> Report:
    """A report of files of records, as `tierloom run` and other commands write them."""
    paths = [records] if isinstance(records, (str, os.PathLike)) else records
    return Report(_native.report([os.fspath(path) for path in paths], title))
