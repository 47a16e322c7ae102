"""The replay of the log at a start: admission and engine take every event of the store again.

    store ── e1 e2 e3 … ──> admission (each event) ──> writer (runs)          a line of the log every two seconds

Each evaluation is noted before it begins. So a later start leaves out an evaluation that kills the process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from psoup.admission import Admission
from psoup.events.change import rows_of
from psoup.events.events import Event
from psoup_service.host.ports import EnginePort
from psoup_service.host.precautions import Guard
from psoup_service.host.writer import RUN_EVENTS, RUN_ROWS, Writer
from psoup_storage.contract import Store

_TELL_SECONDS = 2.0
"""Seconds between two lines of the log about the progress of a replay."""
_log = logging.getLogger(__name__)


def replay(
    engine: EnginePort[Any],
    admission: Admission,
    store: Store,
    writer: Writer,
    guard: Guard,
    given_up: Callable[[], bool],
) -> None:
    """Apply the log, before the threads are started. It ends early, at an event, once the start is `given_up`."""
    engine.take_precautions(guard.precautions(watching=True))
    started = reported = time.monotonic()
    run, rows, count = list[Event](), 0, 0
    for event in store.read(admission.sequence):
        if given_up():
            return
        admission.replay(event)
        run.append(event)
        rows += rows_of(event)
        count += 1
        if len(run) < RUN_EVENTS and rows < RUN_ROWS:
            continue
        writer.replay(run)
        run, rows = [], 0
        if time.monotonic() - reported >= _TELL_SECONDS:
            reported = time.monotonic()
            _log.info("replaying", extra={"sequence": event.sequence, "last": store.sequence})
    if run:
        writer.replay(run)
    admission.ids.begin(store.promotion)
    engine.take_precautions(guard.precautions(watching=False))
    guard.over()
    guard.refuse_unknown(admission.has_query)
    guard.tell([], engine.kept_out())
    if count:
        seconds = round(time.monotonic() - started, 3)
        _log.info("replayed", extra={"events": count, "sequence": store.sequence, "seconds": seconds})
