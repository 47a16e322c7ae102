"""Queries and streams that are gone leave the log while the service runs: it grows with what stands.

    query 7 … unregister 7                        both rows go
    queries 8 to 90 … unregister 9                the unregistration goes, and a bit of the block says so
                    … the last of them            the block goes, too
    stream 3 … drop 3                             all of it goes, once no row of a query names it any more

A slice at a time, in a transaction of its own, between the events: a crash finds a slice done or not done, and a replay
of either ends the same. The last row always stays, as sequences are counted from it; so do the newest registration and
the newest stream, for the IDs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import apsw
import numpy as np

from psoup.events.change import change_of
from psoup.events.events import Event
from psoup_storage.durable.log.blocks import read_gone, write_gone
from psoup_storage.durable.log.codec import damaged
from psoup_storage.durable.sqlite.database import Database

SLICE = 256
"""Unregistrations that are forgotten at once, as acknowledgements wait for it: some milliseconds."""

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
_STREAM = """
DELETE FROM log WHERE stream = :stream AND :stream < (SELECT max(stream) FROM log)
    AND NOT EXISTS (SELECT 1 FROM log WHERE stream = :stream AND kind IN ('query', 'queries'))
    AND NOT EXISTS (SELECT 1 FROM log AS block, json_each(block.body, '$.streams')
        WHERE block.stream = 0 AND block.kind = 'queries' AND value = :stream)
"""


@dataclass(slots=True)
class LoggedBlock:
    """A block of queries in the log; `gone`: bool[count]."""

    sequence: int
    first: int
    gone: np.ndarray[tuple[int], np.dtype[np.bool_]]
    told: list[int] = field(default_factory=list)
    """Sequences of unregistrations that `gone` has by now."""


class Departures:
    """What the log has of queries and streams that are gone. Used by who appends.

    Raises Internal, reason DATA_DAMAGED, if what it says of a block is not as it was written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest = int(next(database.query(_NEWEST))[0])
        self._queries: deque[tuple[int, int]] = deque((int(s), int(q)) for s, q in database.query(_GONE))
        """Sequence and query of unregistrations, in order."""
        self._streams: deque[tuple[int, int]] = deque((int(s), int(q)) for s, q in database.query(_DROPPED))
        """Sequence and stream of what was dropped."""
        self._spent: set[tuple[int, int]] = set()
        """Sequences of registrations of which nothing stands, and their first queries: the newest was among them."""
        for sequence, first, count, content in database.query(_TOLD):
            try:
                gone = read_gone(sequence, count, content)
            except ValueError as problem:
                raise damaged(sequence, str(problem)) from problem
            if len(gone) == count:
                self._spent.add((sequence, first))
        self._fresh = 0
        """What has come since the last slice."""

    def note(self, events: Sequence[Event]) -> None:
        """These were appended."""
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
        """Forget a slice of what comes before the event `last`; whether anything was left to be looked at.

        Raises ResourceExhausted without room for it, and Internal: nothing has changed then.
        """
        queries = [one for one in _head(self._queries) if one[0] < last]
        streams = [one for one in _head(self._streams) if one[0] < last]
        spent = {one for one in self._spent if one[0] < self._newest}
        if not (queries or streams or spent):
            return False
        with self._database.transaction() as connection:
            later = self._forget_queries(connection, queries)
            for sequence, _ in spent:
                for (query,) in connection.execute("SELECT body ->> 'query' FROM log WHERE sequence = ?", (sequence,)):
                    rows = list(connection.execute(_SINGLE, (query,))) if query is not None else [(sequence,)]
                    connection.executemany(_DELETE, [row[:1] for row in rows])
            stay = [one for one in streams if not _forget_stream(connection, one[1])]
        for one in (self._queries, queries), (self._streams, streams):
            for _ in one[1]:
                one[0].popleft()
        self._streams.extend(stay)
        self._spent = (self._spent - spent) | later
        self._fresh = max(0, self._fresh - len(queries) - len(streams))
        return len(queries) == SLICE or len(stay) < len(streams) == SLICE

    def _forget_queries(self, connection: apsw.Connection, departed: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Returns what has to stay only because it is the newest."""
        later, blocks = set[tuple[int, int]](), dict[int, LoggedBlock]()
        known: LoggedBlock | None = None
        for sequence, query in departed:
            rows = list(connection.execute(_SINGLE, (query,)))
            own = [row[0] for row in rows if row[1] == "query"]
            if own:
                if own[0] < self._newest:
                    connection.executemany(_DELETE, [row[:1] for row in rows])
                else:
                    later.add((own[0], query))
                continue
            if known is None or not known.first <= query < known.first + len(known.gone):
                known = _block_of(connection, query)
                known = None if known is None else blocks.setdefault(known.sequence, known)
            if known is not None:
                known.gone[query - known.first] = True
                known.told.append(sequence)
        for block in blocks.values():
            connection.executemany(_DELETE, [(sequence,) for sequence in block.told])
            if block.gone.all() and block.sequence < self._newest:
                connection.execute(_DELETE, (block.sequence,))
                continue
            connection.execute(_BITS, (block.sequence, write_gone(block.sequence, block.gone)))
            if block.gone.all():
                later.add((block.sequence, block.first))
        return later


def _head(waiting: deque[tuple[int, int]]) -> list[tuple[int, int]]:
    return [waiting[place] for place in range(min(SLICE, len(waiting)))]


def _block_of(connection: apsw.Connection, query: int) -> LoggedBlock | None:
    """The block that a query is of; None if the log has lost it."""
    for sequence, first, count, content in connection.execute(_BLOCK, (query,)):
        if query < first + count:
            gone = np.zeros(count, np.bool_)
            if content is not None:
                gone[read_gone(sequence, count, content)] = True
            return LoggedBlock(sequence, first, gone)
    return None


def _forget_stream(connection: apsw.Connection, stream: int) -> bool:
    connection.execute(_STREAM, {"stream": stream})
    return connection.changes() > 0
