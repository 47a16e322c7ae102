"""The invoking half of QueryService: answers in one message, in pieces, or as pages of rows.

    Invoke        on the loop if it is expected to be quick and nothing must be read from disk (the common case), else
                  on a reader thread
    InvokeMany    on a reader thread: as many answers as fit the reply and a fraction of a second
    InvokeStream  piece by piece on a reader thread, as fast as the client reads
    InvokeTable   the answers of many queries as one table: `psoup_service.servicers.table`
    InvokeRows    a page per call; the token pins NOW and the answer's likeness, so that a change is noticed

For a query's own window, the cost of the last invocation and the window's growth decide where it runs
(`psoup_service.host.reads.expectations`). If the caller has left, an invocation ends at the next chunk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any

from psoup.answer.invoke import Answer
from psoup.answer.question import Question
from psoup.answer.table_rows import TableQuestion
from psoup.errors import InvalidInput
from psoup.execution.select.window import WindowChoice
from psoup.plan.sides import MOST_SOURCES
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import queries_pb2, statements_pb2
from psoup_service.host.reads.expectations import Expectations, Unexpected
from psoup_service.servicers.backend import Backend
from psoup_service.servicers.invoke_request import InvokeArguments, whole
from psoup_service.servicers.many import Many
from psoup_service.servicers.row_pages import made_page, wanted_page
from psoup_service.wire import answers, convert
from psoup_service.wire.calls import Caller, ender
from psoup_service.wire.limits import Limits
from psoup_service.wire.written import Written

_MANY = 10_000
"""The most IDs of an InvokeMany."""

_DEFAULT_BYTES = 1024 * 1024


Request = queries_pb2.InvokeRequest | queries_pb2.InvokeStreamRequest | queries_pb2.InvokeRowsRequest
Selection = statements_pb2.AskRequest | statements_pb2.AskStreamRequest
OfMany = queries_pb2.InvokeManyRequest | queries_pb2.InvokeTableRequest


class Invocation:
    """Base class of `QueryServicer`, with the calls that invoke queries."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._expectations = Expectations()

    async def Invoke(self, request: queries_pb2.InvokeRequest, caller: Caller) -> queries_pb2.InvokeResponse:
        """The answer of a query in one message."""
        max_bytes = most_bytes(request.max_bytes, self._backend.limits)
        wanted = await self._wanted(request, caller)

        def make(snapshot: Snapshot, budget: ReadBudget) -> queries_pb2.InvokeResponse:
            return whole(snapshot, wanted.answer(snapshot, budget), max_bytes)

        response = self._at_once(wanted, make)
        if response is None:
            expected, query_id = self._expectations, wanted.query_id

            def read(snapshot: Snapshot, budget: ReadBudget) -> queries_pb2.InvokeResponse:
                return expected.measured(query_id, lambda granted: make(snapshot, granted), budget)

            response = await self._backend.host.evaluate(
                read if wanted.ordinary else make,
                long=wanted.ordinary and expected.is_long(query_id),
                tenant=wanted.tenant,
            )
        self._backend.metrics.answered(response.rows)
        if request.key:
            response.query_id = wanted.name
        return response

    async def InvokeMany(self, request: queries_pb2.InvokeManyRequest, caller: Caller) -> Any:
        """The outcomes of the first queries, as many as fit into the reply. The reply is serialized part by part."""
        names = request.keys or request.query_ids
        if request.keys and request.query_ids:
            raise InvalidInput("give query_ids or keys, not both", field="keys")
        if not 0 < len(names) <= _MANY:
            field = "keys" if request.keys else "query_ids"
            raise InvalidInput(
                f"{field} has {len(names):,} {'keys' if request.keys else 'IDs'}; it must be from 1 to {_MANY:,}",
                field=field,
            )
        max_bytes = most_bytes(request.max_bytes, self._backend.limits)
        window, as_of = other_window(request), await instant(self._backend, request)
        tenant, now, accept = self._backend.tenant(caller), self._backend.now(), request.accept_truncation
        ids, by_key, refused = self._backend.ids, bool(request.keys), self._backend.metrics.refused
        await self._backend.derived_of_queries(tenant, names, request.min_sequence, by_key=by_key)

        def read(snapshot: Snapshot, budget: ReadBudget) -> tuple[Written, int]:
            asking = TableQuestion(snapshot, tenant, Question(now, as_of, window, accept, budget))
            with closing(Many(asking, names, ids, refused, by_key=by_key)) as many:
                return many.reply(max_bytes), many.rows

        response, rows = await self._backend.host.evaluate(read, tenant=tenant)
        self._backend.metrics.answered(rows)
        return response

    async def InvokeStream(self, request: queries_pb2.InvokeStreamRequest, caller: Caller) -> AsyncIterator[Any]:
        """The answer of a query in pieces."""
        wanted = await self._wanted(request, caller)
        pieces = in_pieces(self._backend, wanted.tenant, wanted.answer, queries_pb2.InvokeStreamResponse)
        async with aclosing(pieces):
            async for message in pieces:
                yield message

    async def InvokeRows(
        self, request: queries_pb2.InvokeRowsRequest, caller: Caller
    ) -> queries_pb2.InvokeRowsResponse:
        """A page of the rows of a query's answer."""
        page = wanted_page(request, self._backend.limits.answer_bytes)
        wanted = await self._wanted(request, caller)
        if page.now is not None:
            wanted = replace(wanted, as_of=page.now, latest=wanted.as_of is None and page.ranges is not None)

        def read(snapshot: Snapshot, budget: ReadBudget) -> tuple[queries_pb2.InvokeRowsResponse, int]:
            answer = wanted.answer(snapshot, budget, page.ranges)
            if page.now is not None:  # all pages are one invocation of an AUTO query
                snapshot.automatic.take_back(wanted.query_id)
            return made_page(answer, wanted.name, request, page)

        response, rows = await self._backend.host.evaluate(read, tenant=wanted.tenant)
        self._backend.metrics.answered(rows)
        return response

    async def _wanted(self, request: Request, caller: Caller) -> InvokeArguments:
        """Read the request, and wait for `min_sequence`."""
        backend, tenant = self._backend, self._backend.tenant(caller)
        window = other_window(request)
        as_of = await instant(backend, request)
        query_id, name = backend.query_of(request.query_id, request.key, tenant)
        await backend.derived_of_query(query_id, request.min_sequence)
        return InvokeArguments(
            backend.ids,
            query_id,
            name,
            tenant,
            backend.now(),
            as_of,
            window,
            request.accept_truncation,
        )

    def _at_once(
        self, wanted: InvokeArguments, make: Callable[[Snapshot, ReadBudget], queries_pb2.InvokeResponse]
    ) -> queries_pb2.InvokeResponse | None:
        """Make the answer on the event loop. Returns None if a reader thread must make it."""
        if not wanted.ordinary or not self._expectations.is_quick(wanted.query_id):
            return None
        snapshot = self._backend.host.snapshot()
        if not wanted.in_memory(snapshot):
            return None
        try:
            return self._expectations.on_loop(wanted.query_id, lambda budget: make(snapshot, budget))
        except Unexpected:
            return None


def other_window(request: Request | OfMany | Selection) -> WindowChoice | None:
    """The window of a request, or its windows by source; None without. Raises InvalidInput if it has both."""
    if not request.windows:
        return convert.one_window(request.window) if request.window else None
    if request.window:
        raise InvalidInput("give window or windows, not both", field="windows")
    if len(request.windows) > MOST_SOURCES:
        raise InvalidInput(f"windows has {len(request.windows):,} names; {MOST_SOURCES} is the most", field="windows")
    return {alias: convert.one_window(text, "windows") for alias, text in request.windows.items()}


async def instant(backend: Backend, request: Request | OfMany | Selection) -> int | None:
    """Wait for a request's `min_sequence`; returns its `as_of`, if it is set."""
    as_of = convert.microseconds("as_of", request.as_of) if request.HasField("as_of") else None
    await backend.reflecting(request.min_sequence)
    return as_of


def most_bytes(wanted: int, limits: Limits) -> int:
    """The most bytes of an answer in one message. `wanted`: the limit that the request sets, 0 for the default."""
    if wanted < 0:
        raise InvalidInput(f"max_bytes is {wanted}; it must not be negative", field="max_bytes")
    return min(wanted or _DEFAULT_BYTES, limits.answer_bytes)


def check_pinned(backend: Backend, tenant: str) -> None:
    """Raise ResourceExhausted if the open answers of a tenant pin as many bytes as its quota allows."""
    pinned = lambda: backend.host.pins.held_by(tenant)  # noqa: E731
    backend.meters.check(tenant, "pinned_bytes", pinned, 1, "read the open answers to their ends")


async def in_pieces(
    backend: Backend, tenant: str, make: Callable[[Snapshot, ReadBudget], Answer], kind: type[answers.Piece]
) -> AsyncGenerator[answers.Piece | Written]:
    """Yield the messages of the answer of `make`.

    Reader threads make them one after the other, at the client's pace. They serialize the messages with rows.
    """
    check_pinned(backend, tenant)
    budget, pin = backend.host.budget(tenant), None
    try:
        answer = await backend.host.evaluate(
            lambda snapshot, granted: make(snapshot, granted).lean(), budget=budget, tenant=tenant
        )
        pin = backend.host.pins.hold_all(answer.chunks, ender(), tenant)
        pieces = answers.Pieces(answer, kind, backend.limits.chunk_bytes, backend.limits.reply_bytes)
        del answer  # the pieces keep it as long as they need it
        while piece := await backend.host.evaluate(lambda _, __: pieces.next(), budget=budget, tenant=tenant):
            rows, message = piece
            backend.metrics.answered(rows)
            yield message
            del piece, message  # so no variable keeps it while the next one is made
    finally:
        budget.close()
        if pin is not None:
            backend.host.pins.release(pin)
