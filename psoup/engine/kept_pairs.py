"""Kept pairs of joins, for queries that asked for them at registration, or for which AUTO chose them.

    register, keep pairs ──> one `KeptJoin` for all queries that join the same streams with the same factors
    a choice of AUTO ──────> the same, until another choice, or until the query is altered
    a chunk closes ────────> its left stream needs attention ──> missing blocks: a task of maintenance
    a chunk leaves ────────> readers no longer use its blocks; a task removes blocks of a right chunk
    no room ───────────────> the writer drops pairs; no task makes new ones until a chunk comes or leaves
    a task has no budget ──> no task makes new ones until then either, and EXPLAIN gives the reason
    its queries are idle ──> the join rests: it has no pairs until a query leaves NONE, or becomes active

A block has the pairs of one left chunk with one right chunk. A row has the blocks of one left chunk. Only closed chunks
in memory have blocks. No answer depends on kept pairs. Only the writer changes them; readers get immutable tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from psoup.aggregates.kept import KeptBytes
from psoup.data.chunk import ChunkView
from psoup.engine.pair_requests import asked_pairs
from psoup.engine.stream.attention import Board
from psoup.engine.stream.shelf import Shelf
from psoup.engine.stream.state import StreamState
from psoup.events.events import Registered, RegisteredMany
from psoup.invariants import ensure
from psoup.joins.pairs_store import KeptPairs, PairKey, PairRow, PairTable
from psoup.plan.nodes import Join
from psoup.published.pair_room import PairRoom
from psoup.published.paired_queries import PairedQueries
from psoup.values.columns import Array

_AT_ONCE = 32
"""The most blocks that one task makes. They take about 30 ms."""

Span = tuple[int, int]
"""A range of chunks: the number of the first one, and the number after the last one."""


class Missing(NamedTuple):
    """The work of one task: the rows of the left chunks `lefts`. The first of them has the number `first`.

    `rows`: the present rows, None for a chunk without one. `rights`: the right chunks whose blocks the task adds to
    each row. The task removes the blocks of right chunks with numbers below `least`.
    """

    first: int
    lefts: Sequence[ChunkView]
    rows: Sequence[PairRow | None]
    rights: Sequence[ChunkView]
    least: int
    turns: Span = (0, 0)
    """The numbers of thinnings of both streams."""


class KeptJoin:
    """A join whose pairs are kept. `queries`: the queries that keep them, int64, ascending. `idle`: the idle ones.

    `chosen`: the queries for which AUTO chose it. `asked_for`: whether another query keeps them that is not idle.
    """

    def __init__(self, node: Join, left: StreamState, right: StreamState, room: PairRoom) -> None:
        self.node = node
        self.queries = self.idle = self.chosen = np.zeros(0, np.int64)
        self.asked_for = False
        self.table = PairTable()
        self.tenant = left.tenant
        self._shelves = (left.shelf, right.shelf)
        self._room = room
        self._seen: tuple[Span, Span] = ((0, 0), (0, 0))
        self.turns: Span = (0, 0)
        """The numbers of thinnings of both streams when `follow` last looked."""
        self._full = False

    @property
    def rests(self) -> bool:
        """Whether all queries that keep these pairs are idle. Then there are no pairs."""
        return len(self.idle) == len(self.queries)

    def want(self, query_ids: Array, *, idle: bool) -> None:
        """Add queries that keep these pairs. `idle`: whether they are idle."""
        self.queries = np.union1d(self.queries, query_ids)
        self.alter(query_ids, query_ids if idle else query_ids[:0])

    def choose(self, query_ids: Array) -> int:
        """Add queries for which AUTO chose to keep these pairs, unless they keep them anyway. Returns their number."""
        more = np.setdiff1d(query_ids, self.queries)
        self.chosen = np.union1d(self.chosen, more)
        self.want(more, idle=False)
        return len(more)

    def want_no_more(self, query_ids: Array | list[int]) -> bool:
        """Remove queries. Returns False if no query keeps the pairs any more."""
        self.queries, self.chosen = (np.setdiff1d(ids, query_ids) for ids in (self.queries, self.chosen))
        self.alter(query_ids, self.queries[:0])
        return bool(len(self.queries))

    def alter(self, query_ids: Array | list[int], idle: Array) -> None:
        """Note that the keeping of queries has changed. `idle`: the idle ones now."""
        self.idle = np.union1d(np.setdiff1d(self.idle, query_ids), np.intersect1d(idle, self.queries))
        self.asked_for = len(np.union1d(self.idle, self.chosen)) < len(self.queries)
        if self.rests:
            self.give_up()
        elif not self.table.rows:
            self._full = False  # the pairs may have been given up because the join rested

    def follow(self) -> bool:
        """Drop the pairs of chunks that left memory, and all if a chunk was thinned. Returns whether chunks changed.

        O(1) if no chunk came, left or was thinned.
        """
        here = _numbers(self._shelves[0]), _numbers(self._shelves[1])
        turns = self._shelves[0].turns[0], self._shelves[1].turns[0]
        if (here, turns) == (self._seen, self.turns):
            return False
        if turns != self.turns:  # the rows of some chunks have other positions
            self._room.take(-self.table.nbytes)
            self.table = PairTable(self.table.first, (), self.table.least)
        self._seen, self.turns = here, turns
        self._full = False
        (first_left, stop_left), (first_right, stop_right) = here
        skip = (
            max(first_left - self.table.first, 0)
            if first_left < stop_left and first_right < stop_right
            else len(self.table.rows)
        )
        gone, rows = self.table.rows[:skip], self.table.rows[skip:]
        self._room.take(-_bytes(gone))
        self.table = PairTable(max(first_left, self.table.first) if rows else first_left, rows, first_right)
        return True

    def missing(self) -> Missing | None:
        """The work of the next task: neighbouring rows that lack the same blocks, from the newest such row back.

        Rows with blocks of dropped chunks count, too. Returns None if all rows are complete. O(chunks on the left).
        """
        if self.rests:
            return None
        (first, stop), (first_right, last) = self._seen
        numbers = range(stop - 1, first - 1, -1)
        waiting = (n for n in numbers if self._lacks(n))
        newest = next(waiting, None)
        if newest is None:
            return None
        at, before_oldest = self._next(newest), newest - _AT_ONCE
        alike = takewhile(
            lambda n: n > before_oldest and self._lacks(n) and self._next(n) == at, range(newest, first - 1, -1)
        )
        lowest = min(alike)
        columns = 0 if self._full else min(last - at, max(_AT_ONCE // (newest - lowest + 1), 1))
        lefts = _chunks(self._shelves[0], range(lowest, newest + 1))
        rows = [self.table.row(number) for number in range(lowest, newest + 1)]
        rights = _chunks(self._shelves[1], range(at, at + columns))
        return Missing(lowest, lefts, rows, rights, first_right, self.turns)

    def install(self, first: int, seen: Sequence[PairRow | None], rows: Sequence[PairRow | None]) -> bool:
        """Replace each row of `seen` by its new row. Skips rows that have changed since, or that have no room.

        Returns False if the join rests.
        """
        if self.rests:
            return False
        stop = self._seen[0][1]
        changed = [*self.table.rows, *[None] * (stop - self.table.first - len(self.table.rows))]
        more = 0
        for number, (old, new) in enumerate(zip(seen, rows, strict=True), first):
            at = number - self.table.first
            if not 0 <= at < len(changed) or changed[at] is not old:
                continue
            size = _bytes([new]) - _bytes([old])
            if size > 0 and not self._room.allows(self.tenant, size + more):
                self._full = True
                continue
            changed[at], more = new, more + size
        self._room.take(more)
        self.table = replace(self.table, rows=tuple(changed))
        return True

    def refuse(self, why: str) -> None:
        """Let no task make pairs until a chunk comes or leaves, as a task ran out of budget. `why`: for EXPLAIN."""
        self.table = replace(self.table, refused=why)
        self._full = True

    def give_up(self) -> int:
        """Drop all pairs, and let no task make any until a chunk comes or leaves. Returns the bytes freed."""
        freed = self.table.nbytes
        self._room.take(-freed)
        self.table = PairTable(self._seen[0][0], (), self.table.least)
        self._full = True
        return freed

    def check(self) -> None:
        """Check that rows are sound, and that their chunks exist. Raises Corrupt."""
        (first, stop), (first_right, last) = self._seen
        ensure(self._seen == tuple(map(_numbers, self._shelves)), self, "chunks have come or gone", seen=self._seen)
        table = self.table
        inside = not table.rows or first <= table.first <= table.first + len(table.rows) <= stop
        ensure(inside and table.least == first_right, self, "pairs outlive a chunk", first=table.first, here=self._seen)
        ensure(not (self.rests and table.nbytes), self, "a join has pairs, and all its queries are idle")
        for row in table.rows:
            if row is not None:
                row.check()
                ensure(row.stop <= max(last, row.first), self, "a row has chunks to come", stop=row.stop, last=last)

    def _lacks(self, number: int) -> bool:
        first_right, last = self._seen[1]
        row = self.table.row(number)
        if row is None:
            return not self._full and first_right < last
        return (row.stop < last and not self._full) or (row.first < first_right and len(row.kept) > 0)

    def _next(self, number: int) -> int:
        """The number of the first right chunk that is missing in a left chunk's row."""
        row, first_right = self.table.row(number), self._seen[1][0]
        return first_right if row is None else max(row.stop, first_right)


class KeptJoins:
    """All joins whose pairs are kept."""

    def __init__(self, board: Board, limit: int, tenant_bytes: KeptBytes) -> None:
        """`limit`: the most bytes of all pairs. `tenant_bytes`: counts the bytes of each tenant's caches."""
        self.room = PairRoom(limit, tenant_bytes)
        tenant_bytes.add(self.held_by)
        self._board = board
        self._joins: dict[PairKey, KeptJoin] = {}
        self._published = KeptPairs()
        self._changed = False

    def __bool__(self) -> bool:
        return bool(self._joins)

    def held_by(self, tenant: str) -> int:
        """The bytes of the pairs of one tenant. Any thread may call this. O(joins)."""
        return sum(kept_join.table.nbytes for kept_join in list(self._joins.values()) if kept_join.tenant == tenant)

    def ask(self, event: Registered | RegisteredMany, streams: Mapping[int, StreamState]) -> None:
        """Begin to keep pairs for those queries of an event that ask for it."""
        for paired in asked_pairs(event):
            self._of(paired, streams).want(paired.query_ids, idle=event.keeping.idle)

    def choose(self, joins: Iterable[PairedQueries], streams: Mapping[int, StreamState]) -> int:
        """Begin to keep pairs for queries for which AUTO chose it. The caller says by `alter` which of them are idle.

        Returns the number of queries that kept none before.
        """
        return sum(self._of(paired, streams).choose(paired.query_ids) for paired in joins)

    def unchoose(self, query_ids: Array) -> int:
        """Keep no pairs any more for those queries (int64[k], ascending) for which AUTO chose it. Returns their number.

        O(joins + n log k) for n chosen queries.
        """
        gone = [(key, _among(kept_join.chosen, query_ids)) for key, kept_join in self._joins.items()]
        for key, ids in gone:
            self._remove(key, ids)
        return sum(len(ids) for _, ids in gone)

    def _of(self, paired: PairedQueries, streams: Mapping[int, StreamState]) -> KeptJoin:
        """The join of some queries, which is about to change."""
        self._board.look_after(paired.left)
        self._changed = True
        if paired.key not in self._joins:
            node, left, right, _ = paired
            self._joins[paired.key] = KeptJoin(node, streams[left], streams[right], self.room)
        return self._joins[paired.key]

    def alter(self, query_ids: Array, idle_among: Callable[[Array], Array]) -> None:
        """Note that the keeping of queries (int64[k], ascending) has changed.

        O(joins + n log k) for n queries of joins. `idle_among`: returns the idle ones among some queries.
        """
        for (left, _, _), kept_join in self._joins.items():
            altered = _among(kept_join.queries, query_ids)
            if len(altered):
                kept_join.alter(altered, idle_among(altered))
                self._board.look_after(left)
                self._changed = True

    def forget(self, query_ids: Array | list[int]) -> None:
        """Remove dropped queries. The pairs of a join go with the last query that keeps them."""
        for key in list(self._joins):
            self._remove(key, query_ids)

    def _remove(self, key: PairKey, query_ids: Array | list[int]) -> None:
        """Remove queries from a join, and the join with the last one."""
        if not len(query_ids):
            return
        if not self._joins[key].want_no_more(query_ids):
            self._joins[key].give_up()
            del self._joins[key]
        self._changed = True

    def missing(self, stream_id: int) -> tuple[KeptJoin, Missing] | None:
        """The next work for a join with this left stream, or None if nothing is missing."""
        for (left, _, _), kept_join in self._joins.items():
            if left == stream_id and (work := kept_join.missing()) is not None:
                return kept_join, work
        return None

    def stands(self, kept_join: KeptJoin) -> bool:
        """Whether a join still exists."""
        return any(other is kept_join for other in self._joins.values())

    def follow(self) -> None:
        """Look for chunks that came or left. The writer calls this before each publication. O(joins)."""
        for (left, _, _), kept_join in self._joins.items():
            if kept_join.follow():
                self._board.look_after(left)
                self._changed = True

    def installed(self) -> None:
        """Record that rows have changed, so that the next `freeze` makes a new table."""
        self._changed = True

    def freeze(self) -> KeptPairs:
        """An immutable table of all pairs, for readers. The same object if nothing has changed."""
        if self._changed:
            joins = self._joins.items()
            tables = {key: kept_join.table for key, kept_join in joins if not kept_join.rests}
            queries = {key: kept_join.queries for key, kept_join in joins}
            chosen = {key: kept_join.chosen for key, kept_join in joins if len(kept_join.chosen)}
            asked_for = frozenset(key for key, kept_join in joins if kept_join.asked_for)
            self._published = KeptPairs(
                MappingProxyType(tables), MappingProxyType(queries), MappingProxyType(chosen), asked_for
            )
            self._changed = False
        return self._published

    def give_up(self, wanted: int) -> int:
        """Drop the pairs of one join after the other, until `wanted` bytes are free. Returns the bytes freed."""
        freed = 0
        for kept_join in self._joins.values():
            if freed >= wanted:
                break
            freed += kept_join.give_up()
            self._changed = True
        return freed

    def check(self, auto: Sequence[int]) -> None:
        """Check all pairs, that the counted bytes equal their sum, and that only AUTO queries (`auto`) are chosen.

        Raises Corrupt.
        """
        for kept_join in self._joins.values():
            kept_join.check()
            strays = np.setdiff1d(kept_join.chosen, np.array(auto, np.int64))
            ensure(not len(strays), self, "pairs are chosen for queries that are not AUTO", queries=strays)
        total = sum(kept_join.table.nbytes for kept_join in self._joins.values())
        ensure(self.room.held == total, self, "the bytes of pairs are miscounted", counted=self.room.held, held=total)


def _among(queries: Array, query_ids: Array) -> Array:
    """The queries that are among `query_ids`. All are int64, ascending."""
    at = np.searchsorted(query_ids, queries)
    return queries[query_ids.take(at, mode="clip") == queries] if len(query_ids) else queries[:0]


def _numbers(shelf: Shelf) -> tuple[int, int]:
    """The closed chunks in memory: the number of the first one, and the number after the last one."""
    if shelf.archived == len(shelf.entries):
        return (shelf.entries[-1].data.number + 1,) * 2 if shelf.entries else (0, 0)
    return shelf.entries[shelf.archived].data.number, shelf.entries[-1].data.number + 1


def _chunks(shelf: Shelf, numbers: range) -> list[ChunkView]:
    chunks = [shelf.entries[number - shelf.first_number].data for number in numbers]
    return [chunk for chunk in chunks if isinstance(chunk, ChunkView)]


def _bytes(rows: Iterable[PairRow | None]) -> int:
    return sum(row.nbytes for row in rows if row is not None)
