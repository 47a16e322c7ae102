"""Histograms of durations that the host's threads fill, and their rows for the metrics.

    sequencer ─> waited       from the arrival of a command to its turn
    committer ─> synced       each group of events: written to the log, and on the disk
    writer ────> applied      each run of events: applied, so that readers see them

Only one thread adds to a histogram, so it needs no lock. `Histogram` of prometheus_client takes a lock each time. The
metrics thread reads the counts while they grow: a scrape may lack the newest duration.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
"""The upper bounds of the buckets of every histogram of seconds."""

_NEWEST = 1 / 8
"""The weight of the newest duration in the mean of the last ones."""


class Durations:
    """A histogram of seconds, with the buckets of `SECONDS`."""

    __slots__ = ("counts", "recent", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0
        self.recent = 0.0
        """The mean of the last durations; 0 before the first one."""

    def add(self, seconds: float) -> None:
        """Count a duration. Only one thread may call it. O(log buckets)."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds
        self.recent += _NEWEST * (seconds - self.recent)


class StageTimes:
    """The histograms of the stages that a command passes."""

    def __init__(self) -> None:
        self.waited = Durations()
        self.synced = Durations()
        self.applied = Durations()


_MEANINGS = {
    "command_wait": "Seconds for which a command waited for room and for its turn, before it was prepared",
    "log_sync": "Seconds in which a group of events was written to the log and synced to the disk",
    "apply": "Seconds in which a run of events was applied, before readers saw it",
}


class StageDurations(Collector):
    """The rows of the stages' histograms, read at each scrape."""

    def __init__(self, times: StageTimes) -> None:
        self._durations = {"command_wait": times.waited, "log_sync": times.synced, "apply": times.applied}

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """A histogram for each stage. O(buckets)."""
        for name, durations in self._durations.items():
            counts, sums = list(durations.counts), list[tuple[str, float]]()
            through = 0
            for bound, count in zip((*SECONDS, float("inf")), counts, strict=True):
                through += count
                sums.append((str(floatToGoString(bound)), through))  # type: ignore[no-untyped-call]
            yield HistogramMetricFamily(f"psoup_{name}_seconds", _MEANINGS[name], sums, durations.total)
