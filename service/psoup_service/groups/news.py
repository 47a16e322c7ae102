"""News for waiting workers: one wake-up of the event loop for each publication, however many workers wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host


class News:
    """Tells workers that the writer has published. It listens only while a worker waits. For the event loop."""

    def __init__(self, host: Host[Snapshot]) -> None:
        self._host = host
        self._said = False
        self._events = set[asyncio.Event]()
        self._deaf: Callable[[], None] = lambda: None

    @contextmanager
    def heard(self, event: asyncio.Event) -> Iterator[None]:
        """Inside the `with` block, each publication sets `event`."""
        if not self._events:
            self._listen()
        self._events.add(event)
        try:
            yield
        finally:
            self._events.discard(event)
            if not self._events:
                self._deaf()

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()

        def published() -> None:
            if not self._said:
                self._said = True
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._tell)

        self._said = False
        self._deaf = self._host.listen(published)

    def _tell(self) -> None:
        self._said = False
        for event in self._events:
            event.set()
