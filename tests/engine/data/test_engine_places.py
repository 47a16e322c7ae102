"""The places of a chunk: tuple IDs from rows, and rows from tuple IDs, against a list of the IDs that are left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psoup.data.places import MOST_PLACES, Places
from psoup.errors import Corrupt


def _of(first_id: int, ids: list[int], count: int) -> Places:
    return Places(first_id, count, np.array([i - first_id for i in ids], np.uint16))


@given(st.integers(-50, 1 << 40), st.integers(0, 40), st.data())
def test_ids_and_rows_agree_with_a_list_of_ids(first_id: int, count: int, data: st.DataObject) -> None:
    every = list(range(first_id, first_id + count))
    ids = data.draw(st.lists(st.sampled_from(every), unique=True).map(sorted)) if every else []
    for places, left in ((Places(first_id, count), every), (_of(first_id, ids, count), ids)):
        places.check()
        rows = np.arange(len(left))
        assert len(places) == len(left) and places.end_id == first_id + count
        assert places.ids(rows).tolist() == left == [places.id_of(row) for row in range(len(left))]
        assert places.ids_between(1, 3).tolist() == left[1:3] or len(left) < 3
        assert places.rows(np.array(left, np.int64)).tolist() == rows.tolist()
        around = range(first_id - 2, first_id + count + 3)
        assert [places.row_from(i) for i in around] == [sum(j < i for j in left) for i in around]
        assert [places.row_of(i) for i in around] == [left.index(i) if i in left else None for i in around]
        assert places.has(np.array(around, np.int64)).tolist() == [i in left for i in around]
        assert places.keep(rows[::2]) == _of(first_id, left[::2], count)
        assert places.moved(7).ids(rows).tolist() == [i + 7 for i in left]


def test_the_last_of_all_places_has_a_row() -> None:
    places = Places(10, MOST_PLACES, np.array([0, MOST_PLACES - 1], np.uint16))
    assert places.ids(np.arange(2)).tolist() == [10, 10 + MOST_PLACES - 1] and places.row_from(11) == 1
    assert places.row_from(10 + MOST_PLACES) == 2


def test_check_refuses_places_that_do_not_ascend_or_are_outside() -> None:
    for left in ([3, 3], [4, 1], [0, 8]):
        with pytest.raises(Corrupt):
            Places(0, 8, np.array(left, np.uint16)).check()
