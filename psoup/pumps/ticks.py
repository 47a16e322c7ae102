"""The pump of a derived stream with EVERY: it compares the answers of the SELECT at successive instants.

    ticks      0 d         1 d         2 d         3 d        the multiples of d since 1970
    answers    R(0)        R(1)        R(2) = R(1)            3 d is not closed yet
    pushed                 R(1) - R(0)  ISTREAM               DSTREAM: R(0) - R(1); RSTREAM: R(1), and R(2) again

Where a window has several ticks, the changes from tick to tick are followed instead (`psoup.pumps.spans`). The rows
are the same.

The answer at the last tick, or the state, is kept in memory only. After a restart it is rebuilt from the tuples
that the pins of the stream keep (`psoup.sql.derived_ticks.tick_width`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from psoup.derivation import StreamOperator
from psoup.events.commands import PushDerived
from psoup.execution.relations.row_numbers import RowNumbers, rows_within
from psoup.model import TIMESTAMP, Attribute
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps import pump
from psoup.pumps.extents import FAR, Extent, next_extent
from psoup.pumps.form import Form
from psoup.pumps.instants import Promise, closed_instant
from psoup.pumps.kept_state import check_state
from psoup.pumps.operators import Binding
from psoup.pumps.pump import Pump
from psoup.pumps.rows import DerivedRows, no_rows
from psoup.pumps.tick_answers import NO_ANSWER, Marks, TickAnswer, answer_at, first_time
from psoup.values.columns import Array, Batch, Column, concat_columns, empty_column
from psoup.work.read_budget import ReadBudget

MOST_READ = 1_000_000
"""The most tuples in the windows that one step evaluates, unless one tick has more."""
MOST_ANSWERS, MOST_TICKS = 64, 1_024
"""The maximum number of answers that one step evaluates, and of ticks for which it pushes rows."""


class _Gathered:
    """The rows of the ticks of one step."""

    def __init__(self) -> None:
        self.ticks = self.answers = self.read = 0
        """The ticks that are done, the answers that were evaluated for them, and the tuples in their windows."""
        self._errors = self._unknown = self._nbytes = 0
        self._parts = list[tuple[int, Sequence[Column]]]()

    def note(self, answer: TickAnswer) -> None:
        """Count what an answer has read, and its errors."""
        self.answers += 1
        self.read += answer.read
        self._errors += answer.errors
        self._unknown += answer.unknown

    def is_full(self, share: int) -> bool:
        """Whether the step has enough ticks, answers or tuples. `share`: the most ticks."""
        return self.ticks >= min(share, MOST_TICKS) or self.answers >= MOST_ANSWERS or self.read >= MOST_READ

    def take(self, tick: int, columns: Sequence[Column]) -> bool:
        """Add the rows of a tick. Returns False, and adds nothing, if the step would have too many bytes."""
        rows = len(columns[0]) if columns else 0
        nbytes = sum(column.nbytes for column in columns) + 8 * rows
        if self._parts and self._nbytes + nbytes > pump.MOST_BYTES:
            return False
        self.ticks += 1
        if rows:
            self._nbytes += nbytes
            self._parts.append((tick, columns))
        return True

    def rows(self, attributes: Sequence[Attribute]) -> DerivedRows:
        """All rows, as tuples of the derived stream with these columns."""
        columns = [empty_column(attribute.type) for attribute in attributes]
        instants: Array = np.zeros(0, np.int64)
        if self._parts:
            columns = [concat_columns(of_ticks) for of_ticks in zip(*(part for _, part in self._parts), strict=True)]
            ticks = np.array([tick for tick, _ in self._parts], np.int64)
            instants = np.repeat(ticks, [len(part[0]) for _, part in self._parts])
        batch = Batch((*columns, Column(TIMESTAMP, instants)), instants)
        return DerivedRows(batch, self._errors, self._unknown)


class TickPump(Pump):
    """The pump of one derived stream with EVERY; see the module. Only one thread at a time uses it."""

    def __init__(self, view: StreamView) -> None:
        super().__init__(view)
        assert self._derived.every is not None
        self.every: int = self._derived.every

    def step(
        self, snapshot: Snapshot, promised: Promise, budget: ReadBudget, *, instant: bool = False
    ) -> PushDerived | None:
        """As `Pump.step`. A stream FROM START has no position before its first tick."""
        if self._reached is None and not self._unpushed:
            form = self._bound(snapshot)
            views = self._views(form, snapshot)
            closed = closed_instant(views, promised.at)
            if closed is None or self._next(Marks(form, views), None, closed) is None:
                return None
        return super().step(snapshot, promised, budget, instant=instant)

    @property
    def _last(self) -> TickAnswer:
        """The latest answer. It is the answer at all ticks with its mark."""
        return self._kept.answer

    def _next_change(self, form: Form, views: Sequence[StreamView], at: int | None) -> int | None:
        """The next tick that may have rows, if it is after `at`, the last closed instant. None without one.

        Only tuples that have come can change an answer. So a quiet derived source does not log ticks without a change.
        """
        tick = self._next(Marks(form, views), self._before, FAR)
        return None if tick is None or (at is not None and tick <= at) else tick

    def _has_new(self, form: Form, views: Sequence[StreamView], at: int) -> bool:
        return self._next(Marks(form, views), self._before, at) is not None

    def rest(self, now: int) -> int | None:
        """The microseconds from `now` to the next tick that the clock alone closes. None if it closes none."""
        return None if self._derived.event_time else self.every - now % self.every

    @property
    def _before(self) -> int | None:
        """The last tick that the pump has passed. None before the first one."""
        return None if self._reached is None else self._reached // self.every * self.every

    def _next(self, marks: Marks, before: int | None, at: int) -> int | None:
        """The next tick that may have rows, after the tick `before`, up to the instant `at`. None if there is none."""
        if before is None:
            begins = first_time(marks.form, marks.views)
            tick = at + 1 if begins is None else -(-begins // self.every) * self.every
            return tick if tick <= at else None
        last = at // self.every * self.every
        if last <= before:
            return None
        mark = marks.at(before)
        if self._derived.operator is StreamOperator.RSTREAM and (self._last.rows or self._last.mark != mark):
            return before + self.every
        return _first_other(lambda tick: marks.at(tick) == mark, before, last, self.every)

    def _rows(
        self, form: Form, views: Sequence[StreamView], closed: int, snapshot: Snapshot, budget: ReadBudget
    ) -> tuple[Extent, DerivedRows]:
        """The extent and the rows of a step. Their bytes are at most `MOST_BYTES`, apart from one tick's."""
        if form.binding is not None:
            return self._followed(form, form.binding, views, closed, snapshot, budget)
        self._begin(form, self._before)
        marks, gathered, before, at = Marks(form, views), _Gathered(), self._before, closed
        while (tick := self._next(marks, before, closed)) is not None:
            at = tick - 1
            if gathered.is_full(self._share):
                break
            columns = self._pushed(marks, snapshot, before, tick, gathered, budget)
            if not gathered.take(tick, columns):
                break
            before, at = tick, closed
        self._kept.answered(form, at // self.every * self.every)
        return _extent(form, views, self._reached, at), gathered.rows(self._spec.declared)

    def _followed(
        self,
        form: Form,
        binding: Binding,
        views: Sequence[StreamView],
        closed: int,
        snapshot: Snapshot,
        budget: ReadBudget,
    ) -> tuple[Extent, DerivedRows]:
        """As `_rows`, from the rows of the parts that enter and leave between the ticks. O(these rows)."""
        after, last = self._before, closed // self.every * self.every
        if self._next(Marks(form, views), after, closed) is None:
            self._kept.pass_by(form, after, last)
            return _extent(form, views, self._reached, closed), DerivedRows(no_rows(self._spec), 0, 0)
        extent = next_extent(form, views, after, last, self._share)
        rows = self._with_state(form, binding, views, extent, snapshot, budget)
        return _extent(form, views, self._reached, closed if extent.at == last else extent.at), rows

    def _pushed(
        self, marks: Marks, snapshot: Snapshot, before: int | None, tick: int, gathered: _Gathered, budget: ReadBudget
    ) -> Sequence[Column]:
        """The rows that are pushed at a tick."""
        operator, state, past = self._derived.operator, self._kept, NO_ANSWER

        def answer(at: int) -> TickAnswer:
            made = answer_at(marks, self._spec, snapshot, self.tenant, at, budget)
            check_state(self._spec, made.nbytes)
            self._check_state(snapshot, made.nbytes)
            return made

        if operator is not StreamOperator.RSTREAM:
            before = tick - self.every if before is None else before  # the answer over no tuples
            past = state.answer = state.answer if state.answer.mark == marks.at(before) else answer(before)
        if state.answer.mark != marks.at(tick):
            state.answer = answer(tick)
            gathered.note(state.answer)
        match operator:
            case StreamOperator.RSTREAM:
                return state.answer.columns
            case StreamOperator.ISTREAM:
                left, right = state.answer, past
            case StreamOperator.DSTREAM:
                left, right = past, state.answer
        return difference(left, right, budget, snapshot.config.sort_rows)


def difference(left: TickAnswer, right: TickAnswer, budget: ReadBudget, limit: int) -> Sequence[Column]:
    """The rows of `left` without the rows of `right`, as EXCEPT ALL: in the order of `left`, the first of equal rows.

    No columns if there is no row. `limit`: the most different rows. Raises ResourceExhausted beyond it.
    """
    if not left.rows or not right.rows:
        return left.columns if left.rows else ()
    numbers = RowNumbers([column.type for column in left.columns], budget, limit, "the difference of two answers")
    try:
        counts = np.bincount(numbers.of(right.columns))
        places = numbers.of(left.columns).copy()
        quota = np.bincount(places, minlength=numbers.count)
        quota[: len(counts)] -= counts
        rows = rows_within(places, quota, budget)
    finally:
        numbers.close()
    return [column.take(rows) for column in left.columns] if len(rows) else ()


def _first_other(same: Callable[[int], bool], before: int, last: int, every: int) -> int | None:
    """The first tick after `before`, up to `last`, for which `same` is false. None if there is none.

    `same` must stay false after this tick. O(log(ticks before the result)) calls.
    """
    if same(last):
        return None
    low, ahead = before, every
    while low + ahead < last and same(low + ahead):
        low, ahead = low + ahead, 2 * ahead
    high = min(low + ahead, last)
    while high - low > every:
        middle = low + (high - low) // every // 2 * every
        low, high = (middle, high) if same(middle) else (low, middle)
    return high


def _extent(form: Form, views: Sequence[StreamView], after: int | None, at: int) -> Extent:
    """The extent of a step: its new tuples are those at instants after `after`, up to `at`."""
    base, target = [], []
    for place, view in enumerate(views):
        timeline, low, high = view.timeline(), view.first_id, view.next_id
        old = low if after is None else max(low, timeline.through(after))
        if form.is_timeless(place):
            old = high
        else:
            high = max(old, timeline.through(at))
        base.append((low, old))
        target.append((low, high))
    return Extent(after, at, tuple(base), tuple(target))
