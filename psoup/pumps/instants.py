"""Closed instants: no tuple with such a time, or an earlier one, can come any more.

source in event time     closed below the watermark: a tuple at the watermark itself is still accepted.
derived source           closed up to the watermark: a pump pushes an instant as a whole.
source in system time    closed up to the promise of the sequencer (`psoup.admission.derivations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.published.snapshot import StreamView


class Promise(NamedTuple):
    """A promise of the sequencer: no later tuple of some sources in system time gets the time `at` or an earlier one.

    `sequence`: the last event before it. All tuples up to `at` come with that event or before it.
    """

    at: int
    sequence: int


NO_PROMISE = Promise(-(2**63), 0)
"""For a source without a promise so far, and for a derivation without sources in system time."""


def closed_instant(views: Sequence[StreamView], promised: int) -> int | None:
    """The last instant that is closed in all sources. None if none is.

    `promised`: the instant that was promised for all sources in system time.
    """
    closed = list[int]()
    for view in views:
        if not view.spec.event_time:
            closed.append(promised)
        elif view.watermark is None:
            return None
        else:
            closed.append(view.watermark - (view.spec.derived is None))
    return min(closed)


def promise_at(views: Sequence[StreamView], now: int) -> int:
    """The instant that the sequencer could promise at the time `now` for the sources in system time."""
    times = [view.last_time for view in views if not view.spec.event_time and view.last_time is not None]
    return max([now, *times])
