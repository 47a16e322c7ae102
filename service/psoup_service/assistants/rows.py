"""The first rows of an answer as JSON, and the number of its other rows.

Ask, Invoke ──too large──> AskStream, InvokeStream ─> the first batches are kept, all rows are counted
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pyarrow as pa

from psoup.errors import ResourceExhausted
from psoup.plan.column_names import unique_names
from psoup_proto.v1 import queries_pb2, statements_pb2
from psoup_service.assistants.calls import Bounds, McpCalls
from psoup_service.assistants.facts import ColumnFacts, CompletenessFacts, Facts, arrow_columns, completeness_facts
from psoup_service.wire.json_answers import plain_rows
from psoup_service.wire.written import Written

_AT_ONCE = 1 << 20
"""Bytes of an answer in one message at most."""
_COMMA = 1


class AnswerFacts(Facts):
    """An answer. `rows`: the first rows, as objects by column. `more_rows`: the number of rows that were left out."""

    columns: list[ColumnFacts]
    rows: list[dict[str, Any]]
    more_rows: int
    completeness: CompletenessFacts
    note: str | None = None


async def answer(
    calls: McpCalls,
    bounds: Bounds,
    whole: tuple[str, Any],
    pieces: tuple[str, Any],
    kind: type[queries_pb2.InvokeStreamResponse | statements_pb2.AskStreamResponse],
) -> AnswerFacts:
    """An answer within bounds. `whole`, `pieces`: a call and its request, for one message and for several of `kind`.

    Raises a PSoupError, also if the rows cannot be counted within the deadline of a call.
    """
    name, request = whole
    request.max_bytes = _AT_ONCE
    reply = await calls.one(name, request)
    if not reply.too_large:
        with pa.ipc.open_stream(reply.arrow_ipc) as reader:
            table = reader.read_all()
        total, completeness = reply.rows, reply.completeness
    else:
        first = _FirstRows(kind, bounds.rows)
        seconds = calls.answering.limits.default_deadline_s
        try:
            async with asyncio.timeout(seconds):
                await calls.many(*pieces, first.take)
        except TimeoutError:
            raise ResourceExhausted(
                f"the answer has {first.total:,} rows or more, which could not all be counted within {seconds:g} s;"
                " add LIMIT or a narrower WHERE, or ask for count(*)",
                reason="DEADLINE_EXCEEDED",
            ) from None
        table, total, completeness = first.table(), first.total, first.completeness
    return await calls.made(table.nbytes, lambda: _facts(table.slice(0, bounds.rows), total, completeness, bounds.size))


class _FirstRows:
    """Keeps the first rows of an answer in pieces, and counts all. The first piece has the schema."""

    def __init__(self, kind: type[Any], limit: int) -> None:
        self.total = 0
        self.completeness: Any = None
        self._kind = kind
        self._limit = limit
        self._schema: pa.Schema | None = None
        self._batches = list[pa.RecordBatch]()
        self._kept = 0

    async def take(self, reply: Any) -> None:
        """Take the next piece."""
        piece = self._kind.FromString(reply.raw) if type(reply) is Written else reply
        self.total += piece.rows
        if piece.HasField("completeness"):
            self.completeness = piece.completeness
        if self._schema is None:
            self._schema = pa.ipc.read_schema(pa.py_buffer(piece.arrow_ipc))
            return
        if self._kept >= self._limit:
            return
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(piece.arrow_ipc)):
            batch = pa.ipc.read_record_batch(message, self._schema)
            part = batch.slice(0, self._limit - self._kept)
            self._kept += part.num_rows
            self._batches.append(part.take(pa.array(range(part.num_rows))))  # a copy, so that the piece can be freed

    def table(self) -> pa.Table:
        """The rows that are kept."""
        return pa.Table.from_batches(self._batches, self._schema)


def _facts(table: pa.Table, total: int, completeness: Any, size: int) -> AnswerFacts:
    """The facts about an answer in at most `size` bytes of JSON."""
    facts = AnswerFacts(
        columns=arrow_columns(table.schema, unique_names(table.schema.names)),
        rows=[],
        more_rows=total,
        completeness=completeness_facts(completeness),
    )
    facts.rows = fitting_rows(table, size - facts.size() - len(_NOTE))
    facts.more_rows = total - len(facts.rows)
    if total and not facts.rows:
        facts.note = _NOTE
    return facts


_NOTE = "The first row alone takes more bytes than the reply may have; select fewer columns, or parts of long texts."


def fitting_rows(table: pa.Table, room: int) -> list[dict[str, Any]]:
    """The first rows of a table whose JSON takes at most `room` bytes. O(values) of these and of one batch."""
    rows = list[dict[str, Any]]()
    for batch in table.to_batches(max_chunksize=16):
        for row in plain_rows(batch):
            room -= len(orjson.dumps(row)) + _COMMA
            if room < 0:
                return rows
            rows.append(row)
    return rows
