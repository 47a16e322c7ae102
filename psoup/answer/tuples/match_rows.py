"""The standing queries that rows would match, if they came now: the join of arrival, by a reader, that keeps nothing.

    rows ── pieces ──> the index as it was published ──> runs, rows of bits ──> by row: names ──> query IDs
                  └──> clauses that are out of the index: row by row

A page has the rows whose queries fit it; if a single row has more, its queries up to some ID. The matches of a piece
are counted before they are written out: if they are too many, fewer rows are taken. Windows are not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from psoup.clauses.query_stem import QuerySteM
from psoup.clauses.sides import Subset
from psoup.columns import Array, Batch
from psoup.data.data_stem import Piece
from psoup.expressions.guarded import every_row
from psoup.expressions.tree import AttributeRef, Expr
from psoup.kernels.named import count_bits, count_offsets, place_bits, place_by_offset
from psoup.matching.new_tuples import probe
from psoup.published.match_room import Named, TooManyRows, passing
from psoup.published.snapshot import Snapshot, StreamView
from psoup.reading import UNBOUNDED, ReadBudget
from psoup.results.open import OpenResults

_MOST_PAIRS = 1 << 22
"""Pairs of row and clause of a piece of more than one row."""
_LOOKED_AT = 1 << 28
"""Rows of a piece times clauses that are in no list: each of these may have a sixty-fourth of the rows side by side."""
_NOTHING: Array = np.zeros(0, np.int64)
_NO_OFFSETS: Array = np.zeros(0, np.uint16)


@dataclass(frozen=True, slots=True)
class Matched:
    """The queries of the first `done` rows, and some of the row after them if it has more than fit alone.

    `queries`: int64, those of row i from `ends[i]` to `ends[i + 1]`, in no order. `more`: the ID after which the
    queries of row `done` go on; None if the page has none of that row.
    """

    ends: Array
    queries: Array
    done: int
    more: int | None = None

    @staticmethod
    def of_one(queries: Sequence[int]) -> Matched:
        """The queries of a single row, all of them."""
        return Matched(np.array([0, len(queries)]), np.array(queries, np.int64), 1)

    def among(self, rows: Array, sent: int) -> Matched:
        """The same for `sent` rows, of which `rows` (int64[n], ascending) were the batch; the others match nothing."""
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
    """Find the queries whose WHERE each row of a batch satisfies; for the first row those with an ID above `after`.

    At most `most` of them (1 or more): of the first rows. The batch is one that a push accepts. Raises NotFound for the
    stream. O(what arrival costs + result), and a byte for each clause.
    """
    join = _Join(snapshot, snapshot.stream(stream, tenant), batch, budget)
    found = paged(join.matched, len(batch), after, most)
    join.close()
    snapshot.lifetimes.note_all(found.queries)
    return found


def paged(matched: Callable[[int, int], PieceMatches], rows: int, after: int, most: int) -> Matched:
    """A page of some rows. `matched(start, upto)`: the matches of the rows from `start` on, of one at least."""
    sizes, parts = list[Array](), list[Array]()
    start, room = 0, most
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
    """The matches of the rows of a piece: `queries` of row i from `ends[i]` on, at `several` names below 0."""

    ends: Array
    queries: Array
    several: Array
    named: Named

    def sizes(self) -> Array:
        """The number of queries that each row matches, int64."""
        sizes = np.diff(self.ends)
        if len(self.several):
            rows = np.searchsorted(self.ends, self.several, "right") - 1
            np.add.at(sizes, rows, self.named.sizes(self.queries[self.several]) - 1)
        return sizes

    def upto(self, rows: int) -> Array:
        """The queries of the first rows, one row after the other."""
        end = int(self.ends[rows])
        return self.named.written_out(self.queries[:end], self.several[: np.searchsorted(self.several, end)])


class _Some(NamedTuple):
    """Matches of a piece: pairs of `slots` and `offsets`, or the rows of bits that belong to the slots."""

    slots: Array
    offsets: Array
    rows: Array | None = None

    def add_to(self, counts: Array) -> Array:
        """Add to `counts` how many there are of each row; returns the stretches of the pairs."""
        ends: Array = np.empty(len(self.offsets), np.int32)
        if self.rows is None:
            return ends[: count_offsets(self.offsets, ends, counts)]
        count_bits(self.rows, len(self.slots), counts)
        return ends

    def place(self, stretches: Array, named: Named, places: Array, queries: Array) -> Array:
        """Write the queries to the places, which go on; returns where names below 0 are written."""
        several: Array
        if self.rows is None:
            several = np.empty(len(self.slots) + 1, np.int64)
            tables = named.names, named.bases, named.first
            count = place_by_offset(self.slots, self.offsets, stretches, *tables, places, queries, several)
        else:
            several, owners = np.empty(len(queries), np.int64), named.of(self.slots)
            count = place_bits(self.rows, owners, places, queries, several)
        return several[:count]


def _laid_out(found: Sequence[_Some], rows: int, named: Named) -> PieceMatches:
    """The matches of some rows, one row after the other."""
    ends = np.zeros(rows + 1, np.int64)
    stretches = [some.add_to(ends[1:]) for some in found]
    np.cumsum(ends, out=ends)
    queries, places = np.empty(int(ends[-1]), np.int64), ends[:-1].copy()
    several = [some.place(of_some, named, places, queries) for some, of_some in zip(found, stretches, strict=True)]
    return PieceMatches(ends, queries, np.sort(np.concatenate([_NOTHING, *several])), named)


class _Join:
    """The rows of a batch, and all clauses of a stream, for one user."""

    def __init__(self, snapshot: Snapshot, view: StreamView, batch: Batch, budget: ReadBudget) -> None:
        self._snapshot, self._view, self._batch, self._budget = snapshot, view, batch, budget
        last = view.chunks[-1].results.open
        assert last is not None, "the last chunk is open"
        self._owners = last.sqc_of_slot
        self._lent = scratch, self._results = view.room.take(snapshot.config, len(self._owners))
        self._index = view.clauses.subset(scratch)
        self._rows = max(min(snapshot.config.piece_rows, _LOOKED_AT // max(self._index.unlisted, 1)), 1)
        self._out = None if not len(view.outside.ids) else self._outside(view.outside.ids)

    def close(self) -> None:
        """Leave the memory for other readers, if nothing was raised."""
        self._view.room.give_back(*self._lent)

    def _outside(self, sqc_ids: Array) -> tuple[QuerySteM, Array]:
        """An index of the clauses that are not in the stream's."""
        index = QuerySteM(self._view.spec.schema, self._snapshot.config)
        clauses = [self._snapshot.clause(sqc_id).factors for sqc_id in sqc_ids.tolist()]
        index.add_many([*enumerate(clauses)])
        return index, sqc_ids

    def matched(self, start: int, upto: int) -> PieceMatches:
        """The matches of the rows from `start` on: of as many rows as may be looked at together."""
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
        clauses, found = self._snapshot.clauses, self._probed(self._index, piece, self._results)
        count = sum(len(some.slots) for some in found)
        named = self._view.room.named(clauses, self._owners, count) if self._out is None else None
        if named is None:
            sqc_ids = [self._owners[some.slots] for some in found]
            if self._out is not None:
                index, ids = self._out
                wary = {expr for expr in index.attributes.values() if not isinstance(expr, AttributeRef)}
                results = passing(self._snapshot.config, rows, len(ids))
                more = self._probed(index, piece, results, wary)
                sqc_ids += [ids[some.slots] for some in more]
                found += more
            named = Named(clauses, np.concatenate([_NOTHING, *sqc_ids]))
            ends = np.cumsum([0, *map(len, sqc_ids)]).tolist()
            spans = zip(pairwise(ends), found, strict=True)
            found = [some._replace(slots=np.arange(*span, dtype=np.uint32)) for span, some in spans]
        return _laid_out(found, rows, named)

    def _probed(
        self, clauses: Subset | QuerySteM, piece: Piece, results: OpenResults, wary: Set[Expr] = frozenset()
    ) -> list[_Some]:
        """The matches of a piece; the results hold nothing before. Raises TooManyRows."""
        results.clear()
        probe(clauses, piece, results, self._snapshot.run, every_row(self._budget, wary))
        view = results.view(len(piece), self._owners)
        count = sum(len(run.slots) for run in view.runs) + int(view.row_counts().sum())
        if count > _MOST_PAIRS and len(piece) > 1:
            raise TooManyRows
        found = [_Some(run.slots, run.offsets) for run in view.runs]
        return [*found, _Some(view.slots_of_rows(), _NO_OFFSETS, view.rows)] if view.count else found
