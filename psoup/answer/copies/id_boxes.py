"""Boxes of tuple IDs, an interval for each source of a join: the rows a client holds, and the order of those it lacks.

    s ┌────────────┐ target     the rows of a join whose tuples are in a box are those that a client holds completely
      │ 1 │    3   │
      │   ├────┬───┤            target - kept, cut into steps: of the first sources what is kept, of the next what is
      │   │kept│ 2 │            new, of all others everything
      └───┴────┴───┘ r
        0          1            r: new below (0), new above (1)      s: kept of r, and new below (2) or above (3)

The steps are disjoint, each of them is a box, and the rows of each come in FROM order: so a place in them is a step and
a row. A window that has moved since cuts all boxes alike, and the place stays one.
"""

from __future__ import annotations

from collections.abc import Iterator

from psoup.answer.copies.id_intervals import Interval
from psoup.invariants import ensure

Box = tuple[Interval, ...]
"""The tuple IDs [low, high) of each source, in the order of FROM; empty ones have low = high."""

Ids = tuple[int, ...]
"""A row of a join: the tuple IDs of its sources."""


def has_rows(box: Box) -> bool:
    """Whether a row may be in a box."""
    return all(low < high for low, high in box)


def cut(box: Box, by: Box) -> Box:
    """The part of a box that is in another one. What is outside of it becomes empty, at the edge where it was."""
    return tuple([_cut(inner, outer) for inner, outer in zip(box, by, strict=True)])


def steps(target: Box, kept: Box) -> Iterator[tuple[int, Box]]:
    """The rows of a box that are not in `kept`, a box within it: the numbers of the steps, and their boxes, if any."""
    for source, ((low, high), (first, end)) in enumerate(zip(target, kept, strict=True)):
        for part, new in enumerate(((low, first), (end, high))):
            box = (*kept[:source], new, *target[source + 1 :])
            if has_rows(box):
                yield 2 * source + part, box


def behind(box: Box, place: Ids) -> Iterator[Box]:
    """The rows of a box that come after a row in FROM order, as boxes in this order; the row need not be in the box."""
    for source in reversed(range(len(box))):
        same = tuple([(at, at + 1) for at in place[:source]])
        low, high = box[source]
        rest = cut((*same, (max(place[source] + 1, low), high), *box[source + 1 :]), box)
        if has_rows(rest):
            yield rest


def slices(box: Box, size: int) -> Iterator[Box]:
    """The parts of a box by its first source, in FROM order: of `size` tuples at first, then of four times as many.

    All of it at once if a source has not more than `size`.
    """
    (low, high), *others = box
    if min(end - first for first, end in box) <= size:
        yield box
        return
    while low < high:
        end = min(low + size, high)
        yield (low, end), *others
        low, size = end, 4 * size


def check(kept: Box, target: Box) -> None:
    """Raise Corrupt unless these are boxes of the same sources, and the first lies within the second."""
    ensure(len(kept) == len(target), "boxes", "boxes of different sources", kept=kept, target=target)
    for (first, end), (low, high) in zip(kept, target, strict=True):
        ensure(low <= first <= end <= high, "boxes", "a box is not within another", kept=kept, target=target)


def _cut(inner: Interval, outer: Interval) -> Interval:
    low, high = [min(max(end, outer[0]), outer[1]) for end in inner]
    return low, max(low, high)
