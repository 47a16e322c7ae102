"""Metrics by tenant: the use of each quota, and the refusals.

    100 tenants, those that were there first ──> rows of their own      tenant="acme"
    all others ────────────────────────────────> one row for all        tenant="(others)", which no tenant can be called

A service with only the tenant `default`, without quotas, has no such rows. The metrics thread reads them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from psoup.errors import PSoupError
from psoup.events.tenants import NO_LIMITS, Tenant
from psoup.model import DEFAULT_TENANT

NAMED = 100
"""The most tenants with rows of their own. Each has some forty rows."""

OTHERS = "(others)"
"""The label of all tenants that have no rows of their own."""

_COUNTED = 25_000
"""The most pairs of tenant and quota with a counter of refusals. Dropped tenants have pairs, too."""

_LABELS = ("tenant", "quota")
_Table = dict[tuple[str, str], float]


class Usage(Protocol):
    """Sources of the tenants' figures."""

    def tenants(self) -> Mapping[str, Tenant]:
        """The tenants, by their names."""
        ...

    def used_by(self, names: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        """The use of the named tenants, by name and quota. Any thread may call it."""
        ...


class TenantFigures(Collector):
    """Counts refusals, and reports use and limits at each scrape. `usage`: asked at each scrape."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._refused: _Table = {}
        self._lock = threading.Lock()

    def refused(self, error: PSoupError) -> None:
        """Count a refusal, if a quota of a tenant is why. O(1). Any thread."""
        if error.reason == "QUOTA" and "tenant" in error.facts:
            key = (error.facts["tenant"], error.facts["quota"])
            with self._lock:
                if key not in self._refused and len(self._refused) >= _COUNTED:
                    key = (OTHERS, error.facts["quota"])
                self._refused[key] = self._refused.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """The rows. O(streams + tenants x quotas)."""
        tenants = self._usage.tenants()
        if len(tenants) == 1 and tenants[DEFAULT_TENANT].quotas == NO_LIMITS:
            return
        first = sorted(tenants.values(), key=lambda tenant: (tenant.created, tenant.name))[:NAMED]
        named = {tenant.name for tenant in first}
        used: _Table = {}
        limits: _Table = {}
        for name, taken in self._usage.used_by(tenants.keys()).items():
            label, quotas = name if name in named else OTHERS, tenants[name].quotas
            for quota, value in taken.items():
                _add(used, label, quota, value)
                if limit := getattr(quotas, quota):
                    _add(limits, label, quota, limit)
        refused: _Table = {}
        for (name, quota), count in [*self._refused.items()]:
            _add(refused, name if name in named else OTHERS, quota, count)
        yield _rows(GaugeMetricFamily("psoup_tenant_used", _USED, labels=_LABELS), used)
        yield _rows(GaugeMetricFamily("psoup_tenant_limit", _LIMIT, labels=_LABELS), limits)
        yield _rows(CounterMetricFamily("psoup_tenant_refused", _REFUSED, labels=_LABELS), refused)


_USED = "What a tenant uses of a quota, as psoup tenant usage tells it"
_LIMIT = "Limit of a tenant's quota; no row without a limit"
_REFUSED = "Calls refused by a tenant's quota since the start, and answers of calls for many"


def _add(table: _Table, tenant: str, quota: str, value: float) -> None:
    key = (tenant, quota)
    table[key] = table.get(key, 0) + value


def _rows(family: GaugeMetricFamily | CounterMetricFamily, table: _Table) -> Metric:
    for labels, value in sorted(table.items()):
        family.add_metric(labels, value)
    return family
