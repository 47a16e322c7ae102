"""Boxes of tuple IDs: steps are disjoint and all that is missing, and a place in them stays one when windows move."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from psoup.answer.copies.id_boxes import Box, Ids, behind, check, cut, has_rows, slices, steps


def rows(box: Box) -> list[Ids]:
    """The rows of a box in FROM order."""
    return list(product(*(range(low, high) for low, high in box)))


ENDS = st.tuples(st.integers(-3, 4), st.integers(-3, 4)).map(lambda ends: (min(ends), max(ends)))
BOXES = st.integers(1, 3).flatmap(lambda sources: st.tuples(*[st.tuples(*[ENDS] * sources)] * 3))


@given(BOXES)
def test_steps_are_all_that_is_missing_each_row_once(some: tuple[Box, Box, Box]) -> None:
    target, kept = some[0], cut(some[1], some[0])
    check(kept, target)
    found = [row for _, box in steps(target, kept) for row in rows(box)]
    assert sorted(found) == sorted(set(rows(target)) - set(rows(kept)))


@given(BOXES)
def test_a_cut_box_has_the_rows_of_both(some: tuple[Box, Box, Box]) -> None:
    assert set(rows(cut(some[0], some[1]))) == set(rows(some[0])) & set(rows(some[1]))
    assert has_rows(some[0]) == bool(rows(some[0]))


@given(BOXES, st.integers(1, 5))
def test_slices_are_the_box_in_order(some: tuple[Box, Box, Box], size: int) -> None:
    parts = list(slices(some[0], size))
    assert [row for part in parts for row in rows(part)] == rows(some[0])
    assert len(parts) == 1 or all(high - low > size for low, high in some[0])


@given(BOXES, st.data())
def test_what_comes_behind_a_row_comes_in_order(some: tuple[Box, Box, Box], data: st.DataObject) -> None:
    box = some[0]
    place = data.draw(st.tuples(*[st.integers(-4, 5)] * len(box)))
    found = [row for part in behind(box, place) for row in rows(part)]
    assert found == [row for row in rows(box) if row > place]


@given(BOXES, st.data())
def test_a_place_stays_one_in_other_windows(some: tuple[Box, Box, Box], data: st.DataObject) -> None:
    """What is held up to a place and what is found from there on are together the part of the target in the windows."""
    target, kept, windows = some[0], cut(some[1], some[0]), some[2]
    missing = [(step, row) for step, box in steps(target, kept) for row in rows(box)]
    if not missing:
        return
    step, place = data.draw(st.sampled_from(missing))
    held = set(rows(kept)) | {row for _, row in missing[: missing.index((step, place)) + 1]}
    target = cut(target, windows)
    found = list[Ids]()
    for number, box in steps(target, cut(kept, target)):
        rest = [box] if number > step else behind(box, place) if number == step else []
        found += [row for part in rest for row in rows(part)]
    assert len(found) == len(set(found)) and not held & set(found)
    assert (held | set(found)) & set(rows(windows)) == set(rows(target))
