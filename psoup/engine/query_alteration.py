"""Changes of how queries are kept: the records get another keeping, and a query whose place changes another clause.

    place      ordinary   the clause is in the index, and shared        PARTIAL and COMPLETE
               idle       a clause of the query's own, in no index, or a guest's place       NONE
               inactive   the same, and not told of new tuples          inactive
    ordinary -> idle      the query leaves its clause; a clause goes with its last member
    idle -> ordinary      as at a registration: the clause has a new SQC ID, or is shared
    settle                an idle query is a guest in a clause of the index, while another query keeps that clause there

The sides of a join move with it. Queries of a block are handled as columns: Python takes a few steps for each block,
and one for each other query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.engine.clause_catalog import ClauseCatalog, Streams
from psoup.engine.removal_columns import LeavingQueries, sides_in
from psoup.events.events import QueriesAltered
from psoup.plan.amounts import Keeping, KeepingChange, idle_codes, inactive_codes, side_codes
from psoup.plan.sides import FIRST_SIDE
from psoup.published.paged_map import Editor, PagedRecords
from psoup.published.record_block import picked
from psoup.published.records import QueryBlock, QueryRecord
from psoup.values.columns import Array

_ORDINARY, _IDLE, _INACTIVE = range(3)
_NONE: Array = np.zeros(0, np.int64)


class _BlockPart(NamedTuple):
    """Some queries of a block, and the codes of their keeping after the change. `moves`: those whose clause changes."""

    block: QueryBlock
    places: Array
    codes: Array
    moves: Array


class _SinglePart(NamedTuple):
    """A query outside blocks, and its keeping after the change. `moves`: whether its clause changes."""

    record: QueryRecord
    keeping: Keeping
    moves: bool


class _Parts(NamedTuple):
    """The queries, or the sides of queries, that an event changes."""

    blocks: list[_BlockPart]
    single: list[_SinglePart]

    def moving(self) -> PagedRecords:
        """The queries that leave their clauses, in the form of `LeavingQueries`."""
        records = {part.record.query_id: part.record for part in self.single if part.moves}
        return PagedRecords(records, [(p.block, p.places[p.moves]) for p in self.blocks if p.moves.any()], _NONE)


class QueryAlteration:
    """A change of the queries and clauses of a registry. Only the engine's writer uses it."""

    def __init__(self, queries: Editor[QueryRecord], clauses: ClauseCatalog, streams: Streams) -> None:
        self._queries = queries
        self._clauses = clauses
        self._streams = streams

    def apply(self, event: QueriesAltered) -> set[int]:
        """Change the queries of an event that are registered. Returns the IDs of the streams with new clauses. O(k log
        n), and O(n) for each block of n queries."""
        records = self._queries.find(event.query_ids)
        sides = self._queries.find(sides_in(records))
        queries, of_sides = self._parts(records, event.change), self._sides(sides, records, event.change)
        self._clauses.leave(LeavingQueries(queries.moving(), of_sides.moving()), self._streams)
        return {stream_id for parts in (queries, of_sides) for stream_id in self._enter(parts)}

    def settle(self) -> None:
        """Let idle queries enter the catalog anew whose clause has joined the index, or has only guests left.

        O(1) if there are none.
        """
        ids = self._clauses.unsettled(self._is_idle)
        if not len(ids):
            return
        records = self._queries.find(ids)
        every = [(block, places, np.ones(len(places), np.bool_)) for block, places in records.blocks]
        blocks = [_BlockPart(block, places, block.codes_at(places), moves) for block, places, moves in every]
        parts = _Parts(blocks, [_SinglePart(record, record.keeping, True) for record in records.records.values()])
        self._clauses.leave(LeavingQueries(parts.moving(), PagedRecords({}, [], _NONE)), self._streams)
        self._enter(parts)

    def _is_idle(self, query_id: int) -> bool:
        record = self._queries.get(query_id)
        return record is not None and record.keeping.idle

    def _parts(self, records: PagedRecords, change: KeepingChange) -> _Parts:
        """The queries with their codes after the change."""
        blocks, single = list[_BlockPart](), list[_SinglePart]()
        for block, places in records.blocks:
            before = block.codes_at(places)
            blocks += _block_part(block, places, before, change.of(before))
        for record in records.records.values():
            single += _single_part(record, _changed(record.keeping, change))
        return _Parts(blocks, single)

    def _sides(self, sides: PagedRecords, records: PagedRecords, change: KeepingChange) -> _Parts:
        """The sides of joins, with their codes after the change of their joins."""
        ids, codes = _codes_after(records, change)
        blocks, single = list[_BlockPart](), list[_SinglePart]()
        for block, places in sides.blocks:
            after = codes[np.searchsorted(ids, picked(block.ids, places) % FIRST_SIDE)]
            blocks += _block_part(block, places, block.codes_at(places), side_codes(after))
        for record in sides.records.values():
            code = codes[np.searchsorted(ids, record.query_id % FIRST_SIDE)]
            single += _single_part(record, Keeping.of(int(code)).of_side)
        return _Parts(blocks, single)

    def _enter(self, parts: _Parts) -> set[int]:
        """Give the moving queries their new clauses, and store all changed records. Returns the IDs of streams with
        clauses that join an index."""
        entered = set[int]()
        for part in parts.blocks:
            sqc_ids = self._clauses_of_block(part) if part.moves.any() else None
            if sqc_ids is not None and (part.moves & (_place_of(part.codes) == _ORDINARY)).any():
                entered.add(part.block.stream_id)
            self._queries.replace_block(part.block, part.block.altered(part.places, part.codes, sqc_ids))
        for single in parts.single:
            record, sqc_id = single.record, single.record.sqc_id
            if single.moves:
                sqc_id = self._clause_of(record, single.keeping)
                entered.update(() if single.keeping.idle else (record.stream_id,))
            self._queries.set(record.query_id, record.altered(single.keeping, sqc_id))
        return entered

    def _clauses_of_block(self, part: _BlockPart) -> Array:
        """The SQC ID of each query of a part after the change, int64[k]."""
        block, state = part.block, self._streams[part.block.stream_id]
        sqc_ids, after = picked(block.sqc_ids, part.places).astype(np.int64), _place_of(part.codes)
        for place in (_ORDINARY, _IDLE, _INACTIVE):
            here = np.flatnonzero(part.moves & (after == place))
            if not len(here):
                continue
            rows = part.places[here]
            ids = picked(block.ids, rows)
            if place == _ORDINARY:
                sqc_ids[here] = self._clauses.add_columns(state, ids, block.queries, rows)
            else:
                active = place == _IDLE
                sqc_ids[here] = self._clauses.add_idle_columns(state, ids, block.queries, rows, active=active)
        return sqc_ids

    def _clause_of(self, record: QueryRecord, keeping: Keeping) -> int:
        """The SQC ID of a single query after the change."""
        ids, queries, state = np.array([record.query_id], np.int64), [record.query], self._streams[record.stream_id]
        if keeping.idle:
            return int(self._clauses.add_idle(state, ids, queries, active=keeping.active)[0])
        return int(self._clauses.add(state, ids, queries)[0])


def _place_of(codes: Array) -> Array:
    """The place of the clauses of queries with these codes (uint8[n]): int64[n]."""
    return np.where(inactive_codes(codes), _INACTIVE, np.where(idle_codes(codes), _IDLE, _ORDINARY))


def _changed(keeping: Keeping, change: KeepingChange) -> Keeping:
    return Keeping.of(int(change.of(np.array([keeping.code], np.uint8))[0]))


def _codes_after(records: PagedRecords, change: KeepingChange) -> tuple[Array, Array]:
    """The IDs of queries, int64[n] ascending, and the codes of their keeping after a change, uint8[n]."""
    singles = records.records.values()
    ids = [np.fromiter((record.query_id for record in singles), np.int64)]
    codes = [np.fromiter((record.keeping.code for record in singles), np.uint8)]
    for block, places in records.blocks:
        ids.append(picked(block.ids, places))
        codes.append(block.codes_at(places))
    every, before = np.concatenate(ids), np.concatenate(codes)
    order = np.argsort(every)
    return every[order], change.of(before[order])


def _block_part(block: QueryBlock, places: Array, before: Array, after: Array) -> list[_BlockPart]:
    """The queries of a block that change: a list of one part, or none."""
    differ = np.flatnonzero(before != after)
    if not len(differ):
        return []
    before, after = before[differ], after[differ]
    moves = np.zeros(len(differ), np.bool_) if block.queries.sides else _place_of(before) != _place_of(after)
    return [_BlockPart(block, places[differ], after, moves)]


def _single_part(record: QueryRecord, after: Keeping) -> list[_SinglePart]:
    """The change of a query outside blocks: a list of one part, or none."""
    if record.keeping == after:
        return []
    codes = np.array([record.keeping.code, after.code], np.uint8)
    before_place, place = _place_of(codes).tolist()
    return [_SinglePart(record, after, bool(record.sqc_id) and before_place != place)]
