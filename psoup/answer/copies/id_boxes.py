"""Boxes of tuple IDs, an interval for each source of a join: the rows that a client holds, and those that it lacks.

    s ┌────────────┐ target     the client is to hold all rows of the join whose tuples are in the target
      │ 1 │    3   │
      │   ├────┬───┤            target - kept is cut into steps. Each step takes the kept interval of the first
      │   │kept│ 2 │            sources, a new interval of one source, and the whole interval of the remaining ones
      └───┴────┴───┘ r
        0          1            r: new below (0), new above (1)      s: kept of r, and new below (2) or above (3)

The steps are disjoint boxes, and the rows of each come in FROM order. So a step and a row tell how far a client has
read. If a window has moved since then, all boxes are cut in the same way, so the step and the row stay valid.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.answer.copies.id_intervals import Interval
from psoup.invariants import ensure

Box = tuple[Interval, ...]
"""The tuple IDs [low, high) of each source, in the order of FROM. An empty interval has low = high."""

Ids = tuple[int, ...]
"""A row of a join: the tuple IDs of its sources."""


def has_rows(box: Box) -> bool:
    """Whether a box can have rows: none of its intervals is empty."""
    return all(low < high for low, high in box)


def cut(box: Box, by: Box) -> Box:
    """The intersection of two boxes. An interval outside of `by` becomes empty, at the nearer edge of `by`."""
    return tuple([_cut(inner, outer) for inner, outer in zip(box, by, strict=True)])


def steps(target: Box, base: Box) -> Iterator[tuple[int, Box]]:
    """Cut the rows of `target` outside of `base` into steps. `base` must lie within `target`.

    Yields the number and the box of each step that can have rows.
    """
    for source, ((low, high), (first, end)) in enumerate(zip(target, base, strict=True)):
        for part, new in enumerate(((low, first), (end, high))):
            box = (*base[:source], new, *target[source + 1 :])
            if has_rows(box):
                yield 2 * source + part, box


def behind(box: Box, place: Ids) -> Iterator[Box]:
    """Yield the rows of a box after the row `place`, as boxes in FROM order. The row need not be in the box."""
    for source in reversed(range(len(box))):
        same = tuple([(at, at + 1) for at in place[:source]])
        low, high = box[source]
        rest = cut((*same, (max(place[source] + 1, low), high), *box[source + 1 :]), box)
        if has_rows(rest):
            yield rest


def slices(box: Box, size: int) -> Iterator[Box]:
    """Cut the box along its first source, in FROM order. The first slice has `size` tuples, each next one four times as
    many.

    The box stays whole if any source has at most `size` tuples.
    """
    (low, high), *rest = box
    if min(end - first for first, end in box) <= size:
        yield box
        return
    while low < high:
        end = min(low + size, high)
        yield (low, end), *rest
        low, size = end, 4 * size


def check(inner: Box, target: Box) -> None:
    """Raise Corrupt unless both boxes have the same sources, and `inner` lies within `target`."""
    ensure(len(inner) == len(target), "boxes", "boxes of different sources", kept=inner, target=target)
    for (first, end), (low, high) in zip(inner, target, strict=True):
        ensure(low <= first <= end <= high, "boxes", "a box is not within another", kept=inner, target=target)


def _cut(inner: Interval, outer: Interval) -> Interval:
    low, high = [min(max(end, outer[0]), outer[1]) for end in inner]
    return low, max(low, high)
