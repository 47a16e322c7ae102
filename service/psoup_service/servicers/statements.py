"""StatementService: a SELECT that is asked once, and one call for any statement.

    Ask, AskStream   short text ──────────────────────> a reader thread: bind, evaluate ──> as Invoke, InvokeStream
                     long text ──> the binder's thread ──> a reader thread: evaluate
    Execute          CREATE, ALTER, DROP ──> StreamService; SELECT ──> Ask

Statements are bound to the schemas of the published snapshot, so a question never waits for the writer. Its evaluation
has the budgets of an invocation; binding on a reader thread counts, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from psoup.admission.binding import LONG_TEXT
from psoup.answer.ask import Questions, ask
from psoup.answer.invoke import Answer
from psoup.errors import FailedPrecondition
from psoup.model import WindowClause
from psoup.plan.standing import StandingQuery
from psoup.published.snapshot import Snapshot
from psoup.reading import ReadBudget
from psoup.sql import drop_stream, first_word
from psoup.sql.guards import MAX_BYTES
from psoup.sql.templates.ladder import Values
from psoup.sql.templates.values import columns_of_table
from psoup_proto.v1 import statements_pb2, statements_pb2_grpc, streams_pb2
from psoup_service.servicers.backend import Backend, Context
from psoup_service.servicers.invocation import Question, in_pieces, instant, most_bytes, other_window
from psoup_service.servicers.queries import check_one
from psoup_service.servicers.streams import StreamServicer
from psoup_service.wire import answers

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that was read from its request. `memory`: remembered statements, taken out by one thread at a time."""

    memory: deque[Questions]
    sql: str
    values: Values | None
    tenant: str
    now: int
    as_of: int | None
    window: WindowClause | None
    accept_truncation: bool

    def bind(self, snapshot: Snapshot) -> StandingQuery:
        """The statement, bound to the schemas of the snapshot."""
        try:
            questions = self.memory.pop()
        except IndexError:
            questions = Questions()
        try:
            return questions.bind(snapshot, self.sql, tenant=self.tenant, values=self.values)
        finally:
            self.memory.append(questions)

    def answer(self, snapshot: Snapshot, budget: ReadBudget, bound: StandingQuery | None = None) -> Answer:
        """Evaluate up to the matches; binds the statement unless it is `bound`, and again if the stream was changed
        since.
        """
        try:
            return ask(
                snapshot,
                bound or self.bind(snapshot),
                tenant=self.tenant,
                now=self.now,
                as_of=self.as_of,
                window=self.window,
                accept_truncation=self.accept_truncation,
                budget=budget,
            )
        except FailedPrecondition as problem:
            if bound is None or problem.reason != "STREAM_CHANGED":
                raise
        return self.answer(snapshot, budget)


class StatementServicer(statements_pb2_grpc.StatementServiceServicer):
    """See statements.proto."""

    def __init__(self, backend: Backend, streams: StreamServicer) -> None:
        self._backend = backend
        self._streams = streams
        self._memory: deque[Questions] = deque()

    async def Ask(self, request: statements_pb2.AskRequest, context: Context) -> statements_pb2.AskResponse:
        """The answer in one message."""
        max_bytes = most_bytes(request.max_bytes, self._backend.limits)
        answer, tenant = await self._asked(request, context)

        def make(snapshot: Snapshot, budget: ReadBudget) -> statements_pb2.AskResponse:
            return answers.whole(answer(snapshot, budget), max_bytes, statements_pb2.AskResponse)

        response = await self._backend.host.evaluate(make, tenant=tenant)
        self._backend.metrics.answered(response.rows)
        return response

    async def AskStream(
        self, request: statements_pb2.AskStreamRequest, context: Context
    ) -> AsyncIterator[statements_pb2.AskStreamResponse]:
        """The answer in pieces."""
        answer, tenant = await self._asked(request, context)
        async with aclosing(in_pieces(self._backend, tenant, answer, statements_pb2.AskStreamResponse)) as pieces:
            async for message in pieces:
                yield message

    async def Execute(self, request: statements_pb2.ExecuteRequest, context: Context) -> statements_pb2.ExecuteResponse:
        """Execute a statement by its first word; a statement of another kind is refused as a wrong SELECT."""
        sql, response = request.statement, statements_pb2.ExecuteResponse()
        match await self._read(sql, lambda _: first_word(sql[:MAX_BYTES]), context):
            case "CREATE":
                create = streams_pb2.CreateStreamRequest(statement=sql, allow_existing=request.allow_existing)
                response.created.CopyFrom(await self._streams.CreateStream(create, context))
            case "ALTER":
                alter = streams_pb2.AlterStreamRequest(statement=sql)
                response.altered.CopyFrom(await self._streams.AlterStream(alter, context))
            case "DROP":
                asked = await self._read(sql, lambda _: drop_stream(sql), context)
                lenient = asked.lenient or request.allow_missing
                drop = streams_pb2.DropStreamRequest(name=asked.stream, allow_missing=lenient)
                response.dropped.CopyFrom(await self._streams.DropStream(drop, context))
            case _:
                question = statements_pb2.AskRequest(
                    statement=sql, min_sequence=request.min_sequence, max_bytes=request.max_bytes
                )
                response.answer.CopyFrom(await self.Ask(question, context))
        return response

    async def _asked(self, request: Question, context: Context) -> tuple[Callable[[Snapshot, ReadBudget], Answer], str]:
        """The function that answers a request, and the tenant; waits for `min_sequence`. A long text is bound now."""
        backend, sql = self._backend, request.statement
        window, tenant = other_window(request.window), backend.tenant(context)
        values = await self._values(request, context) if request.parameters else None
        as_of = await instant(backend, request)
        asked = _Asked(self._memory, sql, values, tenant, backend.now(), as_of, window, request.accept_truncation)
        if len(sql) <= LONG_TEXT:
            return asked.answer, tenant
        return partial(asked.answer, bound=await self._read(sql, asked.bind, context)), tenant

    async def _read(self, sql: str, read: Callable[[Snapshot], T], context: Context) -> T:
        """The result of `read`: called here, or on the binder's thread if the text is long."""
        host = self._backend.host
        return read(host.snapshot()) if len(sql) <= LONG_TEXT else await host.bound(read, context.peer())

    async def _values(self, request: Question, context: Context) -> Values:
        """The row of values of a request."""
        decoding, parameters = self._backend.decoding, request.parameters
        decoded = await decoding.parameters(parameters, len(request.statement), context.peer, check_one)
        try:
            table = pa.table(decoded.table)
            names = tuple(table.column_names) if request.by_name else ()
            return Values(columns_of_table(table), names=names, titles=table.column_names)
        finally:
            decoded.place.release()
