"""Metrics for the operator: counters, latencies and gauges, in a registry of the service's own.

    calls, batches, answers, stalls    counted here as they end
    FIGURES of host and snapshot       read at each scrape; nothing is counted twice

Labels are names of calls and of codes: not of streams or queries, whose number has no bound. `probes` shows them over
HTTP. Some have rows of their own, at most a hundred of each kind: tenants with quotas (`tenant_figures`), the largest
tables (`table_sizes`), and derived streams with the greatest lag (`derived_figures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from psoup.budgets import BUDGETS
from psoup.errors import PSoupError
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.published.snapshot import Snapshot
from psoup.pumps.progress import Progress
from psoup_service.figures.call_notes import NOTES
from psoup_service.figures.derived_figures import DerivedFigures
from psoup_service.figures.durations import SECONDS, StageDurations, StageTimes
from psoup_service.figures.query_amounts import QueryAmounts
from psoup_service.figures.stream_delays import StreamDelays
from psoup_service.figures.table_sizes import TableSizes
from psoup_service.figures.tenant_figures import TenantFigures, Usage
from psoup_service.figures.thread_wake_ups import ThreadWakeUps

FIGURES = {
    "ahead_refused": "Folds ahead of readers that a budget has refused since the start",
    "applied": "Sequence of the last event that readers see",
    "archive_bytes": "Memory of archived chunks, whose tuples are on disk",
    "archived_tuples": "Tuples that are on disk only",
    "background_errors": "Errors that have ended a background task since the start; each is started again",
    "clauses": "Different FROM-WHERE parts of standing queries",
    "clauses_left_index": "Clauses that left the index since the start, as they could not be evaluated",
    "rows_expired": "Rows of tables that were deleted since the start, as their time had come (EXPIRES BY)",
    "clock_heartbeats": "Events by which watermarks have followed the clock since the start (WATERMARK BY CLOCK)",
    "clock_ahead_seconds": "Seconds by which the wall clock is ahead while a step of it is not followed, else 0",
    "clock_behind_seconds": "Seconds by which the clock is before the last event, or the greatest time so far, else 0",
    "clock_steps": "Steps of the wall clock, forward by more than a minute, since the start",
    "copy_dropped": "Times that events left the queue of the copy for want of room; a base image has them",
    "copy_lag_events": "Events that are on the disk and not in the copy yet (replicate); 0 without a copy",
    "copy_lag_seconds": "Seconds since the oldest event that is not in the copy yet",
    "copy_objects": "Segments and lists of base images in the copy",
    "copy_stopped": "1 if nothing is copied any more, as after another writer took a number; else 0",
    "derived_failures": "Steps of derived streams that failed since the start; each is done again",
    "derived_rows": "Rows that were derived since the start (CREATE STREAM … AS)",
    "derived_steps": "Steps of derived streams that were done since the start",
    "derived_streams": "Derived streams (CREATE STREAM … AS)",
    "dear_clauses_left_index": "Clauses that left the index since the start, as a query took too much time of arrival",
    "dear_queries": "Queries that took more than warn_share of the time of arrival at the last look",
    "eager_queries": "COMPLETE queries whose kept answers are updated after new tuples",
    "eager_updates": "Updates of the kept answers of eager queries since the start",
    "eager_updates_refused": "Updates of eager answers that a budget or an error has ended since the start",
    "events": "Events logged since the start",
    "follow_lag_tuples": "Tuples that the follower furthest behind has not been told",
    "follow_looks": "Looks for new matches of followers since the start",
    "followers": "Clients that follow streams",
    "groups": "Groups of events logged since the start, each with one write to the disk",
    "held_calls": "Calls that wait for their turn at the event loop",
    "installed": "Pieces of maintenance installed since the start",
    "kept_answers": "Answers of COMPLETE queries that are kept",
    "kept_answers_bytes": "Memory of kept answers",
    "kept_answers_given_up": "Kept answers that were given up since the start, as they change too much or have no room",
    "late_kernels": "Kernels that were compiled while clients waited, since the start; none should be",
    "pending": "Tuples that wait for the watermark",
    "pending_commands": "Commands accepted and not answered yet",
    "pending_reads": "Reads accepted and not answered yet",
    "pinned_bytes": "Memory of chunks that only slow readers of answers in pieces still hold",
    "pinning_streams": "Answers in pieces that hold chunks",
    "producer_bytes": "Memory of facts about producers, so that no batch is taken twice",
    "queries": "Standing queries",
    "queued_bytes": "Bytes of commands accepted and not applied yet",
    "queued_events": "Events logged and not applied yet",
    "reads_aside": "Long reads that have stepped aside for short ones",
    "receiving_bytes": "Bytes charged for requests on their way in",
    "reserved_bytes": "Bytes of accepted tuples that retention has not freed",
    "results_bytes": "Memory of the results of all queries",
    "results_offered": "Results that were given up, evaluated by readers and kept again since the start",
    "runs": "Runs of events applied since the start, each published once",
    "sequence": "Sequence of the last event that was accepted",
    "short_of_disk": "1 while commands are refused, as the disk has no room; else 0",
    "sort_bytes": "Memory of answers that are being sorted",
    "spans_dropped": "Spans that no collector took since the start (otlp_endpoint)",
    "spans_sent": "Spans that a collector took since the start (otlp_endpoint)",
    "spooled_pushes": "Large pushes whose tuples went to the disk in pieces since the start",
    "store_bytes": "Bytes of the data directory",
    "streams": "Streams",
    "streams_behind": "Answers in pieces that were ended since the start, as their client did not read them",
    "table_rows": "Rows that queries of tables see at present",
    "table_versions": "Versions and deletions that tables keep",
    "tables": "Tables, which are counted among the streams, too",
    "tls_not_after_seconds": "When the certificate in use ends, in seconds since 1970; 0 without TLS",
    "tuples": "Tuples in streams, archived ones among them",
    "tuples_bytes": "Memory of tuples",
    "wal_bytes": "Bytes of the file of the write-ahead log",
    "watch_rounds": "Checks for news of watching clients since the start",
    "watchers": "Clients that watch answers",
    "webhook_age_seconds": "Age of the oldest delivery that waits for its receiver, without paused webhooks, else 0",
    "webhook_deliveries": "Deliveries of webhooks that receivers have taken since the start",
    "webhook_failures": "Attempts of deliveries that failed since the start; each is made again",
    "webhooks": "Webhooks that tenants have added, paused ones among them",
    "webhooks_failed": "Webhooks that the service has paused, as their receivers took nothing for three days",
    "webhooks_waiting": "Webhooks with a delivery that their receiver has not taken yet",
    "watermark_jumps": "Watermarks that got a minute past the clock since the start",
}
"""The meaning of each figure of the host and the snapshot; `psoup_` goes before the names."""


class _Gauges(Collector):
    """The figures that the host keeps, as gauges that are read at each scrape."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, value in sorted(self._read().items()):
            yield GaugeMetricFamily(f"psoup_{name}", FIGURES[name], value=value)


class _Lags(Collector):
    """Tuples behind the newest one, for each follower or group, read at each scrape. `role`: the label of its name."""

    def __init__(self, role: str, meaning: str, read: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        self._role = role
        self._meaning = meaning
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        labels = ["tenant", "stream", self._role]
        lags = GaugeMetricFamily(f"psoup_{self._role}_lag_tuples", self._meaning, labels=labels)
        for names, lag in sorted(self._read().items()):
            lags.add_metric(names, lag)
        yield lags


class Metrics:
    """The service's metrics. `figures` gives the gauges; it is called on the metrics thread."""

    def __init__(self, figures: Callable[[], Mapping[str, int]] = dict) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Gauges(figures))
        self.registry.register(ThreadWakeUps())
        self._of_tenants: TenantFigures | None = None
        labels, meaning = ["method", "code", "protocol"], "Calls that ended, over grpc, http or pg"
        self._calls = Counter("psoup_calls", meaning, labels, registry=self.registry)
        self._seconds = Histogram(
            "psoup_call_seconds",
            "Seconds from the arrival of a unary call to its reply",
            ["method", "protocol"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.open = Gauge("psoup_open_calls", "Calls under way", registry=self.registry)
        self._batches = Counter(
            "psoup_pushed_batches", "Batches of tuples that were taken, each once", registry=self.registry
        )
        self._tuples = Counter("psoup_pushed_tuples", "Tuples that were taken, each once", registry=self.registry)
        self._bytes = Counter("psoup_pushed_bytes", "Bytes of Arrow IPC of batches taken", registry=self.registry)
        self._refused = Counter(
            "psoup_refused_tuples",
            "Tuples refused, as they came too late or from too far ahead of the clock",
            ["why"],
            registry=self.registry,
        )
        self._rows = Counter("psoup_answered_rows", "Rows of all answers that were given", registry=self.registry)
        self._stalls = Counter(
            "psoup_loop_stalls",
            "Turns of the event loop that used over 50 ms of processor time",
            registry=self.registry,
        )
        self._lag = Histogram(
            "psoup_loop_lag_seconds",
            "How late the event loop comes to a timer",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._ended: dict[tuple[str, str, str], Counter] = {}
        self._timed: dict[tuple[str, str], Histogram] = {}
        self._late, self._ahead = self._refused.labels("late"), self._refused.labels("ahead")

    @cached_property
    def _over_budget(self) -> Counter:
        return Counter(
            "psoup_refused_by_budget",
            "Calls, and answers of calls for many, refused by a budget, by its name",
            ["budget"],
            registry=self.registry,
        )

    def list_all(self) -> None:
        """Show the metrics that are otherwise shown from their first value on."""
        _ = self._over_budget

    def by_follower(self, lags: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        """Add the lag of each named follower. `lags`: returns it by tenant, stream and name; from any thread."""
        self.registry.register(_Lags("follower", "Tuples that a named follower has not been told", lags))

    def by_group(self, lags: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        """Add the lag of each group of followers. `lags`: as for `by_follower`."""
        self.registry.register(_Lags("group", "Tuples that a group of followers has not confirmed", lags))

    def by_pg_connection(self, connections: Collector) -> None:
        """Show the connections of clients of PostgreSQL. `connections`: see `pg_connections`."""
        self.registry.register(connections)

    def by_snapshot(
        self,
        snapshot: Callable[[], Snapshot | None],
        clock: Callable[[], int],
        progress: Callable[[int], Progress | None],
    ) -> None:
        """Show the figures of the present snapshot: queries by amount, the streams furthest behind, the largest tables,
        and the derived streams with the greatest lag.

        `snapshot`: as in `TableSizes`. `clock`: as in `StreamDelays`. `progress`: as in `DerivedFigures`.
        """
        self.registry.register(QueryAmounts(snapshot))
        self.registry.register(TableSizes(snapshot))
        self.registry.register(StreamDelays(snapshot, clock))
        self.registry.register(DerivedFigures(snapshot, progress))

    def by_stage(self, times: StageTimes) -> None:
        """Show the durations of the stages that commands pass."""
        self.registry.register(StageDurations(times))

    def by_tenant(self, usage: Usage) -> None:
        """Show each tenant's use of its quotas, and its refusals, from now on."""
        self._of_tenants = TenantFigures(usage)
        self.registry.register(self._of_tenants)

    def call_ended(self, method: str, code: str, protocol: str, seconds: float | None) -> None:
        """Count a call. `seconds`: None for a streaming call, whose duration says nothing about the service."""
        counter = self._ended.get((method, code, protocol))
        if counter is None:
            counter = self._ended[method, code, protocol] = self._calls.labels(method, code, protocol)
        counter.inc()
        if seconds is None:
            return
        timed = self._timed.get((method, protocol))
        if timed is None:
            timed = self._timed[method, protocol] = self._seconds.labels(method, protocol)
        timed.observe(seconds)

    def pushed(self, pushes: Sequence[PushAcknowledgement], size: int) -> None:
        """Count batches of `size` bytes. A duplicate is not counted, because it was counted when it was taken."""
        new = [push for push in pushes if not push.duplicate]
        if not new:
            return
        accepted, late, ahead = (sum(getattr(push, name) for push in new) for name in ("accepted", "late", "ahead"))
        notes = NOTES.get()
        if notes is not None:
            notes.rows += accepted
        self._batches.inc(len(new))
        self._tuples.inc(accepted)
        self._bytes.inc(size)
        if late:
            self._late.inc(late)
        if ahead:
            self._ahead.inc(ahead)

    def refused(self, error: PSoupError) -> None:
        """Count the refusal of a call, or of one answer among many, by a quota or a budget. Any thread may call it."""
        if self._of_tenants is not None:
            self._of_tenants.refused(error)
        if (budget := error.facts.get("budget")) in BUDGETS:
            self._over_budget.labels(budget).inc()

    def loop_lag(self, seconds: float) -> None:
        """Count how late a timer of the event loop was."""
        self._lag.observe(seconds)

    def loop_stalled(self) -> None:
        """Count a stall of the event loop."""
        self._stalls.inc()

    def answered(self, rows: int) -> None:
        """Count the rows of an answer, or of a piece of one."""
        self._rows.inc(rows)
        notes = NOTES.get()
        if notes is not None:
            notes.rows += rows
