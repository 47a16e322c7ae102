"""Data that a reader who matches rows leaves for the next one: names of queries, indexes, and scratch memory.

    SQC IDs      7   9   4   8         names     12   -2   15   -1        (of queries 100 + 12, 100 + 15)
                                                      │         '── shared[0]: no query, the clause is removed
                                                      '── shared[1]: queries 113, 120, 121

A clause usually has one query, and none if only sides of joins have it. `MatchRoom` computes the names of all slots of
a stream when a reader needs many of them. It keeps them until a query is added or removed. `KeptIndexes` has indexes of
clauses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from psoup.clauses.scratch import Scratch
from psoup.config import EngineConfig
from psoup.kernels.names.tuple_queries import TOGETHER, UNEVEN, write_out
from psoup.plan.sides import FIRST_SIDE
from psoup.published.kept_indexes import KeptIndexes
from psoup.published.members import since
from psoup.published.paged_map import PagedMap
from psoup.published.records import ClauseBlock, ClauseRecord
from psoup.results.open import OpenResults
from psoup.results.room import RowRoom
from psoup.values.columns import Array

_NONE: Array = np.zeros(0, np.int64)
_SHARE = 16
"""A divisor: `MatchRoom` names all slots only for a reader with at least slots / 16 pairs."""
_KEPT_BYTES = 1 << 26
"""The most bytes of memory kept for the next reader."""
ROWS_BYTES = 1 << 26
"""The most bytes of the rows of bits of a piece with more than 64 rows."""
_WORD = 64


class NamedClauses:
    """The name of each clause. A name of at least 0 stands for the query `first` + name.

    A name -1 - k stands for all queries in `shared[k]` (int64, ascending). `names`: int32 if they fit, which takes half
    the time of int64. `bases`: int64, for `psoup.kernels.names.tuple_queries.place_by_offset`.
    """

    def __init__(self, clauses: PagedMap[ClauseRecord], sqc_ids: Array) -> None:
        self.clauses = clauses
        self._shared: list[Array] = [_NONE]
        queries = _of_blocks(clauses, sqc_ids)
        several: dict[int, int] = {}
        missing = np.flatnonzero(queries < 0)
        queries[queries >= FIRST_SIDE] = -1
        for at, sqc_id in zip(missing.tolist(), sqc_ids[missing].tolist(), strict=True):
            name = several.get(sqc_id)
            if name is None:
                clause = clauses.get(sqc_id) if sqc_id >= 0 else None
                members = _NONE if clause is None else np.fromiter(since(clause.members, 0), np.int64)
                name = several[sqc_id] = self._add(members)
            queries[at] = name
        single = queries[queries >= 0]
        self.first = int(single.min()) if len(single) else 0
        near = not len(single) or int(single.max()) - self.first < 1 << 31
        self.names: Array = np.where(queries >= 0, queries - self.first, queries).astype(np.int32 if near else np.int64)
        self.bases = _bases(queries)
        self._members: Array = np.concatenate(self._shared)
        self._ptr: Array = np.cumsum([0, *map(len, self._shared)])

    def _add(self, members: Array) -> int:
        if len(members) == 1:
            return int(members[0])
        if not len(members):
            return -1
        self._shared.append(members)
        return -len(self._shared)

    def of(self, slots: Array) -> Array:
        """The query of each slot (int64 or uint32[k]), or its negative name: int64."""
        names = self.names[slots].astype(np.int64)
        return np.where(names < 0, names, names + self.first)

    def sizes(self, names: Array) -> Array:
        """The number of queries that each negative name stands for, int64."""
        return self._ptr[-names] - self._ptr[-1 - names]

    def written_out(self, queries: Array, several: Array) -> Array:
        """The queries, int64, in the same order, with each negative name replaced by the queries that it stands for.

        `several`: the positions of the negative names in `queries`, int64[k], ascending.
        """
        if not len(several):
            return queries
        size = len(queries) - len(several) + int(self.sizes(queries[several]).sum())
        written: Array = np.empty(size, np.int64)
        write_out(queries, several, self._ptr, self._members, written)
        return written

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.names.nbytes + self.bases.nbytes + self._members.nbytes + self._ptr.nbytes


class MatchRoom:
    """The names, the indexes and the scratch memory of one stream.

    Any thread may use it: each change is a single atomic step.
    """

    def __init__(self) -> None:
        self._named: NamedClauses | None = None
        self._spare: list[tuple[Scratch, OpenResults]] = []
        self.indexes = KeptIndexes()
        """Indexes of idle clauses, and of clauses that have not met a chunk."""

    def named(self, clauses: PagedMap[ClauseRecord], sqc_of_slot: Array, pairs: int) -> NamedClauses | None:
        """The name of each slot, for the snapshot with these clauses. Returns None if they would cost more than they
        save.

        `pairs`: the number of pairs of row and slot to name.
        """
        named = self._named
        if named is not None and named.clauses is clauses and len(named.names) == len(sqc_of_slot):
            return named
        if pairs * _SHARE < len(sqc_of_slot):
            return None
        self._named = named = NamedClauses(clauses, sqc_of_slot)
        return named

    def take(self, config: EngineConfig, slots: int) -> tuple[Scratch, OpenResults]:
        """Scratch memory for a join with `slots` slots, and empty results of a piece, as `passing` returns them."""
        try:
            scratch, results = self._spare.pop()
        except IndexError:
            return Scratch(), passing(config, config.piece_rows, slots)
        results.reserve(slots)
        return scratch, results

    def give_back(self, scratch: Scratch, results: OpenResults) -> None:
        """Keep the memory from `take`, unless there is spare memory already, or it is too large."""
        if not self._spare and scratch.nbytes + results.rows.nbytes <= _KEPT_BYTES:
            results.clear()
            self._spare.append((scratch, results))

    @property
    def nbytes(self) -> int:
        """Bytes of the kept memory."""
        named, spare = self._named, [*self._spare]
        spare_bytes = sum(
            scratch.nbytes + results.rows.nbytes + results.row_of_slot.nbytes for scratch, results in spare
        )
        return spare_bytes + self.indexes.nbytes + (0 if named is None else named.nbytes)


class TooManyRows(Exception):
    """A piece needs more rows of bits than the limit."""


class BoundedRoom(RowRoom):
    """Memory for the rows of bits of a piece. Raises TooManyRows above `ROWS_BYTES`, unless a row is a single word."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config.chunk_rows // _WORD, config.block_words)
        self._bounded = config.chunk_rows > _WORD

    def take(self, minimum: int, wanted: int) -> Array:
        """See RowRoom."""
        size = self._words * 8
        if self._bounded and minimum * size > ROWS_BYTES:
            raise TooManyRows
        return super().take(minimum, min(wanted, max(minimum, ROWS_BYTES // size)))


def passing(config: EngineConfig, rows: int, slots: int) -> OpenResults:
    """Empty results for `rows` rows, which the caller reads once and as a whole. Adding rows of bits may raise
    TooManyRows.
    """
    size = replace(config, chunk_rows=-(-rows // _WORD) * _WORD)
    return OpenResults(size, slots, BoundedRoom(size), grouped=False)


def _bases(queries: Array) -> Array:
    """For each run of 2**TOGETHER slots: query minus slot if this is the same for all of them, else UNEVEN. int64."""
    width = 1 << TOGETHER
    bases: Array = np.full(-(-len(queries) // width), UNEVEN, np.int64)
    whole = len(queries) // width
    greater = (queries[: whole * width] - np.arange(whole * width)).reshape(whole, width)
    even = (greater == greater[:, :1]).all(axis=1) & (queries[: whole * width].reshape(whole, width) >= 0).all(axis=1)
    bases[:whole][even] = greater[even, 0]
    return bases


def _of_blocks(clauses: PagedMap[ClauseRecord], sqc_ids: Array) -> Array:
    """The query of each clause that is one of a block, else -1: int64[k]. O(k log clauses)."""
    queries: Array = np.full(len(sqc_ids), -1, np.int64)
    firsts = np.array([block.first for block in clauses.blocks], np.int64)
    which = np.searchsorted(firsts, sqc_ids, "right")
    order, ends = np.argsort(which, kind="stable"), np.cumsum(np.bincount(which, minlength=len(firsts) + 1))
    for number in np.flatnonzero(np.diff(ends)).tolist():
        block, mine = clauses.blocks[number], order[ends[number] : ends[number + 1]]
        assert isinstance(block, ClauseBlock)
        queries[mine] = block.queries_of(sqc_ids[mine])
    return queries
