"""The matches of many clauses of one stream in one range of tuples. Each chunk is read once for all clauses.

    chunk   evaluated            stored pairs, all clauses at once         `psoup.results.sets`
            not evaluated        an index of the clauses that lack the chunk, matched as on arrival
            by a job, on disk;   one clause at a time, as in an invocation `psoup.execution.select.clause_matches`
            few clauses lack it

A clause lacks a chunk if it was not evaluated over it. The matches equal those that `matches_in` finds for each clause.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from psoup.clauses.query_stem import QuerySteM
from psoup.clauses.sides import Subset
from psoup.data.archived_chunk import ArchivedChunk, Chunk, LazyColumns
from psoup.data.data_stem import Piece
from psoup.data.versions import open_offsets
from psoup.execution.select.archive_work import ArchiveWork
from psoup.execution.select.clause_matches import chunk_matches, search_of
from psoup.execution.select.column_offers import is_wanted, offer_pairs
from psoup.execution.select.match_forms import ChunkMatches
from psoup.expressions.error_guard import every_row
from psoup.matching.new_tuples import probe
from psoup.matching.old_tuples import COVER_TOGETHER
from psoup.model import TableSpec
from psoup.plan.standing_query import ClauseColumns
from psoup.published.members import Members, with_sides
from psoup.published.record_block import picked
from psoup.published.records import ClauseBlock, ClauseRecord
from psoup.published.snapshot import ChunkEntry, Snapshot, StreamView
from psoup.results.chunk_results import ALL, ChunkResults
from psoup.results.failures import NO_FAILURES, is_lone
from psoup.results.gaps import WHOLE
from psoup.results.open import OpenResults
from psoup.results.sets import (
    Pairs,
    TooManyPairs,
    WantedClauses,
    all_evaluated,
    evaluated,
    joined,
    kept_counts,
    kept_pairs,
)
from psoup.values.columns import Array, Column
from psoup.work.read_budget import ReadBudget

_NOTHING: Array = np.zeros(0, np.int64)
_FIRST_ID = attrgetter("data.first_id")
_PAIR_BYTES = 16
"""Bytes of a pair of a clause and a match."""
_RESULT_BYTES = 1 << 24
"""The bytes of results that an evaluation may always take, even if few pairs are allowed."""
_NO_RANGES: Array = np.zeros((0, 2), np.int64)

Part = tuple[ChunkEntry, int, int]
"""A chunk, and the range [start, stop) of rows in it."""

Progress = Callable[[int], None] | None
"""The reader passes it the number of tuples on disk that it has evaluated. It raises if the read takes too long."""


@dataclass(slots=True)
class ManyMatches:
    """The matches of clauses in one chunk. `errors`: the number of errors of each clause, int64[k]. None: no errors."""

    entry: ChunkEntry
    pairs: Pairs
    errors: Array | None = None


@dataclass(frozen=True, slots=True)
class _Alike:
    """Clauses that read the same attributes in the same way.

    `places`: their places among the wanted clauses. `lone`: whether results count errors by attribute, not by clause.
    """

    places: Array
    attributes: tuple[int, ...]
    lone: bool


@dataclass(slots=True)
class Together:
    """Clauses of one stream whose matches are found in one pass. `ids`: SQC IDs, int64[k], ascending and distinct.

    Each clause must have a condition. `raw`: in a table, find also entries that do not hold, and deletions.
    """

    snapshot: Snapshot
    view: StreamView
    ids: Array
    budget: ReadBudget
    _clauses: list[tuple[Any, Array, Array]] | None = None
    """The records and blocks of the clauses. None before the first use."""
    _index: tuple[bytes, ClauseIndex] | None = field(default=None)
    """An index of the clauses that lacked the last chunk, with their places as its key."""
    wanted: WantedClauses = field(init=False)
    raw: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.wanted = WantedClauses(self.ids)

    def found(self, low: int, high: int, limit: int) -> Iterator[ManyMatches]:
        """Find the matches with IDs in [low, high), oldest chunk first. Chunks without matches are left out.

        Raises TooManyPairs if a chunk has more than `limit`, ResourceExhausted for too many tuples on disk.
        """
        parts = list(parts_of(self.view, low, high))
        progress = self.begin(parts)
        for part in parts:
            self.budget.check()
            matches = self.in_chunk(*part, limit, progress)
            if len(matches.pairs.which) or matches.errors is not None:
                yield matches

    def counted(self, part: Part, limit: int, progress: Progress) -> tuple[Array, Array | None]:
        """Count the matches and the errors of each clause in a part of a chunk: int64[k] each. Raises as `in_chunk`.

        The errors are None if there are none.
        """
        entry, start, stop = part
        if all_evaluated(entry.results, self.ids) and self.view.spec.table is None:
            counts = kept_counts(entry.results, self.wanted, start, _end(entry, stop), limit)
            return counts, self._errors_kept(entry.results)
        matches = self.in_chunk(entry, start, stop, limit, progress)
        return np.bincount(matches.pairs.which, minlength=len(self.ids)), matches.errors

    def in_chunk(self, entry: ChunkEntry, start: int, stop: int, limit: int, progress: Progress) -> ManyMatches:
        """Find the matches in a part of a chunk. `progress`: the result of `begin`. Raises TooManyPairs."""
        matches = self._in_chunk(entry, start, stop, limit, progress)
        table = self.view.spec.table
        return matches if table is None or self.raw else self._holding(matches, table)

    def _holding(self, matches: ManyMatches, table: TableSpec) -> ManyMatches:
        """The matches in a chunk of a table without the versions that do not hold at the view's time. O(rows)."""
        data, pairs, view = matches.entry.data, matches.pairs, self.view
        holds: Array = np.zeros(len(data), np.bool_)
        offsets = np.unique(pairs.offsets)
        holds[open_offsets(data, table, offsets, view.at, view.next_id, view.lost_before)] = True
        in_table = holds[pairs.offsets]
        return ManyMatches(matches.entry, Pairs(pairs.which[in_table], pairs.offsets[in_table]), matches.errors)

    def _in_chunk(self, entry: ChunkEntry, start: int, stop: int, limit: int, progress: Progress) -> ManyMatches:
        """Find the matches in a part of a chunk, as `in_chunk`, also of versions that do not hold."""
        results = entry.results
        errors = self._errors_kept(results)
        if all_evaluated(results, self.ids):
            return ManyMatches(entry, kept_pairs(results, self.wanted, start, _end(entry, stop), limit), errors)
        met = evaluated(results, self.ids)
        if errors is not None:
            errors[~met] = 0
        met_places, lacking = np.flatnonzero(met), np.flatnonzero(~met)
        pairs = kept_pairs(results, WantedClauses(self.ids[met_places]), start, stop, limit)
        stored_pairs = Pairs(met_places[pairs.which], pairs.offsets)
        alone = self._alone(entry, lacking)
        errors = np.zeros(len(self.ids), np.int64) if errors is None else errors
        parts, room = [stored_pairs], limit - len(stored_pairs.which)
        for single in self._one_by_one(entry, lacking[alone], start, stop, errors):
            room -= len(single.which)
            if room < 0:
                raise TooManyPairs
            parts.append(single)
        if not alone.all():
            parts.append(self._evaluated(entry, lacking[~alone], start, stop, errors, room))
            if progress is not None and not entry.data.in_memory:
                progress(stop - start)
        if not start and stop == len(entry.data) and is_wanted(self.view, entry):
            offer_pairs(self.view, entry, self.ids, lacking[errors[lacking] == 0], joined(parts[1:]))
        return ManyMatches(entry, joined(parts), errors if errors.any() else None)

    # Not evaluated yet ---------------------------------------------------------------------------------------

    def _alone(self, entry: ChunkEntry, lacking: Array) -> Array:
        """For each clause at the places `lacking`: whether `_one_by_one` evaluates it, not the index. bool[k]."""
        if len(lacking) < COVER_TOGETHER:
            return np.ones(len(lacking), np.bool_)
        apart = np.concatenate([entry.results.gaps.ids, self.view.outside.ids])
        alone: Array = np.isin(self.ids[lacking], apart)
        ranges = entry.data.source.evaluated() if isinstance(entry.data, ArchivedChunk) else _NO_RANGES
        if len(ranges):  # a Spark job has stored the matches of some queries
            for source, at, among in self._of(lacking):
                members = source.members if isinstance(source, ClauseRecord) else picked(source.members, at)
                alone[among] |= _within(members, ranges)
        return alone

    def _one_by_one(self, entry: ChunkEntry, places: Array, start: int, stop: int, errors: Array) -> Iterator[Pairs]:
        """Evaluate the clauses at `places` one by one. Adds their errors to `errors`."""
        for place in places.tolist():
            clause = self.snapshot.clause(int(self.ids[place]))
            search = search_of(self.view, clause, self.snapshot.config.texts)
            match: ChunkMatches = chunk_matches(entry, clause, start, stop, self.budget, search)
            errors[place] += match.errors
            yield Pairs(np.full(match.count, place), match.offsets)

    def _evaluated(self, entry: ChunkEntry, places: Array, start: int, stop: int, errors: Array, limit: int) -> Pairs:
        """Evaluate the clauses at `places` by one predicate index of them. Adds their errors to `errors`.

        Raises TooManyPairs.
        """
        name = places.tobytes()
        if self._index is None or self._index[0] != name:
            self._index = name, ClauseIndex(self.snapshot, self.view, self._of(places))
        index, data, config = self._index[1], entry.data, self.snapshot.config
        slots: Array = np.arange(len(places), dtype=np.int64)
        results = OpenResults(config, len(places))
        for first in range(start, stop, config.piece_rows):
            last = min(first + config.piece_rows, stop)
            self.budget.examine(last - first)
            piece = Piece(_columns(data, first, last), data.ids_of(first, last), data.times[first:last], first)
            probe(index.subset, piece, results, self.snapshot.run, every_row(self.budget))
            if results.nbytes > max(_PAIR_BYTES * limit, _RESULT_BYTES):
                raise TooManyPairs
        errors[places] += index.errors(results)
        view = results.view(stop, slots)
        pairs = kept_pairs(ChunkResults(view, covered_before=ALL), WantedClauses(slots), start, stop, limit)
        return Pairs(places[pairs.which], pairs.offsets)

    def begin(self, parts: Sequence[Part]) -> Progress:
        """Refuse the read if it needs too much work on disk, else measure it. Raises as `ArchiveWork.refuse`."""
        on_disk = [
            stop - start
            for entry, start, stop in parts
            if not entry.data.in_memory and not all_evaluated(entry.results, self.ids)
        ]
        if not on_disk:
            return None
        clause = self.snapshot.clause(int(self.ids[0]))
        kind = search_of(self.view, clause, self.snapshot.config.texts).kind
        work = ArchiveWork(kind, sum(on_disk), len(on_disk))
        work.refuse(self.snapshot.config.archive_rows, self.budget)
        return work.begin(self.budget)

    # Records of the clauses ---------------------------------------------------------------------------------

    def _all(self) -> list[tuple[Any, Array, Array]]:
        """The clauses, as records, or as blocks with positions. Each comes with the places of its clauses in `ids`."""
        if self._clauses is None:
            self._clauses = clauses_with_places(self.snapshot, self.ids)
        return self._clauses

    def _of(self, wanted: Array) -> list[tuple[Any, Array, Array]]:
        """As `_all`, for the clauses at the places `wanted`, ascending. The returned places are those in `wanted`."""
        some = []
        for source, at, places in self._all():
            among = np.minimum(np.searchsorted(wanted, places), len(wanted) - 1)
            keep = wanted[among] == places
            if keep.any():
                some.append((source, at[keep] if len(at) else at, among[keep]))
        return some

    def _errors_kept(self, results: ChunkResults) -> Array | None:
        """The stored errors of the clauses in a chunk, wrong for clauses that lack the chunk. None: no errors."""
        if not results.errors and results.failures is NO_FAILURES:
            return None
        errors: Array = np.zeros(len(self.ids), np.int64)
        for source, at, places in self._all():
            lone = _are_lone(source, at)
            if lone:
                errors[places] = sum(results.errors.get(attribute, 0) for attribute in source.attributes)
                continue
            names, counts = results.failures.names, results.failures.counts
            if len(names):
                where = np.minimum(np.searchsorted(names, self.ids[places]), len(names) - 1)
                errors[places] = np.where(names[where] == self.ids[places], counts[where], 0)
        return errors if errors.any() else None


def parts_of(view: StreamView, low: int, high: int) -> Iterator[Part]:
    """Yield the chunks with tuple IDs in [low, high), and the range of rows in each. O(parts)."""
    if low >= high:
        return
    chunks = view.chunks
    at = len(chunks) - 1
    if chunks[at].data.first_id > low:
        at = max(bisect_right(chunks, low, 0, at, key=_FIRST_ID) - 1, 0)
    while at < len(chunks):
        entry = chunks[at]
        data = entry.data
        if data.first_id >= high:
            break
        start = data.places.row_from(low) if low > data.first_id else 0
        stop = data.places.row_from(high) if high < data.end_id else len(data)
        if start < stop:
            yield entry, start, stop
        at += 1


def _end(entry: ChunkEntry, stop: int) -> int:
    """Return WHOLE if `stop` is the end of a sealed chunk, else `stop`."""
    return WHOLE if stop == len(entry.data) and entry.results.open is None else stop


def _within(members: Members | Array, ranges: Array) -> Array | bool:
    """Whether query IDs are in one of the `ranges`, int64[r, 2].

    For an array of IDs the result has a flag for each. For the members of one clause it says whether any is.
    """
    if isinstance(members, np.ndarray):
        inside: Array = np.zeros(len(members), np.bool_)
        for first, end in ranges.tolist():
            inside |= (members >= first) & (members < end)
        return inside
    return any(next(with_sides(members, first), end) < end for first, end in ranges.tolist())


def _columns(data: Chunk, start: int, stop: int) -> Sequence[Column]:
    """The columns of the rows [start, stop). A column on disk is read at first use."""
    if isinstance(data, ArchivedChunk):
        return LazyColumns(data, start, stop)
    return tuple(column.slice(start, stop) for column in data.columns)


def _are_lone(source: ClauseRecord | ClauseBlock, at: Array) -> bool:
    """Whether a clause, or each clause of a block, is one condition on one expression (`psoup.results.failures`)."""
    if isinstance(source, ClauseRecord):
        return is_lone(source.factors)
    return _one_condition(source.queries.take(picked(source.rows, at[:1])).clauses())


def _one_condition(columns: ClauseColumns) -> bool:
    return len(columns.terms) + len(columns.fixed) == 1 and all(len(factor.terms) == 1 for factor in columns.fixed)


def clauses_with_places(snapshot: Snapshot, ids: Array) -> list[tuple[Any, Array, Array]]:
    """The clauses `ids` (SQC IDs, int64[k], ascending), as records, or as blocks with positions.

    Each comes with the places of its clauses in `ids`. O(k log n), and a step of Python for each clause outside blocks.
    """
    records = snapshot.clauses.find(ids)
    clauses = [(block, at, np.searchsorted(ids, picked(block.ids, at))) for block, at in records.blocks]
    for sqc_id, record in records.records.items():
        clauses.append((record, _NOTHING, np.searchsorted(ids, [sqc_id])))
    return clauses


class ClauseIndex:
    """A predicate index of some clauses, in slots from 0 on."""

    def __init__(self, snapshot: Snapshot, view: StreamView, clauses: list[tuple[Any, Array, Array]]) -> None:
        index = QuerySteM(view.spec.schema, snapshot.config)
        self._alike, single, count = list[_Alike](), list[tuple[int, ClauseRecord]](), 0
        for source, at, slots in clauses:
            count += len(slots)
            if isinstance(source, ClauseRecord):
                single.append((int(slots[0]), source))
                continue
            rows = picked(source.rows, at)
            columns = source.queries.take(rows).clauses()
            possible = np.arange(len(slots)) if columns.never is None else np.flatnonzero(~columns.never)
            if len(possible):
                used = index.add_columns(slots[possible], columns.take(possible))
                self._alike.append(_Alike(slots[possible], used, _one_condition(columns)))
        used_by = index.add_many([(slot, record.factors) for slot, record in single])
        for (slot, record), used in zip(single, used_by, strict=True):
            self._alike.append(_Alike(np.array([slot]), used, is_lone(record.factors)))
        self._count = count
        self.subset: Subset = index.subset(np.arange(count, dtype=np.int64))

    def errors(self, results: OpenResults) -> Array:
        """The errors of each clause in the evaluated tuples: int64[k]."""
        errors: Array = np.zeros(self._count, np.int64)
        if not results.errors and results.failures is NO_FAILURES:
            return errors
        errors[results.failures.names] = results.failures.counts
        for alike in self._alike:
            if alike.lone:
                errors[alike.places] = sum(results.errors.get(attribute, 0) for attribute in alike.attributes)
        return errors
