"""No turn of a service's event loop may use more than 50 ms of its thread's processor time.

with no_stalls(serving.service):      raises at the end, with what ran
    attack()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psoup.work.gc_pause import without_collector
from psoup_service.service import Service


@contextmanager
def no_stalls(service: Service) -> Iterator[None]:
    """For a service whose loop has a thread of its own (`threaded_service`): a client's work must not count.

    Nor may a collection of garbage: a process that runs tests has some million objects, a service's own has few.
    """
    watchdog = service.watchdog
    before = watchdog.stalls
    with without_collector():
        yield
    stalls = watchdog.stalls - before
    assert not stalls, f"{stalls} stalls, the longest used {1e3 * watchdog.longest:.0f} ms, the last at {watchdog.last}"
