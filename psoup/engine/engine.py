"""The engine: the query-data join over its State Modules, driven by events.

    apply(run of events) ── pushes ───> release ─> Data SteM ─> probe the Query SteM ─> open results
                         ├─ register ─> Query SteM ─> cover the open chunk (sealed ones in the background)
                         └─ publish ──> Snapshot, one swap of the root

`apply` cannot fail. Events change the engine only through `apply`, and results of maintenance only through `install`;
one writer calls both. Clauses whose evaluation raises leave the index, and `news` reports them. `precautions` name the
clauses that failed before the last start. Any thread may call `snapshot()` at any time. The engine has no I/O, clock or
threads: the port `run` is the host's thread pool, and the port `keep` stores closed chunks. (PSoup sections 3.2, 4.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from psoup.clauses.quarantine import LeftIndex, Precautions
from psoup.config import EngineConfig
from psoup.data.chunk import Keep, Thin
from psoup.engine.alter import alter
from psoup.engine.amount_choice import ChoiceInstaller
from psoup.engine.attach import attach
from psoup.engine.lists import Lists
from psoup.engine.maintenance import thin
from psoup.engine.maintenance.agenda import Agenda, Choose, longest_ago
from psoup.engine.maintenance.offers import StreamOffers
from psoup.engine.maintenance.rules import overlooked
from psoup.engine.maintenance.task import Installable, Task
from psoup.engine.registry import Registry
from psoup.engine.rooms import BEHIND_SHARE, RELIEF_SHARE, Rooms
from psoup.engine.spent import Spent
from psoup.engine.stream.attention import Attention, Board
from psoup.engine.stream.pins import SourcePins
from psoup.engine.stream.publication import stale
from psoup.engine.stream.state import StreamState
from psoup.engine.stream.watermarks import take_watermarks
from psoup.engine.verification import Verification
from psoup.errors import Corrupt
from psoup.events.acknowledgements import Effects
from psoup.events.change import replacements
from psoup.events.events import (
    Attached,
    Event,
    Pushed,
    QueriesAltered,
    QueryEvent,
    Registered,
    RegisteredMany,
    Replaced,
    StreamAltered,
    StreamCreated,
    StreamDropped,
    Unregistered,
    UnregisteredMany,
    WatermarkRaised,
    WatermarksRaised,
)
from psoup.events.tenants import kept_bytes_of
from psoup.invariants import Verify, ensure
from psoup.published.automatic import AmountChoice
from psoup.published.parked_queries import Registrations
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array
from psoup.work.runner import Runner, serial

_NAMED = 8
"""The most query IDs in a message for the operator."""


class Engine:
    """All streams and queries of one service.

    Readers see all effects of a run of events at one moment, at its end. A snapshot never changes.
    """

    def __init__(
        self,
        config: EngineConfig = EngineConfig(),
        run: Runner = serial,
        keep: Keep | None = None,
        others: Callable[[], int] = int,
        verify: Verify = "cheap",
        timer: Callable[[], float] = float,
        edge: Callable[[], int | None] = lambda: None,
        thin: Thin | None = None,
        log: Registrations | None = None,
    ) -> None:
        """`others`: returns the bytes that the memory budget is charged for all but tuples. The writer calls it.

        `timer`: returns the thread's time in seconds, to measure the work for each tenant (`Effects.spent`). `verify`:
        the level of the engine's checks (`psoup.engine.verification`). `edge`: returns an upper bound of the time by
        which tuples of streams in system time expire, or None. The writer's thread calls it. `thin`: replaces the files
        of thinned chunks; needed with `keep` if a chunk is ever thinned. `log`: where parked queries are read.
        """
        self.config = config
        self._run = run
        self._spent = Spent(timer)
        self._edge = edge
        self._keep = keep
        self._thin = thin
        self._sequence = 0
        self._streams: dict[int, StreamState] = {}
        self._archiving: dict[int, StreamState] = {}
        """The streams that have an archive."""
        self._registry = Registry(config.shape, log)
        self.recalled = self._registry.recalled
        self._verification = Verification(verify, self._registry)
        self._precautions = Precautions()
        self._news: list[LeftIndex] = []
        self._board = Board()
        self._views: dict[int, StreamView] = {}
        self._named: dict[tuple[str, str], StreamView] = {}
        self._rooms = Rooms(config, self._board, lambda name: kept_bytes_of(self._lists.tenants, name), others)
        self._agenda = Agenda(self._board, self._rooms.kept)
        self._choices = ChoiceInstaller(self._registry, self._rooms, self._spent, self._verification)
        self.offers = self._rooms.offers
        self._lists = Lists()
        self._snapshot = self._publish()

    def take_precautions(self, precautions: Precautions) -> None:
        """Set the host's list of forbidden clauses. The host calls it before the first event, and to end its watch."""
        self._precautions = precautions

    def news(self) -> list[LeftIndex]:
        """Return the clauses that left the index since the last call, with reasons. Only the writer calls this."""
        news, self._news = self._news, []
        return news

    def kept_out(self) -> dict[int, list[str]]:
        """The digests of expressions that must be in quarantine at the next start, too, by stream ID."""
        return {i: sorted(state.clauses.kept) for i, state in self._streams.items() if state.clauses.kept}

    def snapshot(self) -> Snapshot:
        """The published snapshot. Any thread may call this. O(1)."""
        return self._snapshot

    def apply(self, events: Sequence[Event]) -> Effects:
        """Apply consecutive events and publish. Pushes between two changes of queries are evaluated in one step.

        Raises Corrupt if a check finds a broken structure. Then nothing is published, and the caller must stop.
        """
        try:
            return self._apply(events) if self._verification.level != "all" else self._one_by_one(events)
        except Corrupt as problem:
            raise problem.after(self._verification.story) from problem

    def _one_by_one(self, events: Sequence[Event]) -> Effects:
        """Apply each event as a separate run, so that all checks follow each event."""
        freed = 0
        released: dict[int, int] = {}
        spent = Spent(self._spent.now)
        for event in events:
            effects = self._apply([event])
            freed += effects.freed_bytes
            spent.put_back(effects)
            for stream_id, count in effects.released.items():
                released[stream_id] = released.get(stream_id, 0) + count
        return spent.taken(Effects(self._sequence, freed, released))

    def _apply(self, events: Sequence[Event]) -> Effects:
        freed = 0
        released: dict[int, int] = {}
        fed: dict[int, StreamState] = {}
        changed_streams: dict[int, StreamState] = {}
        for event in events:
            ensure(event.sequence > self._sequence, self, "events go back", event=event.sequence, after=self._sequence)
            self._sequence = event.sequence
            self._verification.begin(event)
            if isinstance(event, QueryEvent):
                freed += self._advance(fed, released)
                for state in self._change_queries(event):
                    changed_streams[state.stream_id] = state
                continue
            match event:
                case Pushed() | WatermarkRaised():
                    fed.setdefault(event.stream_id, self._streams[event.stream_id]).take(event)
                case WatermarksRaised():
                    fed.update(take_watermarks(event, self._streams))
                case Attached():
                    attach(fed.setdefault(event.stream_id, self._streams[event.stream_id]), event)
                case StreamCreated():
                    self._create(event)
                case StreamAltered():
                    freed += self._advance(fed, released)
                    freed -= alter(self._streams[event.stream_id], event, self._run)
                case StreamDropped():
                    fed.pop(event.stream_id, None)
                    changed_streams.pop(event.stream_id, None)
                    freed += self._drop(event, fed, released)
                case _:
                    self._lists.apply(event)
        freed += self._advance(fed, released)
        if any(isinstance(event, StreamDropped) for event in events):
            self._rooms.look(self._streams.values())
        freed += self._relieve(self.config.memory_bytes - self.config.memory_bytes // RELIEF_SHARE)
        self._spent.cover_new(changed_streams.values(), self._run, self._precautions)
        self._snapshot = self._publish()
        return self._spent.taken(Effects(self._sequence, freed, released))

    def maintenance(self, choose: Choose = longest_ago, *, everything: bool = False) -> Task | None:
        """Return the next task that is due, or None. The writer calls it; any thread may call the task's `compute`.

        `everything`: also return tasks that are not worth their cost yet, for tests and idle times. `choose`: picks one
        of the tenants whose evaluations wait.
        """
        if everything:
            for every in self._streams:
                self._board.look_after(every)
        if (offered := self.offers.take()) is not None:
            return StreamOffers(*offered, self.offers)
        return self._agenda.next(self._streams, everything, choose)

    def thin(self, stream_id: int, number: int, rows: Array) -> Task | None:
        """The task that leaves a chunk only some of its rows; see `psoup.engine.maintenance.thin.begin`."""
        return thin.begin(self._streams[stream_id], number, rows, self._thin)

    def behind(self) -> float:
        """The bytes of chunks that wait to be sealed or stored, divided by their limit. Above 1, pushes should wait.
        O(streams)."""
        waiting = sum(state.shelf.waiting_bytes for state in self._streams.values())
        return waiting / max(self.config.memory_bytes // BEHIND_SHARE, 1)

    def install(self, result: Installable | AmountChoice) -> int:
        """Apply the result of a task and publish. A result is dropped if the parts it was computed from were replaced.

        Returns the bytes of tuples that left memory, as a stored chunk may leave it. Raises Corrupt as `apply` does.
        """
        try:
            return self._install(result)
        except Corrupt as problem:
            raise problem.after(self._verification.story) from problem

    def _install(self, result: Installable | AmountChoice) -> int:
        if isinstance(result, AmountChoice):
            self._choices.install(result, self._streams, self._run, self._precautions)
            self._snapshot = self._publish()
            return 0
        state = self._streams.get(result.stream_id)
        if state is None:
            return 0
        self._board.look_after(result.stream_id)
        installed, freed = result.install(state), state.expire(edge=self._edge())
        self._verification.touch(result.stream_id)
        if installed or freed or self._board.changed:
            self._rooms.keep(self._streams.values())
            self._snapshot = self._publish()
        else:
            self._verification.finish(self._streams, ())
            self._verification.published(self._streams, self._views, self._board, ())
        return freed

    def expire(self, clock: int) -> int:
        """Drop chunks that are older than their stream's retention at the time `clock`. Returns the bytes freed.

        `apply` also drops them, by the time of the last tuple. This method is for a full memory: pushes are refused
        then, so a stream in system time gets no later tuple. Stored chunks of archived streams leave memory, too.
        No answer changes. O(streams).
        """
        edge = self._edge()
        freed = sum(state.expire(clock, edge) for state in self._streams.values())
        freed += self._relieve(self.config.memory_bytes // 2)
        if self._board.changed:
            self._snapshot = self._publish()
        return freed

    def check(self) -> None:
        """Check every invariant of every structure, and that all changes are published. Raises Corrupt."""
        self._registry.check(self._streams)
        self._rooms.check(self._registry.auto_queries())
        ensure(not self._board.changed, self, "something is not published")
        for stream_id, state in self._streams.items():
            hidden = stale(self._views[stream_id], state.view())
            ensure(not hidden, self, f"readers do not see {', '.join(hidden)}", stream=stream_id)
            forgotten = [] if self._board.may_be_due(stream_id) else overlooked(state)
            ensure(not forgotten, self, f"the work that {', '.join(forgotten)} finds is overlooked", stream=stream_id)

    def bill(self) -> dict[str, int]:
        """The bytes of each structure by name, and the numbers of queries and clauses."""
        total = self._registry.bill()
        total |= {"kept_pairs_bytes": self._rooms.kept.room.held, "kept_answers_bytes": self._rooms.answers.held}
        for state in self._streams.values():
            for name, count in state.bill().items():
                total[name] = total.get(name, 0) + count
        return total

    def _advance(self, fed: dict[int, StreamState], released: dict[int, int]) -> int:
        if not fed:
            return 0
        freed, began = 0, self._spent.now()
        for stream_id, state in fed.items():
            state.cover_new(self._run, self._precautions)
            self._spent.begin(state, self._lists.tenants)
            count = state.advance(self._run, self._precautions, self._spent.now)
            released[stream_id] = released.get(stream_id, 0) + count
            freed += state.expire(edge=self._edge())
            began = self._spent.end(state, began)
        fed.clear()
        return freed

    def _relieve(self, allowed: int) -> int:
        """Drop stored chunks of archived streams from memory while `Rooms.taken` is above `allowed` bytes."""
        ready = [state for state in self._archiving.values() if state.shelf.can_leave]
        over, freed = self._rooms.taken(self._streams.values()) - allowed if ready else 0, 0
        for state in ready:
            freed += state.shelf.relieve(over - freed)
        return freed

    def _create(self, event: StreamCreated) -> None:
        digests = self._precautions.held.get(event.stream_id, frozenset())
        attention, ports = Attention(event.stream_id, self._board), (self._keep, digests, self._thin)
        rooms, pins = self._rooms.shared, SourcePins(event, self._streams)
        state = StreamState(event, self.config, attention, self._registry.next_sqc, rooms, *ports, pins=pins)
        self._streams[event.stream_id] = state
        if event.spec.retention.archive:
            self._archiving[event.stream_id] = state

    def _drop(self, event: StreamDropped, fed: dict[int, StreamState], released: dict[int, int]) -> int:
        freed = self._forget(event.stream_id)
        self._lists.drop_stream(event.stream_id)
        if len(event.query_ids):
            freed += self._advance(fed, released)  # joins leave other streams too
            self._rooms.forget(event.query_ids)
            self._registry.unregister_many(event.query_ids, self._streams)
        return freed

    def _forget(self, stream_id: int) -> int:
        self._board.forget(stream_id)
        self._verification.drop(stream_id)
        self._archiving.pop(stream_id, None)
        self._rooms.packs.drop(stream_id)
        if (view := self._views.pop(stream_id, None)) is not None:
            del self._named[view.tenant, view.spec.name.lower()]
        self._streams[stream_id].pins.release()
        return self._streams.pop(stream_id).tuple_bytes

    def _change_queries(self, event: QueryEvent) -> list[StreamState]:
        """Register, replace, alter or unregister queries. Returns the streams of these queries."""
        self._rooms.begin(event)
        match event:
            case Registered():
                states = self._registry.register(event, self._streams)
                self._registry.put_out([event.query_id], self._precautions.by_hand, self._streams)
            case RegisteredMany():
                states = self._registry.register_many(event, self._streams)
                ids = range(event.first_id, event.first_id + len(event.queries))
                self._registry.put_out(ids, self._precautions.by_hand, self._streams)
            case Replaced():
                states = []
            case Unregistered():
                self._rooms.forget([event.query_id])
                return self._registry.unregister(event.query_id, self._streams)
            case UnregisteredMany():
                self._rooms.forget(event.query_ids)
                if event.expired:
                    self._registry.note_expired(event.tenant, event.query_ids)
                return self._registry.unregister_many(event.query_ids, self._streams)
            case QueriesAltered():
                states = self._registry.alter(event, self._streams)
                self._rooms.kept.alter(event.query_ids, self._registry.idle_among)
                self._registry.put_out(event.query_ids, self._precautions.by_hand, self._streams)
                return states
            case _:
                assert_never(event)
        if not isinstance(event, Replaced) and event.keep_pairs:
            self._rooms.kept.ask(event, self._streams)
        pairs = replacements(event)
        self._rooms.forget(pairs.earlier)
        return [*states, *self._registry.replace(event.tenant, pairs, self._streams)] if len(pairs.later) else states

    def _tell(self, state: StreamState) -> None:
        for reason, sqc_ids in state.clauses.take_news():
            queries = self._registry.queries_of(sqc_ids[:_NAMED].tolist())
            self._news.append(LeftIndex(state.data.spec.name, reason.text, reason.why, len(sqc_ids), queries))

    def _publish(self) -> Snapshot:
        self._rooms.kept.follow()
        changed = self._board.take_changed()
        self._verification.finish(self._streams, changed)
        for stream_id in changed:
            state = self._streams[stream_id]
            self._tell(state)
            view = self._views[stream_id] = state.view()
            self._named[view.tenant, view.spec.name.lower()] = view
        self._verification.published(self._streams, self._views, self._board, changed)
        return Snapshot(
            self._sequence,
            dict(self._named),  # pointers, a copy in C
            dict(self._views),
            *self._registry.freeze(self._sequence),
            self.config,
            self._run,
            self._registry.lifetimes,
            self._registry.sides,
            self._rooms.kept.freeze(),
            *self._lists.published,
            *self._rooms.published,
            self._registry.alterations,
            self._registry.eager,
        )
