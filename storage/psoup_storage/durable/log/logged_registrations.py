"""Registered queries, read from the log again: the log as `Registrations` of parked queries.

    event 4711, query 9 ──> its row ──> text, or the columns of the block at the place of 9
                        ──> the rows of its streams before 4711: their columns at that time ──> bound as then

The blocks that were read last stay in memory. A list of queries reads many queries of one block.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from psoup.errors import NotFound, PSoupError
from psoup.expressions.supplied_functions import declared
from psoup.plan.standing_query import StandingQuery
from psoup.sql.templates.values import Columns
from psoup.values.columns import Array
from psoup_storage.durable.log.blocks import bind_columns, columns_in
from psoup_storage.durable.log.definitions import altered, created
from psoup_storage.durable.log.log import FIELDS
from psoup_storage.durable.log.rows import LogRow, checked_tuples, checksum_of, damaged
from psoup_storage.durable.log.stream_names import LoggedStreams
from psoup_storage.durable.sqlite.quick_reader import Rows

CONTENT_BYTES = 64 * 1024 * 1024
"""The most bytes of blocks that stay in memory. The block that was read last always stays."""
_OBJECTS = 2_048
"""Bytes of the objects around the columns of a block."""
_STREAMS = 64
"""The most sets of streams that are remembered, each with its statements that were bound before."""

_ROW = f"SELECT {', '.join(FIELDS)} FROM log WHERE sequence = ?"
_CONTENT = "SELECT content FROM slices WHERE sequence = ? ORDER BY number"
_DEFINITIONS = f"""
SELECT {", ".join(FIELDS)} FROM log
WHERE stream = ? AND kind IN ('stream', 'alter') AND sequence < ? ORDER BY sequence
"""
"""Has an index of its own: a stream may have a million other rows, one for each query that was registered alone."""


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a block. `nbytes`: the bytes that it takes in memory."""

    columns: Columns
    nbytes: int


class LoggedRegistrations:
    """Reads queries from the log of a directory. `rows`: reads rows of its database. Any thread; they take turns."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._lock = threading.Lock()
        self._contents: OrderedDict[int, _Content] = OrderedDict()
        """Contents of blocks, by the sequence of their event. The one that was read last is at the end."""
        self._bytes = 0
        """Bytes of all contents."""
        self._streams: OrderedDict[tuple[int, ...], LoggedStreams] = OrderedDict()
        """Streams as some queries found them, by the sequences of the rows that define them."""

    def read_queries(self, sequence: int, query_ids: Array) -> Sequence[StandingQuery]:
        """See `Registrations`. O(bytes of the block), unless it was read before; then O(k)."""
        with self._lock:
            row = self._row(sequence)
            try:
                facts = json.loads(row.body)
                with declared(facts.get("functions", ())):
                    return self._bound(row, facts, query_ids)
            except PSoupError as problem:
                if problem.reason in ("DATA_DAMAGED", "STORAGE_FAILED", "UNKNOWN_QUERY"):
                    raise
                raise damaged(sequence, f"it cannot be bound any more: {problem.message}") from problem
            except (KeyError, ValueError, TypeError, IndexError, pa.ArrowException) as problem:
                raise damaged(sequence, f"{type(problem).__name__}: {problem}") from problem

    def forget(self) -> None:
        """Forget the contents of blocks."""
        with self._lock:
            self._contents.clear()
            self._bytes = 0

    def _row(self, sequence: int) -> LogRow:
        rows = list(self._rows(_ROW, (sequence,)))
        if not rows or rows[0][1] not in ("query", "queries"):
            raise NotFound("the query has just been unregistered", reason="UNKNOWN_QUERY", sequence=sequence)
        return _checked(LogRow(*rows[0]))

    def _bound(self, row: LogRow, facts: dict[str, Any], query_ids: Array) -> Sequence[StandingQuery]:
        streams = tuple(facts.get("streams", ())) or (row.stream,)
        logged = self._logged(streams, row.sequence)
        if row.kind == "query":
            return [logged.bind(streams, facts["text"])]
        content = self._content(row, facts)
        queries, _ = bind_columns(facts, content.columns, logged.bind, logged.prepared, query_ids - facts["first"])
        return queries

    def _content(self, row: LogRow, facts: dict[str, Any]) -> _Content:
        content = self._contents.pop(row.sequence, None)
        if content is None:
            parts = [part for (part,) in self._rows(_CONTENT, (row.sequence,))]
            if not parts:
                raise NotFound("the query has just been unregistered", reason="UNKNOWN_QUERY", sequence=row.sequence)
            tuples = checked_tuples(row._replace(tuples=b"".join(parts)), facts)
            content = _Content(columns_in(facts, tuples)[0], len(tuples) + _OBJECTS)
            self._bytes += content.nbytes
        self._contents[row.sequence] = content
        while len(self._contents) > 1 and self._bytes > CONTENT_BYTES:
            self._bytes -= self._contents.popitem(last=False)[1].nbytes
        return content

    def _logged(self, streams: tuple[int, ...], sequence: int) -> LoggedStreams:
        """The streams with some IDs, as they were before an event."""
        rows = [
            _checked(LogRow(*values)) for stream in streams for values in self._rows(_DEFINITIONS, (stream, sequence))
        ]
        if {row.stream for row in rows} != set(streams):
            raise NotFound("the query's stream has just been dropped", reason="UNKNOWN_QUERY", sequence=sequence)
        key = tuple(row.sequence for row in rows)
        logged = self._streams.pop(key, None) or _streams_of(rows)
        self._streams[key] = logged
        if len(self._streams) > _STREAMS:
            self._streams.popitem(last=False)
        return logged


def _streams_of(rows: Sequence[LogRow]) -> LoggedStreams:
    logged = LoggedStreams()
    for row in rows:
        facts = json.loads(row.body)
        if row.kind == "stream":
            logged.specs[row.stream] = created(facts)
        else:
            logged.specs[row.stream] = altered(logged.specs[row.stream], facts["sql"], facts)
    return logged


def _checked(row: LogRow) -> LogRow:
    if row.checksum != checksum_of(row):
        raise damaged(row.sequence, "its checksum is wrong")
    return row
