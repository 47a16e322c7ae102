"""Checks of one stream: that its parts agree with one another.

    check_stream     every structure, and the parts with each other          O(everything)

They look and change nothing; the writer's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.engine.stream.state import StreamState
from psoup.invariants import ensure
from psoup.published.records import ClauseRecord


def check_stream(state: StreamState, clauses: Sequence[ClauseRecord]) -> None:
    """The parts are sound, and agree with each other and with the clauses of the stream."""
    for part in (state.feed, state.data):
        part.check()
    state.shelf.check(state.config.list_limit)
    _check_open_follows(state)
    state.clauses.check(clauses)
    state.open.check(state.data.open.length)
    out = state.clauses.quarantine.ids
    excepted = np.isin(out, state.open.gaps.ids).all()
    stream = state.stream_id
    ensure(excepted, state, "a clause that is out counts as covered in the open chunk", stream=stream, clauses=out)


def _check_open_follows(state: StreamState) -> None:
    stream, begins = state.stream_id, state.data.open
    for newest in [entry.data for entry in state.shelf.entries[-1:]]:
        place, wanted = (begins.number, begins.first_id), (newest.number + 1, newest.end_id)
        ensure(place == wanted, state, "the open chunk does not follow the shelf", stream=stream, at=place, next=wanted)
        on = not begins.length or begins.view().first_time >= newest.last_time
        ensure(on, state, "the open chunk goes back in time", stream=stream, after=newest.last_time)
