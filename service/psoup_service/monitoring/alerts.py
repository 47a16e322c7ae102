"""The alert rules of Prometheus: one list, and its text as a file of rules.

An alert says what is wrong, for how long, and what the operator should do. `critical`: answers or pushes fail now.
`warning`: they will fail, or they are slow.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule. `holds`: the condition, in PromQL. `lasts`: the time for which it must hold, such as "5m".

    `summary`: the problem in one sentence. `advice`: the next step of the operator, with the document that explains it.
    """

    name: str
    severity: Literal["critical", "warning"]
    holds: str
    lasts: str
    summary: str
    advice: str


_LONG = "QueryService/WaitForSequence|GroupService/TakeBatch|AttachService/.*|CoverService/.*"
"""Calls that take long by their purpose."""
_P99 = "histogram_quantile(0.99, sum by (instance, le) (rate({}_bucket[5m])))"

ALERTS: tuple[Alert, ...] = (
    Alert(
        "PSoupAbsent",
        "critical",
        "absent(psoup_sequence)",
        "2m",
        "No service of PSoup is scraped.",
        "Look whether it runs, and whether metrics_port is set (docs/operations.md, Probes and metrics).",
    ),
    Alert(
        "PSoupDiskFull",
        "critical",
        "psoup_short_of_disk == 1",
        "1m",
        "Commands are refused, as the disk has no room.",
        "Free space on the disk of the data directory; pushes go on by themselves (docs/operations.md).",
    ),
    Alert(
        "PSoupNotApplying",
        "critical",
        "psoup_queued_events > 0 and on (instance, job) delta(psoup_applied[5m]) == 0",
        "5m",
        "Events are logged, and readers do not see them.",
        "Read the service log; after a failure of its own, /healthz says why. Restart the service.",
    ),
    Alert(
        "PSoupInternalErrors",
        "critical",
        'sum by (instance, method) (rate(psoup_calls_total{code="INTERNAL"}[5m])) > 0',
        "5m",
        "Calls of {{ $labels.method }} fail by a defect of the service.",
        "The service log has the error of each; please report it.",
    ),
    Alert(
        "PSoupBackgroundErrors",
        "warning",
        "delta(psoup_background_errors[30m]) > 0",
        "0m",
        "A background task has failed and was started again.",
        "/readyz names a task that keeps failing (docs/operations.md, Probes and metrics).",
    ),
    Alert(
        "PSoupStale",
        "warning",
        "psoup_freshness_seconds > 300",
        "10m",
        "Stream {{ $labels.stream }} of {{ $labels.tenant }} is {{ $value | humanizeDuration }} behind the clock.",
        "Its producers are silent or late; without tuples, heartbeats move its time on (docs/windows.md).",
    ),
    Alert(
        "PSoupDerivedStopped",
        "warning",
        "psoup_derived_stream_stopped > 0",
        "0m",
        "The derived stream {{ $labels.stream }} of {{ $labels.tenant }} has stopped, as its steps failed.",
        "psoup stream show says why; ALTER STREAM … RESUME starts it again (docs/derived.md).",
    ),
    Alert(
        "PSoupDerivedLate",
        "warning",
        "psoup_derived_stream_late > 0",
        "10m",
        "The derived stream {{ $labels.stream }} of {{ $labels.tenant }} is late: its lag is more than LAG AT MOST.",
        "psoup stream show names the source that holds it back (docs/derived.md).",
    ),
    Alert(
        "PSoupSlowDisk",
        "warning",
        f"{_P99.format('psoup_log_sync_seconds')} > 0.5",
        "10m",
        "Writing to the log takes {{ $value | humanizeDuration }} (99th percentile).",
        "The disk is slow or shared; every acknowledgement waits for it.",
    ),
    Alert(
        "PSoupCommandsWait",
        "warning",
        f"{_P99.format('psoup_command_wait_seconds')} > 1",
        "10m",
        "Commands wait {{ $value | humanizeDuration }} for their turn (99th percentile).",
        "Send less at once, or raise queue_mib and pending (docs/operations.md, Settings).",
    ),
    Alert(
        "PSoupSlowApply",
        "warning",
        f"{_P99.format('psoup_apply_seconds')} > 2",
        "10m",
        "Readers see new tuples {{ $value | humanizeDuration }} late (99th percentile of a run).",
        "psoup top shows the queries that take most of the time of arrival (docs/operations.md).",
    ),
    Alert(
        "PSoupSlowCalls",
        "warning",
        "histogram_quantile(0.99, sum by (instance, method, le) (rate(psoup_call_seconds_bucket"
        f'{{method!~"{_LONG}"}}[5m]))) > 2',
        "10m",
        "Calls of {{ $labels.method }} take {{ $value | humanizeDuration }} (99th percentile).",
        "The service log lists slow calls by the form of their statement (docs/observability.md).",
    ),
    Alert(
        "PSoupLogGrows",
        "warning",
        "psoup_wal_bytes > 268435456",
        "15m",
        "The write-ahead log has {{ $value | humanize1024 }}B, and some 50 MiB are usual.",
        "A full disk, or a tool that reads psoup.db, keeps it from being moved to the database.",
    ),
    Alert(
        "PSoupRefusals",
        "warning",
        "sum by (instance, budget) (rate(psoup_refused_by_budget_total[5m])) > 0.1",
        "15m",
        "Calls are refused by the budget {{ $labels.budget }}.",
        "docs/operations.md (Budgets) names the setting that raises it.",
    ),
    Alert(
        "PSoupTenantNearQuota",
        "warning",
        "psoup_tenant_used / on (instance, job, tenant, quota) psoup_tenant_limit > 0.9",
        "15m",
        "Tenant {{ $labels.tenant }} uses over 90 % of its quota {{ $labels.quota }}.",
        "psoup tenant usage shows its use, psoup tenant alter changes the quota (docs/security.md).",
    ),
    Alert(
        "PSoupLoopStalls",
        "warning",
        "rate(psoup_loop_stalls_total[10m]) > 0.1",
        "10m",
        "The event loop is blocked again and again.",
        "The service log names the cause of each stall; please report it.",
    ),
    Alert(
        "PSoupDearQueries",
        "warning",
        "psoup_dear_queries > 0",
        "15m",
        "{{ $value }} queries take most of the time of arriving tuples.",
        "psoup top names them (docs/operations.md, A query that cannot be evaluated).",
    ),
    Alert(
        "PSoupClockStepped",
        "warning",
        "psoup_clock_ahead_seconds > 0 or psoup_clock_behind_seconds > 60",
        "5m",
        "The wall clock was set, and the service does not follow it.",
        "Set the clock right, or accept it (docs/operations.md, The clock).",
    ),
    Alert(
        "PSoupCertificateEnds",
        "warning",
        "psoup_tls_not_after_seconds > 0 and psoup_tls_not_after_seconds - time() < 1209600",
        "1h",
        "The certificate in use ends in less than two weeks.",
        "Replace its files; the service reads them again by itself (docs/operations.md, TLS).",
    ),
    Alert(
        "PSoupWebhooksLate",
        "warning",
        "psoup_webhook_age_seconds > 3600",
        "10m",
        "A webhook's receiver has taken nothing for {{ $value | humanizeDuration }}.",
        "Look at the receiver; after three days the service pauses the webhook (docs/operations.md).",
    ),
    Alert(
        "PSoupWebhooksPaused",
        "warning",
        "psoup_webhooks_failed > 0",
        "0m",
        "{{ $value }} webhooks are paused, as their receivers took nothing for three days.",
        "Mend the receiver, then let the service deliver again (docs/operations.md).",
    ),
    Alert(
        "PSoupSpansDropped",
        "warning",
        "rate(psoup_spans_dropped[10m]) > 0",
        "15m",
        "Traces are lost, as the collector does not take them.",
        "Look at the collector of otlp_endpoint, or lower otlp_sample (docs/observability.md).",
    ),
)
"""All rules, the gravest first."""


def rules() -> str:
    """The file of rules for Prometheus, in YAML."""
    lines = ["# Made by `make golden` from psoup_service/monitoring/alerts.py; `psoup config alerts` prints it."]
    lines += ["groups:", "  - name: psoup", "    rules:"]
    for alert in ALERTS:
        lines += [f"      - alert: {alert.name}", f"        expr: {_text(alert.holds)}", f"        for: {alert.lasts}"]
        lines += ["        labels:", f"          severity: {alert.severity}", "        annotations:"]
        lines += [f"          summary: {_text(alert.summary)}", f"          description: {_text(alert.advice)}"]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """A text as a scalar of YAML, quoted as in JSON."""
    return json.dumps(text, ensure_ascii=False)
