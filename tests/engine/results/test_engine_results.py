"""The Results Structure against a set of (clause, offset): open, sealed, merged, compacted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psoup.config import EngineConfig
from psoup.errors import Corrupt
from psoup.kernels.arrive.slot_runs import find_pairs
from psoup.kernels.rows.bit_blocks import set_bits
from psoup.local import LocalPSoup
from psoup.results.by_tuple import open_pairs_at
from psoup.results.chunk_results import ChunkResults
from psoup.results.failures import Failures
from psoup.results.open import OpenResults
from psoup.results.pack import merge_packs, seal
from psoup.results.runs import ONE_BLOCK, grouped
from psoup.values.columns import Array
from psoup.work.clock import VirtualClock
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

ROWS = 128
SLOTS = 6
PIECES = st.lists(
    st.tuples(st.sets(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, 15)), max_size=40), st.booleans()),
    min_size=1,
    max_size=8,
)


def config(list_limit: int, block_rows: int = 64) -> EngineConfig:
    return EngineConfig(chunk_rows=ROWS, list_limit=list_limit, dense_share=8, block_rows=block_rows)


def fill(
    pieces: list[tuple[set[tuple[int, int]], bool]], settings_: EngineConfig
) -> tuple[OpenResults, set[tuple[int, int]]]:
    """Pieces of 16 tuples; in every piece either all clauses go to rows or all to runs."""
    results, expected = OpenResults(settings_, SLOTS), set()
    for number, (matches, dense) in enumerate(pieces):
        found = sorted((slot, 16 * number + offset) for slot, offset in matches)
        expected |= set(found)
        if dense:
            results.ensure_rows(np.unique([slot for slot, _ in found]).astype(np.int64))
            for slot, offset in found:
                set_bits(results.rows, results.row_of_slot[[slot]].astype(np.int64), np.array([offset], np.uint16))
        else:
            slots, offsets = [slot for slot, _ in found], [offset for _, offset in found]
            results.append_run(grouped(np.array(slots, np.uint32), np.array(offsets, np.uint16)))
    return results, expected


def owners(dead: set[int] = frozenset()) -> Array:  # type: ignore[assignment]
    """SQC IDs in another order than the slots."""
    return np.array([-1 if slot in dead else 100 - slot for slot in range(SLOTS)], np.int64)


def test_a_match_that_sealing_writes_to_its_row_counts_once_in_a_view_of_before() -> None:
    """A view that a reader has shares the row, and has the run as well."""
    results = OpenResults(config(4), SLOTS)
    results.ensure_rows(np.array([3]))
    offsets = np.arange(16)
    results.append_run(grouped(np.full(16, 3, np.uint32), offsets.astype(np.uint16)))
    view, matched = results.view(16, owners()), [(97, offset) for offset in range(16)]
    assert sorted(zip(*(part.tolist() for part in open_pairs_at(view, offsets)), strict=True)) == matched
    seal(view, owners(), 4)
    assert view.row_counts().tolist() == [16]
    assert sorted(zip(*(part.tolist() for part in open_pairs_at(view, offsets)), strict=True)) == matched


@given(PIECES, st.integers(0, ROWS), st.integers(0, ROWS))
def test_open_columns(pieces: list[tuple[set[tuple[int, int]], bool]], start: int, stop: int) -> None:
    results, expected = fill(pieces, config(4))
    length = 16 * len(pieces)
    results.check(length)
    view = results.view(length, owners())
    low, high = min(start, stop), min(max(start, stop), length)
    for slot in range(SLOTS):
        wanted = sorted(o for s, o in expected if s == slot and low <= o < high)
        if low <= high:
            assert view.offsets(slot, low, high).tolist() == wanted


@given(PIECES)
def test_a_view_does_not_see_later_pieces(pieces: list[tuple[set[tuple[int, int]], bool]]) -> None:
    results, expected = fill(pieces, config(4))
    length = 16 * len(pieces)
    view = results.view(length, owners())
    later = np.arange(SLOTS, dtype=np.int64)
    results.ensure_rows(later)
    if length < ROWS:
        set_bits(results.rows, results.row_of_slot[later].astype(np.int64), np.full(SLOTS, length, np.uint16))
    for slot in range(SLOTS):
        assert view.offsets(slot, 0, length).tolist() == sorted(o for s, o in expected if s == slot)


@settings(max_examples=scaled(60))
@given(PIECES, st.sampled_from([1, 4, 1_000]), st.sets(st.integers(0, SLOTS - 1)), st.sampled_from([64, ROWS]))
def test_sealed_columns(
    pieces: list[tuple[set[tuple[int, int]], bool]], limit: int, dead: set[int], block_rows: int
) -> None:
    settings_ = config(limit, block_rows)
    results, expected = fill(pieces, settings_)
    length = 16 * len(pieces)
    pack = seal(results.view(length, owners()), owners(dead), limit)
    pack.check(length, limit)
    assert set(pack.ids.tolist()) == {100 - s for s, _ in expected if s not in dead}
    for slot in set(range(SLOTS)) - dead:
        wanted = sorted(o for s, o in expected if s == slot)
        at = pack.find(100 - slot)
        assert (pack.offsets(at, 0, length).tolist() if at >= 0 else []) == wanted
        if at >= 0:
            assert pack.offsets(at, 7, 23).tolist() == [o for o in wanted if 7 <= o < 23]
            assert pack.bitmap(at, length).search(1) is not None
            assert list(pack.bitmap(at, length).search(1)) == wanted


@given(PIECES, PIECES, st.sets(st.integers(0, SLOTS - 1)))
def test_packs_merge_and_forget(
    first: list[tuple[set[tuple[int, int]], bool]], second: list[tuple[set[tuple[int, int]], bool]], dead: set[int]
) -> None:
    packs, expected = [], set()
    for base, pieces in ((100, first), (200, second)):
        results, found = fill(pieces, config(3))
        ids = np.array([base + slot for slot in range(SLOTS)], np.int64)
        packs.append(seal(results.view(ROWS, ids), ids, 3))
        expected |= {(base + slot, offset) for slot, offset in found}
    gone = np.array(sorted(100 + slot for slot in dead), np.int64)
    pack = merge_packs(packs).without(gone)
    pack.check(ROWS, 3)
    for sqc_id in {*range(100, 106), *range(200, 206)} - set(gone.tolist()):
        at = pack.find(sqc_id)
        wanted = sorted(o for i, o in expected if i == sqc_id)
        assert (pack.offsets(at, 0, ROWS).tolist() if at >= 0 else []) == wanted
    assert not np.isin(pack.ids, gone).any()


@given(PIECES, st.sets(st.integers(0, SLOTS - 1)))
def test_rebuilding_without_dead_slots(pieces: list[tuple[set[tuple[int, int]], bool]], dead: set[int]) -> None:
    results, expected = fill(pieces, config(4))
    length = 16 * len(pieces)
    kept = results.without(np.array(sorted(dead), np.int64), len(results.row_of_slot), results.errors)
    kept.check(length)
    for slot in range(SLOTS):
        wanted = [] if slot in dead else sorted(o for s, o in expected if s == slot)
        assert kept.view(length, owners()).offsets(slot, 0, length).tolist() == wanted
    assert kept.nbytes <= results.nbytes or not dead


def test_coverage_is_not_a_match() -> None:
    results, _ = fill([({(0, 3)}, False)], config(4))
    closed = ChunkResults(results.view(16, owners()), covered_before=101)
    assert closed.covers(100)
    assert not closed.covers(150)
    sealed = closed.sealed(seal(results.view(16, owners()), owners(), 4))
    assert sealed.offsets(100, 0, 0, 16).tolist() == [3]
    assert sealed.form(99, 1) == "empty"
    ids = np.full(SLOTS, -1, np.int64)
    ids[1] = 150
    late, _ = fill([({(1, 7)}, True)], config(4))
    pack = seal(late.view(16, ids), ids, 4)
    failed = Failures(np.array([150]), np.array([3]))
    covered = sealed.covered(pack, frozenset({150}), 101, {}, failed)
    assert covered.covers(150)
    assert (covered.failures.of(150), covered.failures.of(149)) == (3, 0)
    assert not len(covered.without(np.array([150]), 1, {}).failures.names)
    assert not covered.covers(151)
    assert covered.offsets(150, 1, 0, 16).tolist() == [7]
    assert covered.covered(pack.without(np.array([150])), frozenset({150, 151}), 160, {}, failed).covers(159)
    gone = covered.give_up()
    assert not gone.covers(100)
    assert gone.nbytes == 0
    assert gone.form(100, 0) == "uncovered"


def test_a_bit_past_the_end_is_noticed() -> None:
    results, _ = fill([({(0, 3)}, True)], config(4))
    results.rows[1, 0, 0] = 1
    with pytest.raises(Corrupt, match="past the tuples"):
        results.check(16)


def test_many_pairs_are_grouped_in_blocks() -> None:
    """In one block its buckets would be so large that each has to be put in order."""
    rng = np.random.default_rng(3)
    slots = np.sort(rng.integers(0, 900, 2 * ONE_BLOCK + 7)).astype(np.uint32)
    offsets = (np.arange(len(slots)) - np.searchsorted(slots, slots)).astype(np.uint16)
    run = grouped(slots, offsets)
    run.check()
    assert len(run.starts) == 3 and len(grouped(slots[:ONE_BLOCK], offsets[:ONE_BLOCK]).starts) == 1
    for slot in range(900):
        count = int(np.count_nonzero(slots == slot))
        assert run.count(slot) == count
        found = np.empty(ROWS, np.int64)
        assert find_pairs(*run, slot, 0, ROWS, found) == min(count, ROWS)
        assert found[: min(count, ROWS)].tolist() == [*range(min(count, ROWS))]


@pytest.mark.parametrize("sizes", swept([[4_096, 1, 63, 900, 65, 64, 3_000], [9, 8, 10, 200, 1, 700]], fast=(1,)))
def test_clauses_without_a_condition_match_every_tuple(sizes: list[int]) -> None:
    """Beside another one of which each tuple is tested, and not: bits, counts and costs are the same."""
    config = EngineConfig(chunk_rows=1_024, block_rows=256)
    alone, beside = LocalPSoup(config, VirtualClock(0)), LocalPSoup(config, VirtualClock(0))
    queries = ["SELECT n FROM s", "SELECT n FROM s BEGIN (NOW - 500 ROWS)"]
    for soup in (alone, beside):
        soup.execute("CREATE STREAM s (n BIGINT)")
        assert [soup.register(sql) for sql in queries] == [1, 2]
    assert [beside.register(f"SELECT n FROM s WHERE {where}") for where in ("n >= 0", "false")] == [3, 4]
    pushed = 0
    for size in sizes:
        told = []
        for soup in (alone, beside):
            soup.push("s", pa.table({"n": range(pushed, pushed + size)}))
            told.append([soup.invoke(query).to_table().column("n").to_pylist() for query in (1, 2)])
            assert soup.matches_many("s", range(pushed + size)) == [[1, 2, 3][: 2 + (soup is beside)]] * (pushed + size)
        pushed += size
        every = list(range(pushed))
        assert told[0] == told[1] == [every, every[-500:]]
        alone.maintain()
    gone = alone.register("SELECT n + 1 AS m FROM s BEGIN (NOW - 9 ROWS)")
    alone.unregister(gone)
    alone.push("s", pa.table({"n": range(100)}))
    assert alone.invoke(1).to_table().num_rows == pushed + 100
    alone.check()
    beside.check()
