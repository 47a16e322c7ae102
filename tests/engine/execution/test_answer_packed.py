"""Fold packs: a table of aggregates is the same whether they are kept, made, dropped at any time, or not in use."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.aggregates.packs import FoldPack, PackRoom, Packs, pack_of
from psoup.answer.figures.bill import memory_bill
from psoup.answer.table import Table
from psoup.config import EngineConfig
from psoup.errors import Corrupt
from psoup.execution.aggregate import window_folds
from psoup.execution.many import window_packs as packed_module
from psoup.execution.many.window_packs import check_packs
from psoup.local import LocalPSoup
from psoup.model import BIGINT
from psoup.plan.nodes import Measure
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.kept_structures import KEPT
from psoup_testing.suite.sweeps import in_parts

COUNT = Measure("count", (), BIGINT)
SHOWN = [
    "count(*) AS a",
    "count(*) AS a, sum(n) AS b, max(n) AS c, avg(n) AS d, count(x) AS e",
    "sum(x) AS a, avg(x) AS b, min(x) AS c, max(s) AS d",
    "first(x) AS a, last(x) AS b, any_value(x) AS c, arg_min(s, x) AS d, arg_max(n, x) AS e",
    f"sum(n) FILTER (WHERE x > 0) AS a, max(n * {2**60}) AS b",
]
WINDOWS = ["BEGIN (NOW - 700 ROWS)", "BEGIN (NOW - 64 ROWS) END (NOW - 3 ROWS)", "BEGIN (NOW - 500) END (NOW - 100)"]


def made(fan: int, retention: str = "", **settings: Any) -> LocalPSoup:
    config = EngineConfig(chunk_rows=64, block_rows=64, list_limit=8, shape=replace(EAGER, fold_fan=fan), **settings)
    soup = LocalPSoup(config, VirtualClock(0))
    soup.execute("CREATE STREAM t (n BIGINT, x DOUBLE, s TEXT)" + retention)
    return soup


def rows(rng: np.random.Generator, count: int) -> pa.Table:
    odd = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308, 1e16, 1.0]
    return pa.table(
        {
            "n": pa.array(
                [None if rng.random() < 0.1 else int(rng.integers(-3, 40)) for _ in range(count)], pa.int64()
            ),
            "x": pa.array([odd[rng.integers(10)] if rng.random() < 0.7 else rng.random() for _ in range(count)]),
            "s": pa.array([[None, "", "a", "é", "zz"][rng.integers(5)] for _ in range(count)], pa.string()),
        }
    )


def told(table: Table) -> str:
    """All that a table says, bit for bit; but errors of WHERE, which at the ends are those of the whole chunk."""
    shown = repr([column.to_pylist() for column in table.to_table().columns])
    return f"{shown} {[group.select_errors for group in table.groups]}"


def packs_of(soup: LocalPSoup) -> Packs:
    """The packs of the only stream, for the only measures."""
    ((_, packs),) = soup.engine.snapshot().stream("t", "default").packs.kept()
    return packs


def counters(soup: LocalPSoup, form: str = "count(*) AS c, sum(n) AS s", many: int = 40) -> np.ndarray[Any, Any]:
    sql = f"SELECT {form} FROM t WHERE n = ? BEGIN (NOW - 900 ROWS)"
    return np.array(soup.register_many(sql, pa.table({"p": range(many)})))


@pytest.mark.long
@pytest.mark.seeded("a node lacks a leaf")
@pytest.mark.parametrize("seed", range(4))
@in_parts(2)
def test_tables_are_equal_bit_for_bit_with_packs_and_without(
    seed: int, part: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packs and results are dropped at any time; any of the queries are asked for; some come late, some go."""
    monkeypatch.setattr(packed_module, "MOST_PACKS", 2)
    rng, tight = np.random.default_rng(seed), {"results_bytes": 1 << 13} if seed % 2 else {}
    sides, met = [made(2, **tight), made(1)], KEPT.counts["pack"]
    blocks: list[list[int]] = []
    for step in range(12):
        if step in (0, 5):
            for form in SHOWN[part]:
                where = str(rng.choice(["n = ?", "n > ?", "n = ? AND x > 0", f"n * {2**58} > ? AND n > 0"]))
                sql = f"SELECT {form} FROM t WHERE {where} {rng.choice([*WINDOWS, 'BEGIN (START)'])}"
                values = pa.table({"p": rng.permutation(60)[:30] - 5})
                one, other = (list(soup.register_many(sql, values)) for soup in sides)
                assert one == other
                blocks.append(one)
        if step == 8:
            gone = [block.pop(int(rng.integers(len(block)))) for block in blocks for _ in range(5)]
            for soup in sides:
                soup.unregister_many(gone)
        pushed = rows(rng, int(rng.choice([1, 63, 64, 200])))
        for soup in sides:
            assert isinstance(soup.clock, VirtualClock)
            soup.clock.advance(seconds=40)
            soup.push("t", pushed)
            while rng.random() < 0.7 and soup.maintain():
                pass
        room = sides[0].engine.snapshot().stream("t", "default").packs
        room.give_up(int(rng.choice([0, 0, 0, 3_000, 1 << 30])))
        for block in blocks:
            ids = rng.choice(block, int(rng.choice([9, 20, 40])))
            window = rng.choice([None, None, *WINDOWS])
            one, other = (told(again(soup.invoke_table, ids, window=window)) for soup in sides)
            assert one == other, (block[0], window)
    sides[0].check()
    assert KEPT.counts["pack"] > met
    kept = [packs for _, packs in room.kept()]
    assert max(level for packs in kept for level, _ in packs.spans) >= 2
    assert all(len(span) <= 3 for packs in kept for span in packs.spans.values())


@pytest.mark.seeded("an end of the window is off by one")
def test_an_end_off_by_one_shows_and_so_does_a_leaf_that_is_missing() -> None:
    """Each first and each last tuple of a window, at the edges of chunks and beside them, in one chunk and in many."""
    soup = made(2)
    ids = counters(soup, "count(*) AS c, sum(x) AS s, min(x) AS l, max(x) AS h", 10)
    soup.push("t", pa.table({"n": [k % 10 for k in range(700)], "x": np.arange(700.0), "s": [""] * 700}))
    soup.maintain()
    soup.invoke_table(ids).to_table()
    for low in (0, 1, 63, 64, 65, 127, 128, 191, 192, 640, 650):
        for high in (255, 256, 257, 448, 449, 639, 640, 641, 699, 700):
            if low + 10 > high:
                continue
            window = f"BEGIN (NOW - {700 - low} ROWS)" + f" END (NOW - {700 - high} ROWS)" * (high < 700)
            table = soup.invoke_table(ids, window=window).to_table().drop(["_query"])
            mine = [[float(k) for k in range(low, high) if k % 10 == n] for n in range(10)]
            expected = [{"c": len(own), "s": sum(own), "l": min(own), "h": max(own)} for own in mine]
            assert table.to_pylist() == expected, (low, high)
            if low == 64:
                packs_of(soup).spans.pop(next(iter(packs_of(soup).spans)), None)
    assert {level for level, _ in packs_of(soup).spans} == {0, 1, 2, 3}
    soup.check()


def test_a_part_of_the_clauses_and_more_than_these_are_found_in_packs_of_others() -> None:
    soup = made(2)
    ids = counters(soup)
    soup.push("t", pa.table({"n": [k % 50 for k in range(900)], "x": [1.0] * 900, "s": ["a"] * 900}))
    soup.maintain()
    soup.invoke_table(ids[10:30]).to_table()
    whole = soup.invoke_table(ids).to_table().drop(["_query"]).to_pylist()
    assert whole == [{"c": 18, "s": 18 * n} for n in range(40)]
    ((level, number),) = [span for span in packs_of(soup).spans if span[0] == 3]
    (pack,) = packs_of(soup).spans[level, number]
    assert len(pack.ids) == 40
    some = ids[[3, 4, 12, 29, 30, 39, *range(20, 28)]]
    assert soup.invoke_table(some).to_table()["s"].to_pylist() == [18 * (int(own) - int(ids[0])) for own in some]
    assert packs_of(soup).spans[level, number] == (pack,), "what is folded is folded again"
    soup.check()


def test_a_window_that_comes_again_is_one_pack_between_its_ends() -> None:
    """Of all of the clauses or of some; a window beside it that has one chunk less is not taken for it."""
    soup = made(2)
    ids = counters(soup)
    soup.push("t", pa.table({"n": [k % 50 for k in range(1_000)], "x": [1.0] * 1_000, "s": ["a"] * 1_000}))
    soup.maintain()
    for some in (ids[:30], ids[:30], ids[:30], ids, ids[25:]):
        assert again(soup.invoke_table, some).to_table()["c"].to_pylist() == [18] * len(some)
    packs = packs_of(soup)
    assert [[len(pack.ids) for pack in packs.inner[inside]] for inside in packs.inner] == [[30, 10]]
    packs.spans.clear()
    assert again(soup.invoke_table, ids[::3]).to_table()["s"].to_pylist() == [18 * n for n in range(0, 40, 3)]
    assert not packs.spans
    for rows in (850, 800, 750, 700, 650):
        for _ in range(3):
            found = again(soup.invoke_table, ids, window=f"BEGIN (NOW - {rows} ROWS)").to_table()["c"].to_pylist()
            assert found == [rows // 50] * 40
    assert len(packs.inner) <= 4
    soup.check()


def test_one_query_takes_what_it_lacks_from_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all kinds of states, with matches in a span or without; but not of a clause that no pack has."""
    monkeypatch.setattr(window_folds._Leaves, "folded", None)  # folding a chunk anew would fail
    rng = np.random.default_rng(3)
    for form in SHOWN[:4]:
        soup = made(2)
        ids = counters(soup, form)
        soup.push("t", rows(rng, 1_000))
        soup.maintain()
        for _ in range(2):
            soup.invoke_table(ids).to_table()
        whole = again(soup.invoke_table, ids).to_table().drop(["_query"]).to_pylist()
        for query, expected in zip(ids[::5].tolist(), whole[::5], strict=True):
            for _ in range(3):
                answer = again(soup.invoke, query)
                assert repr(answer.to_table().to_pylist()) == repr([expected])
        other = soup.register("SELECT count(*) AS a FROM t WHERE n = 99 BEGIN (NOW - 900 ROWS)")
        soup.invoke(other)
        if form == SHOWN[0]:
            with pytest.raises(TypeError):
                soup.invoke(other)


@pytest.mark.seeded("a clause that a pack lacks is taken as zero")
def test_what_is_not_folded_is_not_zero() -> None:
    """A pack of some of the clauses says nothing of the others, neither does one without any match."""
    soup = made(2)
    ids = counters(soup)
    soup.push("t", pa.table({"n": [k % 50 for k in range(900)], "x": [1.0] * 900, "s": ["a"] * 900}))
    soup.maintain()
    for some in (ids[:10], ids[:10], ids[5:], ids):
        found = soup.invoke_table(some).to_table()["c"].to_pylist()
        assert found == [18] * len(some)


def test_a_query_in_the_slot_of_one_that_is_gone_has_states_of_its_own() -> None:
    soup = made(2)
    ids = counters(soup)
    data = pa.table({"n": [k % 50 for k in range(900)], "x": [1.0] * 900, "s": ["a"] * 900})
    soup.push("t", data)
    soup.maintain()
    for _ in range(2):
        soup.invoke_table(ids).to_table()
    soup.unregister_many(ids[:20].tolist())
    soup.maintain()
    sql = "SELECT count(*) AS c, sum(n) AS s FROM t WHERE n = ? BEGIN (NOW - 900 ROWS)"
    later = np.array(soup.register_many(sql, pa.table({"p": range(30, 50)})))
    soup.maintain()
    table = soup.invoke_table(np.concatenate([later, ids[20:]])).to_table()
    assert table["s"].to_pylist() == [18 * n for n in [*range(30, 50), *range(20, 40)]]
    soup.check()


def test_packs_of_chunks_that_are_gone_go_and_those_of_a_wider_span_are_not_used_beyond_the_edge() -> None:
    soup = made(2, " RETENTION 300 ROWS")
    ids = np.array(soup.register_many("SELECT count(*) AS c FROM t WHERE n = ?", pa.table({"p": range(20)})))
    for step in range(20):
        soup.push("t", pa.table({"n": [k % 20 for k in range(100)], "x": [1.0] * 100, "s": [""] * 100}))
        soup.maintain()
        view = soup.engine.snapshot().stream("t", "default")
        kept = view.next_id - view.first_id
        assert sum(soup.invoke_table(ids).to_table()["c"].to_pylist()) == min(300, kept), step
        oldest = view.chunks[0].data.number
        spans = [span for _, packs in view.packs.kept() for span in packs.spans]
        assert all((number + 1) * 2**level > oldest for level, number in spans)
    soup.check()


def test_a_pack_that_is_wrong_is_found() -> None:
    soup = made(2)
    ids = counters(soup)
    soup.push("t", pa.table({"n": [k % 50 for k in range(900)], "x": [1.0] * 900, "s": ["a"] * 900}))
    soup.maintain()
    for _ in range(2):
        soup.invoke_table(ids).to_table()
    packs, span = packs_of(soup), (1, 1)
    (right,) = packs.spans[span]
    counts, sums = right.states[0]
    wrong = sums.copy()
    wrong[7] += 1
    for bad in (
        FoldPack(right.ids, right.at, right.matched, right.errors, ((counts, wrong),)),
        FoldPack(right.ids, right.at, right.matched + 1, right.errors, right.states),
        packs.spans[1, 2][0],
    ):
        packs.spans[span] = (bad,)
        with pytest.raises(Corrupt, match="a pack is not that of its chunks"):
            check_packs(soup.engine.snapshot())
    packs.spans[span] = (right,)
    soup.check()
    soup.invoke_table(ids).to_table()
    ((inside, (whole,)),) = packs.inner.items()
    packs.inner[inside] = (FoldPack(whole.ids, whole.at, whole.matched + 1, whole.errors, whole.states),)
    with pytest.raises(Corrupt, match="a pack is not that of its chunks"):
        check_packs(soup.engine.snapshot())


def test_packs_are_charged_and_leave_when_there_is_no_room() -> None:
    soup = made(2)
    ids = counters(soup)
    soup.push("t", pa.table({"n": [k % 50 for k in range(2_000)], "x": [1.0] * 2_000, "s": ["a"] * 2_000}))
    soup.maintain()
    for _ in range(2):
        soup.invoke_table(ids).to_table()
    room = soup.engine.snapshot().stream("t", "default").packs
    item = {item.structure: item for item in memory_bill(soup.engine.snapshot()).items}["fold packs"]
    assert item.bytes == item.reclaimable == room.held > 0
    assert item.count == room.spans > 0
    soup.unregister_many(ids.tolist())
    soup.execute("DROP STREAM t")
    assert room.held == room.spans == 0
    small = PackRoom(20_000, 2)
    assert small.known(1, (COUNT,)) is None
    packs = small.known(1, (COUNT,))
    assert packs is not None
    for number in range(100):
        small.put(packs, (0, number), pack_of(np.arange(10), None, np.arange(10), None, ()))
        assert small.held <= small.limit
