"""How much text an evaluation makes, known before a byte of it is made.

    lengths of the rows to be made ──Sizes.check──> rows longer than one value may be: errors of these rows
                                               └──> with what is kept more than fits together: TooMuchText

A clause multiplies: replace of every x by 3,000 others, three times, makes 27 GB of one letter. So every function that
makes TEXT says beforehand how long its results will be. TooMuchText is no failure: whoever gets it asks for fewer rows,
down to one; `evaluate` does so by itself where the result is small. Nothing here makes text.
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Array, Column
from psoup.config import TextLimits


class TooMuchText(Exception):
    """The texts of these rows do not fit together; in about so many `parts` they would. No bytes were made."""

    def __init__(self, parts: int) -> None:
        super().__init__(f"evaluate in {parts} parts")
        self.parts = parts


class TooMuchWork(Exception):
    """An expression would make more text over these rows than it may: it takes time, and others wait."""

    def __init__(self, rows: int, parts: int, limits: TextLimits) -> None:
        most = (limits.parts or 1) * limits.together
        super().__init__(
            f"it makes some {parts * limits.together:,} bytes of text over {rows:,} tuples, and may make {most:,}"
        )


class Sizes:
    """What one expression has made and keeps. `kept`: bytes of its TEXT subtrees so far."""

    def __init__(self, limits: TextLimits) -> None:
        self.limits = limits
        self.kept = 0

    def check(self, lengths: Array, otherwise: int = 0) -> Array | None:
        """Before texts of `lengths` (int64[n]) are made: the rows that are too long, bool[n], or None if none is.

        The caller makes at most `otherwise` bytes for these. Raises TooMuchText.
        """
        over = lengths > self.limits.value
        if not over.any():
            self.borrow(int(lengths.sum()))
            return None
        self.borrow(int(np.where(over, otherwise, lengths).sum()))
        return over

    def borrow(self, size: int) -> None:
        """Before `size` bytes are made that are not kept, or counted when they are."""
        whole = self.kept + size
        if whole > self.limits.together:
            raise TooMuchText(max(-(-whole // max(self.limits.together, 1)), 2))

    def keep(self, size: int) -> None:
        """Count what has been made."""
        self.borrow(size)
        self.kept += size


def text_bytes(column: Column) -> int:
    """The bytes of the texts of a TEXT column. O(1)."""
    return int(column.values[-1] - column.values[0])
