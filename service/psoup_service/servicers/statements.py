"""StatementService: a SELECT that is asked once, and one call for any statement.

    Ask, AskStream   text or form known ──────────────────────> a reader thread: evaluate ──> as Invoke, InvokeStream
                     else ──> the binder's thread, in turns ──> a reader thread: evaluate
    Execute          CREATE, ALTER, DROP ──> StreamService; SELECT ──> Ask

Statements are bound to the schemas of the published snapshot, so a question never waits for the writer. Parsing takes
milliseconds of Python, which would delay all other calls. So the binder's thread does it, as for registrations and with
their quota, and the loop remembers the result. The evaluation has the budgets of an invocation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from psoup.admission.queries.bind_steps import LONG_TEXT
from psoup.answer.ask import BoundQuestion, Questions, ask, bind_question
from psoup.answer.invoke import Answer
from psoup.errors import FailedPrecondition
from psoup.execution.select.window import WindowChoice
from psoup.plan.standing_query import StandingQuery
from psoup.published.snapshot import Snapshot
from psoup.sql import drop_stream, first_word
from psoup.sql.parser.guards import MAX_BYTES
from psoup.sql.templates.ladder import ParameterValues
from psoup.sql.templates.values import columns_of_table
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import statements_pb2, statements_pb2_grpc, streams_pb2
from psoup_service.host.standby_host import elsewhere
from psoup_service.servicers.backend import Backend
from psoup_service.servicers.invocation import Selection, in_pieces, instant, most_bytes, other_window
from psoup_service.servicers.parameters import read_parameters
from psoup_service.servicers.queries import check_one
from psoup_service.servicers.streams import StreamServicer
from psoup_service.wire import answers
from psoup_service.wire.calls import Caller

T = TypeVar("T")

_SHORT = 1_024
"""The most characters of a statement, plus bytes of its values, for which the loop looks for a known binding."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, read from its request. `query`: its bound statement, None before binding."""

    sql: str
    values: ParameterValues | None
    tenant: str
    now: int
    as_of: int | None
    window: WindowChoice | None
    accept_truncation: bool
    query: StandingQuery | None = None

    def answer(self, snapshot: Snapshot, budget: ReadBudget) -> Answer:
        """Evaluate the question up to the matches.

        If the stream was altered after the binding, bind the statement again.
        """
        try:
            return self._answer(snapshot, budget, self.query)
        except FailedPrecondition as problem:
            if self.query is None or problem.reason != "STREAM_CHANGED":
                raise
        return self._answer(snapshot, budget, None)

    def _answer(self, snapshot: Snapshot, budget: ReadBudget, query: StandingQuery | None) -> Answer:
        if query is None:
            query = bind_question(snapshot, self.sql, tenant=self.tenant, values=self.values).query
        return ask(
            snapshot,
            query,
            tenant=self.tenant,
            now=self.now,
            as_of=self.as_of,
            window=self.window,
            accept_truncation=self.accept_truncation,
            budget=budget,
        )


class StatementServicer(statements_pb2_grpc.StatementServiceServicer):
    """See statements.proto."""

    def __init__(self, backend: Backend, streams: StreamServicer) -> None:
        self._backend = backend
        self._streams = streams
        self._questions = Questions()

    async def Ask(self, request: statements_pb2.AskRequest, caller: Caller) -> statements_pb2.AskResponse:
        """The answer of a statement in one message."""
        max_bytes = most_bytes(request.max_bytes, self._backend.limits)
        question = await self._asked(request, caller)

        def make(snapshot: Snapshot, budget: ReadBudget) -> statements_pb2.AskResponse:
            answer = question.answer(snapshot, budget)
            if request.json:
                return answers.whole_json(answer, max_bytes)
            return answers.whole(answer, max_bytes, statements_pb2.AskResponse)

        response = await self._backend.host.evaluate(make, tenant=question.tenant)
        self._backend.metrics.answered(response.rows)
        return response

    async def AskStream(self, request: statements_pb2.AskStreamRequest, caller: Caller) -> AsyncIterator[Any]:
        """The answer of a statement in pieces."""
        question = await self._asked(request, caller)
        pieces = in_pieces(self._backend, question.tenant, question.answer, statements_pb2.AskStreamResponse)
        async with aclosing(pieces):
            async for message in pieces:
                yield message

    async def Execute(self, request: statements_pb2.ExecuteRequest, caller: Caller) -> statements_pb2.ExecuteResponse:
        """Execute a statement by its first word. Any other first word is refused as a wrong SELECT."""
        sql, response = request.statement, statements_pb2.ExecuteResponse()
        word = await self._read(sql, lambda _: first_word(sql[:MAX_BYTES]), caller)
        if word in ("CREATE", "ALTER", "DROP") and (refusal := elsewhere(self._backend.host)()) is not None:
            raise refusal
        match word:
            case "CREATE":
                self._backend.meters.pay(self._backend.tenant(caller), "StreamService/CreateStream")
                create = streams_pb2.CreateStreamRequest(statement=sql, allow_existing=request.allow_existing)
                response.created.CopyFrom(await self._streams.CreateStream(create, caller))
            case "ALTER":
                alter = streams_pb2.AlterStreamRequest(statement=sql)
                response.altered.CopyFrom(await self._streams.AlterStream(alter, caller))
            case "DROP":
                name = await self._read(sql, lambda _: drop_stream(sql), caller)
                lenient = name.lenient or request.allow_missing
                drop = streams_pb2.DropStreamRequest(
                    name=name.stream, allow_missing=lenient, cascade=name.cascade, is_table=name.table
                )
                response.dropped.CopyFrom(await self._streams.DropStream(drop, caller))
            case _:
                self._backend.meters.pay(self._backend.tenant(caller), "StatementService/Ask")
                question = statements_pb2.AskRequest(
                    statement=sql, min_sequence=request.min_sequence, max_bytes=request.max_bytes
                )
                response.answer.CopyFrom(await self.Ask(question, caller))
        return response

    async def _asked(self, request: Selection, caller: Caller) -> _Asked:
        """Read a request and bind its statement; waits for `min_sequence`."""
        backend = self._backend
        window, tenant = other_window(request), backend.tenant(caller)
        values = await self._values(request, caller)
        as_of = await instant(backend, request)
        question = _Asked(request.statement, values, tenant, backend.now(), as_of, window, request.accept_truncation)
        size = len(question.sql) + len(request.parameters) + len(request.parameters_json)
        question = replace(question, query=await self._bound(question, size, caller))
        await self._wait(question, request.min_sequence)
        return question

    async def _wait(self, question: _Asked, min_sequence: int) -> None:
        """Wait until derived streams show what an event has closed. A stream may be dropped meanwhile."""
        if min_sequence and question.query is not None:
            streams, tenant = self._backend.host.snapshot().streams, question.tenant
            views = [streams.get((tenant, name.lower())) for name in question.query.streams]
            await self._backend.derived([view for view in views if view is not None], min_sequence)

    async def _bound(self, question: _Asked, size: int, caller: Caller) -> StandingQuery:
        """Bind the statement. The loop remembers short statements; the binder's thread binds all others."""
        backend, questions, form = self._backend, self._questions, ""
        sql, tenant, values = question.sql, question.tenant, question.values
        if size <= _SHORT:
            query = questions.known(backend.host.snapshot(), sql, tenant=tenant, values=values)
            if query is not None:
                return query
            form = "" if values is not None else questions.form(sql)

        def bind(snapshot: Snapshot) -> BoundQuestion:
            return bind_question(snapshot, sql, tenant=tenant, values=values, form=form)

        bound = await self._on_binder(bind, tenant, caller)
        if size <= _SHORT:
            questions.learn(bound)
        return bound.query

    async def _read(self, sql: str, read: Callable[[Snapshot], T], caller: Caller) -> T:
        """Call `read` here, or on the binder's thread if the text is long."""
        if len(sql) <= LONG_TEXT:
            return read(self._backend.host.snapshot())
        return await self._on_binder(read, caller.principal.tenant, caller)

    async def _on_binder(self, work: Callable[[Snapshot], T], tenant: str, caller: Caller) -> T:
        """The result of `work` on the binder's thread. Raises ResourceExhausted if the tenant's quota is used up."""
        self._backend.meters.prepare(tenant)
        return await self._backend.host.bound(work, tenant, caller.peer())

    async def _values(self, request: Selection, caller: Caller) -> ParameterValues | None:
        """The parameter values of a request; None without. Raises InvalidInput unless they are one row."""
        given = await read_parameters(self._backend, request, len(request.statement), caller, check_one)
        if given is None:
            return None
        try:
            return ParameterValues(columns_of_table(given.table), names=given.names, titles=given.table.column_names)
        finally:
            given.place.release()
