"""The join of pieces with clauses agrees with the naive evaluator, whatever parts, paths and shards are taken."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psoup.clauses.index.posting_lists import Layout
from psoup.clauses.query_stem import QuerySteM
from psoup.config import EngineConfig
from psoup.data.data_stem import Piece
from psoup.errors import Internal
from psoup.kernels.arrive.index_probe import count_and_plan
from psoup.matching import emission
from psoup.matching.new_tuples import probe
from psoup.model import BIGINT
from psoup.plan.factors import Factor, Interval, Term
from psoup.results.open import OpenResults
from psoup.values.columns import Column
from psoup.work.runner import Runner, serial
from psoup_testing.engines.shards import Shards
from psoup_testing.histories.stems import B_HUGE, REFS, SCHEMA, naive_matches, random_factors, random_piece
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.call_counts import calls_of
from psoup_testing.suite.sweeps import swept

CHUNK = 256
CONFIGS = {
    "default": EngineConfig(chunk_rows=CHUNK, delta_queries=16),
    "always sparse": EngineConfig(chunk_rows=CHUNK, delta_queries=16, dense_share=1),
    "always dense": EngineConfig(chunk_rows=CHUNK, delta_queries=16, dense_share=10**6, sparse_floor=0),
}

LAYOUTS = {
    "default": Layout(),
    "all in lists": Layout(points_share=1, narrow_share=1, narrow_rows=1, least=1, tests=1),
    "two tests": Layout(points_share=2, narrow_share=3, narrow_rows=4, least=2, tests=2),
}


def matches(results: OpenResults, slot: int) -> list[int]:
    view = results.view(CHUNK, np.zeros(0, np.int64))
    found: list[int] = view.offsets(slot, 0, CHUNK).tolist()
    return found


def maintain(stem: QuerySteM) -> None:
    while stem.merge_due():
        assert stem.install(stem.merge_task().compute())


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("seed", range(scaled(8)))
def test_probe_agrees_with_the_naive_evaluator(seed: int, layout: Layout, config: EngineConfig) -> None:
    """Adds, removals, merges (also stale ones) and pieces in any order, over the life of a chunk."""
    rng = random.Random(seed)
    stem, results = QuerySteM(SCHEMA, config, layout), OpenResults(config, 512)
    run: Runner = Shards(3) if seed % 2 else serial
    clauses: dict[int, tuple[Factor, ...]] = {}
    expected: dict[int, list[int]] = {}
    free, start, pending = list(range(400)), 0, []
    rng.shuffle(free)
    while start < CHUNK:
        for _ in range(rng.choice([0, 1, 5, 40])):
            slot = free.pop()
            clauses[slot] = random_factors(rng)
            expected[slot] = []
            stem.add(slot, clauses[slot])
        for slot in rng.sample(sorted(clauses), min(len(clauses), rng.choice([0, 0, 1, 6]))):
            stem.remove(np.array([slot]))
            del clauses[slot]
        if rng.random() < 0.4:
            pending.append(stem.merge_task(everything=rng.random() < 0.3))
        if pending and rng.random() < 0.6:
            stem.install(pending.pop(rng.randrange(len(pending))).compute())
        piece = random_piece(rng, min(CHUNK - start, rng.choice([1, 3, 63, 64, 65, 130])), start)
        probe(stem, piece, results, run)
        for slot, factors in clauses.items():
            expected[slot] += [start + row for row in naive_matches(factors, piece)]
        start += len(piece)
        stem.check()
        results.check(start)
        if len(free) < 60:
            break
    assert len(stem) == len(clauses)
    for slot, rows in expected.items():
        assert matches(results, slot) == rows, (slot, clauses.get(slot))


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_subset_covers_like_the_whole(seed: int) -> None:
    rng = random.Random(1000 + seed)
    config = CONFIGS["default"]
    stem, clauses = QuerySteM(SCHEMA, config), {slot: random_factors(rng) for slot in range(60)}
    for slot, factors in clauses.items():
        stem.add(slot, factors)
        if slot == 40:
            maintain(stem)
    stem.remove(np.array([7]))
    chosen = np.array([*rng.sample(range(60), 20), 7, 300], np.int64)
    results, piece = OpenResults(config, 64), random_piece(rng, 200, 0)
    subset = stem.subset(chosen)
    probe(subset, piece, results)
    assert subset.slots.tolist() == sorted(set(chosen.tolist()) - {7, 300})
    for slot, factors in clauses.items():
        wanted = naive_matches(factors, piece) if slot in subset.slots else []
        assert matches(results, slot) == wanted


def test_errors_are_counted_once_a_tuple() -> None:
    """b * 2^62 overflows from b = 2 on; two clauses share it."""
    stem, results = QuerySteM(SCHEMA, EngineConfig()), OpenResults(EngineConfig(), 8)
    for slot in (0, 1):
        stem.add(slot, (Factor((Term(B_HUGE, (Interval(None, None),), True),)),))
    piece = random_piece(random.Random(3), 200, 0)
    huge = int(np.count_nonzero(piece.columns[1].values >= 2))
    probe(stem, piece, results)
    (attribute,) = stem.attributes_of(1).tolist()
    assert results.errors == {attribute: huge}
    assert stem.attributes[attribute] == B_HUGE
    assert len(matches_of(results, 0, 200)) == 200 - huge


def matches_of(results: OpenResults, slot: int, length: int) -> list[int]:
    view = results.view(length, np.zeros(0, np.int64))
    found: list[int] = view.offsets(slot, 0, length).tolist()
    return found


def _between(column: int, low: int, high: int) -> Factor:
    return Factor((Term(REFS[column], (Interval(low, high),)),))


@pytest.mark.parametrize("config", swept(CONFIGS.values(), fast=1), ids=CONFIGS.keys())
def test_near_intervals_of_one_cell_reach_a_clause_once(config: EngineConfig) -> None:
    """Two intervals of a factor that lie in one cell of a posting list: a tuple of either is one match, at most."""
    #   keys     k … k + 8          10^12 + k …             cells of two or more codes
    #   clause   [ a )   [ b )      far away, another two
    layout = Layout(points_share=1, narrow_share=1, narrow_rows=1, least=1, tests=1)
    stem, results, clauses = QuerySteM(SCHEMA, config, layout), OpenResults(config, 512), list[tuple[Factor, ...]]()
    for slot in range(200):
        low = slot + (10**12 if slot % 2 else 0)
        clauses.append((Factor((Term(REFS[0], (Interval(low, low + 4), Interval(low + 5, low + 9))),)),))
        stem.add(slot, clauses[-1])
    maintain(stem)
    shifts = [part.index.lists.grid_shift for part in stem._parts]
    assert any(own.max(initial=0) > 0 for own in shifts), "no cell has several codes: the test says nothing"
    keys = np.random.default_rng(3).integers(0, 220, CHUNK)
    piece = random_piece(random.Random(3), CHUNK, 0)
    piece = replace(piece, columns=(Column(BIGINT, keys + (keys % 2) * 10**12), *piece.columns[1:]))
    probe(stem, piece, results)
    for slot, factors in enumerate(clauses):
        assert matches(results, slot) == naive_matches(factors, piece), slot


@pytest.mark.parametrize(
    ("generous", "block_rows"), swept([(0, 4096), (8192, 4096), (8192, 64), (8192, 65_536)], fast=(2,))
)
def test_pieces_of_full_size(generous: int, block_rows: int) -> None:
    """4,096 tuples from an odd start: walks, bitmaps, new rows, hot and cold posting lists, all in one probe."""
    rng = np.random.default_rng(17)
    config = EngineConfig(generous_rows=generous, block_rows=block_rows)
    stem, results = QuerySteM(SCHEMA, config), OpenResults(config, 600)
    a, b = rng.integers(0, 1000, 9000) ** 2 // 1000, rng.integers(0, 1000, 9000)
    spans: dict[int, tuple[int, int, int, int]] = {}
    for slot in rng.permutation(600).tolist():
        low, below = rng.integers(0, 1000, 2).tolist()
        width = int(rng.choice([1, 1, 20, 500, 1000]))
        spans[slot] = (low // 10 if width == 1 else low, width, below, int(rng.choice([30, 400, 1000])))
        low, width, below, depth = spans[slot]
        stem.add(slot, (_between(0, low, low + width), _between(1, below, below + depth)))
        if slot == 300:
            assert stem.install(stem.merge_task().compute())
    start, shards = 37, Shards(3)
    for stop in (4133, 8229, 8300, 9000):
        ids = np.arange(start, stop)
        columns = tuple(Column(BIGINT, values[start:stop]) for values in (a, b))
        probe(stem, Piece(columns, ids, ids, start), results, shards)
        start = stop
    results.check(9000)
    assert shards.shared > 4, "four pieces, and rows for the first"
    for slot, (low, width, below, depth) in spans.items():
        wanted = (low <= a) & (a < low + width) & (below <= b) & (b < below + depth)
        assert matches_of(results, slot, 9000) == [row for row in np.flatnonzero(wanted).tolist() if row >= 37]
    assert len(results.runs) > 0 and 0 < np.count_nonzero(results.row_of_slot >= 0) < 600


@pytest.mark.parametrize("rows", swept([64, 4096], fast=1))
@pytest.mark.parametrize("shards", swept([serial, Shards(3)], fast=1), ids=["serial", "shards"])
def test_lists_of_points_values_and_ranges(rows: int, shards: Runner) -> None:
    """3,000 clauses over 2,000 values: equalities, IN lists, ranges of every narrow length, few clauses in no list."""
    rng = np.random.default_rng(23)
    stem, results = QuerySteM(SCHEMA, EngineConfig(), Layout(least=8)), OpenResults(EngineConfig(), 3000)
    spans: list[tuple[list[tuple[int, int]], int, int]] = []
    for slot in range(3000):
        lows = np.unique(rng.integers(0, 500, int(rng.choice([1, 1, 3]))) * 20).tolist()
        width = int(rng.choice([1, 2, 3, 5, 9, 17])) if slot % 100 else 5000
        below = int(rng.integers(0, 900))
        spans.append(([(low, low + width) for low in lows], below, below + int(rng.choice([100, 900]))))
        intervals = tuple(Interval(low, high) for low, high in spans[-1][0]) if slot % 100 else (Interval(None, 5000),)
        stem.add(slot, (Factor((Term(REFS[0], intervals),)), _between(1, *spans[-1][1:])))
    assert stem.install(stem.merge_task().compute())
    stem.check()
    index = stem._parts[0].index
    assert len(index.rest) < 300 and index.lists.grid_shift.tolist() == [0, 1, 2]
    a, b = rng.integers(0, 500, 5000) * 20 + rng.integers(0, 6, 5000), rng.integers(0, 1000, 5000)
    for slot in range(0, 3000, 7):
        stem.remove(np.array([slot]))
    for start in range(0, 5000, rows):
        ids = np.arange(start, min(start + rows, 5000))
        probe(stem, Piece((Column(BIGINT, a[ids]), Column(BIGINT, b[ids])), ids, ids, start), results, shards)
    results.check(5000)
    for slot, (ranges, low, high) in enumerate(spans):
        within = np.any([(x <= a) & (a < y) for x, y in ranges], axis=0) if slot % 100 else a < 5000
        wanted = within & (low <= b) & (b < high) if slot % 7 else np.zeros(5000, bool)
        assert matches_of(results, slot, 5000) == np.flatnonzero(wanted).tolist(), slot


@pytest.mark.long
def test_an_index_of_many_values_has_wide_tests() -> None:
    """2^17 values of one attribute need them."""
    stem, results = QuerySteM(SCHEMA, EngineConfig(), Layout(least=1)), OpenResults(EngineConfig(), 1 << 17)
    for slot in range(1 << 17):
        stem.add(slot, (_between(0, 2 * slot, 2 * slot + 1),) if slot else (_between(0, 7, 1 << 17),))
    assert stem.install(stem.merge_task().compute())
    assert stem._parts[0].index.lists.tests.dtype == np.int32 and len(stem._parts[0].index.rest) == 1
    for start in range(40):
        ids = np.arange(start, start + 1)
        probe(stem, Piece((Column(BIGINT, ids * 2), Column(BIGINT, ids)), ids, ids, start), results)
    assert matches_of(results, 0, 40) == list(range(4, 40)) and matches_of(results, 5, 40) == [5]


@pytest.mark.long
def test_a_clause_that_matches_everything_gets_a_row_from_small_pieces_too() -> None:
    """Pieces of one tuple are emitted as pairs; 390 KB a chunk for such a clause would be too much."""
    stem, results = QuerySteM(SCHEMA, EngineConfig()), OpenResults(EngineConfig(), 2)
    stem.add(0, ())
    stem.add(1, (_between(0, 0, 4),))
    column = Column(BIGINT, np.arange(6000) % 400)
    for start in range(6000):
        ids = np.arange(start, start + 1)
        probe(stem, Piece((column.slice(start, start + 1), column), ids, ids, start), results)
        if start == 4500:
            before = results.view(4500, np.zeros(0, np.int64))
    results.check(6000)
    assert results.row_of_slot[0] >= 0 and results.row_of_slot[1] < 0
    assert matches_of(results, 0, 6000) == list(range(6000))
    assert matches_of(results, 1, 6000) == [row for row in range(6000) if row % 400 < 4]
    assert before.offsets(0, 0, 4500).tolist() == list(range(4500))


@pytest.mark.parametrize(("layout", "plans"), [(Layout(), 1), (Layout(least=1), 3)])
def test_clauses_that_see_every_piece_are_planned_once(
    layout: Layout, plans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three threads share the clauses; where some are in lists they share the tuples, and each plans for its own."""
    planned = 0

    def plan(*arguments: Any) -> int:
        nonlocal planned
        planned += 1
        return int(count_and_plan(*arguments))

    monkeypatch.setattr(emission, "count_and_plan", plan)
    stem, results = QuerySteM(SCHEMA, EngineConfig(), layout), OpenResults(EngineConfig(), 64)
    for slot in range(40):
        stem.add(slot, (_between(0, slot, slot + 1) if slot % 2 else _between(1, 0, 10 * slot),))
    assert stem.install(stem.merge_task().compute())
    values, ids = np.arange(640) % 400, np.arange(640)
    probe(stem, Piece((Column(BIGINT, values), Column(BIGINT, values)), ids, ids, 0), results, Shards(3))
    assert planned == plans
    results.check(640)
    for slot in range(40):
        wanted = values == slot if slot % 2 else values < 10 * slot
        assert matches_of(results, slot, 640) == np.flatnonzero(wanted).tolist()


def _calls_of_probe(clauses: int) -> int:
    """Python and C calls made from Python for one piece."""
    rng = np.random.default_rng(5)
    config = EngineConfig()
    stem, results = QuerySteM(SCHEMA, config, LAYOUTS["all in lists"]), OpenResults(config, clauses)
    for slot in range(clauses):
        low = slot % 50
        stem.add(slot, (_between(0, low, low + 1 + slot % 30), _between(1, 5, 90)))
    assert stem.install(stem.merge_task(everything=True).compute())
    ids = np.arange(4096)
    columns = tuple(Column(BIGINT, rng.integers(0, 100, 4096)) for _ in range(2))
    probe(stem, Piece(columns, ids, ids, 0), results)
    return calls_of(lambda: probe(stem, Piece(columns, ids, ids, 4096), results))


def test_python_calls_do_not_depend_on_the_number_of_clauses() -> None:
    _calls_of_probe(8)
    assert _calls_of_probe(64) == _calls_of_probe(4096) < 400


class Counting(Shards):
    """Shards as a pool of two threads would have them."""

    handover = 60_000


@pytest.mark.parametrize(("tuples", "clauses", "tasks"), [(64, 600, 0), (4096, 4, 0), (4096, 600, 1)])
def test_a_piece_that_is_soon_done_stays_whole(tuples: int, clauses: int, tasks: int) -> None:
    rng = np.random.default_rng(7)
    stem, results, run = QuerySteM(SCHEMA, EngineConfig()), OpenResults(EngineConfig(), 600), Counting(2)
    for slot in range(clauses):
        stem.add(slot, (_between(0, 5 * (slot % 10), 60 + slot % 40),))
    ids = np.arange(tuples)
    columns = tuple(Column(BIGINT, rng.integers(0, 100, tuples)) for _ in range(2))
    results.ensure_rows(np.arange(600))
    probe(stem, Piece(columns, ids, ids, 0), results, run)
    assert run.shared == tasks


def test_a_slot_is_used_once() -> None:
    stem = QuerySteM(SCHEMA, EngineConfig())
    stem.add(3, ())
    with pytest.raises(Internal, match="slot 3 holds a clause already"):
        stem.add(3, ())
    with pytest.raises(Internal, match="a slot holds no clause"):
        stem.remove(np.array([4]))
