"""The state of a pump: its operator at an instant, and the rows that the operator gives.

    spans of the parts ──> Operator.step ──> deltas ──> nodes above ──> ISTREAM: +1, DSTREAM: -1 ──> rows of the stream

The state at an instant depends only on the rows that are then in the answers of the parts. So after a restart, or if a
step was not logged, it is rebuilt from these rows. Rows of one instant come in the order of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from psoup.values.columns import Batch, Column
from psoup.work.read_budget import ReadBudget

_REBUILT = 65_536
"""The most new tuples of sources that are read at once to rebuild a state."""


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
        self._state: _State | None = None
        self.rebuilding = False
        """Whether the state is being rebuilt."""

    @property
    def operator(self) -> Operator | None:
        """The operator, None before the first step and after a step that failed."""
        return None if self._state is None else self._state.operator

    @property
    def rows(self) -> int:
        """The rows, values or groups in the state."""
        state = self._state  # another thread may ask
        return 0 if state is None else state.operator.rows

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        state = self._state
        return 0 if state is None else state.operator.nbytes

    def is_at(self, form: Form, at: int | None) -> bool:
        """Whether it is the state of a form at the instant `at`."""
        state = self._state
        return state is not None and state.form is form and state.at == at

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
