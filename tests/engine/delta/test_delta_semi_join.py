"""Semi-joins and anti-joins with state equal their definition at every instant: EXISTS, IN, NOT EXISTS, NOT IN."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from psoup.delta import BufferKind, SemiJoin, load
from psoup.delta.match_keys import Nulls
from psoup.delta.spans import Spans
from psoup.model import BIGINT, TEXT
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

LEFT, RIGHT = [TEXT, BIGINT, TEXT], [BIGINT, TEXT]
KEYS = [1, 2]
MODES: list[tuple[bool, Nulls]] = [
    (False, "never"),
    (True, "never"),
    (False, "equal"),
    (True, "equal"),
    (True, "unknown"),
]


def _key(rng: np.random.Generator) -> tuple[Any, ...]:
    return [None, 1, 2][int(rng.integers(0, 3))], [None, "x", "y", ""][int(rng.integers(0, 4))]


def _left(rng: np.random.Generator) -> tuple[Any, ...]:
    return ("ab"[int(rng.integers(0, 2))], *_key(rng))


def _qualifies(key: tuple[Any, ...], rights: Counter[tuple[Any, ...]], negated: bool, nulls: Nulls) -> bool:
    """Whether a left row with this key is in the result. `rights`: the keys of the right rows at the instant."""
    if nulls == "equal":
        return (key in rights) != negated
    if nulls == "never":
        return (None not in key and key in rights) != negated
    values = [x for other, x in rights if key[0] is not None and other == key[0]]  # key[1] NOT IN values
    return not values or (key[1] is not None and None not in values and key[1] not in values)


def _wanted(inputs: list[list[Row]], t: int, negated: bool, nulls: Nulls) -> Counter[tuple[Any, ...]]:
    lefts, rights = at_instant(inputs[0], t), at_instant(inputs[1], t)
    chosen = {values: count for values, count in lefts.items() if _qualifies(values[1:], rights, negated, nulls)}
    return Counter(chosen)


@pytest.mark.parametrize(("negated", "nulls"), MODES)
def test_a_semi_join_equals_its_definition(negated: bool, nulls: Nulls) -> None:
    for seed in range(scaled(12)):
        rng = np.random.default_rng(seed)
        ordered = bool(rng.integers(0, 2))
        buffers: list[BufferKind] = ["calendar", "keyed", *(["fifo"] if ordered else [])]
        buffer = buffers[int(rng.integers(0, len(buffers)))]
        inputs = [random_rows(rng, make, int(rng.integers(0, 30)), ordered) for make in (_left, _key)]
        instants = random_instants(rng)
        operator = SemiJoin(LEFT, KEYS, negated=negated, nulls=nulls, buffer=buffer)
        got = steps_of(operator, [LEFT, RIGHT], inputs, instants)
        wanted = differences(lambda t, inputs=inputs: _wanted(inputs, t, negated, nulls), -1, instants[-1])
        assert Counter(got) == wanted, f"seed {seed}, {buffer}"


@pytest.mark.parametrize(("negated", "nulls"), MODES)
def test_a_restart_makes_the_same_state(negated: bool, nulls: Nulls) -> None:
    for seed in range(scaled(6)):
        rng = np.random.default_rng(seed)
        inputs = [random_rows(rng, make, 30, ordered=False) for make in (_left, _key)]
        instants = random_instants(rng)
        at = instants[int(rng.integers(0, len(instants)))]
        first, again = (SemiJoin(LEFT, KEYS, negated=negated, nulls=nulls) for _ in range(2))
        early = [[row for row in rows if row[1] <= at] for rows in inputs]
        steps_of(first, [LEFT, RIGHT], early, [until for until in instants if until <= at])
        load(again, [spans_of(types, live_at(rows, at)) for types, rows in zip((LEFT, RIGHT), inputs, strict=True)], at)
        again.check()
        assert again.rows == first.rows
        late = [[row for row in rows if row[1] > at] for rows in inputs]
        for until in [until for until in instants if until > at]:
            new = [[row for row in rows if at < row[1] <= until] for rows in late]
            spans = [spans_of(types, rows) for types, rows in zip((LEFT, RIGHT), new, strict=True)]
            assert changes_of(first.step(spans, until)) == changes_of(again.step(spans, until)), f"seed {seed}"
            at = until


@pytest.mark.parametrize(
    ("end", "right", "instants", "wanted"),
    [
        (8, [(None, 0, 2), ("x", 4, 5), ("x", 6, 7), (None, 7, 8)], [5, 7, 14], [(1, 3), (-1, 4)]),
        (7, [(None, 2, 2), ("x", 3, 3), (None, 3, 4), (None, 5, 5)], [0, 8, 14], [(1, 0), (-1, 2), (1, 6), (-1, 8)]),
    ],
)
def test_not_in_looks_at_the_value_and_at_null_in_any_order(
    end: int, right: list[tuple[str | None, int, int]], instants: list[int], wanted: list[tuple[int, int]]
) -> None:
    """A row has two keys, its value and NULL. They leave at different ends, and one may leave after the row."""
    operator = SemiJoin(LEFT, KEYS, negated=True, nulls="unknown", buffer="keyed")
    inputs: list[list[Row]] = [[(("a", 1, "x"), 0, end)], [((1, value), *ends) for value, *ends in right]]
    got = steps_of(operator, [LEFT, RIGHT], inputs, instants)
    assert [(sign, instant) for _, sign, instant in got] == wanted


def _step(operator: SemiJoin, until: int, left: list[Row], right: list[Row]) -> list[Any]:
    changes = changes_of(operator.step([spans_of([TEXT, BIGINT], left), spans_of([BIGINT], right)], until))
    operator.check()
    return [(values[0], sign, instant) for values, sign, instant in changes]


@pytest.mark.seeded("changes of a value at one instant do not cancel out")
def test_a_key_that_comes_again_at_the_next_instant_stays() -> None:
    left: list[Row] = [(("a", 5), 3, 20)]
    right: list[Row] = [((5,), 5, 9), ((5,), 10, 12), ((5,), 14, 30)]
    semi = [("a", 1, 5), ("a", -1, 13), ("a", 1, 14), ("a", -1, 21)]
    anti = [("a", 1, 3), ("a", -1, 5), ("a", 1, 13), ("a", -1, 14)]
    for negated, wanted in ((False, semi), (True, anti)):
        together = SemiJoin([TEXT, BIGINT], [1], negated=negated, shown=[0])
        assert _step(together, 40, left, right) == wanted
        apart, got = SemiJoin([TEXT, BIGINT], [1], negated=negated, shown=[0]), list[Any]()
        for until in range(41):
            new = [[row for row in rows if row[1] == until] for rows in (left, right)]
            got += _step(apart, until, *new)
        assert got == wanted
        assert apart.rows == 0


@pytest.mark.seeded("a key leaves an instant early")
def test_a_key_stays_until_its_latest_end_is_over() -> None:
    for negated, sign in ((False, 1), (True, -1)):
        operator = SemiJoin([TEXT, BIGINT], [1], negated=negated, shown=[0])
        _step(operator, 5, [(("a", 5), 3, 20)], [((5,), 4, 9)])
        assert _step(operator, 12, [], [((5,), 7, 12)]) == []
        assert _step(operator, 13, [], []) == [("a", -sign, 13)]


def test_a_left_row_that_comes_with_its_partner_never_lacks_one() -> None:
    anti = SemiJoin([TEXT, BIGINT], [1], negated=True, shown=[0])
    assert _step(anti, 9, [(("a", 5), 3, 20)], [((5,), 3, 9)]) == []
    assert _step(anti, 10, [], []) == [("a", 1, 10)]


def test_a_row_takes_the_place_of_an_equal_row() -> None:
    """The result has the value "a" at all instants from 3 to 9, and one row at each."""
    anti = SemiJoin([TEXT, BIGINT], [1], negated=True, shown=[0])
    assert _step(anti, 30, [(("a", 5), 3, 6), (("a", 6), 7, 9)], []) == [("a", 1, 3), ("a", -1, 10)]


def test_without_keys_any_right_row_is_a_partner() -> None:
    for negated, wanted in ((False, [("a", 1, 5), ("a", -1, 8)]), (True, [("a", 1, 3), ("a", -1, 5), ("a", 1, 8)])):
        operator = SemiJoin([TEXT], [], negated=negated)
        right = Spans((), np.array([5, 6]), np.array([6, 7]))
        got = changes_of(operator.step([spans_of([TEXT], [(("a",), 3, 20)]), right], 15))
        assert [(values[0], sign, instant) for values, sign, instant in got] == wanted


def test_a_key_with_many_rows_changes_them_all() -> None:
    count = 5_000
    left = Spans((column_of(BIGINT, range(count)), column_of(BIGINT, [7] * count)), np.zeros(count, np.int64),
                 np.full(count, 90))  # fmt: skip
    right = spans_of([BIGINT], [((7,), 10, 19), ((7,), 30, 39)])
    deltas = SemiJoin([BIGINT, BIGINT], [1], negated=True, shown=[0]).step([left, right], 100)
    assert Counter(zip(deltas.sign.tolist(), deltas.instant.tolist(), strict=True)) == dict.fromkeys(
        [(1, 0), (-1, 10), (1, 20), (-1, 30), (1, 40), (-1, 91)], count
    )


def test_rows_and_keys_that_left_are_removed() -> None:
    operator, peak = SemiJoin([TEXT, BIGINT], [1], negated=True, buffer="fifo"), 0
    for turn in range(60):
        keys = np.arange(turn * 1_000, (turn + 1) * 1_000)
        columns = column_of(TEXT, [f"text {key}" for key in keys.tolist()]), column_of(BIGINT, keys.tolist())
        right = Spans((columns[1],), keys, keys + 50)
        operator.step([Spans(columns, keys, keys + 100), right], (turn + 1) * 1_000 - 1)
        assert operator.rows <= 101 + 51
        operator.check()
        peak = max(peak, operator.nbytes)
    assert peak < 1_000_000
