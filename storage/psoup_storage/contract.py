"""The contract between the service and the store that keeps its events.

    sequencer:  prepare, make_ready, prepare, make_ready ──> append([e1, e2]) ──> acknowledge both      (group commit)
    start-up:   for event in read(): admission.replay(event); engine.apply([event])

What a caller may rely on: after `append` returns, its events come back from `read`, whole and in order; if the store is
`durable`, also after a crash. What the caller gives up: the choice of when; one thread at a time calls `append`.
What is an error: any exception of `append`. The store may then hold none, some or all of the events, and does not say
which: nothing may be acknowledged, and nothing appended, until the next start (fail-stop). ResourceExhausted is the
exception: the store holds none of the events, and the same ones may be appended again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from psoup.columns import Batch, Column
from psoup.data.archived import ArchivedChunk
from psoup.data.chunk import ChunkView
from psoup.events.events import Event
from psoup.model import StreamSpec

T = TypeVar("T")


class InTurn(Protocol):
    """Has work done when it is its turn, on any thread; returns its result, or raises what it raises."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """See the class."""
        ...


def at_once(work: Callable[[], T], /) -> T:
    """The result of `work`, done now: an `InTurn` for who has nothing to take turns with."""
    return work()


def new_incarnation() -> str:
    """A name for a new body of data: eight random hexadecimal digits."""
    return secrets.token_hex(4)


@dataclass(frozen=True, slots=True)
class Spooled:
    """Tuples that a store has before their event is decided. `columns`: the very ones of the batch; `key`: the store's
    name of them; `checksum`: of their bytes."""

    columns: tuple[Column, ...]
    key: int
    checksum: int


class Store(Protocol):
    """Keeps events in the order of their sequence."""

    @property
    def name(self) -> str:
        """The kind of store in an operator's words: `memory` or `disk`."""
        ...

    @property
    def durable(self) -> bool:
        """Whether acknowledged events survive the end of the process."""
        ...

    @property
    def incarnation(self) -> str:
        """The name of this body of data, eight hexadecimal digits: IDs on the wire are bound to it."""
        ...

    @property
    def guarded(self) -> bool:
        """Whether it had access tokens when it was opened, or ever before: nobody comes in without one from then on."""
        ...

    @property
    def sequence(self) -> int:
        """The sequence of the last event kept; 0 before the first."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes that the store occupies now, roughly."""
        ...

    def check_room(self, size: int) -> None:
        """Raise ResourceExhausted if events of about `size` bytes can be foreseen not to fit. O(1), any thread.

        Back-pressure before anything is decided: `append` itself has no way to refuse.
        """
        ...

    def spool(self, batch: Batch, pace: Callable[[], int]) -> Spooled | None:
        """Keep the tuples of a large push before its event is decided, in short writes that are done `in_turn`.

        `pace`: asked before each write how many MiB it may have; 0 gives up. The event is given to `make_ready` with
        the result before the next call, or its tuples go: no `read` finds them. None if they are few, or the store has
        no use for it, or it gave up. Raises ResourceExhausted without room; any other error of the medium is one as of
        `append`. Any thread, beside `append`, one at a time; O(bytes).
        """
        ...

    def make_ready(self, event: Event, spooled: Spooled | None = None) -> None:
        """Do the part of the next `append` of `event` that depends on its content, and keep the result until then.

        `spooled`: its tuples, if they were spooled; of no use if its columns are others. Called before the event counts
        as having happened: an exception refuses one command, and nothing has changed. So the content of an event
        cannot fail a store; only its medium can. Any thread, beside `append`; O(bytes).
        """
        ...

    def append(self, events: Sequence[Event]) -> None:
        """Keep `events`, all or none of them, and return when they are as safe as this store can make them.

        Their sequences are greater than all before, and increasing. Raises Internal if they are not or the store is
        closed, and any error of the medium; after that every further append raises too. ResourceExhausted: there
        was no room, and there may be some later.
        """
        ...

    def read(self, after: int = 0) -> Iterator[Event]:
        """The kept events with a sequence greater than `after`, in order.

        A store may leave out events that no longer have an effect (a stream and its drop), and tuples that it gives
        back as chunks with their stream's creation. It must not be appended to while an iteration is under way.
        """
        ...

    def keep(self, stream: int, spec: StreamSpec, chunk: ChunkView, oldest: int) -> ArchivedChunk | None:
        """Store a closed chunk, so that its tuples need not be replayed; see `psoup.data.chunk.Keep`.

        Only a durable store has a use for it. Raises any error of the medium, and ResourceExhausted without room:
        nothing has changed then. Any thread, beside `append`.
        """
        ...

    def share(self, in_turn: InTurn) -> None:
        """Share the disk with `append` from now on: `keep` has each of its writes done `in_turn`, at a moment at which
        no client waits for an `append` of many bytes, and the caller runs `settle` whenever the store is `due`.
        """
        ...

    @property
    def due(self) -> bool:
        """Whether there is something to settle. O(1), any thread."""
        ...

    def settle(self) -> None:
        """Move what was logged to its place, or begin to: else the log grows for ever. No event is lost without it.

        As `append`: one thread at a time, and any exception is an error of the medium. Some milliseconds at most.
        """
        ...

    def note(self, name: str, text: str, *, sync: bool = False) -> None:
        """Remember one line under a name instead of the line before; an empty text removes it. Costs microseconds.

        The note of a durable store outlives the process, and with `sync` the machine. Raises nothing: without room
        there is no note. One thread at a time for each name.
        """
        ...

    def noted(self, name: str) -> str:
        """The last note under a name, also of an earlier process; empty if there is none."""
        ...

    def close(self) -> None:
        """Release files and locks; idempotent. Appending afterwards raises Internal."""
        ...
