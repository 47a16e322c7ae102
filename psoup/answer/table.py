"""The answers of many queries as one table: the query's place in the call, then the columns of its answer.

    _query   sym   price           rows in the order of places, those of a query as in its own answer
         0   IBM    12.5
         3   IBM    12.5           queries 1 and 2 have no row, or failed: `failed` says which

    places ─ pieces ─┬─ sets: queries of one plan over one stream, chunk by chunk, all at once (`execution.select`)
                     ├─ joins of two streams by a key, of one plan, all at once (`execution.many.many_joins`)
                     └─ others (other joins, queries without WHERE): one by one, as invocations

All of it is of one snapshot. What is in memory at once is bounded: a piece with too many matches is halved, and a
single query with too many is answered as an invocation, piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from psoup.answer.question import Question
from psoup.answer.table_batches import PLACE, BatchLimit, batches_of, by_place
from psoup.answer.table_rows import Asking, Group, Lines, Set, placed
from psoup.columns import Array
from psoup.data.archived import Chunk
from psoup.errors import Internal, PSoupError
from psoup.execution.aggregate.single_row import aggregate_of
from psoup.execution.many.query_sets import Asked, Failed, asked_for
from psoup.execution.rows.record_batch import row_bytes
from psoup.execution.select.window import WindowChoice
from psoup.kinds import arrow_type
from psoup.published.snapshot import Snapshot, StreamView
from psoup.reading import ReadBudget
from psoup.results.sets import TooManyPairs

_QUERIES = 1 << 17
"""Queries of a piece."""
_FEW = 8
"""Queries of a piece up to which they are answered one by one."""
_LONE = 2
"""Queries of a set up to which an invocation each takes less time."""
QUICK = 1 << 14
"""Queries up to which what is made for them at once takes some milliseconds."""
_ON_DISK = 1 << 10
"""Queries of a call up to which aggregates are answered one by one if they would read too much on disk."""
_PAIRS = 1 << 20
"""Matches of a piece."""
_PLACE_BYTES = 16
"""Bytes of a row's place while the rows of several sets are put in order."""
_OF_ONE = frozenset({"ROW_BUDGET", "SORT_BUDGET", "GROUP_BUDGET"})
"""Refusals of what a query makes: each query is asked by itself whether it is refused too."""
_ROWS = 65_536
_BATCH_BYTES = 1 << 30


class _FoldedOnDisk(Exception):
    """Raised for aggregates that would read too much on disk together: alone, each may know what is folded there."""


class Table:
    """The answers of a call; holds its snapshot. Once all is read, `failed` and `groups` are whole.

    Each pass over `batches` counts them anew.
    """

    def __init__(self, asked: Asked, asking: Asking) -> None:
        self.count = len(asked.ids)
        self.ids = asked.ids
        self.select = asked.select
        self.failed: list[Failed] = list(asked.failed)
        self.groups: list[Group] = []
        self.halved = 0
        """The number of pieces that did not fit into their room so far."""
        self._asking = asking
        self._sets: list[Set] = []
        self._set_of: Array = np.full(self.count, -1, np.int32)
        """The set of each place; -1: of none."""
        by_window: dict[object, Group | PSoupError] = {}
        for alike in asked.sets:
            try:
                made = asking.set_of(alike, asked.ids[alike.places], by_window)
            except PSoupError as problem:
                if problem.reason == "TOO_MANY_WINDOWS":
                    raise
                self.failed.append(Failed(_raised(problem), alike.places))
            else:
                made.group.places.append(alike.places)
                self._set_of[alike.places] = len(self._sets)
                self._sets.append(made)
        self.groups = [group for group in by_window.values() if isinstance(group, Group)]
        self._unread = len(self.failed)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every batch."""
        columns = [(output.name, arrow_type(output.type)) for output in self.select]
        return pa.schema([pa.field(PLACE, pa.int64()), *(pa.field(*column) for column in columns)])

    @property
    def chunks(self) -> list[tuple[int, list[Chunk]]]:
        """The chunks that the table holds as long as it exists, after the ID of their stream."""
        windows: dict[int, tuple[StreamView, int, int]] = {}
        for part in chain.from_iterable(made.seen for made in self._sets):
            view, low, high = part.view, part.range.low, part.range.high
            _, least, greatest = windows.get(view.stream_id, (view, low, high))
            windows[view.stream_id] = view, min(low, least), max(high, greatest)
        return [
            (stream_id, [entry.data for entry in view.chunks if entry.data.first_id < high and entry.data.end_id > low])
            for stream_id, (view, low, high) in windows.items()
        ]

    def batches(self, max_rows: int = _ROWS, max_bytes: int = _BATCH_BYTES) -> Iterator[pa.RecordBatch]:
        """The rows, at most `max_rows` in a batch, and at most `max_bytes`, or one row."""
        del self.failed[self._unread :]
        for group in self.groups:
            group.errors = group.select_errors = 0
        fitting = max(max_bytes // (2 * (row_bytes(self.select) + 8)), 1) if self.select else 1
        most = BatchLimit(min(max_rows, fitting), max_bytes)
        yield from batches_of(self._parts(most), most)

    def failures(self) -> list[Failed]:
        """The failures so far, those that say the same together: of each `places` ascending."""
        alike: dict[tuple[str, str], list[Failed]] = {}
        for failed in self.failed:
            alike.setdefault((failed.error.reason, failed.error.message), []).append(failed)
        return [Failed(some[0].error, np.sort(np.concatenate([of.places for of in some]))) for some in alike.values()]

    def to_table(self) -> pa.Table:
        """All rows as one Arrow table."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    # Pieces --------------------------------------------------------------------------------------------------

    def _parts(self, most: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows in batches of any size in bytes, of at most so many rows."""
        most_alone = _LONE if self.count < _FEW * len(self._sets) else 0
        alone = [
            made.alike.places
            for made in self._sets
            if not made.together or len(made.alike.places) <= most_alone  # larger sets would be cut at each of them
        ]
        edges = np.sort(np.concatenate([*alone, np.array([self.count])]))
        start = 0
        for edge in edges.tolist():  # a query that is answered by itself, or the end
            yield from self._together(start, edge, most)
            if edge < self.count:
                yield from self._alone(edge, most)
            start = edge + 1

    def _together(self, start: int, end: int, most: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows of the queries at some places, all of them in sets."""
        try:
            yield from self._pieces(start, end, most)
        finally:
            self._asking.room.begin()

    def _pieces(self, start: int, end: int, most: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows piece by piece: a piece that does not fit into its room is halved."""
        size, room = _QUERIES, self._asking.room
        while start < end:
            room.begin()
            stop = min(start + size, end)
            if stop - start <= _FEW:
                for place in range(start, stop):
                    yield from self._alone(place, most)
                start = stop
                continue
            try:
                lines, pairs = self._lines(start, stop)
            except TooManyPairs:
                self.halved += 1
                size = (stop - start) // 2
                continue
            except _FoldedOnDisk:
                for place in range(start, stop):
                    yield from self._alone(place, most)
                start = stop
                continue
            yield from self._gathered(lines, most)
            small = pairs < _PAIRS // 2 and room.peak < room.most // 2
            size = min(2 * size, _QUERIES) if small else size
            start = stop

    def _lines(self, start: int, stop: int) -> tuple[list[Lines], int]:
        """The rows of the queries at some places, as references; how many. Raises TooManyPairs, _FoldedOnDisk."""
        if stop - start > QUICK:
            self._asking.budget.before_long()
        lines, pairs = list[Lines](), 0
        failed = list[Failed]()
        for number in np.flatnonzero(np.bincount(self._set_of[start:stop] + 1)[1:]).tolist():
            made = self._sets[number]
            some = made.between(start, stop)
            try:
                line = self._asking.lines(made, some, _PAIRS - pairs)
            except Internal:
                raise
            except PSoupError as problem:
                if problem.reason == "SORTS_BUDGET":
                    raise
                if problem.reason in _OF_ONE:
                    raise TooManyPairs from problem
                if problem.reason == "ARCHIVE_BUDGET" and self.count <= _ON_DISK and aggregate_of(made.alike.plan):
                    raise _FoldedOnDisk from problem
                failed.append(Failed(_raised(problem), made.alike.places[some]))
                continue
            if line.failed and self.count <= _ON_DISK:
                raise _FoldedOnDisk
            failed += line.failed
            lines.append(line)
            pairs += len(line.rows)
        self._asking.room.hold(_PLACE_BYTES * pairs)
        self.failed += failed
        for line in lines:
            line.of.group.errors += line.errors
            line.of.group.select_errors += line.select_errors
        return lines, pairs

    def _gathered(self, lines: list[Lines], most: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows of some sets, gathered, at most so many at once, by place."""
        every, asking = [line for line in lines if len(line.rows)], self._asking
        for line in every:
            asking.compute(line)

        begun, counts = -2, list[int]()

        def between(last: int, cut: int) -> Iterator[pa.RecordBatch]:
            nonlocal begun, counts
            if last == begun:  # the rows after this place are made again
                for line, count in zip(every, counts, strict=True):
                    line.of.group.select_errors = count
            begun, counts = last, [line.of.group.select_errors for line in every]
            for line in every:
                low, high = np.searchsorted(line.places, (last, cut), "right").tolist()
                yield from asking.rows(line, low, high, most.rows, self.schema)

        if len(every) == 1:
            yield from asking.rows(every[0], 0, len(every[0].rows), most.rows, self.schema)
        elif every:
            places = np.sort(np.concatenate([line.places for line in every]))
            yield from by_place(places, between, BatchLimit(most.rows, min(most.bytes, asking.texts.of(2))))
        for line in every:
            self.failed += [Failed(problem, np.array([place])) for place, problem in line.refused.items()]

    def _alone(self, place: int, most: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows of one query, as those of its invocation."""
        number = int(self._set_of[place])
        if number < 0:
            return
        made, rows = self._sets[number], 0
        try:
            answer = self._asking.invoke(int(self.ids[place]))
            for batch in answer.batches(most.rows, most.bytes):
                rows += batch.num_rows
                yield placed(np.full(batch.num_rows, place), batch.columns, self.schema)
        except Internal:
            raise
        except PSoupError as problem:
            if rows:
                raise
            self.failed.append(Failed(_raised(problem), np.array([place])))
        else:
            made.group.errors += answer.errors
            made.group.select_errors += answer.select_errors


def invoke_table(
    snapshot: Snapshot,
    ids: Array,
    *,
    tenant: str,
    now: int,
    as_of: int | None = None,
    window: WindowChoice | None = None,
    accept_truncation: bool = False,
    budget: ReadBudget | None = None,
    named: Callable[[int], str] = str,
) -> Table:
    """The answers of the queries with some IDs (int64[n]; below 0: of no query, left out), as one table.

    The other arguments are those of `psoup.answer.invoke.invoke`, for all of them; what that raises for a query is
    among the table's failures. Raises InvalidInput: MIXED_COLUMNS if the columns of two differ, TOO_MANY_WINDOWS.
    `named`: the names of queries in errors.
    """
    question = Question(now, as_of, window, accept_truncation, budget or ReadBudget())
    if len(ids) > QUICK:
        question.budget.before_long()
    asked = asked_for(snapshot, ids, tenant)
    asked.refuse_mixed(named)
    return Table(asked, Asking(snapshot, tenant, question))


def _raised(problem: PSoupError) -> PSoupError:
    """The error without the frames that it was raised in, which hold arrays."""
    return problem.with_traceback(None)
