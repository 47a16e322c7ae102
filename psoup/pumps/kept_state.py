"""The state of a pump: its operator at an instant, and the rows that the operator gives. Or its last answer.

    spans of the parts ──> Operator.step ──> deltas ──> nodes above ──> ISTREAM: +1, DSTREAM: -1 ──> rows of the stream

The state at an instant depends only on the rows that are then in the answers of the parts. So after a restart, or if a
step was not logged, it is rebuilt from these rows. Rows of one instant come in the order of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from psoup.delta import Deltas, Operator, Spans, load
from psoup.delta.spans import in_order
from psoup.derivation import Derivation, StreamOperator
from psoup.errors import ResourceExhausted
from psoup.model import TIMESTAMP, StreamSpec
from psoup.published.snapshot import Snapshot, StreamView
from psoup.pumps.above import result_of
from psoup.pumps.extents import Extent, next_extent
from psoup.pumps.form import Form
from psoup.pumps.operators import Binding
from psoup.pumps.part import Part
from psoup.pumps.room import STATE_LIMIT
from psoup.pumps.rows import STEP_BYTES, DerivedRows, no_rows
from psoup.pumps.spans import spans_of
from psoup.pumps.tick_answers import NO_ANSWER, TickAnswer
from psoup.values.columns import Batch, Column
from psoup.work.read_budget import ReadBudget

_REBUILT = 65_536
"""The most new tuples of sources that are read at once to rebuild a state."""


_NUMBERS = count()


class Place(NamedTuple):
    """The instant up to which a state has seen its sources, as bound by a form. `at`: None before the first step."""

    form: Form
    at: int | None


class _State(NamedTuple):
    """An operator of a form, after its steps up to the instant `at`. `at` is None before the first step."""

    form: Form
    operator: Operator
    at: int | None


def check_state(spec: StreamSpec, size: int) -> None:
    """Raise ResourceExhausted, reason STATE_LIMIT, if a state of `size` bytes is larger than STATE AT MOST."""
    limit = None if spec.derived is None else spec.derived.state_limit
    if limit is not None and size > limit:
        raise ResourceExhausted(
            f"the state of stream {spec.name!r} has {size:,} bytes, and STATE AT MOST allows {limit:,}; the"
            " stream stops here: create it again with a larger STATE AT MOST, or with a window for each source",
            reason=STATE_LIMIT,
            stream=spec.name,
        )


class KeptState:
    """The state of a pump, or of several pumps of one plan. Only one thread at a time uses it."""

    def __init__(self, derived: Derivation) -> None:
        self._sign = -1 if derived.operator is StreamOperator.DSTREAM else 1
        self.check: Callable[[Snapshot, int], None] = lambda *_: None
        """Raises ResourceExhausted for a state that is too large for the memory. From the pump that makes a step."""
        self.number = next(_NUMBERS)
        """Identifies the state. No other one of this process has the same number."""
        self.answer: TickAnswer = NO_ANSWER
        """The latest answer, for a pump that compares answers. Other pumps have an operator."""
        self._answered: Place | None = None
        self._state: _State | None = None
        self.rebuilding = False
        """Whether the state is being rebuilt."""

    @property
    def operator(self) -> Operator | None:
        """The operator, None before the first step and after a step that failed."""
        return None if self._state is None else self._state.operator

    @property
    def rows(self) -> int:
        """The rows, values or groups in the operator, or the rows of the answer."""
        state = self._state  # another thread may ask
        return self.answer.rows if state is None else state.operator.rows

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        state = self._state
        return self.answer.nbytes if state is None else state.operator.nbytes

    @property
    def place(self) -> Place | None:
        """The instant of the state. None before the first step, and after a step that failed."""
        state = self._state
        return self._answered if state is None else Place(state.form, state.at)

    def is_at(self, form: Form, at: int | None) -> bool:
        """Whether it is the state of a form at the instant `at`."""
        place = self.place
        return place is not None and place.form is form and place.at == at

    def answered(self, form: Form, at: int | None) -> None:
        """Record that `answer` is the answer at the tick `at`."""
        self._answered = Place(form, at)

    def clear(self) -> None:
        """Lose the state. Each pump that has it rebuilds it in its next step, or takes the state of another pump."""
        self._state, self._answered, self.answer = None, None, NO_ANSWER

    def pass_by(self, form: Form, after: int | None, at: int) -> None:
        """Move an operator from one instant to another if nothing enters or leaves between the two. O(1)."""
        if self._state is not None and self.is_at(form, after):
            self._state = self._state._replace(at=at)

    def rows_of_step(
        self,
        form: Form,
        binding: Binding,
        spec: StreamSpec,
        views: Sequence[StreamView],
        snapshot: Snapshot,
        tenant: str,
        extent: Extent,
        budget: ReadBudget,
    ) -> DerivedRows:
        """Make the rows of a step, and move the state to its end. `spec`: the derived stream.

        A state that is not at the beginning of the step is first rebuilt. Raises the errors of an invocation. Raises
        ResourceExhausted, reason STATE_LIMIT, if the state is too large.
        """
        state = self._state
        if state is None or not self.is_at(form, extent.after):
            state = self._rebuilt(form, binding, spec, views, snapshot, tenant, extent.after, budget)
        self._state = state  # if the inputs have too many bytes, a smaller step begins with this state
        inputs = [spans_of(form, part, spec, views, snapshot, tenant, extent, budget) for part in binding.parts]
        self._state = None  # if the step fails, the state has to be rebuilt
        deltas = state.operator.step([each.spans for each in inputs], extent.at)
        check_state(spec, state.operator.nbytes)
        self.check(snapshot, state.operator.nbytes)
        deltas = _settled(deltas) if binding.settles else deltas
        result, errors = result_of(binding.above, deltas, snapshot.config.texts, budget)
        batch = self._batch(spec, result)
        self._state = state._replace(at=extent.at)
        errors += sum([each.errors for each in inputs])
        return DerivedRows(batch, errors, sum([each.unknown for each in inputs]))

    def _rebuilt(
        self,
        form: Form,
        binding: Binding,
        spec: StreamSpec,
        views: Sequence[StreamView],
        snapshot: Snapshot,
        tenant: str,
        at: int | None,
        budget: ReadBudget,
    ) -> _State:
        """The state at an instant, from the tuples that are then in their windows. O(these tuples)."""
        self._state, operator = None, binding.make()
        parts = [part for part in binding.parts if not binding.forgets or _leaves(form, part)]
        if at is None or not parts:
            return _State(form, operator, at)
        after, share, self.rebuilding = _before_all(form, parts, at), _REBUILT, True
        try:
            while after is None or after < at:
                extent = next_extent(form, views, after, at, share, alive_at=at)
                try:
                    spans = [
                        spans_of(form, part, spec, views, snapshot, tenant, extent, budget).spans
                        if part in parts
                        else Spans.empty(part.types)
                        for part in binding.parts
                    ]
                except ResourceExhausted as problem:
                    if problem.reason != STEP_BYTES or share == 1:
                        raise
                    share //= 2
                    continue
                load(operator, [each.take(np.flatnonzero(each.end >= at)) for each in spans], extent.at)
                self.check(snapshot, operator.nbytes)
                after = extent.at
        finally:
            self.rebuilding = False
        return _State(form, operator, at)

    def _batch(self, spec: StreamSpec, deltas: Deltas) -> Batch:
        """The tuples of the derived stream: the rows that enter, or for DSTREAM those that leave."""
        wanted = deltas.take(np.flatnonzero(deltas.sign == self._sign))
        if not len(wanted.sign):
            return no_rows(spec)
        columns = [
            Column(attribute.type, column.values, column.valid, column.data)
            for attribute, column in zip(spec.declared, wanted.columns, strict=True)
        ]
        return Batch((*columns, Column(TIMESTAMP, wanted.instant)), wanted.instant)


def _settled(deltas: Deltas) -> Deltas:
    """The rows that enter, without the first column, which identified them."""
    entering = deltas.take(np.flatnonzero(deltas.sign > 0))
    return in_order(entering.columns[1:], entering.sign, entering.instant)


def _leaves(form: Form, part: Part) -> bool:
    """Whether rows of a part leave."""
    return any(form.widths[place] is not None for place in part.places)


def _before_all(form: Form, parts: Sequence[Part], at: int) -> int | None:
    """An instant after which all rows entered that are in their windows at `at`. None for the beginning."""
    shortest = list[int]()
    for part in parts:
        widths = [width for place in part.places if (width := form.widths[place]) is not None]
        if not widths:
            return None
        shortest.append(min(widths))
    return at - max(shortest) - 1
