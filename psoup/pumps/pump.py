"""A pump: it has the position of a derived stream in its sources, and makes its next step.

    due       are there tuples at instants that are closed, or that a promise would close?
    step      the rows of the next instants; None if there are none: then only the position moves
    pushed    the rows are logged, and with them the position

The durable position is the watermark of the derived stream, which is logged with the rows in one event. The pump may
have read further without finding rows. After a restart it reads these tuples again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from psoup.derivation import Halt
from psoup.errors import NotFound, PSoupError
from psoup.events.commands import PushDerived
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.equal_plans import SharedStep
from psoup.pumps.extents import Extent, has_new, next_change, next_extent
from psoup.pumps.form import Form
from psoup.pumps.instants import NO_PROMISE, Promise, closed_instant, promise_at
from psoup.pumps.plan_member import PlanMember
from psoup.pumps.progress import Counts, Progress
from psoup.pumps.push_parts import halves, parted
from psoup.pumps.rows import DerivedRows, rows_of_step
from psoup.work.read_budget import ReadBudget

MOST_TUPLES = 8_192
"""The most new tuples of streams in one step, unless one instant has more, or the pump is behind."""
BEHIND = 8
"""The most steps that a pump takes at once when it is behind, as each push has a fixed cost."""
MOST_BYTES = 32 * 2**20
"""The most bytes of rows in one step, unless one instant has more."""


class Due(NamedTuple):
    """A step that is due. `promise`: the sources in system time. Their instants up to now must be closed first.

    `instant`: whether to log the last closed instant even without rows.
    """

    promise: tuple[int, ...]
    instant: bool = False


class Pump(PlanMember):
    """The pump of one derived stream; see the module. Only one thread at a time uses it."""

    def __init__(self, view: StreamView) -> None:
        super().__init__(view)
        self._durable = self._reached = view.watermark
        self._counts = self._logged = Counts()
        """The counts up to the present position, and up to the durable one. After a chunk of tuples between the
        two the position is logged, as sources keep chunks until then.

        With a table whose times say nothing about instants, the position is logged with each step. Then a version that
        comes later adds no row, even after a restart."""
        self._share = MOST_TUPLES
        """The most new tuples in the next step: fewer after a step that was too large, more after a small one."""
        self._new = 0
        """The number of new tuples that the last step read."""
        self._was_too_large = False
        """Whether the last step was too large. Then a step of another stream is taken only if it is small enough."""
        self._first_ids = dict[int, int]()
        """For each source the least tuple ID so far. Attached history has smaller IDs."""
        self.promises = dict[int, Promise]()
        """The last promise for each source in system time, by stream ID. All pumps share it."""
        self.behind = False
        """Whether closed tuples were left after the last step."""
        self.pushed_at = 0
        """The sequence of the last push. 0 before the first one."""
        self._passes = 0
        """The sequence of the last event that the pump will have passed when all parts of its step are logged."""
        self.passed = 0
        """The sequence of the last event up to which this pump has read all closed tuples."""
        self.rows = 0
        """The rows pushed since the start."""
        self.halt: Halt | None = None
        """Why the pump does not run, as of the last snapshot that it has seen. None if it runs."""
        self._unpushed = list[PushDerived]()
        """The parts of the last step that are not pushed yet. They are pushed without being made again."""

    @property
    def reached(self) -> int | None:
        """The instant up to which the pump has looked at its sources. None at the beginning."""
        return self._reached

    @property
    def _position(self) -> int | None:
        return self._reached

    @property
    def progress(self) -> Progress:
        """The counts of the pump, for its status."""
        tuples, errors, unknown = self._counts
        reached = self._durable if self.holds else self._reached
        counts = reached, tuples, self.rows, errors, unknown
        states = self.state_rows, self.state_bytes, self.rebuilding
        behind = self.behind or self.holds
        return Progress(*counts, *states, state_bound=self._state_bound, behind=behind, equal=self.equal)

    def runs(self, snapshot: Snapshot) -> bool:
        """Whether the pump is neither suspended nor stopped. After a RESUME it begins at the durable position."""
        view = snapshot.by_id.get(self.stream_id)
        if view is None or view.spec.derived is None:
            return True
        before, self.halt = self.halt, view.spec.derived.halt
        if before is not None and self.halt is None:
            self.again(view)
        if before is None and self.halt is not None:  # after RESUME the state is rebuilt
            self._unpushed = []
            self._share_nothing()
            self._lose_state()
        if self.halt is not None:
            with suppress(PSoupError):  # a source was dropped, or the step says why after RESUME
                self._bound(snapshot)  # equal streams use its part of the memory
        return self.halt is None

    def again(self, view: StreamView) -> None:
        """Go back to the watermark of the stream (`view`), for example after the sequencer has refused a step."""
        self._durable = view.watermark
        self.back()

    def back(self) -> None:
        """Go back to the last position that is known to be durable, and read again from there.

        Until the next step is due, no steps of equal streams are held for it.
        """
        if self._reached != self._durable:
            self._lose_state()
        self._reached, self._counts = self._durable, self._logged
        self._unpushed = []
        self._share_nothing()

    def give_up(self) -> None:
        """Go back, and keep no state. A stream that is about to stop takes no room from other ones so."""
        self.back()
        self._lose_state()

    def hold(self, command: PushDerived, snapshot: Snapshot) -> None:
        """Keep the rows of a step that found no room in memory, in two halves.

        If they do not fit, and the query has no state, they are dropped. Then the next step is smaller. Otherwise
        raises ResourceExhausted, reason STATE_LIMIT. Meanwhile no steps of equal streams are held for it.
        """
        self._share_nothing()
        self._note_state()
        parts = [*halves(command), *self._unpushed[1:]]
        size = sum([part.batch.nbytes for part in parts])
        if self._is_stateless and not self.room.fits(snapshot, self.stream_id, size):
            self.back()
            self._share = max(1, min(self._share, self._new))
            while not self.room.fits(snapshot, self.stream_id, size) and self.shrink():
                size //= 2
            return
        self._check_state(snapshot, self.state_bytes, size)
        self._unpushed = parts

    @property
    def holds(self) -> bool:
        """Whether rows of the last step wait to be pushed."""
        return bool(self._unpushed)

    @property
    def divisible(self) -> bool:
        """Whether a step can be ended early, and repeated with fewer tuples, without rebuilding a state."""
        return self._is_stateless and self._share > 1

    def shrink(self) -> bool:
        """Halve the tuples of the next step, after one that was too large. Returns False if it has only one already."""
        before, self._share, self._was_too_large = self._share, max(1, self._share // 2), True
        return self._share < before

    def calm(self) -> None:
        """Halve the tuples of the next step, after one that took long. It keeps at least half of `MOST_TUPLES`."""
        if self._share > MOST_TUPLES:
            self._share //= 2

    def due(self, snapshot: Snapshot, now: int, *, instant: bool = False, awaited: int | None = None) -> Due | None:
        """The step that is due at the time `now`, or None. `instant`: also a step that only moves the position.

        `awaited`: the instant of a change in a stream over this one. The position is logged as soon as it has reached
        this instant.
        """
        if snapshot.sequence < self.pushed_at or not self.runs(snapshot):
            return None
        try:
            form = self._bound(snapshot)
        except NotFound:  # a source was dropped, and the stream with it
            return None
        except PSoupError:  # the step says why
            return Due(())
        views = self._views(form, snapshot)
        if self._unpushed:
            return Due(())
        if self._plan is not None:
            self._plan.move(self.stream_id, self._reached)
        at = closed_instant(views, promise_at(views, now))
        promise = tuple(dict.fromkeys(view.stream_id for view in views if not view.spec.event_time))
        moves = at is not None and (self._durable is None or at > self._durable)
        waits = moves and awaited is not None and at is not None and at >= awaited
        if waits or (at is not None and self._has_new(form, views, at)):
            return Due(promise, instant=waits)
        self._follow(views, at)
        self.passed = snapshot.sequence
        return Due(promise, instant=True) if instant and moves else None

    def awaits(self, snapshot: Snapshot, now: int) -> int | None:
        """The first instant at which a known tuple enters or leaves, and which is not closed in all sources.

        None if there is no such instant, or if no source is a derived stream.
        """
        if self.halt is not None:
            return None
        try:
            form = self._bound(snapshot)
        except PSoupError:  # a source was dropped, or the step says why
            return None
        views = self._views(form, snapshot)
        if all(view.spec.derived is None for view in views):
            return None
        return self._next_change(form, views, closed_instant(views, promise_at(views, now)))

    def _next_change(self, form: Form, views: Sequence[StreamView], at: int | None) -> int | None:
        """The first instant after `at`, the last closed one, at which a known tuple enters or leaves. None without
        one."""
        return next_change(form, views, at)

    def rest(self, now: int) -> int | None:
        """The microseconds from `now` until a step may become due without a new event. None if none can."""
        return None

    def promised(self, snapshot: Snapshot, stream_ids: Sequence[int]) -> Promise | None:
        """The last promise that holds for all of these sources. None if no step is due up to its instant."""
        form = self._bound(snapshot)
        each = [self.promises.get(stream_id, NO_PROMISE) for stream_id in stream_ids]
        promised = Promise(min(promise.at for promise in each), min(promise.sequence for promise in each))
        views = self._views(form, snapshot)
        at = closed_instant(views, promised.at)
        return promised if at is not None and self._has_new(form, views, at) else None

    def _has_new(self, form: Form, views: Sequence[StreamView], at: int) -> bool:
        """Whether a step up to the instant `at` may have rows."""
        return has_new(form, views, self._reached, at)

    def step(
        self, snapshot: Snapshot, promised: Promise, budget: ReadBudget, *, instant: bool = False
    ) -> PushDerived | None:
        """The push of the next instants. None if they have no rows, and the position need not be logged.

        `promised`: the promise for the sources in system time, made before this snapshot; else `NO_PROMISE`.
        `instant`: log the instant even without rows. Raises the errors of an invocation, and SqlError if the SELECT
        cannot be bound.
        """
        form = self._bound(snapshot)
        views = self._views(form, snapshot)
        if self._unpushed:
            return self._unpushed[0]
        closed = closed_instant(views, promised.at)
        if closed is None or (self._reached is not None and closed < self._reached):  # the clock was set back
            return None
        extent, derived, as_of, self.behind, _ = self._shared(form, views, closed, snapshot, budget)
        self._new = extent.new
        self._counts = self._counts.plus(extent.new, derived.errors, derived.unknown)
        waits = any(not view.spec.event_time for view in views)  # a tuple that came after the promise waits
        self._passes = 0 if extent.at < closed else promised.sequence if waits else snapshot.sequence
        if not len(derived.batch):
            self._was_too_large = False
            self._grow()
            self.passed = max(self.passed, self._passes)
            unpins = self._counts.tuples - self._logged.tuples >= snapshot.config.chunk_rows
            settles = extent.new > 0 and any(map(form.is_timeless, range(len(views))))
            if not (instant or unpins or settles) or extent.at == self._durable:
                return None
        positions = json.dumps({"at": extent.at, "next": [high for _, high in extent.target]}).encode()
        facts = self._durable, extent.at, as_of, positions, self.tenant
        self._unpushed = parted(PushDerived(self.stream_id, derived.batch, *facts), MOST_BYTES)
        return self._unpushed[0]

    def _shared(
        self, form: Form, views: Sequence[StreamView], closed: int, snapshot: Snapshot, budget: ReadBudget
    ) -> SharedStep:
        """Take the step that another stream of the plan has evaluated, or evaluate it. Then the pump is at its end."""
        plan = self._plan
        assert plan is not None, "the form is bound"
        plan.move(self.stream_id, self._reached)
        step = plan.step_from(self._reached, closed, views, self._share if self._was_too_large else None)
        if step is not None:
            self._take_state(step.state)
            self._check_state(snapshot, self.state_bytes)
            self._reached = step.extent.at
        else:
            try:
                extent, rows = self._rows(form, views, plan.end_of(self._reached, closed), snapshot, budget)
            except BaseException:
                self._note_state()  # other pumps may have this state, and it may be lost
                raise
            self._reached = extent.at
            behind = extent.at < closed and self._has_new(form, views, closed)
            self._take_state(plan.common(self._kept))
            step = SharedStep(extent, rows, snapshot.sequence, behind, self._kept)
            plan.hold(step)
        plan.move(self.stream_id, self._reached)
        return step

    def _follow(self, views: Sequence[StreamView], closed: int | None) -> None:
        """Pass the instants without rows that another stream of the plan has passed. So both go on with one state.

        No step up to the instant `closed` has rows.
        """
        plan = self._plan
        while plan is not None and closed is not None:
            step = plan.step_from(self._reached, closed, views)
            if step is None or len(step.rows.batch):
                return
            self._take_state(step.state)
            self._reached = step.extent.at
            self._counts = self._counts.plus(step.extent.new, step.rows.errors, step.rows.unknown)
            plan.move(self.stream_id, self._reached)

    def _rows(
        self, form: Form, views: Sequence[StreamView], closed: int, snapshot: Snapshot, budget: ReadBudget
    ) -> tuple[Extent, DerivedRows]:
        """The extent and the rows of a step. The rows have at most `MOST_BYTES` bytes, unless one instant has more.

        Rows of a step with state may have more. They are pushed in parts, as the state is already at their end.
        """
        extent = next_extent(form, views, self._reached, closed, self._share)
        derived = self._derive(form, views, extent, snapshot, budget)
        while derived.batch.nbytes > MOST_BYTES and self.shrink() and form.binding is None:
            fewer = next_extent(form, views, self._reached, closed, self._share)
            if fewer != extent:
                extent = fewer
                derived = self._derive(form, views, extent, snapshot, budget)
        return extent, derived

    def _derive(
        self, form: Form, views: Sequence[StreamView], extent: Extent, snapshot: Snapshot, budget: ReadBudget
    ) -> DerivedRows:
        if form.binding is None:
            return rows_of_step(form, self._spec, snapshot, self.tenant, extent, budget)
        return self._with_state(form, form.binding, views, extent, snapshot, budget)

    def pushed(self, command: PushDerived, sequence: int) -> None:
        """Record that a step is logged as the event `sequence`."""
        self._durable, self.pushed_at = command.at, sequence
        self._unpushed = self._unpushed[1:]
        if not self._unpushed:
            self._logged, self._was_too_large = self._counts, False
            self.passed = max(self.passed, self._passes)
            self._note_state()
        self.rows += len(command.batch)
        if command.batch.nbytes < MOST_BYTES // 4:
            self._grow()

    def _grow(self) -> None:
        self._share = min(BEHIND * MOST_TUPLES, 2 * self._share)

    def _views(self, form: Form, snapshot: Snapshot) -> list[StreamView]:
        """The views of the sources. If history was attached, goes back to the durable position, without a state."""
        views = form.views(snapshot)
        for view in views:
            first = self._first_ids.setdefault(view.stream_id, view.first_id)
            if view.first_id < first:
                self._first_ids[view.stream_id] = view.first_id
                self.give_up()
        return views
