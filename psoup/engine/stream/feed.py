"""The feed of one stream: the accepted tuples that are not released yet, and the times of refused tuples.

    take(push) ──> event time:  reorder buffer ──release: tuples up to the watermark────> the open chunk
               │   system time: ready ─────────release: all, as one batch─────────────────┘
               └─> watermark; times of tuples that were refused: late, or ahead of the watermark

The feed knows neither chunks nor clauses.
"""

from __future__ import annotations

from psoup.config import Shape
from psoup.data.arrivals import Arrivals, ArrivalView
from psoup.data.data_stem import ReorderBuffer
from psoup.data.patches import PatchRows, WaitingPatches
from psoup.data.refusals import Refusals, RefusedTimes
from psoup.data.stored_chunk import Stored
from psoup.engine.stream.attention import Attention
from psoup.events.events import Attached, Pushed, WatermarkRaised
from psoup.invariants import ensure
from psoup.model import Schema, StreamSpec
from psoup.values.columns import Array, Batch, concat_batches


class StreamFeed:
    """The feed of one stream; see the module."""

    def __init__(
        self, attention: Attention, *, spec: StreamSpec, stored: Stored | None, shape: Shape = Shape()
    ) -> None:
        self._attention = attention
        self._event_time = spec.event_time
        self._timed = spec.time_attribute
        self._pending = ReorderBuffer(shape)
        self._ready: list[Batch] = []
        self._arrivals = Arrivals()
        self._patches = WaitingPatches()
        self.patches: list[PatchRows] = []
        """The patches among the tuples of the last `release`. Empty for a stream."""
        self._ready_first = 0
        self._watermark: int | None = None
        self._heard: int | None = None
        self._live = False
        self._late = Refusals()
        self._ahead = Refusals()
        if stored is not None:
            self._late = Refusals(stored.late, stored.reached)
            self._ahead = Refusals(stored.ahead)

    def take(self, event: Pushed | WatermarkRaised | Attached) -> None:
        """Take the tuples and the watermark of an event, without releasing tuples."""
        if isinstance(event, Pushed):
            self._late.add(event.refused.late)
            self._ahead.add(event.refused.ahead)
            self._take(event)
        if not isinstance(event, Attached):
            self._live = event.live
        self._watermark = event.watermark
        # attached history comes before all tuples, and says nothing about the present
        if not isinstance(event, Attached) or event.batch is not None:
            self._heard = event.time
        self._attention.changed()

    def _take(self, event: Pushed) -> None:
        batch, stored = event.batch, event.stored
        count = len(batch)
        if not count and not stored:
            return
        first = self._arrivals.add(event.sequence, count, whole=not stored)
        if event.given and count:
            self._patches.add(first, count, event.given)
        if event.room and count:
            self._patches.reserve(event.room)
        if self._event_time:
            timed = None if event.floor is None else self._timed
            self._pending.add(batch, first, None if timed is None else batch.columns[timed].values)
        elif count:
            self._ready.append(batch)

    def release(self, next_id: int) -> Batch | None:
        """Release the tuples up to the watermark, in stream order, as one batch of all pushes.

        The tuples get the IDs from `next_id` on. Returns None if there is nothing to release. Sets `patches`.
        """
        if self._event_time:
            released = None if self._watermark is None else self._pending.release(self._watermark)
            if released is None:
                return None
            batch, numbers = released
        elif self._ready:
            batch, self._ready = concat_batches(self._ready), []
            first, self._ready_first = self._ready_first, self._ready_first + len(batch)
            numbers = range(first, self._ready_first)
        else:
            return None
        self._arrivals.release(next_id, numbers)
        self.patches = self._patches.release(numbers)
        self._attention.changed()
        return batch

    def take_freed(self) -> int:
        """The bytes that were reserved for patches which are released now, since the last call."""
        return self._patches.take_freed()

    def widen(self, schema: Schema) -> int:
        """Add the new columns of `schema` to waiting tuples. Returns the additional bytes charged."""
        ensure(not self._ready, self, "what is ready would keep the schema of before", batches=len(self._ready))
        before = self._pending.nbytes
        self._pending.widen(schema)
        self._attention.changed()
        return self._pending.nbytes - before

    def leave_clock(self) -> None:
        """End the life of a stream whose watermark follows only its rows from now on."""
        self._live = False
        self._attention.changed()

    def forget_before(self, tuple_id: int) -> None:
        """Drop the arrival numbers of tuples with smaller IDs, which have left memory."""
        self._arrivals.forget_before(tuple_id)

    @property
    def watermark(self) -> int | None:
        """The time up to which tuples are released, from the last event. None before the first watermark."""
        return self._watermark

    @property
    def heard(self) -> int | None:
        """The host's time of the last push, heartbeat or attached batch. None before the first."""
        return self._heard

    @property
    def live(self) -> bool:
        """Whether the stream has WATERMARK BY CLOCK and is live, as the last event says."""
        return self._live

    @property
    def waiting(self) -> tuple[Array, ...]:
        """The times of tuples that wait for the watermark, in ascending runs."""
        return self._pending.times() if self._event_time else ()

    @property
    def waiting_rows(self) -> tuple[Batch, ...]:
        """The tuples that wait for the watermark, in runs in ascending order of time."""
        return self._pending.batches() if self._event_time else ()

    @property
    def arrivals(self) -> ArrivalView:
        """The readers' table of the tuple IDs of rows of recent pushes."""
        return self._arrivals.view(self._pending.numbers() if self._event_time else ())

    @property
    def late(self) -> RefusedTimes:
        """The times of tuples that were refused because their times were below the watermark."""
        return self._late.view()

    @property
    def ahead(self) -> RefusedTimes:
        """The times of tuples that were refused because they were too far ahead of the watermark."""
        return self._ahead.view()

    @property
    def waiting_bytes(self) -> int:
        """Bytes charged for tuples that wait for the watermark, and reserved for patches among them."""
        return self._patches.room + (self._pending.nbytes if self._event_time else 0)

    @property
    def ready_bytes(self) -> int:
        """Bytes charged for tuples of a stream in system time that the next `release` returns."""
        return sum(batch.nbytes for batch in self._ready)

    def check_counts(self) -> None:
        """Check the number of waiting tuples. O(runs)."""
        if self._event_time:
            self._pending.check_count()

    def check(self) -> None:
        """Check that waiting tuples are in order, and above the watermark after a release."""
        for part in (self._pending, self._late, self._ahead):
            part.check()
        ensure(not self._ready, self, "what is ready was not released", batches=len(self._ready))
        waits = len(self._pending)
        ensure(self._event_time or not waits, self, "tuples wait for a watermark in system time", tuples=waits)
        self._arrivals.check(self._pending.numbers())
        mark = self._watermark
        if mark is not None:
            behind = [int(times[0]) for times in self._pending.times() if times[0] <= mark]
            ensure(not behind, self, "tuples wait that the watermark has passed", times=behind, watermark=mark)
