"""Limits of one join: the candidates that it may look at, and the bytes that it may hold.

look(1,000)  candidates are counted, and the caller's deadline is checked
find(100)    tuples are counted
hold(8 MB)   called before the bytes are allocated; give_back after their use
"""

from __future__ import annotations

from psoup.budgets import JOIN_BYTES, JOIN_PAIRS
from psoup.config import JoinLimits
from psoup.errors import ResourceExhausted
from psoup.work.read_budget import ReadBudget


class JoinBudget:
    """The limits and the counters of one join: `candidates`, `held` bytes, their `peak`, and `found` (tuples given
    out)."""

    def __init__(self, limits: JoinLimits, budget: ReadBudget) -> None:
        self.limits = limits
        self.candidates = 0
        self.held = self.peak = 0
        self.found = 0
        self._budget = budget

    def look(self, pairs: int, factor: str) -> None:
        """Count `pairs` candidates of a factor. Raises ResourceExhausted, and the errors of the read's budget."""
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

    def find(self, pairs: int) -> None:
        """Count `pairs` tuples that the join found."""
        self.found += pairs
        if self._budget.on_pairs is not None:
            self._budget.on_pairs(self.found)

    def hold(self, size: int, purpose: str) -> None:
        """Charge bytes to the join and to the read. Raises ResourceExhausted, and the errors of the read's budget."""
        self._budget.check()
        if self.held + size > self.limits.bytes:
            raise ResourceExhausted(
                f"this join would hold {self.held + size:,} bytes with {purpose}, and one invocation may hold"
                f" {self.limits.bytes:,} (join_mib); it found {self.found:,} tuples so far; narrow the windows or the"
                " WHERE clause of a stream",
                reason="JOIN_BUDGET",
                **JOIN_BYTES.over(self.held + size, self.limits.bytes),
                factor=purpose,
            )
        self._budget.hold_joined(size)
        self.held += size
        self.peak = max(self.peak, self.held)

    def give_back(self, size: int) -> None:
        """Give back bytes that `hold` has charged."""
        self._budget.give_back_joined(size)
        self.held -= size

    def close(self) -> None:
        """Give back all bytes that the join holds. Idempotent."""
        self.give_back(self.held)
