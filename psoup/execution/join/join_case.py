"""A join to be evaluated, and the pieces of pairs that a way of evaluating it gives.

    JoinCase   node, reading ──> sides, opened when a way first reads them
    Pieces     positions in each side, in the order of FROM, piece by piece; what they hold until they are closed

The ways are listed in `psoup.execution.ways`. Conditions that are neither keys nor bands are tested here, on the pairs
that any way gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from psoup.config import JoinLimits
from psoup.execution.join.lookup_filter import cut_down
from psoup.execution.join.sides import MatchedSide
from psoup.execution.rows.source_rows import Reading
from psoup.joins.budget import JoinBudget
from psoup.joins.residual import Rest, without_rest
from psoup.plan.nodes import Join
from psoup.plan.way import Ways
from psoup.values.columns import Array

FIRST = 8_192
"""Most rows of the first piece if all rows are wanted: each piece costs some 20 us beside its rows."""


class Pieces(Protocol):
    """Rows of a join in pieces: positions (int32 or int64) in each of the `sides`, in the order of FROM."""

    @property
    def sides(self) -> Sequence[MatchedSide]:
        """The sides that the positions count."""
        ...

    @property
    def errors(self) -> int:
        """Values so far that could not be computed."""
        ...

    def __iter__(self) -> Iterator[list[Array]]: ...

    def close(self) -> None:
        """Give back the bytes that the pieces hold. Idempotent."""
        ...


@dataclass(slots=True)
class JoinCase:
    """An evaluation of a join. `few`: only the first rows are wanted."""

    node: Join
    """The join; of two sources without the conditions that are tested on pairs."""
    reading: Reading
    ways: Ways[JoinCase, Pieces]
    few: bool = False
    rest: Join | None = None
    """The join with the conditions that are tested on pairs; None without such conditions."""
    opened: list[MatchedSide] = field(default_factory=list)

    @property
    def sides(self) -> list[MatchedSide]:
        """All sides, large ones without rows that cannot have a partner. O(chunks + look-ups) the first time."""
        if not self.opened:
            self.opened = open_sides(cut_down(self.node, self.reading), self.reading)
        return self.opened

    @property
    def in_memory(self) -> bool:
        """Whether all chunks of all sides are in memory."""
        return all(side.in_memory for side in self.sides)

    @property
    def limits(self) -> JoinLimits:
        """The limits of the pairs that are found."""
        return self.reading.joins if self.few else _for_all(self.reading.joins)

    def room(self) -> JoinBudget:
        """A new account of candidates and bytes."""
        return JoinBudget(self.limits, self.reading.budget)

    def pieces(self) -> Pieces:
        """The rows, by the first way that accepts the case. Raises ResourceExhausted (JOIN_BUDGET)."""
        pieces = self.ways.take(self.node, self)
        return pieces if self.rest is None else _Tested(pieces, self.rest, self.reading)

    def close(self) -> None:
        """Close the sides that were opened. Idempotent."""
        for side in self.opened:
            side.close()
        self.opened = []


def join_case(node: Join, reading: Reading, ways: Ways[JoinCase, Pieces], *, few: bool = False) -> JoinCase:
    """The case of a join, all of whose sides have a row."""
    if node.rest and len(node.inputs) == 2:
        return JoinCase(without_rest(node), reading, ways, few, node)
    return JoinCase(node, reading, ways, few)


def open_sides(matches: Sequence[Sequence[object]], reading: Reading) -> list[MatchedSide]:
    """Sides of some matches. `reading`: the budget and the threads that they use."""
    limits = reading.texts, reading.budget, reading.joins.bytes, reading.run
    return [MatchedSide(side, *limits) for side in matches]  # type: ignore[arg-type]


class FoundPairs:
    """Pieces of pairs of columns alone: no value has to be computed, so there are no errors."""

    errors = 0

    def __init__(self, sides: Sequence[MatchedSide], pieces: Iterable[list[Array]], room: JoinBudget) -> None:
        """`room`: the account that holds the bytes behind the pieces."""
        self.sides = sides
        self.close = room.close
        self._pieces = pieces

    def __iter__(self) -> Iterator[list[Array]]:
        return iter(self._pieces)


class _Tested:
    """The pairs of other pieces that satisfy the conditions of a join which are neither keys nor bands."""

    def __init__(self, pieces: Pieces, node: Join, reading: Reading) -> None:
        self.sides = pieces.sides
        self.close = pieces.close
        self._pieces = pieces
        self._conditions = Rest(node.rest, pieces.sides, reading.now, reading.texts, reading.budget)

    @property
    def errors(self) -> int:
        return self._pieces.errors + self._conditions.errors

    def __iter__(self) -> Iterator[list[Array]]:
        for piece in self._pieces:
            passed = self._conditions.kept(piece)
            if len(passed[0]):
                yield passed


@lru_cache
def _for_all(limits: JoinLimits) -> JoinLimits:
    """The limits of a read of all rows; computed once, as every invocation asks for them."""
    return replace(limits, first=FIRST)
