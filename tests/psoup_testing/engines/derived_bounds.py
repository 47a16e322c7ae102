"""The rows that the bound of a pump's state allows at an instant."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from psoup.plan.patterns import Amount
from psoup.published.snapshot import StreamView
from psoup.pumps.form import Form


def rows_allowed(form: Form, views: Sequence[StreamView], at: int) -> int:
    """The most rows of the state at the instant `at`. The bound may have no limit: all tuples up to `at` then count."""

    def count(amount: Amount) -> int:
        if amount.rows is not None:
            return amount.rows
        assert amount.place is not None
        view, width = views[amount.place], form.widths[amount.place]
        before = view.first_id if width is None else view.timeline().before(at - width)
        return max(0, view.timeline().through(at) - before)

    return sum(prod(map(count, part.factors)) for part in form.state.bound.parts)
