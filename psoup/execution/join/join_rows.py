"""The rows of a join of streams. A row is a position in each side (`psoup.execution.rows.leaf_rows`).

node, matches ─ a way of joining ─> pieces: one array of positions for each source, in FROM order
             └─ a way of counting ─> the number of rows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from psoup.execution.join.join_case import JoinCase, Pieces, join_case
from psoup.execution.join.located_side import count_of
from psoup.execution.join.sides import MatchedSide
from psoup.execution.rows.leaf_rows import LeafRows, Piece
from psoup.plan.nodes import Join
from psoup.plan.way import Ways

__all__ = ["JoinRows", "JoinWays", "Piece", "count_rows", "has_no_rest"]


def has_no_rest(node: Join) -> bool:
    """Whether all conditions of a join are equalities and bands."""
    return not node.rest


def count_rows(case: JoinCase) -> int:
    """Find all rows and count them. Raises as `JoinCase.pieces`."""
    reading, total = case.reading, 0
    found = case.pieces()
    try:
        for piece in found:
            reading.budget.check()
            total += len(piece[0])
    finally:
        reading.join_errors += found.errors
        found.close()
    return total


@dataclass(frozen=True, slots=True)
class JoinWays:
    """The ways of finding the pairs of a join, and the ways of counting them."""

    pairs: Ways[JoinCase, Pieces]
    count: Ways[JoinCase, int]


@dataclass(slots=True)
class JoinRows(LeafRows):
    """The rows of a join whose inputs are all streams of the answer, in the order of `reading.matches`."""

    node: Join
    ways: JoinWays
    sides: Sequence[MatchedSide] = field(default=(), kw_only=True)
    """The sides to which positions refer. Empty before `pieces` has started."""
    _cases: list[JoinCase] = field(default_factory=list)
    """The evaluations whose sides are open."""

    def open(self) -> Pieces | None:
        """Find the rows by the first way that accepts the case. Raises ResourceExhausted (JOIN_BUDGET)."""
        return self._case().pieces() if self._has_rows else None

    def counts(self, most: int) -> Iterator[int]:
        """Yield counts that sum to the number of rows. `most`: the most rows of a piece, if LIMIT cuts the rows."""
        if self.limit is not None or self.skip or not self._has_rows:
            yield from LeafRows.counts(self, most)
        else:
            yield self.ways.count.take(self.node, self._case())

    @property
    def _has_rows(self) -> bool:
        """Whether each side has a row, and LIMIT is not 0."""
        return self.limit != 0 and all(map(count_of, self.reading.matches))

    def _case(self) -> JoinCase:
        case = join_case(self.node, self.reading, self.ways.pairs, few=self.limit is not None)
        self._cases.append(case)
        return case

    def close(self) -> None:
        """Close the sides and return their bytes. After that no row can be shown."""
        LeafRows.close(self)
        for case in self._cases:
            case.close()
        self._cases = []
