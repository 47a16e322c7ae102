"""SELECT over streams and over views of queries.

text ─> `Relations`: streams only ──> Ask     describe ─> Check: bound, and not evaluated
           └─ SELECT * of one view ─> Invoke              └─ GetQuery
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import pyarrow as pa

from psoup.errors import NotFound, SqlError
from psoup.model import DataType, Kind, decimal
from psoup.sql.source import StatementText
from psoup.values.kinds import arrow_type
from psoup_proto.v1 import queries_pb2, types_pb2
from psoup_service.pg.contract import Argument, Column, Description, Sink
from psoup_service.pg.statements.origins import of_view, with_origins
from psoup_service.pg.statements.outlines import Named
from psoup_service.pg.statements.parameters import Place, known_types, places_of, with_samples, with_values
from psoup_service.pg.statements.postgresql_forms import in_psoup_sql
from psoup_service.pg.statements.reads import Reads
from psoup_service.pg.statements.relations import Framed, Relations, keys_of, unknown
from psoup_service.pg.statements.texts import Edited, located
from psoup_service.pg.values import column_of
from psoup_service.pg.values.types import FLOAT8, TEXT_OID, TIMESTAMPTZ, type_of

_QUALIFIED = re.compile(r"\b(?:streams|queries)\b", re.IGNORECASE)
"""A text without these words names no relation with its schema."""

_GUESSES = {TEXT_OID: "'x'", TIMESTAMPTZ: "TIMESTAMP '2020-01-01'", FLOAT8: "1.5e0"}
"""Types for a parameter whose type the statement leaves open, each with a value. Describe tries them in this order.

Check refuses a comparison with a wrong type. DOUBLE comes last, because Check also compares it with BOOLEAN.
"""
_MOST_GUESSED = 16
"""The most parameters of a statement for which types are tried. Further ones are texts."""

T = TypeVar("T")


Work = Callable[[Framed, tuple[Place, ...]], Awaitable[T]]


class Select:
    """A SELECT. `types`: the OIDs of its parameters, 0 where the client names none."""

    def __init__(self, reads: Reads, text: str, types: Sequence[int] = ()) -> None:
        self._reads = reads
        self._relations = Relations(reads.call)
        self._text = text
        self._types = tuple(types)
        self._described: Description | None = None

    async def describe(self) -> Description:
        """See `contract.Statement`. The statement is bound, and not evaluated."""
        if self._described is None:
            self._described = await self._over(self._describe)
        return self._described

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """See `contract.Statement`."""
        await self.send(arguments, sink, None if self._described is None else self._described.columns)
        return f"SELECT {sink.rows}"

    async def send(self, arguments: Sequence[Argument], sink: Sink, shown: Sequence[Column] | None) -> None:
        """Send the rows. `shown`: the columns that the client knows. Raises a PSoupError."""

        async def answered(framed: Framed, places: tuple[Place, ...]) -> None:
            filled = self._filled(framed, places, arguments)
            if framed.view is not None:
                await self._of_view(framed.view, lambda key: self._reads.invoke(key, sink, shown))
                return
            with _placed(self._text, (*framed.edits, filled)):
                await self._reads.ask(filled.text, sink, shown)

        await self._over(answered)

    async def explained(self, arguments: Sequence[Argument]) -> queries_pb2.CheckResponse | queries_pb2.ExplainResponse:
        """The plan: of a view alone by the call Explain, else by Check. Raises a PSoupError."""

        async def explain(
            framed: Framed, places: tuple[Place, ...]
        ) -> queries_pb2.CheckResponse | queries_pb2.ExplainResponse:
            if framed.view is not None:
                return await self._of_view(framed.view, self._reads.explain)
            filled = self._filled(framed, places, arguments)
            with _placed(self._text, (*framed.edits, filled)):
                return await self._check(filled.text)

        return await self._over(explain)

    @property
    def in_another_frame(self) -> bool:
        """Whether the session sets another time or window (psoup.as_of, psoup.window)."""
        return self._reads.framed

    def _filled(self, framed: Framed, places: tuple[Place, ...], arguments: Sequence[Argument]) -> Edited:
        """The statement with the arguments in the places of its parameters. Raises a PSoupError."""
        oids = known_types(places, self._types if self._described is None else self._described.parameters)
        return with_values(framed.text, places, arguments, oids, self._reads.zone)

    async def _of_view(self, view: Named, call: Callable[[str], Awaitable[T]]) -> T:
        """Call with the key of a view. Raises SqlError if no query has it."""
        for key in keys_of(view):
            try:
                return await call(key)
            except NotFound as problem:
                if problem.reason != "UNKNOWN_KEY":
                    raise
        raise unknown(self._text, view)

    async def _over(self, work: Work[T]) -> T:
        """Do work with the statement over streams. A name that no stream has may be the key of a query."""
        framed = self._in_psoup_sql(await self._framed())
        try:
            return await work(framed, places_of(framed.text))
        except SqlError as problem:
            if problem.reason != "UNKNOWN_STREAM":
                raise
            try:
                framed = self._in_psoup_sql(await self._relations.framed(self._text, plain=True))
            except SqlError:
                raise problem from None
        return await work(framed, places_of(framed.text))

    async def _framed(self) -> Framed:
        if self._reads.views_first:
            return await self._relations.framed(self._text, plain=True, views_first=True)
        if _QUALIFIED.search(self._text) is None:
            return Framed(self._text)
        return await self._relations.framed(self._text)

    def _in_psoup_sql(self, framed: Framed) -> Framed:
        edited = in_psoup_sql(framed.text, self._reads.zone, self._reads.now)
        return framed if edited is None else Framed(edited.text, (*framed.edits, edited), framed.view)

    async def _describe(self, framed: Framed, places: tuple[Place, ...]) -> Description:
        if framed.view is not None:
            query = await self._relations.view(self._text, framed.view)
            return Description((), of_view(query.query_id, columns_of(query.columns)))
        oids = known_types(places, self._types)
        while True:
            sampled, left = with_samples(framed.text, places, oids)
            with _placed(self._text, (*framed.edits, sampled)):
                try:
                    reply = await self._check(sampled.text, parameters=bool(left))
                    break
                except SqlError as problem:
                    number = _at(sampled.text, problem)
                    if number is None:
                        raise
                    oids[left[number]] = TEXT_OID  # it stands where Check takes constants only
        for number, kind in zip(left, reply.parameter_types, strict=True):
            if kind.kind:
                oids[number] = type_of(engine_type(kind))[0]
        if not all(oids):
            return await self._guessed(framed, places, oids, [at for at, oid in enumerate(oids) if not oid])
        return Description(tuple(oids), await self._with_origins(columns_of(reply.query.columns)))

    async def _guessed(
        self, framed: Framed, places: tuple[Place, ...], oids: list[int], left: list[int]
    ) -> Description:
        """The description, with the first type of `_GUESSES` that Check takes for each parameter of `left`."""
        oids = [oid or TEXT_OID for oid in oids]
        for number in left[:_MOST_GUESSED]:
            for oid, value in _GUESSES.items():
                sampled, _ = with_samples(framed.text, places, oids, {number: value})
                with suppress(SqlError):
                    await self._check(sampled.text)
                    oids[number] = oid
                    break
        sampled, _ = with_samples(framed.text, places, oids)
        with _placed(self._text, (*framed.edits, sampled)):
            reply = await self._check(sampled.text)
        return Description(tuple(oids), await self._with_origins(columns_of(reply.query.columns)))

    async def _with_origins(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        return await with_origins(self._text, columns, self._relations, views_first=self._reads.views_first)

    async def _check(self, text: str, *, parameters: bool = False) -> queries_pb2.CheckResponse:
        request = queries_pb2.CheckRequest(statement=text, parameters=parameters)
        reply = await self._reads.call("QueryService/Check", request)
        assert isinstance(reply, queries_pb2.CheckResponse)
        return reply


def _at(text: str, problem: SqlError) -> int | None:
    """The number of the parameter at the place of an error, from 0; None if there is none."""
    offset = StatementText(text).offset(problem.line, problem.column)
    return next((place.number for place in places_of(text) if place.start == offset), None)


@contextmanager
def _placed(written: str, edits: Sequence[Edited]) -> Iterator[None]:
    """A context in which errors get their places in the statement as the client wrote it."""
    try:
        yield
    except SqlError as problem:
        raise located(problem, written, edits) from None


def columns_of(columns: Sequence[types_pb2.Column]) -> tuple[Column, ...]:
    """The columns of an answer, from the columns of the contract."""
    return tuple(column_of(pa.field(column.name, arrow_type(engine_type(column.type)))) for column in columns)


def engine_type(kind: types_pb2.DataType) -> DataType:
    """The engine's type, from the type of the contract."""
    if kind.kind == types_pb2.KIND_DECIMAL:
        return decimal(kind.precision, kind.scale)
    return DataType(Kind[types_pb2.Kind.Name(kind.kind).removeprefix("KIND_")])
