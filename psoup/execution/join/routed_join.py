"""The way in which the rows of a join are found: directly for the common join, else by routes.

    r.k = s.k, s.t BETWEEN r.t - 5 AND r.t     keys gathered from the chunks, one step     psoup.joins.hash_pairs
    r.k = s.k AND r.name = s.name              their hash, and pairs confirmed             psoup.joins.hash_pairs
    r.k = s.k AND abs(r.a - s.a) > 5           the pairs by the key, and these tested      psoup.joins.residual
    anything else                              operands computed, the eddy                 psoup.joins.join_pieces

Both give the same rows. What is common is decided once for each plan (`psoup.execution.join.direct_join`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Protocol

import numpy as np

from psoup.columns import Array
from psoup.config import JoinLimits
from psoup.execution.join.direct_join import DirectJoin, direct_join
from psoup.execution.join.sides import MatchedSide
from psoup.execution.rows.source_rows import Reading
from psoup.joins.budget import Room
from psoup.joins.hash_pairs import PairTest, SideKeys, ascends, count_by_key, pairs_by_band, pairs_by_key, together
from psoup.joins.join_pieces import Joined, joined
from psoup.joins.policies import Learned
from psoup.joins.residual import Rest, without_rest
from psoup.kernels.paired import pair_small
from psoup.plan.nodes import Join
from psoup.plan.plan_facts import plan_fact
from psoup.runner import Runner, serial

_FIRST = 8_192
"""Rows that are given out at first at most, if all are wanted: each piece costs some 20 us beside its rows."""
_SMALL, _LOOKED = 16_384, 65_536
"""Rows of a side, and places looked at, up to which pairs are found in one call, in some 0.1 ms."""
SHARED = 50_000
"""Rows of both sides from which on their keys are gathered on two threads: some 150 us each."""


class Found(Protocol):
    """Rows of a join in pieces of positions; `errors`: values that could not be computed so far."""

    @property
    def errors(self) -> int:
        """See the class."""
        ...

    def __iter__(self) -> Iterator[list[Array]]: ...

    def close(self) -> None:
        """Give back what it holds. Idempotent."""
        ...


def found_in(node: Join, sides: Sequence[MatchedSide], reading: Reading, *, few: bool) -> Found:
    """The rows of a join, in FROM order; nothing is done before the first is asked for. `few`: not all are wanted.

    Raises ResourceExhausted (JOIN_BUDGET), and what ends the read.
    """
    if node.rest and len(sides) == 2:
        return tested(found_in(without_rest(node), sides, reading, few=few), node, sides, reading)
    limits = reading.joins if few else _for_all(reading.joins)
    learned = _learned_of(node) if len(sides) > 2 else None
    routed = partial(
        joined,
        node,
        sides,
        now=reading.now,
        texts=reading.texts,
        budget=reading.budget,
        limits=limits,
        learned=learned,
    )
    direct = direct_join(node)
    if direct is not None and sides[0].in_memory and sides[1].in_memory:
        return Direct(direct, sides, Room(limits, reading.budget), reading.run, routed)
    return routed()


def tested(found: Found, node: Join, sides: Sequence[MatchedSide], reading: Reading) -> Found:
    """The rows of `found`, by the keys and bands of a join, that satisfy its other conditions, too."""
    return _Tested(found, Rest(node.rest, sides, reading.now, reading.texts, reading.budget)) if node.rest else found


class _Tested:
    """See `tested`."""

    def __init__(self, found: Found, rest: Rest) -> None:
        self._found, self._rest = found, rest
        self.close = found.close

    @property
    def errors(self) -> int:
        """Values that could not be computed so far."""
        return self._found.errors + self._rest.errors

    def __iter__(self) -> Iterator[list[Array]]:
        for piece in self._found:
            kept = self._rest.kept(piece)
            if len(kept[0]):
                yield kept


@plan_fact
def _learned_of(node: Join) -> Learned:
    """Step statistics learned by earlier joins of this plan; shared by all queries of the form."""
    return Learned()


@lru_cache
def _for_all(limits: JoinLimits) -> JoinLimits:
    """The limits of a read that wants all rows: made once, as every invocation asks."""
    return replace(limits, first=_FIRST)


class Direct:
    """The rows of a join of two sides, at least one row each; `routed`: makes the other way, if this is impossible."""

    def __init__(
        self,
        direct: DirectJoin,
        sides: Sequence[MatchedSide],
        room: Room,
        run: Runner,
        routed: Callable[[], Joined],
    ) -> None:
        self._direct, self._sides, self._room, self._run = direct, sides, room, run
        self._routed = routed
        self._other: Joined | None = None
        self._keys: list[dict[int, SideKeys]] | None = None

    @property
    def errors(self) -> int:
        """Values that could not be computed so far."""
        return 0 if self._other is None else self._other.errors

    def count(self) -> int | None:
        """The number of rows; None if they have to be found for that. Raises as `found_in`. O(rows of sides)."""
        if not self._direct.is_single:
            return None
        if (pairs := self._small_pairs()) is not None:
            return len(pairs[0])
        left, right = self._gathered()
        own, other = self._direct.keys[0].columns
        return count_by_key(left[own], right[other], self._room)

    def __iter__(self) -> Iterator[list[Array]]:
        if (pairs := self._small_pairs()) is not None:
            return iter([pairs] if len(pairs[0]) else [])
        found = self._pairs(*self._gathered())
        if found is not None:
            return found
        self._room.close()
        self._other = self._routed()
        return self._other

    def _small_pairs(self) -> list[Array] | None:
        """All pairs of small sides by an equality, as one piece; None if they are not small, or too many."""
        direct, room, sides = self._direct, self._room, self._sides
        small = direct.is_single and max(sides[0].rows, sides[1].rows) <= _SMALL and room.limits.pairs >= _LOOKED
        return _at_once(direct, sides, room) if small else None

    def _gathered(self) -> list[dict[int, SideKeys]]:
        """The keys of both sides by column, held until the rows are closed."""
        if self._keys is None:
            direct, sides = self._direct, self._sides
            left, right = direct.row_bytes
            self._room.hold(left * sides[0].rows + right * sides[1].rows, "the keys of its sides")
            keys: list[dict[int, SideKeys]] = [{}, {}]

            def gather(place: int) -> None:
                keys[place] = {column: sides[place].keys(column, kind) for column, kind in direct.read[place].items()}

            run = self._run if sides[0].rows + sides[1].rows >= SHARED else serial
            run([partial(gather, 0), partial(gather, 1)])
            self._keys = keys
        return self._keys

    def _pairs(self, left: Mapping[int, SideKeys], right: Mapping[int, SideKeys]) -> Iterator[list[Array]] | None:
        """The pairs, given the keys by column; None if they are to be found by routes."""
        direct, room, limits = self._direct, self._room, self._room.limits
        if direct.is_single:
            own, other = direct.keys[0].columns
            return pairs_by_key(left[own], right[other], direct.text, room, limits)
        if not direct.fits((left, right)):
            return None
        equal = [PairTest(left[own.columns[0]], right[own.columns[1]]) for own in direct.keys]
        near = [PairTest(left[own.columns[0]], right[own.columns[1]], band) for own, band in direct.bands]
        if not equal:
            (only,) = near
            fits = ascends(only.right)
            return pairs_by_band(only.left, only.right, only.band, direct.text, room, limits) if fits else None
        unsure = equal if len(equal) > 1 or equal[0].left.texts is not None else []
        first = together([own.left for own in equal], [own.left for own in near])
        second = together([own.right for own in equal], [own.right for own in near])
        return pairs_by_key(first, second, direct.text, room, limits, [*unsure, *near])

    def close(self) -> None:
        """Give back what it holds. Idempotent."""
        self._room.close()
        if self._other is not None:
            self._other.close()


def _at_once(direct: DirectJoin, sides: Sequence[MatchedSide], room: Room) -> list[Array] | None:
    """All pairs of small sides by an equality, as one piece; None if they are too many."""
    (key,), held = direct.keys, 20 * sides[1].rows
    room.hold(held, "a side sorted by its key")
    one, other = ((own.sources, own.stride, own.rows, own.stops) for own in (sides[0].memory, sides[1].memory))
    most = min(_FIRST, room.limits.rows)
    left, right = np.empty(most, np.int32), np.empty(most, np.int32)
    found = pair_small(key.kinds, key.columns, *one, *other, _LOOKED, left, right)
    room.give_back(held)
    if found < 0:
        return None
    room.look(found, direct.text)
    return [left[:found], right[:found]]
