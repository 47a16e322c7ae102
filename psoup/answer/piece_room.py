"""Memory budget of one piece of a table of answers: bytes are charged to the read before they are allocated.

    queries 0 .. 131,071 ── hold(states) ── hold(texts) ── over ──> TooManyPairs: half as many queries
                                                        └─ fits ──> the rows are sent; all is given back

A single query is answered, and charged, as an invocation.
"""

from __future__ import annotations

from psoup.config import TextLimits
from psoup.errors import ResourceExhausted
from psoup.results.sets import TooManyPairs
from psoup.work.read_budget import ReadBudget

_MOST = 1 << 28
"""The most bytes of a piece if the read has no limit for sorts and groups."""
_LEAST = 1 << 20
"""The number of bytes that a piece may always take. With fewer, the table would answer all queries one by one."""
TEXT_SHARE = 8
"""The divisor that gives the part of a room for texts of several rows. Such texts are copied several times on their
way.
"""


class PieceRoom:
    """The bytes that a piece of a table holds. `most`: the limit. `peak`: the greatest number of bytes held since
    `begin`.
    """

    def __init__(self, budget: ReadBudget) -> None:
        self._budget = budget
        self.most = max(min(budget.sort_bytes, _MOST), _LEAST)
        self.held = self.peak = 0

    def texts(self, limits: TextLimits) -> TextLimits:
        """Text limits under which the texts of several rows fit into the room."""
        return limits.in_pieces(self.most // TEXT_SHARE)

    def pairs(self, limit: int, each: int) -> int:
        """The number of pairs of `each` bytes that still fit; at most `limit`."""
        return min(limit, max(self.most - self.held, 0) // each)

    def hold(self, size: int) -> None:
        """Take `size` bytes. Raises TooManyPairs if this room, or the room of all reads, is full.

        Raises ResourceExhausted (SORTS_BUDGET) if other reads leave no room for the smallest piece; and as
        `ReadBudget.check`.
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
        """Return `size` bytes; without `size`, all of them. A read that has ended has returned its bytes already."""
        size = self.held if size is None else size
        self._budget.give_back_joined(min(size, self._budget.joined))
        self.held -= size

    def begin(self) -> None:
        """Return all bytes, before the next piece. Idempotent."""
        self.give_back()
        self.peak = 0
