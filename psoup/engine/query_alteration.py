"""Changes of how queries are kept: the records get another keeping, and a query whose place changes another clause.

    place      ordinary   the clause is in the index, and shared        PARTIAL and COMPLETE
               idle       a clause of the query's own, in no index, or a guest's place       NONE
               inactive   the same, and not told of new tuples          inactive
               parked     the same, and the query is not in memory      parked
    ordinary -> idle      the query leaves its clause; a clause goes with its last member
    idle -> ordinary      as at a registration: the clause has a new SQC ID, or is shared
    settle                an idle query is a guest in a clause of the index, while another query keeps that clause there

The sides of a join move with it. Queries of a block are handled as columns: Python takes a few steps for each block,
and one for each other query. A parked query that is to be bound again is read from the log. If the log has forgotten
it, a later event removes the query, and it stays parked until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from psoup.engine.clause_catalog import ClauseCatalog, Streams
from psoup.engine.removal_columns import LeavingQueries, sides_in
from psoup.errors import NotFound
from psoup.plan.amounts import Keeping, ahead_codes, idle_codes, inactive_codes, parked_codes, side_codes
from psoup.plan.sides import FIRST_SIDE
from psoup.plan.standing_query import StandingQuery
from psoup.published.eager_queries import EagerQueries
from psoup.published.paged_map import Editor, PagedRecords
from psoup.published.parked_queries import ParkedQueries, RecalledQueries, bound_rows, parked_alone, with_parked
from psoup.published.record_block import picked
from psoup.published.records import QueryBlock, QueryRecord
from psoup.sql.templates.block import ManyQueries
from psoup.values.columns import Array

CodesAfter = Callable[[Array, Array], Array]
"""The codes of queries after a change, by an event or by a choice for AUTO queries.

It takes the IDs of the queries, int64[k], and their codes before, uint8[k].
"""

_ORDINARY, _IDLE, _INACTIVE, _PARKED = range(4)
_NONE: Array = np.zeros(0, np.int64)


class _BlockPart(NamedTuple):
    """Some queries of a block, and the codes of their keeping after the change. `moves`: those whose clause changes.

    `queries`: all queries of the block after the change.
    """

    block: QueryBlock
    places: Array
    codes: Array
    moves: Array
    queries: ManyQueries | ParkedQueries


class _SinglePart(NamedTuple):
    """A query outside blocks, and its keeping after the change. `moves`: whether its clause changes.

    `queries`: the query after the change, which is parked or bound.
    """

    record: QueryRecord
    keeping: Keeping
    moves: bool
    queries: Sequence[StandingQuery]


class _Parts(NamedTuple):
    """The queries, or the sides of queries, that an event changes."""

    blocks: list[_BlockPart]
    single: list[_SinglePart]

    @property
    def size(self) -> int:
        """The number of queries."""
        return len(self.single) + sum(len(part.places) for part in self.blocks)

    def moving(self) -> PagedRecords:
        """The queries that leave their clauses, in the form of `LeavingQueries`."""
        records = {part.record.query_id: part.record for part in self.single if part.moves}
        return PagedRecords(records, [(p.block, p.places[p.moves]) for p in self.blocks if p.moves.any()], _NONE)


class QueryAlteration:
    """A change of the queries and clauses of a registry. Only the engine's writer uses it.

    `recalled`: reads parked queries. `eager`: gets the queries that are eager after the change.
    """

    def __init__(
        self,
        queries: Editor[QueryRecord],
        clauses: ClauseCatalog,
        streams: Streams,
        recalled: RecalledQueries,
        eager: EagerQueries,
    ) -> None:
        self._queries = queries
        self._clauses = clauses
        self._streams = streams
        self._recalled = recalled
        self._eager = eager
        self.changed = 0
        """The number of queries whose keeping has changed so far, without sides."""

    def apply(self, query_ids: Array, codes_after: CodesAfter) -> set[int]:
        """Change some queries (int64[k], ascending), as far as they are registered. Returns the IDs of the streams with
        new clauses. O(k log n), and O(n) for each block of n queries."""
        records = self._queries.find(query_ids)
        sides = self._queries.find(sides_in(records))
        ids, codes = _codes_after(records, codes_after)
        queries, of_sides = self._parts(records, codes_after), self._sides(sides, ids, codes)
        self.changed += queries.size
        self._set_eager(queries)
        self._clauses.leave(LeavingQueries(queries.moving(), of_sides.moving()), self._streams)
        return {stream_id for parts in (queries, of_sides) for stream_id in self._enter(parts)}

    def settle(self) -> bool:
        """Let idle queries enter the catalog anew whose clause has joined the index, or has only guests left.

        Returns whether there are any. O(1) if there are none.
        """
        ids = self._clauses.unsettled(self._is_idle)
        if not len(ids):
            return False
        records = self._queries.find(ids)
        every = [(block, places, np.ones(len(places), np.bool_)) for block, places in records.blocks]
        blocks = [_BlockPart(b, places, b.codes_at(places), moves, b.queries) for b, places, moves in every]
        single = [_SinglePart(record, record.keeping, True, (record.query,)) for record in records.records.values()]
        parts = _Parts(blocks, single)
        self._clauses.leave(LeavingQueries(parts.moving(), PagedRecords({}, [], _NONE)), self._streams)
        self._enter(parts)
        return True

    def _set_eager(self, queries: _Parts) -> None:
        """Set which of the changed queries are eager. A query that stays parked is not among them."""
        for part in queries.blocks:
            self._eager.set(picked(part.block.ids, part.places), ahead_codes(part.codes))
        flags = {single.record.query_id: single.keeping.ahead for single in queries.single}
        ids = np.array(sorted(flags), np.int64)
        self._eager.set(ids, np.array([flags[query_id] for query_id in ids.tolist()], np.bool_))

    def _is_idle(self, query_id: int) -> bool:
        record = self._queries.get(query_id)
        return record is not None and record.keeping.idle

    def _parts(self, records: PagedRecords, codes_after: CodesAfter) -> _Parts:
        """The queries with their codes after the change."""
        blocks, single = list[_BlockPart](), list[_SinglePart]()
        for block, places in records.blocks:
            after = codes_after(picked(block.ids, places), block.codes_at(places))
            blocks += self._block_part(block, places, after)
        singles = [*records.records.values()]
        ids = np.array([record.query_id for record in singles], np.int64)
        codes = codes_after(ids, np.array([record.keeping.code for record in singles], np.uint8))
        for record, code in zip(singles, codes.tolist(), strict=True):
            single += self._single_part(record, Keeping.of(code))
        return _Parts(blocks, single)

    def _sides(self, sides: PagedRecords, ids: Array, codes: Array) -> _Parts:
        """The sides of joins, with their codes after the change. `ids`, `codes`: of the joins, as in `_codes_after`."""
        blocks, single = list[_BlockPart](), list[_SinglePart]()
        for block, places in sides.blocks:
            after = codes[np.searchsorted(ids, picked(block.ids, places) % FIRST_SIDE)]
            blocks += self._block_part(block, places, side_codes(after))
        for record in sides.records.values():
            code = codes[np.searchsorted(ids, record.query_id % FIRST_SIDE)]
            single += self._single_part(record, Keeping.of(int(code)).of_side)
        return _Parts(blocks, single)

    def _block_part(self, block: QueryBlock, places: Array, after: Array) -> list[_BlockPart]:
        """The queries of a block that change: a list of one part, or none. Queries that the log has forgotten stay."""
        before = block.codes_at(places)
        try:
            queries = self._held(block, places, before, after)
        except NotFound:
            after = np.where(parked_codes(before) & ~parked_codes(after), before, after)
            queries = self._held(block, places, before, after)
        differ = np.flatnonzero(before != after)
        if not len(differ):
            return []
        before, after = before[differ], after[differ]
        moves = np.zeros(len(differ), np.bool_) if block.queries.sides else _place_of(before) != _place_of(after)
        return [_BlockPart(block, places[differ], after, moves, queries)]

    def _held(self, block: QueryBlock, places: Array, before: Array, after: Array) -> ManyQueries | ParkedQueries:
        """The queries of a block after a change, parked or bound. Raises NotFound if the log has forgotten them."""
        if not (parked_codes(before) != parked_codes(after)).any():
            return block.queries
        parked = parked_codes(block.codes_after(places, after)) | block.unneeded()
        return with_parked(block.queries, parked, self._recalled, block.sequence, block.ids)

    def _single_part(self, record: QueryRecord, after: Keeping) -> list[_SinglePart]:
        """The change of a query outside blocks: a list of one part, or none. A query that the log has forgotten
        stays."""
        before, queries = record.keeping, record.queries
        if before == after:
            return []
        if after.parked and not before.parked:
            width = len(record.side_ids)
            queries = parked_alone(self._recalled, record.sequence, record.query_id, width)
        elif before.parked and not after.parked:
            try:
                queries = (record.query,)
            except NotFound:
                return []
        moves = bool(record.sqc_id) and _place_of_one(before) != _place_of_one(after)
        return [_SinglePart(record, after, moves, queries)]

    def _enter(self, parts: _Parts) -> set[int]:
        """Give the moving queries their new clauses, and store all changed records. Returns the IDs of streams with
        clauses that join an index."""
        entered = set[int]()
        for part in parts.blocks:
            sqc_ids = self._clauses_of_block(part) if part.moves.any() else None
            if sqc_ids is not None and (part.moves & (_place_of(part.codes) == _ORDINARY)).any():
                entered.add(part.block.stream_id)
            self._queries.replace_block(part.block, part.block.altered(part.places, part.codes, sqc_ids, part.queries))
        for single in parts.single:
            record, sqc_id = single.record, single.record.sqc_id
            if single.queries is not record.queries:
                record = record.holding(single.queries)
            if single.moves:
                sqc_id = self._clause_of(record, single.keeping)
                entered.update(() if single.keeping.idle else (record.stream_id,))
            self._queries.set(record.query_id, record.altered(single.keeping, sqc_id))
        return entered

    def _clauses_of_block(self, part: _BlockPart) -> Array:
        """The SQC ID of each query of a part after the change, int64[k]."""
        block, state = part.block, self._streams[part.block.stream_id]
        sqc_ids, after = picked(block.sqc_ids, part.places).astype(np.int64), _place_of(part.codes)
        for place in (_ORDINARY, _IDLE, _INACTIVE, _PARKED):
            here = np.flatnonzero(part.moves & (after == place))
            if not len(here):
                continue
            rows = part.places[here]
            ids = picked(block.ids, rows)
            if place == _PARKED:
                assert isinstance(part.queries, ParkedQueries)
                sqc_ids[here] = self._clauses.add_idle_columns(state, ids, part.queries.parked(), rows, active=False)
                continue
            queries, rows = bound_rows(part.queries, rows)
            if place == _ORDINARY:
                sqc_ids[here] = self._clauses.add_columns(state, ids, queries, rows)
            else:
                active = place == _IDLE
                sqc_ids[here] = self._clauses.add_idle_columns(state, ids, queries, rows, active=active)
        return sqc_ids

    def _clause_of(self, record: QueryRecord, keeping: Keeping) -> int:
        """The SQC ID of a single query after the change."""
        ids, state = np.array([record.query_id], np.int64), self._streams[record.stream_id]
        if isinstance(record.queries, ParkedQueries):
            return self._clauses.add_parked(state, record.query_id, record.queries)
        queries = [record.query]
        if keeping.idle:
            return int(self._clauses.add_idle(state, ids, queries, active=keeping.active)[0])
        return int(self._clauses.add(state, ids, queries)[0])


def _place_of(codes: Array) -> Array:
    """The place of the clauses of queries with these codes (uint8[n]): int64[n]."""
    flags = parked_codes(codes), inactive_codes(codes), idle_codes(codes)
    return np.select(flags, (_PARKED, _INACTIVE, _IDLE), _ORDINARY)


def _place_of_one(keeping: Keeping) -> int:
    """The place of the clause of a query with a keeping; see `_place_of`."""
    if keeping.active:
        return _IDLE if keeping.idle else _ORDINARY
    return _PARKED if keeping.parked else _INACTIVE


def _codes_after(records: PagedRecords, codes_after: CodesAfter) -> tuple[Array, Array]:
    """The IDs of queries, int64[n] ascending, and the codes of their keeping after a change, uint8[n]."""
    singles = records.records.values()
    ids = [np.fromiter((record.query_id for record in singles), np.int64)]
    codes = [np.fromiter((record.keeping.code for record in singles), np.uint8)]
    for block, places in records.blocks:
        ids.append(picked(block.ids, places))
        codes.append(block.codes_at(places))
    every, before = np.concatenate(ids), np.concatenate(codes)
    order = np.argsort(every)
    return every[order], codes_after(every[order], before[order])
