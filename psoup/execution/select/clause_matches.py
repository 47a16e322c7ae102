"""The matches of one clause in one range of tuples: stored ones where the clause is covered, else evaluated ones.

The same rule serves late registration, eviction, recovery and clauses outside of the index. So an answer is exact,
whatever is covered. If the evaluation of rows raises, it is repeated for each half, until each error has its row.
`psoup.answer.tuples.queries_of_tuple` finds the clauses that one tuple matched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice

import numpy as np

from psoup.config import CHUNK_ROWS, TextLimits
from psoup.data.archived_chunk import ArchivedChunk
from psoup.data.versions import open_offsets
from psoup.execution.select.archive_work import ArchiveWork, refuse_together
from psoup.execution.select.column_offers import offer
from psoup.execution.select.match_forms import ChunkMatches, KeptBits, Known
from psoup.expressions.tree import Expr
from psoup.matching.search import Search
from psoup.published.members import with_sides
from psoup.published.records import ClauseRecord
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.results.chunk_results import ChunkResults
from psoup.results.failures import NO_FAILURES, is_lone
from psoup.results.gaps import WHOLE
from psoup.values.columns import Array
from psoup.work.read_budget import NO_LIMIT, UNBOUNDED, ReadBudget
from psoup.work.runner import Runner, serial, threads_of

_SHARED_FROM = 8
"""The least number of chunks to search for which several threads are worth their start."""

_CHECKED = 16
"""The number of chunks between two checks of the budget. A chunk takes some microseconds."""

_EVERY: Array = np.arange(CHUNK_ROWS)
"""The offsets of all rows of a full chunk, int64, read-only. A new array for each chunk took 0.2 ms."""

_AHEAD = 32
"""The number of chunks that are prefetched from disk before their search."""


Side = tuple[StreamView, ClauseRecord, int, int]
"""A request for matches: a stream, a clause, and the range of tuple IDs [low, high)."""

_Part = tuple[ChunkEntry, int, int]
"""A chunk, and the range [start, stop) of rows in it."""

_Looked = tuple[list[_Part], list[Known | None], list[int]]


def matches_in(
    view: StreamView,
    clause: ClauseRecord,
    low: int,
    high: int,
    run: Runner = serial,
    archive_rows: int = NO_LIMIT,
    budget: ReadBudget = UNBOUNDED,
    texts: TextLimits = TextLimits(),
) -> list[ChunkMatches]:
    """Find the clause's matches with IDs in [low, high), chunk by chunk, oldest first. Empty chunks are left out.

    The threads of `run` search chunks that were not evaluated, each chunk on one thread. Raises ResourceExhausted,
    reason ARCHIVE_BUDGET, if the search would read more than `archive_rows` tuples on disk. It also raises it if the
    search would take longer than the budget allows.
    """
    if low >= high:
        return []
    parts, matches, unknown = _looked_up(view, clause, low, high, budget)
    if unknown:
        search = search_of(view, clause, texts)
        unknown = _by_key(search, parts, unknown, matches, budget)
    if unknown:
        work = _work(search, parts, unknown)
        work.refuse(archive_rows, budget)
        _search(search, parts, unknown, matches, run, budget, work)
        offer(view, clause, [(*parts[k], matches[k]) for k in unknown])
    converted = [match for match in matches if isinstance(match, ChunkMatches)]
    if view.spec.table is not None:
        converted = _holding(view, converted, high)
    return [match for match in converted if len(match.offsets) or match.errors]


def _holding(view: StreamView, matches: Sequence[Known | None], high: int) -> list[ChunkMatches]:
    """The matches of a table without the versions that do not hold at the view's time. O(matches).

    Entries with IDs from `high` on end no version, so an earlier `high` gives an earlier answer.
    """
    table = view.spec.table
    assert table is not None
    open_matches = list[ChunkMatches]()
    for match in matches:
        if match is not None:
            offsets = open_offsets(match.data, table, match.offsets, view.at, high, view.lost_before)
            covered = isinstance(match, KeptBits) or match.covered
            open_matches.append(ChunkMatches(match.entry, offsets, match.errors, covered))
    return open_matches


def matches_together(
    sides: Sequence[Side],
    run: Runner = serial,
    archive_rows: int = NO_LIMIT,
    budget: ReadBudget = UNBOUNDED,
    texts: TextLimits = TextLimits(),
) -> list[list[ChunkMatches]]:
    """Find the matches of several clauses, each in a range of its stream, as `matches_in` does for one.

    Raises ResourceExhausted, reason ARCHIVE_BUDGET, if the sum of the tuples to evaluate on disk is too large.
    """
    matches_of_sides = sides_of_join(sides, run, archive_rows, budget, texts, whole=True)
    return [[match for match in matches if isinstance(match, ChunkMatches)] for matches in matches_of_sides]


def sides_of_join(
    sides: Sequence[Side],
    run: Runner = serial,
    archive_rows: int = NO_LIMIT,
    budget: ReadBudget = UNBOUNDED,
    texts: TextLimits = TextLimits(),
    *,
    whole: bool = False,
) -> list[list[Known]]:
    """Find the matches of several clauses, as `matches_together`. `whole`: convert stored bitmaps to offsets."""
    looked = [_looked_up(*side, budget, whole=whole) for side in sides]
    searches = list[tuple[StreamView, ClauseRecord, Search, _Looked]]()
    for (view, clause, *_), (parts, matches, unknown) in zip(sides, looked, strict=True):
        if unknown:
            search = search_of(view, clause, texts)
            left = _by_key(search, parts, unknown, matches, budget)
            searches.append((view, clause, search, (parts, matches, left)))
    works = [(view.spec.name, _work(search, parts, unknown)) for view, _, search, (parts, _, unknown) in searches]
    refuse_together(works, archive_rows, budget)
    for (_, work), (view, clause, search, (parts, matches, unknown)) in zip(works, searches, strict=True):
        if unknown:
            _search(search, parts, unknown, matches, run, budget, work)
            offer(view, clause, [(*parts[k], matches[k]) for k in unknown])
    matches_of_sides: list[Sequence[Known | None]] = [
        matches if side[0].spec.table is None else _holding(side[0], matches, side[3])
        for side, (_, matches, _) in zip(sides, looked, strict=True)
    ]
    return [[m for m in matches if m is not None and (m.count or m.errors)] for matches in matches_of_sides]


def _looked_up(
    view: StreamView, clause: ClauseRecord, low: int, high: int, budget: ReadBudget, *, whole: bool = True
) -> _Looked:
    """Look up the stored matches with IDs in [low, high). `whole`: convert stored bitmaps to ChunkMatches.

    Returns the parts of chunks, the matches in each part, and the places of the parts that must be evaluated.
    """
    parts, matches, unknown = list[_Part](), list[Known | None](), list[int]()
    if low >= high:
        return parts, matches, unknown
    first = max(bisect_right(view.chunks, low, key=lambda entry: entry.data.first_id) - 1, 0)
    sqc_id, searched = clause.sqc_id, len(clause.factors) > 0
    for number, entry in enumerate(islice(view.chunks, first, None), 1):
        if not number % _CHECKED:
            budget.check()
        data, results = entry.data, entry.results
        if data.first_id >= high:
            break
        start = data.places.row_from(low) if low > data.first_id else 0
        stop = data.places.row_from(high) if high < data.end_id else len(data)
        if start >= stop:
            continue
        upto = results.covered_to(sqc_id) if searched else 0
        if searched and data.in_memory and not upto:
            unknown.append(len(parts))
            parts.append((entry, start, stop))
            matches.append(None)
            continue
        if stop <= upto and not results.errors and results.failures is NO_FAILURES:  # nearly always
            bitmap = None if whole or stop - start < len(data) else results.bitmap(sqc_id)
            parts.append((entry, start, stop))
            if bitmap is None:
                matches.append(ChunkMatches(entry, results.offsets(sqc_id, clause.slot, start, stop), 0, True))
            else:
                matches.append(KeptBits(entry, *bitmap))
            continue
        chunk_match = known_matches(entry, clause, start, stop)
        pieces = _split(entry, clause, start, stop) if chunk_match is None else [(entry, start, stop)]
        for piece in pieces:
            if len(pieces) > 1:
                chunk_match = known_matches(piece[0], clause, *piece[1:])
            if chunk_match is None:
                unknown.append(len(parts))
            parts.append(piece)
            matches.append(chunk_match)
    return parts, matches, unknown


def _by_key(
    search: Search, parts: list[_Part], unknown: list[int], matches: list[Known | None], budget: ReadBudget
) -> list[int]:
    """Fill in the unknown parts that key indexes can answer. Returns the places of the parts that stay unknown."""
    if not search.may_look_up([parts[k][0].data for k in unknown]):
        return unknown
    results, left = search.look_up([(parts[k][0].data, *parts[k][1:]) for k in unknown], budget)
    for number, result in results:
        k = unknown[number]
        matches[k] = ChunkMatches(parts[k][0], result.offsets, result.errors, False)
    return unknown if len(left) == len(unknown) else [unknown[number] for number in left]


def _work(search: Search, parts: list[_Part], unknown: list[int]) -> ArchiveWork:
    """The work on disk that a search of the unknown parts needs."""
    on_disk = [parts[k][2] - parts[k][1] for k in unknown if search.reads(parts[k][0].data)]
    return ArchiveWork(search.kind, sum(on_disk), len(on_disk))


def search_of(view: StreamView, clause: ClauseRecord, texts: TextLimits) -> Search:
    """Prepare the search of a clause. If it is outside of the index, the search evaluates a few rows at a time."""
    wary = frozenset[Expr]()
    if view.outside.reasons(clause.sqc_id, clause.attributes):
        wary = frozenset(term.attribute for factor in clause.factors for term in factor.terms)
    return Search(clause.factors, texts, wary, view.keys)


def chunk_matches(
    entry: ChunkEntry,
    clause: ClauseRecord,
    start: int,
    stop: int,
    budget: ReadBudget = UNBOUNDED,
    search: Search | None = None,
) -> ChunkMatches:
    """Find the clause's matches in rows [start, stop) of one chunk. `search`: a result of `search_of`, or None."""
    parts = []
    for part in _split(entry, clause, start, stop):
        match = known_matches(*part[:1], clause, *part[1:])
        parts.append(match if match is not None else _evaluated(search or Search(clause.factors), *part, budget))
    if len(parts) == 1:
        return parts[0]
    return ChunkMatches(
        entry, np.concatenate([part.offsets for part in parts]), sum(part.errors for part in parts), False
    )


def _split(entry: ChunkEntry, clause: ClauseRecord, start: int, stop: int) -> list[_Part]:
    """Split rows into the covered ones and the rest, if only the first rows are covered. Else return one part."""
    upto = entry.results.covered_to(clause.sqc_id)
    if start < upto < stop and not failed_tuples(entry.results, clause):
        return [(entry, start, upto), (entry, upto, stop)]
    return [(entry, start, stop)]


def failed_tuples(results: ChunkResults, clause: ClauseRecord) -> int:
    """The number of tuples of a whole chunk for which the clause could not be computed. Results do not store which."""
    if not results.errors and results.failures is NO_FAILURES:
        return 0
    if not is_lone(clause.factors):
        return results.failures.of(clause.sqc_id)
    return sum(results.errors.get(attribute, 0) for attribute in clause.attributes)


def known_matches(entry: ChunkEntry, clause: ClauseRecord, start: int, stop: int) -> ChunkMatches | None:
    """The stored matches of a clause in the rows [start, stop) of a chunk. None if the rows must be evaluated."""
    results = entry.results
    if not clause.factors:
        return ChunkMatches(entry, _EVERY[start:stop], 0, True)
    upto = results.covered_to(clause.sqc_id)
    errors = failed_tuples(results, clause)
    if stop > upto or (errors and upto < WHOLE):
        return _kept(entry, clause, start, stop)
    offsets = results.offsets(clause.sqc_id, clause.slot, start, stop)
    return ChunkMatches(entry, offsets, errors, True)


def _kept(entry: ChunkEntry, clause: ClauseRecord, start: int, stop: int) -> ChunkMatches | None:
    """The matches on disk that a Spark job stored for a query of the clause. None if there are none."""
    data = entry.data
    if not isinstance(data, ArchivedChunk):
        return None
    for first, end in data.source.evaluated().tolist():
        query_id = next(with_sides(clause.members, first), end)
        if query_id < end and (offsets_and_errors := data.source.matches(query_id)) is not None:
            offsets, errors = offsets_and_errors
            low, high = np.searchsorted(offsets, (start, stop))
            return ChunkMatches(entry, offsets[low:high], errors, True)
    return None


def is_kept(entry: ChunkEntry, clause: ClauseRecord) -> bool:
    """Whether a Spark job stored the clause's matches in a chunk on disk. May wait for the disk."""
    return _kept(entry, clause, 0, 0) is not None


def _evaluated(search: Search, entry: ChunkEntry, start: int, stop: int, budget: ReadBudget) -> ChunkMatches:
    result = search.find(entry.data, start, stop, budget)
    return ChunkMatches(entry, result.offsets, result.errors, False)


def _search(
    search: Search,
    parts: list[_Part],
    unknown: list[int],
    matches: list[Known | None],
    run: Runner,
    budget: ReadBudget,
    work: ArchiveWork,
) -> None:
    """Evaluate the unknown parts and fill in their matches. Each thread takes the next part that is not taken yet."""
    progress = work.begin(budget)
    waiting, later = iter(unknown), iter(unknown[_AHEAD:])
    for k in unknown[:_AHEAD]:
        search.expect(parts[k][0].data)

    def task() -> None:
        for k in waiting:  # a list's iterator gives each element to one thread
            for soon in islice(later, 1):
                search.expect(parts[soon][0].data)
            matches[k] = _evaluated(search, *parts[k], budget)
            if progress is not None and search.reads(parts[k][0].data):
                progress(parts[k][2] - parts[k][1])

    run([task] * (threads_of(run) if len(unknown) >= _SHARED_FROM else 1))
