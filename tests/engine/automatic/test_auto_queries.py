"""The AUTO queries that came and went since the last round are taken in together."""

from __future__ import annotations

import numpy as np

from psoup.published.automatic import AutomaticAmounts
from psoup_testing.engines.within import in_calls

MANY = 10_000


def test_the_last_change_of_each_query_counts() -> None:
    automatic = AutomaticAmounts()
    automatic.add(np.array([3, 5, 8]))
    automatic.remove([5])
    automatic.add(np.array([2]))
    rows = automatic.take_in(7)
    assert rows.ids.tolist() == [2, 3, 8] and set(rows["since"].tolist()) == {7}
    rows["window"][:] = 1, 2, 3
    automatic.remove([2, 3])
    automatic.add(np.array([3, 5]))
    automatic.add(np.array([9]))
    automatic.remove([9])
    again = automatic.take_in(8)
    assert again.ids.tolist() == [3, 5, 8]
    assert again["window"].tolist() == [0, 0, 3], "a query that is AUTO anew begins anew"
    assert automatic.take_in(9) is again


def test_queries_that_came_one_by_one_are_taken_in_at_once() -> None:
    automatic = AutomaticAmounts()
    for query_id in range(MANY):
        automatic.add(np.array([query_id]))
    rows = in_calls(5 * MANY, lambda: automatic.take_in(1))
    assert len(rows.ids) == MANY
