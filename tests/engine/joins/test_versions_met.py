"""Versions met by rows: sparse and dense keys, rows and versions in any order, and several threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from psoup.joins.versions_met import Spans, versions_met
from psoup.kernels.plain import Array
from psoup.work.runner import Task, serial

FIRST = np.iinfo(np.int64).min


def three_threads(tasks: Sequence[Task]) -> None:
    for task in reversed(tasks):
        task()


three_threads.threads = 3  # type: ignore[attr-defined]


def by_hand(keys: Array, times: Array, spans: Spans) -> list[int]:
    met = []
    for key, time in zip(keys.tolist(), times.tolist(), strict=True):
        begun = [at for at in np.flatnonzero(spans.keys == key).tolist() if spans.begins[at] <= time]
        last = max(begun, key=lambda at: (spans.begins[at], at), default=-1)
        met.append(last if last >= 0 and time < spans.ends[last] else -1)
    return met


@pytest.mark.parametrize("scale", [1, 2**40, -(2**58)])
@pytest.mark.parametrize("ordered", [True, False])
def test_each_row_meets_the_last_version_of_its_key(scale: int, ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psoup.joins.versions_met._SHARED_FROM", 20)
    rng = np.random.default_rng(abs(scale) % 97)
    for _ in range(20):
        keys, times = rng.integers(-3, 12, 90) * scale, rng.integers(0, 50, 90)
        begins = rng.integers(0, 40, 60)
        times, begins = (np.sort(times), np.sort(begins)) if ordered else (times, begins)
        ends = begins + rng.integers(0, 12, 60)
        begins[rng.random(60) < 0.1] = FIRST
        spans = Spans(rng.integers(0, 9, 60) * scale, begins, ends)
        expected = by_hand(keys, times, spans)
        assert versions_met(keys, times, spans, serial).tolist() == expected
        assert versions_met(keys, times, spans, three_threads).tolist() == expected


def test_no_row_and_no_version() -> None:
    empty: Array = np.zeros(0, np.int64)
    some: Array = np.zeros(3, np.int64)
    assert versions_met(empty, empty, Spans(some, some, some)).tolist() == []
    assert versions_met(some, some, Spans(empty, empty, empty)).tolist() == [-1] * 3
