"""A slice of gone queries that the log forgets in one transaction: rows to delete, and bits of gone queries to set.

    query 7                 its row goes, unless it is the newest registration; a row "replaced" keeps what it replaced
    query 9 of a block      its bit in the block's bitmap is set; the block goes with its last query
    set 7 9 10 …            the departure's bitmap says which of its queries the log has forgotten; several queries of
                            one block are one step

The table `gone` has the bitmaps. `departures` decides which queries are due, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw
import numpy as np

from psoup.events.events import Replaced
from psoup.published.departures import KEPT_REPLACEMENTS
from psoup.values.columns import Array
from psoup_storage.durable.log.blocks import read_gone, write_gone
from psoup_storage.durable.log.codec import encode
from psoup_storage.durable.log.log import write
from psoup_storage.durable.log.rows import INT64, damaged

_QUERY_OF = "SELECT body ->> 'query' FROM log WHERE sequence = ?"
_SINGLE = (
    "SELECT sequence, kind, octet_length(body) FROM log WHERE kind IN ('query', 'unregister') AND body ->> 'query' = ?"
)
_BLOCK = """
SELECT sequence, body ->> 'first', body ->> 'count', (SELECT queries FROM gone WHERE gone.sequence = log.sequence)
FROM log WHERE kind = 'queries' AND body ->> 'first' <= ? ORDER BY body ->> 'first' DESC LIMIT 1
"""
_BITS = "INSERT INTO gone (sequence, queries) VALUES (?, ?) ON CONFLICT DO UPDATE SET queries = excluded.queries"
_NO_CONTENT = "DELETE FROM slices WHERE sequence = ?"
_SET_BITS = """
INSERT INTO gone (sequence, queries) SELECT sequence, :queries FROM log WHERE sequence = :sequence
ON CONFLICT DO UPDATE SET queries = excluded.queries
"""
_DELETE = "DELETE FROM log WHERE sequence = ?"
_TELLS = "DELETE FROM log WHERE sequence = ? AND kind = 'unregister'"
"""Deletes the row that ended a query, unless this row also registers another query."""
_REPLACING = """
SELECT body ->> 'tenant', coalesce(body ->> 'query', body ->> 'first'), body ->> 'replaced', refused FROM log
WHERE sequence = ? AND (kind = 'query' AND body ->> 'replaced' IS NOT NULL OR kind = 'queries' AND refused IS NOT NULL)
"""
_REPLACED = """
SELECT sequence, length(refused) / 16 FROM log WHERE stream = 0 AND kind = 'replaced' AND body ->> 'tenant' = ?
ORDER BY sequence DESC
"""

SLICE_BYTES = 1024 * 1024
"""The approximate limit on the bytes of registrations in a slice, because SQLite reads each page that it deletes.

A slice of 256 queries of 60,000 bytes took 30 ms (EPYC, two cores).
"""

SetState = tuple[Array, bool]
"""The queries of a set that the log has forgotten (bool[k]), and whether all queries of the set were examined."""


@dataclass(slots=True)
class LoggedBlock:
    """A block of queries in the log; `gone`: for each query whether it is gone, bool[count]."""

    sequence: int
    first: int
    gone: np.ndarray[tuple[int], np.dtype[np.bool_]]
    told: list[int] = field(default_factory=list)
    """Sequences of the unregistrations whose bits are set in `gone`, so that their rows may be deleted."""


@dataclass(slots=True, eq=False)
class DepartingSet:
    """Queries (int64[k], ascending) that left by one event. `done`: bool[k], whether the log has forgotten each.

    `tenant`: set if the event has a request ID, so that its row stays; else None.
    """

    sequence: int
    queries: Array
    done: Array
    tenant: str | None = None
    drop: bool = False
    """Whether the queries left with their stream. Then the row is deleted with the stream's rows."""


class QuerySlice:
    """Queries that the log forgets in one transaction, with at most `limit` steps for sets.

    `newest`: the sequence of the newest registration. `left`: by tenant, the replacements that were written as rows
    "replaced" since the oldest of these rows were last removed.
    """

    def __init__(self, connection: apsw.Connection, newest: int, limit: int, left: dict[str, int]) -> None:
        self._connection = connection
        self._newest = newest
        self._left = left
        self._later: set[tuple[int, int]] = set()
        self._blocks: dict[int, LoggedBlock] = {}
        self._block: LoggedBlock | None = None
        self._steps = limit
        self._bytes = SLICE_BYTES

    @property
    def full(self) -> bool:
        """Whether the slice has no steps or no bytes left."""
        return self._steps <= 0 or self._bytes <= 0

    def alone(self, departed: Sequence[tuple[int, int]]) -> int:
        """Forget queries that were unregistered one by one (sequence and query) until the slice is full. Returns the
        number of forgotten queries, at least one.
        """
        for done, (sequence, query) in enumerate(departed):
            if self._bytes <= 0:
                return done
            rows = list(self._connection.execute(_SINGLE, (query,)))
            registered = [row[0] for row in rows if row[1] == "query"]
            if registered:
                if registered[0] < self._newest:
                    self._forget_rows([row[0] for row in rows])
                    self._bytes -= sum(row[2] for row in rows)
                else:
                    self._later.add((registered[0], query))
            elif (block := self._block_of(query)) is not None:
                block.gone[query - block.first] = True
                block.told.append(sequence)
        return len(departed)

    def of_set(self, departing: DepartingSet) -> SetState:
        """Forget queries of a set until the slice is full. Returns the new state of the set."""
        done, rest, at = departing.done.copy(), np.flatnonzero(~departing.done), 0
        queries = departing.queries[rest]
        while at < len(rest) and not self.full:
            self._steps -= 1
            query, end = int(queries[at]), at + 1
            rows = [row for row in self._connection.execute(_SINGLE, (query,)) if row[1] == "query"]
            registered = [row[0] for row in rows]
            if registered and registered[0] < self._newest:
                self._forget_rows(registered)
                self._bytes -= sum(row[2] for row in rows)
            elif not registered and (block := self._block_of(query)) is not None:
                end = int(np.searchsorted(queries, block.first + len(block.gone)))
                block.gone[queries[at:end] - block.first] = True
            done[rest[at:end]] = not registered or registered[0] < self._newest
            at = end
        tell(self._connection, departing, done)
        return done, at == len(rest)

    def finish(self) -> set[tuple[int, int]]:
        """Write the bitmaps of the blocks. Returns the registrations that stay only because they are the newest."""
        for block in self._blocks.values():
            self._connection.executemany(_TELLS, [(sequence,) for sequence in block.told])
            if block.gone.all() and block.sequence < self._newest:
                self._forget_rows([block.sequence])
                continue
            self._connection.execute(_BITS, (block.sequence, write_gone(block.sequence, block.gone)))
            if block.gone.all():
                self._later.add((block.sequence, block.first))
        return self._later

    def _block_of(self, query: int) -> LoggedBlock | None:
        """The block that has a query, with bits that this slice has set; None if the log has lost it."""
        block = self._block
        if block is None or not block.first <= query < block.first + len(block.gone):
            block = _block_of(self._connection, query)
            block = None if block is None else self._blocks.setdefault(block.sequence, block)
            self._block = block
        return block

    def spent(self, sequences: Sequence[int]) -> None:
        """Delete registrations without queries that stayed because they were the newest, and are not any more."""
        for sequence in sequences:
            for (query,) in self._connection.execute(_QUERY_OF, (sequence,)):
                rows = list(self._connection.execute(_SINGLE, (query,))) if query is not None else [(sequence,)]
                self._forget_rows([row[0] for row in rows])

    def _forget_rows(self, sequences: Sequence[int]) -> None:
        """Delete rows of registrations. Rows "replaced" keep which queries these registrations replaced."""
        for sequence in sequences:
            left = _left_of(sequence, next(self._connection.execute(_REPLACING, (sequence,)), None))
            self._connection.execute(_DELETE, (sequence,))
            if left is not None:
                write(self._connection, [encode(left)])
                self._left[left.tenant] = self._left.get(left.tenant, 0) + len(left.later)
                if self._left[left.tenant] >= KEPT_REPLACEMENTS // 8:
                    _forget_replaced(self._connection, left.tenant)
                    self._left[left.tenant] = 0


def tell(connection: apsw.Connection, departing: DepartingSet, done: Array) -> None:
    """Write the bitmap `done` (bool[k]) of a set: the queries that the log has forgotten.

    Deletes the row of the set instead if nothing needs it any more.
    """
    if done.all() and departing.tenant is None and not departing.drop:
        connection.execute(_DELETE, (departing.sequence,))
        return
    content = write_gone(departing.sequence, done)
    connection.execute(_SET_BITS, {"sequence": departing.sequence, "queries": content})
    if done.all():
        connection.execute(_NO_CONTENT, (departing.sequence,))


def bits_of(sequence: int, count: int, content: bytes) -> Array:
    """The positions of the bits that are set in a row's bitmap. Raises Internal, reason DATA_DAMAGED."""
    try:
        return read_gone(sequence, count, content)
    except ValueError as problem:
        raise damaged(sequence, str(problem)) from problem


def _block_of(connection: apsw.Connection, query: int) -> LoggedBlock | None:
    """The block that has a query; None if the log has lost it."""
    for sequence, first, count, content in connection.execute(_BLOCK, (query,)):
        if query < first + count:
            return logged_block(sequence, first, count, content)
    return None


def logged_block(sequence: int, first: int, count: int, content: bytes | None) -> LoggedBlock:
    """A block from its row and its bitmap."""
    gone = np.zeros(count, np.bool_)
    if content is not None:
        gone[read_gone(sequence, count, content)] = True
    return LoggedBlock(sequence, first, gone)


def _left_of(sequence: int, row: tuple[Any, ...] | None) -> Replaced | None:
    """The replacements of a registration that is forgotten, if it had any."""
    if row is None:
        return None
    tenant, query, replaced, many = row
    earlier = np.array([replaced]) if many is None else np.frombuffer(many, INT64)
    places = np.flatnonzero(earlier >= 0)
    return Replaced(sequence, tenant, earlier[places], places + query) if len(places) else None


def _forget_replaced(connection: apsw.Connection, tenant: str) -> None:
    """Delete a tenant's oldest rows "replaced", beyond `KEPT_REPLACEMENTS` replacements."""
    total, beyond = 0, list[tuple[int]]()
    for sequence, count in connection.execute(_REPLACED, (tenant,)):
        if total >= KEPT_REPLACEMENTS:
            beyond.append((sequence,))
        total += count
    connection.executemany(_DELETE, beyond)
