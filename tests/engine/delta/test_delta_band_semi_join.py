"""Semi-joins and anti-joins with a band equal their definition at every instant."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from psoup.delta import BandSemiJoin, BufferKind, load
from psoup.delta.spans import Spans
from psoup.model import BIGINT, TEXT, TIMESTAMP
from psoup_testing.oracles.span_relations import (
    Row,
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

LEFT, RIGHT = [TEXT, BIGINT, BIGINT, BIGINT], [BIGINT, BIGINT]


def _key(rng: np.random.Generator) -> int | None:
    return [None, 1, 2][int(rng.integers(0, 3))]


def _left(rng: np.random.Generator) -> tuple[Any, ...]:
    low = int(rng.integers(0, 10))
    high = [None, low + int(rng.integers(0, 5))][int(rng.random() < 0.9)]
    return "ab"[int(rng.integers(0, 2))], _key(rng), low, high


def _right(rng: np.random.Generator) -> tuple[Any, ...]:
    return _key(rng), [None, int(rng.integers(0, 12))][int(rng.random() < 0.9)]


def _with_times(row: Row) -> Row:
    """A row whose numbers are times, so that they ascend."""
    values, start, end = row
    return (*values[:-2], start - 4, start) if len(values) > 2 else (values[0], start), start, end


def _wanted(inputs: list[list[Row]], t: int, negated: bool) -> Counter[tuple[Any, ...]]:
    rights = [row for row in at_instant(inputs[1], t) if None not in row]

    def has_partner(left: tuple[Any, ...]) -> bool:
        _, key, low, high = left
        return high is not None and any(key == other and low <= number <= high for other, number in rights)

    lefts = at_instant(inputs[0], t)
    return Counter({left: count for left, count in lefts.items() if has_partner(left) != negated})


@pytest.mark.parametrize("negated", [False, True])
def test_a_band_semi_join_equals_its_definition(negated: bool) -> None:
    for seed in range(scaled(16)):
        rng = np.random.default_rng(seed)
        ordered = bool(rng.integers(0, 2))
        buffers: list[BufferKind] = ["calendar", "keyed", *(["fifo"] if ordered else [])]
        buffer = buffers[int(rng.integers(0, len(buffers)))]
        inputs = [random_rows(rng, make, int(rng.integers(0, 40)), ordered) for make in (_left, _right)]
        if rng.random() < 0.5:
            inputs = [list(map(_with_times, rows)) for rows in inputs]
        instants = random_instants(rng)
        operator = BandSemiJoin(LEFT, [1], (2, 3), negated=negated, buffer=buffer)
        got = steps_of(operator, [LEFT, RIGHT], inputs, instants)
        wanted = differences(lambda t, inputs=inputs: _wanted(inputs, t, negated), -1, instants[-1])
        assert Counter(got) == wanted, f"seed {seed}, {buffer}"


@pytest.mark.parametrize("negated", [False, True])
def test_a_restart_makes_the_same_state(negated: bool) -> None:
    for seed in range(scaled(8)):
        rng = np.random.default_rng(seed)
        inputs = [random_rows(rng, make, 30, ordered=False) for make in (_left, _right)]
        instants = random_instants(rng)
        at = instants[int(rng.integers(0, len(instants)))]
        first, again = (BandSemiJoin(LEFT, [1], (2, 3), negated=negated) for _ in range(2))
        early = [[row for row in rows if row[1] <= at] for rows in inputs]
        steps_of(first, [LEFT, RIGHT], early, [until for until in instants if until <= at])
        load(again, [spans_of(types, live_at(rows, at)) for types, rows in zip((LEFT, RIGHT), inputs, strict=True)], at)
        again.check()
        assert again.rows == first.rows
        for until in [until for until in instants if until > at]:
            new = [[row for row in rows if at < row[1] <= until] for rows in inputs]
            spans = [spans_of(types, rows) for types, rows in zip((LEFT, RIGHT), new, strict=True)]
            assert changes_of(first.step(spans, until)) == changes_of(again.step(spans, until)), f"seed {seed}"
            at = until


@pytest.mark.seeded("changes of a value at one instant do not cancel out")
def test_partners_one_after_the_other_are_one() -> None:
    types, left = [TEXT, BIGINT, TIMESTAMP, TIMESTAMP], [(("a", 5, 10, 18), 3, 20)]
    right: list[Row] = [((5, 10), 5, 9), ((5, 18), 10, 12), ((5, 19), 13, 30), ((5, 9), 13, 30), ((6, 12), 13, 30)]
    for negated, wanted in ((False, [(1, 5), (-1, 13)]), (True, [(1, 3), (-1, 5), (1, 13), (-1, 21)])):
        for steps in ([40], [9, 40], list(range(41))):
            operator = BandSemiJoin(types, [1], (2, 3), negated=negated, shown=[0])
            got = steps_of(operator, [types, [BIGINT, TIMESTAMP]], [left, right], steps)
            assert [(sign, instant) for _, sign, instant in got] == wanted
            assert operator.rows == 0


@pytest.mark.seeded("a partner leaves an instant early")
def test_a_row_has_a_partner_until_the_latest_end_is_over() -> None:
    types, left = [TEXT, BIGINT, TIMESTAMP, TIMESTAMP], [(("a", 5, 10, 18), 3, 20)]
    right: list[Row] = [((5, 10), 4, 9), ((5, 18), 7, 12)]
    for negated, sign in ((False, 1), (True, -1)):
        operator = BandSemiJoin(types, [1], (2, 3), negated=negated, shown=[0])
        got = steps_of(operator, [types, [BIGINT, TIMESTAMP]], [left, right], [5, 12, 13])
        assert got[-1] == (("a",), -sign, 13)


def test_without_keys_a_right_row_within_the_bounds_is_a_partner() -> None:
    for seed in range(scaled(6)):
        rng = np.random.default_rng(seed)
        inputs = [list(map(_with_times, random_rows(rng, make, 30, ordered=False))) for make in (_left, _right)]
        left = [((text, 1, low, high), start, end) for (text, _, low, high), start, end in inputs[0]]
        right = [((1, number), start, end) for (_, number), start, end in inputs[1]]
        numbers = [((number,), start, end) for (_, number), start, end in right]
        instants = random_instants(rng)
        got = steps_of(BandSemiJoin(LEFT, [], (2, 3), negated=True), [LEFT, [BIGINT]], [left, numbers], instants)
        wanted = differences(lambda t, rows=[left, right]: _wanted(rows, t, True), -1, instants[-1])
        assert Counter(got) == wanted, f"seed {seed}"


def test_bounds_at_the_ends_of_the_integers_hold() -> None:
    left: list[Row] = [(("a", 1, -(2**63), 2**63 - 1), 0, 9)]
    right: list[Row] = [((1, number), 1, 1) for number in (-(2**63), 2**63 - 1)]
    got = steps_of(BandSemiJoin(LEFT, [1], (2, 3), shown=[0]), [LEFT, RIGHT], [left, right], [9])
    assert got == [(("a",), 1, 1), (("a",), -1, 2)]


def test_rows_and_keys_that_left_are_removed() -> None:
    operator, peak = BandSemiJoin([TEXT, BIGINT, BIGINT], [1], (2, 2), negated=True), 0
    for turn in range(40):
        keys = np.arange(turn * 1_000, (turn + 1) * 1_000)
        numbers = column_of(BIGINT, keys.tolist())
        left = Spans((column_of(TEXT, [f"text {key}" for key in keys.tolist()]), numbers, numbers), keys, keys + 100)
        operator.step([left, Spans((numbers, numbers), keys, keys + 50)], (turn + 1) * 1_000 - 1)
        assert operator.rows <= 101 + 51
        operator.check()
        peak = max(peak, operator.nbytes)
    assert peak < 1_000_000


def test_a_key_with_many_rows_changes_them_all() -> None:
    count = 5_000
    columns = column_of(BIGINT, range(count)), column_of(BIGINT, [7] * count), column_of(BIGINT, [0] * count)
    left = Spans((*columns, column_of(BIGINT, [9] * count)), np.zeros(count, np.int64), np.full(count, 90))
    right = spans_of([BIGINT, BIGINT], [((7, 5), 10, 19), ((7, 9), 30, 39), ((7, 10), 50, 59)])
    deltas = BandSemiJoin([BIGINT] * 4, [1], (2, 3), negated=True, shown=[0]).step([left, right], 100)
    got = changes_of(deltas)
    assert Counter((sign, instant) for _, sign, instant in got) == dict.fromkeys(
        [(1, 0), (-1, 10), (1, 20), (-1, 30), (1, 40), (-1, 91)], count
    )
