"""The room of a piece of a table of answers: bytes are charged to the read before they are made.

    queries 0 .. 131,071 ── hold(states) ── hold(texts) ── over ──> TooManyPairs: half as many queries
                                                        └─ fits ──> the rows are sent; all is given back

A query by itself is answered as an invocation, and charged as that is.
"""

from __future__ import annotations

from psoup.config import TextLimits
from psoup.errors import ResourceExhausted
from psoup.reading import ReadBudget
from psoup.results.sets import TooManyPairs

_MOST = 1 << 28
"""Bytes of a piece at most, of a read that has no limit for sorts and groups."""
_LEAST = 1 << 20
"""Bytes of a piece at least: with fewer all queries would be answered one by one."""
TEXT_SHARE = 8
"""The share of a room that texts of several rows take at once: they are copied some times on their way."""


class PieceRoom:
    """The bytes that a piece of a table holds. `most`: at most; `peak`: the most so far."""

    def __init__(self, budget: ReadBudget) -> None:
        self._budget = budget
        self.most = max(min(budget.sort_bytes, _MOST), _LEAST)
        self.held = self.peak = 0

    def texts(self, limits: TextLimits) -> TextLimits:
        """Limits under which the texts of several rows fit into the room."""
        return limits.in_pieces(self.most // TEXT_SHARE)

    def pairs(self, most: int, each: int) -> int:
        """The number of pairs of so many bytes that still fit, at most `most`."""
        return min(most, max(self.most - self.held, 0) // each)

    def hold(self, size: int) -> None:
        """Take `size` bytes. Raises TooManyPairs if this room, or the room of all reads, is full; and as `check`.

        Raises ResourceExhausted (SORTS_BUDGET) if other reads leave no room for the smallest piece.
        """
        self._budget.check()
        if self.held + size > self.most:
            raise TooManyPairs
        try:
            self._budget.hold_joined(size, "this piece of the table")
        except ResourceExhausted as problem:
            if self.held + size <= _LEAST:
                raise
            raise TooManyPairs from problem
        self.held += size
        self.peak = max(self.peak, self.held)

    def give_back(self, size: int | None = None) -> None:
        """Return bytes that were taken; None: all of them. A read that has ended has returned its bytes already."""
        size = self.held if size is None else size
        self._budget.give_back_joined(min(size, self._budget.joined))
        self.held -= size

    def begin(self) -> None:
        """Return all bytes, before the next piece. Idempotent."""
        self.give_back()
        self.peak = 0
