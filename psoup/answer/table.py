"""The answers of many queries as one table: the query's place in the call, then the columns of its answer.

    _query   sym   price           rows in the order of places; within a query, in the order of its own answer
         0   IBM    12.5
         3   IBM    12.5           queries 1 and 2 have no rows, or failed: `failed` lists the failures

    places ─ pieces ─┬─ sets: queries of one plan over one stream, chunk by chunk, all at once (`execution.select`)
                     ├─ joins of two streams by a key, of one plan, all at once (`execution.many.many_joins`)
                     └─ other joins, queries without WHERE: one by one, as invocations

All answers are of one snapshot. Memory is bounded: a piece with too many matches is halved. A single query with too
many matches is answered as an invocation, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from psoup.answer.automatic.noted_answers import note_answers
from psoup.answer.question import Question
from psoup.answer.table_batches import PLACE, BatchLimit, batches_of, by_place
from psoup.answer.table_rows import Group, Lines, Set, TableQuestion, placed
from psoup.data.archived_chunk import Chunk
from psoup.errors import Internal, PSoupError
from psoup.execution.aggregate.single_row import aggregate_of
from psoup.execution.many.query_sets import Failed, QuerySet, asked_for
from psoup.execution.rows.record_batch import row_bytes
from psoup.execution.select.window import WindowChoice
from psoup.published.snapshot import Snapshot, StreamView
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array
from psoup.values.kinds import arrow_type
from psoup.work.read_budget import ReadBudget

_QUERIES = 1 << 17
"""The most queries of a piece."""
_FEW = 8
"""The most queries of a piece that the table answers one by one."""
_LONE = 2
"""The most queries of a set that are answered one by one. Applies if the sets have fewer than `_FEW` on average."""
QUICK = 1 << 14
"""The most queries of a piece that takes only some milliseconds."""
_ON_DISK = 1 << 10
"""The most queries of a call whose aggregates the table may answer one by one.

The table does so if one pass over all of them would read too much on disk.
"""
_PAIRS = 1 << 20
"""The most matches of a piece."""
_PLACE_BYTES = 16
"""Bytes of a row's place while the rows of several sets are put in order."""
_OF_ONE = frozenset({"ROW_BUDGET", "SORT_BUDGET", "GROUP_BUDGET"})
"""Reasons of errors that come from the size of a single answer.

The table then halves the piece, until it answers its queries one by one.
"""
_ROWS = 65_536
"""Default of the most rows of a batch."""
_BATCH_BYTES = 1 << 30
"""Default of the most bytes of a batch."""


class _FoldedOnDisk(Exception):
    """A pass over the aggregates of a piece would read too much on disk.

    An aggregate alone may use the folds on disk instead.
    """


class Table:
    """The answers of a call. It holds its snapshot. `failed` and `groups` are complete once all rows are read.

    Each pass over `batches` starts these counts again.
    """

    def __init__(self, queries: QuerySet, asking: TableQuestion) -> None:
        self.count = len(queries.ids)
        self.ids = queries.ids
        self.select = queries.select
        self.failed: list[Failed] = list(queries.failed)
        self.groups: list[Group] = []
        self.halved = 0
        """The number of pieces so far that were halved, as they did not fit into their room."""
        self._asking = asking
        self._sets: list[Set] = []
        self._set_of: Array = np.full(self.count, -1, np.int32)
        """The set of each place; -1: not in any set."""
        by_window: dict[object, Group | PSoupError] = {}
        for alike in queries.sets:
            try:
                made = asking.set_of(alike, queries.ids[alike.places], by_window)
            except PSoupError as problem:
                if problem.reason == "TOO_MANY_WINDOWS":
                    raise
                self.failed.append(Failed(_raised(problem), alike.places))
            else:
                made.group.places.append(alike.places)
                note_answers(asking.snapshot, queries.ids[alike.places], alike.plan, made.window)
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
        """The ID of each stream, and the chunks of it that the table holds as long as it exists."""
        windows: dict[int, tuple[StreamView, int, int]] = {}
        for part in chain.from_iterable(made.seen for made in self._sets):
            view, low, high = part.view, part.range.low, part.range.high
            _, first, end = windows.get(view.stream_id, (view, low, high))
            windows[view.stream_id] = view, min(low, first), max(high, end)
        return [
            (stream_id, [entry.data for entry in view.chunks if entry.data.first_id < high and entry.data.end_id > low])
            for stream_id, (view, low, high) in windows.items()
        ]

    def batches(self, max_rows: int = _ROWS, max_bytes: int = _BATCH_BYTES) -> Iterator[pa.RecordBatch]:
        """The rows, at most `max_rows` in a batch, and at most `max_bytes`, or one row."""
        del self.failed[self._unread :]
        for group in self.groups:
            group.errors = group.select_errors = group.unknown = 0
        fitting = max(max_bytes // (2 * (row_bytes(self.select) + 8)), 1) if self.select else 1
        limit = BatchLimit(min(max_rows, fitting), max_bytes)
        yield from batches_of(self._parts(limit), limit)

    def failures(self) -> list[Failed]:
        """The failures so far. Failures with equal reason and message are joined into one, its `places` ascending."""
        alike: dict[tuple[str, str], list[Failed]] = {}
        for failed in self.failed:
            alike.setdefault((failed.error.reason, failed.error.message), []).append(failed)
        return [
            Failed(group[0].error, np.sort(np.concatenate([failed.places for failed in group])))
            for group in alike.values()
        ]

    def to_table(self) -> pa.Table:
        """All rows as one Arrow table."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    # Pieces --------------------------------------------------------------------------------------------------

    def _parts(self, limit: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows in batches of at most `limit.rows`, of any size in bytes."""
        most_alone = _LONE if self.count < _FEW * len(self._sets) else 0
        alone = [
            made.alike.places
            for made in self._sets
            if not made.together or len(made.alike.places) <= most_alone  # each such query cuts the larger sets in two
        ]
        edges = np.sort(np.concatenate([*alone, np.array([self.count])]))
        start = 0
        for edge in edges.tolist():  # a query that is answered by itself, or the end
            yield from self._together(start, edge, limit)
            if edge < self.count:
                yield from self._alone(edge, limit)
            start = edge + 1

    def _together(self, start: int, end: int, limit: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows of the queries in [start, end), all answered in sets."""
        try:
            yield from self._pieces(start, end, limit)
        finally:
            self._asking.room.begin()

    def _pieces(self, start: int, end: int, limit: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows, piece by piece. A piece that does not fit into its room is halved."""
        size, room = _QUERIES, self._asking.room
        while start < end:
            room.begin()
            stop = min(start + size, end)
            if stop - start <= _FEW:
                for place in range(start, stop):
                    yield from self._alone(place, limit)
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
                    yield from self._alone(place, limit)
                start = stop
                continue
            yield from self._gathered(lines, limit)
            small = pairs < _PAIRS // 2 and room.peak < room.most // 2
            size = min(2 * size, _QUERIES) if small else size
            start = stop

    def _lines(self, start: int, stop: int) -> tuple[list[Lines], int]:
        """The rows of the queries in [start, stop), as references; and their number.

        Raises TooManyPairs or _FoldedOnDisk.
        """
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
            line.query_set.group.errors += line.errors
            line.query_set.group.select_errors += line.select_errors
        return lines, pairs

    def _gathered(self, lines: list[Lines], limit: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows of some sets, gathered, at most `limit.rows` at once, in the order of places."""
        every, asking = [line for line in lines if len(line.rows)], self._asking
        for line in every:
            asking.compute(line)

        begun, counts = -2, list[int]()

        def between(last: int, cut: int) -> Iterator[pa.RecordBatch]:
            nonlocal begun, counts
            if last == begun:  # `by_place` asks for the rows after this place again
                for line, count in zip(every, counts, strict=True):
                    line.query_set.group.select_errors = count
            begun, counts = last, [line.query_set.group.select_errors for line in every]
            for line in every:
                low, high = np.searchsorted(line.places, (last, cut), "right").tolist()
                yield from asking.rows(line, low, high, limit.rows, self.schema)

        if len(every) == 1:
            yield from asking.rows(every[0], 0, len(every[0].rows), limit.rows, self.schema)
        elif every:
            places = np.sort(np.concatenate([line.places for line in every]))
            yield from by_place(places, between, BatchLimit(limit.rows, min(limit.bytes, asking.texts.of(2))))
        for line in every:
            self.failed += [Failed(problem, np.array([place])) for place, problem in line.refused.items()]

    def _alone(self, place: int, limit: BatchLimit) -> Iterator[pa.RecordBatch]:
        """The rows of one query, by an invocation of it."""
        number = int(self._set_of[place])
        if number < 0:
            return
        made, rows = self._sets[number], 0
        try:
            answer = self._asking.invoke(int(self.ids[place]))
            for batch in answer.batches(limit.rows, limit.bytes):
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
            made.group.unknown += answer.unknown


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
    """The answers of the queries `ids` as one table. `ids`: int64[n]; an ID below 0 is left out.

    The other arguments are as for `psoup.answer.invoke.invoke`, and apply to all queries. An error that an invocation
    of a query raises becomes a failure of the table. Raises InvalidInput, reason MIXED_COLUMNS, if the columns of two
    queries differ, or reason TOO_MANY_WINDOWS. `named`: the name of a query in errors.
    """
    question = Question(now, as_of, window, accept_truncation, budget or ReadBudget())
    if len(ids) > QUICK:
        question.budget.before_long()
    queries = asked_for(snapshot, ids, tenant)
    queries.refuse_mixed(named)
    return Table(queries, TableQuestion(snapshot, tenant, question))


def _raised(problem: PSoupError) -> PSoupError:
    """The error without its traceback, whose frames would keep arrays in memory."""
    return problem.with_traceback(None)
