"""Parts of joins: order, thinning, policies that follow selectivities, keys of texts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psoup.config import JoinLimits
from psoup.joins.budget import JoinBudget
from psoup.joins.eddy import Routes
from psoup.joins.from_order import in_from_order
from psoup.joins.join_pieces import joined
from psoup.joins.key_columns import Edge
from psoup.joins.policies import Fixed, Greedy, Learned, Lottery, Policy
from psoup.joins.semi_join import thinned
from psoup.joins.sort_builds import Builds, KeyBuckets, all_rows, hashed
from psoup.joins.steps import Step
from psoup.kernels.join.band_probe import probe_banded
from psoup.kernels.join.pair_columns import probe_buckets, probe_ranges
from psoup.kernels.join.range_pairs import emit_pairs
from psoup.model import BIGINT
from psoup.values.columns import Column
from psoup.work.read_budget import UNBOUNDED
from psoup_testing.histories.join_sides import Side, factor, node_of, ref, tuples_of

NONE, NO_ROWS = np.zeros(0, np.int64), np.zeros(0, np.int32)
ROOM = JoinBudget(JoinLimits(), UNBOUNDED)


def edge(left: int, right: int, *keys: np.ndarray, implied: bool = False) -> Edge:
    return Edge("eq", left, right, *keys, implied, f"{left} = {right}", f"l{left}", f"r{right}")


@given(st.integers(1, 8), st.sampled_from([3, 2**20, 2**31]), st.integers(0, 30))
def test_tuples_are_sorted_by_all_their_rows(sources: int, size: int, count: int) -> None:
    """Up to 248 bits of them."""
    rng = np.random.default_rng(count)
    places = [np.where(rng.random(count) < 0.5, 1, rng.integers(0, size, count)) for _ in range(sources)]
    found = in_from_order(places, [size] * sources)
    wanted = sorted(zip(*(own.tolist() for own in places), strict=True))
    assert list(zip(*(own.tolist() for own in found), strict=True)) == wanted


@pytest.mark.parametrize("first", [0, 1])
def test_thinned_sides_have_every_row_that_joins(first: int) -> None:
    """A small side thins the next one, and that one the next."""
    rng = np.random.default_rng(2)
    keys = [rng.integers(0, 10**6, rows) for rows in (50, 40_000, 200_000)]
    keys[1][:30] = keys[0][:30]
    keys[2][-100:] = keys[1][:100]
    edges = [edge(0, 1, keys[0], keys[1]), edge(1, 2, keys[1], keys[2])]
    rows = [all_rows(len(own)) for own in keys]
    kept = thinned(rows, edges, ROOM, first)
    for before, after in itertools.pairwise(range(3)):
        joins = np.isin(keys[after], keys[before][kept[before]])
        assert set(np.flatnonzero(joins).tolist()) <= set(kept[after].tolist())
        assert (np.diff(kept[after]) > 0).all()
    assert len(kept[0]) == 50
    assert len(kept[1]) < 8_000
    assert len(kept[2]) < 40_000
    assert (rows[2] == np.arange(200_000)).all()


@pytest.mark.seeded("pairs are written past a buffer")
@pytest.mark.parametrize("room", range(1, 5))
def test_pairs_are_read_and_written_within_their_arrays(room: int) -> None:
    """As Python an index past an array is an error; compiled it would be what lies behind."""
    begin, end, rows = np.array([0, 2, 3], np.int32), np.array([2, 3, 3], np.int32), np.arange(3, dtype=np.int32)
    found, at, inside = list[tuple[int, int]](), 0, 0
    while at < len(begin):
        left, right = np.empty(room, np.int64), np.empty(room, np.int64)
        at, inside, pairs, _ = emit_pairs.py_func(begin, end, NONE, NONE, rows, at, inside, 99, left, right)
        found += zip(left[:pairs].tolist(), right[:pairs].tolist(), strict=True)
    assert found == [(0, 0), (0, 1), (1, 2)]


@pytest.mark.seeded("pairs are written past a buffer")
@pytest.mark.parametrize("way", ["all", "equal", "near", "banded"])
def test_kernels_write_nothing_behind_their_room(way: str) -> None:
    """What lies behind would be another's: here it is looked at, for every room and as many partners as rows have."""
    keys = np.repeat(np.arange(12), np.arange(12)) * (1 if way == "all" else 2**40)
    rows, expected = all_rows(len(keys)), [(a, b) for a, b in itertools.product(range(len(keys)), repeat=2)]
    expected = [pair for pair in expected if keys[pair[0]] == keys[pair[1]]]
    build = KeyBuckets(keys, rows, ROOM)
    assert build.exact == (way == "all")
    near = True, 0, True, 0
    kernel, ask = {
        "near": (probe_ranges, (keys, rows, *near)),
        "banded": (probe_banded, (build.places, keys, keys[build.rows], near)),
    }.get(way, (probe_buckets, build.places))
    for room in range(1, 40):
        found, at, inside = list[tuple[int, int]](), 0, 0
        while at < len(keys):
            left, right = np.full((2, room + 64), -1, np.int32)
            at, inside, pairs, _ = kernel(keys, NO_ROWS, *ask, at, inside, 99, left[:room], right[:room])
            assert (left[room:] == -1).all()
            assert (right[room:] == -1).all()
            found += zip(left[:pairs].tolist(), right[:pairs].tolist(), strict=True)
        assert found == expected


def test_a_hash_of_several_keys_tells_their_order() -> None:
    one, other = np.array([1, 2, -1]), np.array([2, 1, -1])
    assert (hashed([one, other])[:2] != hashed([other, one])[:2]).all()
    assert hashed([one]) is one


def steps(shares: list[float]) -> list[Step]:
    """Steps from source 0 to sides with so large a part of the largest."""
    keys = np.arange(1_000)
    rows = [all_rows(1_000), *(all_rows(int(1_000 * share)) for share in shares)]
    edges = [edge(0, place, keys, keys) for place in range(1, len(rows))]
    return Routes(edges, Builds(rows, ROOM)).left(1)


def test_greedy_takes_the_smallest_side_first_and_then_what_it_saw() -> None:
    policy, (large, small) = Greedy(), steps([1.0, 0.1])
    assert policy.choose([large, small], 8_192) is small
    policy.told(small, 1_000, 3_000, 4_000)
    policy.told(large, 1_000, 10, 1_010)
    assert policy.choose([large, small], 8_192) is large


def test_greedy_tries_what_it_does_not_know_with_few_tuples() -> None:
    policy, (large, small) = Greedy(), steps([1.0, 0.1])
    policy.told(small, 1_000, 0, 1_000)
    assert policy.choose([large, small], 100) is large
    assert policy.choose([large, small], 8_192) is small


def test_greedy_is_back_within_32_pieces_when_selectivities_change_places() -> None:
    """Only the step that is taken tells of itself: the other one is known anew when it is tried."""
    policy, both = Greedy(), steps([1.0, 1.0])
    growth = {both[0].name: 0.1, both[1].name: 0.9}

    def piece() -> Step:
        step = policy.choose(both, 8_192)
        out = int(8_192 * growth[step.name])
        policy.told(step, 8_192, out, 8_192 + out)
        return step

    for step in both:
        policy.told(step, 8_192, 8_000, 16_192)
    for _ in range(32):
        piece()
    assert [piece() for _ in range(20)].count(both[0]) >= 19
    growth = {both[0].name: 0.9, both[1].name: 0.1}
    assert both[1] in [piece() for _ in range(32)]
    assert [piece() for _ in range(20)].count(both[1]) >= 19


def test_the_lottery_is_won_by_steps_that_drop_tuples_and_repeats_itself() -> None:
    both = steps([1.0, 1.0])

    def drawn() -> list[Step]:
        policy = Lottery(7)
        policy.told(both[1], 8_192, 100, 8_292)
        policy.told(both[0], 8_192, 9_000, 17_192)
        return [policy.choose(both, 8_192) for _ in range(200)]

    assert drawn().count(both[1]) > 190
    assert drawn() == drawn()


@pytest.mark.seeded("tickets that never fade")
def test_a_step_that_no_longer_drops_tuples_loses_its_tickets() -> None:
    """The first step drops all tuples a hundred times, then none; from then on the second one drops them."""
    first, second = steps([1.0, 1.0])
    policy = Lottery(7)
    for _ in range(100):
        policy.told(first, 100, 0, 100)
    assert [policy.choose((first, second), 100) for _ in range(200)].count(first) > 180
    for _ in range(10):
        policy.told(first, 100, 100, 100)
        policy.told(second, 100, 0, 100)
    assert [policy.choose((first, second), 100) for _ in range(200)].count(second) > 150


@pytest.mark.parametrize("policy", [Greedy(), Lottery(), Fixed((3, 1, 2))], ids=["greedy", "lottery", "fixed"])
def test_sources_in_any_order_have_the_same_tuples(policy: Policy) -> None:
    """A policy may serve one join after another."""
    rng = np.random.default_rng(4)
    sides = [
        Side([Column(BIGINT, rng.integers(0, 40, rows)), Column(BIGINT, rng.integers(0, 9, rows))])
        for rows in (90, 60, 70, 50)
    ]
    wanted: set[tuple[int, ...]] = set()
    for order in itertools.permutations(range(4)):
        own = [sides[source] for source in order]
        places = {source: place for place, source in enumerate(order)}
        columns = [(0, 1, 0), (1, 2, 0), (1, 3, 1)]
        factors = [factor("eq", ref(own, places[a], c), ref(own, places[b], c)) for a, b, c in columns]
        node = node_of(own, [*factors, factor("lt", ref(own, places[0], 1), ref(own, places[3], 1))])
        found = tuples_of(joined(node, own, policy=policy))
        assert found == sorted(found)
        told = {tuple(row[places[source]] for source in range(4)) for row in found}
        assert len(told) == len(found) > 0
        assert told == (wanted or told)
        wanted = told


def _star(swapped: bool) -> list[Side]:
    """A source of 4,096 rows, and sides of one size: of its rows a tenth has a partner there, each has, or has two."""
    rng, size = np.random.default_rng(1), 8_192
    partners = [np.arange(0, 4_096, 10), np.arange(4_096), np.repeat(np.arange(4_096), 2)]
    sides = [Side([Column(BIGINT, rng.permutation(4_096))])]
    for own in partners[::-1] if swapped else partners:
        others = 10_000 + np.arange(size - len(own))
        sides.append(Side([Column(BIGINT, rng.permutation(np.concatenate([own, others])))]))
    return sides


def test_what_was_seen_is_kept_for_the_next_join_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when selectivities have changed places meanwhile: in a join of three pieces nothing is tried twice."""
    monkeypatch.setattr("psoup.joins.join_pieces.tree_of", lambda *_: None)
    learned, before, after = Learned(), _star(swapped=True), _star(swapped=False)
    node = node_of(before, [factor("eq", ref(before, 0, 0), ref(before, place, 0)) for place in (1, 2, 3)])

    def looked_at(sides: list[Side], known: Learned) -> int:
        pieces = joined(node, sides, learned=known)
        assert tuples_of(pieces) == tuples_of(joined(node, sides, policy=Fixed((1, 2, 3))))
        pieces.close()
        return pieces.candidates

    fresh = looked_at(before, learned)
    assert looked_at(before, learned) < fresh
    best = min(looked_at(after, Learned()) for _ in range(3))
    assert [looked_at(after, learned) for _ in range(16)][-1] <= best
