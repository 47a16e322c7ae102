"""The catalog of admission: the state of each tenant, with its streams by name and its calls by request ID.

    tenant ── name (any case) ── KnownStream ── definition, watermark, producers, past
       └──── request ID ──────── the queries that it registered (`requests`)

This module has only the data. `psoup.admission.admission` decides on changes, and makes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from psoup.admission.attachment import Past
from psoup.admission.queries.known_removals import KnownRemovals
from psoup.admission.queries.requests import KnownRequests
from psoup.admission.rows.patch_room import PatchRoom
from psoup.admission.rows.producers import Producers
from psoup.data.stored_chunk import Stored
from psoup.errors import FailedPrecondition, NotFound
from psoup.events.events import Attached, Pushed, WatermarkRaised
from psoup.events.tenants import Quotas
from psoup.model import StreamSpec
from psoup.published.departures import Succession, WhyGone
from psoup.published.selection import Published
from psoup.sql import PreparedStatement
from psoup.sql.source import nearest
from psoup.sql.templates.forms import Forms
from psoup.values.columns import Batch

_NAMES_COMPARED = 256
"""The most names that are compared for a suggestion, so that a misspelled name costs little with many streams."""


@dataclass(slots=True)
class KnownStream:
    """The state of a stream on which decisions depend. `watermark`, `live`: see `psoup.events.Pushed`."""

    tenant: str
    stream_id: int
    spec: StreamSpec
    sql: str
    producers: Producers
    watermark: int | None = None
    past: Past = field(default_factory=Past)
    live: bool = False
    patches: PatchRoom = field(default_factory=PatchRoom)
    closed: int | None = None
    """The greatest instant that a pump has closed here, or was promised. No later tuple may have this time."""
    attached_at: int = 0
    """The sequence of the last event that attached history. 0 if there was none since the start."""

    @property
    def least_stamp(self) -> int | None:
        """The least time that a tuple of the stream may get from the clock. None if it may be any."""
        if self.closed is None:
            return self.watermark
        return self.closed + 1 if self.watermark is None else max(self.watermark, self.closed + 1)

    def close(self, instant: int) -> None:
        """Let no later tuple have the time `instant` or an earlier one."""
        self.closed = instant if self.closed is None else max(self.closed, instant)

    def next_id(self, published: Callable[[], Published]) -> int:
        """The ID of the next tuple of the stream, as of the last prepared event."""
        if not self.spec.event_time:
            return self.past.tuples
        return self.past.tuples - self.past.recent.waiting(self.stream_id, self.watermark, published)

    def restored(self, stored: Stored | None) -> None:
        """Load the state from the part of the stream that the store has. O(chunks), and O(rows) for a table."""
        self.past.restored(stored)
        if self.spec.table is not None:
            self.patches.restored(stored)

    def room_of_patches(self, batch: Batch, given: tuple[int, ...], used: int) -> int:
        """The bytes to reserve for the texts that patches keep; 0 for a stream. See `PatchRoom.needed`."""
        return 0 if self.spec.table is None else self.patches.needed(self.spec, batch, given, used)

    def pushed(self, event: Pushed) -> None:
        """Adopt a push, without its producer."""
        self.watermark, self.live = event.watermark, event.live
        self.past.pushed(event)
        if self.spec.table is not None:
            self.patches.pushed(self.spec, event)

    def raised(self, event: WatermarkRaised) -> None:
        """Adopt a heartbeat."""
        self.watermark, self.live = event.watermark, event.live
        self.patches.raised(event.watermark)

    def attached(self, event: Attached) -> None:
        """Adopt attached history."""
        self.watermark, self.attached_at = event.watermark, event.sequence
        self.past.attached(event)

    def record(self, event: Pushed, use: QuotaUse) -> int:
        """Record a producer's batch, and count a new producer in its tenant's `use`. Returns the bytes that it adds."""
        nbytes, count = self.producers.nbytes, len(self.producers)
        self.producers.record(event)
        use.producers += len(self.producers) - count
        return self.producers.nbytes - nbytes


def refuse_derived(
    spec: StreamSpec, change: str, way: str = "change its sources, or create a stream without AS"
) -> None:
    """Raise FailedPrecondition, reason DERIVED, if a stream is derived. `change`: the refused change, in words.

    `way`: what to do instead.
    """
    if spec.derived is not None:
        raise FailedPrecondition(
            f"stream {spec.name!r} is derived by the service, which alone adds its rows: {change} is refused; {way}",
            reason="DERIVED",
            stream=spec.name,
        )


@dataclass(slots=True)
class Statements:
    """The cached statements of a tenant. Each thread that binds has its own cache."""

    templates: dict[str, PreparedStatement] = field(default_factory=dict)
    """Prepared statements by their text, the least recently used first. A statement refers to its streams."""
    forms: Forms = field(default_factory=Forms)


@dataclass(slots=True)
class QuotaUse:
    """A tenant's present use of its quotas, after the last prepared event."""

    queries: int = 0
    query_bytes: int = 0
    producers: int = 0
    most: int = 0
    """An upper bound of the bytes of tuples: their sum at the last count, plus all bytes accepted since."""
    judged: Quotas | None = None
    """The quotas at the last count of tuple bytes. If the quotas differ now, the count is outdated."""
    on_disk: int = 0
    looked: int | None = None
    """The sequence of the event at which `on_disk` was counted."""
    coming: deque[tuple[int, int]] = field(default_factory=deque)
    """The sequences and bytes of accepted pushes that the writer may not have published. Empty without a quota."""


@dataclass(slots=True)
class KnownTenant:
    """The streams of one tenant by lower-case name, and its registrations by request ID."""

    streams: dict[str, KnownStream] = field(default_factory=dict)
    requests: KnownRequests = field(default_factory=KnownRequests)
    removals: KnownRemovals = field(default_factory=KnownRemovals)
    statements: Statements = field(default_factory=Statements)
    statements_beside: Statements = field(default_factory=Statements)
    """The cached statements of the binder's thread."""
    replaced: Succession = field(default_factory=Succession)
    use: QuotaUse = field(default_factory=QuotaUse)

    def find(self, name: str) -> KnownStream | None:
        """The stream of this name, in any case. O(1)."""
        return self.streams.get(name.lower())

    def spec(self, name: str) -> StreamSpec | None:
        """The definition of the stream of this name, in any case. None if there is none."""
        state = self.find(name)
        return None if state is None else state.spec

    def stream(self, name: str) -> KnownStream:
        """The stream of this name, in any case. Raises NotFound, with the most similar name."""
        state = self.find(name)
        if state is None:
            hint = nearest(name, self.names()) or "create it with CREATE STREAM or CREATE TABLE"
            raise NotFound(
                f"there is no stream or table {name[:256]!r}; {hint}", reason="UNKNOWN_STREAM", stream=name[:256]
            )
        return state

    def writable(self, name: str, change: str) -> KnownStream:
        """The stream of this name, as `stream`. Raises FailedPrecondition, reason DERIVED, for a derived stream."""
        state = self.stream(name)
        refuse_derived(state.spec, change)
        return state

    def no_query(self, query_id: int) -> NotFound:
        """The error for a query that is not registered. If another query replaced it, the error names that query."""
        return WhyGone(self.replaced.freeze()).error(query_id)

    def names(self) -> list[str]:
        """The names of at most `_NAMES_COMPARED` streams, for suggestions."""
        states = list(self.streams.values())  # one atomic step, as another thread may add or remove streams
        return [state.spec.name for state in states[:_NAMES_COMPARED]]
