"""Rows found by key indexes: each once, also where two intervals are apart as keys and equal as codes.

keys      0 1 2 … 49          2^40 + 0 … 49        shift 25: each half has one code, and so one bucket
lows      0 2 4 …             2^40 + 0 …           25 intervals of a code; the first one gets its places
"""

from __future__ import annotations

import numpy as np
import pytest

from psoup.data.key_index import KeyIndex, key_index
from psoup.errors import Corrupt
from psoup.kernels.plain.search import key_index as plain
from psoup.kernels.search import key_index as keyed
from psoup.matching.key_search import KeyFactor, KeyPlaces
from psoup.model import BIGINT
from psoup.plan.factors import Factor
from psoup.values.columns import Array, Column
from psoup_testing.kernel_cases.key_index import chunk_of

FAR = 1 << 40
PACKAGES = {"kernel": keyed, "twin": plain}


def index_of(keys: Array) -> KeyIndex:
    index = key_index(Column(BIGINT, keys))
    assert index is not None and index.facts[5] > 0, "several keys have a code"
    return index


def found(package: object, index: KeyIndex, lows: Array, lasts: Array) -> tuple[Array, Array, Array, bool]:
    """The places and rows that one chunk has in intervals."""
    begin, end = np.empty((1, len(lows)), np.int32), np.empty((1, len(lows)), np.int32)
    counts, at = np.empty(1, np.int64), np.array([index.place])
    package.find_keys(at, lows, lasts, begin, end, counts)  # type: ignore[attr-defined]
    rows = np.full(int(counts[0]), -1, np.int64)
    ascending = package.take_found(at, np.zeros(1, np.int64), begin, end, rows)  # type: ignore[attr-defined]
    return begin[0], end[0], rows, bool(ascending)


@pytest.mark.seeded("two intervals of keys that share a code of an index both give its rows")
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("near", [2, 8, 30, 500])
def test_each_row_is_found_once_by_intervals_that_share_a_code(package: str, near: int) -> None:
    """Few rows are sorted by comparison, more than 32 are marked: both give each row once."""
    keys = np.concatenate([np.arange(near), FAR + np.arange(near)])
    keys = np.random.default_rng(near).permutation(keys)
    index = index_of(keys)
    wanted = np.sort(keys)[::2].copy()
    begin, end, rows, ascending = found(PACKAGES[package], index, wanted, wanted)
    assert ascending and (rows[1:] > rows[:-1]).all()
    assert set(np.flatnonzero(np.isin(keys, wanted))) <= set(rows.tolist()), "none is missing"
    assert (begin <= end).all() and (begin[1:] >= end[:-1]).all(), "no place is in two intervals"
    assert (len(rows) <= 32) == (near <= 16)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_empty_interval_does_not_move_the_next_one(package: str) -> None:
    keys = np.concatenate([np.arange(0, 90, 3), FAR + np.arange(0, 90, 3)])
    index = index_of(keys)
    lows, lasts = np.array([-9, 5, 9, FAR // 2, FAR + 3, FAR + 900]), np.array([-1, 5, 9, FAR // 2, FAR + 4, FAR + 999])
    _, _, rows, ascending = found(PACKAGES[package], index, lows, lasts)
    assert ascending and {3, 31} <= set(rows.tolist())


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("count", [2, 40])
def test_a_place_in_two_intervals_is_told(package: str, count: int) -> None:
    index = index_of(np.concatenate([np.arange(count), FAR + np.arange(count)]))
    begin, end = np.array([[0, count - 1]], np.int32), np.array([[count, count]], np.int32)
    rows = np.empty(count + 1, np.int64)
    take = PACKAGES[package].take_found  # type: ignore[attr-defined]
    assert not take(np.array([index.place]), np.zeros(1, np.int64), begin, end, rows)


@pytest.mark.parametrize("count", [2, 40])
def test_a_look_up_does_not_give_a_row_twice(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals that do not ascend break the kernel's contract: an error, not an answer of too many rows."""
    keys = np.concatenate([np.arange(count), FAR + np.arange(count)])
    chunk = chunk_of(keys)
    numbers = np.array([0, count - 1])

    def twice(at: Array, lows: Array, lasts: Array, begin: Array, end: Array, counts: Array) -> None:
        begin[:], end[:], counts[:] = 0, count, 2 * count

    monkeypatch.setattr("psoup.matching.key_search.find_keys", twice)
    parts = [(chunk, 0, len(keys))]
    places = KeyPlaces(KeyFactor(Factor(()), 0, numbers, numbers), parts)
    with pytest.raises(Corrupt, match="a row was found twice"):
        list(places.taken(places.counts.copy(), parts))
