"""A derived stream as a member of an equal plan: its form, and its state, which other members may have, too.

    stream x ─┐                     ┌─ form, bound to the present sources
    stream y ─┴──> equal plan  ─────┤
                                    └─ state at a position: of all members there; a member elsewhere has its own

A state takes room once, no matter how many members have it. Members at different positions have different states,
for example after a RESUME. Each goes on to the position of the furthest one, and then takes the state of that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.derivation import Derivation
from psoup.errors import NotFound, ResourceExhausted
from psoup.invariants import ensure
from psoup.model import StreamSpec
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.equal_plans import EqualPlan, EqualPlans
from psoup.pumps.extents import Extent
from psoup.pumps.form import Form, form_of
from psoup.pumps.kept_state import KeptState
from psoup.pumps.operators import Binding
from psoup.pumps.room import NO_ROOM, Room
from psoup.pumps.rows import DerivedRows
from psoup.work.read_budget import ReadBudget


class PlanMember:
    """The side of a pump that equal streams share; see the module. Only one thread at a time uses it."""

    def __init__(self, view: StreamView) -> None:
        derived = view.spec.derived
        ensure(derived is not None, self, "the stream is not derived", stream=view.stream_id)
        assert derived is not None
        self.stream_id, self.tenant = view.stream_id, view.tenant
        self._spec: StreamSpec = view.spec
        self._derived: Derivation = derived
        self._form: Form | None = None
        self._state_bound = ""
        """The bound of the state, in words. Empty without a form."""
        self.room = Room({})
        """The memory of all derived streams. All pumps share it."""
        self.plans = EqualPlans()
        """The plans. All pumps share them."""
        self._plan: EqualPlan | None = None
        self._kept = KeptState(derived)
        """The state. Other pumps of the plan may have it, too."""

    @property
    def source_ids(self) -> tuple[int, ...]:
        """The stream IDs of the sources, each once."""
        return self._derived.source_ids

    @property
    def equal(self) -> int:
        """The number of other streams that share steps with this one."""
        plan = self._plan  # another thread may ask
        return 0 if plan is None else plan.apart_from(self.stream_id)

    @property
    def state_rows(self) -> int:
        """The rows, values or groups in the state. 0 for a query without state."""
        return self._kept.rows

    @property
    def state_bytes(self) -> int:
        """The bytes of the state."""
        return self._kept.nbytes

    @property
    def rebuilding(self) -> bool:
        """Whether the state is being rebuilt from the tuples of the sources."""
        return self._kept.rebuilding

    def leave(self) -> None:
        """Leave the plan, because the stream or a source has another definition, or was dropped. Keep no state."""
        self._share_nothing()
        self._plan = self._form = None
        self._lose_state()
        self.room.leave(self.stream_id)

    def _share_nothing(self) -> None:
        """Let the plan hold no steps for this stream until the next step is due."""
        if self._plan is not None:
            self._plan.leave(self.stream_id)

    def _bound(self, snapshot: Snapshot) -> Form:
        """The form for the present definitions of the sources. Raises NotFound if one was dropped, and SqlError."""
        form, streams = self._form, snapshot.by_id
        ids = [source.stream_id for source in self._derived.sources]
        if any(i not in streams for i in ids):
            raise NotFound(f"a source of stream {self._spec.name!r} was dropped", reason="UNKNOWN_STREAM")
        if form is None or any(streams[i].spec is not spec for i, spec in zip(ids, form.specs, strict=True)):
            self.leave()
            form = form_of(self._derived, streams)
            self._state_bound = form.state.bound.text  # with the names in this SELECT
            self._plan = self.plans.of(form, self._spec, self.tenant)
            self.room.join(self.stream_id, self._plan.kept)
            form = self._form = self._plan.form
        return form

    @property
    def _is_stateless(self) -> bool:
        return self._form is not None and self._form.binding is None and self._derived.every is None

    def _check_state(self, snapshot: Snapshot, size: int, waiting: int = 0) -> None:
        """Raise ResourceExhausted, reason STATE_LIMIT, for a state that does not fit beside the other ones.

        The states of a plan at different positions may not fit together. Then only the stream furthest behind has one.
        For the other streams the reason is NO_ROOM, until it has caught up. So a state that fits once is enough.
        `waiting`: the bytes of rows that wait for room.
        """
        needs = snapshot, self.stream_id, self._spec, self._kept.number, size, waiting
        plan = self._plan
        try:
            self.room.check_state(*needs)
        except ResourceExhausted:
            if plan is None or not plan.has_other(self._kept):
                raise
            if plan.has_behind(self._position):
                raise self._waits_for_equal() from None
            plan.lose_others(self._kept)
            self.room.check_state(*needs)

    def _waits_for_equal(self) -> ResourceExhausted:
        return ResourceExhausted(
            f"stream {self._spec.name!r} waits until a stream with an equal plan that is behind it has caught up:"
            " memory lacks room for the states of both",
            reason=NO_ROOM,
            stream=self._spec.name,
        )

    @property
    def _position(self) -> int | None:
        """The instant at which the next step begins. None at the beginning."""
        return None

    def _note_state(self) -> None:
        """Let the room know the state, and its size."""
        self.room.has_state(self.stream_id, self._kept.number, self._kept.nbytes)

    def _lose_state(self) -> None:
        """Keep no state. Other pumps of the plan keep theirs."""
        self._kept = KeptState(self._derived)
        self.room.has_nothing(self.stream_id)

    def _take_state(self, state: KeptState) -> None:
        """Go on with the state of another pump of the plan."""
        if self._kept is not state:
            self._kept = state
            self._note_state()

    def _begin(self, form: Form, at: int | None) -> None:
        """Begin a step with the state at the instant `at`. A state at another instant is left to other pumps."""
        if self._plan is not None and not self._kept.is_at(form, at):
            self._take_state(self._plan.state_at(at) or self._plan.new_state())
        self._kept.check = self._check_state

    def _with_state(
        self,
        form: Form,
        binding: Binding,
        views: Sequence[StreamView],
        extent: Extent,
        snapshot: Snapshot,
        budget: ReadBudget,
    ) -> DerivedRows:
        """The rows of a step of an operator with state."""
        self._begin(form, extent.after)
        return self._kept.rows_of_step(form, binding, self._spec, views, snapshot, self.tenant, extent, budget)
