"""The bad rows of a body, by line."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from psoup.errors import InvalidBatch
from psoup.phrases import counted, verb

REASON = "BAD_ROWS"
"""The reason of a refusal that lists bad rows."""

MOST_LISTED = 100
"""The most bad rows that a refusal lists. Reading ends with the last of them."""


class RowFault(NamedTuple):
    """A bad row. `line`: its line in the body, from 1; 0 for a fault of the whole body. `column`: "" without one."""

    line: int
    column: str
    message: str


class BadRows(InvalidBatch):
    """Some rows of a body are bad, so that none was taken. `rows`: the bad rows by line. `more`: whether more rows may
    be bad.
    """

    def __init__(self, rows: list[RowFault], more: bool) -> None:
        rows = sorted(rows)
        first, count = rows[0], len(rows)
        place = f"line {first.line}: " if first.line else ""
        bound = "at least " if more else ""
        rest = f"; {bound}{counted(count - 1, 'more row')} {verb(count - 1, 'is', 'are')} bad" if count > 1 else ""
        super().__init__(
            f"{place}{first.message}{rest}. No row was taken",
            reason=REASON,
            bad_rows=count,
            **({"line": first.line} if first.line else {}),
            **({"column": first.column[:100]} if first.column else {}),
        )
        self.rows = rows
        self.more = more


class Faults:
    """Collects the bad rows of a body, in the order of lines."""

    def __init__(self) -> None:
        self._rows = list[RowFault]()

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, line: int, message: str, column: str = "") -> None:
        """Add a bad row. Raises BadRows when `MOST_LISTED` rows are bad."""
        self._rows.append(RowFault(line, column, message))
        if len(self._rows) >= MOST_LISTED:
            raise BadRows(self._rows, more=True)

    def end(self, line: int, message: str) -> NoReturn:
        """Add a fault after which no row can be read, and raise BadRows."""
        self._rows.append(RowFault(line, "", message))
        raise BadRows(self._rows, more=False)

    def check(self) -> None:
        """Raise BadRows if there are any."""
        if self._rows:
            raise BadRows(self._rows, more=False)
