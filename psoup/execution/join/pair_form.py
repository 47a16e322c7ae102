"""Facts about a plan that `small_join` and `parallel_join` need: the layout of the answer, and arguments of kernels.

Such plans have two sources, and one equality of columns or one band. Their SELECT lists have columns other than texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.execution.join.direct_join import DirectJoin, direct_join
from psoup.execution.join.join_batch import JoinedForm, joined_form
from psoup.kernels.join.arrays import BatchPlaces, PairQuestion
from psoup.plan.nodes import Join, Node, Project
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array

SMALL = 32_767
"""The most rows of a side of a join that one kernel call answers. It takes less than a millisecond."""
_LEAST = -(2**63)
_MOST = 2**63 - 1


@dataclass(slots=True)
class PairForm:
    """The layout of an answer, and arguments of kernels. `text`: the factor, for messages.

    `asked`: the fields of a `PairQuestion`. `numbers`: the fields of `BatchPlaces`. `columns`: int64[n, 3], for each
    column of SELECT its side, kind and place in the schema. `shown`: the same for each side, with places in SELECT.
    """

    form: JoinedForm
    is_equality: bool
    asked: tuple[int, ...]
    columns: Array
    numbers: tuple[int, ...]
    text: str
    shown: tuple[tuple[Array, Array, Array], ...]
    crowded: int = 0
    """The number of next invocations that skip `parallel_join`, as it gave up. It counts down to 0."""


@plan_fact
def pair_form(plan: Node) -> PairForm | None:
    """The facts about a join plan. None if neither `small_join` nor `parallel_join` serves it."""
    if not (isinstance(plan, Project) and isinstance(plan.input, Join) and plan.input.joins_streams):
        return None
    direct, form = direct_join(plan.input), joined_form(plan.schema, len(plan.input.inputs))
    if direct is None or form is None or any(form.texts) or not (direct.is_single or not direct.keys):
        return None
    both = direct.keys[0] if direct.is_single else direct.bands[0][0]
    bounds = (False, 0, False, 0) if direct.is_single else direct.bands[0][1].bounds
    asked = PairQuestion(*both.kinds, *both.columns, direct.is_single, *bounds, *_fitting(direct))
    shown, batch = tuple(zip(form.which, form.kinds, form.columns, strict=True)), form.form
    columns: Array = np.empty((len(batch.kinds), 3), np.int64)
    for side, (which, *of) in enumerate(shown):
        columns[which] = np.stack([np.full(len(which), side), *of], axis=1)
    places = BatchPlaces(
        batch.rows_at, batch.body_at, batch.nodes_at, batch.buffers_at, batch.buffers, batch.exact
    )  # fmt: skip
    groups = tuple(map(int, asked)), columns, tuple(map(int, places))
    return PairForm(form, direct.is_single, *groups, direct.text, shown)


def _fitting(direct: DirectJoin) -> tuple[int, int, int, int]:
    """The least and the greatest key for which `DirectJoin.fits` holds: of the left side, then of the right side."""
    ends = [[_LEAST, _MOST], [_LEAST, _MOST]]
    for own in direct.sums:
        ends[own.side][0] = max(ends[own.side][0], own.least - own.shift)
        ends[own.side][1] = min(ends[own.side][1], own.greatest - own.shift)
    for _, band in direct.bands:
        for bound in (band.low or 0, band.high or 0):
            ends[0][0], ends[0][1] = max(ends[0][0], _LEAST - bound), min(ends[0][1], _MOST - bound)
    return ends[0][0], ends[0][1], ends[1][0], ends[1][1]
