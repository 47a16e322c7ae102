"""The checks that an engine makes itself. A broken structure stops the writer, and is not published.

    off      nothing
    cheap    after each run of events, and each installed task of maintenance: counts and ends of changed parts;
             counts of clauses and queries only after events that may change them; a push seldom does
    all      after each event: every structure of changed streams, and whether readers see the same

A failed check raises Corrupt, which names the last applied events (`story`). The level `all` also compares changed
results of closed chunks with the tuples. Only the engine's writer calls this module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from psoup.engine.maintenance.rules import overlooked
from psoup.engine.registry import Registry
from psoup.engine.stream.attention import Board
from psoup.engine.stream.checks import Checked, check_counts, check_coverage, check_shown
from psoup.engine.stream.publication import stale
from psoup.engine.stream.state import StreamState
from psoup.events.events import (
    Event,
    Pushed,
    QueriesAltered,
    RegisteredMany,
    Replaced,
    Unregistered,
    UnregisteredMany,
    WatermarkRaised,
    WatermarksRaised,
)
from psoup.events.lists import ListEvent
from psoup.invariants import Verify, corrupt, ensure
from psoup.published.snapshot import StreamView

STORY = 16
"""The number of events that the error of a failed check names."""

_ABOUT = {"Replaced": "of query", "Unregistered": "of query", "UnregisteredMany": "of queries, so many:"}
_ABOUT["QueriesAltered"] = "of queries, so many:"
_ABOUT["WatermarksRaised"] = "of streams, so many:"

Streams = Mapping[int, StreamState]
"""All streams, by their IDs."""


class Verification:
    """Checks of one engine; see the module."""

    def __init__(self, level: Verify, registry: Registry) -> None:
        self.level = level
        self._registry = registry
        self._story: deque[tuple[int, str, int]] = deque(maxlen=STORY)
        """The last events: sequence, kind and a number. The number is a stream ID, a query ID or a count of queries."""
        self._touched: set[int] = set()
        """Streams of the events since the last publication."""
        self._clauses_too = True
        """Whether clauses or queries may have changed since the last `_count`."""
        self._counted: dict[int, tuple[int, int]] = {}
        """The numbers of queries and clauses of each stream at its last check. The registry must have their sums."""
        self._queries = self._clauses = 0
        self._covered: dict[int, Checked] = {}

    @property
    def story(self) -> tuple[str, ...]:
        """The last events, as short texts."""
        return tuple(
            f"{sequence} {kind} {_ABOUT.get(kind, 'on stream')} {number}" for sequence, kind, number in self._story
        )

    def begin(self, event: Event) -> None:
        """Record an event before it is applied. O(1)."""
        if self.level == "off":
            return
        if isinstance(event, Pushed | WatermarkRaised):
            about = event.stream_id
            self._touched.add(about)
        elif isinstance(event, WatermarksRaised):
            about = len(event.stream_ids)
        elif isinstance(event, Unregistered):
            about, self._clauses_too = event.query_id, True
        elif isinstance(event, UnregisteredMany):
            about, self._clauses_too = event.count, True
        elif isinstance(event, QueriesAltered):
            about, self._clauses_too = len(event.query_ids), True
        elif isinstance(event, Replaced):
            about = int(event.later[0])
        elif isinstance(event, ListEvent):
            return
        else:
            about = event.stream_ids[0] if isinstance(event, RegisteredMany) else event.stream_id
            self._touched.add(about)
            self._clauses_too = True
        self._story.append((event.sequence, type(event).__name__, about))

    def touch(self, stream_id: int) -> None:
        """Record that maintenance has changed a stream."""
        self._touched.add(stream_id)
        self._clauses_too = True

    def touch_clauses(self) -> None:
        """Record that maintenance has changed clauses of streams that it changed, too."""
        self._clauses_too = True

    def finish(self, streams: Streams, changed: Iterable[int]) -> None:
        """Check the streams that a run of events or a task has changed. `changed`: streams that will be published."""
        if self.level == "off":
            return
        self._touched.update(changed)
        touched = {i: streams[i] for i in self._touched if i in streams}
        for state in touched.values():
            check_counts(state)
            self._clauses_too |= state.clauses.has_news
        if self._clauses_too:
            self._count(touched)
        if self.level == "all":
            self._registry.check(touched)
            for stream_id, state in touched.items():
                clauses = self._registry.clauses_of(stream_id)
                check_coverage(state, clauses, self._covered.setdefault(stream_id, {}))

    def published(
        self, streams: Streams, views: Mapping[int, StreamView], board: Board, changed: Iterable[int]
    ) -> None:
        """Check the views that readers will see. `changed`: the streams whose views are new, so need no cheap check."""
        if self.level == "cheap":
            for stream_id in self._touched.difference(changed):
                if stream_id in streams:
                    check_shown(streams[stream_id], views[stream_id])
        elif self.level == "all":
            for stream_id, state in streams.items():
                hidden = stale(views[stream_id], state.view())
                ensure(not hidden, state, f"readers do not see {', '.join(hidden)}", stream=stream_id)
                forgotten = [] if board.may_be_due(stream_id) else overlooked(state)
                ensure(not forgotten, state, f"the work of {', '.join(forgotten)} is overlooked", stream=stream_id)
        self._touched.clear()

    def drop(self, stream_id: int) -> None:
        """Subtract the counts of a dropped stream from the sums."""
        queries, clauses = self._counted.pop(stream_id, (0, 0))
        self._queries = self._queries - queries
        self._clauses = self._clauses - clauses
        self._covered.pop(stream_id, None)

    def _count(self, touched: Streams) -> None:
        """Check the clauses of changed streams, and that the registry has the sums over all streams."""
        for stream_id, state in touched.items():
            state.clauses.check_counts()
            now = state.clauses.queries, len(state.clauses.table)
            before = self._counted.get(stream_id, (0, 0))
            self._counted[stream_id] = now
            self._queries += now[0] - before[0]
            self._clauses += now[1] - before[1]
        registered, here = self._registry.counts, (self._queries, self._clauses)
        if registered != here:
            problem = "queries or clauses are not those of the streams"
            raise corrupt(self._registry, problem, registered=registered, on_streams=here)
        self._clauses_too = False
