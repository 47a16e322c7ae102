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
    """The structures are sound, and agree with each other and with the clauses of the stream."""
    state.data.check()
    state.standing.check(clauses)
    state.open.check(state.data.open.length)
    stream, data = state.stream_id, state.data
    shelf, chunks = [entry.data.number for entry in state.closed], [chunk.number for chunk in data.closed]
    ensure(shelf == chunks, state, "results and chunks differ", stream=stream, results=shelf, chunks=chunks)
    archived = [entry.data for entry in state.archived] == [*data.archived]
    ensure(archived, state, "the archive is not what readers see", stream=stream, archived=len(data.archived))
    ready = [entry.number for entry in data.leaving]
    ensure(ready == shelf[: len(ready)], state, "stored chunks are not the oldest", stream=stream, stored=ready)
    known = state.stored <= data.open.number
    ensure(known, state, "a chunk is next to be stored that is not there yet", stream=stream, chunk=state.stored)
    out = state.standing.quarantine.ids
    excepted = np.isin(out, state.open.gaps.ids).all()
    ensure(excepted, state, "a clause that is out counts as covered in the open chunk", stream=stream, clauses=out)
    state.results.check(state.config.list_limit)
