"""The standing queries that rows would match if they arrived now. Matching works as in a push, but stores nothing.

    rows ── pieces ──> the index as it was published ──> runs, rows of bits ──> by row: names ──> query IDs
                  └──> clauses outside the index, and idle ones: indexes of them, few rows at a time

A page has the first rows whose queries fit. If the first row has too many, the page has its queries with the lowest
IDs. The matches of a piece are counted before they are written. If they are too many, the piece takes fewer rows.
Windows are not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from psoup.clauses.sides import Subset
from psoup.data.data_stem import Piece
from psoup.execution.select.clause_indexes import index_of, pieces_of
from psoup.expressions.error_guard import every_row
from psoup.expressions.tree import AttributeRef, Expr
from psoup.kernels.names.tuple_queries import count_bits, count_offsets, place_bits, place_by_offset
from psoup.matching.new_tuples import probe
from psoup.model import DELETED_AT
from psoup.published.idle_clauses import idle_clauses
from psoup.published.match_room import NamedClauses, TooManyRows, passing
from psoup.published.snapshot import Snapshot, StreamView
from psoup.results.open import OpenResults
from psoup.values.columns import Array, Batch
from psoup.work.read_budget import UNBOUNDED, ReadBudget

_MOST_PAIRS = 1 << 22
"""The most pairs of row and clause in a piece of several rows."""
_LOOKED_AT = 1 << 28
"""The most pairs of a row and a clause without a posting list in a piece. Such a clause may match many of the rows."""
_NOTHING: Array = np.zeros(0, np.int64)
_NO_OFFSETS: Array = np.zeros(0, np.uint16)


@dataclass(frozen=True, slots=True)
class Matched:
    """A page: the queries of the first `done` rows. If the next row alone is too large, the page has some of its
    queries.

    `queries`: int64; row i has those from `ends[i]` to `ends[i + 1]`, unordered. `more`: the last query ID that the
    page has for row `done`. None if the page has no query of that row.
    """

    ends: Array
    queries: Array
    done: int
    more: int | None = None

    @staticmethod
    def of_one(queries: Sequence[int]) -> Matched:
        """A page with all queries of a single row."""
        return Matched(np.array([0, len(queries)]), np.array(queries, np.int64), 1)

    def among(self, rows: Array, sent: int) -> Matched:
        """The same page, with the rows numbered as the caller sent them. `sent`: the number of rows sent.

        `rows`: int64[n], ascending, the numbers of the sent rows that are in the batch.
        """
        if len(rows) == sent:
            return self
        sizes: Array = np.zeros(sent, np.int64)
        sizes[rows[: len(self.ends) - 1]] = np.diff(self.ends)
        done = sent if self.done == len(rows) else int(rows[self.done])
        return replace(self, ends=np.concatenate([[0], np.cumsum(sizes)]), done=done)

    def of(self, row: int) -> list[int]:
        """The queries of a row, ascending."""
        return sorted(self.queries[self.ends[row] : self.ends[row + 1]].tolist())


def match(
    snapshot: Snapshot,
    stream: str,
    batch: Batch,
    *,
    tenant: str,
    after: int = -1,
    most: int = 2**62,
    budget: ReadBudget = UNBOUNDED,
) -> Matched:
    """Find the queries whose WHERE each row of a batch satisfies. For the first row, only IDs above `after` count.

    `most`: the most queries of the page, at least 1. The rows that do not fit are for the next page. `batch`: a batch
    that a push accepts. Raises NotFound for the stream. Costs what arrival costs, plus O(result), and a byte for each
    clause.
    """
    view = snapshot.stream(stream, tenant)
    if view.spec.table is not None:
        return _match_versions(snapshot, view, batch, after, most, budget)
    return _match(snapshot, view, batch, after, most, budget)


def _match(snapshot: Snapshot, view: StreamView, batch: Batch, after: int, room: int, budget: ReadBudget) -> Matched:
    join = _Join(snapshot, view, batch, budget)
    page = paged(join.matched, len(batch), after, room)
    join.close()
    snapshot.lifetimes.note_all(page.queries)
    return page


def _match_versions(
    snapshot: Snapshot, view: StreamView, batch: Batch, after: int, room: int, budget: ReadBudget
) -> Matched:
    """The page of rows that are pushed to a table. The row of a deletion matches no query."""
    given = batch.columns[DELETED_AT]
    upserts = np.flatnonzero(~given.values if given.valid is None else ~(given.values & given.valid))
    if len(upserts) == len(batch):
        return _match(snapshot, view, batch, after, room, budget)
    first = after if 0 in upserts[:1] else -1
    return _match(snapshot, view, batch.take(upserts), first, room, budget).among(upserts, len(batch))


def paged(matched: Callable[[int, int], PieceMatches], rows: int, after: int, room: int) -> Matched:
    """A page of the first rows. `matched(start, upto)`: the matches of at least one row, from `start` on."""
    sizes, parts = list[Array](), list[Array]()
    start = 0
    while start < rows and room > 0:
        alone = start == 0 and after >= 0
        matches = matched(start, start + 1 if alone else rows)
        counts = matches.sizes()
        fit = int(np.searchsorted(np.cumsum(counts), room, "right"))
        queries = matches.upto(1 if alone or not (fit or start) else fit)
        if alone or not (fit or start):
            queries = np.sort(queries[queries > after])
            if len(queries) > room:
                return Matched(np.array([0, room]), queries[:room], 0, int(queries[room - 1]))
            fit, counts = 1, np.array([len(queries)])
        sizes.append(counts[:fit])
        parts.append(queries)
        start, room = start + fit, room - len(queries)
        if fit < len(counts):
            break
    queries = parts[0] if len(parts) == 1 else np.concatenate([_NOTHING, *parts])
    return Matched(np.cumsum(np.concatenate([[0], *sizes])), queries, start)


@dataclass(frozen=True, slots=True)
class PieceMatches:
    """The matches of the rows of a piece. `queries` of row i begin at `ends[i]`.

    `several`: the places where `queries` has a name below 0, which stands for several queries.
    """

    ends: Array
    queries: Array
    several: Array
    named: NamedClauses

    def sizes(self) -> Array:
        """The number of queries that each row matches, int64."""
        sizes = np.diff(self.ends)
        if len(self.several):
            rows = np.searchsorted(self.ends, self.several, "right") - 1
            np.add.at(sizes, rows, self.named.sizes(self.queries[self.several]) - 1)
        return sizes

    def upto(self, rows: int) -> Array:
        """The queries of the first `rows` rows, row after row."""
        end = int(self.ends[rows])
        return self.named.written_out(self.queries[:end], self.several[: np.searchsorted(self.several, end)])


class _PieceMatches(NamedTuple):
    """Matches of a piece: pairs of `slots` and `offsets`, or the rows of bits that belong to the slots."""

    slots: Array
    offsets: Array
    rows: Array | None = None

    def add_to(self, counts: Array) -> Array:
        """Add the number of matches of each row to `counts`. Returns the ends of the stretches of pairs."""
        ends: Array = np.empty(len(self.offsets), np.int32)
        if self.rows is None:
            return ends[: count_offsets(self.offsets, ends, counts)]
        count_bits(self.rows, len(self.slots), counts)
        return ends

    def place(self, stretches: Array, named: NamedClauses, places: Array, queries: Array) -> Array:
        """Write the queries of each row from its position in `places` on, and advance that position.

        Returns the positions with names below 0.
        """
        several: Array
        if self.rows is None:
            several = np.empty(len(self.slots) + 1, np.int64)
            tables = named.names, named.bases, named.first
            count = place_by_offset(self.slots, self.offsets, stretches, *tables, places, queries, several)
        else:
            several, owners = np.empty(len(queries), np.int64), named.of(self.slots)
            count = place_bits(self.rows, owners, places, queries, several)
        return several[:count]


def _laid_out(matches: Sequence[_PieceMatches], rows: int, named: NamedClauses) -> PieceMatches:
    """The matches of some rows, row after row."""
    ends = np.zeros(rows + 1, np.int64)
    stretches = [some.add_to(ends[1:]) for some in matches]
    np.cumsum(ends, out=ends)
    queries, places = np.empty(int(ends[-1]), np.int64), ends[:-1].copy()
    several = [some.place(of_some, named, places, queries) for some, of_some in zip(matches, stretches, strict=True)]
    return PieceMatches(ends, queries, np.sort(np.concatenate([_NOTHING, *several])), named)


class _Join:
    """The join of a batch's rows with all clauses of a stream, for one reader."""

    def __init__(self, snapshot: Snapshot, view: StreamView, batch: Batch, budget: ReadBudget) -> None:
        self._snapshot = snapshot
        self._view = view
        self._batch = batch
        self._budget = budget
        last = view.chunks[-1].results.open
        assert last is not None, "the last chunk is open"
        self._owners = last.sqc_of_slot
        self._lent = scratch, self._results = view.room.take(snapshot.config, len(self._owners))
        self._index = view.clauses.subset(scratch)
        self._rows = max(min(snapshot.config.piece_rows, _LOOKED_AT // max(self._index.unlisted, 1)), 1)
        out = pieces_of(view.outside.ids), pieces_of(idle_clauses(snapshot.clauses, view.stream_id))
        self._out = [self._outside(piece) for pieces in out for piece in pieces]
        """Indexes of the clauses that are not in the stream's index, and the SQC IDs of each."""

    def close(self) -> None:
        """Return the scratch memory for other readers. Do not call this after an error: the memory is then in an
        unknown state.
        """
        self._view.room.give_back(*self._lent)

    def _outside(self, sqc_ids: Array) -> tuple[Subset, Array]:
        self._budget.check()
        return index_of(self._snapshot, self._view, sqc_ids), sqc_ids

    def matched(self, start: int, upto: int) -> PieceMatches:
        """The matches of the rows from `start` on, for as many rows as fit into one pass."""
        while True:
            rows = min(self._rows, upto - start)
            self._budget.examine(rows)
            try:
                return self._matched(start, rows)
            except TooManyRows:
                self._rows = max(rows // 8, 1)
                self._results = passing(self._snapshot.config, self._rows, len(self._owners))

    def _matched(self, start: int, rows: int) -> PieceMatches:
        batch = self._batch.slice(start, start + rows)
        piece = Piece(batch.columns, np.arange(rows, dtype=np.int64) + self._view.next_id, batch.times, 0)
        clauses, matches = self._snapshot.clauses, self._probed(self._index, piece, self._results)
        count = sum(len(some.slots) for some in matches)
        named = None if self._out else self._view.room.named(clauses, self._owners, count)
        if named is None:
            sqc_ids = [self._owners[some.slots] for some in matches]
            for index, ids in self._out:
                wary = {expr for expr in index.attributes.values() if not isinstance(expr, AttributeRef)}
                results = passing(self._snapshot.config, rows, len(ids))
                more = self._probed(index, piece, results, wary)
                sqc_ids += [ids[some.slots] for some in more]
                matches += more
            named = NamedClauses(clauses, np.concatenate([_NOTHING, *sqc_ids]))
            ends = np.cumsum([0, *map(len, sqc_ids)]).tolist()
            spans = zip(pairwise(ends), matches, strict=True)
            matches = [some._replace(slots=np.arange(*span, dtype=np.uint32)) for span, some in spans]
        return _laid_out(matches, rows, named)

    def _probed(
        self, clauses: Subset, piece: Piece, results: OpenResults, wary: Set[Expr] = frozenset()
    ) -> list[_PieceMatches]:
        """The matches of a piece, by way of `results`, which is cleared first. Raises TooManyRows."""
        results.clear()
        probe(clauses, piece, results, self._snapshot.run, every_row(self._budget, wary))
        view = results.view(len(piece), self._owners)
        count = sum(len(run.slots) for run in view.runs) + int(view.row_counts().sum())
        if count > _MOST_PAIRS and len(piece) > 1:
            raise TooManyRows
        matches = [_PieceMatches(run.slots, run.offsets) for run in view.runs]
        return [*matches, _PieceMatches(view.slots_of_rows(), _NO_OFFSETS, view.rows)] if view.count else matches
