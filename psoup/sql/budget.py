"""How much binding a statement takes, before it is read: a count that no clock is needed for.

    SELECT x FROM s WHERE x = 1 OR x = 2 OR …      a point for each word and sign
    … WHERE x IN (1, 2, 3, …)                      a third of one for constants of a list and their commas
    … WHERE x = '1'::DECIMAL OR …                  twenty for a text that is converted

A point took 20 to 40 microseconds where it was measured, whatever the statement is made of; so `MOST_POINTS` are about
200 ms of one core. Statements of a log are not held against it: they were taken, and have to be taken again.
"""

from __future__ import annotations

import re

from psoup.sql.source import StatementText

MOST_POINTS = 7_000
"""What a statement may take. A list of 10,000 constants fits, and 1,700 comparisons joined by OR."""

_WORD = re.compile(r"[\w.]+|'[^']*'|\"[^\"]*\"|[^\s\w]")
_CONVERTED = re.compile(r"'\s*::|\bCAST\s*\(\s*'", re.IGNORECASE)
_CONVERSION = 20
"""Points of a text that is converted, unless it is plainly written: the same code as for columns does it."""

_ITEM = re.compile(r",\s*(?:-?[\d.]+|'(?:[^']|'')*')\s*(?=[,)])")
"""A constant of a list, and the comma before it: two words."""


def check_budget(text: str) -> None:
    """Raise SqlError, reason STATEMENT_BUDGET, for a statement that takes too much. O(length), some milliseconds."""
    conversions = _CONVERSION * len(_CONVERTED.findall(text))
    if len(text) + conversions <= MOST_POINTS:
        return
    words = len(_WORD.findall(text)) + conversions
    if words <= MOST_POINTS:
        return
    points = words - len(_ITEM.findall(text)) * 4 // 3
    if points > MOST_POINTS:
        raise StatementText(text).error(
            f"the statement has {points:,} words and signs, and {MOST_POINTS:,} is the most: it would take too long to"
            f" read (a constant of a list counts a third, a text that is converted {_CONVERSION})",
            hint="use IN or BETWEEN instead of OR, or make several queries of it",
            reason="STATEMENT_BUDGET",
        )
