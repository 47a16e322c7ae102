"""The events that the pumps of derived streams have passed: a read of such a stream waits for them.

    push into t: event 7 ── pump of x: the rows of what event 7 closed are event 8 ── x has passed event 7
                                                                                       └─> reads with min_sequence 7

The thread of the pumps notes what they pass. A stream that derives from derived streams waits for these first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from psoup_service.host.worker import deliver


@dataclass(frozen=True, slots=True)
class Passed:
    """The progress of a pump. `event`: the rows of all instants that it and earlier events closed are pushed.

    `pushed`: the sequence of its last push.

    `reached` to `unknown`: as in `psoup.pumps.Pump`. `failure`: why the stream is not derived further, else "".
    `rests`: whether its steps fail, so that no read waits for it. `sources`: the stream IDs of its sources.
    """

    event: int
    pushed: int
    sources: tuple[int, ...]
    rests: bool = False
    reached: int | None = None
    tuples: int = 0
    rows: int = 0
    errors: int = 0
    unknown: int = 0
    failure: str = ""


class PassedEvents:
    """The progress of each pump, by the ID of its stream. Any thread may note; waiters are on the event loop."""

    def __init__(self) -> None:
        self._passed: Mapping[int, Passed] = {}
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def any(self) -> bool:
        """Whether there are derived streams."""
        return bool(self._passed)

    def of(self, stream_id: int) -> Passed | None:
        """The progress of the pump of a stream. None if it has not begun, and for a stream that is not derived."""
        return self._passed.get(stream_id)

    def note(self, passed: Mapping[int, Passed]) -> None:
        """Replace what the pumps have passed, and wake the waiters."""
        self._passed = passed
        waiters, self._waiters = self._waiters, []
        deliver([(waiter, None) for waiter in waiters])

    def has_passed(self, stream_id: int, sequence: int) -> bool:
        """Whether readers of a stream see all that an event has closed. True for a stream that is not derived."""
        pump = self._passed.get(stream_id)
        if pump is None or pump.rests:
            return True
        passed = [self._passed.get(source) for source in pump.sources]
        event = max([sequence, *(source.pushed for source in passed if source is not None)])
        return pump.event >= event and all(self.has_passed(source, sequence) for source in pump.sources)

    async def reach(self, stream_ids: Iterable[int], sequence: int, timeout: float) -> None:
        """Wait until `has_passed` for all of some derived streams. Raises TimeoutError."""
        ids = list(stream_ids)

        def done() -> bool:  # a new stream is not noted yet
            return all(stream_id in self._passed and self.has_passed(stream_id, sequence) for stream_id in ids)

        async with asyncio.timeout(timeout):
            while not done():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                if done():  # noted meanwhile
                    return
                await waiter
