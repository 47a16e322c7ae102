"""Joins against brute force: all types of keys and pairs of them, bands, other conditions, errors, routes, bounds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psoup.config import JoinLimits
from psoup.errors import ResourceExhausted
from psoup.expressions.functions import resolve
from psoup.expressions.tree import Literal
from psoup.joins.join_pieces import joined
from psoup.joins.policies import Fixed, Greedy, InFromOrder, Lottery, Policy
from psoup.joins.sort_builds import hashed
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, decimal
from psoup.plan.nodes import PairFactor
from psoup.values.columns import Column
from psoup.values.from_arrow import column_from_arrow
from psoup.work.read_budget import ReadBudget
from psoup_testing.histories.join_sides import Side, by_looking, factor, node_of, ref, run, tuples_of
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

BIG = 2**63 - 1
VALUES: dict[DataType, list[Any]] = {
    BIGINT: [None, 0, 1, 2, 7, -3, 2**53, 2**53 + 1, BIG, -BIG - 1, 10**17, 10**18],
    DOUBLE: [
        None,
        0.0,
        -0.0,
        1.0,
        1.5,
        7.0,
        -3.5,
        float("nan"),
        float("inf"),
        -float("inf"),
        2.0**53,
        2.0**63,
        -(2.0**63),
    ],
    decimal(18, 0): [None, 0, 1, 7, -3, 10**17],
    decimal(6, 2): [None, 0, 100, 150, 700, -300, 701],
    decimal(18, 4): [None, 0, 10_000, 15_000, 70_000, 70_001, 10**18 - 1, -30_000],
    TEXT: [None, "", "a", "b", "ab", "é", "a\0", "aa"],
    BOOLEAN: [None, True, False],
    DATE: [None, 0, 1, -1, 20_000],
    TIMESTAMP: [None, 0, 86_400_000_000, -86_400_000_000, 1, 86_400_000_000 * 20_000],
}
TYPES = list(VALUES)
PAIRS = [
    (one, other)
    for one, other in itertools.product(TYPES, TYPES)
    if one == other or {one, other} <= {*TYPES[:5]} or {one, other} == {DATE, TIMESTAMP}
]
OPERATORS = ["eq", "lt", "le", "gt", "ge"]


def column(type: DataType, values: Sequence[Any]) -> Column:
    """A column of engine forms."""
    if type == TEXT:
        return column_from_arrow("c", TEXT, pa.array(values, pa.large_string()))
    valid = np.array([value is not None for value in values], np.bool_)
    dtype = {BOOLEAN: np.bool_, DOUBLE: np.float64, DATE: np.int32}.get(type, np.int64)
    own = np.array([0 if value is None else value for value in values], dtype)
    return Column(type, own, None if valid.all() else valid)


def ints(*values: int | None) -> Column:
    return column(BIGINT, values)


def drawn(draw: st.DrawFn, type: DataType, rows: int) -> Column:
    few = draw(st.integers(1, len(VALUES[type])))
    return column(type, draw(st.lists(st.sampled_from(VALUES[type][-few:]), min_size=rows, max_size=rows)))


@st.composite
def policies(draw: st.DrawFn, sources: int) -> Policy:
    """Every policy, and every fixed order."""
    order = draw(st.permutations(range(1, sources)))
    return draw(st.sampled_from([Greedy(), InFromOrder(), Lottery(draw(st.integers(0, 9))), Fixed(order)]))


@st.composite
def limits(draw: st.DrawFn) -> JoinLimits:
    """Pieces of one tuple, of some, and of all; few tuples kept to be sorted."""
    sizes = st.sampled_from([1, 2, 5, 1_000])
    return JoinLimits(rows=draw(sizes), first=draw(sizes), piece=draw(sizes), kept=draw(sizes))


@pytest.mark.seeded("NULLs join")
@pytest.mark.seeded("scales are not aligned")
@pytest.mark.seeded("the key of a DOUBLE is rounded")
@pytest.mark.seeded("the edge of a band is left out")
@pytest.mark.parametrize(("left", "right"), swept(PAIRS, fast=range(0, 31, 4)), ids=str)
@pytest.mark.parametrize("operator", OPERATORS)
def test_all_values_of_all_pairs_of_types(operator: str, left: DataType, right: DataType) -> None:
    sides = [Side([column(left, VALUES[left] * 2)]), Side([column(right, VALUES[right][::-1])])]
    node = node_of(sides, [factor(operator, ref(sides, 0, 0), ref(sides, 1, 0))])
    assert run(node, sides) == by_looking(node, sides)


@st.composite
def joins(draw: st.DrawFn) -> tuple[list[Side], list[PairFactor], list[Any]]:
    """Two to four sides, some factors between them, some conditions beside."""
    count = draw(st.integers(2, 4))
    types = draw(st.lists(st.sampled_from(TYPES), min_size=2, max_size=2))
    most = {2: 14, 3: 8, 4: 5}[count]
    sides = [
        Side([drawn(draw, type, rows) for type in (*types, BIGINT)])
        for rows in draw(st.lists(st.integers(0, most), min_size=count, max_size=count))
    ]
    factors = []
    for one, other in itertools.combinations(range(count), 2):
        for index in range(3):
            if draw(st.integers(0, 2 * count)) < 3:
                operator = draw(st.sampled_from(["eq", "eq", *OPERATORS]))
                pair = (ref(sides, one, index), ref(sides, other, index))
                factors.append(factor(operator, *(pair if draw(st.booleans()) else pair[::-1])))
    rest = []
    if draw(st.integers(0, 2)) == 0:
        total = resolve("add", [ref(sides, 0, 2), ref(sides, count - 1, 2)])  # may be out of range: an error
        rest.append(resolve("gt", [total, Literal(BIGINT, 1)]))
    if draw(st.integers(0, 2)) == 0:
        unequal = resolve("ne", [ref(sides, 0, 1), ref(sides, 1, 1)])
        rest.append(resolve("or", [unequal, resolve("eq", [ref(sides, 0, 0), ref(sides, 1, 0)])]))
    return sides, factors, rest


@given(joins(), st.data())
@settings(max_examples=scaled(80))
def test_joins_of_some_sides(join: tuple[list[Side], list[PairFactor], list[Any]], data: st.DataObject) -> None:
    sides, factors, rest = join
    node = node_of(sides, factors, rest)
    policy, bounds = data.draw(policies(len(sides))), data.draw(limits())
    assert run(node, sides, policy=policy, limits=bounds) == by_looking(node, sides)


@pytest.mark.seeded("a hybrid is taken twice")
@given(st.data())
def test_keys_that_follow_from_others_connect(data: st.DataObject) -> None:
    """a = b and b = c: with a = c, which is not tested by itself, every route is connected."""
    sides = [Side([drawn(data.draw, BIGINT, 6)]) for _ in range(3)]
    pairs = [(0, 1), (1, 2), (0, 2)]
    factors = [factor("eq", ref(sides, a, 0), ref(sides, b, 0), implied=b - a == 2) for a, b in pairs]
    node = node_of(sides, factors)
    wanted = by_looking(node, sides)
    for policy in (InFromOrder(), *map(Fixed, itertools.permutations(range(1, 3)))):
        assert run(node, sides, policy=policy) == wanted


@given(st.data())
def test_trees_of_equalities_equal_what_looking_finds(data: st.DataObject) -> None:
    """Each source is joined with one before it, by either of its columns; keys near one another or far apart; NULLs."""
    count, spread = data.draw(st.integers(3, 5)), data.draw(st.sampled_from([1, 2**40]))
    values = st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=6, max_size=6)
    far = [[None if v is None else v * spread for v in data.draw(values)] for _ in range(2 * count)]
    sides = [Side([ints(*own) for own in far[place::count]]) for place in range(count)]
    own = st.integers(0, 1)
    factors = [
        factor("eq", ref(sides, data.draw(st.integers(0, s - 1)), data.draw(own)), ref(sides, s, data.draw(own)))
        for s in range(1, count)
    ]
    node, bounds = node_of(sides, factors), data.draw(limits())
    found = joined(node, sides, limits=bounds)
    rows = tuples_of(found)
    assert rows == by_looking(node, sides)[0]
    assert found.nested or not rows
    assert run(node, sides, policy=Greedy()) == (rows, 0)


@pytest.mark.parametrize("spread", [1, 2**40])
@pytest.mark.parametrize("sizes", [(40, 9_000), (9_000, 40), (5_000, 5_000)])
def test_sides_of_different_sizes(sizes: tuple[int, int], spread: int) -> None:
    rng = np.random.default_rng(3)
    keys = [rng.integers(0, 3_000, size) * spread for size in sizes]
    sides = [Side([Column(BIGINT, own), Column(BIGINT, rng.permutation(len(own)))]) for own in keys]
    node = node_of(sides, [factor("eq", ref(sides, 0, 0), ref(sides, 1, 0))])
    narrow = node_of(sides, [*node.keys, factor("lt", ref(sides, 1, 1), ref(sides, 0, 1))])
    left, right = np.nonzero(keys[0][:, None] == keys[1][None, :])
    assert tuples_of(joined(node, sides)) == list(zip(left.tolist(), right.tolist(), strict=True))
    times = [side.own[1].values for side in sides]
    inside = times[1][right] < times[0][left]
    assert tuples_of(joined(narrow, sides)) == list(zip(left[inside].tolist(), right[inside].tolist(), strict=True))


def test_a_side_with_itself() -> None:
    side = Side([ints(1, 2, 1, None)])
    node = node_of([side, side], [factor("eq", ref([side, side], 0, 0), ref([side, side], 1, 0))])
    assert run(node, [side, side]) == ([(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)], 0)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_two_keys_of_one_column_are_both_confirmed(order: tuple[int, int]) -> None:
    sides = [Side([ints(1, 2), ints(0, 0)]), Side([ints(1, 2), ints(1, 1)]), Side([ints(1, 2)])]
    keys = [factor("eq", ref(sides, place, 0), ref(sides, 2, 0)) for place in (0, 1)]
    node = node_of(sides, [*keys, factor("lt", ref(sides, 0, 1), ref(sides, 1, 1))])
    assert run(node, sides, policy=Fixed(order)) == ([(0, 0, 0), (1, 1, 1)], 0)


@pytest.mark.seeded("a hash is not confirmed")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_equal_hashes_of_several_keys_are_confirmed(order: tuple[int, int]) -> None:
    one = np.array([3, 4])
    own = hashed([one, np.zeros(2, np.int64)])
    second = np.concatenate([[9], 9 + own[:1] - own[1:]])  # (4, this) has the hash of (3, 9)
    assert len(set(hashed([one, second]).tolist())) == 1
    sides = [Side([Column(BIGINT, one), Column(BIGINT, second)]) for _ in range(2)]
    node = node_of(sides, [factor("eq", ref(sides, 0, index), ref(sides, 1, index)) for index in order])
    assert run(node, sides) == ([(0, 0), (1, 1)], 0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_band_of_time_beside_one_that_is_not_in_its_order(order: tuple[int, int]) -> None:
    """All rows take part, and the side is sorted by one of the bands: the other one ascends with the rows only."""
    prices, times = pa.array([5, 1, 4, 2, 3, 0] * 5), pa.array(range(30))
    sides = [Side([column_from_arrow("c", BIGINT, own) for own in (prices, times)]) for _ in range(2)]
    bands = [
        factor("le", ref(sides, 0, 0), ref(sides, 1, 0)),
        factor("lt", ref(sides, 0, 1), ref(sides, 1, 1)),
    ]
    node = node_of(sides, [bands[place] for place in order])
    assert run(node, sides) == by_looking(node, sides)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("room", [3, 1_000])
def test_bands_of_time_beside_a_hot_key_and_alone(shuffled: bool, keyed: bool, room: int) -> None:
    """Both ends of a band are about one operand: in order of time it is searched for, and else sorted or tested."""
    rng = np.random.default_rng(5)
    sides = []
    for rows in (150, 200):
        times = np.sort(rng.integers(0, 1_000, rows))
        times = rng.permutation(times) if shuffled else times
        sides.append(Side([Column(BIGINT, np.where(rng.random(rows) < 0.9, 7, 8)), Column(BIGINT, times)]))
    early = resolve("sub", [ref(sides, 0, 1), Literal(BIGINT, 20)])
    late = resolve("add", [ref(sides, 0, 1), Literal(BIGINT, 20)])
    factors = [factor("ge", ref(sides, 1, 1), early), factor("gt", late, ref(sides, 1, 1))]
    if keyed:
        factors.append(factor("eq", ref(sides, 0, 0), ref(sides, 1, 0)))
    node = node_of(sides, factors)
    found = joined(node, sides, limits=JoinLimits(rows=room))
    assert tuples_of(found) == by_looking(node, sides)[0]
    if not (shuffled and keyed):
        assert found.candidates < 3_000  # of 30,000


def hot(rows: int, sources: int = 2) -> tuple[list[Side], Any]:
    sides = [Side([Column(BIGINT, np.where(np.arange(rows) % 2 == 0, 7, np.arange(rows)))]) for _ in range(sources)]
    factors = [factor("eq", ref(sides, place, 0), ref(sides, place + 1, 0)) for place in range(sources - 1)]
    return sides, node_of(sides, factors)


@pytest.mark.seeded("the last hybrid of a piece is lost")
@pytest.mark.parametrize("sources", [2, 3])
def test_few_tuples_of_a_hot_key_come_after_few_candidates(sources: int) -> None:
    sides, node = hot(20_000, sources)
    found = joined(node, sides)
    piece = next(found)
    assert piece[0][0] == piece[1][0] == 0
    assert 0 < len(piece[0]) <= 65_536
    assert found.candidates < 3_000_000


def test_tuples_that_are_too_many_to_be_sorted_come_in_order_all_the_same() -> None:
    sides, node = hot(24, 3)
    assert run(node, sides, policy=Fixed((2, 1)), limits=JoinLimits(kept=50, piece=7)) == by_looking(node, sides)


@pytest.mark.parametrize(
    ("bounds", "word"), [(JoinLimits(pairs=1_000_000), "join_pairs"), (JoinLimits(bytes=99), "join_mib")]
)
@pytest.mark.parametrize("sources", [2, 3])
def test_bounds_end_a_join_with_what_to_narrow(bounds: JoinLimits, word: str, sources: int) -> None:
    sides, node = hot(4_000, sources)
    with pytest.raises(ResourceExhausted, match=word) as refusal:
        for _ in joined(node, sides, limits=bounds):
            pass
    assert refusal.value.reason == "JOIN_BUDGET"
    assert {"used", "limit", "factor"} <= refusal.value.facts.keys()


@pytest.mark.parametrize("sources", [2, 3])
def test_a_caller_that_has_left_ends_a_join(sources: int) -> None:
    class Left(Exception):
        pass

    asked = []

    def ask() -> None:
        asked.append(1)
        if len(asked) > 10:
            raise Left

    sides, node = hot(4_000, sources)
    with pytest.raises(Left):
        for _ in joined(node, sides, budget=ReadBudget(ask)):
            pass


def test_rows_whose_operands_fail_are_counted_once_whatever_the_route() -> None:
    sides = [Side([ints(1, 2, BIG), ints(5, BIG, BIG)]), Side([ints(2, 3), ints(6, 6)])]
    one = [resolve("add", [ref(sides, 0, index), Literal(BIGINT, 1)]) for index in range(2)]
    factors = [factor("eq", one[index], ref(sides, 1, index)) for index in range(2)]
    node = node_of(sides, factors)
    assert run(node, sides) == by_looking(node, sides) == ([(0, 0)], 2)
    empty = [sides[0], Side([ints(), ints()])]
    assert run(node, empty) == ([], 0)


def test_figures_say_what_each_step_did() -> None:
    sides, node = hot(10, 3)
    found = joined(node, sides, policy=Fixed((1, 2)))
    rows = len(tuples_of(found))
    first, second = (next(f for f in found.figures if f.source == source and f.pieces) for source in (1, 2))
    assert (first.rows_in, second.rows_in, second.rows_out) == (10, first.rows_out, rows)
    assert found.candidates == first.candidates + second.candidates
    assert "c0" in first.text


def test_a_join_without_routes_tells_what_each_step_did() -> None:
    """Of (0, 1, 2, 3) the last has no partner in the third source, and the first only there: they take no step."""
    keys = [0, 1, 2, 3], [1, 2, 2, 3], [0, 1, 2, 2]
    sides = [Side([ints(*own)]) for own in keys]
    node = node_of(sides, [factor("eq", ref(sides, 0, 0), ref(sides, place, 0)) for place in (1, 2)])
    found = joined(node, sides)
    assert tuples_of(found) == by_looking(node, sides)[0]
    assert found.nested
    assert [(step.source, step.rows_in, step.rows_out) for step in found.figures] == [(1, 2, 3), (2, 3, 5)]
    assert found.candidates == 8
