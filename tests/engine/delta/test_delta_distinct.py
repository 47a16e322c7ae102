"""DISTINCT with state equals its definition at every instant, with every buffer, after every restart."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from psoup.delta import FOREVER, BufferKind, Distinct, load
from psoup.delta.buffers import BUFFERS, Calendar, Entries, Fifo
from psoup.delta.spans import Spans
from psoup.errors import Corrupt
from psoup.model import BIGINT, BOOLEAN, DOUBLE, TEXT
from psoup_testing.oracles.span_relations import (
    at_instant,
    changes_of,
    column_of,
    differences,
    live_at,
    random_instants,
    random_rows,
    spans_of,
    steps_of,
)
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

TYPES = [BIGINT, TEXT, DOUBLE]
BUFFERED: list[BufferKind] = ["calendar", "keyed"]


def _values(rng: np.random.Generator) -> tuple[Any, ...]:
    return (
        [None, 1, 2][int(rng.integers(0, 3))],
        [None, "", "a", "ab"][int(rng.integers(0, 4))],
        [None, -0.0, 0.0, float("nan")][int(rng.integers(0, 4))],
    )


def _one(rng: np.random.Generator) -> tuple[Any, ...]:
    return (int(rng.integers(0, 4)), "a", 0.0)


@pytest.mark.parametrize("buffer", BUFFERED)
@pytest.mark.parametrize("sides", [1, 2])
def test_distinct_equals_its_definition(buffer: BufferKind, sides: int) -> None:
    for seed in range(scaled(12)):
        rng = np.random.default_rng(seed)
        make, ordered = (_one, _values)[int(rng.integers(0, 2))], bool(rng.integers(0, 2))
        inputs = [random_rows(rng, make, int(rng.integers(0, 40)), ordered) for _ in range(sides)]
        instants = random_instants(rng)
        operator = Distinct(TYPES, buffer)
        got = steps_of(operator, [TYPES] * sides, inputs, instants)
        every = [row for rows in inputs for row in rows]
        wanted = differences(lambda t, every=every: Counter(dict.fromkeys(at_instant(every, t), 1)), -1, instants[-1])
        assert Counter(got) == wanted, f"seed {seed}"
        assert operator.rows == len(at_instant(every, instants[-1]))


@pytest.mark.parametrize("buffer", BUFFERED)
def test_a_restart_makes_the_same_state(buffer: BufferKind) -> None:
    for seed in range(scaled(10)):
        rng = np.random.default_rng(seed)
        rows = random_rows(rng, _values, 40, ordered=False)
        instants = random_instants(rng)
        cut = int(rng.integers(0, len(instants)))
        first, again = Distinct(TYPES, buffer), Distinct(TYPES, buffer)
        steps_of(first, [TYPES], [[row for row in rows if row[1] <= instants[cut]]], instants[: cut + 1])
        load(again, [spans_of(TYPES, live_at(rows, instants[cut]))], instants[cut])
        again.check()
        assert again.rows == first.rows
        for until in instants[cut + 1 :]:
            new = spans_of(TYPES, [row for row in rows if instants[cut] < row[1] <= until])
            assert changes_of(first.step([new], until)) == changes_of(again.step([new], until)), f"seed {seed}"
            cut = instants.index(until)


def _step(operator: Distinct, until: int, *rows: tuple[int, int, int]) -> list[tuple[Any, int, int]]:
    spans = spans_of([BIGINT], [((value,), start, end) for value, start, end in rows])
    changes = changes_of(operator.step([spans], until))
    operator.check()
    return [(values[0], sign, instant) for values, sign, instant in changes]


@pytest.mark.seeded("a row that starts at the instant after its value's end lets the value leave and enter")
@pytest.mark.parametrize("buffer", BUFFERED)
def test_a_value_that_comes_again_at_the_next_instant_stays(buffer: BufferKind) -> None:
    together, apart = Distinct([BIGINT], buffer), Distinct([BIGINT], buffer)
    assert _step(together, 30, (7, 3, 9), (7, 10, 12)) == [(7, 1, 3), (7, -1, 13)]
    assert _step(apart, 9, (7, 3, 9)) == [(7, 1, 3)]
    assert _step(apart, 30, (7, 10, 12)) == [(7, -1, 13)]
    assert _step(Distinct([BIGINT], buffer), 30, (7, 3, 9), (7, 11, 12)) == [
        (7, 1, 3),
        (7, -1, 10),
        (7, 1, 11),
        (7, -1, 13),
    ]


@pytest.mark.seeded("an entry leaves an instant early")
@pytest.mark.parametrize("buffer", BUFFERED)
def test_a_value_stays_until_its_end_is_over(buffer: BufferKind) -> None:
    operator = Distinct([BIGINT], buffer)
    assert _step(operator, 9, (7, 3, 9)) == [(7, 1, 3)]
    assert operator.rows == 1
    assert _step(operator, 10) == [(7, -1, 10)]
    assert operator.rows == 0
    assert _step(operator, FOREVER - 1, (8, 20, FOREVER)) == [(8, 1, 20)]


class _Unordered(Fifo):
    """A queue that does not mind the order of ends."""

    def _in_order(self, ends: np.ndarray) -> bool:
        return True


@pytest.mark.seeded("a FIFO in place of a calendar under DISTINCT")
def test_a_fifo_does_not_do_under_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Value 1 is queued again with the end 6, behind value 2 with the end 8."""
    steps = {1: [(1, 0, 4)], 5: [(1, 2, 6), (2, 4, 8)], 7: []}
    queue = Distinct([BIGINT], "fifo")
    _step(queue, 1, *steps[1])
    with pytest.raises(Corrupt, match="needs a calendar"):
        _step(queue, 5, *steps[5])
    monkeypatch.setitem(BUFFERS, "fifo", _Unordered)
    wrong, right = Distinct([BIGINT], "fifo"), Distinct([BIGINT])
    for until, rows in steps.items():
        spans = spans_of([BIGINT], [((value,), start, end) for value, start, end in rows])
        changes = [changes_of(operator.step([spans], until)) for operator in (wrong, right)]
    assert changes == [[], [((1,), -1, 7)]]
    with pytest.raises(Corrupt):
        wrong.check()


@pytest.mark.parametrize("buffer", swept(BUFFERED, fast=1))
def test_values_that_left_are_removed(buffer: BufferKind) -> None:
    """A hundred thousand values pass, a hundred at a time."""
    operator, peak = Distinct([BIGINT, TEXT], buffer), 0
    for turn in range(100):
        keys = np.arange(turn * 1_000, (turn + 1) * 1_000)
        columns = column_of(BIGINT, keys.tolist()), column_of(TEXT, [f"text {key}" for key in keys.tolist()])
        operator.step([Spans(columns, keys, keys + 100)], (turn + 1) * 1_000 - 1)
        assert operator.rows <= 101
        peak = max(peak, operator.nbytes)
    operator.check()
    assert peak < 600_000


def test_spans_out_of_step_are_refused() -> None:
    operator = Distinct([BOOLEAN])
    operator.step([spans_of([BOOLEAN], [((True,), 1, 5)])], 3)
    for start in (3, 9):
        with pytest.raises(Corrupt):
            operator.step([spans_of([BOOLEAN], [((True,), start, 20)])], 8)
    column = column_of(BOOLEAN, [True, False])
    with pytest.raises(Corrupt):
        operator.step([Spans((column,), np.array([6, 5]), np.array([9, 9]))], 8)


def test_a_calendar_divides_its_partitions_and_puts_them_together() -> None:
    for seed in range(scaled(40)):
        rng = np.random.default_rng(seed)
        calendar, rest, before = Calendar(limit=8, large=4), dict[int, int](), 0
        for turn in range(30):
            wide = int(rng.choice([3, 1_000, 2**40]))
            rows = np.arange(turn * 20, turn * 20 + int(rng.integers(0, 20)), dtype=np.int32)
            ends = before + rng.integers(0, wide, len(rows))
            calendar.put(rows, ends)
            rest.update(zip(rows.tolist(), ends.tolist(), strict=True))
            before += int(rng.integers(0, wide))
            due = calendar.due(before)
            assert dict(zip(due.rows.tolist(), due.ends.tolist(), strict=True)) == {
                row: end for row, end in rest.items() if end < before
            }
            rest = {row: end for row, end in rest.items() if end >= before}
            assert calendar.rows == len(rest)
            assert len(calendar._partitions) <= 8


def test_a_calendar_finds_the_width_of_its_partitions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first rows would be divided into thousands of partitions, and these be merged two by two."""
    made = list[Entries]()
    slice_of = Entries.slice
    monkeypatch.setattr(Entries, "slice", lambda self, *at: made.append(self) or slice_of(self, *at))
    calendar, ends = Calendar(limit=64), np.arange(100_000, dtype=np.int64) * 1_000_003
    for half in (slice(0, 50_000), slice(50_000, 100_000)):
        calendar.put(np.arange(100_000, dtype=np.int32)[half], ends[half])
    assert 32 < len(calendar._partitions) <= 64
    assert len(made) <= 4 * 64
    assert len(calendar.due(int(ends[70_000])).rows) == 70_000
