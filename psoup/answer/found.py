"""The way in which the rows of a join are found: directly for the common join, else by routes.

    r.k = s.k, both plain columns of one kind    keys gathered from the chunks, one step     psoup.joins.two
    anything else                                operands computed, the eddy                 psoup.joins.joined

Both give the same rows. What is common is decided once for each plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from psoup.answer.join_sides import MatchedSide
from psoup.answer.source_rows import Reading
from psoup.columns import Array
from psoup.expressions.conversion import comparable
from psoup.expressions.tree import ID_INDEX, AttributeRef, Expr
from psoup.joins.joined import joined
from psoup.joins.room import Room
from psoup.joins.two import SideKeys, pairs_by_key
from psoup.kernels.gather import NARROW, NUMBER, WIDE
from psoup.kernels.joined import FLOAT
from psoup.model import Kind
from psoup.plan.nodes import Join, names_of
from psoup.runner import Runner, serial

_FIRST = 8_192
"""Rows that are given out at first at most, if all are wanted: each piece costs some 20 us beside its rows."""
_SHARED = 50_000
"""Rows of both sides from which on their keys are gathered on two threads: some 150 us each."""
_REMEMBERED = 1_024
_FORMS = {Kind.BIGINT: WIDE, Kind.TIMESTAMP: WIDE, Kind.DECIMAL: WIDE, Kind.DATE: NARROW, Kind.DOUBLE: FLOAT}
"""The kinds of keys that are gathered directly, as `gather_keys` wants them."""


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
    limits = reading.joins if few else replace(reading.joins, first=_FIRST)
    key = direct_key(node)
    if key is not None and sides[0].in_memory and sides[1].in_memory:
        return Direct(key, sides, Room(limits, reading.budget), reading.run)
    return joined(node, sides, now=reading.now, texts=reading.texts, budget=reading.budget, limits=limits)


@dataclass(frozen=True, slots=True)
class DirectKey:
    """The equality of two columns: their places in the schemas, their kind for `gather_keys`, and its text."""

    columns: tuple[int, int]
    kinds: tuple[int, int]
    text: str


class Direct:
    """The rows of a join of two sides, at least one row each, by one equality of columns."""

    errors = 0

    def __init__(self, key: DirectKey, sides: Sequence[MatchedSide], room: Room, run: Runner) -> None:
        self._key, self._sides, self._room, self._run = key, sides, room, run

    def __iter__(self) -> Iterator[list[Array]]:
        key, room, (left, right) = self._key, self._room, self._sides
        room.hold(12 * (left.rows + right.rows), "the keys of its sides")
        keys = dict[int, SideKeys]()

        def gather(place: int) -> None:
            keys[place] = self._sides[place].keys(key.columns[place], key.kinds[place])

        run = self._run if left.rows + right.rows >= _SHARED else serial
        run([partial(gather, 0), partial(gather, 1)])
        return pairs_by_key(keys[0], keys[1], key.text, room, room.limits)

    def close(self) -> None:
        """Give back what it holds. Idempotent."""
        self._room.close()


def direct_key(node: Join) -> DirectKey | None:
    """The equality of a join that is of two sources and has no other factor; None of other joins. O(1) if known."""
    known_key = _keys.get(id(node))
    if known_key is None:
        if len(_keys) >= _REMEMBERED:
            _keys.clear()
        known_key = _keys[id(node)] = node, _direct_key(node)
    return known_key[1]


_keys: dict[int, tuple[Join, DirectKey | None]] = {}
"""Keys by the identity of the node, not used again while it is here."""


def _direct_key(node: Join) -> DirectKey | None:
    if len(node.inputs) != 2 or len(node.keys) != 1 or node.bands or node.rest:
        return None
    (factor,) = node.keys
    left, right = comparable(factor.left, factor.right)
    first, second = (left, right) if factor.sources == (0, 1) else (right, left)
    same = first.type.kind is second.type.kind and first.type.scale == second.type.scale
    if not (same and isinstance(first, AttributeRef) and isinstance(second, AttributeRef)):
        return None
    kinds = _kind(first), _kind(second)
    if None in kinds:
        return None
    return DirectKey((first.index, second.index), (kinds[0] or 0, kinds[1] or 0), factor.text(names_of(node)))


def _kind(column: Expr) -> int | None:
    if isinstance(column, AttributeRef) and column.index == ID_INDEX:
        return NUMBER
    return _FORMS.get(column.type.kind)
