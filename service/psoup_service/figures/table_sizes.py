"""Metrics by table: the keys and entries of the largest tables.

    100 tables with the most entries ──> rows of their own      tenant="acme", table="customers"

The sums over all tables are `psoup_table_rows` and `psoup_table_versions`. The metrics thread counts at each scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from psoup.answer.figures.table_figures import figures_by_table
from psoup.published.snapshot import Snapshot

_LABELS = ("tenant", "table")


class TableSizes(Collector):
    """The sizes of tables as gauges. `snapshot`: returns the present snapshot, or None while the service starts."""

    def __init__(self, snapshot: Callable[[], Snapshot | None]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The rows. O(versions in memory)."""
        snapshot = self._snapshot()
        sizes = [] if snapshot is None else figures_by_table(snapshot)
        keys = GaugeMetricFamily("psoup_table_keys", "Keys of a table that have a row at present", labels=_LABELS)
        entries = GaugeMetricFamily("psoup_table_entries", "Versions and deletions that a table keeps", labels=_LABELS)
        for size in sizes:
            keys.add_metric((size.tenant, size.table), size.keys)
            entries.add_metric((size.tenant, size.table), size.entries)
        yield keys
        yield entries
