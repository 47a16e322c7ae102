"""Metrics by amount: the number of queries of each amount, active and inactive ones apart; AUTO and parked queries.

An AUTO query counts with the amount in force. The sum of all rows of `psoup_queries_by_amount` is `psoup_queries`. The
metrics thread counts at a scrape, if queries have changed since the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from psoup.answer.figures.amount_figures import QueryCounts, queries_by_keeping
from psoup.plan.amounts import Amount
from psoup.published.paged_map import PagedMap
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot


class QueryAmounts(Collector):
    """The numbers of queries as gauges. `snapshot`: as in `TableSizes`."""

    def __init__(self, snapshot: Callable[[], Snapshot | None]) -> None:
        self._snapshot = snapshot
        self._counted: PagedMap[QueryRecord] | None = None
        self._counts = QueryCounts({}, {})

    def collect(self) -> Iterator[Metric]:
        """The rows. The cost is as for `queries_by_keeping`."""
        snapshot = self._snapshot()
        if snapshot is not None and snapshot.queries is not self._counted:
            self._counts = queries_by_keeping(snapshot.queries)
            self._counted = snapshot.queries
        meaning = "Standing queries by how much is kept of their answers, and whether they are active"
        counts = GaugeMetricFamily("psoup_queries_by_amount", meaning, labels=("amount", "active"))
        for (amount, active), count in self._counts.by_amount.items():
            counts.add_metric((amount.name.lower(), "true" if active else "false"), count)
        yield counts
        meaning = "Parked queries: inactive ones whose statements are not in memory"
        yield GaugeMetricFamily("psoup_queries_parked", meaning, value=self._counts.parked)
        meaning = "Standing queries whose amount the service chooses, by the amount in force"
        automatic = GaugeMetricFamily("psoup_auto_queries", meaning, labels=("amount",))
        for amount, count in self._counts.automatic.items():
            automatic.add_metric((amount.name.lower(),), count)
        yield automatic
        meaning = "Changes of queries to this amount by the choice of the service"
        switches = CounterMetricFamily("psoup_auto_switches", meaning, labels=("amount",))
        for amount in Amount:
            count = 0 if snapshot is None else snapshot.automatic.switches[amount]
            switches.add_metric((amount.name.lower(),), count)
        yield switches
