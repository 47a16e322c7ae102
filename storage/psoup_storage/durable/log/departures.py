"""Removal of gone queries and streams from the log of a running service, so that the log grows only with standing ones.

    query 7 … unregister 7                        both rows go
    queries 8 to 90 … unregister 9                the unregistration goes, and a bit of the block says so
                    … the last of them            the block goes, too
    query 7, queries 8 to 90 … departure 7 9 10   as if each had gone alone; bits of the departure say which of its
                                                  queries are done with, as a replay must not meet them again
    query 7 … query 8, in the place of 7          the row of 7 goes
                    … unregister 8                the row of 8 says only that it replaced 7: "replaced"
    stream 3 … drop 3                             all of it goes, once no row of a query names it any more

The thread that appends removes one slice at a time, in a transaction of its own, when no commit waits. After a crash
a slice is gone or still there, and a replay ends in the same state. The last row always stays, because sequences are
counted from it. So do the newest registration and the newest stream, from which IDs are counted. The log keeps
replacements, and departures with request IDs (without their queries), as long as the service remembers them. The
changes of rows are in `slices`.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apsw
import numpy as np

from psoup.errors import PSoupError
from psoup.events.change import change_of
from psoup.events.events import Event, StreamDropped, UnregisteredMany
from psoup.retry_memory import REMEMBERED, Remembered
from psoup_storage.durable.log.rows import INT64, damaged
from psoup_storage.durable.log.slices import DepartingSet, QuerySlice, SetState, bits_of, logged_block, tell
from psoup_storage.durable.sqlite.database import Database

SLICE = 256
"""The most steps of one slice. A step forgets a query, or several queries of one block.

Acknowledgements wait for a slice, some milliseconds. `slices` also bounds its bytes.
"""

_log = logging.getLogger(__name__)

_NEWEST = "SELECT ifnull(max(sequence), 0) FROM log WHERE kind IN ('query', 'queries')"
_GONE = "SELECT sequence, body ->> 'query' FROM log WHERE kind = 'unregister' ORDER BY sequence"
_SETS = """
SELECT sequence, kind, body ->> 'ids', body ->> 'request', body ->> 'tenant',
    (SELECT queries FROM gone WHERE gone.sequence = log.sequence)
FROM log WHERE kind IN ('departure', 'drop') AND body ->> 'ids' IS NOT NULL ORDER BY sequence
"""
_CONTENT = "SELECT content FROM slices WHERE sequence = ? ORDER BY number"
_DROPPED = "SELECT sequence, stream FROM log WHERE kind = 'drop' ORDER BY sequence"
_TOLD = """
SELECT sequence, body ->> 'first', body ->> 'count', gone.queries
FROM gone JOIN log USING (sequence) WHERE kind = 'queries'
"""
_DELETE = "DELETE FROM log WHERE sequence = ?"
_ALL_REPLACING = """
SELECT sequence, body ->> 'replaced', refused FROM log
WHERE kind = 'query' AND body ->> 'replaced' IS NOT NULL OR kind = 'queries' AND refused IS NOT NULL
"""
_ALL_SINGLE = "SELECT body ->> 'query' FROM log WHERE kind = 'query'"
_ALL_BLOCKS = """
SELECT sequence, body ->> 'first', body ->> 'count', (SELECT queries FROM gone WHERE gone.sequence = log.sequence)
FROM log WHERE kind = 'queries' ORDER BY body ->> 'first'
"""
_STREAM = """
DELETE FROM log WHERE stream = :stream AND :stream < (SELECT max(stream) FROM log)
    AND NOT EXISTS (SELECT 1 FROM log WHERE stream = :stream AND kind IN ('query', 'queries'))
    AND NOT EXISTS (SELECT 1 FROM log AS block, json_each(block.body, '$.streams')
        WHERE block.stream = 0 AND block.kind IN ('query', 'queries') AND value = :stream)
"""


class Departures:
    """The queries and streams that are gone and still have rows in the log. Used by the thread that appends.

    Raises Internal, reason DATA_DAMAGED, if the bits of a block or of a departure are damaged.
    """

    def __init__(self, database: Database, remembered: Remembered = REMEMBERED) -> None:
        self._database = database
        self._remembered = remembered
        self._newest = int(next(database.query(_NEWEST))[0])
        ended = [(int(s), int(q)) for s, q in database.query(_GONE)]
        self._queries = deque(sorted([*ended, *_replaced_in(database)]))
        """Queries that were unregistered or replaced, in order: sequence and query."""
        self._streams: deque[tuple[int, int]] = deque((int(s), int(q)) for s, q in database.query(_DROPPED))
        """Drops of streams, in order: sequence and stream."""
        self._sets: deque[DepartingSet] = deque()
        self._blocked: list[DepartingSet] = []
        """Sets that wait only because one of their queries is in the newest registration, which stays."""
        self._answers: dict[str, deque[int]] = {}
        """By tenant, the sequences of departures with request IDs whose queries the log has forgotten."""
        self._load_sets()
        self._spent: set[tuple[int, int]] = set()
        """(sequence, first query) of registrations whose queries are gone, and that stayed as the newest ones."""
        for sequence, first, count, content in database.query(_TOLD):
            if len(bits_of(sequence, count, content)) == count:
                self._spent.add((sequence, first))
        self._fresh = 0
        """Departures since the last slice."""
        self.due = False
        """Whether the caller should call `forget_some`. Any thread."""
        self._left: dict[str, int] = {}
        """By tenant, the replacements of gone queries that were written since the oldest ones were last removed."""

    def _load_sets(self) -> None:
        for departing in sets_of(self._database.query):
            if not departing.done.all():
                self._sets.append(departing)
            elif departing.tenant is not None:
                self._answers.setdefault(departing.tenant, deque()).append(departing.sequence)

    def note(self, events: Sequence[Event]) -> None:
        """Note the departures in events that were appended, so that `forget` finds them."""
        for event in events:
            change = change_of(event)
            if change.queries:
                self._newest = event.sequence
                self._sets.extend(self._blocked)
                self._blocked.clear()
            if isinstance(event, UnregisteredMany | StreamDropped) and len(event.query_ids):
                done, drop = np.zeros(len(event.query_ids), np.bool_), isinstance(event, StreamDropped)
                answering = isinstance(event, UnregisteredMany) and event.request_id
                tenant = event.tenant if answering else None
                self._sets.append(DepartingSet(event.sequence, event.query_ids, done, tenant, drop))
            else:
                self._queries.extend((event.sequence, query) for query in change.ended)
                self._fresh += len(change.ended)
            if change.dropped:
                self._streams.append((event.sequence, change.dropped))
                self._fresh += 1
        self._look(events[-1].sequence)

    def _look(self, last: int) -> None:
        """Set `due`, by the departures before the event `last`. That event may itself have ended many queries."""
        full = self._fresh >= SLICE and any(gone[0][0] < last for gone in (self._queries, self._streams) if gone)
        self.due = full or any(departing.sequence < last for departing in self._sets)

    def forget_some(self, last: int) -> None:
        """Call `forget`, and log a failure. Nothing is lost then; later events lead to another attempt."""
        try:
            self.forget(last)
        except PSoupError as problem:
            self.due = False
            _log.warning("what is gone stays in the log for now: %s", problem.message)

    def forget(self, last: int) -> bool:
        """Forget a slice of the departures before the event `last`; returns whether more may be left.

        Raises ResourceExhausted without room, and Internal: nothing has changed then.
        """
        queries = [(sequence, query) for sequence, query in _head(self._queries) if sequence < last]
        streams = [(sequence, stream) for sequence, stream in _head(self._streams) if sequence < last]
        spent = {(sequence, first) for sequence, first in self._spent if sequence < self._newest}
        sets = [departing for departing in self._sets if departing.sequence < last]
        if not (queries or streams or spent or sets):
            return False
        with self._database.transaction() as connection:
            forgetting = QuerySlice(connection, self._newest, SLICE, self._left)
            queries = queries[: forgetting.alone(queries)]
            states = [(departing, forgetting.of_set(departing)) for departing in sets if not forgetting.full]
            later = forgetting.finish()
            forgetting.spent([sequence for sequence, _ in spent])
            answers = self._with_answers(connection, states)
            stay = [(sequence, stream) for sequence, stream in streams if not _forget_stream(connection, stream)]
        for waiting, looked_at in (self._queries, queries), (self._streams, streams):
            for _ in looked_at:
                waiting.popleft()
        self._streams.extend(stay)
        self._spent = (self._spent - spent) | later
        self._fresh = max(0, self._fresh - len(queries) - len(streams))
        self._answers = answers
        for departing, (done, ended) in states:
            departing.done = done
            if ended:
                self._sets.remove(departing)
                self._blocked += [] if done.all() else [departing]
        self._look(last)
        return len(queries) == SLICE or forgetting.full or len(stay) < len(streams) == SLICE

    def _with_answers(
        self, connection: apsw.Connection, states: Sequence[tuple[DepartingSet, SetState]]
    ) -> dict[str, deque[int]]:
        """The departures whose rows stay, because the service may repeat their answers. Deletes the oldest rows."""
        answers = {tenant: deque(sequences) for tenant, sequences in self._answers.items()}
        for departing, (done, _) in states:
            if departing.tenant is not None and done.all():
                answers.setdefault(departing.tenant, deque()).append(departing.sequence)
        for sequences in answers.values():
            while len(sequences) > self._remembered.removals:
                connection.execute(_DELETE, (sequences.popleft(),))
        return answers


def sets_of(query: Callable[..., Iterable[tuple[Any, ...]]]) -> Iterator[DepartingSet]:
    """The departures in the log. A departure whose queries are all forgotten comes without its queries.

    `query`: a function that runs a SELECT. Raises Internal, reason DATA_DAMAGED.
    """
    for sequence, kind, count, request, tenant, content in list(query(_SETS)):
        done = np.zeros(count, np.bool_)
        if content is not None:
            done[bits_of(sequence, count, content)] = True
        ids = b"" if done.all() else b"".join(part for (part,) in query(_CONTENT, (sequence,)))
        if len(ids) != 8 * count and not done.all():
            raise damaged(sequence, "its queries are missing")
        yield DepartingSet(sequence, np.frombuffer(ids, INT64), done, tenant if request else None, kind == "drop")


def forget_unknown(connection: apsw.Connection) -> None:
    """Forget departures of queries that no row registers: a replay does not find them. O(queries in the log)."""
    singles = np.array([query for (query,) in connection.execute(_ALL_SINGLE)], np.int64)
    blocks = [np.arange(first, first + count) for _, first, count, _ in connection.execute(_ALL_BLOCKS)]
    ids = np.concatenate([singles, *blocks])
    alone = [(sequence, query) for sequence, query in connection.execute(_GONE)]
    unknown = ~np.isin(np.array([query for _, query in alone], np.int64), ids)
    connection.executemany(_DELETE, [alone[place][:1] for place in np.flatnonzero(unknown)])
    for departing in sets_of(connection.execute):
        if not departing.done.all():
            done = departing.done | ~np.isin(departing.queries, ids)
            if (done != departing.done).any():
                tell(connection, departing, done)


def _head(waiting: deque[tuple[int, int]]) -> list[tuple[int, int]]:
    return [waiting[place] for place in range(min(SLICE, len(waiting)))]


def _forget_stream(connection: apsw.Connection, stream: int) -> bool:
    connection.execute(_STREAM, {"stream": stream})
    return connection.changes() > 0


def _replaced_in(database: Database) -> Iterator[tuple[int, int]]:
    """The replaced queries that the log still registers: the sequence of the replacement, and the query."""
    replaced = [
        (sequence, query)
        for sequence, single, many in database.query(_ALL_REPLACING)
        for query in ([single] if many is None else np.frombuffer(many, INT64).tolist())
        if query >= 0
    ]
    if not replaced:
        return
    singles = {query for (query,) in database.query(_ALL_SINGLE)}
    blocks = [logged_block(*row) for row in database.query(_ALL_BLOCKS)]
    firsts = [block.first for block in blocks]
    for sequence, query in replaced:
        block = blocks[max(bisect_right(firsts, query) - 1, 0)] if blocks else None
        place = -1 if block is None else query - block.first
        if query in singles or (block is not None and 0 <= place < len(block.gone) and not block.gone[place]):
            yield sequence, query
