"""The only row of a scalar subselect: its values are NULL if the subselect has no row."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

from psoup.execution.relations.table_rows import Pieces
from psoup.invariants import ensure
from psoup.model import DataType
from psoup.values.columns import Column, null_column


def scalar_row(pieces: Pieces, types: Sequence[DataType], piece_rows: int) -> Generator[list[Column], None, None]:
    """Yield the row of a subselect with at most one row, as one piece. The binder ensures that it has no more."""
    rows = 0
    with closing(pieces(piece_rows)) as parts:
        for columns in parts:
            rows += len(columns[0])
            ensure(rows == 1, "plan", "a scalar subselect has several rows", rows=rows)
            yield columns
    if not rows:
        yield [null_column(kind, 1) for kind in types]
