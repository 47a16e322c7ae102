"""The watermarks of several streams that one event of the clock raises.

event      stream 3: 12:05   stream 7: 12:04   stream 9: 11:58
streams    3 at 12:04 ─> 12:05    7 at 12:04: no change    9 was dropped since
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from psoup.engine.stream.state import StreamState
from psoup.events.events import WatermarkRaised, WatermarksRaised


def take_watermarks(event: WatermarksRaised, streams: Mapping[int, StreamState]) -> Iterator[tuple[int, StreamState]]:
    """Let each stream take its watermark, if it is greater than before. Yields the changed streams. O(streams)."""
    for stream_id, watermark in event.of_streams():
        state = streams.get(stream_id)
        if state is None:
            continue
        before = state.feed.watermark
        if before is None or watermark > before:
            state.take(WatermarkRaised(event.sequence, "", stream_id, watermark, event.time, state.feed.live))
            yield stream_id, state
