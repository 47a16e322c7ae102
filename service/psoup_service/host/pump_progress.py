"""The events that the pumps of derived streams have passed: a read of such a stream waits for them.

    push into t: event 7 ── pump of x: the rows of what event 7 closed are event 8 ── x has passed event 7
                                                                                       └─> reads with min_sequence 7

The thread of the pumps notes what they pass. A stream that derives from derived streams waits for these first.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from psoup.published.snapshot import StreamView
from psoup.pumps import mark_of
from psoup.pumps.progress import Progress
from psoup_service.host.worker import deliver


@dataclass(frozen=True, slots=True)
class Passed:
    """The events that a pump has passed.

    `event`: the rows of all instants that it and earlier events closed are pushed.

    `pushed`: the sequence of its last push. `sources`: the stream IDs of its sources. `rests`: whether it does not run
    at present, as it is suspended, or as its steps fail: no read waits for it. `as_of`: the sequence of the snapshot
    in which it was found so.
    """

    event: int
    pushed: int
    sources: tuple[int, ...]
    rests: bool = False
    as_of: int = 0


class PassedEvents:
    """The progress of each pump, by the ID of its stream. Any thread may note; waiters are on the event loop."""

    def __init__(self, *, pumps: bool = True) -> None:
        """`pumps`: whether the service has pumps. At a standby no read waits for them."""
        self.pumps = pumps
        self._passed: Mapping[int, Passed] = {}
        self.progress: Callable[[int], Progress | None] = lambda _: None
        """Returns the present counts of the pump of a stream, from any thread. None for a stream without a pump."""
        self._waiters: list[asyncio.Future[None]] = []
        self._lock = threading.Lock()
        """Held while the list of waiters changes, so that no waiter is left out."""
        self._derived: tuple[tuple[int, ...], dict[str, tuple[int, ...]]] = (), {}
        """The IDs of derived streams by tenant, and a mark of the streams among which they were found."""
        self.hurry: Callable[[], object] = lambda: None
        """Called when a reader begins to wait: the pumps do their next steps at once."""

    def derived(self, streams: Mapping[int, StreamView], tenant: str) -> tuple[int, ...]:
        """The IDs of a tenant's derived streams, with those whose pump has not begun. O(streams) after a change of
        the streams, else O(1). `streams`: all streams by ID, a new one last."""
        mark, (before, by_tenant) = mark_of(streams), self._derived
        if before != mark:
            by_tenant = {}
            for stream_id, view in streams.items():
                if view.spec.derived is not None:
                    by_tenant[view.tenant] = (*by_tenant.get(view.tenant, ()), stream_id)
            self._derived = mark, by_tenant
        return by_tenant.get(tenant, ())

    def note(self, passed: Mapping[int, Passed]) -> None:
        """Replace what the pumps have passed, and wake the waiters."""
        with self._lock:
            self._passed = passed
        self.wake()

    def wake(self) -> None:
        """Let all waiters look again: a pump has gone on, or a stream was dropped."""
        with self._lock:
            waiters, self._waiters = self._waiters, []
        deliver([(waiter, None) for waiter in waiters])

    def has_passed(self, stream_id: int, sequence: int) -> bool:
        """Whether readers of a stream see all that an event has closed. True for a stream that is not derived.

        A pump that does not run holds no read up: the answer says that the stream is suspended or stopped.

        O(streams from which it derives).
        """
        noted, seen, ahead = self._passed, {stream_id}, [stream_id]
        while ahead:
            pump = noted.get(ahead.pop())
            if pump is None or (pump.rests and pump.as_of >= sequence):
                continue
            pushed = [noted[source].pushed for source in pump.sources if source in noted]
            if pump.rests or pump.event < max([sequence, *pushed]):
                return False
            ahead += [source for source in pump.sources if source not in seen]
            seen.update(pump.sources)
        return True

    async def reach(
        self, stream_ids: Iterable[int], sequence: int, timeout: float, present: Callable[[int], bool]
    ) -> None:
        """Wait until `has_passed` for all of some derived streams. Raises TimeoutError.

        `present`: whether a stream is still there. The wait for a dropped one ends.
        """
        ids = list(stream_ids) if self.pumps else []

        def done() -> bool:  # a new stream is not noted yet
            return all(
                (stream_id in self._passed and self.has_passed(stream_id, sequence)) or not present(stream_id)
                for stream_id in ids
            )

        async with asyncio.timeout(timeout):
            while not done():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                with self._lock:
                    self._waiters.append(waiter)
                if done():  # noted meanwhile
                    return
                self.hurry()
                await waiter
