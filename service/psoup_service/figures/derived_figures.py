"""Metrics by derived stream: lag, counts and state of the streams that are furthest behind.

    100 derived streams with the greatest lag ──> rows of their own      tenant="acme", stream="delayed"

The sums over all derived streams are `psoup_derived_streams`, `psoup_derived_rows` and so on. The metrics thread reads
the status of each derived stream at each scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from psoup.model import SECOND
from psoup.published.snapshot import Snapshot
from psoup.pumps.progress import Progress
from psoup.pumps.status import DerivedStatus, status_of

NAMED_STREAMS = 100
"""The most derived streams that have rows of their own."""
_LABELS = ("tenant", "stream")
FIGURES: dict[str, tuple[str, Callable[[DerivedStatus], float]]] = {
    "lag_seconds": (
        "Seconds from the last derived instant to the newest tuple of a source",
        lambda status: status.lag / SECOND,
    ),
    "late": ("1 while the lag of a derived stream is more than its LAG AT MOST, else 0", lambda status: status.late),
    "suspended": ("1 while a derived stream is suspended, else 0", lambda status: status.state == "suspended"),
    "stopped": (
        "1 while a derived stream is stopped, as its steps failed, else 0",
        lambda status: status.state == "stopped",
    ),
    "waiting": (
        "1 while the next rows of a derived stream find no room in memory, else 0",
        lambda status: status.state == "waiting",
    ),
    "rebuilding": (
        "1 while a derived stream reads its sources to have its state again, else 0",
        lambda status: status.progress.rebuilding,
    ),
    "tuples": (
        "Tuples of its sources that a derived stream has read since the start",
        lambda status: status.progress.tuples,
    ),
    "rows": ("Rows that a derived stream has got since the start", lambda status: status.progress.rows),
    "unread_tuples": (
        "Tuples that the sources of a derived stream have, and that it has not read",
        lambda status: sum(pin.unread for pin in status.pins),
    ),
    "state_rows": ("Rows that the operators of a derived stream keep", lambda status: status.progress.state_rows),
    "state_bytes": (
        "Memory of the rows that the operators of a derived stream keep",
        lambda status: status.progress.state_bytes,
    ),
    "state_limit_bytes": (
        "STATE AT MOST of a derived stream, 0 without it",
        lambda status: status.derived.state_limit or 0,
    ),
}
"""The meaning of each figure, and its value; `psoup_derived_stream_` goes before the names."""


class DerivedFigures(Collector):
    """The figures of derived streams as gauges.

    `snapshot`: returns the present snapshot, or None while the service starts. `progress`: returns the counts of the
    pump of a stream, from any thread.
    """

    def __init__(self, snapshot: Callable[[], Snapshot | None], progress: Callable[[int], Progress | None]) -> None:
        self._snapshot = snapshot
        self._progress = progress

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The rows. O(streams)."""
        statuses = self._statuses()
        for name, (meaning, value) in FIGURES.items():
            family = GaugeMetricFamily(f"psoup_derived_stream_{name}", meaning, labels=_LABELS)
            for labels, status in statuses:
                family.add_metric(labels, value(status))
            yield family

    def _statuses(self) -> list[tuple[tuple[str, str], DerivedStatus]]:
        """The derived streams with the greatest lag, by tenant and name."""
        snapshot, statuses = self._snapshot(), list[tuple[tuple[str, str], DerivedStatus]]()
        for view in () if snapshot is None else snapshot.by_id.values():
            if snapshot is not None and view.spec.derived is not None:
                status = status_of(snapshot, view, self._progress(view.stream_id))
                if status is not None:
                    statuses.append(((view.tenant, view.spec.name), status))
        return sorted(nlargest(NAMED_STREAMS, statuses, key=lambda each: each[1].lag), key=lambda each: each[0])
