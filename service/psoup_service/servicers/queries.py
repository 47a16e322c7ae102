"""QueryService: registering, listing, unregistering, explaining, and matches of a tuple; see also `invocation`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from psoup.admission.queries.registration import check_count
from psoup.admission.queries.tags import tag_in
from psoup.answer.describe import QueryFilter, get_query, list_queries, recall
from psoup.answer.explain.explain import explain
from psoup.answer.tuples.match_rows import Matched
from psoup.answer.tuples.match_tags import having, keys_of
from psoup.answer.tuples.queries_of_tuple import matches
from psoup.errors import Conflict, InvalidInput, NotFound
from psoup.events import commands
from psoup.events.acknowledgements import QueriesAcknowledgement, QueryAcknowledgement, RemovalAcknowledgement
from psoup.events.commands import Register, Unregister, UnregisterMany
from psoup.events.tags import Labels, TagColumns
from psoup.model import EXACT_DOUBLE
from psoup.phrases import counted
from psoup.published.lifetimes import DAY
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.status import status_of
from psoup.pumps.status_text import status_lines
from psoup.pumps.window_text import window_lines
from psoup.sql.lifetime import lifetime_days
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import queries_pb2, queries_pb2_grpc
from psoup_service.host.ids import Ids, page_size, page_token, read_page_token
from psoup_service.host.room import TakenRoom
from psoup_service.servicers.alteration import AlterCalls
from psoup_service.servicers.backend import Backend, fitting
from psoup_service.servicers.checks import CheckCalls
from psoup_service.servicers.costs import CostCalls
from psoup_service.servicers.invocation import Invocation
from psoup_service.servicers.parameters import read_parameters
from psoup_service.servicers.table import TableCalls
from psoup_service.wire import convert
from psoup_service.wire.amounts import keeping_in
from psoup_service.wire.calls import Caller

_PAGE = 100
_MAX_PAGE = 1_000
_TRIES = 3
"""The most attempts to list queries while parked ones are unregistered."""
_MATCHES = 1_000
_MAX_MATCHES = 10_000
_MAX_REQUEST_ID = 256
_MAX_SPANS = 1_000
"""The most parts of the archive that Explain lists one by one."""


class QueryServicer(Invocation, TableCalls, CostCalls, CheckCalls, AlterCalls, queries_pb2_grpc.QueryServiceServicer):
    """See queries.proto."""

    def __init__(self, backend: Backend, amount: str) -> None:
        """`amount`: the name of the amount of queries whose registration has none."""
        super().__init__(backend)
        self._backend = backend
        self._amount = amount

    async def Register(self, request: queries_pb2.RegisterRequest, caller: Caller) -> queries_pb2.RegisterResponse:
        """Register a query, and wait until it is visible."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        if len(request.request_id.encode()) > _MAX_REQUEST_ID:
            raise InvalidInput(
                f"request_id is longer than {_MAX_REQUEST_ID} bytes; take a shorter one", field="request_id"
            )
        tag, keeping = tag_in(request.key, request.labels), keeping_in(request, self._amount)
        command: Register | commands.RegisterMany = Register(
            request.statement,
            request.request_id,
            tenant,
            tag,
            request.replace,
            request.expires_after,
            request.keep_pairs,
            keeping,
        )
        place = None
        if request.parameters or request.parameters_json:
            command, place = await self._block(request, [request.statement], caller, check_one)
            command = replace(command, tags=TagColumns.of(tag), replace=request.replace)
            command = replace(command, expires_after=request.expires_after, keep_pairs=request.keep_pairs)
            command = replace(command, keeping=keeping)
        with naming_requests(backend.ids):
            acknowledgement, _ = await backend.change(command, place, caller.peer())
        assert isinstance(acknowledgement, QueryAcknowledgement | QueriesAcknowledgement)
        query_id = (
            acknowledgement.query_id if isinstance(acknowledgement, QueryAcknowledgement) else acknowledgement.first_id
        )
        return queries_pb2.RegisterResponse(
            query=await self._query(backend.ids.query(query_id), query_id, tenant),
            sequence=acknowledgement.sequence,
            duplicate=acknowledgement.duplicate,
        )

    async def RegisterMany(
        self, request: queries_pb2.RegisterManyRequest, caller: Caller
    ) -> queries_pb2.RegisterManyResponse:
        """Register a block of queries, and wait until all of them are visible."""
        backend = self._backend
        number, config = max(request.first_number, 1), backend.host.snapshot().config
        keeping = keeping_in(request, self._amount)
        command, place = await self._block(
            request, request.statements, caller, lambda rows: check_count(rows, config), number
        )
        labels = tuple(request.label_columns)
        command = replace(command, key=request.key_column, labels=labels, replace=request.replace)
        command = replace(command, expires_after=request.expires_after, keep_pairs=request.keep_pairs, keeping=keeping)
        with naming_requests(backend.ids):
            acknowledgement, _ = await backend.change(command, place, caller.peer())
        assert isinstance(acknowledgement, QueriesAcknowledgement)

        first, count = acknowledgement.first_id, acknowledgement.count
        response = queries_pb2.RegisterManyResponse(
            sequence=acknowledgement.sequence, duplicate=acknowledgement.duplicate
        )
        if request.as_ranges:
            response.ranges.add(query_id_prefix=backend.ids.query_prefix, first=first, count=count)
            return response
        response.query_ids.extend(
            await backend.made(count, lambda _: [*map(backend.ids.query, range(first, first + count))])
        )
        return response

    async def _block(
        self,
        request: queries_pb2.RegisterRequest | queries_pb2.RegisterManyRequest,
        statements: Sequence[str],
        caller: Caller,
        check_rows: Callable[[int], None],
        number: int = 1,
    ) -> tuple[commands.RegisterMany, TakenRoom | None]:
        """The command of a request with parameters or several statements, and the room that its parameters take."""
        tenant, texts = self._backend.tenant(caller), list(statements)
        many = isinstance(request, queries_pb2.RegisterManyRequest)
        given = await read_parameters(self._backend, request, sum(map(len, texts)), caller, check_rows, many=many)
        if given is None:
            return commands.RegisterMany(texts, None, request.request_id, tenant, (), number), None
        return commands.RegisterMany(texts, given.table, request.request_id, tenant, given.names, number), given.place

    async def _query(self, name: str, query_id: int, tenant: str) -> queries_pb2.Query:
        """The message of a query. A reader thread makes it if the query has many columns, and reads a parked query."""
        snapshot = self._backend.host.snapshot()
        with self._backend.ids.naming(name):
            record = get_query(snapshot, query_id, tenant=tenant)
            if record.keeping.parked:
                await self._backend.host.evaluate(lambda *_: recall([record]), tenant=tenant)
        return await self._backend.made(
            len(record.query.select), lambda now: convert.query(record, self._backend.ids, now)
        )

    async def GetQuery(self, request: queries_pb2.GetQueryRequest, caller: Caller) -> queries_pb2.GetQueryResponse:
        """Get a query, on the event loop, unless it is parked. O(1), or O(log n) by its key."""
        tenant = self._backend.tenant(caller)
        await self._backend.reflecting(request.min_sequence)
        query_id, name = self._backend.query_of(request.query_id, request.key, tenant)
        return queries_pb2.GetQueryResponse(query=await self._query(name, query_id, tenant))

    async def ListQueries(
        self, request: queries_pb2.ListQueriesRequest, caller: Caller
    ) -> queries_pb2.ListQueriesResponse:
        """A page of the queries, in the order of registration."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        size = page_size(request.page_size, _PAGE, _MAX_PAGE)
        state = read_page_token("queries", request.page_token, after=int, stream=str)
        labels = tag_in("", request.labels).labels
        within = lifetime_days(request.expiring_within) * DAY
        shown = _shown(request, within, labels)
        expiring = backend.now() + within if within else None
        if state and state["stream"] != shown:
            raise InvalidInput(
                "page_token belongs to a list of another stream, or of other labels",
                reason="PAGE_TOKEN",
                field="page_token",
            )
        after = max(state["after"], -1) if state else -1
        await backend.reflecting(request.min_sequence)

        def read(snapshot: Snapshot, budget: ReadBudget) -> queries_pb2.ListQueriesResponse:
            only = QueryFilter(request.stream or None, labels, expiring, sides=request.include_sides)
            if within:
                snapshot.lifetimes.tick(backend.now())
            listed = list_queries(
                snapshot,
                tenant=tenant,
                after=after,
                limit=size + 1,
                only=only,
                budget=budget,
            )
            recall(listed[:size])
            records = (convert.query(record, backend.ids, snapshot) for record in listed[:size])
            queries = fitting(records, backend.limits.answer_bytes)
            token = ""
            if len(listed) > len(queries):
                token = page_token("queries", after=listed[len(queries) - 1].query_id, stream=shown)
            return queries_pb2.ListQueriesResponse(queries=queries, next_page_token=token)

        for _ in range(_TRIES - 1):
            with suppress(NotFound):  # a parked query was unregistered between the snapshot and the read of the log
                return await backend.host.evaluate(read, tenant=tenant)
        return await backend.host.evaluate(read, tenant=tenant)

    async def Unregister(
        self, request: queries_pb2.UnregisterRequest, caller: Caller
    ) -> queries_pb2.UnregisterResponse:
        """Unregister a query, and wait until no call sees it any more."""
        backend = self._backend
        try:
            with backend.ids.naming(request.query_id):
                query_id = backend.ids.read_query(request.query_id)
                acknowledgement, _ = await backend.change(Unregister(query_id, backend.tenant(caller)))
        except NotFound:
            if not request.allow_missing:
                raise
            return queries_pb2.UnregisterResponse()
        return queries_pb2.UnregisterResponse(sequence=acknowledgement.sequence)

    async def UnregisterMany(
        self, request: queries_pb2.UnregisterManyRequest, caller: Caller
    ) -> queries_pb2.UnregisterManyResponse:
        """Unregister some queries, and wait until no call sees any of them any more."""
        backend, ids, texts = self._backend, None, request.query_ids
        if texts:
            ids = await backend.made(len(texts), lambda _: backend.ids.read_queries(texts))
        command = UnregisterMany(
            ids,
            tag_in("", request.labels).labels,
            request.key_prefix,
            request.request_id,
            backend.tenant(caller),
            request.dry_run,
        )
        try:
            acknowledgement, _ = await backend.change(command)
        except NotFound as problem:
            raise backend.ids.named_all(problem) from None
        assert isinstance(acknowledgement, RemovalAcknowledgement)
        return queries_pb2.UnregisterManyResponse(
            sequence=acknowledgement.sequence, count=acknowledgement.count, duplicate=acknowledgement.duplicate
        )

    async def Explain(self, request: queries_pb2.ExplainRequest, caller: Caller) -> queries_pb2.ExplainResponse:
        """Explain the plan of a query, the facts about its sources, and its cost."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        await backend.reflecting(request.min_sequence)
        query_id, name = backend.query_of(request.query_id, request.key, tenant)
        now, seconds = backend.now(), self._expectations.seconds(query_id)

        def read(snapshot: Snapshot, budget: ReadBudget) -> queries_pb2.ExplainResponse:
            explanation = explain(
                snapshot,
                query_id,
                tenant=tenant,
                now=now,
                budget=budget,
                seconds=seconds,
                derived_status=lambda view: self._derived_lines(snapshot, view),
            )
            response = queries_pb2.ExplainResponse(
                lines=explanation.lines(name),
                plan=map(convert.plan_step, explanation.nodes),
                nodes=map(convert.plan_node, explanation.nodes),
                notes=explanation.notes,
            )
            details = {**explanation.to_dict(_MAX_SPANS), "query_id": name}
            response.details.update({field: _plain(value) for field, value in details.items()})
            return response

        with backend.ids.naming(name):
            return await backend.host.evaluate(read, tenant=tenant)

    def _derived_lines(self, snapshot: Snapshot, view: StreamView) -> Sequence[str]:
        status = status_of(snapshot, view, self._backend.host.passed.progress(view.stream_id))
        return () if status is None else (*status_lines(status), *window_lines(snapshot, status.derived))

    async def Matches(self, request: queries_pb2.MatchesRequest, caller: Caller) -> queries_pb2.MatchesResponse:
        """The queries that a tuple matched."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        size, labels = page_size(request.page_size, _MATCHES, _MAX_MATCHES), dict(tag_in("", request.labels).labels)
        state = read_page_token("matches", request.page_token, after=int)
        await backend.reflecting(request.min_sequence)
        after, now = max(state["after"], -1) if state else -1, backend.now()

        def read(snapshot: Snapshot, budget: ReadBudget) -> queries_pb2.MatchesResponse:
            tuple_id, limit = request.tuple_id, size + 1
            query_numbers = matches(
                snapshot, request.stream, tuple_id, tenant=tenant, now=now, after=after, limit=limit, budget=budget
            )
            shown = query_numbers[:size]
            if labels:
                shown = having(snapshot, Matched.of_one(shown), labels).of(0)
            return queries_pb2.MatchesResponse(
                query_ids=map(backend.ids.query, shown),
                next_page_token=page_token("matches", after=query_numbers[size - 1])
                if len(query_numbers) > size
                else "",
                sequence=snapshot.sequence,
                keys=keys_of(snapshot, shown) if request.keys else (),
            )

        return await backend.host.evaluate(read, tenant=tenant)

    async def WaitForSequence(
        self, request: queries_pb2.WaitForSequenceRequest, caller: Caller
    ) -> queries_pb2.WaitForSequenceResponse:
        """Wait until reads show an acknowledged event."""
        if request.sequence < 0:
            raise InvalidInput(f"sequence is {request.sequence}; events count from 1", field="sequence")
        snapshot = await self._backend.visible(request.sequence)
        return queries_pb2.WaitForSequenceResponse(sequence=snapshot.sequence)


def _shown(request: queries_pb2.ListQueriesRequest, within: int, labels: Labels) -> str:
    """A text that identifies a list in its page tokens. Raises InvalidInput for sides with labels or an expiry."""
    if request.include_sides:
        if labels or within:
            raise InvalidInput("sides have no labels and do not expire; leave these out", field="include_sides")
        return json.dumps([request.stream, "sides"])
    return json.dumps([request.stream, within, *labels]) if labels or within else request.stream


def check_one(rows: int) -> None:
    """Raise InvalidInput unless there is one row of parameters."""
    if rows != 1:
        raise InvalidInput(f"parameters has {counted(rows, 'row')}; give one, or call RegisterMany")


@contextmanager
def naming_requests(ids: Ids) -> Iterator[None]:
    """A context that puts the client's query ID into conflicts about a used request ID or a taken key."""
    try:
        yield
    except Conflict as problem:
        if problem.reason not in ("REQUEST_ID_REUSED", "KEY_TAKEN"):
            raise
        query_id = ids.query(int(problem.facts["query_id"]))
        if problem.reason == "KEY_TAKEN":
            said = problem.message.replace(", registered otherwise", f" ({query_id}), registered otherwise", 1)
            raise Conflict(said, reason=problem.reason, **{**problem.facts, "query_id": query_id}) from None
        first = "" if problem.facts["queries"] == "1" else ", the first of them"
        problem.facts["query_id"] = query_id
        said = problem.message.replace("; use", f"{first}: {query_id}; use")
        raise Conflict(said, reason=problem.reason, **problem.facts) from None


def _plain(value: Any) -> Any:
    """Convert a value for protobuf's Struct.

    Tuples become lists. A whole number that a double cannot hold becomes a text.
    """
    match value:
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case tuple() | list():
            return [_plain(item) for item in value]
        case bool() | str() | None | float():
            return value
        case int():
            return value if abs(value) < EXACT_DOUBLE else str(value)
        case _:
            return str(value)
