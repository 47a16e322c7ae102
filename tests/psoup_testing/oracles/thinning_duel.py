"""A duel in which any closed chunk may be thinned at any time: answers over the rows that are left.

    Thin(place, share, seed)    a chunk keeps about `share` percent of its rows; the model forgets the others

A tuple that has left keeps its ID, so positions in the model are no longer tuple IDs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from psoup.errors import NotFound, OutOfRange
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.local import LocalPSoup
from psoup.values.columns import Array
from psoup_testing.histories.expressions import Maker
from psoup_testing.histories.histories import Action
from psoup_testing.oracles.duel import Duel
from psoup_testing.oracles.groups import GroupedDuel
from psoup_testing.oracles.model import Row

_PUSHES = 4
"""The number of latest pushes whose tuple IDs are compared."""

Entry = tuple[int, int, int, Row]


@dataclass(frozen=True, slots=True)
class Thin:
    """A thinning. `place` from 0 to 999 picks one of the closed chunks; `share`: the percent of its rows that stays."""

    place: int
    share: int
    seed: int


def draw_thinning(make: Maker) -> Thin:
    """A thinning of any chunk, to any share of its rows, often to none."""
    return Thin(make.number(0, 999), make.pick((0, 1, 10, 25, 60, 95)), make.number(0, 1 << 16))


def with_thinnings(make: Maker, actions: list[Any]) -> list[Any]:
    """The actions with thinnings among them."""
    more = list[Any]()
    for action in actions:
        more.append(action)
        more += [draw_thinning(make) for _ in range(make.pick((0, 0, 1, 2)))]
    return more


def thin_chunk(psoup: LocalPSoup, stream: str, number: int, rows: Array) -> bool:
    """Leave a closed chunk only the rows at some positions. False if the chunk is gone, not sealed, or not stored."""
    view = psoup.engine.snapshot().stream(stream, psoup.tenant)
    task = psoup.engine.thin(view.stream_id, number, rows)
    if task is not None:
        psoup.admission.give_back(psoup.engine.install(task.compute()))
    return task is not None


class ThinningDuel(Duel):
    """A duel in which chunks are thinned. `thinned`: the number of chunks that lost rows."""

    before_edge = (OutOfRange, NotFound)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.thinned = 0
        self._left: list[Entry] = []
        """The released tuples that have left their chunks."""
        self._ids: list[int] = []

    def act(self, action: Action | Thin) -> None:
        """Do one action on both sides."""
        if isinstance(action, Thin):
            self.thin(action)
        else:
            super().act(action)

    def thin(self, action: Thin) -> None:
        """Thin a closed chunk, and let the model forget the same tuples."""
        name, snapshot = self.declaration.name, self.psoup.engine.snapshot()
        closed = snapshot.stream(name, self.psoup.tenant).chunks[:-1]
        if not closed:
            return
        chunk, source = closed[action.place * len(closed) // 1000].data, random.Random(action.seed)
        stays = [source.randrange(100) < action.share for _ in range(len(chunk))]
        ids = set(chunk.ids_of(0, len(chunk))[~np.array(stays, np.bool_)].tolist())
        released = self.released()
        if all(stays) or not thin_chunk(self.psoup, name, chunk.number, np.flatnonzero(stays)):
            return
        gone = [entry for position, entry in enumerate(released) if self.tuple_id(position) in ids]
        self._left += gone
        names = {entry[:3] for entry in gone}
        self.model.accepted = [entry for entry in self.model.accepted if entry[:3] not in names]
        self.thinned += 1
        for tuple_id in sorted(ids)[:2]:
            try:
                self.psoup.matches(name, tuple_id)
            except (NotFound, OutOfRange):
                continue
            raise AssertionError(f"tuple {tuple_id} has left, and has matches")

    def released(self) -> list[Entry]:
        """The released tuples that are left, with the IDs of all in `_ids`."""
        released = super().released()
        names = {entry[:3] for entry in released}
        every = sorted([*released, *self._left], key=lambda entry: entry[:3])
        self._ids = [place - self.history for place, entry in enumerate(every) if entry[:3] in names]
        return released

    def tuple_id(self, position: int) -> int:
        """The tuple ID of a released tuple that is left."""
        return self._ids[position]

    def _compare_ids(self, acknowledgement: PushAcknowledgement) -> None:
        """Check the tuple IDs of the latest pushes that have lost no tuple."""
        self.model.acknowledged = [*self.model.acknowledged, (self.model.pushes, acknowledgement)][-_PUSHES:]
        ids_of = {entry[1:3]: self.tuple_id(place) for place, entry in enumerate(self.released())}
        lost = {entry[1] for entry in self._left}
        for number, pushed in self.model.acknowledged:
            mine = sorted(entry[1:3] for entry in self.model.accepted if entry[1] == number)
            try:
                ids = self.psoup.tuple_ids(self.declaration.name, pushed)
            except OutOfRange:
                assert number in lost or self.forgets or self._is_archived(ids_of, mine)
                continue
            if number not in lost:
                assert list(ids) == [ids_of.get(row) for row in mine], f"push {number}: {ids}"

    def _is_archived(self, ids_of: dict[tuple[int, int], int], rows: list[tuple[int, int]]) -> bool:
        hot = self.psoup.engine.snapshot().stream(self.declaration.name, self.psoup.tenant).hot_id
        return any(ids_of.get(row, hot) < hot for row in rows)


class ThinningGroups(ThinningDuel, GroupedDuel):
    """A duel with aggregates in which chunks are thinned."""
