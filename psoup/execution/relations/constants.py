"""The columns of VALUES: rows of constants as one piece."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from psoup.expressions.tree import Literal
from psoup.model import DataType, Kind
from psoup.plan.nodes import Values
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array, Column
from psoup.values.kinds import TYPES
from psoup.values.limbs import limbs


def constant_pieces(node: Values, piece_rows: int) -> Generator[list[Column], None, None]:
    """Yield the rows of constants, at most `piece_rows` at a time."""
    columns = _columns(node)
    for start in range(0, len(node.rows), piece_rows):
        yield [column.slice(start, min(start + piece_rows, len(node.rows))) for column in columns]


@plan_fact
def _columns(node: Values) -> list[Column]:
    """The columns of all rows. O(constants), once for each plan."""
    cells = list(zip(*node.rows, strict=True)) or [() for _ in node.outputs]
    return [_column(output.type, column) for output, column in zip(node.outputs, cells, strict=True)]


def _column(data_type: DataType, cells: Sequence[Literal]) -> Column:
    present: Array = np.array([cell.value is not None for cell in cells], np.bool_)
    valid = None if present.all() else present
    if data_type.kind is Kind.TEXT:
        texts = [b"" if cell.value is None else str(cell.value).encode() for cell in cells]
        ends: Array = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=ends[1:])
        return Column(data_type, ends, valid, np.frombuffer(b"".join(texts), np.uint8))
    if data_type.kind is Kind.WIDE:
        numbers: Array = np.array([int(cell.value or 0) for cell in cells], object)
        return Column(data_type, limbs(numbers), valid)
    values: Array = np.array([cell.value or 0 for cell in cells], TYPES[data_type.kind].dtype)
    return Column(data_type, values, valid)
