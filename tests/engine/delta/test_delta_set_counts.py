"""EXCEPT and INTERSECT with state equal their definition at every instant, with every buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from psoup.delta import BufferKind, SetCounts, SetKind, load
from psoup.delta.spans import Spans
from psoup.model import BIGINT, DOUBLE, TEXT
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

TYPES = [TEXT, DOUBLE]
KINDS: dict[SetKind, Callable[[Counter[Any], Counter[Any]], Counter[Any]]] = {
    "except": lambda left, right: Counter(set(left) - set(right)),
    "except all": lambda left, right: left - right,
    "intersect": lambda left, right: Counter(set(left) & set(right)),
    "intersect all": lambda left, right: left & right,
}
BUFFERED: list[BufferKind] = ["calendar", "keyed", "fifo"]


def _values(rng: np.random.Generator) -> tuple[Any, ...]:
    return [None, "a", "b"][int(rng.integers(0, 3))], [None, -0.0, 0.0, float("nan")][int(rng.integers(0, 4))]


@pytest.mark.parametrize("buffer", BUFFERED)
@pytest.mark.parametrize("kind", KINDS)
def test_set_operations_equal_their_definition(kind: SetKind, buffer: BufferKind) -> None:
    for seed in range(scaled(4)):
        rng = np.random.default_rng(seed)
        length = int(rng.integers(1, 12))
        inputs = [random_rows(rng, _values, int(rng.integers(0, 40)), ordered=False) for _ in range(2)]
        if buffer == "fifo":
            inputs = [[(values, start, start + length) for values, start, _ in rows] for rows in inputs]
        instants = random_instants(rng)
        got = steps_of(SetCounts(TYPES, kind, buffer=buffer), [TYPES] * 2, inputs, instants)
        wanted = differences(
            lambda t, inputs=inputs: KINDS[kind](*[at_instant(rows, t) for rows in inputs]), -1, instants[-1]
        )
        assert Counter(got) == wanted, f"seed {seed}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_makes_the_same_state(kind: SetKind) -> None:
    for seed in range(scaled(4)):
        rng = np.random.default_rng(seed)
        inputs = [random_rows(rng, _values, 30, ordered=False) for _ in range(2)]
        instants = random_instants(rng)
        at = instants[int(rng.integers(0, len(instants)))]
        first, again = SetCounts(TYPES, kind), SetCounts(TYPES, kind)
        early = [[row for row in rows if row[1] <= at] for rows in inputs]
        steps_of(first, [TYPES] * 2, early, [until for until in instants if until <= at])
        load(again, [spans_of(TYPES, live_at(rows, at)) for rows in inputs], at)
        again.check()
        assert again.rows == first.rows
        for until in [until for until in instants if until > at]:
            spans = [spans_of(TYPES, [row for row in rows if at < row[1] <= until]) for rows in inputs]
            assert changes_of(first.step(spans, until)) == changes_of(again.step(spans, until)), f"seed {seed}"
            at = until


def test_rows_and_values_that_left_are_removed() -> None:
    operator, peak = SetCounts([TEXT, BIGINT], "except all", buffer="fifo"), 0
    for turn in range(30):
        keys = np.arange(turn * 1_000, (turn + 1) * 1_000)
        columns = column_of(TEXT, [f"text {key}" for key in keys.tolist()]), column_of(BIGINT, keys.tolist())
        left, right = Spans(columns, keys, keys + 100), Spans(columns, keys, keys + 100)
        assert len(operator.step([left, right.take(np.arange(0, 1_000, 2))], (turn + 1) * 1_000 - 1).sign) > 0
        assert operator.rows <= 152
        operator.check()
        peak = max(peak, operator.nbytes)
    assert peak < 1_000_000
