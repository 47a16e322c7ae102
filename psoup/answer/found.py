"""The way in which the rows of a join are found: directly for the common join, else by routes.

    r.k = s.k, s.t BETWEEN r.t - 5 AND r.t     keys gathered from the chunks, one step     psoup.joins.two
    anything else                              operands computed, the eddy                 psoup.joins.joined

Both give the same rows. What is common is decided once for each plan (`psoup.answer.direct`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Protocol

from psoup.answer.direct import DirectJoin, direct_join
from psoup.answer.join_sides import MatchedSide
from psoup.answer.source_rows import Reading
from psoup.columns import Array
from psoup.config import JoinLimits
from psoup.joins.joined import Joined, joined
from psoup.joins.room import Room
from psoup.joins.two import SideKeys, pairs_by_band, pairs_by_key
from psoup.plan.nodes import Join
from psoup.runner import Runner, serial

_FIRST = 8_192
"""Rows that are given out at first at most, if all are wanted: each piece costs some 20 us beside its rows."""
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
    limits = reading.joins if few else _for_all(reading.joins)
    routed = partial(joined, node, sides, now=reading.now, texts=reading.texts, budget=reading.budget, limits=limits)
    direct = direct_join(node)
    if direct is not None and sides[0].in_memory and sides[1].in_memory:
        return Direct(direct, sides, Room(limits, reading.budget), reading.run, routed)
    return routed()


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

    @property
    def errors(self) -> int:
        """Values that could not be computed so far."""
        return 0 if self._other is None else self._other.errors

    def __iter__(self) -> Iterator[list[Array]]:
        direct, room, sides = self._direct, self._room, self._sides
        room.hold(12 * (sides[0].rows + sides[1].rows), "the keys of its sides")
        keys = dict[int, SideKeys]()

        def gather(place: int) -> None:
            keys[place] = sides[place].keys(direct.columns[place], direct.kinds[place])

        run = self._run if sides[0].rows + sides[1].rows >= SHARED else serial
        run([partial(gather, 0), partial(gather, 1)])
        if direct.band is None:
            return pairs_by_key(keys[0], keys[1], direct.text, room, room.limits)
        if direct.fits(keys) and direct.band.fits(keys[0], keys[1]):
            return pairs_by_band(keys[0], keys[1], direct.band, direct.text, room, room.limits)
        room.close()
        self._other = self._routed()
        return self._other

    def close(self) -> None:
        """Give back what it holds. Idempotent."""
        self._room.close()
        if self._other is not None:
            self._other.close()
