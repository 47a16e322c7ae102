"""The case of a join that a way evaluates, and the pieces of rows that the way returns.

    JoinCase   node, reading ──> sides, opened when a way first reads them
    Pieces     positions in each side, in the order of FROM, piece by piece

`psoup.execution.ways` lists the ways. They find pairs by keys and bands. This module tests all other conditions of a
join of two sources on these pairs.
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
from psoup.joins.products import refuse_product, sources_apart
from psoup.joins.residual import Rest, without_rest
from psoup.plan.nodes import Join
from psoup.plan.way import Ways
from psoup.values.columns import Array

FIRST = 8_192
"""The most rows of the first piece if the caller reads all rows. Each piece costs some 20 us, whatever its rows."""


class Pieces(Protocol):
    """The rows of a join, in pieces. A piece has the positions of its rows (int32 or int64) in each of the `sides`.

    Rows are ordered by the position in the first side, then in the second side, and so on: the order of FROM.
    """

    @property
    def sides(self) -> Sequence[MatchedSide]:
        """The sides to which the positions refer."""
        ...

    @property
    def errors(self) -> int:
        """The number of values so far that could not be computed."""
        ...

    def __iter__(self) -> Iterator[list[Array]]: ...

    def close(self) -> None:
        """Return the bytes that the pieces hold to the budget. Idempotent."""
        ...


@dataclass(slots=True)
class JoinCase:
    """The case of a join. `few`: the caller reads only the first rows."""

    node: Join
    """The join for the ways. A join of two sources has only its keys and bands here."""
    reading: Reading
    ways: Ways[JoinCase, Pieces]
    few: bool = False
    rest: Join | None = None
    """The whole join, with the conditions that `pieces` tests on pairs. None if there are none."""
    opened: list[MatchedSide] = field(default_factory=list)

    @property
    def sides(self) -> list[MatchedSide]:
        """All sides. Large sides are reduced by `lookup_filter`. O(chunks + look-ups) the first time."""
        if not self.opened:
            self.opened = open_sides(cut_down(self.node, self.reading), self.reading)
        return self.opened

    @property
    def in_memory(self) -> bool:
        """Whether all chunks of all sides are in memory."""
        return all(side.in_memory for side in self.sides)

    @property
    def limits(self) -> JoinLimits:
        """The limits of candidates, bytes and the sizes of pieces."""
        return self.reading.joins if self.few else _for_all(self.reading.joins)

    def room(self) -> JoinBudget:
        """Open a new account for the candidates and bytes of this join."""
        return JoinBudget(self.limits, self.reading.budget)

    def pieces(self) -> Pieces:
        """Find the rows by the first way that accepts the case. Raises ResourceExhausted (JOIN_BUDGET)."""
        if not self.few and sources_apart(self.node):
            refuse_product(self.node, [side.rows for side in self.sides], self.limits)
        pieces = self.ways.take(self.node, self)
        return pieces if self.rest is None else _Tested(pieces, self.rest, self.reading)

    def close(self) -> None:
        """Close the sides that were opened. Idempotent."""
        for side in self.opened:
            side.close()
        self.opened = []


def join_case(node: Join, reading: Reading, ways: Ways[JoinCase, Pieces], *, few: bool = False) -> JoinCase:
    """Make the case of a join. Each of its sides must have a row."""
    if node.rest and len(node.inputs) == 2:
        return JoinCase(without_rest(node), reading, ways, few, node)
    return JoinCase(node, reading, ways, few)


def open_sides(matches: Sequence[Sequence[object]], reading: Reading) -> list[MatchedSide]:
    """Open a side for the matches of each source. The sides use the budget and the threads of `reading`."""
    limits = reading.texts, reading.budget, reading.joins.bytes, reading.run
    return [MatchedSide(side, *limits) for side in matches]  # type: ignore[arg-type]


class FoundPairs:
    """Pieces of a way that compares columns only. No value has to be computed, so there are no errors."""

    errors = 0

    def __init__(self, sides: Sequence[MatchedSide], pieces: Iterable[list[Array]], room: JoinBudget) -> None:
        """`room`: the account of the bytes that the pieces hold."""
        self.sides = sides
        self.close = room.close
        self._pieces = pieces

    def __iter__(self) -> Iterator[list[Array]]:
        return iter(self._pieces)


class _Tested:
    """The rows of `pieces` that satisfy the conditions of a join that are neither keys nor bands."""

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
    """The limits if the caller reads all rows. Cached, as every invocation needs them."""
    return replace(limits, first=FIRST)
