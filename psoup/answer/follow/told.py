"""The queries that a follower is told, and the tuples for which each of them is told.

    a query is told for tuple t        t >= the next tuple ID at its registration, unless `old`
                                       BEGIN <= time of t <= END, if these are fixed times
    it is never told                   it is a join, an aggregate or DISTINCT, or it is inactive
    it is told only if it is named     its amount is NONE, but not by AUTO: each page evaluates it over its new tuples

Moving windows, ORDER BY and LIMIT are not applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from psoup.errors import InvalidInput, NotFound
from psoup.model import Anchor, WindowClause
from psoup.plan.amounts import inactive_codes, untold_codes
from psoup.plan.nodes import LastRows, Limit, Node, Project, Sort, Source
from psoup.plan.plan_facts import plan_fact
from psoup.plan.sides import FIRST_SIDE
from psoup.published.departures import NOT_KNOWN
from psoup.published.record_block import picked
from psoup.published.records import NO_CLAUSE, QueryBlock, QueryRecord
from psoup.published.selection import with_labels
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array

_LEAST, NEVER = -(2**63), 2**63 - 1
_NONE: Array = np.zeros(0, np.int64)
_SHOWN = 60
"""The most characters of a statement that an error shows."""


@dataclass(frozen=True, slots=True)
class FollowWanted:
    """The queries that a follower wants. Without labels, keys and IDs: all selections on the stream.

    Otherwise the queries with one of the `keys` or `query_ids`, and the queries with all `labels`. `old`: a query is
    also told for tuples that were released before its registration.
    """

    labels: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()
    query_ids: tuple[int, ...] = ()
    old: bool = False

    @property
    def every(self) -> bool:
        """Whether all selections on the stream are wanted."""
        return not (self.labels or self.keys or self.query_ids)


class ToldQueries(NamedTuple):
    """Queries of one stream, int64[k] each, ascending by ID.

    `first`: the first tuple for which each is told; NEVER for a query that is never told. `begin`, `end`: the times
    between which its tuples lie. `sqc_ids`: their clauses.
    """

    ids: Array
    sqc_ids: Array
    first: Array
    begin: Array
    end: Array

    def of(self, which: Array) -> ToldQueries:
        """The queries at some places, int64[k] ascending, or flags."""
        return ToldQueries(*(column[which] for column in self))

    def admits(self, places: Array, tuple_ids: Array, times: Array | None) -> Array:
        """Whether the query at each of `places` is told for a tuple: bool[n]. `times`: None if no end is fixed."""
        admitted: Array = tuple_ids >= self.first[places]
        if times is not None:
            admitted &= (times >= self.begin[places]) & (times <= self.end[places])
        return admitted

    @property
    def is_fixed(self) -> bool:
        """Whether a query has a fixed BEGIN or END."""
        return bool((self.begin != _LEAST).any() or (self.end != NEVER).any())


@plan_fact
def is_selection(plan: Node) -> bool:
    """Whether the rows of an answer are the matches of one stream, possibly sorted and cut by LIMIT."""
    node = plan.input if isinstance(plan, Limit) else plan
    node = node.input if isinstance(node, Sort) else node
    return isinstance(node, Project) and isinstance(node.input, Source | LastRows)


def _ends(window: WindowClause) -> tuple[int, int] | None:
    """The fixed times of a window. None for a window that is always empty."""
    if window.end.anchor is Anchor.START:
        return None
    begin = window.begin.at if window.begin.anchor is Anchor.ABSOLUTE else _LEAST
    return begin, window.end.at if window.end.anchor is Anchor.ABSOLUTE else NEVER


def told_queries(snapshot: Snapshot, view: StreamView, ids: Array, *, old: bool, named: Array = _NONE) -> ToldQueries:
    """The facts of some queries (int64[k], ascending) on a stream. A query that is gone, or on another stream, is never
    told. O(k), with a step of Python for each query outside blocks. Reads no parked query.

    `named`: the IDs of the queries that are also told if their amount is NONE, int64[m].
    """
    facts = ToldQueries(ids, *(np.full(len(ids), value, np.int64) for value in (NO_CLAUSE, NEVER, _LEAST, NEVER)))
    lookup = snapshot.queries.find(ids)
    left_out, is_named = np.zeros(len(ids), np.bool_), np.isin(ids, named)
    for block, at in lookup.blocks:
        assert isinstance(block, QueryBlock)
        sample = block.make(int(at[0]))
        if _is_here(snapshot, view, sample):
            places, codes = np.searchsorted(ids, picked(block.ids, at)), block.codes_at(at)
            left_out[places] = np.where(is_named[places], inactive_codes(codes), untold_codes(codes))
            active = np.flatnonzero(~inactive_codes(codes))
            if len(active):  # an inactive query may be parked, and its statement is on the disk
                sample = block.make(int(at[active[0]]))
                _note(facts, places[active], picked(block.sqc_ids, at[active]), sample)
    if lookup.records:
        places = np.searchsorted(ids, np.fromiter(lookup.records, np.int64, len(lookup.records))).tolist()
        for place, record in zip(places, lookup.records.values(), strict=True):
            if _is_here(snapshot, view, record):
                if record.keeping.active:
                    _note(facts, place, record.sqc_id, record)
                left_out[place] = not record.keeping.active if is_named[place] else record.keeping.untold
    facts.first[left_out], facts.end[left_out] = NEVER, _LEAST
    if old:
        facts.first[facts.first != NEVER] = _LEAST
    return facts


def _is_here(snapshot: Snapshot, view: StreamView, record: QueryRecord) -> bool:
    """Whether a query reads a stream."""
    if record.stream_id == view.stream_id:
        return True
    return record.sqc_id == NO_CLAUSE and view.stream_id in snapshot.streams_of(record)


def _note(facts: ToldQueries, places: Array | int, sqc_ids: Array | int, record: QueryRecord) -> None:
    """Write the facts of a query, or of the queries of its block, which share its plan and its window.

    A query that is not a selection gets the END of no tuple.
    """
    if (
        record.sqc_id == NO_CLAUSE
        or not is_selection(record.query.plan)
        or (ends := _ends(record.query.window)) is None
    ):
        facts.end[places] = _LEAST
        return
    facts.sqc_ids[places] = sqc_ids
    facts.first[places] = record.next_id
    facts.begin[places], facts.end[places] = ends


class WantedQueries(NamedTuple):
    """The queries that a follower is told. `left_out`: queries with its labels that are never told.

    `unkept`: the IDs of those with amount NONE that AUTO has not chosen, int64[k]. The follower has named them.
    """

    facts: ToldQueries
    left_out: int
    unkept: Array


def wanted_queries(snapshot: Snapshot, view: StreamView, wanted: FollowWanted) -> WantedQueries:
    """The queries with the wanted keys, IDs or labels, as they stand now. O(log n + k)."""
    labelled = with_labels(snapshot, view.tenant, wanted.labels) if wanted.labels else _NONE
    with_keys = [record for key in wanted.keys if (record := _with_key(snapshot, view.tenant, key)) is not None]
    given = [*wanted.query_ids, *(record.query_id for record in with_keys)]
    named = np.unique(np.array([query_id for query_id in given if 0 <= query_id < FIRST_SIDE], np.int64))
    ids = np.union1d(labelled, named)
    facts = told_queries(snapshot, view, ids, old=wanted.old, named=named)
    admitted, left_out = facts.first != NEVER, (facts.first == NEVER) & (facts.end == _LEAST)
    indexed = told_queries(snapshot, view, named, old=wanted.old)
    unkept = np.intersect1d(named[indexed.first == NEVER], ids[admitted])
    return WantedQueries(facts.of(admitted), len(np.intersect1d(ids[left_out], labelled)), unkept)


def _with_key(snapshot: Snapshot, tenant: str, key: str) -> QueryRecord | None:
    """The registered query with a key. Does not count as its use."""
    record = snapshot.queries.get(max(snapshot.tags.query_of(tenant, key), 0))
    return None if record is None or record.tenant != tenant or record.key != key else record


def check_named(snapshot: Snapshot, view: StreamView, wanted: FollowWanted, *, begins: bool) -> None:
    """Refuse named queries that cannot be followed: joins, aggregates, DISTINCT, and queries on other streams.

    `begins`: also raise NotFound for a query that is not registered, and InvalidInput for an inactive one. A follower
    that goes on ignores such queries. Reads no parked query.
    """
    for record in _named(snapshot, view, wanted, begins=begins):
        streams = snapshot.streams_of(record)
        if begins and not record.keeping.active:
            raise InvalidInput(
                f"{_inactive_name(record)} is inactive, and followers are not told of its matches; make it active first"
                " (alter with active=True, psoup alter --active)",
                reason="INACTIVE",
            )
        if record.keeping.parked:
            continue
        if streams == [view.stream_id] and record.sqc_id != NO_CLAUSE and is_selection(record.query.plan):
            continue
        if view.stream_id not in streams:
            problem = f"is on another stream than {view.spec.name!r}; follow it on its own stream"
            raise InvalidInput(f"query {_name(record)} {problem}", reason="OTHER_STREAM")
        raise InvalidInput(
            f"query {_name(record)} is not a selection: follow tells the tuples that match a WHERE clause, and a join,"
            " an aggregate, a window function or DISTINCT has rows of its own; watch it instead",
            reason="NOT_A_SELECTION",
        )


def _name(record: QueryRecord) -> str:
    """The name of a query in an error: its key, or the beginning of its statement."""
    return repr(record.key) if record.key else f"{' '.join(record.query.text.split())[:_SHOWN]!r}"


def _inactive_name(record: QueryRecord) -> str:
    """The name of an inactive query in an error. The statement of a parked one is on the disk, and is not read."""
    return "a parked query without a key" if record.keeping.parked and not record.key else f"query {_name(record)}"


def _named(snapshot: Snapshot, view: StreamView, wanted: FollowWanted, *, begins: bool) -> Iterable[QueryRecord]:
    """The named queries that are registered."""
    for query_id in wanted.query_ids:
        record = snapshot.queries.get(query_id) if 0 <= query_id < FIRST_SIDE else None
        if record is not None and record.tenant == view.tenant:
            yield record
        elif begins:
            raise snapshot.gone.get(view.tenant, NOT_KNOWN).error(query_id)
    for key in wanted.keys:
        record = _with_key(snapshot, view.tenant, key)
        if record is not None:
            yield record
        elif begins:
            raise NotFound(
                f"there is no query with key {key!r}; it was never registered, or it was unregistered",
                reason="UNKNOWN_KEY",
                key=key,
            )
