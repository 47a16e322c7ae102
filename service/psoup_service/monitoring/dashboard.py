"""The dashboard of Grafana: a panel for each metric, and above them the few that say whether all is well.

    At a glance   figures of the present, each with the colours of its limits
    Calls … Tenants   each metric in the section of its subject; one without a subject comes last, under "More"

The kind of a metric decides its panel: a rate for what grows, two percentiles for a histogram, else the value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from psoup_service.figures.derived_figures import FIGURES as DERIVED
from psoup_service.monitoring.families import Family, families

UID = "psoup-service"
"""The identifier of the dashboard in Grafana."""

_HERE = '{instance=~"$instance"}'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24
_PANEL = (8, 7)
"""The width and the height of a panel, in units of Grafana's grid."""
_FIGURE = (3, 4)
_MOMENT = "dateTimeAsIso"
"""The unit of a moment in Grafana."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Calls": ("call", "open_calls", "held_calls", "refused_by_budget", "answered_rows", "receiving_bytes"),
    "Pushes": ("pushed_", "refused_tuples", "spooled_pushes", "pending", "producer_bytes"),
    "Stages of a command": (
        *("command_wait_seconds", "log_sync_seconds", "apply_seconds", "pending_commands", "queued_", "wal_bytes"),
        *("events", "groups", "runs", "sequence", "applied"),
    ),
    "Freshness and the clock": ("freshness_seconds", "watermark_", "clock_", "rows_expired"),
    "Readers": ("pending_reads", "reads_", "sort_bytes", "pin", "streams_behind", "results_offered", "ahead_refused"),
    "Clients of PostgreSQL": ("pg_",),
    "Queries": ("queries", "clauses", "dear_", "results_bytes", "kept_answers", "auto_", "eager_", "installed"),
    "Streams and tables": ("streams", "tuples", "archive", "reserved_bytes", "store_bytes", "table", "derived_"),
    "Followers and watchers": ("follow", "group_lag", "watch"),
    "Webhooks": ("webhook",),
    "Copy": ("copy_",),
    "Process": ("loop_", "thread_", "late_kernels", "background_errors", "short_of_disk", "tls_", "spans_"),
    "Tenants": ("tenant_",),
}
"""The sections, each with beginnings of the names of its metrics. The longest beginning decides."""

_BY = {
    "auto_switches": ("amount",),
    "calls": ("method", "code", "protocol"),
    "pg_refused_connections": ("why",),
    "refused_by_budget": ("budget",),
    "refused_tuples": ("why",),
    "tenant_refused": ("tenant", "quota"),
    "thread_wake_ups": ("thread",),
}
"""The labels of counters by which a panel divides them."""

_LABELS = {
    "freshness_seconds": ("tenant", "stream"),
    "pg_connections": ("state",),
    "queries_by_amount": ("amount", "active"),
    "auto_queries": ("amount",),
    **{f"derived_stream_{name}": ("tenant", "stream") for name in DERIVED},
    "follower_lag_tuples": ("tenant", "stream", "follower"),
    "group_lag_tuples": ("tenant", "stream", "group"),
    "table_keys": ("tenant", "table"),
    "table_entries": ("tenant", "table"),
    "tenant_used": ("tenant", "quota"),
    "tenant_limit": ("tenant", "quota"),
}
"""The labels of gauges that a legend shows."""


class _Figure(NamedTuple):
    """A figure at a glance. `limits`: from which values on it is yellow and red."""

    title: str
    query: str
    unit: str
    limits: tuple[float, float]


_RATE = "[$__rate_interval]"
_FAILED = '{instance=~"$instance", code=~"INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED"}'
_SLOWEST = f"max(histogram_quantile(0.99, sum by (method, le) (rate(psoup_call_seconds_bucket{_HERE}{_RATE}))))"
_ANY = (1e9, 1e10)
_GLANCE = (
    _Figure("Calls a second", f"sum(rate(psoup_calls_total{_HERE}{_RATE}))", "ops", _ANY),
    _Figure("Failed calls", f"sum(rate(psoup_calls_total{_FAILED}{_RATE})) or vector(0)", "ops", (0.1, 1)),
    _Figure("Slowest call, p99", _SLOWEST, "s", (1, 5)),
    _Figure("Rows pushed a second", f"sum(rate(psoup_pushed_tuples_total{_HERE}{_RATE}))", "ops", _ANY),
    _Figure("Furthest behind", f"max(psoup_freshness_seconds{_HERE})", "s", (60, 300)),
    _Figure("Events not applied", f"sum(psoup_queued_events{_HERE})", "short", (1_000, 10_000)),
    _Figure("Write-ahead log", f"sum(psoup_wal_bytes{_HERE})", "bytes", (128 * 2**20, 256 * 2**20)),
    _Figure("Disk full", f"max(psoup_short_of_disk{_HERE})", "short", (1, 1)),
)


def dashboard() -> str:
    """The dashboard, in JSON. Grafana asks at the import for the data source."""
    board = {
        "uid": UID,
        "title": "PSoup",
        "description": "Made by `make golden` from psoup_service/monitoring; `psoup config dashboard` prints it.",
        "tags": ["psoup"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [_source_variable(), _instance_variable()]},
        "panels": list(_numbered(_panels(families()))),
    }
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def section_of(family: Family) -> str:
    """The section of a metric; "More" if no section names it."""
    name = family.name.removeprefix("psoup_")
    places = [(len(start), title) for title, starts in SECTIONS.items() for start in starts if name.startswith(start)]
    return max(places)[1] if places else "More"


def _panels(listed: Sequence[Family]) -> Iterator[dict[str, Any]]:
    """The panels from top to bottom, each with its place."""
    yield _row("At a glance", 0)
    width, height = _FIGURE
    for number, figure in enumerate(_GLANCE):
        yield _figure(figure) | {"gridPos": {"x": number * width, "y": 1, "w": width, "h": height}}
    top = 1 + height
    for title in (*SECTIONS, "More"):
        members = [family for family in listed if section_of(family) == title]
        if not members:
            continue
        yield _row(title, top)
        top += 1
        width, height = _PANEL
        for number, family in enumerate(members):
            line, place = divmod(number, _WIDTH // width)
            where = {"x": place * width, "y": top + line * height, "w": width, "h": height}
            yield _panel(family) | {"gridPos": where}
        top += -(-len(members) // (_WIDTH // width)) * height


def _numbered(panels: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, panel in enumerate(panels, 1):
        yield {"id": number} | panel


def _row(title: str, top: int) -> dict[str, Any]:
    return {"type": "row", "title": title, "collapsed": False, "panels": []} | {
        "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1}
    }


def _figure(figure: _Figure) -> dict[str, Any]:
    limits = zip(("green", "yellow", "red"), (None, *figure.limits), strict=True)
    steps = [{"color": color, "value": value} for color, value in limits]
    return {
        "type": "stat",
        "title": figure.title,
        "datasource": _SOURCE,
        "targets": [_target("A", figure.query, "")],
        "fieldConfig": {
            "defaults": {"unit": figure.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "graphMode": "area"},
    }


def _panel(family: Family) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": _title(family),
        "description": family.meaning,
        "datasource": _SOURCE,
        "targets": [_target(chr(65 + at), query, legend) for at, (query, legend) in enumerate(_queries(family))],
        "fieldConfig": {"defaults": {"unit": _unit(family), "custom": {"fillOpacity": 10}}, "overrides": []},
        "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list", "placement": "bottom"}},
    }


def _target(name: str, query: str, legend: str) -> dict[str, Any]:
    return {"refId": name, "datasource": _SOURCE, "expr": query, "legendFormat": legend}


def _queries(family: Family) -> list[tuple[str, str]]:
    """The queries of a panel, each with its legend."""
    name = family.name.removeprefix("psoup_")
    if family.kind == "histogram":
        rate = f"sum by (le) (rate({family.name}_bucket{_HERE}[$__rate_interval]))"
        return [(f"histogram_quantile({share}, {rate})", title) for share, title in ((0.5, "p50"), (0.99, "p99"))]
    if family.kind == "counter":
        labels = _BY.get(name, ("instance",))
        rate = f"sum by ({', '.join(labels)}) (rate({family.name}_total{_HERE}[$__rate_interval]))"
        return [(rate, _legend(labels))]
    labels = _LABELS.get(name, ("instance",))
    value = f"rate({family.name}{_HERE}[$__rate_interval])" if family.grows else f"{family.name}{_HERE}"
    if _unit(family) == _MOMENT:
        value = f"{value} * 1000"  # Grafana shows moments in milliseconds
    return [(value, _legend(labels))]


def _legend(labels: Sequence[str]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _title(family: Family) -> str:
    words = family.name.removeprefix("psoup_").replace("_", " ")
    if family.kind == "histogram":
        return words.removesuffix(" seconds").capitalize()
    return f"{words.capitalize()} a second" if family.grows else words.capitalize()


def _unit(family: Family) -> str:
    if family.name.endswith("_bytes"):
        return "Bps" if family.grows else "bytes"
    if family.name.endswith("_after_seconds"):
        return _MOMENT
    if family.name.endswith("_seconds"):
        return "s"
    return "ops" if family.grows else "short"


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _instance_variable() -> dict[str, Any]:
    return {
        "name": "instance",
        "label": "Service",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": "label_values(psoup_sequence, instance)", "refId": "instances"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }
