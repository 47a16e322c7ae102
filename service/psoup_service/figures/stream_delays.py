"""Metrics by stream: the delays of the streams furthest behind the clock.

10 streams with the oldest watermarks ──> rows of their own      tenant="acme", stream="trades"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from psoup.answer.figures.freshness import delays
from psoup.published.snapshot import Snapshot

_MEANING = "Seconds from a stream's watermark to the clock, of the ten streams furthest behind"


class StreamDelays(Collector):
    """The delays as gauges. `snapshot`: as in `TableSizes`. `clock`: returns the time in microseconds."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], clock: Callable[[], int]) -> None:
        self._snapshot = snapshot
        self._clock = clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The rows. O(streams)."""
        family = GaugeMetricFamily("psoup_freshness_seconds", _MEANING, labels=("tenant", "stream"))
        snapshot = self._snapshot()
        for delay in [] if snapshot is None else delays(snapshot, self._clock()):
            family.add_metric((delay.tenant, delay.stream), delay.seconds)
        yield family
