"""The rows of a copy for its reader: as tuples, dicts, a text, HTML and a file. The copy itself is in `answer_copy`."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from psoup_client import html
from psoup_client.answer import rows_of
from psoup_client.phrases import counted
from psoup_client.text_table import text_table, write_parquet
from psoup_client.times import Instant
from psoup_proto.column_names import unique_names


class CopyRows:
    """Rows that a copy holds, in the order of the answer."""

    @abstractmethod
    def to_arrow(self, *, now: Instant | None = None) -> pa.Table:
        """Return the rows as an Arrow table."""

    @abstractmethod
    def _sentence(self) -> str:
        """Say which copy it is, how complete it is, and as of when."""

    @abstractmethod
    def _is_empty(self) -> bool:
        """Whether the copy was never synced."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        table = self.to_arrow()
        names = unique_names(table.schema.names)
        return (dict(zip(names, row, strict=True)) for row in rows_of(table))

    def __repr__(self) -> str:
        if self._is_empty():
            return f"<{self._sentence()}>"
        table = self.to_arrow()
        return text_table(table, counted(table.num_rows, "row"), self._sentence() + ".")

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook, and which copy it is."""
        if self._is_empty():
            return html.paragraph(self._sentence())
        table = self.to_arrow()
        rows, columns = table.shape
        shown = table.slice(0, html.SHOWN_ROWS).select([*range(min(columns, html.SHOWN_COLUMNS))])
        size = html.paragraph(html.shape_text(rows, columns))
        names = unique_names(table.schema.names)[: html.SHOWN_COLUMNS]
        return html.table(names, rows_of(shown)) + size + html.paragraph(self._sentence() + ".")

    def rows(self, *, now: Instant | None = None) -> list[tuple[Any, ...]]:
        """Return all rows as tuples of Python values, as `Answer.rows`; `now` as in `to_arrow`."""
        return list(rows_of(self.to_arrow(now=now)))

    def head(self, rows: int = 5, *, now: Instant | None = None) -> pa.Table:
        """Return the first rows as an Arrow table; `now` as in `to_arrow`."""
        table = self.to_arrow(now=now)
        return table.slice(0, len(range(table.num_rows)[:rows]))

    def to_parquet(self, path: str | os.PathLike[str], *, now: Instant | None = None) -> None:
        """Write the rows to a Parquet file, as `Answer.to_parquet` does; `now` as in `to_arrow`."""
        table = self.to_arrow(now=now)
        write_parquet(table.to_batches(), table.schema, path)
