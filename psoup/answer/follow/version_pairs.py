"""The pairs of an entry of a table and a query whose answer it changes, or whose row it replaces.

    entry 9       queries that it matches      7 8         came    8     matched it, and not the version before
    before: 4     queries that 4 matched       7 5         stays   7     matched both
                                                           left    5     matched only the version before

A deletion matches no query, so all queries of the version before have left. Entries are compared with the entry before
in stream order, also if a version was replaced at its own time. So a follower that applies each change knows each
answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from psoup.answer.follow.clause_queries import ClauseQueries
from psoup.answer.follow.distinct import distinct_places
from psoup.answer.follow.idle_auto import idle_auto_clauses
from psoup.answer.follow.pairs import FollowPairs, expanded
from psoup.answer.tuples.queries_of_tuple import clause_pairs, pass_tuples
from psoup.data.versions import versions_of, without_deletions
from psoup.execution.select.many_matches import Together, parts_of
from psoup.execution.select.version_entries import located
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget

CAME, STAYS, LEFT = range(3)
"""The change of a query at an entry."""

_NONE: Array = np.zeros(0, np.int64)
_CLAUSE_PAIRS = 1 << 20
"""The most pairs of a clause and a row that one step makes. A step with more has fewer entries."""


def changed_pairs(
    snapshot: Snapshot,
    view: StreamView,
    low: int,
    high: int,
    after: int,
    catalog: ClauseQueries,
    budget: ReadBudget,
    *,
    few: bool,
) -> FollowPairs:
    """The pairs of the first entries in [low, high) with the queries that the catalog admits, each with its change.

    `few`: only the clauses of the catalog are read. All entries are in one chunk. O(matches of these entries and of
    those before), plus O(results) of each chunk that has one of them.
    """
    part = next(parts_of(view, low, high), None)
    if part is None:
        return FollowPairs(_NONE, _NONE, high, changes=_NONE)
    entry, start, stop = part
    search = _Clauses(snapshot, view, catalog.clauses if few else None, budget)
    if not few:
        stop = min(stop, start + pass_tuples(snapshot, entry))
    while True:
        budget.examine(stop - start)
        try:
            pairs = _changes(search, entry, start, stop)
            break
        except TooManyPairs:
            stop = start + max((stop - start) // 8, 1)
    end_id = entry.data.places.id_of(stop - 1) + 1
    sqc_ids, tuple_ids, changes = pairs
    clauses, names = distinct_places(sqc_ids)
    queries, tuple_ids, pair_of, end_id = expanded(
        view, catalog.of(snapshot, view, clauses), names, tuple_ids, low, end_id
    )
    changes = changes[pair_of]
    order = np.lexsort((queries, tuple_ids))
    if after >= 0:
        order = order[(tuple_ids[order] != low) | (queries[order] > after)]
    return FollowPairs(tuple_ids[order], queries[order], end_id, changes=changes[order])


class _Clauses:
    """A search for the clauses that versions match. `wanted`: the SQC IDs, int64[k] ascending; None for all."""

    def __init__(self, snapshot: Snapshot, view: StreamView, wanted: Array | None, budget: ReadBudget) -> None:
        self.view = view
        self._snapshot = snapshot
        self._budget = budget
        self._every = wanted is None
        records = [] if wanted is None else [*map(snapshot.clauses.get, wanted.tolist())]
        standing = [record for record in records if record is not None]
        self._free = [record.sqc_id for record in standing if not record.factors]
        self._ids: Array = np.array([record.sqc_id for record in standing if record.factors], np.int64)
        self._together = Together(snapshot, view, self._ids, budget, raw=True) if len(self._ids) else None

    def of(self, entry: ChunkEntry, rows: Array) -> Iterator[tuple[Array, Array]]:
        """Pairs of an SQC ID and a row among `rows` (int64, ascending), int64 each. Raises TooManyPairs.

        A single row may have any number of pairs.
        """
        rows = without_deletions(entry.data, rows)
        if not len(rows):
            return
        if self._every:
            idle = idle_auto_clauses(self._snapshot, self.view)
            for sqc_ids, which in clause_pairs(self._snapshot, self.view, entry, rows, idle):
                self._budget.check()
                yield sqc_ids, rows[which]
            return
        for sqc_id in self._free:
            yield np.full(len(rows), sqc_id), rows
        if self._together is not None:
            first, stop = int(rows[0]), int(rows[-1]) + 1
            limit = 2**62 if len(rows) == 1 else max(_CLAUSE_PAIRS, len(self._ids))
            progress = self._together.begin([(entry, first, stop)])
            pairs = self._together.in_chunk(entry, first, stop, limit, progress).pairs
            among = np.zeros(stop - first, np.bool_)
            among[rows - first] = True
            among = among[pairs.offsets - first]
            yield self._ids[pairs.which[among]], pairs.offsets[among]


def _changes(search: _Clauses, entry: ChunkEntry, start: int, stop: int) -> tuple[Array, Array, Array]:
    """The changes of the entries in some rows: SQC IDs, tuple IDs, and changes, int64 each. Raises TooManyPairs."""
    ids = entry.data.places.ids_between(start, stop)
    now = [(_NONE, _NONE), *((sqc_ids, rows - start) for sqc_ids, rows in search.of(entry, np.arange(start, stop)))]
    former = [(_NONE, _NONE)]
    before = versions_of(entry.data).before[start:stop]
    present = np.flatnonzero(before >= 0)
    for earlier, at, rows in located(search.view, before[present]):
        place_of: Array = np.zeros(len(earlier.data), np.int64)
        place_of[rows] = present[at]
        former += [(sqc_ids, place_of[matched]) for sqc_ids, matched in search.of(earlier, rows)]
    now_ids, now_places = (np.concatenate(column) for column in zip(*now, strict=True))
    former_ids, former_places = (np.concatenate(column) for column in zip(*former, strict=True))
    clauses, names = distinct_places(np.concatenate([now_ids, former_ids]))
    keys = np.concatenate([now_places, former_places]) * max(len(clauses), 1) + names
    distinct, which = np.unique(keys, return_inverse=True)
    is_now, was = np.zeros(len(distinct), np.bool_), np.zeros(len(distinct), np.bool_)
    is_now[which[: len(now_ids)]] = True
    was[which[len(now_ids) :]] = True
    changes = np.where(is_now, np.where(was, STAYS, CAME), LEFT)
    places, names = np.divmod(distinct, max(len(clauses), 1))
    return clauses[names], ids[places], changes
