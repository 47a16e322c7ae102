"""The evaluation of a join: pieces of tuples, as rows of each side, in the order of FROM.

    rows of the first source   1,024 4,096 …  ──eddy──> tuples ──sorted if need be──> rest ──> at most 65,536 at a time

A join of two sources needs no routes: its only step yields pairs in the order of FROM. The same holds for several
sources that are joined by one equality each (`psoup.joins.multiway`). Other joins go through the eddy, some rows of the
first source at a time. The join keeps the tuples of these rows in memory and sorts them. If they are too many, it
computes them again by steps in the order of FROM, which need no sort. So no join needs all its tuples in memory, and a
reader that wants few tuples stops early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.config import JoinLimits, TextLimits
from psoup.joins.budget import JoinBudget
from psoup.joins.eddy import Eddy, Routes, taken
from psoup.joins.from_order import in_from_order
from psoup.joins.key_columns import Edge, JoinKeys, keyed
from psoup.joins.multiway import Nested, tree_of
from psoup.joins.policies import Greedy, InFromOrder, Learned, Policy
from psoup.joins.residual import Rest
from psoup.joins.semi_join import thinned
from psoup.joins.side import JoinSide
from psoup.joins.sort_builds import Builds, all_rows
from psoup.joins.steps import Places, StepFigures
from psoup.plan.nodes import Join
from psoup.values.columns import Array
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_GROWTH = 4
"""Each piece may have this many times the rows of the piece before."""
_LIMITS = JoinLimits()


def joined(
    node: Join,
    sides: Sequence[JoinSide],
    *,
    now: int | None = None,
    texts: TextLimits = TextLimits(),
    budget: ReadBudget = UNBOUNDED,
    limits: JoinLimits = _LIMITS,
    policy: Policy | None = None,
    learned: Learned | None = None,
) -> Joined:
    """The tuples of a join in the order of FROM, as pieces: the rows of each side, int32[n] or int64[n].

    `learned`: step statistics of earlier joins of the plan, for the policy. This join adds its own statistics.

    No work is done before the first piece. Raises ResourceExhausted (JOIN_BUDGET), and the errors of `budget` and
    sides.
    """
    return Joined(node, sides, now, texts, budget, limits, policy or (learned or Learned()).policy(), learned)


class Joined(Iterator[list[Array]]):
    """The evaluation of one join, as an iterator over pieces of tuples. Its statistics are those of the work so far."""

    def __init__(
        self,
        node: Join,
        sides: Sequence[JoinSide],
        now: int | None,
        texts: TextLimits,
        budget: ReadBudget,
        limits: JoinLimits,
        policy: Policy,
        learned: Learned | None = None,
    ) -> None:
        self._node = node
        self._sides = sides
        self._limits = limits
        self._policy = policy
        self._learned = learned
        self._room = JoinBudget(limits, budget)
        self._rest = Rest(node.rest, sides, now, texts, budget) if node.rest else None
        self._key_errors = 0
        self._routes: Routes | Nested | None = None
        self._pieces: Iterator[list[Array]] = self._all_pieces()

    def __next__(self) -> list[Array]:
        """The next piece. The caller owns its arrays."""
        return next(self._pieces)

    def close(self) -> None:
        """Release all memory and end the iteration. Idempotent."""
        self._pieces = iter(())
        self._room.close()
        if self._learned is not None and isinstance(self._policy, Greedy):
            self._learned.keep(self._policy)

    @property
    def errors(self) -> int:
        """The number of rows with a failed operand, plus the number of tuples with a failed condition."""
        return self._key_errors + (self._rest.errors if self._rest else 0)

    @property
    def candidates(self) -> int:
        """The number of candidate pairs that the join has looked at so far."""
        return self._room.candidates

    @property
    def peak(self) -> int:
        """The most bytes held at one time."""
        return self._room.peak

    @property
    def nested(self) -> bool:
        """Whether the join ran without routes: see `psoup.joins.multiway`."""
        return isinstance(self._routes, Nested)

    @property
    def figures(self) -> list[StepFigures]:
        """Statistics of each step so far."""
        return self._routes.figures if self._routes else []

    def _all_pieces(self) -> Iterator[list[Array]]:
        self._room.find(0)
        if not all(side.rows for side in self._sides):
            return
        keys = keyed(self._node, self._sides, self._room)
        self._key_errors = keys.errors
        rows = thinned(self._taking_part(keys), keys.edges, self._room, first=int(len(self._sides) == 2))
        if not all(map(len, rows)):
            return
        for piece in self._tuples(keys.edges, rows):
            tuples = piece if self._rest is None else self._rest.kept(piece)
            self._room.find(len(tuples[0]))
            if len(tuples[0]):
                yield tuples

    def _tuples(self, edges: Sequence[Edge], rows: list[Array]) -> Iterator[list[Array]]:
        """Yield the tuples of `rows` that satisfy all keys and bands. `rows`: of each side, those that take part."""
        tree = tree_of(edges, len(rows)) if len(rows) > 2 and isinstance(self._policy, InFromOrder) else None
        if tree is not None:
            nested = self._routes = Nested(tree, rows, self._room, self._limits)
            return nested.pieces()
        routes = self._routes = Routes(edges, Builds(rows, self._room))
        return self._of_two(routes, rows[0]) if len(rows) == 2 else self._of_many(routes, rows[0])

    def _taking_part(self, keys: JoinKeys) -> list[Array]:
        """The rows of each side that take part: int32, ascending."""
        sides = zip(self._sides, keys.alive, strict=True)
        return [all_rows(s.rows) if flags is None else np.flatnonzero(flags).astype(np.int32) for s, flags in sides]

    def _driving(self, rows: Array, first: int, limit: int) -> Iterator[tuple[Places, int]]:
        """Yield the rows of the first source in parts that grow from `first` to `limit` rows."""
        whole = len(rows) == self._sides[0].rows
        start, size = 0, min(first, limit)
        while start < len(rows):
            stop = min(start + size, len(rows))
            yield slice(start, stop) if whole else rows[start:stop].astype(np.int64), stop - start
            start, size = stop, min(size * _GROWTH, limit)

    def _of_two(self, routes: Routes, rows: Array) -> Iterator[list[Array]]:
        """Yield the pairs of two sources as the step finds them, which is the order of FROM."""
        step, limits = routes.step(1, 1), self._limits
        size = min(limits.first, limits.rows)
        for places, count in self._driving(rows, _GROWTH * limits.first, limits.rows):
            for tuples, partners in step.pairs((places, None), count, size):
                yield [taken(places, tuples), partners]
                size = min(size * _GROWTH, limits.rows)

    def _of_many(self, routes: Routes, rows: Array) -> Iterator[list[Array]]:
        """Yield the tuples of several sources, some rows of the first source at a time."""
        for places, count in self._driving(rows, self._limits.first, self._limits.piece):
            yield from self._routed(routes, places, count)

    def _routed(self, routes: Routes, places: Places, count: int) -> Iterator[list[Array]]:
        """Yield the tuples of some rows of the first source in the order of FROM.

        They are sorted in memory. If they are too many, they are computed again by steps in this order.
        """
        eddy = Eddy(routes, self._policy, self._limits.piece, len(self._sides))
        pieces: list[list[Array]] = []
        total = 0
        for piece in eddy.complete(places, count):
            pieces.append(piece)
            if eddy.forced:
                yield from self._sorted(pieces, eddy.in_order)
                pieces = []
                continue
            total += len(piece[0])
            if total > self._limits.kept:
                if not eddy.in_order:
                    break
                eddy.forced = True
        else:
            yield from self._sorted(pieces, eddy.in_order)
            return
        pieces.clear()
        again = Eddy(routes, self._policy, self._limits.piece, len(self._sides))
        again.forced = True
        yield from again.complete(places, count)

    def _sorted(self, pieces: list[list[Array]], in_order: bool) -> Iterator[list[Array]]:
        """Yield tuples in the order of FROM, in pieces. `in_order`: whether they already have this order."""
        if not pieces:
            return
        size = sum(rows.nbytes for piece in pieces for rows in piece)
        self._room.hold(3 * size, "tuples to be sorted")  # the pieces, their concatenation, and the sorted tuples
        together = [np.concatenate(rows) for rows in zip(*pieces, strict=True)]
        places = together if in_order else in_from_order(together, [side.rows for side in self._sides])
        for start in range(0, len(places[0]), self._limits.rows):
            yield [rows[start : start + self._limits.rows] for rows in places]
        self._room.give_back(3 * size)
