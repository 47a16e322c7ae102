"""The contract between the service and whatever keeps its events.

    sequencer:  prepare, make_ready, prepare, make_ready ──> append([e1, e2]) ──> acknowledge both      (group commit)
    start-up:   for event in read(): admission.replay(event); engine.apply([event])

What a caller may rely on: after `append` returns, its events come back from `read`, whole and in order, as far as the
store is `durable` also after a crash. What he gives up: the choice of when; one thread at a time calls `append`.
What is an error: any exception of `append`. The store may then hold none, some or all of the events, and says so no
further: nothing may be acknowledged, and nothing appended, until the next start (fail-stop). ResourceExhausted alone
is none: the store holds none of the events, and the same ones may be appended again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from psoup.data.archived import ArchivedChunk
from psoup.data.chunk import ChunkView
from psoup.events.events import Event
from psoup.model import StreamSpec


def new_incarnation() -> str:
    """A name for a new body of data: eight random hexadecimal digits."""
    return secrets.token_hex(4)


class Store(Protocol):
    """Keeps events in the order of their sequence."""

    @property
    def name(self) -> str:
        """What an operator calls it, as in `memory`."""
        ...

    @property
    def durable(self) -> bool:
        """Whether acknowledged events survive the end of the process."""
        ...

    @property
    def incarnation(self) -> str:
        """A name for this body of data, eight hexadecimal digits: IDs on the wire are bound to it."""
        ...

    @property
    def sequence(self) -> int:
        """The sequence of the last event kept; 0 before the first."""
        ...

    @property
    def bytes(self) -> int:
        """Bytes it occupies now, roughly."""
        ...

    def check_room(self, size: int) -> None:
        """Raise ResourceExhausted if events of about `size` bytes can be foreseen not to fit. O(1), any thread.

        Back-pressure before anything is decided: `append` itself has no way to refuse.
        """
        ...

    def make_ready(self, event: Event) -> None:
        """Do all of the next `append` of `event` that depends on what is in it, and keep that until then.

        Called before the event counts as having happened: whatever this raises refuses one command, and nothing has
        changed. So an event cannot fail a store; only its medium can. Any thread, beside `append`; O(bytes).
        """
        ...

    def append(self, events: Sequence[Event]) -> None:
        """Keep `events`, all or none of them, and return when they are as safe as this store can make them.

        Their sequences are greater than all before, and increasing. Raises Internal if they are not or the store is
        closed, and whatever the medium raises; after that every further append raises too. ResourceExhausted: there
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

        Only a durable store has a use for it. Raises whatever the medium raises, and ResourceExhausted without room:
        nothing has changed then. Any thread, beside `append`.
        """
        ...

    def share(self, pause: Callable[[], AbstractContextManager[None]]) -> None:
        """From now on what `keep` writes is written in a `pause` each, a context in which nobody waits for an `append`
        of many bytes; and what is put off is done by `settle`, when it is `due`.
        """
        ...

    @property
    def due(self) -> bool:
        """Whether there is something to settle. O(1), any thread."""
        ...

    def settle(self) -> None:
        """Put in its place what was logged, so that the log does not grow for ever; no event is lost without it.

        As `append`: one thread at a time, and whatever it raises is an error of the medium. Some milliseconds.
        """
        ...

    def note(self, name: str, text: str) -> None:
        """Remember one line under a name, in the place of the one before; empty for none. Costs microseconds.

        It outlives the process where the store is durable, and not always the machine. Raises nothing: without room
        there is no note. One thread at a time for each name.
        """
        ...

    def noted(self, name: str) -> str:
        """What was noted last under a name, also by an earlier process; empty if nothing was."""
        ...

    def close(self) -> None:
        """Release what is held; idempotent. Appending afterwards raises Internal."""
        ...
