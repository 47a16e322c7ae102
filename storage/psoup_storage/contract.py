"""The contract between the service and the store that keeps its events.

    sequencer:  prepare, make_ready, prepare, make_ready ──> append([e1, e2]) ──> acknowledge both      (group commit)
    start-up:   for event in read(): admission.replay(event); engine.apply([event])

Guarantee: after `append` returns, its events come back from `read`, whole and in order; if the store is `durable`, also
after a crash. Duty of the caller: one thread at a time calls `append`.

Errors: after any exception of `append` the store may hold none, some or all of the events. Then no event may be
acknowledged or appended until the next start (fail-stop). ResourceExhausted is different: the store holds none of the
events, and they may be appended again. So is Unavailable: the copy of the events is too far behind.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.chunk import ChunkView
from psoup.events.events import Event
from psoup.model import StreamSpec
from psoup.published.parked_queries import Registrations
from psoup.values.columns import Batch, Column

T = TypeVar("T")


class InTurn(Protocol):
    """Runs work in its turn at the disk, perhaps on another thread. Returns its result, or raises its error."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """See the class."""
        ...


def at_once(work: Callable[[], T], /) -> T:
    """Run `work` now and return its result: the `InTurn` of a store that does not share its disk yet."""
    return work()


def new_incarnation() -> str:
    """A name for the incarnation of new data: eight random hexadecimal digits."""
    return secrets.token_hex(4)


class CopyGate:
    """Whether the copy of a store's events lets them be acknowledged. This class is the gate of a store without a copy:
    it is always open.
    """

    most_s = math.inf
    """The most seconds that the copy may be behind; infinite without a limit."""

    def reason(self) -> str:
        """The reason why nothing may be acknowledged at present; "" if events may. O(1), any thread."""
        return ""

    def check(self) -> None:
        """Raise Unavailable while nothing may be acknowledged. O(1), any thread.

        The sequencer refuses every command then, also those that make room.
        """

    def begin(self, check: Callable[[], None]) -> None:
        """Return once all events of an earlier process may be shown. Called after the replay, before the first command.

        `check` is called again and again, and raises to give up. Raises the error of a copy that has stopped.
        """

    def passed(self, sequence: int, seconds: float) -> bool:
        """Whether the events up to `sequence`, which are stored, may be acknowledged and applied.

        Waits for it for up to `seconds`. Any thread.
        """
        return True

    def acknowledged(self, sequence: int) -> int:
        """The last event that may be acknowledged, of the stored ones up to `sequence`. Any thread."""
        return sequence


NO_COPY = CopyGate()
"""The gate of a store without a copy. It lets all events pass."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """Tuples that a store has written before their event is decided.

    `columns`: the column objects of the batch. `key`: the store's name for the tuples. `checksum`: CRC-32 of their
    bytes.
    """

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
    def follows(self) -> bool:
        """Whether the events come from the copy of another service, and never from a command of this one."""
        ...

    @property
    def incarnation(self) -> str:
        """The name of this incarnation of the data, eight hexadecimal digits. IDs on the wire contain it."""
        ...

    @property
    def promotion(self) -> int:
        """The number of the standby's promotion after which this store writes; 0 without one.

        IDs are given from a range of their own after each promotion.
        """
        ...

    @property
    def guarded(self) -> bool:
        """Whether the store has, or ever had, access tokens when it was opened. From then on every caller needs one."""
        ...

    @property
    def sequence(self) -> int:
        """The sequence of the last event kept; 0 before the first."""
        ...

    @property
    def registrations(self) -> Registrations:
        """The kept events, as the place where parked queries are read."""
        ...

    @property
    def bytes(self) -> int:
        """The approximate bytes that the store occupies now."""
        ...

    @property
    def wal_bytes(self) -> int:
        """The bytes of the write-ahead log's file; 0 without one. Any thread."""
        ...

    def check_room(self, size: int) -> None:
        """Raise ResourceExhausted if the store expects no room for events of about `size` bytes. O(1), any thread.

        The sequencer refuses a command before it prepares it. Prepared events cannot be refused any more.
        """
        ...

    @property
    def copy_gate(self) -> CopyGate:
        """Whether the copy of the events lets them be acknowledged."""
        ...

    def shortage(self) -> str:
        """The reason why the store takes no events now: no room, or the copy; "" if it takes them. O(1), any thread."""
        ...

    def disk_shortage(self) -> str:
        """The reason why the disk has no room for events now; "" if it has. O(1), any thread."""
        ...

    def spool(self, batch: Batch, pace: Callable[[], int]) -> Spooled | None:
        """Store the tuples of a large push before its event is decided, in short writes that are done `in_turn`.

        `pace`: called before each write for its size in MiB; 0 gives up. The caller passes the result and the event to
        `make_ready` before it spools again. Otherwise the store drops the tuples, and no `read` finds them. Returns
        None for few tuples, for a store that does not spool, or after giving up. Raises ResourceExhausted without room;
        any other error is an error of the medium, as in `append`. Any thread, one at a time, also during `append`;
        O(bytes).
        """
        ...

    def make_ready(self, event: Event, spooled: Spooled | None = None) -> None:
        """Encode `event` for a later `append`, and keep the result until then.

        `spooled`: its tuples, if they were spooled; ignored if the columns have changed since. Called before the event
        counts: an exception refuses one command, without any change. So `append` cannot fail because of an event's
        content, only because of the medium. Any thread, also during `append`; O(bytes).
        """
        ...

    def append(self, events: Sequence[Event]) -> None:
        """Store all `events` or none, and return when they are as safe as this store can make them.

        Their sequences must increase, and be greater than all earlier ones. Otherwise, and in a closed store, raises
        Internal. Raises any error of the medium; then every later append raises, too. Raises ResourceExhausted without
        room, and Unavailable as `CopyGate.check`; the call may be repeated later.
        """
        ...

    def read(self, after: int = 0) -> Iterator[Event]:
        """The kept events with a sequence greater than `after`, in order.

        A store may leave out events without an effect, such as a stream and its drop. It may return tuples as chunks,
        with their stream's creation. `append` must not be called during an iteration.
        """
        ...

    def keep(self, stream: int, spec: StreamSpec, chunk: ChunkView, oldest: int) -> ArchivedChunk | None:
        """Store a closed chunk, so that its tuples need not be replayed; see `psoup.data.chunk.Keep`.

        Only a durable store has a use for it. Raises any error of the medium, and ResourceExhausted without room:
        nothing has changed then. Any thread, also during `append`.
        """
        ...

    def thin(self, stream: int, spec: StreamSpec, chunk: ChunkView) -> ArchivedChunk | None:
        """Replace the file of a stored chunk by the rows that are left; see `psoup.data.chunk.Thin`.

        Raises as `keep`. Any thread, also during `append` and `keep`.
        """
        ...

    def share(self, in_turn: InTurn) -> None:
        """Share the disk with `append` from now on: the store passes each write of `keep` and `spool` to `in_turn`.

        The caller runs these writes in the turn of a large push, and runs `settle` whenever the store is `due`.
        """
        ...

    @property
    def due(self) -> bool:
        """Whether `settle` has work to do. O(1), any thread."""
        ...

    def settle(self) -> None:
        """Do a part of the postponed work: checkpoint the write-ahead log, or remove rows that were forgotten.

        Without these calls the files grow for ever, but no event is lost.

        Like `append`, it is called by one thread at a time, and any exception is an error of the medium. Takes at most
        some milliseconds.
        """
        ...

    def note(self, name: str, text: str, *, sync: bool = False) -> None:
        """Store one line under a name, replacing the previous one; an empty text removes it. Takes microseconds.

        The note of a durable store survives the process, and with `sync` a power cut. Raises nothing; without room
        there is no note. One thread at a time for each name.
        """
        ...

    def noted(self, name: str) -> str:
        """The last note under a name, also of an earlier process; empty if there is none."""
        ...

    def close(self) -> None:
        """Release files and locks; idempotent. Appending afterwards raises Internal."""
        ...
