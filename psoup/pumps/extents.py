"""The tuples of a step: those at the next closed instants, as intervals of tuple IDs of each source.

    source with END (NOW - 3)    a tuple of time 10 enters at 13: its shift is 3
    source with a window of 8    it leaves at 19, the first instant at which it is not in its window: its shift is 9

A step of a query without state looks at the tuples that enter. An operator with state also has to see those that leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from psoup.answer.copies.id_boxes import Box
from psoup.published.snapshot import StreamView
from psoup.pumps.form import Form

FAR = 2**61
"""An instant after all instants of tuples."""


class Extent(NamedTuple):
    """The instants of a step: after `after`, up to `at`. `after` is None at the beginning.

    `base`, `target`: for each source the range of tuple IDs of old tuples, and of all tuples up to `at`.
    """

    after: int | None
    at: int
    base: Box
    target: Box

    @property
    def new(self) -> int:
        """The number of new tuples in all sources."""
        pairs = zip(self.base, self.target, strict=True)
        return sum(high - low for (_, low), (_, high) in pairs)


def extent_of(
    form: Form, views: Sequence[StreamView], after: int | None, at: int, alive_at: int | None = None
) -> Extent:
    """The tuples that a step reads. Reads at most the times of two chunks of each source.

    `alive_at`: leave out tuples that have left their windows at that instant, which is not before `at`.
    """
    base, target = [], []
    first = after if alive_at is None else alive_at
    for place, (view, width, source) in enumerate(zip(views, form.widths, form.sources, strict=True)):
        timeline, low, late = view.timeline(), view.first_id, form.lates[place]
        if form.is_timeless(place):
            base.append((low, view.next_id))
            target.append((low, view.next_id))
            continue
        end = low if after is None else max(low, timeline.through(after - late))
        if source.as_of is None and width is not None and first is not None:
            low = max(low, timeline.before(first - width))
            low, end = (min(low, end), end) if alive_at is None else (low, max(low, end))
        base.append((low, end))
        target.append((low, max(end, timeline.through(at - late))))
    return Extent(after, at, tuple(base), tuple(target))


def next_extent(
    form: Form, views: Sequence[StreamView], after: int | None, closed: int, share: int, alive_at: int | None = None
) -> Extent:
    """The extent of the next step: at most `share` tuples of streams enter or leave at its instants.

    A step has at least one instant, and none after `closed`. With EVERY, `closed` is a tick, and a step has whole
    ticks. `alive_at`: as in `extent_of`.
    """
    streams = sum(view.spec.table is None for view in views)
    share, at, first = max(1, share // max(1, streams)), closed, closed
    for place, view in enumerate(views):
        for low, high, shift in _moves(form, place, view, after, closed, alive_at):
            timeline = view.timeline()
            first = min(first, timeline.time_of(low) + shift)
            if low + share < high:
                at = min(at, timeline.time_of(low + share) + shift - 1)
    at = max(at, first)
    if (every := form.derived.every) is not None:
        at = min(closed, -(-at // every) * every)
    return extent_of(form, views, after, at, alive_at)


def has_new(form: Form, views: Sequence[StreamView], after: int | None, closed: int) -> bool:
    """Whether a tuple enters or leaves at an instant after `after`, up to `closed`. Versions of tables count, too."""
    return any(next(_shifted(form, place, view, after, closed), None) is not None for place, view in enumerate(views))


def next_change(form: Form, views: Sequence[StreamView], after: int | None) -> int | None:
    """The first instant after `after` at which a tuple of a stream enters or leaves. None if there is none yet.

    Reads at most the times of two chunks of each stream.
    """
    changes = [
        view.timeline().time_of(low) + shift
        for place, view in enumerate(views)
        if view.spec.table is None
        for low, _, shift in _shifted(form, place, view, after, FAR)
    ]
    return min(changes, default=None)


def _moves(
    form: Form, place: int, view: StreamView, after: int | None, closed: int, alive_at: int | None
) -> Iterator[tuple[int, int, int]]:
    """Yield the tuple IDs [low, high) of a stream that enter or leave, each with the shift of their times."""
    if view.spec.table is not None:
        return
    width = form.widths[place]
    for low, high, shift in _shifted(form, place, view, after, closed):
        if alive_at is None:
            yield low, high, shift
        elif shift == form.lates[place]:
            low = low if width is None else max(low, view.timeline().before(alive_at - width))
            if low < high:
                yield low, high, shift


def _shifted(
    form: Form, place: int, view: StreamView, after: int | None, closed: int
) -> Iterator[tuple[int, int, int]]:
    if view.last_time is None:
        return
    for shift in form.shifts(place):
        if after is not None and view.last_time + shift <= after:
            continue
        timeline = view.timeline()
        low = view.first_id if after is None else max(view.first_id, timeline.through(after - shift))
        high = timeline.through(closed - shift)
        if low < high:
            yield low, high, shift
