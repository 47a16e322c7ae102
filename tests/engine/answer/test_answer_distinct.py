"""Distinct identifiers, counted or sorted: both ways give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest

from psoup.answer.follow.distinct import distinct_first, distinct_places
from psoup.answer.follow.pairs import _in_order


@pytest.mark.parametrize("high", [1, 40, 1 << 20, 1 << 60])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_distinct_identifiers_are_those_of_numpy(high: int, count: int) -> None:
    ids = np.random.default_rng(count).integers(-high, high, count)
    for mine, (distinct, places) in (
        (distinct_first(ids), np.unique(ids, return_index=True)),
        (distinct_places(ids), np.unique(ids, return_inverse=True)),
    ):
        assert np.array_equal(mine[0], distinct) and np.array_equal(mine[1], places)
        assert mine[0].dtype == mine[1].dtype == np.int64


@pytest.mark.parametrize(("tuples", "queries"), [(1, 1), (70, 9), (65_536, 65_535), (65_536, 65_536), (9, 1 << 61)])
def test_pairs_are_put_in_order_by_keys_of_any_size(tuples: int, queries: int) -> None:
    draw, low = np.random.default_rng(3), 10**12
    pairs = {(low + int(draw.integers(tuples)), int(draw.integers(queries))) for _ in range(300)}
    pairs |= {(low, 0), (low + tuples - 1, queries - 1)}
    given = np.array([*pairs], np.int64)
    ordered = _in_order(given[:, 0], given[:, 1], low, low + tuples)
    assert [*zip(*(column.tolist() for column in ordered), strict=True)] == sorted(pairs)
