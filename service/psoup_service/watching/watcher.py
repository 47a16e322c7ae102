"""A watching client: its wants with the tokens of the last messages, and the wants that may have changed.

    mark(2) mark(5) mark(2)   while its last message is on the way      {2, 5}: marks, not messages
    take()  ── before the snapshot is read ──>  places 2 and 5          a mark that comes later stays for the next time

So a client that does not read costs only its marks, and later gets one message for all changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from psoup.errors import PSoupError
from psoup_proto.v1 import sync_pb2


@dataclass(frozen=True, slots=True)
class WatchForm:
    """The terms of a client's watch: its tenant, and the form of the replies.

    `most_bytes`: the most bytes of rows in one reply. `progress_s`: the most seconds between two replies.
    """

    tenant: str
    encoding: sync_pb2.Encoding.ValueType
    compression: sync_pb2.Compression.ValueType
    most_bytes: int
    progress_s: float


@dataclass(frozen=True, slots=True)
class Taken:
    """Wants to be evaluated, by place. Places in `told` get a message even without a change."""

    places: Sequence[int]
    told: frozenset[int]


class Watcher:
    """A client that watches. It belongs to the event loop, except for the wants of taken places, which a reader reads.

    `end`: ends its call with an error, also while the client does not read.
    """

    def __init__(self, wants: Iterable[sync_pb2.Want], form: WatchForm, end: Callable[[PSoupError], None]) -> None:
        self.wants = list(wants)
        self.form = form
        self.end = end
        self.open = set(range(len(self.wants)))
        """Places of wants that have not failed."""
        self.behind = set(self.open)
        """Places of wants for which the client still lacks rows."""
        self.slow = set[int]()
        """Places of wants whose changes only an evaluation shows."""
        self.marked = asyncio.Event()
        self._dirty = dict.fromkeys(sorted(self.open))
        self._told = set(self.open)
        self.marked.set()

    @property
    def dirty(self) -> Iterable[int]:
        """The places that may have changed, in the order of their marks."""
        return self._dirty

    def mark(self, place: int, *, tell: bool = False) -> None:
        """Note that a want may have changed. `tell`: the client gets a message even if it has not."""
        if place in self.open:
            self._dirty[place] = None
            if tell:
                self._told.add(place)
            self.marked.set()

    def mark_all(self) -> None:
        """Mark all wants, so that the client gets a message about each of them."""
        for place in sorted(self.open):
            self.mark(place, tell=True)

    def take(self) -> Taken:
        """Take the marked places. To be called before the snapshot of their message is read."""
        taken = Taken([*self._dirty], frozenset(self._told))
        self._dirty = {}
        self._told = set()
        self.marked.clear()
        return taken
