"""Patches of a table: rows with the key and some columns, and `_patch`. The other columns keep their values.

rows        [{"id": 7, "price": 45}]     ──>     id 7, price 45, _patch true
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from psoup_client.columns.convert import PATCH, check_patches
from psoup_client.errors import FailedPrecondition
from psoup_client.schema import StreamInfo


def check_same_columns(rows: Any) -> None:
    """Raise InvalidData if `rows` is a list of dicts, and not all of them have the same columns. O(values)."""
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        check_patches([row for row in rows if isinstance(row, dict)])


def as_patches(table: StreamInfo, rows: pa.Table) -> pa.Table:
    """Add the column `_patch`, which is true in each row. O(rows).

    Raises FailedPrecondition for a table that has a column of this name itself.
    """
    if any(column.name.lower() == PATCH.name for column in table.columns):
        raise FailedPrecondition(
            f"table {table.name!r} has a column {PATCH.name!r} of its own, so its rows cannot be patched; upsert whole"
            " rows",
            reason="NO_PATCHES",
            facts={"table": table.name},
        )
    rows = rows.drop_columns([name for name in rows.column_names if name == PATCH.name])
    return rows.append_column(PATCH.name, pa.array([True] * len(rows), pa.bool_()))
