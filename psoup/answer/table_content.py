"""The first tuples of a table that is made of a stream (CREATE TABLE … FROM STREAM).

    stream     12:00 a on   12:05 b on   12:07 a off
    table      12:00 a on   12:05 b on   12:07 a off      in event time: the same tuples, each a version of its time
    table                                b on    a off    in system time: loaded when the table is created

A table in system time has no versions older than itself. So it gets the newest tuple of each key, in stream order. As
the first versions of their keys, they hold from the beginning.

A reader collects the tuples. The stream itself does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.budgets import MEMORY
from psoup.config import EngineConfig
from psoup.data.archived_chunk import Chunk
from psoup.data.newest_versions import NewestVersions
from psoup.errors import FailedPrecondition, InvalidBatch, ResourceExhausted
from psoup.events.commands import TableContent
from psoup.model import ENTRY_BYTES, TABLE_COLUMNS, StreamSpec, time_text
from psoup.phrases import counted, verb
from psoup.published.snapshot import Snapshot, StreamView
from psoup.sql import create_from_stream
from psoup.sql.parser.guards import MAX_BYTES, check_budget
from psoup.values.columns import Array, Batch, Column, concat_columns, concatenated, empty_column, null_column

_IN_PIECES = "create the table with its columns, and push the tuples into it in pieces (docs/tables.md)"
_KEY_ROOM = 96
"""Bytes for each row while the newest tuples are found: hashes, and places in a hash table."""


def may_be_from_stream(sql: str) -> bool:
    """Whether a statement may have FROM STREAM. O(length)."""
    return "FROM" in sql[:MAX_BYTES].upper()


def table_content(snapshot: Snapshot, sql: str, tenant: str) -> TableContent | None:
    """The table of a CREATE TABLE … FROM STREAM, with its first tuples. None without FROM STREAM.

    The tuples are not read if the name is in use, which admission refuses. Raises SqlError, and InvalidBatch for a NULL
    in a key. Raises FailedPrecondition if tuples of the stream wait or are on disk. Raises ResourceExhausted if the
    tuples do not fit into memory. O(tuples).
    """
    if not may_be_from_stream(sql):
        return None
    check_budget(sql, defines=True)

    def lookup(name: str) -> StreamSpec | None:
        view = snapshot.streams.get((tenant, name.lower()))
        return None if view is None else view.spec

    name, spec = create_from_stream(sql, lookup, snapshot.names(tenant))
    if not name:
        return None
    if (tenant, spec.name.lower()) in snapshot.streams:
        return TableContent(spec, None)
    view = snapshot.stream(name, tenant)
    _check_whole(view)
    chunks = [entry.data for entry in view.chunks if len(entry.data)]
    room = snapshot.config.memory_bytes - sum(other.nbytes for other in snapshot.by_id.values())
    _check_size(view, chunks, snapshot.config, room)
    _check_keys(view, spec, chunks)
    columns = _tuples(spec, chunks)
    rows = len(columns[0])
    hidden = [null_column(attribute.type, rows) for attribute in TABLE_COLUMNS]
    batch = Batch((*hidden, *columns), _times(spec, chunks, rows))
    return TableContent(spec, batch, view.watermark, view.live)


def _check_whole(view: StreamView) -> None:
    """Raise FailedPrecondition if readers do not see all tuples of a stream, or see some on disk only."""
    name = view.spec.name
    if view.pending:
        raise FailedPrecondition(
            f"{counted(view.pending, 'tuple')} of stream {name!r} {verb(view.pending, 'waits', 'wait')} for its"
            f" watermark, and would not be in the table; stop its producers, send a heartbeat (psoup heartbeat {name}),"
            " and create the table then",
            reason="TUPLES_WAIT",
            stream=name,
            waiting=view.pending,
        )
    if view.archived:
        tuples = sum(len(entry.data) for entry in view.chunks[: view.archived])
        raise FailedPrecondition(
            f"{tuples:,} tuples of stream {name!r} are on disk only (ARCHIVE), and FROM STREAM takes tuples from"
            f" memory; {_IN_PIECES}",
            reason="TUPLES_ON_DISK",
            stream=name,
            tuples=tuples,
        )


def _check_size(view: StreamView, chunks: Sequence[Chunk], config: EngineConfig, room: int) -> None:
    """Raise an error if a stream does not fit into one event, or into `room` bytes of memory."""
    name, rows = view.spec.name, sum(map(len, chunks))
    size = sum(chunk.nbytes for chunk in chunks) + rows * ENTRY_BYTES
    if rows > config.staged_rows or size > config.batch_bytes:
        raise InvalidBatch(
            f"stream {name!r} has {rows:,} tuples, about {size:,} bytes as a table; {config.staged_rows:,} tuples and"
            f" {config.batch_bytes:,} bytes are the most for FROM STREAM; {_IN_PIECES}",
            reason="BATCH_TOO_LARGE",
            rows=rows,
            bytes=size,
        )
    needed = size if view.spec.event_time else size + rows * _KEY_ROOM
    if needed > room:
        raise ResourceExhausted(
            f"a table of the {rows:,} tuples of stream {name!r} needs about {needed:,} bytes of memory, and fewer are"
            " free; drop streams or queries, lessen the stream's RETENTION, or raise memory_mib",
            reason="MEMORY_BUDGET",
            needed=needed,
            **MEMORY.facts(config.memory_bytes),
        )


def _tuples(spec: StreamSpec, chunks: Sequence[Chunk]) -> list[Column]:
    """The columns of the table's tuples, without hidden ones. In system time only the newest tuple of each key."""
    chosen = [None] * len(chunks) if spec.event_time else _newest(spec, chunks)
    columns = list[Column]()
    for place, attribute in enumerate(spec.schema.attributes[len(TABLE_COLUMNS) :]):
        parts = [
            chunk.columns[place] if rows is None else chunk.columns[place].take(rows)
            for chunk, rows in zip(chunks, chosen, strict=True)
        ]
        columns.append(concat_columns(parts) if parts else empty_column(attribute.type))
    return columns


def _newest(spec: StreamSpec, chunks: Sequence[Chunk]) -> list[Array]:
    """The rows of each chunk that no later tuple of their key follows."""
    newest, offset = NewestVersions(spec), 0
    stays: Array = np.ones(sum(map(len, chunks)), np.bool_)
    for chunk in chunks:
        hidden = [chunk.columns[0]] * len(TABLE_COLUMNS)  # no key, so they are not read
        before = newest.put([*hidden, *chunk.columns], offset)
        stays[before[before >= 0]] = False
        offset += len(chunk)
    ends = np.cumsum([len(chunk) for chunk in chunks]).tolist()
    return [np.flatnonzero(stays[end - len(chunk) : end]) for chunk, end in zip(chunks, ends, strict=True)]


def _times(spec: StreamSpec, chunks: Sequence[Chunk], rows: int) -> Array:
    """The times of the tuples. In system time admission gives them a time."""
    if not spec.event_time or not chunks:
        return np.zeros(rows, np.int64)
    return concatenated([chunk.times for chunk in chunks])


def _check_keys(view: StreamView, spec: StreamSpec, chunks: Sequence[Chunk]) -> None:
    """Raise InvalidBatch for a tuple whose key is NULL. O(tuples)."""
    assert spec.table is not None
    for chunk in chunks:
        for place in spec.table.key:
            valid = chunk.columns[place - len(TABLE_COLUMNS)].valid
            if valid is None or valid.all():
                continue
            column, row = spec.schema.attributes[place].name, int(np.argmin(valid))
            raise InvalidBatch(
                f"{column!r} is NULL in the tuple with the ID {chunk.places.id_of(row)} of stream {view.spec.name!r},"
                f" of {time_text(int(chunk.times[row]))}; a primary key is never NULL: choose another key, or create"
                " the table with its columns, and push the rows of a SELECT without NULL into it",
                column=column,
                row=chunk.places.id_of(row),
            )
