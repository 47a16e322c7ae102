"""All rows of a column whose values do not fit, as the error for the first of them.

    values of n    1  'x'  3  'y'  5      row 1: 'x' in column 'n' does not fit …; 1 later row does not fit either
                      row 1    row 3      RowsRefused.rows: rows 1 and 3, each with its reason

Such rows are looked for only after a value did not fit, among the next `LOOKED_AT` rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from psoup_client.columns.casts import failing
from psoup_client.columns.frames import is_series
from psoup_client.errors import LISTED_ROWS, InvalidData, RefusedRow, RowsRefused
from psoup_client.phrases import counted, verb

LOOKED_AT = 65_536
"""The most rows that are looked at, from the first that does not fit on."""


def all_misfits(values: Any, fit: Callable[[Any], object], first: InvalidData) -> InvalidData:
    """Return the error for all rows of a column that do not fit. O(misfits * log(rows)) calls of `fit`.

    `fit`: converts a part of the values, or raises InvalidData. `first`: its error for all values. It is returned if it
    names no row.
    """
    text = first.facts.get("row", "")
    if not text.isdigit():
        return first
    start, reasons = int(text), dict[int, str]()
    stop = min(len(values), start + LOOKED_AT)

    def attempt(low: int, high: int) -> None:
        if len(reasons) == LISTED_ROWS:
            return
        try:
            fit(_part(values, start + low, start + high))
        except InvalidData as problem:
            if high - low == 1:
                reasons[start + low] = re.sub(r"^row \d+: ", "", problem.message)
            raise ValueError(low) from problem

    failing(stop - start, attempt)
    return _refused(first, reasons, some=stop < len(values) or len(reasons) == LISTED_ROWS)


def _part(values: Any, start: int, stop: int) -> Any:
    """A part of the values of a column, in any form."""
    return values.iloc[start:stop] if is_series(values) and hasattr(values, "iloc") else values[start:stop]


def _refused(first: InvalidData, reasons: dict[int, str], *, some: bool) -> RowsRefused:
    """The error for some rows. `some`: there may be further ones."""
    later = len(reasons) - 1
    bound = "at least " if some else ""
    more = f"; {bound}{counted(later, 'later row')} {verb(later, 'does', 'do')} not fit either" if later > 0 else ""
    return RowsRefused(
        first.message + more,
        rows=tuple(RefusedRow(row, why) for row, why in reasons.items()),
        reason=first.reason,
        facts={**first.facts, "misfits": str(len(reasons))},
    )
