"""Answers as bytes: Arrow IPC in one or several pieces, and pages of rows.

    Answer ── batches ──> schema message | batch | batch | … | end mark        one Arrow IPC stream, however it is cut

`whole` makes whole answers, on the caller's thread. `Pieces` makes one piece at a time, so that any answer takes the
memory of one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import pyarrow as pa

from psoup.answer.invoke import Answer
from psoup.answer.invoke_many import JoinedAnswer
from psoup.budgets import REPLY_BYTES
from psoup.errors import ResourceExhausted
from psoup.execution.rows.record_batch import Message
from psoup_proto.v1 import queries_pb2, statements_pb2, types_pb2
from psoup_service.wire.completeness import completeness_message
from psoup_service.wire.json_answers import rows_json
from psoup_service.wire.written import Written, with_payload

END_MARK = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end mark of an Arrow IPC stream."""

MOST_JSON_ROWS = 10_000
"""The most rows of an answer in JSON: some 50 ms of Python."""

_VALUE_BYTES = 12
"""The bytes that a value of a page takes on the wire in addition to its bytes in Arrow. There a BOOLEAN is a bit."""


Whole = TypeVar("Whole", queries_pb2.InvokeResponse, statements_pb2.AskResponse)
Piece = TypeVar("Piece", queries_pb2.InvokeStreamResponse, statements_pb2.AskStreamResponse)


def whole(answer: Answer, max_bytes: int, kind: type[Whole]) -> Whole:
    """The answer in one message.

    If its Arrow IPC takes more than `max_bytes`, a message with `too_large` and no rows.
    """
    contents = completeness_message(answer.completeness, answer.record.query)
    parts: list[Any] = [answer.schema_message]
    size, count = len(answer.schema_message) + len(END_MARK), 0
    matched = answer.matched
    answer.budget.found = matched
    if matched > 8 * max_bytes and answer.record.query.plan.keeps_rows:
        return kind(completeness=contents, too_large=True)  # a row takes at least a bit
    for part in answer.messages(max_bytes=max_bytes):
        size += part.size if isinstance(part, Message) else pa.ipc.get_record_batch_size(part)
        if size > max_bytes:
            return kind(completeness=contents, too_large=True)
        rows, raw = _raw(part)
        parts.append(raw)
        count += rows
    parts.append(END_MARK)
    set_counts(contents, answer)
    return kind(completeness=contents, arrow_ipc=b"".join(parts), rows=count)


def set_counts(contents: types_pb2.Completeness, answer: Answer) -> bool:
    """Set the counts that are known once the rows are read. Returns whether they differ from the present ones."""
    counts = (answer.errors, answer.select_errors, answer.unknown)
    differs = counts != (contents.errors, contents.select_errors, contents.unknown)
    if differs:
        contents.errors, contents.select_errors, contents.unknown = counts
    return differs


def whole_json(answer: Answer, max_bytes: int) -> statements_pb2.AskResponse:
    """The answer in one message, as rows in JSON.

    If it has more than `MOST_JSON_ROWS`, or takes more than `max_bytes`, a message with `too_large` and no rows.
    """
    contents = completeness_message(answer.completeness, answer.record.query)
    batch, more = page(answer, 0, MOST_JSON_ROWS, max_bytes)
    raw = b"[]" if batch is None else rows_json(batch)
    if more or len(raw) > max_bytes:
        return statements_pb2.AskResponse(completeness=contents, too_large=True)
    set_counts(contents, answer)
    return statements_pb2.AskResponse(completeness=contents, json_rows=raw, rows=0 if batch is None else batch.num_rows)


def whole_joined(answer: JoinedAnswer, contents: types_pb2.Completeness, max_bytes: int) -> queries_pb2.InvokeResponse:
    """The answer of a join in one message, for a join that was computed with other queries in one run.

    `contents`: the completeness of the answer. Returns `too_large` like `whole`.
    """
    raw = b"".join([answer.schema_message, *answer.parts, END_MARK])
    if answer.rows and len(raw) > max_bytes:
        return queries_pb2.InvokeResponse(completeness=contents, too_large=True)
    return queries_pb2.InvokeResponse(completeness=contents, arrow_ipc=raw, rows=answer.rows)


def one_batch(batch: pa.RecordBatch) -> bytes:
    """A whole Arrow IPC stream of one batch."""
    return b"".join((memoryview(batch.schema.serialize()), memoryview(batch.serialize()), END_MARK))


def _raw(part: Message | pa.RecordBatch) -> tuple[int, memoryview]:
    """The number of rows in a part of an answer, and its Arrow IPC."""
    if isinstance(part, Message):
        return part.rows, part.gathered().data
    return part.num_rows, memoryview(part.serialize())


class Pieces(Generic[Piece]):
    """The messages of a streamed answer. `next` is called on a reader thread, one call at a time.

    An answer that its client abandons is freed with the last reference to this object. So the generator must not refer
    to it: such a cycle would keep the answer until the next full collection, which is rare in the service.
    """

    def __init__(self, answer: Answer, kind: type[Piece], chunk_bytes: int, most_bytes: int = 64 * 1024 * 1024) -> None:
        self._messages: Iterator[tuple[int, Piece | Written]] = _messages(answer, kind, chunk_bytes, most_bytes)

    def next(self) -> tuple[int, Piece | Written] | None:
        """The next message and its rows, or None after the last. Raises what the answer raises."""
        return next(self._messages, None)


def _messages(
    answer: Answer, kind: type[Piece], chunk_bytes: int, most_bytes: int
) -> Iterator[tuple[int, Piece | Written]]:
    contents = completeness_message(answer.completeness, answer.record.query)
    yield 0, kind(completeness=contents, arrow_ipc=answer.schema_message)
    for part in answer.messages(max_bytes=2 * chunk_bytes):
        for piece in [part] if isinstance(part, Message) else _cut(part, chunk_bytes):
            yield _piece(kind, most_bytes, *_raw(piece))  # no variable keeps the bytes between two calls
    more = set_counts(contents, answer)
    yield 0, kind(completeness=contents if more else None, arrow_ipc=END_MARK)


def _piece(kind: type[Piece], most_bytes: int, rows: int, raw: memoryview) -> tuple[int, Written]:
    """A message of the stream. Raises ResourceExhausted for a row that does not fit into one message."""
    message = with_payload(kind(rows=rows), "arrow_ipc", raw)
    if len(message.raw) > most_bytes:
        raise ResourceExhausted(
            f"a row of this answer takes {len(raw):,} bytes, and a message may have {most_bytes:,}; select fewer"
            " columns",
            reason="ROW_TOO_LARGE",
            bytes=len(raw),
            **REPLY_BYTES.over(len(raw), most_bytes),
        )
    return rows, message


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts of at most about twice `size` bytes, or of one row."""
    if batch.num_rows <= 1 or batch.nbytes <= 2 * size:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _cut(batch.slice(0, middle), size)
    yield from _cut(batch.slice(middle), size)


def page(answer: Answer, offset: int, rows: int, max_bytes: int) -> tuple[pa.RecordBatch | None, bool]:
    """Return at most `rows` rows of the answer from row `offset` on, and whether more rows follow.

    Returns fewer rows if they take more than `max_bytes`, and None if there is no row. O(offset + rows), because the
    rows before `offset` are gathered, too.
    """
    rows = min(rows, max(max_bytes // (_VALUE_BYTES * len(answer.schema)), 1))
    wanted = rows + 1
    parts: list[pa.RecordBatch] = []
    seen = row_count = 0
    size = 0
    for batch in answer.batches(max(wanted, 1_024), max(max_bytes, 1)):
        part = batch.slice(max(offset - seen, 0), wanted - row_count)
        seen += batch.num_rows
        if part.num_rows:
            parts.append(part)
            row_count += part.num_rows
            size += part.nbytes
        if row_count >= wanted or (size > max_bytes and row_count > 1):
            break
    if not parts:
        return None, False
    pieces = pa.concat_batches(parts)
    fitting = pieces.slice(0, rows)
    while fitting.num_rows > 1 and fitting.nbytes + _VALUE_BYTES * fitting.num_rows * fitting.num_columns > max_bytes:
        fitting = fitting.slice(0, fitting.num_rows // 2)
    return fitting, fitting.num_rows < pieces.num_rows
