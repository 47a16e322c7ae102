"""Heartbeats by the clock: the watermarks of live streams follow the clock less LATENESS (WATERMARK BY CLOCK).

    rows of the stream    x  x x                                        x  old rows: not live any more
    clock less LATENESS   ──────────▲───▲───▲───▲──  pushes fail ──  grace  ──▲───▲──
                          live from the first recent row on          steady again, for long enough

A stream is live if its last row was within LATENESS and AHEAD of the clock when it came. So loading old rows makes no
stream live, and an empty stream is not live. After a start, or a time in which pushes were refused or waited, producers
may have kept rows. The clock counts again after the greater of LATENESS and `resume_grace` of taking pushes. One event
has the watermarks of all streams. It is logged, so a replay gives the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from psoup.admission.catalog import KnownStream
from psoup.config import EngineConfig
from psoup.events.acknowledgements import HeartbeatAcknowledgement, Prepared
from psoup.events.commands import RaiseWatermarks
from psoup.events.events import StreamAltered, StreamCreated, WatermarksRaised
from psoup.model import DEFAULT_AHEAD, StreamSpec
from psoup.values.columns import Batch


def live_after(stream: KnownStream, batch: Batch, now: int) -> bool:
    """Whether a stream is live after the accepted rows of a push, which comes at clock time `now`. O(rows)."""
    spec = stream.spec
    if not spec.by_clock or not len(batch):
        return spec.by_clock and stream.live
    return int(batch.times.max()) >= now - spec.lateness - _ahead(spec)


def _ahead(spec: StreamSpec) -> int:
    return DEFAULT_AHEAD if spec.ahead is None else spec.ahead


class ClockStreams:
    """The streams whose watermarks the clock moves, or has moved. Part of admission's state."""

    def __init__(self, streams: Mapping[int, KnownStream]) -> None:
        self._streams = streams
        self._by_clock: set[int] = set()
        self._moved: set[int] = set()
        """The streams in the last event. They stay in all later ones until they are dropped."""

    def __bool__(self) -> bool:
        """Whether a stream has WATERMARK BY CLOCK."""
        return bool(self._by_clock)

    def decide(self, command: RaiseWatermarks, config: EngineConfig, sequence: int, now: int) -> Prepared:
        """Decide on the next watermarks. `sequence`: the last event. Without a change there is no event.

        O(streams by the clock).
        """
        moved = dict(self._next(command, config, now))
        if not moved:
            return Prepared(HeartbeatAcknowledgement(sequence, True))
        for stream_id in self._moved:
            watermark = self._streams[stream_id].watermark
            if watermark is not None:
                moved.setdefault(stream_id, watermark)
        ids = np.array(sorted(moved), np.int64)
        watermarks = np.array([moved[stream_id] for stream_id in ids.tolist()], np.int64)
        event = WatermarksRaised(sequence + 1, ids, watermarks, now)
        return Prepared(HeartbeatAcknowledgement(event.sequence), event)

    def _next(self, command: RaiseWatermarks, config: EngineConfig, now: int) -> Iterable[tuple[int, int]]:
        """The streams whose watermarks move now, and these watermarks."""
        for stream_id in self._by_clock:
            stream = self._streams[stream_id]
            watermark = now - stream.spec.lateness
            if not stream.live or stream.watermark is None or watermark <= stream.watermark:
                continue
            steady = min(command.steady, command.unsteady.get(stream.tenant, command.steady))
            if steady < max(stream.spec.lateness, config.resume_grace):
                continue
            if (stream.tenant, stream.spec.name.lower()) not in command.waiting:
                yield stream_id, watermark

    def adopt(self, event: WatermarksRaised) -> None:
        """Take the watermarks of an event. A stream that was dropped since is skipped."""
        for stream_id, watermark in event.of_streams():
            stream = self._streams.get(stream_id)
            if stream is not None:
                self._moved.add(stream_id)
                stream.watermark = watermark if stream.watermark is None else max(watermark, stream.watermark)

    def defined(self, event: StreamCreated | StreamAltered) -> None:
        """Follow the definition of a stream."""
        if event.spec.by_clock:
            self._by_clock.add(event.stream_id)
        else:
            self._by_clock.discard(event.stream_id)
            self._streams[event.stream_id].live = False

    def dropped(self, stream_id: int) -> None:
        """Forget a stream."""
        self._by_clock.discard(stream_id)
        self._moved.discard(stream_id)
