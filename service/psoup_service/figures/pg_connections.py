"""Metrics of the port for clients of PostgreSQL: open connections by state, and connections that were refused.

    psoup_pg_connections{state="idle in transaction"} 3
    psoup_pg_refused_connections_total{why="credential"} 2

The states have the names of pg_stat_activity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

STATES = ("starting", "idle", "idle in transaction", "active")
"""The states of a connection. `starting`: it has not signed in yet. `active`: a statement runs."""

REASONS = ("limit", "credential", "tls", "protocol", "late", "stopping", "other")
"""The reasons for which a connection is refused before its first statement.

`limit`: too many are open. `credential`: a wrong token, or none. `tls`: plain text where TLS is needed, or a failed
handshake. `protocol`: bytes of another protocol. `late`: the client sent too little in time. `stopping`: the service
is shutting down.
"""


class PgConnections(Collector):
    """The metrics of one port. `states`: returns the number of open connections by state; any thread may call it."""

    def __init__(self, states: Callable[[], Mapping[str, int]]) -> None:
        self._states = states
        self._refused = dict.fromkeys(REASONS, 0)

    def refuse(self, why: str) -> None:
        """Count a connection that is refused. `why`: one of REASONS. On the event loop."""
        self._refused[why] += 1

    def collect(self) -> Iterator[Metric]:
        """The rows: one for each state, and one for each reason. O(connections)."""
        meaning = "Open connections of clients of PostgreSQL, by state as in pg_stat_activity"
        connections = GaugeMetricFamily("psoup_pg_connections", meaning, labels=("state",))
        states = self._states()
        for state in STATES:
            connections.add_metric((state,), states.get(state, 0))
        yield connections
        meaning = "Connections of clients of PostgreSQL that were refused before their first statement, by reason"
        refused = CounterMetricFamily("psoup_pg_refused_connections", meaning, labels=("why",))
        for why, count in self._refused.items():
            refused.add_metric((why,), count)
        yield refused
