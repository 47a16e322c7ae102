"""The copy of the events (`replicate`) for the operator: figures, and notices while it is behind or has stopped."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable

from google.protobuf import duration_pb2

from psoup_proto.v1 import server_pb2
from psoup_storage import uploader_of
from psoup_storage.contract import Store

EVERY_S = 1.0
"""Seconds between two looks at the copy."""
BEHIND_S = 10.0
"""Seconds of lag from which on the copy is reported as behind."""
REPORTS_S = 60.0
"""Seconds between two reports that the copy is behind."""
_log = logging.getLogger(__name__)


def copy_figures(store: Store) -> dict[str, int]:
    """The figures of the copy; all are 0 without one. Any thread."""
    events, seconds, objects, dropped, stopped = 0, 0.0, 0, 0, False
    if (uploader := uploader_of(store)) is not None:
        events, seconds = uploader.lag()
        objects, dropped, stopped = uploader.numbers, uploader.queue.dropped, bool(uploader.failure)
    return {
        "copy_lag_events": events,
        "copy_lag_seconds": round(seconds),
        "copy_objects": objects,
        "copy_dropped": dropped,
        "copy_stopped": int(stopped),
    }


def copy_state(store: Store) -> server_pb2.CopyState | None:
    """The state of the copy on the wire; None without one. Any thread."""
    if (uploader := uploader_of(store)) is None:
        return None
    events, seconds = uploader.lag()
    lag = duration_pb2.Duration()
    lag.FromMilliseconds(round(1_000 * seconds))
    problem = uploader.failure or uploader.trouble
    return server_pb2.CopyState(place=uploader.target.place, lag_events=events, lag=lag, problem=problem)


def copy_notice(store: Store) -> str:
    """The reason why the copy lacks events; "" if it is up to date, and without a copy. Any thread."""
    uploader = uploader_of(store)
    if uploader is None or store.copy_gate.reason():  # the shortage of the store has the reason
        return ""
    if uploader.failure:
        return f"events are not copied any more: {uploader.failure}"
    return uploader.trouble and f"{uploader.trouble}; {uploader.lag()[0]:,} events wait for it"


class CopyWatch:
    """Reports in the log that the copy is behind. Belongs to the event loop. `now`: a clock in seconds.

    `store`: one that makes a copy.
    """

    def __init__(self, store: Store, now: Callable[[], float] = time.monotonic) -> None:
        uploader = uploader_of(store)
        assert uploader is not None
        self._uploader, self._gate, self._now = uploader, store.copy_gate, now
        self._behind = self._refusing = False
        self._reported = -REPORTS_S

    async def run(self) -> None:
        """Look every `EVERY_S` seconds, until cancelled."""
        if math.isinf(self._gate.most_s):
            _log.warning(
                "replicate_lag_most is off: events are acknowledged although the copy lacks them. If another service"
                " takes over from the copy while this one runs, both acknowledge events, and this one loses its events"
            )
        while True:
            await asyncio.sleep(EVERY_S)
            self.look()

    def look(self) -> None:
        """Report a change: the copy is behind, nothing is acknowledged, the copy has caught up."""
        uploader, why = self._uploader, self._gate.reason()
        events, seconds = uploader.lag()
        facts = {"events": events, "seconds": round(seconds), "why": uploader.failure or uploader.trouble}
        behind = events > 0 and seconds >= BEHIND_S
        if behind and self._now() - self._reported >= REPORTS_S:
            self._behind, self._reported = True, self._now()
            _log.warning("the copy of the events is behind", extra=facts)
        elif self._behind and not behind:
            self._behind, self._reported = False, -REPORTS_S
            _log.warning("the copy of the events has caught up", extra=facts)
        if bool(why) != self._refusing:
            self._refusing = bool(why)
            _log.warning(why or "events are acknowledged again")
