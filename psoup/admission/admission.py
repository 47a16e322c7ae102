"""Admission: the only place that can refuse. It turns a command into an acknowledgement and a stamped event.

    command ──decide──> event + acknowledgement ──adopt──> the state for the next command
               (reads only, may raise)             (changes only, cannot raise)
    logged event ──────────────────────────────────adopt──> the same state: replay is half of prepare

So a refusal leaves no trace, and each decision depends only on events. Admission is ahead of the engine: its state is
that after the last prepared event. It knows schemas, watermarks, producers, request IDs, the queries of each stream and
reserved bytes, but no tuples. It is not thread-safe: one sequencer owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from psoup.admission.attach_targets import target_on
from psoup.admission.attachment import decide_attach
from psoup.admission.beforehand import Before, Ready
from psoup.admission.books import Books
from psoup.admission.budget import MemoryBudget, stream_charge
from psoup.admission.catalog import KnownStream, KnownTenant
from psoup.admission.clock_heartbeats import ClockStreams
from psoup.admission.definition_commands import Standing, decide_definition
from psoup.admission.derivations import close_sources, promise
from psoup.admission.heartbeats import decide_heartbeat
from psoup.admission.lists import KnownLists
from psoup.admission.next_ids import NextIds
from psoup.admission.pump_commands import decide_pump
from psoup.admission.queries.alteration import decide_alter_queries
from psoup.admission.queries.bind_steps import Binding, takes_long
from psoup.admission.queries.known_keepings import KnownKeepings
from psoup.admission.queries.query_streams import Owners
from psoup.admission.queries.registration import EventPlace, check_block, decide_registration
from psoup.admission.queries.registry_state import RegistryState
from psoup.admission.queries.removal import decide_unregister, decide_unregister_many
from psoup.admission.queries.requests import call_digest
from psoup.admission.queries.tags import KnownTags
from psoup.admission.quotas import Judge
from psoup.admission.rows.expired_rows import ExpiringTables
from psoup.admission.rows.producers import Producers
from psoup.admission.rows.pushes import Foreseen, decide_push, decide_recall
from psoup.config import EngineConfig
from psoup.errors import Internal, PSoupError
from psoup.events.acknowledgements import Prepared
from psoup.events.change import replacements
from psoup.events.commands import (
    AlterQueries,
    AlterStream,
    Attach,
    Command,
    CreateStream,
    DropStream,
    ExpireRows,
    Heartbeat,
    Locate,
    PumpCommand,
    Push,
    RaiseWatermarks,
    Recall,
    Register,
    RegisterMany,
    Unregister,
    UnregisterMany,
)
from psoup.events.events import (
    Attached,
    Event,
    Pushed,
    QueriesAltered,
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
from psoup.events.tags import NO_TAG
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array


class Admission:
    """Checks commands, and makes their events with sequence and time: the first step of prepare, log, apply.

    `sequence`: the sequence of the last event; the next event gets `sequence + 1`. `archive`: whether the service
    stores closed chunks and can read them. `parks`: whether it has a log to read parked queries from.
    """

    def __init__(
        self, config: EngineConfig = EngineConfig(), sequence: int = 0, *, archive: bool = False, parks: bool = False
    ) -> None:
        self._config, self._parks = config, parks
        self._archive = archive
        self._sequence = sequence
        self._tenants: dict[str, KnownTenant] = {}
        self._streams: dict[int, KnownStream] = {}
        self.clock_streams = ClockStreams(self._streams)
        self._queries = Owners(config.shape.owner_page)
        self._keepings = KnownKeepings(config.shape.owner_page)
        self.tags = KnownTags()
        self.ids = NextIds()
        self._lists = KnownLists(self._tenants, self._queries, self.tags, self.ids)
        self._budget = MemoryBudget(config.memory_bytes, self._lists.tenants)
        self._expiring = ExpiringTables(self._streams, self._budget)
        self.judge = Judge(self._lists.tenants, self._tenants, self._streams, self._budget.producers)
        places = self._queries, self._keepings, self.tags
        self._books = Books(self._budget, self._streams, self._tenants, *places, self._lists)

    def share_published(self, snapshot: Callable[[], Snapshot]) -> None:
        """Read keys, labels and bytes from the writer's snapshots from now on. Before that, admission keeps them."""
        self.tags.share(snapshot)
        self.judge.share(snapshot)
        self._expiring.share(snapshot)

    @property
    def sequence(self) -> int:
        """The sequence of the last prepared event."""
        return self._sequence

    @property
    def reserved_bytes(self) -> int:
        """Bytes of accepted tuples, until the engine gives them back (`give_back`)."""
        return self._budget.tuples

    @property
    def limit(self) -> int:
        """The memory budget, in bytes."""
        return self._budget.limit

    @property
    def used_bytes(self) -> int:
        """Bytes of the budget that tuples, queries and producers may use."""
        return self._budget.used

    @property
    def query_bytes(self) -> int:
        """Bytes charged for the registered queries."""
        return self._budget.queries

    @property
    def producer_bytes(self) -> int:
        """Bytes charged for the memory of producers."""
        return self._budget.producers.used

    @property
    def next_query(self) -> int:
        """The ID that the next query gets. All earlier IDs are smaller."""
        return self.ids.query

    def has_query(self, query_id: int) -> bool:
        """Whether a query is registered. O(log n)."""
        return self._queries.get(query_id) is not None

    def binding(self, command: Command) -> Binding | None:
        """The slow work on a command, which another thread may do before `prepare`. None if there is none.

        Raises InvalidInput for a block that `prepare` would refuse in any case.
        """
        if not takes_long(command):
            return None
        assert isinstance(command, Register | RegisterMany)
        if isinstance(command, RegisterMany):
            check_block(command, self._config)
        return Binding(self._tenant(command.tenant), command, self._config, self._budget, beside=True)

    def stands(self, binding: Binding) -> bool:
        """Whether a binding is still valid. If not, the command must be bound again. O(streams of the command)."""
        return binding.stands(self._tenant(binding.command.tenant))

    def foresee(self, command: Push | CreateStream, now: int) -> Foreseen | None:
        """The event of tuples that `prepare` would make of a command at clock time `now`. None for a repeated push.

        Raises the errors of `prepare`. Changes nothing. O(bytes).
        """
        prepared = self._judged(command, now)
        if isinstance(event := prepared.event, StreamCreated) and prepared.content is not None:
            return Foreseen(event.spec, prepared.content)
        return Foreseen(self._streams[event.stream_id].spec, event) if isinstance(event, Pushed) else None

    def prepare(self, command: Command, now: int, ready: Ready | None = None, before: Before = None) -> Prepared:
        """Accept or refuse `command` at clock time `now` (microseconds).

        Returns the answer and the event to log, or raises a PSoupError and changes nothing. Admission has adopted a
        returned event: the caller must log and apply it, or discard this object. Any other exception means that the
        state is broken. `ready` is called with the event before it is adopted. It may refuse the event by an exception,
        for instance if the log has no room. `before`: the binding of this command, or its foreseen event. A new event
        with the same rows shares the columns of the foreseen one.
        """
        prepared = self._judged(command, now, ready, before)
        for event in prepared.events:
            self._adopt(event)
            self.judge.note(event)
            self._expiring.note(event)
        promise(prepared.acknowledgement, command, self._streams)
        return prepared

    def replay(self, event: Event) -> None:
        """Adopt an event from the log, as `prepare` did when it made the event. Raises Internal if it is not later."""
        if event.sequence <= self._sequence:
            raise Internal(f"event {event.sequence} is replayed after event {self._sequence}")
        self._adopt(event)

    def give_back(self, size: int) -> None:
        """Return `size` bytes of tuples that left memory to the budget. A negative size takes further bytes."""
        self._budget.tuples -= size

    def state(self) -> dict[str, object]:
        """The state on which later decisions depend, as plain values that can be compared. O(size of the state)."""
        return self._books.state(self._sequence, (self.ids.stream, self.ids.query))

    def check(self) -> None:
        """Raise Corrupt if an invariant does not hold. O(streams + queries + producers)."""
        self._books.check(self, self.ids.stream, self.ids.query)

    # Deciding: reads the state, may raise, changes nothing -----------------------------------------------------

    def _judged(self, command: Command, now: int, ready: Ready | None = None, before: Before = None) -> Prepared:
        try:
            prepared = self._decide(command, now, before)
            for event in prepared.events:
                self.judge.check(event)
                if ready is not None:
                    ready(event)
        except PSoupError:
            raise
        except Exception as problem:  # a defect, or too little memory, costs one command, as nothing has changed yet
            raise Internal(f"{type(command).__name__} failed inside PSoup: {type(problem).__name__}") from problem
        return prepared

    def _decide(self, command: Command, now: int, before: Before) -> Prepared:
        tenant_of, sequence = self._tenant, self._sequence
        if isinstance(command, PumpCommand):
            return decide_pump(command, self._streams, self._budget, sequence, now)
        match command:
            case Push():
                facts = sequence, now, before if isinstance(before, Foreseen) else None, self.tags.published
                return decide_push(self._stream(command), command, self._budget, self._config, *facts)
            case Recall() | Locate():
                return decide_recall(self._stream(command), command, sequence, now)
            case Attach():
                attaching = tenant_of(command.tenant), self._config, self._archive, sequence + 1, now
                return decide_attach(command, target_on(self._stream(command), *attaching))
            case Heartbeat():
                return decide_heartbeat(self._stream(command), command, self._config, sequence + 1, now)
            case RaiseWatermarks():
                return self.clock_streams.decide(command, self._config, sequence, now)
            case ExpireRows():
                return self._expiring.decide(command, sequence, now)
            case Register() | RegisterMany():
                place = tenant_of(command.tenant), self._standing(), EventPlace(sequence + 1, self.ids.query, now)
                bound = before if isinstance(before, Binding) else None
                return decide_registration(command, bound, *place, self._config)
            case Unregister():
                return decide_unregister(command, tenant_of(command.tenant), self._queries, self._streams, sequence + 1)
            case UnregisterMany():
                where = tenant_of(command.tenant), self._queries, self._streams, self.tags
                return decide_unregister_many(command, *where, sequence + 1, now)
            case AlterQueries():
                return decide_alter_queries(command, self._standing(), self._streams, (sequence + 1, now))
            case CreateStream() | AlterStream() | DropStream():
                stands = Standing(self._streams, self._queries, self._budget, self._config, self._archive)
                return decide_definition(tenant_of(command.tenant), command, stands, (self.ids.stream, sequence, now))
            case _:
                return self._lists.decide(command, sequence, now)

    def _standing(self) -> RegistryState:
        return RegistryState(self._queries, self.tags, self._budget, self._keepings, self.judge, self._parks)

    def _tenant(self, name: str) -> KnownTenant:
        """The tenant's state. For a tenant without streams so far, a new empty state."""
        return self._tenants.get(name) or KnownTenant()

    def _stream(self, command: Push | Recall | Locate | Attach | Heartbeat) -> KnownStream:
        """The stream of a client's command. Raises NotFound, and FailedPrecondition for a derived stream."""
        return self._tenant(command.tenant).writable(command.stream, type(command).__name__.lower())

    # Adopting: changes, cannot raise ---------------------------------------------------------------------------

    def _own(self, name: str) -> KnownTenant:
        """The tenant's state, to be changed. In a replay it may be missing, as the log no longer has its streams."""
        return self._tenants.get(name) or self._tenants.setdefault(name, KnownTenant())

    def _adopt(self, event: Event) -> None:
        match event:
            case Pushed():
                stream = self._streams[event.stream_id]
                stream.pushed(event)
                close_sources(stream, self._streams)
                self._budget.tuples += event.charged
                if event.producer:
                    self._budget.producers.add(event.tenant, stream.record(event, self._own(event.tenant).use))
            case WatermarkRaised():
                self._streams[event.stream_id].raised(event)
            case WatermarksRaised():
                self.clock_streams.adopt(event)
            case Attached():
                self._streams[event.stream_id].attached(event)
            case Registered() | RegisteredMany():
                self._adopt_queries(event)
            case Replaced():
                self._adopt_replacements(event)
            case Unregistered():
                self._queries.remove(event.query_id)
                self._forget_queries(event.tenant, (event.query_id,))
            case UnregisteredMany():
                self._remove_queries(event.tenant, event.query_ids)
                self._own(event.tenant).removals.remember(event, self._config.kept_removals)
            case QueriesAltered():
                self._adopt_alteration(event)
            case StreamCreated():
                self._adopt_stream(event)
            case StreamAltered():
                self._adopt_alter(event)
            case StreamDropped():
                self._adopt_drop(event)
            case _:
                self._lists.adopt(event)
        self._sequence = event.sequence

    def _adopt_stream(self, event: StreamCreated) -> None:
        stream = KnownStream(event.tenant, event.stream_id, event.spec, event.sql, Producers(self._config))
        stream.restored(event.stored)
        self._streams[event.stream_id] = stream
        self.clock_streams.defined(event)
        self._budget.add_stream(event.tenant, event.spec)
        self._own(event.tenant).streams[event.spec.name.lower()] = stream
        self.ids.note_stream(event.stream_id)
        self._budget.tuples += 0 if event.stored is None else event.stored.nbytes

    def _adopt_alter(self, event: StreamAltered) -> None:
        stream = self._streams[event.stream_id]
        self._budget.streams.add(event.tenant, stream_charge(event.spec) - stream_charge(stream.spec))
        stream.spec, stream.sql = event.spec, event.sql
        self.clock_streams.defined(event)

    def _adopt_drop(self, event: StreamDropped) -> None:
        self._remove_queries(event.tenant, event.query_ids)
        self._lists.drop_stream(event)
        stream = self._streams.pop(event.stream_id)
        self.clock_streams.dropped(event.stream_id)
        del self._tenants[event.tenant].streams[stream.spec.name.lower()]
        self._budget.drop_stream(event.tenant, stream.spec)
        self._budget.producers.add(event.tenant, -stream.producers.nbytes)
        self._own(event.tenant).use.producers -= len(stream.producers)

    def _adopt_queries(self, event: Registered | RegisteredMany) -> None:
        gone: Sequence[int] = ()
        if isinstance(event, Registered):
            first, count = event.query_id, 1
            if event.tag is not NO_TAG:
                self.tags.adopt(event, call_digest(event.query.text, event.tag, event.expires))
        else:
            first, count, gone = event.first_id, len(event.queries), event.gone
            self.tags.adopt(event, event.digest)
        self._queries.adopt(event)
        self._keepings.registered(event)
        use = self._own(event.tenant).use
        use.queries, use.query_bytes = use.queries + count, use.query_bytes + self._budget.adopt(event)
        self._own(event.tenant).requests.remember(event, self._config.kept_requests)
        self.ids.note_query(first + count - 1)
        self._remove_queries(event.tenant, first + np.array(gone, np.int64))
        self._adopt_replacements(event)

    def _adopt_alteration(self, event: QueriesAltered) -> None:
        """Change the keeping of queries, and their charges. Skips missing queries, as a replay may lack some."""
        standing = event.query_ids[self._queries.stand(event.query_ids)]
        more = self._keepings.altered(event, standing)
        self._budget.queries += more
        self._own(event.tenant).use.query_bytes += more

    def _adopt_replacements(self, event: Registered | RegisteredMany | Replaced) -> None:
        """Remove replaced queries, and record what replaced them. Skips missing queries, as a replay may lack some."""
        earlier, later = replacements(event)
        if not len(earlier):
            return
        self._remove_queries(event.tenant, np.sort(earlier[self._queries.stand(earlier)]))
        self._own(event.tenant).replaced.add(earlier, later)
        self.ids.note_query(int(later[-1]))

    def _remove_queries(self, tenant: str, query_ids: Array) -> None:
        """Remove some queries (int64[k], ascending)."""
        if len(query_ids):
            self._queries.remove_all(query_ids)
            self._forget_queries(tenant, query_ids.tolist())

    def _forget_queries(self, tenant: str, query_ids: Sequence[int]) -> None:
        """Drop the request IDs, tags, keeping and charges of removed queries."""
        less = self._keepings.removed(query_ids)
        known_tenant = self._own(tenant)
        known_tenant.requests.unregistered(query_ids, self._queries)
        self.tags.unregistered(query_ids, self._queries)
        known_tenant.use.queries -= len(query_ids)
        known_tenant.use.query_bytes -= self._budget.give_back_queries(query_ids, less)
