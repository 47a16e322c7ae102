"""Delays of derived streams: why a stream gets no rows at present, and since when.

t ──> x suspended ──> y        y gets no rows, as x gets none: the delay of y names x
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from psoup.published.snapshot import Snapshot, StreamView

WAITING = "waiting"
"""The state of a stream whose next rows find no room in memory."""


class Delay(NamedTuple):
    """Why a derived stream gets no rows. `state`: suspended, stopped or waiting.

    `stream`: the name of the stream with this state. It is the derived stream itself, or one from which it derives.
    `since`: microseconds. `why`: the failure that stopped it, or why it finds no room; "" if it is suspended.
    """

    state: str
    stream: str
    since: int
    why: str


def delay_of(snapshot: Snapshot, view: StreamView) -> Delay | None:
    """The delay of a stream, or the first one below it. None if it gets rows, or is not derived.

    O(streams from which it derives).
    """
    if view.spec.derived is None:
        return None
    return _own(snapshot, view) or delay_below(snapshot, view.spec.derived.source_ids)


def delay_below(snapshot: Snapshot, source_ids: Iterable[int]) -> Delay | None:
    """The first delay of these sources, and of the streams from which they derive. None without one."""
    ahead, seen = list(source_ids), set[int]()
    while ahead:
        view = snapshot.by_id.get(stream_id := ahead.pop(0))
        if view is None or view.spec.derived is None or stream_id in seen:
            continue
        if (delay := _own(snapshot, view)) is not None:
            return delay
        seen.add(stream_id)
        ahead += view.spec.derived.source_ids
    return None


def _own(snapshot: Snapshot, view: StreamView) -> Delay | None:
    derived, wait = view.spec.derived, snapshot.waits.of(view.stream_id)
    if derived is not None and derived.halt is not None:
        return Delay(derived.halt.word, view.spec.name, derived.halt.since, derived.halt.why)
    return None if wait is None else Delay(WAITING, view.spec.name, wait.since, wait.why)
