"""Folds of closed chunks: an aggregate of one row is the same whether they are kept, made, dropped, or not in use."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.aggregates.folds import FoldRoom, Folds
from psoup.aggregates.recipes import Fold, recipe_of
from psoup.aggregates.spans import cover, lacking
from psoup.answer.figures.bill import memory_bill
from psoup.config import EngineConfig, Shape
from psoup.errors import Corrupt
from psoup.execution.aggregate import window_folds, window_rows
from psoup.execution.aggregate.check_folds import check_folds
from psoup.execution.aggregate.window_case import inner_of
from psoup.local import LocalPSoup
from psoup.model import BIGINT
from psoup.plan.nodes import Measure
from psoup.work.clock import VirtualClock
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.fold_reuse import MEASURES, WHERE, WINDOWS, compare, folding, odd_rows, spans_of, told
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.suite.kept_structures import KEPT
from psoup_testing.suite.sweeps import swept

COUNT = Measure("count", (), BIGINT)
RECIPE = recipe_of((COUNT,))


@pytest.mark.seeded("a match in a row and in a run is counted twice")
@pytest.mark.seeded("a node lacks a leaf")
@pytest.mark.parametrize(("fan", "seed"), swept([(2, 1), (2, 2), (16, 3)], fast=1))
def test_answers_are_equal_bit_for_bit_with_folds_and_without(fan: int, seed: int) -> None:
    """Folds are dropped at any time, and so are results; windows begin and end anywhere, queries come late."""
    rng, tight, met = random.Random(seed), {"results_bytes": 1 << 13} if seed == 2 else {}, KEPT.counts["fold"]
    sides = [folding(fan, **tight), folding(1)]
    queries: list[str] = []
    for step in range(14):
        if step in (0, 5):
            queries += [f"SELECT {m} FROM t {rng.choice(WHERE)} {rng.choice(WINDOWS)}" for m in MEASURES]
            assert len({tuple(soup.register(sql) for sql in queries[-len(MEASURES) :]) for soup in sides}) == 1
        compare(sides, queries, rng, 8)
    sides[0].check()
    assert max(level for level, _ in spans_of(sides[0])) >= (3 if fan == 2 else 1)
    assert KEPT.counts["fold"] > met


def test_rows_are_counted_without_a_list_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first invocation on, of lists and of bits, whole chunks and ends; what was not evaluated is read."""
    soup = folding(2)
    wheres = {"n < 5": 5, "n >= 3": 7, "n = 2": 1}
    window = " BEGIN (NOW - 500 ROWS)"
    queries = [soup.register(f"SELECT count(*) AS c FROM t WHERE {where}{window}") for where in wheres]
    soup.push("t", pa.table({"n": [n % 10 for n in range(600)]}))
    soup.maintain()
    late = soup.register(f"SELECT count(*) AS c FROM t WHERE n <> 4{window}")
    assert soup.invoke(late).to_table().to_pydict() == {"c": [450]}
    with monkeypatch.context() as patched:
        patched.setattr(window_rows, "matches_in", None)
        patched.setattr(window_folds, "matches_together", None)
        for _ in range(3):
            counted = [soup.invoke(query).to_table()["c"][0].as_py() for query in queries]
            assert counted == [50 * share for share in wheres.values()]
    soup.check()


def test_a_fold_says_how_many_tuples_matched_and_what_could_not_be_computed() -> None:
    soup = folding(2)
    soup.push("t", pa.table({"n": [k % 10 for k in range(1_000)], "x": [1.0] * 1_000, "s": ["a"] * 1_000}))
    query = soup.register(
        f"SELECT max(n * {2**60}) AS m, count(*) FILTER (WHERE n * {2**60} > 0) AS c FROM t"
        f" WHERE n * {2**60 - 1} >= 0 BEGIN (NOW - 900 ROWS)"
    )
    assert len({told(soup.invoke(query)) + str(soup.invoke(query).completeness) for _ in range(3)}) == 1
    answer = soup.invoke(query)
    answer.to_table()
    assert spans_of(soup)
    assert (answer.matched, answer.completeness.errors, answer.errors) == (810, 90, 90 + 90 + 90)


@pytest.mark.seeded("an end of the window is off by one")
@pytest.mark.parametrize("where", swept(["", " WHERE x >= 0", " WHERE x >= 0 AND n <> 900"], fast=(1,)))
def test_an_end_off_by_one_shows(where: str) -> None:
    """Each first and each last tuple of a window, at the edges of chunks; matches as bits and others."""
    soup = folding(2)
    soup.push("t", pa.table({"n": list(range(700)), "x": [0.0] * 700, "s": [""] * 700}))
    query = soup.register("SELECT count(*) AS c, sum(n) AS s, min(n) AS l, max(n) AS h FROM t" + where)
    soup.maintain()
    for low in (0, 1, 63, 64, 65, 128, 191, 192):
        for high in (255, 256, 257, 448, 449, 639, 640, 641, 699, 700):
            window = f"BEGIN (NOW - {700 - low} ROWS)" + f" END (NOW - {700 - high} ROWS)" * (high < 700)
            expected = {"c": high - low, "s": sum(range(low, high)), "l": low, "h": high - 1}
            assert soup.invoke(query, window=window).to_table().to_pylist() == [expected], (low, high)


def test_a_match_that_is_in_a_row_and_in_a_run_counts_once() -> None:
    """The bits of an open chunk are those of its rows and of its runs, as they were when it had so many tuples."""
    soup = folding(2)
    query = soup.register("SELECT count(*) AS c, sum(n) AS s FROM t WHERE n > 0")
    forms = set[str]()
    for rows in (1, 2, 30, 1, 20, 3):
        soup.push("t", pa.table({"n": [1] * rows, "x": [0.0] * rows, "s": [""] * rows}))
        view = soup.engine.snapshot().stream("t", "default").chunks[-1].results.open
        assert view is not None
        forms.add(view.form(0))
        bits = view.bits(0)
        if bits is not None:
            kept = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")[: view.length])
            assert kept.tolist() == view.offsets(0, 0, view.length).tolist() == list(range(view.length))
        assert soup.invoke(query).to_table().to_pylist() == [{"c": view.length, "s": view.length}]
    assert "row+run" in forms


@pytest.mark.seeded("both ends lie in one chunk")
def test_both_ends_in_one_chunk_need_no_fold() -> None:
    soup = folding(2)
    soup.push("t", pa.table({"n": list(range(200)), "x": [0.0] * 200, "s": [""] * 200}))
    query = soup.register("SELECT count(*) AS c FROM t WHERE n <> 70 BEGIN (NOW - 135 ROWS) END (NOW - 75 ROWS)")
    for _ in range(3):
        assert soup.invoke(query).to_table().to_pylist() == [{"c": 59}]
    assert not spans_of(soup)
    view = soup.engine.snapshot().stream("t", "default")
    assert inner_of(view, 65, 125) is None
    assert inner_of(view, 64, 128) == (1, 2, 64, 128)


@pytest.mark.seeded("a chunk that is not folded is taken as empty")
def test_a_chunk_that_is_not_folded_is_not_empty() -> None:
    """A leaf is lost from under a node, and a node from above its leaves: each is made anew."""
    soup = folding(2)
    soup.push("t", pa.table({"n": list(range(700)), "x": [0.0] * 700, "s": [""] * 700}))
    query = soup.register("SELECT sum(n) AS s FROM t WHERE n >= 0")
    expected = [{"s": sum(range(700))}]
    ((_, _, folds),) = _folds_after_two(soup, query)
    for lost in ([(0, 3)], [(3, 0)], [(3, 0), (2, 0), (1, 1), (0, 2)], list(folds.spans)):
        folds.inner.clear()
        folds.middles.clear()
        for span in lost:
            folds.spans.pop(span)
        assert soup.invoke(query).to_table().to_pylist() == expected
    soup.check()


def _folds_after_two(soup: LocalPSoup, query: int) -> list[tuple[int, Any, Folds]]:
    soup.invoke(query)
    soup.invoke(query)
    return soup.engine.snapshot().stream("t", "default").folds.kept()


@pytest.mark.seeded("a node reaches beyond what is kept")
def test_a_node_is_not_used_when_one_of_its_chunks_has_expired() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, block_rows=64, shape=Shape(fold_fan=2)), VirtualClock(10**12))
    soup.execute("CREATE STREAM t (n BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at RETENTION 300 SECONDS")
    query = soup.register("SELECT count(*) AS c, min(n) AS l FROM t WHERE n >= 0")
    for start in range(0, 1_200, 100):
        times = pa.array([k * 1_000_000 for k in range(start, start + 100)], pa.timestamp("us"))
        soup.push("t", pa.table({"n": list(range(start, start + 100)), "at": times}))
        for _ in range(3):
            low = max(start + 99 - 300, 0)
            shown = soup.invoke(query, accept_truncation=True).to_table().to_pylist()
            assert shown == [{"c": start + 100 - low, "l": low}]
    oldest = soup.engine.snapshot().stream("t", "default").chunks[0].data.number
    assert oldest > 8
    assert all((number + 1) * 2**level > oldest for level, number in spans_of(soup)), "folds of what is gone are kept"


@pytest.mark.seeded("numbers of chunks below zero are aligned upwards")
def test_numbers_of_chunks_below_zero_are_aligned_downwards(tmp_path: Path) -> None:
    assert list(cover(-17, 18, 16)) == [(0, -17), (1, -1), (1, 0), (0, 16), (0, 17)]
    assert list(cover(-5, 3, 2)) == [(0, -5), (2, -1), (1, 0), (0, 2)]
    for first in range(-40, 9):
        for stop in range(first, 30):
            chunks = [n for level, at in cover(first, stop, 2) for n in range(at * 2**level, (at + 1) * 2**level)]
            assert chunks == list(range(first, stop))
    config = EngineConfig(chunk_rows=64, block_rows=64, shape=Shape(fold_fan=2))
    soup = RestartingPSoup(config, VirtualClock(10**12), tmp_path / "data")
    soup.execute("CREATE STREAM t (n BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at RETENTION 900 DAYS")
    soup.push("t", _timed(range(1_000, 1_300)))
    query = soup.register("SELECT count(*) AS c, sum(n) AS s, first(n) AS f FROM t WHERE n % 2 = 0 BEGIN (START)")
    spec = soup.engine.snapshot().stream("t", soup.tenant).spec
    write(tmp_path / "job", spec, _timed(range(1_000)), [k * 1_000_000 for k in range(1_000)], range(0, 1_000, 100))
    attach(soup, "t", "job", tmp_path / "job")
    assert soup.engine.snapshot().stream("t", soup.tenant).chunks[0].data.number == -10
    for _ in range(3):
        shown = soup.invoke(query).to_table().to_pylist()
        assert shown == [{"c": 650, "s": sum(range(0, 1_300, 2)), "f": 0}]
    assert (1, -5) in spans_of(soup)
    check_folds(soup.engine.snapshot())


def _timed(numbers: range) -> pa.Table:
    return pa.table({"n": list(numbers), "at": pa.array([k * 1_000_000 for k in numbers], pa.timestamp("us"))})


def test_a_clause_in_the_slot_of_a_dead_one_has_folds_of_its_own() -> None:
    soup = folding(2)
    soup.push("t", pa.table({"n": list(range(700)), "x": [0.0] * 700, "s": [""] * 700}))
    shown = []
    for least in (0, 100, 0):
        query = soup.register(f"SELECT count(*) AS c FROM t WHERE n >= {least}")
        shown += [soup.invoke(query).to_table().to_pylist()[0]["c"] for _ in range(3)]
        soup.unregister(query)
    assert shown == [700] * 3 + [600] * 3 + [700] * 3


@pytest.mark.seeded("a slot is given again, and its folds with it")
def test_queries_of_one_clause_and_equal_measures_share_folds_and_others_do_not() -> None:
    soup = folding(2)
    soup.push("t", pa.table({"n": list(range(700)), "x": [0.5] * 700, "s": [""] * 700}))
    for sql, kept in [
        ("SELECT sum(n) AS c FROM t WHERE n > 9", 1),
        ("SELECT sum(n) + 1 AS d FROM t WHERE n > 9 BEGIN (NOW - 500 ROWS)", 1),
        ("SELECT sum(n) FILTER (WHERE n > 300) AS d FROM t WHERE n > 9", 2),
        ("SELECT sum(x) AS d FROM t WHERE n > 9", 3),
        ("SELECT sum(n) AS d FROM t WHERE n > 8", 4),
    ]:
        assert len(_folds_after_two(soup, soup.register(sql))) == kept
    soup.check()


def test_columns_that_came_later_are_null_in_chunks_that_were_there() -> None:
    soup = folding(2)
    query = soup.register("SELECT count(*) AS c FROM t")
    soup.push("t", pa.table({"n": list(range(200)), "x": [0.5] * 200, "s": [""] * 200}))
    for _ in range(2):
        assert soup.invoke(query).to_table().to_pylist() == [{"c": 200}]
    soup.execute("ALTER STREAM t ADD COLUMN y BIGINT")
    later = soup.register("SELECT count(y) AS c, sum(y) AS s FROM t")
    columns = {"n": list(range(200)), "x": [0.5] * 200, "s": [""] * 200}
    soup.push("t", pa.table({**columns, "y": [1] * 200}))
    for _ in range(3):
        assert soup.invoke(query).to_table().to_pylist() == [{"c": 400}]
        assert soup.invoke(later).to_table().to_pylist() == [{"c": 200, "s": 200}]


def test_a_refold_finds_a_fold_that_is_wrong() -> None:
    soup = folding(2)
    soup.push("t", pa.table({"n": list(range(700)), "x": [0.5] * 700, "s": [""] * 700}))
    query = soup.register("SELECT sum(n) AS s FROM t WHERE n > 9")
    ((_, recipe, folds),) = _folds_after_two(soup, query)
    soup.check()
    right = folds.spans[1, 1]
    for wrong in (recipe.joined([right, right]), replace(right, matched=1), recipe.joined([])):
        folds.spans[1, 1] = wrong
        with pytest.raises(Corrupt, match="not that of its chunks"):
            soup.check()
    folds.spans[1, 1] = right
    folds.spans[3, 1] = right
    with pytest.raises(Corrupt, match="open chunk"):
        soup.check()


def test_folds_are_charged_and_leave_when_there_is_no_room() -> None:
    soup = folding(2, memory_bytes=1 << 20)
    soup.push("t", pa.table({"n": list(range(700)), "x": [0.5] * 700, "s": [""] * 700}))
    queries = [soup.register(f"SELECT sum(x) AS s FROM t WHERE n > {k}") for k in range(12)]
    for query in queries * 3:
        soup.invoke(query)
        folds = soup.engine.snapshot().stream("t", "default").folds
        assert folds.held <= folds.limit == 1 << 15
        assert folds.held == sum(each.nbytes for *_, each in folds.kept())
    item = {item.structure: item for item in memory_bill(soup.engine.snapshot()).items}["folds"]
    assert item.bytes == item.reclaimable == folds.held
    assert item.count == folds.spans > 0
    assert folds.give_up(1) > 0
    folds.give_up(1 << 30)
    assert (folds.held, folds.spans) == (0, 0)


def test_the_memory_of_folds_returns_when_their_queries_go() -> None:
    """One by one, and many at once; those of others stay."""
    soup = folding(2)
    soup.push("t", pa.table({"n": list(range(700)), "x": [0.5] * 700, "s": [""] * 700}))
    stays = soup.register("SELECT sum(n) AS s FROM t WHERE n > 100")
    queries = [soup.register(f"SELECT sum(n) AS s FROM t WHERE n > {k}") for k in range(48)]
    for query in [stays, *queries] * 3:
        soup.invoke(query)
    folds = soup.engine.snapshot().stream("t", "default").folds
    held = folds.held
    for query in queries[:16]:
        soup.unregister(query)
    assert len(folds.kept()) == 33
    soup.unregister_many(queries[16:])
    assert len(folds.kept()) == 1
    assert 40 * folds.held < held and folds.held == sum(each.nbytes for *_, each in folds.kept())
    assert soup.invoke(stays).to_table()["s"].to_pylist() == [sum(range(101, 700))]
    soup.check()


def test_spans_that_are_lacking_are_those_of_no_node_above_them() -> None:
    assert RECIPE is not None
    fold = RECIPE.joined([])
    known: dict[tuple[int, int], Fold] = {(1, 1): fold, (0, 5): fold}
    assert lacking(known, 1, 8, 2) == [range(1, 2), range(4, 5), range(6, 8)]
    assert lacking(known | {(2, 1): fold}, 1, 8, 2) == [range(1, 2)]
    assert lacking({}, -3, 8, 4) == [range(-3, 0), range(4), range(4, 8)], "a run is within a node"
    room = FoldRoom(1 << 20, 2)
    assert room.known(7, RECIPE) is None
    folds = room.known(7, RECIPE)
    assert folds is not None
    asked: list[Sequence[int]] = []

    def leaf(runs: list[range]) -> list[Fold]:
        asked.append([run.start for run in runs])
        assert all(len(run) == 1 for run in runs), "without keys each chunk has a fold"
        return [replace(fold, matched=run.start) for run in runs]

    assert room.fold(folds, 1, 8, 0, leaf).matched == sum(range(1, 8))
    assert room.fold(folds, 0, 8, 0, leaf).matched == sum(range(8))
    assert room.fold(folds, 0, 8, 0, leaf).matched == sum(range(8))
    assert asked == [[1, 2, 3, 4, 5, 6, 7], [0]]
    assert room.fold(folds, 6, 10, 5, leaf).matched == 6 + 7 + 8 + 9
    assert min((number + 1) * 2**level for level, number in folds.spans) == 6


@pytest.mark.parametrize("measures", ["stddev_pop(n) AS a", "median(n) AS a", "count(DISTINCT n) AS a"])
def test_what_does_not_combine_exactly_or_in_bounds_has_no_folds(measures: str) -> None:
    soup = folding(2)
    soup.push("t", odd_rows(random.Random(1), 700))
    query = soup.register(f"SELECT {measures}, count(*) AS b FROM t")
    assert not _folds_after_two(soup, query)
    assert "tuple by tuple" in "\n".join(soup.explain(query).lines())


def test_explain_says_what_an_invocation_combines() -> None:
    soup = folding(2)
    soup.push("t", odd_rows(random.Random(1), 700))
    query = soup.register("SELECT count(*) AS b FROM t BEGIN (NOW - 650 ROWS)")
    nodes = "folds of 3 nodes and 1 chunk, 74 tuples at the two ends"
    assert f"{nodes}; 9 chunks not folded yet" in "\n".join(soup.explain(query).lines())
    _folds_after_two(soup, query)
    assert f"{nodes}; all but the ends is kept combined" in "\n".join(soup.explain(query).lines())
    _folds_after_two(soup, query)
    assert f"{nodes}; all but 2 tuples of these is kept combined" in "\n".join(soup.explain(query).lines())
