"""The columns of a stream or table that take no NULL, checked when a statement gives its rows.

    INSERT INTO strict (b) VALUES ('x')   ─>   23502: null value in column "a" of relation "strict" violates …

PostgreSQL reports such a row at the statement, and not at COMMIT. So the port checks rows before they wait for COMMIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from psoup.errors import InvalidBatch
from psoup.model import DELETION
from psoup_proto.v1 import streams_pb2


@dataclass(frozen=True, slots=True)
class NotNull:
    """The columns of `relation` that take no NULL, in its order. `keys`: the columns of the primary key.

    A row with `_deleted` needs a value in the columns of the key only.
    """

    relation: str
    columns: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()

    @staticmethod
    def of(stream: streams_pb2.Stream) -> NotNull:
        """The columns of a stream or table that take no NULL."""
        names = (column.name for column in stream.columns if not column.nullable or column.name == stream.time_column)
        return NotNull(stream.name, tuple(names), frozenset(stream.primary_key))

    def check(self, rows: pa.RecordBatch, before: int = 0) -> None:
        """Raise InvalidBatch (NOT_NULL) for the first NULL in these columns; a missing column has NULL in each row.

        `before`: the rows of the statement before these ones.
        """
        deleted = _values(rows, DELETION.name)
        faults = list[tuple[int, str]]()
        for name in self.columns:
            values = _values(rows, name)
            if values is not None and not values.null_count:
                continue
            missing = pa.array([True] * rows.num_rows) if values is None else values.is_null()
            if deleted is not None and name not in self.keys:
                missing = pc.and_not(missing, deleted.fill_null(False))
            row = pc.index(missing, True).as_py()
            if row >= 0:
                faults.append((row, name))
        if faults:
            row, name = min(faults, key=_row)
            raise InvalidBatch(
                f'null value in column "{name}" of relation "{self.relation}" violates not-null constraint',
                reason="NOT_NULL",
                column=name,
                relation=self.relation,
                row=before + row + 1,
            )


def _row(fault: tuple[int, str]) -> int:
    return fault[0]


def _values(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """The values of a column; None if the rows lack it."""
    names: Sequence[str] = rows.schema.names
    return rows.column(names.index(name)) if name in names else None
