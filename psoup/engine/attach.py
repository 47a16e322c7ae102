"""Attaching inside the engine: the writer puts chunks on disk before all other chunks, or after them.

    history    archived   [-2 -1] + [0 1 2] closed, open ...      entries only; readers evaluate on demand
    a batch    archived   [0 1 2] + [3 4], open                   nothing was pushed, so nothing is in memory

Results of attached chunks are not kept in memory, so attaching history adds no cost to queries.
"""

from __future__ import annotations

from psoup.data.schema_growth import widen_chunk
from psoup.engine.stream.state import StreamState
from psoup.events.events import Attached


def attach(state: StreamState, event: Attached) -> None:
    """Apply `event`. O(chunks of the archive).

    If live tuples have expired since admission checked the event, the whole history has expired, too. Then only the
    watermark moves.
    """
    state.take(event)
    chunks = [widen_chunk(chunk, state.data.spec) for chunk in event.chunks]
    if not chunks:
        return
    if event.batch is not None:
        state.shelf.follow(chunks)
        state.data.follow(chunks[0], chunks[-1])
    elif state.shelf.dropped_time is None:
        state.shelf.precede(chunks)
        state.data.precede(chunks[0], chunks[-1])
