"""Rows of groups: their order, what HAVING, DISTINCT, ORDER BY and LIMIT make of them, errors, budgets, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.aggregates.moments import Moments
from psoup.answer.invoke import Answer, invoke
from psoup.config import EngineConfig
from psoup.data.chunk import ChunkView
from psoup.data.dictionary_column import Coded
from psoup.errors import ResourceExhausted
from psoup.events.tenants import AlterTenant
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget, ReadEnded

ROWS: list[tuple[Any, ...]] = [
    ("b", 1, 0.5),
    ("a", 2, -0.0),
    (None, 3, 2.0),
    ("b", 4, float("nan")),
    ("a", None, 0.0),
    ("é", 6, None),
    ("", 7, float("inf")),
]


def _soup(config: EngineConfig = EngineConfig(chunk_rows=64), copies: int = 1) -> LocalPSoup:
    soup = LocalPSoup(config, VirtualClock(100))
    soup.execute("CREATE STREAM t (s TEXT, n BIGINT, x DOUBLE)")
    for _ in range(copies):
        columns = [list(column) for column in zip(*ROWS, strict=True)]
        soup.push("t", pa.table(columns, names=["s", "n", "x"]))
    return soup


def _asked(soup: LocalPSoup, sql: str) -> list[tuple[Any, ...]]:
    table = soup.ask(sql).to_table()
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT s, count(*) AS c FROM t GROUP BY s", [("", 1), ("a", 2), ("b", 2), ("é", 1), (None, 1)]),
        ("SELECT s, count(n) AS c FROM t GROUP BY s HAVING count(*) > 1", [("a", 1), ("b", 2)]),
        ("SELECT s, sum(n) AS c FROM t GROUP BY s ORDER BY c DESC NULLS LAST LIMIT 2", [("", 7), ("é", 6)]),
        ("SELECT count(*) AS c, s FROM t GROUP BY s ORDER BY c LIMIT 3", [(1, ""), (1, "é"), (1, None)]),
        ("SELECT DISTINCT count(*) AS c FROM t GROUP BY s", [(1,), (2,)]),
        ("SELECT s FROM t GROUP BY s LIMIT 2 OFFSET 1", [("a",), ("b",)]),
        ("SELECT count(*) AS c, sum(n) + 1 AS d FROM t WHERE n > 100", [(0, None)]),
        ("SELECT s, count(*) AS c FROM t WHERE n > 100 GROUP BY s", []),
        ("SELECT count_if(n > 0) AS c FROM t WHERE n IS NULL", [(0,)]),
        ("SELECT count(*) AS c FROM t HAVING count(*) > 100", []),
        ("SELECT max(x) > 5 AS m FROM t WHERE n IN (1, 3)", [(False,)]),
        ("SELECT n % 2 AS odd, max(s) AS m FROM t GROUP BY 1", [(0, "é"), (1, "b"), (None, "a")]),
        ("SELECT last(n) AS n, first(n) AS f FROM t WHERE s = 'a'", [(None, 2)]),
        ("SELECT x, count(*) AS c FROM t WHERE x < 1 OR x IS NULL GROUP BY x", [(0.0, 2), (0.5, 1), (None, 1)]),
    ],
)
def test_answers(sql: str, expected: Sequence[Any]) -> None:
    assert _asked(_soup(), sql) == expected


def test_rows_above_one_another_share_one_table_and_give_its_memory_back() -> None:
    soup, budget = _soup(copies=40), ReadBudget()
    answer = _invoked(soup, "SELECT s, n, count(*) AS c, median(x) AS m FROM t GROUP BY ALL ORDER BY c DESC, m", budget)
    batches = answer.batches(2)
    next(batches)
    assert budget.grouped > 0
    assert budget.held > 0
    batches.close()
    assert (budget.grouped, budget.held) == (0, 0)
    assert answer.to_table().num_rows == 7
    assert (budget.grouped, budget.held) == (0, 0)


def _invoked(soup: LocalPSoup, sql: str, budget: ReadBudget | None = None, **config: int) -> Answer:
    query = soup.register(sql)
    snapshot = replace(soup.engine.snapshot(), config=replace(soup.engine.config, **config))
    return invoke(snapshot, query, tenant=soup.tenant, now=soup.clock.now(), budget=budget).lean()


@pytest.mark.parametrize("many", ["s.n", "s.n, s.t"])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("source", ["s", "s, r WHERE s.n = r.n"])
def test_the_groups_of_a_tenants_quota_bound_an_answer(many: str, again: bool, source: str) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=1_024))
    soup.execute("CREATE STREAM s (n BIGINT, t TEXT)")
    numbers = np.arange(10_000) % 700
    soup.push("s", pa.table({"n": numbers, "t": [f"t{n}" for n in numbers]}))
    soup.maintain()
    soup.execute("CREATE STREAM r (n BIGINT)")
    soup.push("r", pa.table({"n": np.arange(700)}))
    query = soup.register(f"SELECT {many}, count(*) AS c FROM {source} GROUP BY {many}")

    def asked(most: int) -> int:
        soup.submit(AlterTenant(soup.tenant, {"group_keys": most}))
        return soup.invoke(query).to_table().num_rows

    for _ in range(3 * again):  # from folds that are kept
        assert asked(700) == 700
    with pytest.raises(ResourceExhausted, match="699 of the 699 that its quota group_keys allows") as refusal:
        asked(699)
    facts = {"quota": "group_keys", "tenant": "default", "limit": "699", "used": "699", "needed": "1"}
    assert (refusal.value.reason, refusal.value.facts) == ("QUOTA", facts)
    budgets = {spend.budget: spend.limit for spend in soup.explain(query).budgets}
    assert budgets.get("group_keys", 699) == 699
    assert asked(0) == 700


@pytest.mark.parametrize(
    ("sql", "limits", "said"),
    [
        ("SELECT n, count(*) AS c FROM s GROUP BY n", {"group_keys": 9_000}, "group_keys"),
        ("SELECT n, t, count(*) AS c FROM s GROUP BY n, t", {"group_keys": 9_000}, "group_keys"),
        ("SELECT count(DISTINCT n) AS c FROM s", {"group_keys": 9_000}, "group_keys"),
        ("SELECT n, count(*) AS c FROM s GROUP BY n", {"group_rows": 9_999}, "group_rows"),
        ("SELECT n, count(*) AS c FROM s GROUP BY n ORDER BY c", {"group_rows": 9_999}, "group_rows"),
        ("SELECT median(n) AS c FROM s", {"sort_rows": 9_999}, r"a median .* \(sort_rows\); .* approx_quantile"),
    ],
)
def test_budgets(sql: str, limits: dict[str, int], said: str) -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (n BIGINT, t TEXT)")
    soup.push("s", pa.table({"n": np.arange(10_000), "t": [f"t{n}" for n in range(10_000)]}))
    budget = ReadBudget()
    with pytest.raises(ResourceExhausted, match=said):
        _invoked(soup, sql, budget, **limits).to_table()
    budget.close()
    assert (budget.grouped, budget.held) == (0, 0)
    if said == "group_rows":
        few = _invoked(soup, f"{sql.removesuffix(' ORDER BY c')} ORDER BY c LIMIT 3", **limits)
        assert few.to_table().num_rows == 3
        assert _invoked(soup, f"{sql.removesuffix(' ORDER BY c')} HAVING n < 5", **limits).to_table().num_rows == 5


def test_a_read_says_before_it_makes_results_of_large_states_that_these_take_long() -> None:
    soup, budget, said = LocalPSoup(), ReadBudget(), list[bool]()
    soup.execute("CREATE STREAM s (n BIGINT)")
    soup.push("s", pa.table({"n": np.arange(300_000)}))
    budget.wait = lambda: said.append(True)
    for sql, long in (("median(n)", True), ("count(DISTINCT n)", True), ("sum(n)", False)):
        said.clear()
        assert _invoked(soup, f"SELECT {sql} AS m FROM s", budget).to_table().num_rows == 1
        assert bool(said) is long, sql


@pytest.mark.parametrize("step", ["add", "finish"])
def test_a_read_ends_between_two_of_its_measures(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hundred measures of one part of the rows take half a second, in which its caller may have left."""
    done, before = list[str](), getattr(Moments, step)
    monkeypatch.setattr(Moments, step, lambda *args: (done.append(step), before(*args))[1])

    def ask() -> None:
        if len(done) == 2:
            raise ReadEnded

    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (x DOUBLE)")
    soup.push("s", pa.table({"x": np.arange(5_000.0)}))
    measures = ", ".join(f"var_pop(x) FILTER (WHERE x > {n}) AS v{n}" for n in range(5))
    with pytest.raises(ReadEnded):
        _invoked(soup, f"SELECT {measures} FROM s", ReadBudget(ask)).to_table()
    assert len(done) == 2


def test_memory_of_groups_is_bounded_by_that_of_a_read() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (n BIGINT)")
    soup.push("s", pa.table({"n": np.arange(50_000) << 30}))
    with pytest.raises(ResourceExhausted, match="sort_mib") as refused:
        _invoked(soup, "SELECT n, sum(n) AS c FROM s GROUP BY n", ReadBudget(sort_bytes=1_000_000)).to_table()
    assert refused.value.reason == "GROUP_BUDGET"


def test_having_over_more_groups_than_are_looked_at_together() -> None:
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (n BIGINT)")
    soup.push("s", pa.table({"n": np.arange(140_000)}))
    found = _asked(soup, "SELECT n, count(*) AS c FROM s GROUP BY n HAVING n IN (5, 65536, 70000, 139999)")
    assert found == [(5, 1), (65_536, 1), (70_000, 1), (139_999, 1)]


def test_what_cannot_be_computed_is_null_and_counted() -> None:
    soup = _soup()
    query = soup.register(
        "SELECT count(*) AS c, sum(9223372036854775807 + n) FILTER (WHERE n * 9000000000000000000 > 0) AS d FROM t"
    )
    answer = soup.invoke(query)
    assert answer.to_table().to_pylist() == [{"c": 7, "d": None}]
    assert (answer.errors, answer.select_errors) == (11, 0)
    assert answer.to_table().num_rows == 1
    assert answer.errors == 11, "counted anew, not on top"
    over = soup.invoke(
        soup.register("SELECT s, max(n) * 9000000000000000000 AS d FROM t GROUP BY s HAVING count(*) < 2")
    )
    assert over.to_table().to_pylist() == [{"s": "", "d": None}, {"s": "é", "d": None}, {"s": None, "d": None}]
    assert (over.errors, over.select_errors) == (0, 3)


def test_tuples_are_counted_as_matched_and_groups_as_rows() -> None:
    answer = _soup().ask("SELECT s, count(*) AS c FROM t WHERE n > 1 GROUP BY s")
    assert (answer.matched, answer.to_table().num_rows) == (5, 5)


def test_texts_that_are_too_long_together_come_in_parts() -> None:
    config = EngineConfig(chunk_rows=64, evaluation_bytes=4_000)
    soup = _soup(config, copies=30)
    rows = _asked(
        soup, "SELECT s, n, repeat('x', 1000 + count(*)) AS r FROM t GROUP BY s, n HAVING length(repeat('y', 1500)) > 0"
    )
    assert [len(row[2]) for row in rows] == [1_030] * 7


def test_a_column_that_is_grouped_by_again_is_kept_as_numbers_of_its_values() -> None:
    """Of chunks whose values repeat; only values of tuples that match are groups, and memory is given back."""
    soup = LocalPSoup(EngineConfig(chunk_rows=8_192))
    soup.execute("CREATE STREAM t (s TEXT, n BIGINT, x BIGINT)")
    numbers = np.arange(20_000)
    texts = pa.array(["a", None, "c", "", "a\0"]).take(pa.array(numbers % 5))
    soup.push("t", pa.table({"s": texts, "n": numbers // 6_000, "x": numbers * 7}))
    soup.maintain()
    expected = LocalPSoup(EngineConfig(chunk_rows=64))
    expected.execute("CREATE STREAM t (s TEXT, n BIGINT, x BIGINT)")
    expected.push("t", pa.table({"s": texts, "n": numbers // 6_000, "x": numbers * 7}))
    wheres = ("", " WHERE s <> 'c'", " WHERE n = 1 AND s <> 'c'", " WHERE x > 50000")
    shown = [(keys, where) for keys in ("s, n", "s") for where in wheres]
    for keys, where in shown:
        sql = f"SELECT {keys}, count(*) AS c, max(x) AS m FROM t{where} GROUP BY ALL ORDER BY c DESC LIMIT 9"
        query = soup.register(sql)
        answers = [soup.invoke(query).to_table() for _ in range(4)]
        assert all(answer.equals(answers[0]) for answer in answers)
        assert answers[0].equals(expected.ask(sql).to_table())
    chunks = [entry.data for entry in soup.engine.snapshot().stream("t", "default").chunks]
    coded = [chunk.caches.coded for chunk in chunks if isinstance(chunk, ChunkView)]
    assert {index: type(codes) for index, codes in coded[0].items()} == {0: Coded, 1: Coded}
    chunks[0].caches.forget_codes()  # type: ignore[attr-defined]
    assert not coded[0]


@pytest.mark.seeded("65,536 different keys in a chunk do not fit their numbers")
def test_as_many_keys_as_a_chunk_has_rows() -> None:
    """Chunks of 65,536 different keys, of one less and NULL, and of as many as are kept as numbers of values."""
    soup, rows = LocalPSoup(), 65_536
    soup.execute("CREATE STREAM s (n BIGINT)")
    every = np.arange(rows) - 7
    for keys in (every, np.where(every == 0, None, every), every % (rows // 4), every % (rows // 4)):
        soup.push("s", pa.table({"n": pa.array(keys, pa.int64())}))
    soup.push("s", pa.table({"n": [0]}))
    soup.maintain()
    times = [*np.where((every >= 0) & (every < rows // 4), 10, 2).tolist(), 1]
    expected = pa.table({"n": pa.array([*every.tolist(), None], pa.int64()), "c": times})
    query = soup.register("SELECT n, count(*) AS c FROM s GROUP BY n")
    for _ in range(3):  # noted, numbered, by numbers
        assert soup.invoke(query).to_table().equals(expected)
    chunks = [entry.data for entry in soup.engine.snapshot().stream("s", "default").chunks]
    kept = [isinstance(chunk.caches.coded.get(0), Coded) for chunk in chunks if isinstance(chunk, ChunkView)]
    assert kept == [False, False, True, True, False]
