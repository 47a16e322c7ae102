"""The pairs of a tuple and a query that a follower is told in a range of tuple IDs.

    every selection       all matches of the tuples, then without the queries that are not told
    some queries          the matches of their clauses alone      `psoup.execution.select.many_matches`

Both ways evaluate a clause over a chunk that has no results of it. No lifetime of a query is renewed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.answer.follow.told import ToldQueries, told_queries
from psoup.answer.tuples.queries_of_tuple import matched_between
from psoup.execution.select.many_matches import Together, parts_of
from psoup.published.snapshot import Snapshot, StreamView
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget

_NONE: Array = np.zeros(0, np.int64)
_CLAUSE_PAIRS = 1 << 20
"""The most pairs of a clause and a tuple that one step makes. A step with more has fewer tuples."""


class FollowPairs(NamedTuple):
    """Pairs of a tuple and a query, int64[n] each, ascending by tuple, then by query.

    All pairs of tuples before `end_id` are here. `after`: of the tuple `end_id` the queries up to this ID are here;
    -1 for none.
    """

    tuple_ids: Array
    queries: Array
    end_id: int
    after: int = -1


def _in_order(tuple_ids: Array, queries: Array, low: int, after: int, end_id: int, more: int = -1) -> FollowPairs:
    """The pairs in order, without queries up to `after` of the tuple `low`."""
    if after >= 0:
        keep = (tuple_ids != low) | (queries > after)
        tuple_ids, queries = tuple_ids[keep], queries[keep]
    order = np.lexsort((queries, tuple_ids))
    return FollowPairs(tuple_ids[order], queries[order], end_id, more)


def every_pair(
    snapshot: Snapshot,
    view: StreamView,
    low: int,
    high: int,
    place: tuple[int, int],
    only: ToldQueries | None,
    *,
    old: bool,
    budget: ReadBudget,
) -> FollowPairs:
    """The pairs of the first tuples in [low, high) with all selections on the stream, or with those in `only`.

    `place`: the last query that was told for the tuple `low`, or -1, and the most pairs.
    """
    after, most = place
    matched = matched_between(snapshot, view, low, high - low, after=after, most=most, budget=budget)
    sizes = np.diff(matched.ends)
    tuple_ids, queries = np.repeat(np.arange(low, low + len(sizes)), sizes), matched.queries
    if only is not None:
        among = np.isin(queries, only.ids)
        tuple_ids, queries = tuple_ids[among], queries[among]
    told = told_queries(snapshot, view, np.unique(queries), old=old) if only is None else only
    places = np.searchsorted(told.ids, queries)
    keep = told.told(places, tuple_ids, times_of(view, tuple_ids) if told.is_fixed else None)
    more = -1 if matched.more is None else matched.more
    return _in_order(tuple_ids[keep], queries[keep], low, after, low + matched.done, more)


def some_pairs(
    snapshot: Snapshot, view: StreamView, low: int, high: int, after: int, told: ToldQueries, *, budget: ReadBudget
) -> FollowPairs:
    """The pairs of the first tuples in [low, high) with some queries. O(new matches + clauses) for each chunk.

    The tuples are those of one chunk at most, and fewer if they have too many matches.
    """
    by_clause = np.argsort(told.sqc_ids, kind="stable")
    clauses, starts = np.unique(told.sqc_ids[by_clause], return_index=True)
    ends = np.append(starts[1:], len(by_clause))
    which, tuple_ids, end_id = _of_clauses(snapshot, view, low, high, clauses, budget)
    sizes = (ends - starts)[which]
    places = by_clause[np.repeat(starts[which] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))]
    tuple_ids = np.repeat(tuple_ids, sizes)
    keep = told.told(places, tuple_ids, times_of(view, tuple_ids) if told.is_fixed else None)
    return _in_order(tuple_ids[keep], told.ids[places[keep]], low, after, end_id)


def _of_clauses(
    snapshot: Snapshot, view: StreamView, low: int, high: int, clauses: Array, budget: ReadBudget
) -> tuple[Array, Array, int]:
    """The matches of clauses (int64[k], ascending SQC IDs) from `low` on: places of clauses, tuple IDs, and their end.

    Each has tuples of one chunk only.
    """
    part = next(parts_of(view, low, high), None)
    if part is None:
        return _NONE, _NONE, high
    entry, start, stop = part
    free = np.array([not snapshot.clause(sqc_id).factors for sqc_id in clauses.tolist()], np.bool_)
    conditional, first_id = np.flatnonzero(~free), entry.data.first_id
    while True:
        limit = max(_CLAUSE_PAIRS, len(clauses)) if stop - start > 1 else 2**62
        try:
            pairs = [(_NONE, _NONE)]
            if len(conditional):
                together = Together(snapshot, view, clauses[conditional], budget)
                together.begin([(entry, start, stop)])
                matches = together.in_chunk(entry, start, stop, limit, None)
                pairs.append((conditional[matches.pairs.which], matches.pairs.offsets + first_id))
            offsets = np.arange(start, stop)
            pairs += [(np.full(len(offsets), place), offsets + first_id) for place in np.flatnonzero(free).tolist()]
            which, tuple_ids = (np.concatenate(column) for column in zip(*pairs, strict=True))
            return which, tuple_ids, first_id + stop
        except TooManyPairs:
            stop = start + max((stop - start) // 8, 1)


def times_of(view: StreamView, tuple_ids: Array) -> Array:
    """The times of some tuples (int64[n], in any order), which must be stored. O(n + tuples between them)."""
    if not len(tuple_ids):
        return _NONE
    parts = parts_of(view, int(tuple_ids.min()), int(tuple_ids.max()) + 1)
    pieces = [(entry.data.first_id + start, entry.data.times[start:stop]) for entry, start, stop in parts]
    times = np.concatenate([times for _, times in pieces])
    return times[tuple_ids - pieces[0][0]]
