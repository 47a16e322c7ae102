"""GROUP BY with state equals its definition at every instant, for every aggregate function."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from psoup.aggregates.measures import finish, fold
from psoup.delta import FOREVER, BufferKind, GroupMeasure, Groups
from psoup.delta import recomputed_states as trees
from psoup.delta.spans import Spans
from psoup.expressions.tree import AttributeRef, Expr
from psoup.model import BIGINT, BOOLEAN, DOUBLE, TEXT, DataType, Kind, decimal
from psoup.plan.nodes import Measure
from psoup_testing.oracles.span_relations import (
    Row,
    canonical,
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

MONEY = decimal(12, 2)
TYPES = [TEXT, BIGINT, DOUBLE, MONEY, BOOLEAN]
"""The key, then the arguments x, y, z and a condition."""
X, Y, Z, CONDITION = 1, 2, 3, 4


def _ref(place: int) -> Expr:
    return AttributeRef(TYPES[place], place, f"c{place}")


def _measure(function: str, result: DataType, *places: int, condition: bool = False, **facts: Any) -> GroupMeasure:
    args = tuple(map(_ref, places))
    filtered = _ref(CONDITION) if condition else None
    measure = Measure(function, args, result, condition=filtered, **facts)
    return GroupMeasure(measure, places, CONDITION if condition else None)


COUNT = _measure("count", BIGINT)
WIDE = DataType(Kind.WIDE, 38, 0)
RUNNING = [
    COUNT,
    _measure("count", BIGINT, X, condition=True),
    _measure("sum", DOUBLE, Y),
    _measure("avg", DOUBLE, Y, condition=True),
    _measure("avg", DOUBLE, Z),
    _measure("sum", WIDE, X),
]
EXTREMES = [
    _measure("min", BIGINT, X),
    _measure("max", DOUBLE, Y),
    _measure("min", TEXT, 0),
    _measure("max", MONEY, Z, condition=True),
    _measure("bit_xor", BIGINT, X),
]
DISTINCT = [
    COUNT,
    _measure("count", BIGINT, X, distinct=True),
    _measure("count", BIGINT, 0, distinct=True, condition=True),
    _measure("sum", DOUBLE, Y, distinct=True),
    _measure("avg", DOUBLE, Z, distinct=True, condition=True),
]
ROW_BY_ROW = [
    _measure("first", BIGINT, X),
    _measure("last", DOUBLE, Y, condition=True),
    _measure("arg_max", BIGINT, X, Y),
    _measure("quantile_cont", DOUBLE, Y, fraction=0.5),
    _measure("quantile_disc", BIGINT, X, fraction=0.5, distinct=True),
    _measure("stddev_samp", DOUBLE, Y),
    _measure("string_agg", TEXT, 0, X, order=((False, False),), separator=","),
]
KINDS = {"running": RUNNING, "extremes": EXTREMES, "distinct": DISTINCT, "row by row": ROW_BY_ROW}
ALL = [*RUNNING, *EXTREMES, *DISTINCT[1:], *ROW_BY_ROW]


def _values(rng: np.random.Generator) -> tuple[Any, ...]:
    return (
        [None, "a", "b"][int(rng.integers(0, 3))],
        [None, 2**62, -5, 7, 2**63 - 1][int(rng.integers(0, 5))],
        [None, 0.1, -0.0, 1e300, float("nan"), float("inf"), 5e-324, -3.5][int(rng.integers(0, 8))],
        [None, 12345, -99][int(rng.integers(0, 3))],
        [None, True, False][int(rng.integers(0, 3))],
    )


def _plain(rng: np.random.Generator) -> tuple[Any, ...]:
    return ("ab"[int(rng.integers(0, 2))], int(rng.integers(0, 5)), float(rng.integers(0, 4)), 100, True)


def _wanted(rows: Sequence[Row], t: int, keys: Sequence[int], measures: Sequence[GroupMeasure]) -> Counter[Any]:
    """The rows of all groups at an instant, by the product's own aggregates over the rows in order."""
    live = sorted((row for row in rows if row[1] <= t <= row[2]), key=lambda row: row[1])
    groups = dict[Any, list[Row]]() if keys else {(): []}
    for row in live:
        groups.setdefault(canonical([row[0][key] for key in keys]), []).append(row)
    wanted = Counter[Any]()
    for key, members in groups.items():
        spans = spans_of(TYPES, members)
        shown = []
        for measure, places, condition in measures:
            given = None if condition is None else spans.columns[condition]
            state = fold(measure, [spans.columns[place] for place in places], given, None, 1, len(members))
            shown.append(finish(measure, state, 1).to_list()[0])
        wanted[key + canonical(shown)] += 1
    return wanted


@pytest.mark.parametrize("keys", swept([[0], []], fast=1), ids=["by key", "of all rows"])
@pytest.mark.parametrize(
    "measures", [RUNNING, EXTREMES, DISTINCT, ROW_BY_ROW], ids=["running", "extremes", "distinct", "row by row"]
)
def test_groups_equal_their_definition(measures: list[GroupMeasure], keys: list[int]) -> None:
    for seed in range(scaled(4)):
        rng = np.random.default_rng(seed)
        make, ordered = (_plain, _values)[int(rng.integers(0, 2))], bool(rng.integers(0, 2))
        rows = random_rows(rng, make, int(rng.integers(0, 30)), ordered)
        buffers: list[BufferKind] = ["calendar", "keyed", *(["fifo"] if ordered else [])]
        operator = Groups(TYPES, keys, measures, buffer=buffers[int(rng.integers(0, len(buffers)))])
        instants = random_instants(rng)
        got = steps_of(operator, [TYPES], [rows], instants)
        wanted = differences(lambda t, rows=rows: _wanted(rows, t, keys, measures), -1, instants[-1])
        assert Counter(got) == wanted, f"seed {seed}"


def test_counts_sums_and_extremes_equal_those_of_python() -> None:
    """Without the product's aggregates: Python's own integers, fsum, min and max."""
    measures = [COUNT, RUNNING[5], RUNNING[2], EXTREMES[0], EXTREMES[1]]

    def relation(rows: list[Row], t: int) -> Counter[Any]:
        groups = dict[Any, list[Any]]()
        for values, start, end in rows:
            if start <= t <= end:
                groups.setdefault(values[0], []).append(values)
        return Counter(
            (key, len(some), sum(v[X] for v in some), math.fsum(v[Y] for v in some), min(v[X] for v in some),
             max(v[Y] for v in some))
            for key, some in groups.items()
        )  # fmt: skip

    for seed in range(scaled(5)):
        rng = np.random.default_rng(seed)
        rows = random_rows(rng, _plain, 40, ordered=False)
        instants = random_instants(rng)
        got = steps_of(Groups(TYPES, [0], measures), [TYPES], [rows], instants)
        assert Counter(got) == differences(lambda t, rows=rows: relation(rows, t), -1, instants[-1]), f"seed {seed}"


def test_a_restart_makes_the_same_state() -> None:
    for seed in range(scaled(2)):
        rng = np.random.default_rng(seed)
        rows = random_rows(rng, _values, 40, ordered=False)
        instants = random_instants(rng)
        at = instants[int(rng.integers(0, len(instants)))]
        first, again, loaded = (Groups(TYPES, [0], ALL) for _ in range(3))
        steps_of(first, [TYPES], [[row for row in rows if row[1] <= at]], [t for t in instants if t <= at])
        again.step([spans_of(TYPES, live_at(rows, at))], at)
        for low, high in ((-1, at // 2), (at // 2, at)):
            loaded.load([spans_of(TYPES, [row for row in live_at(rows, at) if low < row[1] <= high])], high)
        for until in [t for t in instants if t > at]:
            new = spans_of(TYPES, [row for row in rows if at < row[1] <= until])
            wanted = changes_of(first.step([new], until))
            for other in (again, loaded):
                assert changes_of(other.step([new], until)) == wanted, f"seed {seed}"
                other.check()
                assert other.rows == first.rows
            at = until


def test_a_query_without_keys_always_has_one_row() -> None:
    operator = Groups([BIGINT], [], [_measure("count", BIGINT), _measure("sum", WIDE, X)._replace(args=(0,))])
    rows: list[Row] = [((7,), 3, 5), ((9,), 4, 8)]
    assert steps_of(operator, [[BIGINT]], [rows], [20]) == [
        ((0, None), -1, 3),
        ((1, 7), 1, 3),
        ((1, 7), -1, 4),
        ((2, 16), 1, 4),
        ((2, 16), -1, 6),
        ((1, 9), 1, 6),
        ((1, 9), -1, 9),
        ((0, None), 1, 9),
    ]


def test_groups_without_measures_are_the_distinct_keys() -> None:
    rows: list[Row] = [(("a", 5), 3, 6), (("a", 7), 5, 9), (("b", 1), 3, FOREVER)]
    got = steps_of(Groups([TEXT, BIGINT], [0], []), [[TEXT, BIGINT]], [rows], [4, 20])
    assert got == [(("a",), 1, 3), (("b",), 1, 3), (("a",), -1, 10)]


@pytest.mark.seeded("a row that takes the place of an equal one changes its group")
def test_a_group_with_equal_results_does_not_change() -> None:
    operator = Groups([TEXT, BIGINT], [0], [COUNT, EXTREMES[0]])
    rows: list[Row] = [(("a", 5), 3, 6), (("a", 5), 7, 9), (("b", 1), 3, FOREVER)]
    got = steps_of(operator, [[TEXT, BIGINT]], [rows], [6, 20])
    assert got == [(("a", 1, 5), 1, 3), (("b", 1, 1), 1, 3), (("a", 1, 5), -1, 10)]


def test_pieces_of_positions_have_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = random_rows(rng, _plain, 60, ordered=False)
    whole = steps_of(Groups(TYPES, [0], ROW_BY_ROW), [TYPES], [rows], [15, 60])
    monkeypatch.setattr(trees, "_PAIRS", 8)
    monkeypatch.setattr(trees, "_POSITIONS", 5)
    assert steps_of(Groups(TYPES, [0], ROW_BY_ROW), [TYPES], [rows], [15, 60]) == whole


@pytest.mark.parametrize(
    "measures", swept([RUNNING, EXTREMES, DISTINCT], fast=1), ids=["running", "extremes", "distinct"]
)
def test_rows_and_groups_that_left_are_removed(measures: list[GroupMeasure]) -> None:
    operator, peak = Groups(TYPES, [0], measures), 0
    for turn in range(30):
        keys = np.arange(turn * 1_000, (turn + 1) * 1_000)
        doubles = column_of(DOUBLE, (keys * 0.1).tolist())
        money, flags = column_of(MONEY, keys.tolist()), column_of(BOOLEAN, [True] * len(keys))
        texts = column_of(TEXT, [f"text {key}" for key in keys.tolist()])
        columns = texts, column_of(BIGINT, keys.tolist()), doubles, money, flags
        operator.step([Spans(columns, keys, keys + 100)], (turn + 1) * 1_000 - 1)
        assert operator.rows <= 101
        operator.check()
        peak = max(peak, operator.nbytes)
    assert peak < 2_000_000
