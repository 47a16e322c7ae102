"""The eager queries as rows: which are due after the events of their streams, and whose turn it is.

    stream 3   rows 0 1 4         has an event: its rows are due, in one step
    stream 5   rows 1 2           a join has a row in each of its streams
    row        0     1     2     3     4
    due        yes   yes   -     -     yes
    awake      yes   yes   yes   -     yes        not awake: not asked for a day, or an update was refused

Python takes a step for each stream with eager queries. It also takes one for each query that becomes eager, or that was
asked. All other steps are operations on columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from psoup.answer.kept_answers.kept_values import token_of
from psoup.model import DAY
from psoup.published.eager_queries import EagerFacts, EagerQueries
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array

NOT_ASKED = "it was not asked for a day"
"""The reason why a query is not awake."""
_ROW = np.dtype(
    [
        ("id", np.int64),  # -1: the row is free
        ("mark", np.int64),
        ("tenant", np.int64),
        ("asked", np.int64),  # when, microseconds of the clock
        ("wake_from", np.int64),
        ("due", np.bool_),
        ("awake", np.bool_),
        ("made", np.bool_),
    ]
)
_FIRST_ROWS = 64
_AT_ONCE = 1_024
"""The most queries of a turn."""
_NEW_AT_ONCE = 1_024
"""The most queries that become eager in one step."""


class _StreamRows:
    """The rows of the eager queries of a stream. `token`: of the view that was looked at last."""

    def __init__(self) -> None:
        self.token: object = None
        self.rows: Array = np.zeros(0, np.int64)
        self._new: list[int] = []

    def add(self, row: int) -> None:
        """Add a row. O(1), amortised."""
        self._new.append(row)

    def all(self) -> Array:
        """The rows, int64."""
        if self._new:
            self.rows = np.concatenate([self.rows, np.array(self._new, np.int64)])
            self._new.clear()
        return self.rows


class EagerIndex:
    """The rows of the eager queries of one engine. One thread at a time may use it."""

    def __init__(self) -> None:
        self._rows: Array = np.zeros(_FIRST_ROWS, _ROW)
        self._size = self._gone = 0
        self._row_of: dict[int, int] = {}
        self._coming: dict[int, int] = {}
        """The marks of queries that become eager, by ID."""
        self._streams: dict[int, _StreamRows] = {}
        self._tenants: dict[str, int] = {}
        self._names: list[str] = []
        self.tenant = ""
        """The tenant that had the last turn."""
        self._last: dict[int, int] = {}
        """The row at which the last turn of each tenant ended."""

    def __len__(self) -> int:
        return len(self._row_of)

    def follow(self, snapshot: Snapshot, now: int) -> list[int]:
        """Take over what has changed: eager queries, invocations, events of streams. `now`: the clock, microseconds.

        Returns the IDs of queries that are eager no longer. O(streams with eager queries + changes).
        """
        left = list[int]()
        for first, end, ids, marks in snapshot.eager.changes():
            left += self._change_page(snapshot.eager, first, end, ids, marks)
        for query_id in snapshot.eager.asked().tolist():
            self._note_asked(query_id, snapshot.eager, now)
        for stream_id, of_stream in list(self._streams.items()):
            view = snapshot.by_id.get(stream_id)
            if view is None:
                del self._streams[stream_id]
            elif of_stream.token is not (token := token_of(view)):
                of_stream.token = token
                self._rows["due"][of_stream.all()] = True
        self._take_coming(snapshot, now)
        self._compact()
        return left

    @property
    def has_due(self) -> bool:
        """Whether a query is due, or becomes eager. O(queries) in NumPy."""
        rows = self._rows[: self._size]
        return bool(self._coming) or bool((rows["due"] & rows["awake"]).any())

    def turn(self, eager: EagerQueries, now: int, passed: Iterable[str] = ()) -> Iterator[tuple[int, int]]:
        """Yield the due queries of the next tenant in turn, each with its row. Begins after its last turn.

        `passed`: tenants that have no turn now.
        A query is due no longer once it is yielded. Queries that were not asked for a day are left out from now on.
        """
        rows = self._rows[: self._size]
        due = rows["due"] & rows["awake"]
        late = np.flatnonzero(due & (now - rows["asked"] > DAY))
        for row in late.tolist():
            self.sleep(row, eager, NOT_ASKED, now)
        due[late] = False
        for name in passed:
            due &= rows["tenant"] != self._tenants.get(name, -1)
        places = np.flatnonzero(due)
        if not len(places):
            return
        tenants = rows["tenant"][places]
        later = tenants[tenants > self._tenants.get(self.tenant, -1)]
        tenant = int(later.min() if len(later) else tenants.min())
        self.tenant = self._names[tenant]
        mine = places[tenants == tenant]
        start = int(np.searchsorted(mine, self._last.get(tenant, -1), "right"))
        for row in [*mine[start : start + _AT_ONCE].tolist(), *mine[: min(start, _AT_ONCE)].tolist()][:_AT_ONCE]:
            rows["due"][row], self._last[tenant] = False, row
            yield row, int(rows["id"][row])

    def is_made(self, row: int) -> bool:
        """Whether an answer of the query was made before. If it has left since, only an invocation makes it again."""
        return bool(self._rows["made"][row])

    def note_made(self, row: int) -> None:
        """Note that an answer of the query is made."""
        self._rows["made"][row] = True

    def sleep(self, row: int, eager: EagerQueries, why: str, wake_from: int) -> None:
        """Leave a query out until it is asked at the time `wake_from` or later. `why`: the reason, for EXPLAIN."""
        self._rows["awake"][row], self._rows["wake_from"][row] = False, wake_from
        eager.facts[int(self._rows["id"][row])].why_not = why

    def _change_page(self, eager: EagerQueries, first: int, end: int, ids: Array, marks: Array) -> list[int]:
        """Take over the eager queries with IDs in [first, end). Returns the IDs of those that are eager no longer."""
        rows = self._rows[: self._size]
        here = np.flatnonzero((rows["id"] >= first) & (rows["id"] < end))
        stay = np.isin(_keys(rows["id"][here], rows["mark"][here]), _keys(ids, marks))
        left = rows["id"][here[~stay]].tolist()
        near = self._coming if len(self._coming) < end - first else range(first, end)
        coming = [query_id for query_id in near if first <= query_id < end and query_id in self._coming]
        for query_id in [*left, *coming]:
            self._forget(query_id, eager)
        new = ~np.isin(ids, rows["id"][here[stay]])
        self._coming.update(zip(ids[new].tolist(), marks[new].tolist(), strict=True))
        anew = set(ids[new].tolist())
        return [query_id for query_id in left if query_id not in anew]

    def _forget(self, query_id: int, eager: EagerQueries) -> None:
        self._coming.pop(query_id, None)
        eager.facts.pop(query_id, None)
        row = self._row_of.pop(query_id, None)
        if row is not None:
            self._rows[row] = (-1, 0, 0, 0, 0, False, False, False)
            self._gone += 1

    def _note_asked(self, query_id: int, eager: EagerQueries, now: int) -> None:
        """Note an invocation. A query that is not awake wakes up; its streams may have had events meanwhile."""
        row = self._row_of.get(query_id)
        if row is None:
            return
        of_query = self._rows[row]
        of_query["asked"] = now
        if not of_query["awake"] and now >= of_query["wake_from"]:
            of_query["awake"] = of_query["due"] = True
            eager.facts[query_id].why_not = ""

    def _take_coming(self, snapshot: Snapshot, now: int) -> None:
        """Give rows to queries that have become eager, unless the snapshot is older than that."""
        for query_id, mark in list(islice(self._coming.items(), _NEW_AT_ONCE)):
            record = snapshot.queries.get(query_id)
            if record is not None and record.keeping.ahead:
                del self._coming[query_id]
                self._add(snapshot, record, mark, now)

    def _add(self, snapshot: Snapshot, record: QueryRecord, mark: int, now: int) -> None:
        if self._size == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros(len(self._rows), _ROW)])
        row, tenant = self._size, self._tenants.setdefault(record.tenant, len(self._names))
        if tenant == len(self._names):
            self._names.append(record.tenant)
        self._rows[row] = (record.query_id, mark, tenant, now, 0, True, True, False)
        self._row_of[record.query_id] = row
        self._size += 1
        snapshot.eager.facts[record.query_id] = EagerFacts()
        for stream_id in snapshot.streams_of(record):
            of_stream = self._streams.get(stream_id)
            if of_stream is None:
                of_stream = self._streams[stream_id] = _StreamRows()
                of_stream.token = token_of(snapshot.by_id[stream_id])
            of_stream.add(row)

    def _compact(self) -> None:
        """Remove free rows if they are more than half."""
        if 2 * self._gone <= self._size or self._gone < _FIRST_ROWS:
            return
        stay = np.flatnonzero(self._rows["id"][: self._size] >= 0)
        row_now = np.full(self._size, -1, np.int64)
        row_now[stay] = np.arange(len(stay))
        self._rows = np.concatenate([self._rows[stay], np.zeros(_FIRST_ROWS, _ROW)])
        self._size, self._gone, self._last = len(stay), 0, {}
        self._row_of = {query_id: int(row_now[row]) for query_id, row in self._row_of.items()}
        for stream_id, of_stream in list(self._streams.items()):
            of_stream.rows = row_now[of_stream.all()]
            of_stream.rows = of_stream.rows[of_stream.rows >= 0]
            if not len(of_stream.rows):
                del self._streams[stream_id]


def _keys(ids: Array, marks: Array) -> Array:
    """A number for each query ID with its mark, int64[n]."""
    return (ids << 20) | (marks & 0xFFFFF)
