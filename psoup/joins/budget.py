"""The room that a join has: the candidates that it may look at, and the bytes that it may hold.

look(1,000)  counted, and whether the caller still waits is asked
hold(8 MB)   before the bytes are made; give_back when they are not needed
"""

from __future__ import annotations

from psoup.budgets import JOIN_BYTES, JOIN_PAIRS
from psoup.config import JoinLimits
from psoup.errors import ResourceExhausted
from psoup.reading import ReadBudget


class Room:
    """The room of one join. `candidates`, `held` (bytes), `peak` (the most of them) and `found` (tuples given out)
    so far."""

    def __init__(self, limits: JoinLimits, budget: ReadBudget) -> None:
        self.limits = limits
        self.candidates = 0
        self.held = self.peak = 0
        self.found = 0
        self._budget = budget

    def look(self, pairs: int, factor: str) -> None:
        """Count candidates that a factor let meet. Raises ResourceExhausted, and what ends the read."""
        self._budget.check()
        self.candidates += pairs
        if self.candidates > self.limits.pairs:
            raise ResourceExhausted(
                f"this join has looked at {self.candidates:,} pairs of tuples, {pairs:,} of them just now by {factor},"
                f" and found {self.found:,} tuples; one invocation may look at {self.limits.pairs:,} (join_pairs);"
                " narrow the windows or the WHERE clause of a stream, or add a factor or a LIMIT",
                reason="JOIN_BUDGET",
                **JOIN_PAIRS.over(self.candidates, self.limits.pairs),
                factor=factor,
            )

    def hold(self, size: int, what: str) -> None:
        """Take bytes. Raises ResourceExhausted, and what ends the read."""
        self._budget.check()
        if self.held + size > self.limits.bytes:
            raise ResourceExhausted(
                f"this join would hold {self.held + size:,} bytes with {what}, and one invocation may hold"
                f" {self.limits.bytes:,} (join_mib); it found {self.found:,} tuples so far; narrow the windows or the"
                " WHERE clause of a stream",
                reason="JOIN_BUDGET",
                **JOIN_BYTES.over(self.held + size, self.limits.bytes),
                factor=what,
            )
        self._budget.hold_joined(size)
        self.held += size
        self.peak = max(self.peak, self.held)

    def give_back(self, size: int) -> None:
        """Return bytes."""
        self._budget.give_back_joined(size)
        self.held -= size

    def close(self) -> None:
        """Return all bytes that are still held. Idempotent."""
        self.give_back(self.held)
