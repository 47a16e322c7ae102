"""Equal plans: derived streams whose SELECTs have equal plans over the same sources share the work of their steps.

    x   position 10  ──evaluates──> step 10 → 25 ──> push of x        y   position 10 ──takes the step──> push of y
                                     │ rows, state                    z   position 12 ──evaluates──> up to 25
                                     └─ held until no stream is at 10

The rows of a step depend on the log alone. So streams at one position have the same rows, and one state in memory.
A stream at another position evaluates its own step, with a state of its own. The step ends at the position of the
stream that is furthest ahead. Names of columns and of sources do not belong to a plan. Each stream has its own push.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakSet, WeakValueDictionary, ref

from psoup.model import StreamSpec
from psoup.plan.nodes import Node, Output, Source
from psoup.published.snapshot import StreamView
from psoup.pumps.extents import Extent
from psoup.pumps.form import Form
from psoup.pumps.kept_state import KeptState
from psoup.pumps.plan_bytes import PlanBytes
from psoup.pumps.rows import DerivedRows

MOST_STEPS = 8
"""The most steps that a plan holds."""
MOST_BYTES = 32 * 2**20
"""The most bytes of the rows of the steps that all plans hold. The newest step may have more."""


class SharedStep(NamedTuple):
    """A step that was evaluated.

    `as_of`: the sequence of its snapshot. `behind`: whether closed instants that may have rows were left then.
    `state`: of the pump, after the step.
    """

    extent: Extent
    rows: DerivedRows
    as_of: int
    behind: bool
    state: KeptState


class EqualPlan:
    """The derived streams of one plan, and the steps that some of them have still to take. For one thread at a time."""

    def __init__(self, form: Form, all_steps: HeldSteps) -> None:
        self.form = form
        """The form of all streams of the plan. They differ in names only."""
        self._positions = dict[int, int | None]()
        self._counts = Counter[int | None]()
        self._steps = dict[int | None, SharedStep]()
        self.kept = PlanBytes()
        """The bytes that the streams keep."""
        self._held = all_steps
        self._first_ids = dict[int, int]()
        self._furthest: ReferenceType[KeptState] | None = None
        """The state of the stream that is furthest ahead."""
        self._states: WeakSet[KeptState] = WeakSet()

    @property
    def streams(self) -> int:
        """The number of the streams. O(1)."""
        return len(self._positions)

    def apart_from(self, stream_id: int) -> int:
        """The number of the streams apart from this one. O(1), from any thread."""
        return len(self._positions) - (stream_id in self._positions)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows that are held for streams which have not taken them."""
        return sum([step.rows.batch.nbytes for step in self._steps.values()])

    def move(self, stream_id: int, at: int | None) -> None:
        """Record the position of a stream, also of a new one. O(1), unless the last stream has left a position."""
        self._forget(stream_id)
        self._positions[stream_id] = at
        self._counts[at] += 1
        self._prune()

    def leave(self, stream_id: int) -> None:
        """Hold no more steps for a stream, for example because it is suspended, until it moves."""
        self._forget(stream_id)
        self._prune()

    def _forget(self, stream_id: int) -> None:
        if stream_id in self._positions:
            at = self._positions.pop(stream_id)
            self._counts[at] -= 1
            if not self._counts[at]:
                del self._counts[at]

    def step_from(
        self, at: int | None, closed: int, views: Sequence[StreamView], limit: int | None = None
    ) -> SharedStep | None:
        """The step that begins at the position `at`, and ends at `closed` at the latest. None if it is not held.

        A step that was evaluated before history was attached is not valid any more. `views`: of the sources. `limit`:
        the most new tuples of the step, None without a limit.
        """
        for view in views:
            if view.first_id < self._first_ids.setdefault(view.stream_id, view.first_id):
                self._first_ids[view.stream_id] = view.first_id
                self._furthest = None
                for after in list(self._steps):
                    self.drop(after)
        step = self._steps.get(at)
        if step is None or step.extent.at > closed or (limit is not None and step.extent.new > limit):
            return None
        return step

    def end_of(self, at: int | None, closed: int) -> int:
        """The instant at which a step from the position `at` should end: where the stream is that is furthest ahead.

        The result is `closed` if no stream is ahead. O(different positions).
        """
        if at is None:
            return closed
        return max([other for other in self._counts if other is not None and at < other <= closed], default=closed)

    def hold(self, step: SharedStep) -> None:
        """Hold a step for other streams at its beginning. Older steps go if they are too many, or too large."""
        after = step.extent.after
        wanted = self._counts[after] > 1 or any(each.extent.at == after for each in self._steps.values())
        if not wanted or step.extent.at == after:  # no stream is there, or no instant was closed meanwhile
            return
        self.drop(step.extent.after)
        self._steps[step.extent.after] = step
        if len(self._steps) > MOST_STEPS:
            self.drop(next(iter(self._steps)))
        self._held.add(self, step)

    def drop(self, after: int | None) -> None:
        """Drop the step that begins at `after`, if it is held."""
        if self._steps.pop(after, None) is not None:
            self._held.remove(self, after)

    def new_state(self) -> KeptState:
        """An empty state for a stream of the plan."""
        state = KeptState(self.form.derived)
        self._states.add(state)
        return state

    def has_other(self, state: KeptState) -> bool:
        """Whether some stream of the plan has another state than this one."""
        return any(other is not state and other.nbytes for other in self._states)

    def has_behind(self, at: int | None) -> bool:
        """Whether a stream of the plan is behind the position `at`. O(different positions)."""
        return at is not None and any(other is None or other < at for other in self._counts)

    def lose_others(self, state: KeptState) -> None:
        """Clear all states of the plan apart from this one. The streams at other positions rebuild them later."""
        for other in self._states:
            if other is not state:
                other.clear()
                self.kept.resize(other.number, 0)

    def state_at(self, at: int | None) -> KeptState | None:
        """The state of the furthest stream, if it is at the instant `at`. Another stream there can go on with it."""
        state = None if self._furthest is None else self._furthest()
        return state if state is not None and state.is_at(self.form, at) else None

    def common(self, state: KeptState) -> KeptState:
        """The state with which a stream goes on after it has evaluated a step: of the furthest stream, or its own.

        `state`: its own. The furthest stream may be at the same instant. Then its state has the same rows.
        """
        place, furthest = state.place, None if self._furthest is None else self._furthest()
        ahead = None if furthest is None else furthest.place
        if place is None or place.at is None or (ahead is not None and ahead.at is not None and ahead.at > place.at):
            return state
        if furthest is not None and furthest.is_at(self.form, place.at):
            return furthest
        self._furthest = ref(state)
        return state

    def _prune(self) -> None:
        """Drop the steps that no stream can take any more. O(positions) if a position has steps but no streams."""
        if all(after in self._counts for after in self._steps):
            return
        reachable = set(self._counts)
        for after, step in list(self._steps.items()):
            if after in reachable:
                reachable.add(step.extent.at)
            else:
                self.drop(after)


class HeldSteps:
    """The sizes of the steps that all plans hold, the oldest first."""

    def __init__(self) -> None:
        self._sizes = dict[tuple[EqualPlan, int | None], int]()
        self.nbytes = 0
        """The bytes of their rows."""

    def add(self, plan: EqualPlan, step: SharedStep) -> None:
        """Add the newest step. The oldest ones are dropped while all have more than `MOST_BYTES`."""
        size = self._sizes[plan, step.extent.after] = step.rows.batch.nbytes
        self.nbytes += size
        while self.nbytes > MOST_BYTES and len(self._sizes) > 1:
            oldest, after = next(iter(self._sizes))
            oldest.drop(after)

    def remove(self, plan: EqualPlan, after: int | None) -> None:
        """Remove a step, by its plan and the instant after which it begins."""
        self.nbytes -= self._sizes.pop((plan, after))


class EqualPlans:
    """The plans of all pumps. For one thread at a time. A plan ends with its last stream."""

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[Hashable, EqualPlan] = WeakValueDictionary()
        self._held = HeldSteps()

    def of(self, form: Form, spec: StreamSpec, tenant: str) -> EqualPlan:
        """The plan of a derived stream. `spec`: its definition. O(size of the plan)."""
        key = _key_of(form, spec, tenant)
        plan = self._by_key.get(key)
        if plan is None:
            plan = self._by_key[key] = EqualPlan(form, self._held)
        return plan


def _key_of(form: Form, spec: StreamSpec, tenant: str) -> Hashable:
    """A value that two derived streams share if their rows are equal, apart from the names of columns."""
    derived = form.derived
    return (
        tenant,
        tuple([(source.stream_id, source.columns) for source in derived.sources]),
        tuple(map(id, form.specs)),  # the form of a plan keeps these definitions
        derived.event_time,
        derived.operator,
        derived.every,
        derived.state_limit,
        tuple([attribute.type for attribute in spec.declared]),
        tuple([selection.clause for selection in form.query.selections]),
        _unnamed(form.query.plan),
    )


def _unnamed(part: object) -> object:
    """A plan, or a part of it, without the names of columns and sources."""
    if isinstance(part, Output):
        return Output("", part.expr)
    if isinstance(part, Source):
        return replace(part, alias="")
    if type(part) is tuple:
        return tuple(map(_unnamed, part))
    if not isinstance(part, Node):
        return part
    node: Any = part
    return replace(node, **{each.name: _unnamed(getattr(node, each.name)) for each in fields(node)})
