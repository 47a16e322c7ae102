"""A page of a follower: matches from a place on, with their tuples, and the keys and labels of their queries.

    place (tuple 41, query 7) ── pairs, ascending by tuple and query ──> as many as fit ──> place (tuple 44, query 3)

A page has at least one pair if it finds any. It looks at a bounded number of tuples. So a page may be empty before the
end of the stream, and its place is nevertheless later. The reader keeps nothing between two pages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.answer.follow.clause_queries import ClauseQueries
from psoup.answer.follow.distinct import distinct_first
from psoup.answer.follow.kept_entries import LOOKED_AT, FollowPlace
from psoup.answer.follow.pairs import FollowPairs, every_pair, pairs_of_both, some_pairs
from psoup.answer.follow.told import FollowWanted, wanted_queries
from psoup.answer.follow.version_pairs import changed_pairs
from psoup.errors import ResourceExhausted
from psoup.execution.rows.source_rows import by_ids
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef
from psoup.model import BIGINT, FIRST_VERSION, ID_COLUMN, TIME_COLUMN, TIMESTAMP, Kind
from psoup.published.idle_clauses import FIRST_IDLE
from psoup.published.snapshot import Snapshot, StreamView
from psoup.published.tag_columns import KEY, tag_columns
from psoup.sql.names import pseudo_index
from psoup.values.columns import Array
from psoup.values.kinds import arrow_type
from psoup.work.read_budget import UNBOUNDED, ReadBudget

PAIR_BYTES = 16
"""Bytes of a pair."""
LATE_S = 1.0
"""The least seconds between two pages of a follower that names a query with amount NONE. Its caller waits."""
_FEW = 256
"""The most wanted queries whose clauses are read alone. More of them are picked from the matches of all clauses."""
_FIRST, _LEAST = 2_048, 64
"""The number of tuples of the first pass of a follower, and the least number of a later one."""
_GATHERED = 1_024
"""The most tuples that are gathered at once."""
_NONE: Array = np.zeros(0, np.int64)
_TAGS = pa.schema(
    [("query", pa.int64()), ("key", pa.string()), pa.field("labels", pa.map_(pa.string(), pa.string()), False)]
)
_NO_TAGS = pa.RecordBatch.from_pylist([], schema=_TAGS)


@dataclass(frozen=True, slots=True)
class FollowPage:
    """Matches, int64[n] each, ascending by tuple, then by query. `tuples`, `tags`: their tuples and queries, each once.

    `changes`: of a table, int64[n], as in `psoup.answer.follow.version_pairs`. None for a stream. `place`: the place
    after the page. `end_id`: the next tuple ID of the stream. `left_out`: as in WantedQueries.
    """

    tuple_ids: Array
    queries: Array
    tuples: pa.RecordBatch
    tags: pa.RecordBatch
    place: FollowPlace
    end_id: int
    left_out: int
    changes: Array | None = None

    @property
    def caught_up(self) -> bool:
        """Whether no tuple is left."""
        return self.place.next_id >= self.end_id


class Follower:
    """The queries of one follower, resolved anew when queries come or go. Only one thread may use it at a time.

    `catalog`: the queries by their clauses. `few`: whether these are all clauses, so that only they are read. Else
    `idle` has the named queries whose clauses are not in the index. `left_out`: as in WantedQueries. `late`: whether a
    query has amount NONE, not chosen by AUTO. The caller then asks for pages seldom, because each page evaluates it.
    """

    def __init__(self, wanted: FollowWanted) -> None:
        self.wanted = wanted
        self.catalog = ClauseQueries(old=wanted.old)
        self.idle = _no_queries()
        self.few = self.late = False
        self.left_out = 0
        self.share = 0.0
        """The pairs for each tuple of the last pages, at least 0."""
        self._queries: object = None
        self._alterations = -1
        """The alterations of queries as of the last resolution. They may have changed clauses."""

    def next_tuples(self, room: int) -> int:
        """The number of tuples that probably have `room` pairs."""
        return _FIRST if not self.share else max(int(1.2 * room / self.share), _LEAST)

    def note(self, tuples: int, pairs: int) -> None:
        """Note the number of pairs that some tuples had."""
        now = max(pairs, 1) / max(tuples, 1)
        self.share = now if not self.share else (self.share + now) / 2

    def resolve(self, snapshot: Snapshot, view: StreamView, *, anew: bool = True) -> None:
        """Resolve the wanted queries as of a snapshot. O(1) while no query has come or gone.

        `anew`: False if no query that concerns the follower has come since the last call. Then few queries stay.
        """
        altered = self._alterations != snapshot.alterations
        if self._queries is snapshot.queries or (self.few and not (anew or altered)):
            return
        self._queries, self._alterations = snapshot.queries, snapshot.alterations
        if self.wanted.every:
            self.catalog = ClauseQueries(old=self.wanted.old)
            return
        facts, self.left_out, unkept = wanted_queries(snapshot, view, self.wanted)
        self.few, self.late = len(facts.ids) <= _FEW, len(unkept) > 0
        idle = facts.sqc_ids >= FIRST_IDLE
        if self.few:
            self.catalog, self.idle = ClauseQueries.all_of(facts), _no_queries()
        else:
            self.catalog = ClauseQueries(old=self.wanted.old, only=facts.ids, named=unkept)
            self.idle = ClauseQueries.all_of(facts.of(idle & np.isin(facts.ids, unkept)))

    def take_queries(self, other: Follower) -> None:
        """Take the queries of a follower that wants the same ones, and whose page serves this one, too. O(1)."""
        if other is self:
            return
        self._queries, self.few, self.late, self.left_out = None, other.few, other.late, other.left_out
        self._alterations = other._alterations
        if other.few:  # such a catalog never changes, so both may use it
            self.catalog, self.idle = other.catalog, other.idle

    def rest(self) -> None:
        """Let the snapshot's queries go before a wait, unless resolving them again costs much."""
        if self.few or self.wanted.every:
            self._queries = None


def _no_queries() -> ClauseQueries:
    return ClauseQueries(old=False)


def follow_page(
    snapshot: Snapshot,
    view: StreamView,
    follower: Follower,
    place: FollowPlace,
    *,
    most_rows: int,
    most_bytes: int,
    budget: ReadBudget = UNBOUNDED,
    before: int = 2**62,
    anew: bool = True,
) -> FollowPage:
    """The page of a follower from a place on, with tuples before the ID `before`. The tuple at the place must be kept,
    or be the next one.

    `anew`: as for `Follower.resolve`. At most `most_rows` pairs and `most_bytes` bytes. At least one pair, if the
    tuples looked at have one.
    O(matches of the tuples), and an evaluation where there are no results. Raises the errors of the budget.
    """
    follower.resolve(snapshot, view, anew=anew)
    snapshot.automatic.note_followed(view.stream_id)
    high, at = min(view.next_id, before, place.next_id + LOOKED_AT), place
    parts, room = list[FollowPairs](), most_rows
    while at.next_id < high and room > 0:
        pairs = _pairs(snapshot, view, follower, at, min(high, at.next_id + follower.next_tuples(room)), budget)
        follower.note(pairs.end_id - at.next_id, len(pairs.tuple_ids))
        pairs = first_pairs(pairs, room)
        parts.append(pairs)
        room -= len(pairs.tuple_ids)
        at = FollowPlace(pairs.end_id, pairs.after)
    tuple_ids = np.concatenate([_NONE, *(part.tuple_ids for part in parts)])
    queries = np.concatenate([_NONE, *(part.queries for part in parts)])
    every_pairs = FollowPairs(tuple_ids, queries, *at)
    if view.spec.table is not None:
        changes = [part.changes for part in parts if part.changes is not None]
        every_pairs = every_pairs._replace(changes=np.concatenate([_NONE, *changes]))
    return fitting_page(snapshot, view, every_pairs, follower.left_out, most_bytes, budget)


def _standing(snapshot: Snapshot, pairs: FollowPairs) -> FollowPairs:
    """The pairs without queries that have left."""
    ids = np.unique(pairs.queries)
    gone = snapshot.queries.find(ids).missing if len(ids) else _NONE
    if not len(gone):
        return pairs
    return pairs.of(~np.isin(pairs.queries, gone))


def _pairs(
    snapshot: Snapshot, view: StreamView, follower: Follower, place: FollowPlace, high: int, budget: ReadBudget
) -> FollowPairs:
    """The pairs of the next tuples. If they take too much of the budget, fewer tuples."""
    low = place.next_id
    if follower.few and not follower.catalog.count:
        return FollowPairs(_NONE, _NONE, high)
    while True:
        try:
            pairs = _pairs_of(snapshot, view, place, high, follower.catalog, budget, few=follower.few)
            if not follower.idle.count:
                return pairs
            more = _pairs_of(snapshot, view, place, pairs.end_id, follower.idle, budget, few=True)
            return pairs_of_both(pairs, more)
        except ResourceExhausted as problem:
            if high - low <= 1 or problem.reason != "ARCHIVE_BUDGET":
                raise
            high = low + max((high - low) // 16, 1)


def _pairs_of(
    snapshot: Snapshot,
    view: StreamView,
    place: FollowPlace,
    high: int,
    catalog: ClauseQueries,
    budget: ReadBudget,
    *,
    few: bool,
) -> FollowPairs:
    """The pairs of the next tuples and the queries of a catalog. `few`: only its clauses are read."""
    low, after = place
    if view.spec.table is not None:
        return _standing(snapshot, changed_pairs(snapshot, view, low, high, after, catalog, budget, few=few))
    if not few:
        return every_pair(snapshot, view, low, high, after, catalog, budget)
    return _standing(snapshot, some_pairs(snapshot, view, low, high, after, catalog, budget))


def first_pairs(pairs: FollowPairs, limit: int) -> FollowPairs:
    """The first `most` pairs. The last tuple may have only some of its queries."""
    if len(pairs.tuple_ids) <= limit:
        return pairs
    tuple_id, query = int(pairs.tuple_ids[limit - 1]), int(pairs.queries[limit - 1])
    first = pairs.of(slice(limit))
    if pairs.tuple_ids[limit] != tuple_id:
        return first._replace(end_id=tuple_id + 1, after=-1)
    return first._replace(end_id=tuple_id, after=query)


def fitting_page(
    snapshot: Snapshot,
    view: StreamView,
    pairs: FollowPairs,
    left_out: int,
    most_bytes: int,
    budget: ReadBudget,
) -> FollowPage:
    """The page of the first pairs that fit into `most_bytes` bytes."""
    tuple_ids, queries, place = pairs.tuple_ids, pairs.queries, FollowPlace(pairs.end_id, pairs.after)
    if not len(tuple_ids):
        none = gathered_rows(snapshot, view, tuple_ids, most_bytes, budget)
        return FollowPage(tuple_ids, queries, none, _NO_TAGS, place, view.next_id, left_out, pairs.changes)
    tuples, first_of_tuple = distinct_first(tuple_ids)
    rows = gathered_rows(snapshot, view, tuples, most_bytes, budget)
    ids, first_of_query = distinct_first(queries)
    tags = tags_of(snapshot, ids)
    sizes: Array = np.full(len(tuple_ids), PAIR_BYTES, np.int64)
    np.add.at(sizes, first_of_query, row_bytes(tags))
    np.add.at(sizes, first_of_tuple[: rows.num_rows], row_bytes(rows))
    fit = max(int(np.searchsorted(np.cumsum(sizes), most_bytes, "right")), 1)
    if rows.num_rows < len(tuples):
        fit = min(fit, int(first_of_tuple[rows.num_rows]))
    if fit < len(tuple_ids):
        pairs = first_pairs(pairs, fit)
        tuple_ids, queries, place = pairs.tuple_ids, pairs.queries, FollowPlace(pairs.end_id, pairs.after)
        rows = rows.slice(0, int(np.searchsorted(tuples, tuple_ids[-1], "right")))
        tags = tags.take(pa.array(np.flatnonzero(first_of_query < fit)))
    return FollowPage(tuple_ids, queries, rows, tags, place, view.next_id, left_out, pairs.changes)


def gathered_rows(
    snapshot: Snapshot, view: StreamView, tuple_ids: Array, most_bytes: int, budget: ReadBudget
) -> pa.RecordBatch:
    """The first of some tuples (int64[k], ascending): at least one, and up to the first that passes `most_bytes`.

    The tuples of a table have `_deleted` before the columns.
    """
    attributes = [pair for pair in enumerate(view.spec.schema.attributes) if pair[1] != FIRST_VERSION]
    time = AttributeRef(TIMESTAMP, pseudo_index(view.spec, TIME_INDEX), TIME_COLUMN)
    outputs = [AttributeRef(BIGINT, ID_INDEX, ID_COLUMN), time]
    outputs += [AttributeRef(attribute.type, place, attribute.name) for place, attribute in attributes]
    types = [arrow_type(output.type) if output.type.kind is not Kind.TEXT else pa.string() for output in outputs]
    schema = pa.schema(list(zip([output.name for output in outputs], types, strict=True)))
    batches, size = list[pa.RecordBatch](), 0
    chunks = [entry.data for entry in view.chunks]
    for start in range(0, len(tuple_ids), _GATHERED):
        ids = tuple_ids[start : start + _GATHERED]
        for columns in by_ids(list(outputs), chunks, ids, None, snapshot.config.texts, budget):
            arrays = [column.to_arrow().cast(kind) for column, kind in zip(columns, types, strict=True)]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
            size += batches[-1].nbytes
            if size > most_bytes:
                break
        if size > most_bytes:
            break
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def row_bytes(batch: pa.RecordBatch) -> Array:
    """Approximate bytes of each row, int64[n]."""
    sizes: Array = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if pa.types.is_string(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False) + 5
        elif pa.types.is_map(column.type):
            texts = [pc.fill_null(pc.binary_length(part), 0) for part in (column.keys, column.items)]
            ends = np.cumsum(np.concatenate([[0], *[np.sum([text.to_numpy() for text in texts], axis=0) + 10]]))
            offsets = column.offsets.to_numpy()
            sizes += ends[offsets[1:]] - ends[offsets[:-1]] + 4
        else:
            sizes += max(column.type.bit_width // 8, 1) + 1
    return sizes


def tags_of(snapshot: Snapshot, query_ids: Array) -> pa.RecordBatch:
    """The keys and labels of queries, int64[k] ascending."""
    names = _label_names(snapshot, query_ids)
    keys, *labels = tag_columns(snapshot.queries, query_ids, [KEY, *names])
    count, width = len(query_ids), len(names)
    valid = np.array([column.is_valid().to_numpy(zero_copy_only=False) for column in labels], np.bool_)
    rows, which = np.nonzero(valid.reshape(width, count).T)
    values = pa.concat_arrays([pa.nulls(0, pa.string()), *labels]).take(pa.array(which * count + rows))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32)
    texts = pa.array(names, pa.string()).take(pa.array(which))
    of_queries = pa.MapArray.from_arrays(pa.array(offsets), texts, values)
    return pa.RecordBatch.from_arrays([pa.array(query_ids), keys, of_queries], schema=_TAGS)


def _label_names(snapshot: Snapshot, query_ids: Array) -> list[str]:
    """The names of the labels that some queries may have, ascending."""
    every_pairs = snapshot.queries.find(query_ids)
    names = {name for block, _ in every_pairs.blocks if block.tags is not None for name in block.tags.names}
    names.update(name for record in every_pairs.records.values() for name, _ in record.tag.labels)
    return sorted(names)
