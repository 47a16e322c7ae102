"""Figures for the operator: the load of the service, its refusals, its health.

    calls, host, readers ──> metrics, tenant_figures, table_sizes ──> probes: /metrics, /healthz, /readyz
    event loop ──> watchdog ──> metrics

Files, in reading order:

    metrics           counters, latencies and gauges, in a registry of the service's own
    tenant_figures    quotas and refusals by tenant
    table_sizes       keys and entries of the largest tables
    thread_wake_ups   wake-ups of each thread
    watchdog          delays of the event loop, and the callbacks that caused them
    probes            the HTTP port of metrics and health, on threads of its own

Never here: a decision about a call, an import of the host.
Not for: costs of single queries (`psoup.answer.figures`).
"""
