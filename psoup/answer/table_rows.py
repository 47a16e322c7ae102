"""The rows of a set of queries in a table of answers: windows, then matches as references, then columns.

    set ─ windows ─> range of IDs ─ Together ─> place, tuple ID, by place ─> columns, gathered piece by piece

A set holds the queries of one plan. `psoup.answer.table` merges the rows of all sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from psoup.answer.completeness import Completeness, parts_of
from psoup.answer.invoke import Answer, answer_of_record
from psoup.answer.piece_room import PieceRoom
from psoup.answer.question import Question
from psoup.config import TextLimits
from psoup.data.archived_chunk import Chunk
from psoup.errors import InvalidInput, PSoupError, ResourceExhausted
from psoup.execution.many.many_folds import ManyFolds, folds_of
from psoup.execution.many.many_groups import ranked
from psoup.execution.many.many_joins import (
    JOINED_BYTES,
    JoinedSets,
    QueryPairs,
    by_query,
    can_be_grouped,
    can_be_together,
    side_clauses,
)
from psoup.execution.many.many_shapes import MatchBuffer, PlanShape, ShownRows, arranged, shape_of, starts_of
from psoup.execution.many.query_sets import Alike, Failed, distinct_ids
from psoup.execution.many.window_packs import BeyondArchive, folded
from psoup.execution.rows.record_batch import row_bytes
from psoup.execution.rows.select_list import computed_at_once
from psoup.execution.rows.source_rows import Reading, by_ids, ids_of
from psoup.execution.select.many_matches import Together
from psoup.execution.select.window import Reach
from psoup.expressions.evaluate import TooMuchText
from psoup.kernels.fold.segments import spread_names
from psoup.model import Kind, WindowClause
from psoup.plan.absences import absences
from psoup.plan.nodes import partitioned
from psoup.plan.standing_query import StandingQuery
from psoup.published.records import NO_CLAUSE
from psoup.published.snapshot import Snapshot, StreamView
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array, Column
from psoup.work.read_budget import ReadBudget

MOST_GROUPS = 1_024
"""The most combinations of streams and windows in a call. Each combination has its own completeness."""

_PAIR_BYTES = 48
"""Approximate bytes of a match while its piece is computed: the pair, its places, and its row."""

_NOTHING: Array = np.zeros(0, np.int64)
_WHOLE_BYTES = 1 << 25
"""The most bytes of the rows of a set in a piece that are gathered in one go."""


@dataclass(slots=True)
class Group:
    """The queries over the same streams and windows, which share one completeness.

    `errors` are counted while rows are read.
    """

    initial: Completeness
    """The completeness before any row is read: without errors."""
    query: StandingQuery
    """Any of the queries."""
    places: list[Array] = field(default_factory=list)
    errors: int = 0
    select_errors: int = 0
    unknown: int = 0
    """Rows of joins AS OF that may lack a lost version; see `psoup.answer.invoke.Answer.unknown`."""

    @property
    def completeness(self) -> Completeness:
        """The completeness of their answers, with the errors counted so far."""
        return self.initial._replace(errors=self.errors)


@dataclass(slots=True)
class Set:
    """Queries of one plan, with the windows that all of them see. `together`: whether one pass answers all of them."""

    alike: Alike
    group: Group
    seen: list[Reach]
    together: bool
    joined: JoinedSets | None = None
    """The computation that answers all joins of the set in one pass; None if the set has no joins."""
    sides: list[Array] = field(default_factory=list)
    """For joins: an array for each source, with the clause of each query. Empty for other sets."""
    folds: ManyFolds | None = None
    shape: PlanShape | None = None
    """The shape of rows or groups; None if `folds` has the aggregates of the set."""

    @property
    def window(self) -> int:
        """The number of tuples in all windows of a query."""
        return sum([part.range.high - part.range.low for part in self.seen])

    def between(self, start: int, stop: int) -> slice:
        """The queries whose places lie in [start, stop), as a slice of the set."""
        return slice(*np.searchsorted(self.alike.places, (start, stop)).tolist())


@dataclass(slots=True)
class Lines:
    """Rows of a set as references, ascending by place.

    `places`: the place of each row's query. `rows`: the index of each row among the matches of `group`.
    """

    query_set: Set
    places: Array
    rows: Array
    group: list[tuple[Chunk, Array]] = field(default_factory=list)
    """The matches: chunks, and the offsets of the matches in each."""
    pairs: QueryPairs | None = None
    """For joins: the pairs; `rows` then refers to tuples of the first source."""
    columns: list[Column] | None = None
    """The columns of the rows, if they are computed already."""
    errors: int = 0
    """Tuples, or pairs, left out by a value that could not be computed."""
    select_errors: int = 0
    """Values of `columns`, and of hidden columns, that could not be computed."""
    failed: list[Failed] = field(default_factory=list)
    """Queries of the set that have no answer."""
    refused: dict[int, PSoupError] = field(default_factory=dict)
    """The places of queries whose first row is too large. This shows only when the row is computed."""

    def refuse(self, row: int, problem: ResourceExhausted) -> int:
        """Leave out the query of a row that is too large. Returns the first row of the next query.

        Raises the problem if rows of the query were sent, or if its reason is not ROW_BUDGET.
        """
        place = int(self.places[row])
        if problem.reason != "ROW_BUDGET" or (row and self.places[row - 1] == place):
            raise problem
        self.refused[place] = problem.with_traceback(None)
        return int(np.searchsorted(self.places, place, "right"))


@dataclass(slots=True)
class TableQuestion:
    """The snapshot, tenant and question that all queries of a call share."""

    snapshot: Snapshot
    tenant: str
    question: Question
    room: PieceRoom = field(init=False)
    texts: TextLimits = field(init=False)

    @property
    def budget(self) -> ReadBudget:
        """The budget of the read."""
        return self.question.budget

    def __post_init__(self) -> None:
        self.room = PieceRoom(self.budget)
        self.texts = self.room.texts(self.snapshot.config.texts)

    def set_of(self, alike: Alike, ids: Array, by_window: dict[object, Group | PSoupError]) -> Set:
        """The set of the queries `ids`, with the windows and the group that they share. Raises what an invocation would
        raise.
        """
        snapshot, record, query = self.snapshot, alike.record, alike.record.query
        joined = record.sqc_id == NO_CLAUSE
        windows = self.question.windows(query)
        views = snapshot.views_of(record)
        per_key = tuple(source.window_text for source in partitioned(alike.plan).values())
        key = tuple(view.stream_id for view in views), windows, per_key, absences(alike.plan)
        existing = by_window.get(key)
        if isinstance(existing, PSoupError):
            raise existing
        seen = self._seen(views, windows, joined, key, by_window)
        if existing is None:
            if sum(isinstance(group, Group) for group in by_window.values()) == MOST_GROUPS:
                raise InvalidInput(
                    f"the queries have more than {MOST_GROUPS:,} different streams and windows; ask in several calls",
                    reason="TOO_MANY_WINDOWS",
                )
            completeness = Completeness(snapshot.sequence, seen[0].now, 0, parts_of(snapshot, alike.plan, seen))
            existing = by_window[key] = Group(completeness, query)
        shape = shape_of(alike.plan)
        if joined and (can_be_together(alike.plan, seen) or (shape is not None and can_be_grouped(shape, seen))):
            sets = JoinedSets(snapshot, alike.plan, seen, self.budget)
            sides = [side_clauses(snapshot, ids, place) for place in range(2)]
            return Set(alike, existing, seen, True, sets, sides, shape=shape)
        folds = None if joined else folds_of(alike.plan)
        together = not joined and (folds is not None or shape is not None) and bool(query.factors)
        return Set(alike, existing, seen, together, folds=folds, shape=shape)

    def _seen(
        self,
        views: list[StreamView],
        windows: tuple[WindowClause, ...],
        joined: bool,
        key: object,
        by_window: dict[object, Group | PSoupError],
    ) -> list[Reach]:
        """The tuples of each source that the queries see."""
        try:
            if joined:
                seen = self.question.seen(views, windows)
            else:
                seen = [self.question.seen_of_one(views[0], windows[0])]
        except PSoupError as problem:
            by_window[key] = problem
            raise
        return seen

    def lines(self, made: Set, some: slice, limit: int) -> Lines:
        """The rows of some queries of a set as references, charged to the room. Raises TooManyPairs."""
        places, sqc_ids, part = made.alike.places[some], made.alike.sqc_ids[some], made.seen[0]
        if made.joined is not None:
            limit = self.room.pairs(limit, JOINED_BYTES)
            pairs = made.joined.found([clauses[some] for clauses in made.sides], limit, self.room)
            if made.shape is not None:
                return self._grouped(made, made.shape, places, pairs, limit)
            return Lines(made, places[pairs.queries], pairs.rows[0], pairs=pairs, errors=pairs.errors)
        if made.folds is not None:
            return self._folded(made, made.folds, places, sqc_ids, limit)
        clauses, back = distinct_ids(sqc_ids)
        together = Together(self.snapshot, part.view, clauses, self.budget)
        assert made.shape is not None
        gathered, shape = MatchBuffer(self._reading(made), len(clauses)), made.shape
        limit = self.room.pairs(limit, _PAIR_BYTES)
        for matches in together.found(*part.range[:2], limit):
            self.room.hold(_PAIR_BYTES * len(matches.pairs.which))
            gathered.add(matches)
            if gathered.count > limit:
                raise TooManyPairs
        return self._of_each(made, places, self._shown(made, shape, gathered), back, limit, gathered.group)

    def _grouped(self, made: Set, shape: PlanShape, places: Array, pairs: QueryPairs, limit: int) -> Lines:
        """The groups of joins, for the queries at `places`. Raises TooManyPairs."""
        assert shape.node is not None
        reading = self._reading(made)
        reading.joins = self.snapshot.config.joins
        gathered = by_query(pairs, made.alike.plan, len(places), reading)
        try:
            answers = ranked(shape, shape.node, gathered, reading)
        except TooMuchText as problem:
            raise TooManyPairs from problem
        line = self._of_each(made, places, answers, None, limit, [])
        line.errors += pairs.errors
        return line

    def _folded(self, made: Set, folds: ManyFolds, places: Array, sqc_ids: Array, limit: int) -> Lines:
        """The aggregates of the queries at `places`. A query that would read too much on disk becomes a failure."""
        clauses, back = distinct_ids(sqc_ids)
        together, part = Together(self.snapshot, made.seen[0].view, clauses, self.budget), made.seen[0]
        reading, measures = self._reading(made), folds.node.measures
        pairs = self.room.pairs(limit, _PAIR_BYTES)
        try:
            states = folded(measures, together, part.range.low, part.range.high, pairs, reading)
        except BeyondArchive as beyond:
            out = beyond.clauses if back is None else beyond.clauses[back]
            if out.all() or not out.any():
                raise beyond.problem from None
            lines = self._folded(made, folds, places[~out], sqc_ids[~out], limit)
            lines.failed.append(Failed(beyond.problem.with_traceback(None), places[out]))
            return lines
        return self._of_each(made, places, states.shown(folds), back, limit, [])

    def _shown(self, made: Set, shape: PlanShape, gathered: MatchBuffer) -> ShownRows:
        """The rows of the answers, from the matches or from their groups. Raises TooManyPairs."""
        reading = self._reading(made)
        size = gathered.count * row_bytes(made.alike.plan.schema)
        whole = size <= _WHOLE_BYTES and all(chunk.in_memory for chunk, _ in gathered.group)
        gathered.placed()
        try:
            if shape.node is not None:
                return ranked(shape, shape.node, gathered, reading)
            return arranged(shape, gathered, reading, whole)
        except TooMuchText as problem:
            raise TooManyPairs from problem

    def _of_each(
        self,
        made: Set,
        places: Array,
        answers: ShownRows,
        back: Array | None,
        limit: int,
        group: list[tuple[Chunk, Array]],
    ) -> Lines:
        """The rows of each query, from the rows of its clause. `back`: the clause of each query.

        `back` is None if each clause has one query, in the same order.
        """
        counts, rows, columns, errors, hidden = answers
        if back is not None:
            more = _spread(counts, back, limit)
            self.room.hold(16 * len(more) + sum([column.bytes_at(more) for column in columns]))
            counts, errors, hidden = counts[back], errors[back], hidden[back]
            rows, columns = None if rows is None else rows[more], [column.take(more) for column in columns]
        starts = starts_of(counts)
        self.room.hold(8 * int(starts[-1]))
        place_of_row = np.empty(starts[-1], np.int64)
        spread_names(places, starts, place_of_row)
        reading = self._reading(made)
        reading.count(columns)
        line = Lines(made, place_of_row, place_of_row if rows is None else rows, group, errors=int(errors.sum()))
        line.columns = list(columns) if rows is None else None
        line.select_errors = reading.errors + int(hidden.sum())
        return line

    def _reading(self, made: Set) -> Reading:
        config, groups = self.snapshot.config, self.snapshot.groups_of(self.tenant)
        now = made.group.initial.now
        return Reading([], now, self.texts, self.budget, config.sort_rows, groups=groups, room=self.room)

    def rows(self, line: Lines, low: int, high: int, limit: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows [low, high) of a set, gathered and computed, at most `limit` at once."""
        if line.columns is not None:
            for start in range(low, high, limit):
                some = slice(start, min(start + limit, high))
                arrays = [_arrow(column.slice(some.start, some.stop)) for column in line.columns]
                yield placed(line.places[some], arrays, schema)
            return
        outputs = [output.expr for output in line.query_set.alike.plan.schema]
        completeness, group = line.query_set.group.initial, line.query_set.group
        reading = self._reading(line.query_set)
        if line.pairs is not None:
            reading.joins = self.snapshot.config.joins
            for columns in line.pairs.columns(line.query_set.alike.plan, low, high, limit, reading):
                reading.count(columns)
                yield placed(line.places[low : low + len(columns[0])], list(map(_arrow, columns)), schema)
                low += len(columns[0])
            high = low
        chunks = [chunk for chunk, _ in line.group]
        tuple_ids = ids_of(line.group) if line.group else _NOTHING
        while low < high:
            ids = tuple_ids[line.rows[low : min(low + limit, high)]]
            try:
                for columns in by_ids(outputs, chunks, ids, completeness.now, self.texts, self.budget):
                    reading.count(columns)
                    places = line.places[low : low + len(columns[0])]
                    low += len(columns[0])
                    yield placed(places, list(map(_arrow, columns)), schema)
            except ResourceExhausted as problem:  # the row at `low` alone is too large
                low = line.refuse(low, problem)
        group.select_errors += reading.errors

    def compute(self, line: Lines) -> None:
        """Compute the columns of all rows of a set at once, if they are small and the chunks are in memory."""
        schema, reading = line.query_set.alike.plan.schema, self._reading(line.query_set)
        large = len(line.rows) * row_bytes(schema) > _WHOLE_BYTES
        computed = line.columns is not None or line.pairs is not None
        if large or computed or not line.group or not all(chunk.in_memory for chunk, _ in line.group):
            return
        try:
            outputs = [output.expr for output in schema]
            columns = computed_at_once(outputs, line.group, reading.now, reading.texts, self.budget)
            self.room.hold(sum([column.nbytes + column.bytes_at(line.rows) for column in columns]))
        except (TooMuchText, TooManyPairs, ResourceExhausted):  # computed row by row, the problem shows its query
            return
        line.columns = [column.take(line.rows) for column in columns]
        reading.count(line.columns)
        line.query_set.group.select_errors += reading.errors

    def invoke(self, query_id: int) -> Answer:
        """The answer of one query."""
        return answer_of_record(self.snapshot, self.snapshot.query(query_id, self.tenant), self.question)


def _spread(counts: Array, back: Array, limit: int) -> Array:
    """The rows of each query, int64. `counts`: rows of each clause; `back`: the clause of each query.

    Raises TooManyPairs above `limit`: many queries may have a clause with many matches.
    """
    rows_of_query, starts = counts[back], np.cumsum(counts) - counts
    if int(rows_of_query.sum()) > limit:
        raise TooManyPairs
    return np.repeat(starts[back] - (np.cumsum(rows_of_query) - rows_of_query), rows_of_query) + np.arange(
        int(rows_of_query.sum())
    )


def _arrow(column: Column) -> pa.Array:
    array = column.to_arrow()
    return array.cast(pa.string()) if column.type.kind is Kind.TEXT else array


def placed(places: Array, columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of rows, with the places of their queries as first column."""
    return pa.RecordBatch.from_arrays([pa.array(places, pa.int64()), *columns], schema=schema)
