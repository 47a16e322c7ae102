"""The engine: the query-data join over its State Modules, driven by events.

    apply(run of events) ── pushes ───> release ─> Data SteM ─> probe the Query SteM ─> open results
                         ├─ register ─> Query SteM ─> cover the open chunk (sealed ones in the background)
                         └─ publish ──> Snapshot, one swap of the root

`apply` cannot fail and is the only mutator beside `install`, which takes in the results of maintenance; both belong to
one writer. Anyone may take `snapshot()` at any time. No I/O, no clock, no threads: `run` is the port through which a
host lends its pool. (PSoup sections 3.2 and 4.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from psoup.answer.snapshot import ClauseRecord, QueryRecord, Snapshot, StreamView
from psoup.config import EngineConfig
from psoup.events import (
    Effects,
    Event,
    Pushed,
    Registered,
    StreamCreated,
    StreamDropped,
    Unregistered,
    WatermarkRaised,
)
from psoup.maintenance import Installable, Task, next_task
from psoup.stems.paged import Editor, PagedMap
from psoup.stems.piece import Runner, serial
from psoup.stream_state import StreamState


class Engine:
    """All streams and queries of one service.

    Rely on: an event's effects become visible as a whole, in sequence order; a snapshot never changes.
    Given up: effects of a run of events become visible together, at its end.
    """

    def __init__(self, config: EngineConfig = EngineConfig(), run: Runner = serial) -> None:
        self.config = config
        self._run = run
        self._sequence = 0
        self._next_sqc = 1
        self._streams: dict[int, StreamState] = {}
        self._queries: Editor[QueryRecord] = PagedMap[QueryRecord]().edit()
        self._clauses: Editor[ClauseRecord] = PagedMap[ClauseRecord]().edit()
        self._by_text: dict[tuple[int, str], int] = {}
        self._views: dict[int, StreamView] = {}
        self._snapshot = self._publish()

    def snapshot(self) -> Snapshot:
        """The published root. O(1), from any thread."""
        return self._snapshot

    def apply(self, events: Sequence[Event]) -> Effects:
        """Apply consecutive events and publish. Pushes between two changes of the queries are evaluated together."""
        freed = 0
        released: dict[int, int] = {}
        touched: dict[int, StreamState] = {}
        for event in events:
            assert event.sequence > self._sequence, f"event {event.sequence} after {self._sequence}"
            self._sequence = event.sequence
            match event:
                case Pushed() | WatermarkRaised():
                    state = self._streams[event.stream_id]
                    state.take(event)
                    touched[event.stream_id] = state
                case StreamCreated():
                    self._streams[event.stream_id] = StreamState(event, self.config, self._next_sqc)
                case StreamDropped():
                    freed += self._drop(event.stream_id, touched)
                case Registered() | Unregistered():
                    freed += self._advance(touched, released)
                    self._change_queries(event)
                case _:
                    assert_never(event)
        freed += self._advance(touched, released)
        for state in self._streams.values():
            state.cover_new(self._run)
        self._snapshot = self._publish()
        return Effects(self._sequence, freed, released)

    def maintenance(self, *, everything: bool = False) -> Task | None:
        """The next piece of work that is due, or None. Called by the writer; its `compute` by anyone.

        With `everything`, also what is not yet worth its cost: tests and idle hours drain to the last byte.
        """
        for state in self._streams.values():
            task = next_task(state, everything=everything)
            if task is not None:
                return task
        return None

    def install(self, result: Installable) -> None:
        """Take in what a task computed, if its stream still stands as it did; publishes."""
        state = self._streams.get(result.stream_id)
        if state is not None and result.install(state):
            self._keep_budget()
            self._snapshot = self._publish()

    def check(self) -> None:
        """Every invariant of every structure."""
        clauses = dict(self._clauses.freeze().items())
        members = {q for c in clauses.values() for q, _ in c.members.items()}
        queries = {i for i, _ in self._queries.freeze().items()}
        assert members == queries, f"clauses name {len(members)} queries, {len(queries)} stand"
        assert len(self._by_text) == len(clauses), (len(self._by_text), len(clauses))
        for state in self._streams.values():
            state.check([c for c in clauses.values() if c.stream_id == state.stream_id])

    def bill(self) -> dict[str, int]:
        """Bytes of each structure, live and reclaimable."""
        total = {"queries": len(self._queries), "clauses": len(self._clauses)}
        for state in self._streams.values():
            for name, count in state.bill().items():
                total[name] = total.get(name, 0) + count
        return total

    def _advance(self, touched: dict[int, StreamState], released: dict[int, int]) -> int:
        freed = 0
        for stream_id, state in touched.items():
            state.cover_new(self._run)
            released[stream_id] = released.get(stream_id, 0) + state.advance(self._run, self._next_sqc)
            freed += state.expire()
        touched.clear()
        return freed

    def _drop(self, stream_id: int, touched: dict[int, StreamState]) -> int:
        touched.pop(stream_id, None)
        self._views.pop(stream_id, None)
        return self._streams.pop(stream_id).data.nbytes

    def _change_queries(self, event: Registered | Unregistered) -> None:
        if isinstance(event, Registered):
            self._register(event)
        else:
            self._unregister(event.query_id)

    def _register(self, event: Registered) -> None:
        state = self._streams[event.stream_id]
        identity = (event.stream_id, event.query.clause)
        sqc_id = self._by_text.get(identity)
        if sqc_id is None:
            sqc_id = self._by_text[identity] = self._next_sqc
            self._next_sqc += 1
            clause = state.add_clause(sqc_id, event.query.factors)
        else:
            known = self._clauses.get(sqc_id)
            assert known is not None
            clause = known
        members = clause.members.edit()
        members.set(event.query_id, True)
        self._clauses.set(sqc_id, replace(clause, members=members.freeze()))
        record = QueryRecord(
            event.query_id,
            event.tenant,
            event.stream_id,
            sqc_id,
            clause.slot,
            event.query,
            event.time,
            event.sequence,
        )
        self._queries.set(event.query_id, record)
        state.queries += 1

    def _unregister(self, query_id: int) -> None:
        record = self._queries.get(query_id)
        assert record is not None, f"query {query_id} is not there"
        self._queries.remove(query_id)
        clause = self._clauses.get(record.sqc_id)
        assert clause is not None
        state = self._streams[record.stream_id]
        state.queries -= 1
        members = clause.members.edit()
        members.remove(query_id)
        if len(members):
            self._clauses.set(record.sqc_id, replace(clause, members=members.freeze()))
            return
        self._clauses.remove(record.sqc_id)
        del self._by_text[record.stream_id, record.query.clause]
        state.remove_clause(clause.sqc_id, clause.slot)

    def _keep_budget(self) -> None:
        """Give up the oldest sealed results while all results are over their budget."""
        over = sum(state.results_bytes for state in self._streams.values()) - self.config.results_bytes
        for state in self._streams.values():
            if over <= 0:
                return
            over -= state.give_up(over)

    def _publish(self) -> Snapshot:
        for stream_id, state in self._streams.items():
            if state.changed or stream_id not in self._views:
                self._views[stream_id] = state.view()
        by_id = dict(self._views)
        streams = {(view.tenant, view.spec.name.lower()): view for view in by_id.values()}
        return Snapshot(self._sequence, streams, by_id, self._queries.freeze(), self._clauses.freeze(), self.config)
