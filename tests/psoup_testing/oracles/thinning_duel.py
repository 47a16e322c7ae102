"""A duel in which any closed chunk may be thinned at any time: answers over the rows that are left.

    Thin(place, share, seed)    a chunk keeps about `share` percent of its rows; the model forgets the rest

A tuple that has left keeps its ID, so a position in the model is not a tuple ID.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from psoup.errors import NotFound, OutOfRange
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.local import LocalPSoup
from psoup.values.columns import Array
from psoup_testing.histories.expressions import Maker
from psoup_testing.histories.histories import Action
from psoup_testing.oracles.duel import Duel
from psoup_testing.oracles.groups import GroupedDuel
from psoup_testing.oracles.join_duel import JoinDuel
from psoup_testing.oracles.model import Entry, ModelStream

_MORE = 6
"""The pushes of a step of joins: enough that chunks of 64 rows close."""
_PUSHES = 4
"""The number of latest pushes whose tuple IDs are compared."""


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


class LeftTuples:
    """The tuples of a stream that have left their chunks, as the model does not know them any more."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    @property
    def pushes(self) -> set[int]:
        """The numbers of the pushes that have lost tuples."""
        return {entry[1] for entry in self._entries}

    def ids(self, released: Sequence[Entry], history: int) -> list[int]:
        """The tuple IDs of the released tuples that are left. `history`: the number of attached tuples."""
        names = {entry[:3] for entry in released}
        every = sorted([*released, *self._entries], key=lambda entry: entry[:3])
        return [place - history for place, entry in enumerate(every) if entry[:3] in names]

    def leave(self, model: ModelStream, ids: set[int], ids_of: Sequence[int], first_id: int) -> None:
        """Let the model forget the tuples with some IDs, and those that retention has dropped before a thinning.

        `ids_of`: the tuple IDs of the released tuples. `first_id`: the oldest one whose chunk is kept.
        """
        pairs = [*zip(ids_of, model.released(), strict=True)]
        model.dropped_times += [entry[0] for tuple_id, entry in pairs if tuple_id < first_id]
        gone = [entry for tuple_id, entry in pairs if tuple_id in ids or tuple_id < first_id]
        self._entries += gone
        names = {entry[:3] for entry in gone}
        model.accepted = [entry for entry in model.accepted if entry[:3] not in names]


def thin_any(psoup: LocalPSoup, stream: str, action: Thin) -> set[int]:
    """Thin a closed chunk of a stream. Returns the IDs of the tuples that have left."""
    closed = psoup.engine.snapshot().stream(stream, psoup.tenant).chunks[:-1]
    if not closed:
        return set()
    chunk, source = closed[action.place * len(closed) // 1000].data, random.Random(action.seed)
    stays = np.array([source.randrange(100) < action.share for _ in range(len(chunk))], np.bool_)
    if stays.all() or not thin_chunk(psoup, stream, chunk.number, np.flatnonzero(stays)):
        return set()
    return set(chunk.ids_of(0, len(chunk))[~stays].tolist())


class ThinningDuel(Duel):
    """A duel in which chunks are thinned. `thinned`: the number of chunks that lost rows."""

    before_edge = (OutOfRange, NotFound)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.thinned = 0
        self._left = LeftTuples()
        self._ids: list[int] = []

    def act(self, action: Action | Thin) -> None:
        """Do one action on both sides."""
        if isinstance(action, Thin):
            self.thin(action)
        else:
            super().act(action)

    def thin(self, action: Thin) -> None:
        """Thin a closed chunk, and let the model forget the same tuples."""
        if action.seed % 4:  # mostly, as only sealed chunks are thinned
            self.psoup.maintain()
        name, released = self.declaration.name, self.released()
        ids = thin_any(self.psoup, name, action)
        first_id = self.psoup.engine.snapshot().stream(name, self.psoup.tenant).first_id
        self._left.leave(self.model, ids, [self.tuple_id(at) for at in range(len(released))], first_id)
        self.thinned += len(ids) > 0
        for tuple_id in sorted(ids)[:2]:
            with pytest.raises((NotFound, OutOfRange)):
                self.psoup.matches(name, tuple_id)

    def released(self) -> list[Entry]:
        """The released tuples that are left, with the IDs of all in `_ids`."""
        released = super().released()
        self._ids = self._left.ids(released, self.history)
        return released

    def tuple_id(self, position: int) -> int:
        """The tuple ID of a released tuple that is left."""
        return self._ids[position]

    def _compare_ids(self, acknowledgement: PushAcknowledgement) -> None:
        """Check the tuple IDs of the latest pushes that have lost no tuple."""
        self.model.acknowledged = [*self.model.acknowledged, (self.model.pushes, acknowledgement)][-_PUSHES:]
        ids_of = {entry[1:3]: self.tuple_id(place) for place, entry in enumerate(self.released())}
        lost = self._left.pushes
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


class ThinningJoins(JoinDuel):
    """A duel of joins in which chunks are thinned. `thinned`: the number of chunks that lost rows."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self._left = defaultdict[int, LeftTuples](LeftTuples)
        self.thinned = 0
        super().__init__(*given, **named)

    def _push(self) -> None:
        for _ in range(_MORE):
            super()._push()

    def _other(self) -> None:
        """Another step, or some chunks lose rows."""
        if self.make.likely(25):
            super()._other()
            return
        self.soup.maintain()
        for number, model in enumerate(self.models):
            action = Thin(self.make.number(0, 999), self.make.pick((0, 10, 25, 60)), self.make.number(0, 1 << 16))
            before, ids = self._ids(number, model.released()), thin_any(self.soup, f"s{number}", action)
            first_id = self.soup.engine.snapshot().stream(f"s{number}", self.soup.tenant).first_id
            self._left[number].leave(model, ids, before, first_id)
            self.thinned += len(ids) > 0
            self._load(number)
        self._compare_all()

    def _ids(self, number: int, entries: Sequence[Entry]) -> Sequence[int]:
        return self._left[number].ids(entries, self.history[number])
