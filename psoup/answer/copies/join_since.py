"""Change of a copy of a join: the rows in the box of the windows now, less the rows in the box that the client holds.

    windows now = target       held = kept        steps 0, 1, 2 …, each a box      rows of each, in FROM order
                                                  └─ a page may end in any step; the token then has target, step and
                                                     row, and the next page goes on there, cut by its own windows

Each side reads only the tuples of a step: the cost is a join of the new tuples with the windows. This works for
joins whose answer is all pairs: without aggregates, DISTINCT and LIMIT. With ORDER BY, rows travel with their keys, and
the client sorts. `paired` recognises such joins.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from psoup.answer.answer import Answer, Matched
from psoup.answer.completeness import Completeness, part_of
from psoup.answer.copies.expiry import joined_ageing
from psoup.answer.copies.id_boxes import Box, Ids, behind, check, cut, slices, steps
from psoup.answer.question import Question
from psoup.execution.join.located_side import found_sides
from psoup.execution.plan import Reading
from psoup.execution.rows.record_batch import Message, read, row_bytes
from psoup.execution.select.match_forms import Matches
from psoup.execution.select.window import Reach
from psoup.expressions.civil import LAST_MICRO
from psoup.expressions.tree import ID_INDEX, TIME_INDEX, AttributeRef, reads_now
from psoup.model import BIGINT, ID_COLUMN, TIME_COLUMN, TIMESTAMP
from psoup.plan.nodes import Join, JoinKind, Node, OrderKey, Output, PartnerJoin, Project, Sort, Source
from psoup.plan.plan_facts import plan_fact
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array
from psoup.work.read_budget import ReadBudget

_SLICE = 4_096
"""The smallest size of the first slice of a box, in tuples of the first source.

A page may need few rows. For a small slice, the join looks these few tuples up in the other sources, and need not read
those sources as a whole.
"""
_SMALL = 65_536
"""The most bytes of the batch that `any_leaves` reads to see whether a box has a row."""


@dataclass(frozen=True, slots=True)
class BoxJoin:
    """A join whose answer is all rows of a box of tuple IDs.

    `plan` shows the tuple IDs of all `sources`, `_time` of the sources `timed`, then the columns of the query. The
    keys of ORDER BY (`order`) come last.
    """

    plan: Project
    order: tuple[OrderKey, ...]
    sources: int
    timed: tuple[int, ...]


class StepPlace(NamedTuple):
    """The end of a page: its last row, and the step of that row."""

    step: int
    row: Ids


@dataclass(frozen=True, slots=True)
class HeldBox:
    """The rows that a client holds. Without a `place`, these are all rows of `target`.

    With a `place`, these are the rows of `kept`, a box within `target`, and the rows of the steps up to `place`.
    """

    target: Box
    kept: Box = ()
    place: StepPlace | None = None

    def within(self, windows: Box) -> HeldBox:
        """The held rows that lie in the windows."""
        target = cut(self.target, windows)
        return HeldBox(target) if self.place is None else HeldBox(target, cut(self.kept, target), self.place)

    def check(self) -> None:
        """Raise Corrupt unless the kept box lies within the target."""
        check(self.target if self.place is None else self.kept, self.target)


@plan_fact
def paired(plan: Node, timed: tuple[int, ...] = ()) -> BoxJoin | None:
    """The form in which rows of a join travel. Returns None if the answer of the join is not all rows of a box.

    `timed`: the places of the sources whose times travel with the rows.
    """
    order, node = tuple[OrderKey, ...](), plan
    if isinstance(node, Sort):
        order, node = node.keys, node.input
    if not isinstance(node, Project) or not _has_boxes(node.input):
        return None
    if any(reads_now(expr) for expr in [*[o.expr for o in node.outputs], *[key.expr for key in order]]):
        return None
    places = range(len(node.sources))
    ids = [Output(f"_id{place + 1}", AttributeRef(BIGINT, ID_INDEX, ID_COLUMN, place)) for place in places]
    times = [Output(TIME_COLUMN, AttributeRef(TIMESTAMP, TIME_INDEX, TIME_COLUMN, place)) for place in timed]
    hidden = [Output(f"_key{place}", key.expr) for place, key in enumerate(order)]
    return BoxJoin(Project(node.input, (*ids, *times, *node.outputs, *hidden)), order, len(ids), timed)


def _has_boxes(node: Node) -> bool:
    """Whether the rows of a node are all its rows in a box of tuple IDs, for each box.

    The version that a tuple meets AS OF its time never changes. The watermark of a table in system time is the clock.
    A tuple of an event-time stream that states AHEAD may be later.
    """
    if isinstance(node, PartnerJoin):
        table, streams = node.right.sources[0].spec, [source.spec for source in node.left.sources]
        ahead = not table.event_time and any(spec.event_time and spec.ahead_stated for spec in streams)
        return node.kind is JoinKind.AS_OF and not ahead and (isinstance(node.left, Source) or _has_boxes(node.left))
    streams_only = isinstance(node, Join) and node.joins_streams
    return streams_only and all(source.spec.table is None for source in node.sources)


def boxed(snapshot: Snapshot, record: QueryRecord, question: Question) -> bool:
    """Whether the rows of a join for which `paired` is not None travel by boxes now. O(sources).

    A version may be lost by HISTORY, and its rows with it. So all tuples must be later than the lost versions.
    """
    if all(source.as_of is None for source in record.query.sources):  # nearly always
        return True
    seen = question.seen(snapshot.views_of(record), question.windows(record.query))
    for part, source in zip(seen, record.query.sources, strict=True):
        if source.as_of is not None:
            met = seen[source.as_of]
            low, high = met.range.low, met.range.high
            if low < high and met.view.timeline().time_of(low) < part.view.lost_before:
                return False
    return True


class StepRows(NamedTuple):
    """Rows of a step that the client lacks, in FROM order. `kept`, `target`: the boxes between which the step lies.

    `size`: approximate bytes of the rows as Arrow.
    """

    kept: Box
    target: Box
    step: int
    rows: pa.RecordBatch
    size: int


class JoinedSince:
    """The change of an answer, which the caller reads in pieces. The rows within the box `keep` stay; all other rows
    leave.

    A reader may stop after any row. `held_after` then describes the rows that the client holds.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        record: QueryRecord,
        held: HeldBox | None,
        seen: Sequence[Reach],
        budget: ReadBudget,
    ) -> None:
        """`held`: the rows that the client holds; None for a client without rows. `seen`: the current window of each
        source.
        """
        versions = any(source.as_of is not None for source in record.query.sources)  # NOW is behind the table's
        self.ages = None if versions else joined_ageing([p.view.spec for p in seen], [p.window for p in seen])
        """The expiry of the rows; None if it is not known."""
        widths = () if self.ages is None else self.ages.widths
        self._widths = [(place, width) for place, width in enumerate(widths) if width is not None]
        how = paired(record.query.plan, tuple([place for place, _ in self._widths]))
        assert how is not None, "rows of other answers have no box"
        self.how = how
        self._snapshot = snapshot
        self._record = record
        self._budget = budget
        sides = zip(seen, snapshot.sides_of(record), strict=True)
        self._sides: list[Matched] = [(part.view, snapshot.clause(side.sqc_id)) for part, side in sides]
        self._windows: Box = tuple([(part.range.low, max(part.range.low, part.range.high)) for part in seen])
        self._before = held or HeldBox(tuple([(low, low) for low, _ in self._windows]))
        self._held = self._before.within(self._windows)
        parts = tuple([part_of(snapshot, part) for part in seen])
        self.completeness = Completeness(snapshot.sequence, seen[0].now, 0, parts)
        self.select_errors = 0
        """Values of the SELECT list that could not be computed, in the rows read so far."""

    @property
    def keep(self) -> Box:
        """The box whose rows stay; all other rows leave."""
        return self._held.target

    @property
    def all_held(self) -> HeldBox:
        """The rows that the client holds after all pieces."""
        return HeldBox(self._windows)

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of all rows: tuple IDs, `_time` if rows expire, columns of the query, keys of ORDER BY."""
        fields = list(self._answer([[] for _ in self._sides], self._windows).schema)
        ids, timed = self.how.sources, len(self._widths)
        return pa.schema([*fields[: ids + min(timed, 1)], *fields[ids + timed :]])

    @property
    def hidden(self) -> int:
        """The number of columns before the columns of the query."""
        return self.how.sources + min(len(self._widths), 1)

    @property
    def came(self) -> int:
        """Tuples of the windows that are not in `keep`."""
        return _size(self._windows) - _size(self.keep)

    def pieces(self, max_rows: int, max_bytes: int) -> Generator[StepRows, None, None]:
        """Yield the rows that the client lacks, at most `max_rows` and about `max_bytes` at a time."""
        first = max(_SLICE, 2 * min(max_bytes // row_bytes(self.how.plan.schema), max_rows))
        for base, target, step, box in self._steps():
            for part in slices(box, first):
                answer, before = self._joined(part), self.select_errors
                for rows, size in _batches(answer, max_rows, max_bytes):
                    self.select_errors = before + answer.select_errors
                    yield StepRows(base, target, step, self._with_one_time(rows), size)

    def held_after(self, piece: StepRows, rows: int) -> HeldBox:
        """The rows that the client holds after the pieces before `piece`, and its first `rows` rows, at least one."""
        last = [piece.rows.column(place)[rows - 1].as_py() for place in range(self.how.sources)]
        return HeldBox(piece.target, piece.kept, StepPlace(piece.step, tuple(last)))

    def _with_one_time(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with one `_time` in place of the times of all tuples.

        That time is the instant at which the first tuple of the row leaves its window.
        """
        ids, timed = self.how.sources, len(self._widths)
        if not timed:
            return rows
        leave_times: Array = np.full(rows.num_rows, LAST_MICRO)
        for column, (_, width) in zip(rows.columns[ids : ids + timed], self._widths, strict=True):
            times = column.view(pa.int64()).to_numpy()
            np.minimum(leave_times, np.minimum(times, LAST_MICRO - width) + width, out=leave_times)
        time = pa.array(leave_times).view(self.schema.field(ids).type)
        return pa.RecordBatch.from_arrays([*rows.columns[:ids], time, *rows.columns[ids + timed :]], schema=self.schema)

    @property
    def knows_leaving(self) -> bool:
        """Whether the streams still keep all tuples of the rows that leave."""
        target = self._before.target
        if self._before.place is not None:
            return False
        for _, box in steps(target, cut(self.keep, target)):
            for (view, _), (low, high), source in zip(self._sides, box, self._record.query.sources, strict=True):
                if source.as_of is None:
                    is_lost = low < min(view.first_id, high)
                else:
                    met, first = self._sides[source.as_of][0], box[source.as_of][0]
                    is_lost = met.timeline().time_of(first) < view.lost_before
                if is_lost:
                    return False
        return True

    @property
    def shown(self) -> slice:
        """The places of the query's columns in the rows of `leaving`."""
        first = self.how.sources + len(self._widths)
        return slice(first, first + len(self._record.query.plan.schema))

    def leaving(self, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows that leave a client without a `place`, if `knows_leaving`."""
        target = self._before.target
        for _, box in steps(target, cut(self.keep, target)):
            for rows, _ in _batches(self._joined(box), max_rows, max_bytes):
                yield rows

    def any_leaves(self) -> bool:
        """Whether a row of the client may leave. A tuple on disk counts as a row, and is not read."""
        before = self._before.target
        for _, box in steps(before, cut(self.keep, before)):
            if any(low < view.hot_id for (view, _), (low, _) in zip(self._sides, box, strict=True)):
                return True
            if next(_batches(self._joined(box), 1, _SMALL), None) is not None:
                return True
        return False

    def _steps(self) -> Iterator[tuple[Box, Box, int, Box]]:
        """Yield the boxes of rows that the client lacks: first the rest of its unfinished change, then the steps to the
        windows.

        Each item is (kept box, target box, number of the step, box of rows).
        """
        base, target, place = self._held.kept, self._held.target, self._held.place
        if place is not None:
            for step, box in steps(target, base):
                rest = [box] if step > place.step else behind(box, place.row) if step == place.step else ()
                yield from ((base, target, step, part) for part in rest)
        for step, box in steps(self._windows, target):
            yield target, self._windows, step, box

    def _joined(self, box: Box) -> Answer:
        """The rows of a box."""
        snapshot, config, budget = self._snapshot, self._snapshot.config, self._budget
        wanted = [(*side, low, high) for side, (low, high) in zip(self._sides, box, strict=True)]
        budget.window = sum(high - low for low, high in box)
        budget.check()
        return self._answer(found_sides(wanted, snapshot.run, config.archive_rows, budget, config.texts), box)

    def _answer(self, matches: Sequence[Sequence[Matches]], box: Box) -> Answer:
        snapshot, config = self._snapshot, self._snapshot.config
        groups = snapshot.groups_of(self._record.tenant)
        limits = (config.sort_rows, config.joins, groups, snapshot.run, self._sides[0][0].keys)
        reading = Reading(matches, self.completeness.now, config.texts, self._budget, *limits)
        streams = [view.stream_id for view, _ in self._sides]
        return Answer(self._record, self.completeness, reading, streams, box, self.how.plan)


def joined_since(
    snapshot: Snapshot,
    record: QueryRecord,
    held: HeldBox | None,
    question: Question,
) -> JoinedSince:
    """The change of a copy of a join, for which `paired` is not None. `held`: the rows of the client; None for no rows.

    Raises the errors of `psoup.answer.invoke.invoke`. Some of them arise only when the caller reads the pieces.
    """
    views = snapshot.views_of(record)
    seen = question.seen(views, question.windows(record.query))
    return JoinedSince(snapshot, record, held, seen, question.budget)


def _batches(answer: Answer, max_rows: int, max_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    for part in answer.messages(max_rows, max_bytes):
        if isinstance(part, Message):
            yield read(part.gathered(), answer.schema), part.size
        else:
            yield part, part.nbytes


def _size(box: Box) -> int:
    return sum(high - low for low, high in box)
