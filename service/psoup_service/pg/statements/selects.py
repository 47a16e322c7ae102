"""SELECT over streams and over views of queries.

text ─> `Relations`: streams only ──> Ask     describe ─> Check: bound, and not evaluated
           └─ SELECT * of one view ─> Invoke              └─ GetQuery
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from psoup.errors import SqlError
from psoup.model import DataType, Kind, decimal
from psoup.values.kinds import arrow_type
from psoup_proto.v1 import queries_pb2, types_pb2
from psoup_service.pg.contract import Argument, Column, Description, Sink
from psoup_service.pg.statements.reads import Reads
from psoup_service.pg.statements.relations import Framed, Relations
from psoup_service.pg.statements.texts import located
from psoup_service.pg.values import column_of

_QUALIFIED = re.compile(r"\b(?:streams|queries)\b", re.IGNORECASE)
"""A text without these words names no relation with its schema."""


class Select:
    """A SELECT. `relations`: finds the relations that it names."""

    def __init__(self, reads: Reads, text: str) -> None:
        self._reads = reads
        self._relations = Relations(reads.call)
        self._text = text
        self._described: Description | None = None

    async def describe(self) -> Description:
        """See `contract.Statement`. The statement is bound, and not evaluated."""
        if self._described is None:
            self._described = await self._over(self._describe)
        return self._described

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """See `contract.Statement`."""
        shown = None if self._described is None else self._described.columns

        async def send(framed: Framed) -> None:
            if framed.key:
                await self._reads.invoke(framed.key, sink, shown)
            else:
                await self._reads.ask(framed.text, sink, shown)

        await self._over(send)
        return f"SELECT {sink.rows}"

    async def _over(self, work: Any) -> Any:
        """Do work with the statement over streams. A name that no stream has may be the key of a query."""
        framed = await self._framed()
        try:
            return await self._placed(work, framed)
        except SqlError as problem:
            if problem.reason != "UNKNOWN_STREAM":
                raise
            try:
                framed = await self._relations.framed(self._text, plain=True)
            except SqlError:
                raise problem from None
        return await self._placed(work, framed)

    async def _framed(self) -> Framed:
        if _QUALIFIED.search(self._text) is None:
            return Framed(self._text)
        return await self._relations.framed(self._text)

    async def _placed(self, work: Any, framed: Framed) -> Any:
        try:
            return await work(framed)
        except SqlError as problem:
            raise located(problem, self._text, framed.edits) from None

    async def _describe(self, framed: Framed) -> Description:
        if framed.query is not None:
            return Description((), columns_of(framed.query.columns))
        reply = await self._reads.call("QueryService/Check", queries_pb2.CheckRequest(statement=framed.text))
        return Description((), columns_of(reply.query.columns))


def columns_of(columns: Sequence[types_pb2.Column]) -> tuple[Column, ...]:
    """The columns of an answer, from those of the contract."""
    return tuple(column_of(pa.field(column.name, arrow_type(_data_type(column.type)))) for column in columns)


def _data_type(kind: types_pb2.DataType) -> DataType:
    if kind.kind == types_pb2.KIND_DECIMAL:
        return decimal(kind.precision, kind.scale)
    return DataType(Kind[types_pb2.Kind.Name(kind.kind).removeprefix("KIND_")])
