"""Removal of gone queries and streams from the log of a running service: the log grows with what stands.

    query 7 … unregister 7                        both rows go
    queries 8 to 90 … unregister 9                the unregistration goes, and a bit of the block says so
                    … the last of them            the block goes, too
    query 7 … query 8, in the place of 7          the row of 7 goes
                    … unregister 8                the row of 8 says only that it replaced 7: "replaced"
    stream 3 … drop 3                             all of it goes, once no row of a query names it any more

One slice at a time is removed, in a transaction of its own between the events: a crash finds it done or not done, and a
replay of either log ends in the same state. The last row always stays, as sequences are counted from it; so do the
newest registration and the newest stream, from which IDs are counted. Of what replaced what, the log keeps as much as
is remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw
import numpy as np

from psoup.events.change import change_of
from psoup.events.events import Event, Replaced
from psoup.published.replaced import KEPT_REPLACEMENTS
from psoup_storage.durable.log.blocks import read_gone, write_gone
from psoup_storage.durable.log.codec import INT64, damaged, encode
from psoup_storage.durable.log.log import write
from psoup_storage.durable.sqlite.database import Database

SLICE = 256
"""Unregistrations that are forgotten at once. Acknowledgements wait for a slice: some milliseconds."""

_NEWEST = "SELECT ifnull(max(sequence), 0) FROM log WHERE kind IN ('query', 'queries')"
_GONE = "SELECT sequence, body ->> 'query' FROM log WHERE kind = 'unregister' ORDER BY sequence"
_DROPPED = "SELECT sequence, stream FROM log WHERE kind = 'drop' ORDER BY sequence"
_SINGLE = "SELECT sequence, kind FROM log WHERE kind IN ('query', 'unregister') AND body ->> 'query' = ?"
_COUNT = "coalesce(body ->> 'count', json_array_length(body, '$.rows'), json_array_length(body, '$.texts'))"
_BLOCK = f"""
SELECT sequence, body ->> 'first', {_COUNT}, (SELECT queries FROM gone WHERE gone.sequence = log.sequence) FROM log
WHERE kind = 'queries' AND body ->> 'first' <= ? ORDER BY body ->> 'first' DESC LIMIT 1
"""
_TOLD = f"""
SELECT sequence, body ->> 'first', {_COUNT}, gone.queries FROM gone JOIN log USING (sequence)
"""
_BITS = "INSERT INTO gone (sequence, queries) VALUES (?, ?) ON CONFLICT DO UPDATE SET queries = excluded.queries"
_DELETE = "DELETE FROM log WHERE sequence = ?"
_TELLS = "DELETE FROM log WHERE sequence = ? AND kind = 'unregister'"
"""A row that ended a query and registers another stays."""
_REPLACING = """
SELECT body ->> 'tenant', coalesce(body ->> 'query', body ->> 'first'), body ->> 'replaced', refused FROM log
WHERE sequence = ? AND (kind = 'query' AND body ->> 'replaced' IS NOT NULL OR kind = 'queries' AND refused IS NOT NULL)
"""
_ALL_REPLACING = """
SELECT sequence, body ->> 'replaced', refused FROM log
WHERE kind = 'query' AND body ->> 'replaced' IS NOT NULL OR kind = 'queries' AND refused IS NOT NULL
"""
_ALL_SINGLE = "SELECT body ->> 'query' FROM log WHERE kind = 'query'"
_ALL_BLOCKS = f"""
SELECT sequence, body ->> 'first', {_COUNT}, (SELECT queries FROM gone WHERE gone.sequence = log.sequence) FROM log
WHERE kind = 'queries' ORDER BY body ->> 'first'
"""
_REPLACED = """
SELECT sequence, length(refused) / 16 FROM log WHERE stream = 0 AND kind = 'replaced' AND body ->> 'tenant' = ?
ORDER BY sequence DESC
"""
_STREAM = """
DELETE FROM log WHERE stream = :stream AND :stream < (SELECT max(stream) FROM log)
    AND NOT EXISTS (SELECT 1 FROM log WHERE stream = :stream AND kind IN ('query', 'queries'))
    AND NOT EXISTS (SELECT 1 FROM log AS block, json_each(block.body, '$.streams')
        WHERE block.stream = 0 AND block.kind = 'queries' AND value = :stream)
"""


@dataclass(slots=True)
class LoggedBlock:
    """A block of queries in the log; `gone`: for each query whether it is gone, bool[count]."""

    sequence: int
    first: int
    gone: np.ndarray[tuple[int], np.dtype[np.bool_]]
    told: list[int] = field(default_factory=list)
    """Sequences of the unregistrations whose bits are set in `gone`, so that their rows may go."""


class Departures:
    """The queries and streams that are gone and still have rows in the log. Used by the thread that appends.

    Raises Internal, reason DATA_DAMAGED, if the bits of a block are damaged.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest = int(next(database.query(_NEWEST))[0])
        ended = [(int(s), int(q)) for s, q in database.query(_GONE)]
        self._queries = deque(sorted([*ended, *_replaced_in(database)]))
        """Queries that were unregistered or replaced, in order: sequence and query."""
        self._streams: deque[tuple[int, int]] = deque((int(s), int(q)) for s, q in database.query(_DROPPED))
        """Drops of streams, in order: sequence and stream."""
        self._spent: set[tuple[int, int]] = set()
        """Registrations that stayed, without queries, because they were the newest: sequence and first query."""
        for sequence, first, count, content in database.query(_TOLD):
            try:
                gone = read_gone(sequence, count, content)
            except ValueError as problem:
                raise damaged(sequence, str(problem)) from problem
            if len(gone) == count:
                self._spent.add((sequence, first))
        self._fresh = 0
        """Departures since the last slice."""
        self._left: dict[str, int] = {}
        """Replacements of gone queries that rows keep, since their number was last looked at, by tenant."""

    def note(self, events: Sequence[Event]) -> None:
        """Take over the departures of events that were appended."""
        for event in events:
            change = change_of(event)
            if change.queries:
                self._newest = event.sequence
            for query in change.ended:
                self._queries.append((event.sequence, query))
                self._fresh += 1
            if change.dropped:
                self._streams.append((event.sequence, change.dropped))
                self._fresh += 1

    @property
    def due(self) -> bool:
        """Whether a slice is full."""
        return self._fresh >= SLICE

    def forget(self, last: int) -> bool:
        """Forget a slice of the departures before the event `last`; returns whether more may be left.

        Raises ResourceExhausted without room, and Internal: nothing has changed then.
        """
        queries = [(sequence, query) for sequence, query in _head(self._queries) if sequence < last]
        streams = [(sequence, stream) for sequence, stream in _head(self._streams) if sequence < last]
        spent = {(sequence, first) for sequence, first in self._spent if sequence < self._newest}
        if not (queries or streams or spent):
            return False
        with self._database.transaction() as connection:
            later = self._forget_queries(connection, queries)
            for sequence, _ in spent:
                for (query,) in connection.execute("SELECT body ->> 'query' FROM log WHERE sequence = ?", (sequence,)):
                    rows = list(connection.execute(_SINGLE, (query,))) if query is not None else [(sequence,)]
                    self._forget_rows(connection, [row[0] for row in rows])
            stay = [(sequence, stream) for sequence, stream in streams if not _forget_stream(connection, stream)]
        for waiting, looked_at in (self._queries, queries), (self._streams, streams):
            for _ in looked_at:
                waiting.popleft()
        self._streams.extend(stay)
        self._spent = (self._spent - spent) | later
        self._fresh = max(0, self._fresh - len(queries) - len(streams))
        return len(queries) == SLICE or len(stay) < len(streams) == SLICE

    def _forget_queries(self, connection: apsw.Connection, departed: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Forget unregistered queries; returns the registrations that stay only because they are the newest."""
        later, blocks = set[tuple[int, int]](), dict[int, LoggedBlock]()
        block: LoggedBlock | None = None
        for sequence, query in departed:
            rows = list(connection.execute(_SINGLE, (query,)))
            registered = [row[0] for row in rows if row[1] == "query"]
            if registered:
                if registered[0] < self._newest:
                    self._forget_rows(connection, [row[0] for row in rows])
                else:
                    later.add((registered[0], query))
                continue
            if block is None or not block.first <= query < block.first + len(block.gone):
                block = _block_of(connection, query)
                block = None if block is None else blocks.setdefault(block.sequence, block)
            if block is not None:
                block.gone[query - block.first] = True
                block.told.append(sequence)
        for block in blocks.values():
            connection.executemany(_TELLS, [(sequence,) for sequence in block.told])
            if block.gone.all() and block.sequence < self._newest:
                self._forget_rows(connection, [block.sequence])
                continue
            connection.execute(_BITS, (block.sequence, write_gone(block.sequence, block.gone)))
            if block.gone.all():
                later.add((block.sequence, block.first))
        return later

    def _forget_rows(self, connection: apsw.Connection, sequences: Sequence[int]) -> None:
        """Forget rows, but for what the queries that they registered replaced."""
        for sequence in sequences:
            left = _left_of(sequence, next(connection.execute(_REPLACING, (sequence,)), None))
            connection.execute(_DELETE, (sequence,))
            if left is not None:
                write(connection, [encode(left)])
                self._left[left.tenant] = self._left.get(left.tenant, 0) + len(left.later)
                if self._left[left.tenant] >= KEPT_REPLACEMENTS // 8:
                    _forget_replaced(connection, left.tenant)
                    self._left[left.tenant] = 0


def _head(waiting: deque[tuple[int, int]]) -> list[tuple[int, int]]:
    return [waiting[place] for place in range(min(SLICE, len(waiting)))]


def _block_of(connection: apsw.Connection, query: int) -> LoggedBlock | None:
    """The block that has a query; None if the log has lost it."""
    for sequence, first, count, content in connection.execute(_BLOCK, (query,)):
        if query < first + count:
            return _block(sequence, first, count, content)
    return None


def _block(sequence: int, first: int, count: int, content: bytes | None) -> LoggedBlock:
    gone = np.zeros(count, np.bool_)
    if content is not None:
        gone[read_gone(sequence, count, content)] = True
    return LoggedBlock(sequence, first, gone)


def _forget_stream(connection: apsw.Connection, stream: int) -> bool:
    connection.execute(_STREAM, {"stream": stream})
    return connection.changes() > 0


def _replaced_in(database: Database) -> Iterator[tuple[int, int]]:
    """The queries that were replaced, and that the log still registers, with the sequence of that."""
    replaced = [
        (sequence, query)
        for sequence, single, many in database.query(_ALL_REPLACING)
        for query in ([single] if many is None else np.frombuffer(many, INT64).tolist())
        if query >= 0
    ]
    if not replaced:
        return
    singles = {query for (query,) in database.query(_ALL_SINGLE)}
    blocks = [_block(*row) for row in database.query(_ALL_BLOCKS)]
    firsts = [block.first for block in blocks]
    for sequence, query in replaced:
        block = blocks[max(bisect_right(firsts, query) - 1, 0)] if blocks else None
        place = -1 if block is None else query - block.first
        if query in singles or (block is not None and 0 <= place < len(block.gone) and not block.gone[place]):
            yield sequence, query


def _left_of(sequence: int, row: tuple[Any, ...] | None) -> Replaced | None:
    """The replacements of a registration that is forgotten, if it had any."""
    if row is None:
        return None
    tenant, query, replaced, many = row
    earlier = np.array([replaced]) if many is None else np.frombuffer(many, INT64)
    places = np.flatnonzero(earlier >= 0)
    return Replaced(sequence, tenant, earlier[places], places + query) if len(places) else None


def _forget_replaced(connection: apsw.Connection, tenant: str) -> None:
    """Forget the oldest replacements of a tenant beyond those that are remembered."""
    total, beyond = 0, list[tuple[int]]()
    for sequence, count in connection.execute(_REPLACED, (tenant,)):
        if total >= KEPT_REPLACEMENTS:
            beyond.append((sequence,))
        total += count
    connection.executemany(_DELETE, beyond)
