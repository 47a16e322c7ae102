"""Folds of groups: the rows of GROUP BY are the same whether folds are kept, made, dropped, or not in use."""

from __future__ import annotations

import gc
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from psoup.aggregates.folds import Folds
from psoup.answer.figures.bill import memory_bill
from psoup.answer.invoke import invoke
from psoup.errors import Corrupt, ResourceExhausted
from psoup.local import LocalPSoup
from psoup.work.read_budget import ReadBudget
from psoup_testing.engines.fold_reuse import MEASURES, WHERE, WINDOWS, compare, folding, odd_rows, spans_of
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import in_parts, swept

KEYS = ["n", "x", "s", "s, n", "n % 3", "x > 0", "n, s, x > 0"]
ABOVE = ["", "", "HAVING count(*) > 9", "ORDER BY 2 DESC NULLS LAST LIMIT 3"]


def _statement(rng: random.Random, measures: str) -> str:
    keys = rng.choice(KEYS)
    named = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys.split(", ")))
    rest = rng.choice(ABOVE), rng.choice(WINDOWS)
    return f"SELECT {named}, {measures} FROM t {rng.choice(WHERE)} GROUP BY {keys} {' '.join(rest)}"


def _folds(soup: LocalPSoup, query: int) -> Folds:
    """The folds of the only query, once they are in use."""
    soup.invoke(query).to_table()
    soup.invoke(query).to_table()
    ((_, _, folds),) = soup.engine.snapshot().stream("t", "default").folds.kept()
    return folds


def _pushed(soup: LocalPSoup, numbers: list[int | None], texts: list[str | None] | None = None) -> None:
    rows = {"n": pa.array(numbers, pa.int64()), "x": [1.0] * len(numbers), "s": texts or ["a"] * len(numbers)}
    soup.push("t", pa.table(rows))


@pytest.mark.seeded("a chunk that is grouped from its rows is left out")
@pytest.mark.parametrize(("fan", "seed"), swept([(2, 1), (2, 2), (16, 3)], fast=(2,)))
def test_groups_are_equal_bit_for_bit_with_folds_and_without(fan: int, seed: int) -> None:
    """Keys are NULL, NaN, zeros of both signs, texts, several; folds and results are dropped at any time."""
    rng, tight = random.Random(seed), {"results_bytes": 1 << 13} if seed == 2 else {}
    sides = [folding(fan, **tight), folding(1)]
    queries: list[str] = []
    for step in range(10):
        if step in (0, 5):
            queries += [_statement(rng, measures) for measures in MEASURES for _ in range(2)]
            assert len({tuple(soup.register(sql) for sql in queries[-2 * len(MEASURES) :]) for soup in sides}) == 1
        compare(sides, queries, rng, 5)
    sides[0].check()
    assert fan > 2 or max(level for level, _ in spans_of(sides[0])) >= 3


@in_parts(3)
def test_counts_of_groups_sum_to_the_count(part: slice) -> None:
    """Whatever the keys are, over any window, whether chunks are folded or not."""
    rng, soup = random.Random(31), folding(2)
    wheres = [where for where in WHERE if "*" not in where]  # errors of WHERE are in neither
    whole = [soup.register(f"SELECT count(*) AS c FROM t {where}") for where in wheres]
    parts = [
        [soup.register(f"SELECT count(*) AS c FROM t {where} GROUP BY {key}") for key in KEYS[part]] for where in wheres
    ]
    for _ in range(3):
        soup.push("t", odd_rows(rng, 300))
        soup.maintain()
        for query, grouped in zip(whole, parts, strict=True):
            for window in (None, *WINDOWS[1:3]):
                (count,) = again(soup.invoke, query, window=window).to_table().column("c").to_pylist()
                sums = {
                    sum(again(soup.invoke, part, window=window).to_table().column("c").to_pylist()) for part in grouped
                }
                assert sums == {count}, (query, window)
    assert spans_of(soup)


def test_null_is_a_group_of_its_own_and_neither_zero_nor_an_empty_text() -> None:
    soup = folding(2)
    numbers, texts = [None, 0, 1, None] * 200, ["", None, "a", None] * 200
    _pushed(soup, numbers, texts)
    for key, values in (("n", numbers), ("s", texts)):
        query = soup.register(f"SELECT {key} AS k, count(*) AS c FROM t GROUP BY {key}")
        expected = Counter(values)
        for _ in range(3):
            table = soup.invoke(query).to_table()
            assert dict(zip(table.column("k").to_pylist(), table.column("c").to_pylist(), strict=True)) == expected
            assert table.column("k")[-1].as_py() is None, "NULLs are last"
    assert spans_of(soup)
    soup.check()


@pytest.mark.seeded("folds of NULL alone and of zeros alone share a table of keys")
def test_a_chunk_of_nulls_has_not_the_keys_of_a_chunk_of_zeros() -> None:
    soup = folding(2)
    _pushed(soup, [0] * 128 + [None] * 128 + [0] * 128, [""] * 128 + [None] * 128 + [""] * 128)
    for key, value in (("n", 0), ("s", "")):
        query = soup.register(f"SELECT {key} AS k, count(*) AS c FROM t GROUP BY {key} BEGIN (NOW - 300 ROWS)")
        for window, counts in ((None, (172, 128)), ("BEGIN (NOW - 200 ROWS)", (128, 72)), (None, (172, 128))):
            for _ in range(2):
                rows = soup.invoke(query, window=window).to_table().to_pylist()
                assert rows == [{"k": value, "c": counts[0]}, {"k": None, "c": counts[1]}]
        for first, shown in ((384, value), (256, None), (128, value), (256, None)):
            window = (
                f"BEGIN (NOW - {first} ROWS) END (NOW - {first - 128} ROWS)"
                if first > 128
                else "BEGIN (NOW - 128 ROWS)"
            )
            assert soup.invoke(query, window=window).to_table().to_pylist() == [{"k": shown, "c": 128}]
    soup.check()


@pytest.mark.seeded("the pages of an answer that was folded meanwhile are told apart")
def test_pages_of_an_answer_belong_together_whether_it_is_folded_or_not() -> None:
    soup = folding(2)
    _pushed(soup, [k % 9 for k in range(700)])
    query = soup.register("SELECT n, count(*) AS c FROM t WHERE n > 2 GROUP BY n BEGIN (NOW - 650 ROWS)")
    seen = [soup.invoke(query).likeness for _ in range(3)]
    soup.engine.snapshot().stream("t", "default").folds.give_up(1 << 30)
    assert {*seen, soup.invoke(query).likeness} == {seen[0]}
    _pushed(soup, [8])
    assert soup.invoke(query).likeness != seen[0]


def test_keys_that_only_the_ends_have_come_in_their_places_and_leave_no_trace() -> None:
    """What a reader adds to the groups of a fold is its own: others that read the same fold do not see it."""
    for texts in (False, True):
        soup = folding(2)
        shown = [f"k{k:05}" if texts else str(k) for k in range(3_000)]
        key = "s" if texts else "n"
        numbers = [*range(0, 2_000, 2), *range(1, 700, 2)]  # even ones in what is folded, odd ones besides in the end
        _pushed(soup, [n * (1 << 40 if not texts else 1) for n in numbers], [shown[n] for n in numbers])
        query = soup.register(f"SELECT {key} AS k, count(*) AS c FROM t GROUP BY {key}")
        for end in (1_350, 900, 1_340, 901, 1_350):
            window = "" if end == 1_350 else f"END (NOW - {1_350 - end} ROWS)"
            rows = soup.invoke(query, window=f"BEGIN (NOW - 1350 ROWS) {window}").to_table().to_pylist()
            expected = sorted(shown[n] if texts else n << 40 for n in numbers[:end])
            assert [row["k"] for row in rows] == expected
            assert {row["c"] for row in rows} == {1}
        soup.check()


def test_a_chunk_whose_keys_all_differ_is_grouped_from_its_rows_and_only_the_window_is_kept() -> None:
    soup = folding(4)
    _pushed(soup, [k * 3 % 1_000 for k in range(1_000)])
    query = soup.register("SELECT n, count(*) AS c, sum(n) AS s FROM t GROUP BY n")
    folds = _folds(soup, query)
    assert not folds.spans
    assert list(folds.inner) == [(0, 15)]
    assert "all but the ends is kept combined" in "\n".join(soup.explain(query).lines())
    _pushed(soup, [k % 1_000 for k in range(4_000)])
    counts = Counter([k * 3 % 1_000 for k in range(1_000)] + [k % 1_000 for k in range(4_000)])
    for _ in range(2):
        rows = soup.invoke(query).to_table().to_pylist()
        assert rows == [{"n": n, "c": counts[n], "s": n * counts[n]} for n in range(1_000)]
    assert {level for level, _ in folds.spans} == {3}, "nodes of 64 chunks, of 1,000 groups, pay"
    soup.check()


def test_folds_that_have_the_same_groups_share_a_table_of_their_keys() -> None:
    soup = folding(2)
    _pushed(soup, [k % 9 for k in range(700)], [f"text {k % 9}" for k in range(700)])
    for measure in ("count(*)", "max(x)"):
        for where in ("", "WHERE n <> 3"):
            query = soup.register(f"SELECT s, {measure} AS m FROM t {where} GROUP BY s")
            expected = [f"text {k}" for k in range(9) if k != 3 or not where]
            for window in ("", "BEGIN (NOW - 630 ROWS)", "BEGIN (NOW - 500 ROWS)", ""):
                assert soup.invoke(query, window=window or None).to_table().column("s").to_pylist() == expected
    room = soup.engine.snapshot().stream("t", "default").folds
    folds = [fold for *_, each in room.kept() for fold in [*each.spans.values(), *each.inner.values()]]
    assert len(folds) > 40
    assert len({id(fold.keys) for fold in folds}) <= 4, "a clause after another has the latest table"
    _pushed(soup, [3], ["text 30"])
    assert soup.invoke(1).to_table().column("s").to_pylist()[3:5] == ["text 3", "text 30"]
    assert [fold.keys[0].to_list()[3:5] for fold in folds[:1]] == [["text 3", "text 4"]], "readers never change it"
    soup.check()
    del folds
    room.give_up(1 << 30)
    gc.collect()
    assert not [latest for latest in room._tables._latest.values() if latest() is not None], "tables go with folds"


def test_many_keys_in_a_chunk_of_full_length() -> None:
    """65,536 different keys in a chunk, and as many others in the next: NULL is one of them."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM t (n BIGINT)")
    for start in (0, 65_536, 0):
        soup.push("t", pa.table({"n": pa.array([None, *range(start + 1, start + 65_536)], pa.int64())}))
    soup.push("t", pa.table({"n": [7]}))
    query = soup.register("SELECT n, count(*) AS c FROM t GROUP BY n")
    for _ in range(3):
        table = soup.invoke(query).to_table()
        assert table.num_rows == 131_072 - 1
        assert table.column("c").to_pylist()[:8] == [2, 2, 2, 2, 2, 2, 3, 2]
        assert table.slice(131_070).to_pylist() == [{"n": None, "c": 3}]
    soup.check()


def test_a_refold_finds_groups_that_are_wrong() -> None:
    soup = folding(2)
    _pushed(soup, [k % 5 for k in range(700)])
    folds = _folds(soup, soup.register("SELECT n, sum(n) AS s FROM t WHERE n >= 0 GROUP BY n"))
    soup.check()
    right = folds.spans[1, 1]
    for wrong in (folds.recipe.joined([right, right]), folds.recipe.joined([]), folds.spans[0, 2]):
        folds.spans[1, 1] = wrong
        with pytest.raises(Corrupt, match="not that of its chunks"):
            soup.check()


def test_a_node_is_made_anew_when_a_leaf_of_it_is_lost() -> None:
    soup = folding(2)
    _pushed(soup, [k % 5 for k in range(700)])
    query = soup.register("SELECT n, count(*) AS c FROM t GROUP BY n")
    expected = [{"n": n, "c": 140} for n in range(5)]
    folds = _folds(soup, query)
    for lost in ([(0, 3)], [(3, 0)], [(3, 0), (2, 0), (1, 1), (0, 2)], list(folds.spans)):
        folds.inner.clear()
        for span in lost:
            folds.spans.pop(span)
        assert soup.invoke(query).to_table().to_pylist() == expected
    soup.check()


def test_groups_are_charged_and_leave_when_there_is_no_room() -> None:
    soup = folding(2, memory_bytes=1 << 21)
    _pushed(soup, [k % 9 for k in range(700)], [f"text {k % 9}" for k in range(700)])
    queries = [soup.register(f"SELECT s, n, sum(x) AS y FROM t WHERE n > {k} GROUP BY s, n") for k in range(8)]
    for query in queries * 3:
        soup.invoke(query).to_table()
        folds = soup.engine.snapshot().stream("t", "default").folds
        assert folds.held <= folds.limit == 1 << 16
        assert folds.held == sum(each.nbytes for *_, each in folds.kept())
        for *_, each in folds.kept():
            fresh = sum(fold.nbytes for fold in [*each.spans.values(), *each.inner.values()])
            assert fresh < each.nbytes < fresh + 1_000
    item = {item.structure: item for item in memory_bill(soup.engine.snapshot()).items}["folds"]
    assert item.bytes == folds.held
    folds.give_up(1 << 30)
    assert folds.held == 0


def test_a_window_of_too_many_bytes_is_read_from_its_rows() -> None:
    soup = folding(2, memory_bytes=1 << 20)
    _pushed(soup, [k * 7 % 4_999 for k in range(5_000)])
    query = soup.register("SELECT n, count(*) AS c FROM t GROUP BY n")
    for _ in range(4):
        assert soup.invoke(query).to_table().num_rows == 4_999
    ((_, _, folds),) = soup.engine.snapshot().stream("t", "default").folds.kept()
    assert not folds.inner
    assert folds.beyond == range(5_000 // 64)
    assert soup.invoke(query, window="BEGIN (NOW - 300 ROWS)").to_table().num_rows == 300
    soup.check()
    for count in (1_000, 4_000, 1_000):  # after as many tuples of other keys it is tried again
        _pushed(soup, [k % 7 for k in range(count)])
        assert soup.invoke(query, window="BEGIN (NOW - 5000 ROWS)").to_table().num_rows >= 7
    assert folds.beyond is None
    assert len(folds.inner) == 1


@pytest.mark.parametrize("limit", [{"group_keys": 100}, {"group_rows": 100}])
def test_budgets_of_groups_hold_with_folds(limit: dict[str, Any]) -> None:
    soup = folding(2, **limit)
    _pushed(soup, [k % 101 for k in range(2_000)])
    query = soup.register("SELECT n, count(*) AS c FROM t GROUP BY n")
    for _ in range(4):
        budget = ReadBudget()
        with pytest.raises(ResourceExhausted, match=next(iter(limit))):
            invoke(soup.engine.snapshot(), query, tenant=soup.tenant, now=0, budget=budget).to_table()
        assert budget.grouped == 0
    assert soup.invoke(query, window="BEGIN (NOW - 100 ROWS)").to_table().num_rows == 100


def test_a_window_may_have_no_match_but_at_its_ends() -> None:
    soup = folding(2)
    _pushed(soup, [k if 100 <= k < 600 else -k for k in range(700)])
    query = soup.register("SELECT n, count(*) AS c FROM t WHERE n < 0 GROUP BY n HAVING n > -640")
    for _ in range(3):
        rows = soup.invoke(query, window="BEGIN (NOW - 600 ROWS)").to_table().to_pylist()
        assert rows == [{"n": -n, "c": 1} for n in range(639, 599, -1)]


def test_explain_says_what_of_the_groups_is_folded() -> None:
    soup = folding(2)
    _pushed(soup, [k % 9 for k in range(700)])
    query = soup.register("SELECT n, count(*) AS b FROM t GROUP BY n BEGIN (NOW - 650 ROWS)")
    nodes = "folds of 3 nodes and 1 chunk, 74 tuples at the two ends"
    lines = "\n".join(soup.explain(query).lines())
    assert f"{nodes}; 9 chunks not folded yet, or with too many groups" in lines
    assert "9 groups of 650 tuples" in lines
    _folds(soup, query)
    assert f"{nodes}; all but the ends is kept combined" in "\n".join(soup.explain(query).lines())
