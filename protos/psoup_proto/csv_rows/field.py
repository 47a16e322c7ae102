"""A field of a CSV, and the column that takes its texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


class FieldForm(Protocol):
    """Separators of numbers that Arrow does not read."""

    @property
    def pattern(self) -> str:
        """A pattern that matches every number of this form, with blanks around it."""
        ...

    def plain(self, text: pa.Array | pa.ChunkedArray) -> Any:
        """Write numbers with a point and without thousands. Raises ArrowInvalid for another text. O(bytes)."""
        ...


@dataclass(frozen=True, slots=True)
class CsvField:
    """A field of a CSV: the name of its column, the type that Arrow reads, and the type's name in SQL.

    `form`: the separators of its numbers; None for a text, and for numbers as Arrow reads them.
    """

    name: str
    arrow: pa.DataType
    sql: str
    form: FieldForm | None = None
