"""Tables of rows as plain text, for `repr` in a terminal, and as Parquet files.

symbol    price   at
──────────────────────────────────────
ACME     101.50   2026-07-01 12:00:00Z
1,200 rows, the first 10 shown. May still grow; nothing late, nothing pending.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from psoup_client.phrases import counted
from psoup_client.times import python_values
from psoup_proto.column_names import unique_names

SHOWN_ROWS = 10
"""The greatest number of rows that a text shows."""
_CELL = 40
"""The greatest width of a cell, in characters of a terminal."""
_GAP = "   "
_LEAST_WIDTH = 80
_MOST_COLUMNS = 100
_NAMES = 5
"""The greatest number of columns beyond the terminal that a text names."""


def text_table(table: pa.Table, size: str, sentence: str) -> str:
    """Write the first rows of a table, its size in words, and a sentence. O(rows shown)."""
    shown = table.slice(0, SHOWN_ROWS).select([*range(min(table.num_columns, _MOST_COLUMNS))])
    names = unique_names(table.schema.names)
    columns = [_column(name, column) for name, column in zip(names, shown.columns, strict=False)]
    fitting = _fitting(columns)
    lines = [_GAP.join(cells).rstrip() for cells in zip(*columns[:fitting], strict=True)]
    if lines:
        lines.insert(1, "─" * (sum(_width(column[0]) for column in columns[:fitting]) + len(_GAP) * (fitting - 1)))
    size += f", the first {SHOWN_ROWS} shown" if table.num_rows > SHOWN_ROWS else ""
    if table.num_columns > fitting:
        size += f"; {counted(table.num_columns - fitting, 'more column')}: {_names(names[fitting:])}"
    return "\n".join([*lines, f"{size}. {sentence}".rstrip()])


def write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str | os.PathLike[str]) -> None:
    """Write rows to a Parquet file, a batch at a time. An existing file is replaced only if all rows were written.

    The columns get different names, because a reader of the file could not tell equal ones apart.
    """
    import pyarrow.parquet as pq  # imported here: it takes 14 ms, and most clients do not need it

    fields = [field.with_name(name) for field, name in zip(schema, unique_names(schema.names), strict=True)]
    schema = pa.schema(fields, schema.metadata)
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no directory {target.parent}")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def with_unique_names(table: pa.Table) -> pa.Table:
    """The table with a different name for each column. Nothing is copied."""
    return table.rename_columns(list(unique_names(table.schema.names)))


def _column(name: str, values: pa.ChunkedArray) -> list[str]:
    """Write the name and the values of a column, all with the same width."""
    cells = [_shown(name), *(_cell(value) for value in python_values(values))]
    width = max(map(_width, cells))
    t = pa.types
    right = t.is_integer(values.type) or t.is_floating(values.type) or t.is_decimal(values.type)
    blanks = [" " * (width - _width(cell)) for cell in cells]
    return [blank + cell if right else cell + blank for blank, cell in zip(blanks, cells, strict=True)]


def _fitting(columns: Sequence[list[str]]) -> int:
    """Count the first columns that fit the terminal, at least one."""
    room, used = max(_LEAST_WIDTH, shutil.get_terminal_size().columns), 0
    for at, column in enumerate(columns):
        used += _width(column[0]) + (len(_GAP) if at else 0)
        if used > room and at:
            return at
    return len(columns)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat(sep=" ").replace("+00:00", "Z")
    return _shown(str(value))


def _shown(text: str) -> str:
    """Cut a text to the width of a cell, and escape what a terminal would obey."""
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[: _CELL + 1])
    if _width(text) <= _CELL:
        return text
    widths = 0
    beginning = [letter for letter in text if (widths := widths + _width(letter)) < _CELL]
    return "".join(beginning) + "…"


def _width(text: str) -> int:
    """Return the number of places that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text
    )


def _names(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _NAMES} more"] if len(names) > _NAMES else []
    return ", ".join([*map(_shown, islice(names, _NAMES)), *more])
