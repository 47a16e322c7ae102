"""A field of a CSV, and the column that takes its texts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from psoup_cli.files.number_form import NumberForm


@dataclass(frozen=True, slots=True)
class CsvField:
    """A field of a CSV: the name of its column, the type that Arrow reads, and the type's name in SQL.

    `form`: the separators of its numbers; None for a text, and for numbers as Arrow reads them.
    """

    name: str
    arrow: pa.DataType
    sql: str
    form: NumberForm | None = None
