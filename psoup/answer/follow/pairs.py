"""The pairs of a tuple and a query that a follower is told in a range of tuple IDs.

    every selection       all matches of the tuples, then without the queries that are not told
    some queries          the matches of their clauses alone      `psoup.execution.select.many_matches`

Both ways evaluate a clause over a chunk that has no results of it. No lifetime of a query is renewed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.answer.follow.clause_queries import ClauseQueries, QueriesOf, joined_queries
from psoup.answer.follow.distinct import distinct_places
from psoup.answer.follow.idle_auto import idle_auto_clauses
from psoup.answer.tuples.queries_of_tuple import clause_pairs, pass_tuples
from psoup.execution.select.many_matches import Together, parts_of
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget

_NONE: Array = np.zeros(0, np.int64)
_CLAUSE_PAIRS = 1 << 20
"""The most pairs of a clause and a tuple that one step makes. A step with more has fewer tuples."""
_QUERY_PAIRS = 1 << 21
"""The most pairs of a query and a tuple that one step makes. A single tuple may have more."""


class FollowPairs(NamedTuple):
    """Pairs of a tuple and a query, int64[n] each, ascending by tuple, then by query.

    All pairs of tuples before `end_id` are here. `after`: of the tuple `end_id` the queries up to this ID are here;
    -1 for none. `changes`: of a table, int64[n], as in `psoup.answer.follow.version_pairs`. None for a stream.
    """

    tuple_ids: Array
    queries: Array
    end_id: int
    after: int = -1
    changes: Array | None = None

    def of(self, which: Array | slice) -> FollowPairs:
        """The pairs at some places, or with flags, up to the same end."""
        changes = None if self.changes is None else self.changes[which]
        return self._replace(tuple_ids=self.tuple_ids[which], queries=self.queries[which], changes=changes)


def every_pair(
    snapshot: Snapshot, view: StreamView, low: int, high: int, after: int, catalog: ClauseQueries, budget: ReadBudget
) -> FollowPairs:
    """The pairs of the first tuples in [low, high) with the queries that `known` admits.

    All tuples are in one chunk. O(results of the chunk) and an evaluation of clauses without results.
    """
    part = next(parts_of(view, low, high), None)
    if part is None:  # all these tuples have left their chunks
        return FollowPairs(_NONE, _NONE, high)
    entry, start, stop = part
    offsets = np.arange(start, min(stop, start + pass_tuples(snapshot, entry)))
    budget.examine(len(offsets))
    parts = [(_NONE, _NONE)]
    for pair in clause_pairs(snapshot, view, entry, offsets, idle_auto_clauses(snapshot, view)):
        budget.check()
        parts.append(pair)
    sqc_ids, which = (np.concatenate(column) for column in zip(*parts, strict=True))
    places = entry.data.places
    clauses, names = distinct_places(sqc_ids)
    place = low, after, places.id_of(int(offsets[-1])) + 1
    return _told(view, catalog.of(snapshot, view, clauses), names, places.ids(which + start), place)


def some_pairs(
    snapshot: Snapshot, view: StreamView, low: int, high: int, after: int, catalog: ClauseQueries, budget: ReadBudget
) -> FollowPairs:
    """The pairs of the first tuples in [low, high) with the queries of all `known` clauses.

    All tuples are in one chunk; they are fewer if they have too many matches. O(new matches + clauses).
    """
    part = next(parts_of(view, low, high), None)
    if part is None:
        return FollowPairs(_NONE, _NONE, high)
    names, tuple_ids, end_id = _of_clauses(snapshot, view, part, catalog.clauses, budget)
    return _told(view, catalog.of(snapshot, view, catalog.clauses), names, tuple_ids, (low, after, end_id))


def pairs_of_both(first: FollowPairs, second: FollowPairs) -> FollowPairs:
    """The pairs of two sets of queries from one place on, in order, up to the end that comes first.

    Each set must have all queries of its last tuple.
    """
    end_id = min(first.end_id, second.end_id)
    ends = [int(np.searchsorted(pairs.tuple_ids, end_id)) for pairs in (first, second)]
    parts = [pairs.of(slice(end)) for pairs, end in zip((first, second), ends, strict=True)]
    tuple_ids = np.concatenate([part.tuple_ids for part in parts])
    queries = np.concatenate([part.queries for part in parts])
    changes = [part.changes for part in parts if part.changes is not None]
    both = FollowPairs(tuple_ids, queries, end_id, changes=np.concatenate(changes) if changes else None)
    return both.of(np.lexsort((queries, tuple_ids)))


class TogetherPairs(NamedTuple):
    """Pairs of many followers, int64[n] each, ascending by follower, tuple and query. All pairs before `end_id`.

    `owners`: the places of the followers.
    """

    owners: Array
    tuple_ids: Array
    queries: Array
    end_id: int

    def of(self, which: Array) -> TogetherPairs:
        """The pairs at some places, or with flags."""
        return TogetherPairs(self.owners[which], self.tuple_ids[which], self.queries[which], self.end_id)


def pairs_together(
    snapshot: Snapshot, view: StreamView, low: int, high: int, every: Sequence[ClauseQueries], budget: ReadBudget
) -> TogetherPairs:
    """The pairs of `some_pairs` for each of some followers, in one pass over the new results of all their clauses."""
    part = next(parts_of(view, low, high), None)
    if part is None:
        return TogetherPairs(_NONE, _NONE, _NONE, high)
    catalog, owners = joined_queries(every)
    clauses, place_of = np.unique(np.concatenate([catalog.clauses for catalog in every]), return_inverse=True)
    names, tuple_ids, end_id = _of_clauses(snapshot, view, part, clauses, budget)
    order = np.argsort(names, kind="stable")
    tuple_ids, counts = tuple_ids[order], np.bincount(names, minlength=len(clauses))
    sizes = counts[place_of]  # of each clause of each follower
    ends, starts = np.cumsum(sizes), (np.cumsum(counts) - counts)[place_of]
    at = np.repeat(starts - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
    which = np.repeat(np.arange(len(sizes)), sizes)
    queries, tuple_ids, pair_of, end_id = expanded(view, catalog, which, tuple_ids[at], low, end_id)
    owners = owners[which[pair_of]]
    return TogetherPairs(owners, tuple_ids, queries, end_id).of(np.lexsort((queries, tuple_ids, owners)))


def _told(
    view: StreamView, catalog: QueriesOf, names: Array, tuple_ids: Array, place: tuple[int, int, int]
) -> FollowPairs:
    """The pairs that are told, in order. Each pair of a tuple and a clause `name` stands for the clause's queries.

    `place`: the first tuple, the last query that was told for it, and the end of the tuples.
    """
    low, after, end_id = place
    queries, tuple_ids, _, end_id = expanded(view, catalog, names, tuple_ids, low, end_id)
    if after >= 0:
        later = (tuple_ids != low) | (queries > after)
        tuple_ids, queries = tuple_ids[later], queries[later]
    return FollowPairs(*_in_order(tuple_ids, queries, low, end_id), end_id)


def _in_order(tuple_ids: Array, queries: Array, low: int, end_id: int) -> tuple[Array, Array]:
    """Pairs of tuples in [low, end_id) and queries, ascending by tuple, then by query. No pair is there twice."""
    span = int(queries.max(initial=0)) + 1
    if (end_id - low) * span >= 1 << 62:
        order = np.lexsort((queries, tuple_ids))
        return tuple_ids[order], queries[order]
    keys = (tuple_ids - low) * span + queries  # several times as fast
    kind = np.dtype(np.uint32 if (end_id - low) * span < 1 << 32 else np.int64)  # 32 bits take half the time
    keys = np.sort(keys.astype(kind))
    tuples = keys // kind.type(span)
    return tuples.astype(np.int64) + low, (keys - tuples * kind.type(span)).astype(np.int64)


def expanded(
    view: StreamView, catalog: QueriesOf, names: Array, tuple_ids: Array, low: int, end_id: int
) -> tuple[Array, Array, Array, int]:
    """The queries that are told, their tuples, the places of their pairs in `names`, and the end of the tuples.

    Each pair of a tuple and a clause `name` stands for the clause's queries. Too many pairs make the tuples fewer.
    """
    facts, counts, pairs = catalog.facts, catalog.sizes[names], np.arange(len(names))
    if len(counts) and int(counts.sum()) > _QUERY_PAIRS:  # a clause may have a million queries
        by_tuple = np.bincount(tuple_ids - low, counts, end_id - low)
        end_id = low + max(int(np.searchsorted(np.cumsum(by_tuple), _QUERY_PAIRS, "right")), 1)
        pairs = np.flatnonzero(tuple_ids < end_id)
        counts = counts[pairs]
    ends = np.cumsum(counts)
    pair_of = np.repeat(pairs, counts)
    places = np.repeat(catalog.starts[names[pairs]] - (ends - counts), counts) + np.arange(len(pair_of))
    told_ids = tuple_ids[pair_of]
    keep = facts.admits(places, told_ids, times_of(view, told_ids) if facts.is_fixed else None)
    return facts.ids[places[keep]], told_ids[keep], pair_of[keep], end_id


def _of_clauses(
    snapshot: Snapshot, view: StreamView, part: tuple[ChunkEntry, int, int], clauses: Array, budget: ReadBudget
) -> tuple[Array, Array, int]:
    """The matches of clauses (int64[k], ascending SQC IDs) in a part of a chunk: places of clauses, tuple IDs, their
    end.
    """
    entry, start, stop = part
    records = [*enumerate(map(snapshot.clauses.get, clauses.tolist()))]  # None: its queries have left since
    conditional = np.array([at for at, record in records if record is not None and record.factors], np.int64)
    free, places = [at for at, record in records if record is not None and not record.factors], entry.data.places
    while True:
        limit = max(_CLAUSE_PAIRS, len(clauses)) if stop - start > 1 else 2**62
        try:
            pairs = [(_NONE, _NONE)]
            if len(conditional):
                together = Together(snapshot, view, clauses[conditional], budget)
                progress = together.begin([(entry, start, stop)])
                matches = together.in_chunk(entry, start, stop, limit, progress)
                pairs.append((conditional[matches.pairs.which], places.ids(matches.pairs.offsets)))
            ids = places.ids_between(start, stop)
            pairs += [(np.full(len(ids), place), ids) for place in free]
            which, tuple_ids = (np.concatenate(column) for column in zip(*pairs, strict=True))
            return which, tuple_ids, places.id_of(stop - 1) + 1
        except TooManyPairs:
            stop = start + max((stop - start) // 8, 1)


def times_of(view: StreamView, tuple_ids: Array) -> Array:
    """The times of some tuples (int64[n], in any order), which must be stored. O(n + tuples between them)."""
    if not len(tuple_ids):
        return _NONE
    parts = parts_of(view, int(tuple_ids.min()), int(tuple_ids.max()) + 1)
    pieces = [(entry.data.ids_of(start, stop), entry.data.times[start:stop]) for entry, start, stop in parts]
    ids, times = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    return times[np.searchsorted(ids, tuple_ids) if view.thinned else tuple_ids - ids[0]]
