"""The list of the metrics that a service shows: name, kind and meaning, read from the registry of `Metrics`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from psoup.events.tenants import FIRST_TENANT, Tenant
from psoup_service.figures.durations import StageTimes
from psoup_service.figures.metrics import FIGURES, Metrics
from psoup_service.figures.pg_connections import PgConnections

Kind = Literal["counter", "gauge", "histogram"]

SINCE_START = "since the start"
"""The words in the meaning of a gauge that only grows, and is read as a rate."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric. `name`: without the endings of its series. `grows`: whether its value only grows until a restart."""

    name: str
    kind: Kind
    meaning: str

    @property
    def grows(self) -> bool:
        """Whether the value only grows until a restart of the service."""
        return self.kind == "counter" or SINCE_START in self.meaning

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series in Prometheus."""
        endings = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
        return tuple(self.name + ending for ending in endings[self.kind])


class _TwoTenants:
    """Usage of two tenants, so that the metrics of tenants are listed, too."""

    def tenants(self) -> Mapping[str, Tenant]:
        """Two tenants."""
        return {"default": FIRST_TENANT, "other": FIRST_TENANT}

    def used_by(self, names: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        """No use."""
        return {}


def families() -> list[Family]:
    """All metrics, by name. Makes a registry without a service."""
    metrics = Metrics(lambda: dict.fromkeys(FIGURES, 0))
    metrics.list_all()
    metrics.by_follower(dict)
    metrics.by_group(dict)
    metrics.by_pg_connection(PgConnections(dict))
    metrics.by_snapshot(lambda: None, lambda: 0, lambda _: None)
    metrics.by_stage(StageTimes())
    metrics.by_tenant(_TwoTenants())
    listed = [Family(each.name, cast(Kind, each.type), each.documentation) for each in metrics.registry.collect()]
    return sorted(listed, key=lambda family: family.name)
