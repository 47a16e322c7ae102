"""A located side of a join. Two kernel calls find its matches in all chunks.

    locate      the number of matches, and the form in which each chunk stores them
    rows        the offsets of the matches, chunk after chunk, in one array
    sequence    the same matches chunk by chunk, as `psoup.execution.select.clause_matches` returns them

All its chunks must be in memory and evaluated for the clause, as nearly always. A look-up of one chunk takes 15 us, and
a window has many chunks. All queries share the addresses of a window's chunks until the next tuple comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, overload

import numpy as np

from psoup.config import TextLimits
from psoup.data.archived_chunk import Chunk
from psoup.data.chunk import ChunkView
from psoup.data.dictionary_column import ASKED
from psoup.data.key_room import KeyRoom
from psoup.execution.join.null_row import null_part
from psoup.execution.rows.record_batch import tabled
from psoup.execution.select.clause_matches import Side, sides_of_join
from psoup.execution.select.match_forms import Known, Matches
from psoup.invariants import ensure
from psoup.kernels.rows.batch_body import PARTS
from psoup.kernels.search.result_rows import locate, write_rows
from psoup.published.reader_notes import NoteKind
from psoup.published.snapshot import ChunkEntry
from psoup.results.chunk_results import ALL
from psoup.results.failures import NO_FAILURES
from psoup.values.columns import Array, scratch_array
from psoup.work.read_budget import ReadBudget
from psoup.work.runner import Runner

_MOST = 4_096
"""The most chunks of a located side. In a longer kernel call the read could not notice that its caller has gone."""
_DENSE = 16
"""Copies of columns in 32 bits save time only if at least one tuple in 16 matches. Else each match costs a cache line.
"""
_AT_ONCE = 16
"""The most chunks whose columns one invocation copies to 32 bits. It takes a millisecond or two."""
_FIRST_ID = attrgetter("data.first_id")


class ChunkRun:
    """Neighbouring chunks, all in memory, in the form of kernels. `asked`: int64[chunks, 4], for `locate`."""

    __slots__ = ("_outer", "_shortened", "_table", "asked", "chunks", "covered_before")

    def __init__(self, chunks: list[ChunkView], asked: Array, covered_before: int) -> None:
        """`covered_before`: all chunks are evaluated for the clauses with smaller SQC IDs."""
        self.chunks = chunks
        self.asked = asked
        self.covered_before = covered_before
        self._table: ChunkTable | None = None
        self._outer: ChunkTable | None = None
        self._shortened = set[int]()

    def shorten(self, column: int, room: KeyRoom) -> None:
        """Call `KeyRoom.shorten` for the column in the closed chunks, at most `_AT_ONCE` of them in one call."""
        if column in self._shortened:
            return
        left = [chunk for chunk in self.chunks[:-1] if chunk.caches.short.get(column) in (None, ASKED)]
        done = [room.shorten(chunk, column) for chunk in left[:_AT_ONCE]]
        if all(done):
            self._table, self._outer = self._tabled(), None
            if len(left) <= _AT_ONCE:
                self._shortened.add(column)

    @property
    def table(self) -> ChunkTable:
        """The addresses of all columns of the chunks. O(chunks * columns), once."""
        if self._table is None:
            self._table = self._tabled()
        return self._table

    @property
    def outer_table(self) -> ChunkTable:
        """The addresses of all columns of the chunks, then of the null row. O(chunks * columns), once."""
        if self._outer is None:
            table = self.table
            self._outer = ChunkTable(np.concatenate([table.sources, null_part(table.stride)]), table.stride, True)
        return self._outer

    def _tabled(self) -> ChunkTable:
        sources, stride = tabled(self.chunks)
        return ChunkTable(sources, stride, bool(sources.reshape(-1, PARTS)[:, 1].any()))


class ChunkTable(NamedTuple):
    """Column addresses of chunks: `sources` and `stride` as `psoup.kernels.rows.batch_body` takes them.

    `nullable`: whether any column has a validity array in any chunk.
    """

    sources: Array
    stride: int
    nullable: bool


class Located(Sequence[Known]):
    """The matches of a located side. As a sequence it has the matches of each chunk, as in `clause_matches`."""

    __slots__ = ("_known", "_places", "_rows", "_run", "_side", "_size")

    def __init__(self, side: Side, run: ChunkRun) -> None:
        self._side = side
        self._run = run
        self._size = -1
        self._places: Array = np.empty((len(run.asked), 5), np.int64)
        self._rows: Array | None = None
        self._known: list[Known] | None = None

    @property
    def size(self) -> int:
        """The number of matches. The first call counts them, in O(chunks + words of bitmaps of open chunks)."""
        if self._size < 0:
            _, clause, low, high = self._side
            self.note(locate(self._run.asked, low, high, clause.sqc_id, clause.slot, self._places))
        return self._size

    @property
    def known_size(self) -> int:
        """The number of matches if an earlier call has counted them, else -1. O(1)."""
        return self._size

    def note(self, size: int) -> None:
        """Store the number of matches that a kernel has returned. A negative number is an internal error."""
        ensure(size >= 0, "located", "a clause is covered, and some chunk says it is not", clause=self._side[1].sqc_id)
        self._size = size

    @property
    def found(self) -> tuple[Array, Array, int, int]:
        """Arguments of kernels: the result of `locate`, the chunks, the slot of the clause, the number of matches."""
        size = self.size
        return self._places, self._run.asked, self._side[1].slot, size

    @property
    def asked(self) -> tuple[Array, int, int, int, int, int, Array, Array, int]:
        """The arguments of the kernel `answer_located` for a side."""
        (_, clause, low, high), run = self._side, self._run
        sources, stride, _ = run.table
        return run.asked, low, high, clause.sqc_id, clause.slot, self._size, self._places, sources, stride

    @property
    def asked_outer(self) -> tuple[Array, int, int, int, int, int, Array, Array, int]:
        """As `asked`, for the right side of the kernel `answer_outer`."""
        return *self.asked[:7], *self.outer_table[:2]

    @property
    def outer_table(self) -> ChunkTable:
        """The addresses of all columns of the chunks, then of the null row."""
        return self._run.outer_table

    def shorten(self, column: int, room: KeyRoom) -> None:
        """Count a read of a column, if its matches are dense enough for copies in 32 bits (`KeyRoom.shorten`)."""
        _, _, low, high = self._side
        if column >= 0 and high - low <= _DENSE * self.size:
            self._run.shorten(column, room)

    @property
    def chunks(self) -> list[ChunkView]:
        """The chunks of the window."""
        return self._run.chunks

    @property
    def table(self) -> ChunkTable:
        """The addresses of all columns of the chunks."""
        return self._run.table

    @property
    def stops(self) -> Array:
        """For each chunk, the end of its matches in `rows`: int64[chunks]."""
        ends: Array = self.found[0][:, 4].cumsum()
        return ends

    @property
    def rows(self) -> Array:
        """The offsets of the matches in their chunks, chunk after chunk: int32[size]. O(size), once."""
        if self._rows is None:
            places, asked, slot, size = self.found
            rows = scratch_array(size, np.int32)
            written = write_rows(places, asked, slot, rows)
            ensure(written == self.size, "located", "results of chunks changed while a reader held them", rows=written)
            self._rows = rows
        return self._rows

    @property
    def whole(self) -> bool:
        """Whether every tuple of the window matches, as the clause has no condition."""
        return not self._side[1].factors

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, at: int) -> Known: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Known]: ...
    def __getitem__(self, at: int | slice) -> Known | Sequence[Known]:
        return self._all()[at]

    def __iter__(self) -> Iterator[Known]:
        return iter(self._all())

    def _all(self) -> list[Known]:
        if self._known is None:
            (self._known,) = sides_of_join([self._side])
        return self._known


def located(side: Side) -> Located | None:
    """The matches of a side as a located side.

    None if a chunk is on disk, is not evaluated for the clause as a whole, or has errors.
    """
    run = run_of(side)
    return None if run is None else Located(side, run)


RUNS = NoteKind[tuple[int, int, bool], ChunkRun | None](64)
"""The cache of `run_of` for a stream. Key: the first chunk, the last chunk + 1, whether the clause has conditions."""


def run_of(side: Side) -> ChunkRun | None:
    """The chunks of a side. None if `located` would return None."""
    view, clause, low, high = side
    if view.spec.table is not None:  # a version may have ended after the search
        return None
    chunks = view.chunks
    first, stop = max(bisect_right(chunks, low, key=_FIRST_ID) - 1, 0), len(chunks)
    if high <= chunks[-1].data.first_id:  # hardly ever: windows end at NOW
        stop = bisect_right(chunks, high - 1, first, key=_FIRST_ID)
    of = first, stop, bool(clause.factors)
    table = view.notes.table(RUNS)
    try:
        run = table[of]
    except KeyError:
        run = table.note(of, _run(chunks[first : of[1]], searched=of[2]))
    if run is None or clause.sqc_id >= run.covered_before or (view.thinned and _is_cut(run.chunks, low, high)):
        return None
    return run


def _is_cut(chunks: Sequence[Chunk], low: int, high: int) -> bool:
    """Whether the window begins or ends inside a thinned chunk. The kernels compute the rows of such ends from IDs."""
    first, last = chunks[0], chunks[-1]
    begins, ends = first.places.left is not None, last.places.left is not None
    return (begins and low > first.first_id) or (ends and high < last.end_id)


def _run(entries: Sequence[ChunkEntry], *, searched: bool) -> ChunkRun | None:
    """Make the run of some chunks. `searched`: for clauses with conditions.

    None if there are too many chunks, or one is on disk. Also None if a search would meet errors or gaps in results.
    """
    if not 0 < len(entries) <= _MOST:
        return None
    numbers, chunks, covered_before = list[int](), list[ChunkView](), ALL + 1
    for entry in entries:
        data, results = entry.data, entry.results
        if not isinstance(data, ChunkView):
            return None
        address = size = 0
        if searched:
            if results.errors or results.failures is not NO_FAILURES or results.gaps.ids.size:
                return None
            _, address, size = results.places
            covered_before = min(covered_before, results.covered_before)
        numbers += (address, size, data.first_id, len(data.times))
        chunks.append(data)
    return ChunkRun(chunks, np.array(numbers, np.int64).reshape(-1, 4), covered_before)


def found_sides(
    sides: Sequence[Side], run: Runner, archive_rows: int, budget: ReadBudget, texts: TextLimits
) -> list[Sequence[Known]]:
    """Find the matches of the sides of a join, of located sides if possible. Raises as `matches_together`."""
    found: list[Sequence[Known] | None] = [located(side) for side in sides]
    known = [own for own in found if own is not None]
    if len(known) == len(found):  # nearly always
        return known
    left = [side for side, own in zip(sides, found, strict=True) if own is None]
    others = iter(sides_of_join(left, run, archive_rows, budget, texts))
    return [next(others) if own is None else own for own in found]


def count_of(matches: Sequence[Matches]) -> int:
    """The number of matches of a side."""
    return matches.size if isinstance(matches, Located) else sum([match.count for match in matches])


def all_in_memory(matches: Sequence[Matches]) -> bool:
    """Whether all chunks with matches are in memory. O(chunks), or O(1) for a located side."""
    return isinstance(matches, Located) or all(match.data.in_memory for match in matches if match.count)


def errors_of(matches: Sequence[Known]) -> int:
    """The number of tuples that a side lacks because a value could not be computed. A located side has no errors."""
    return 0 if isinstance(matches, Located) else sum([match.errors for match in matches])


def chunks_of(matches: Sequence[Matches]) -> list[Chunk]:
    """The chunks that have matches. For a located side: all chunks of the window."""
    return list(matches.chunks) if isinstance(matches, Located) else [match.data for match in matches]
