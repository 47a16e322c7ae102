"""Windows of the last rows of each key: answers, the work that they take, budgets, copies, and reasons.

    k    0 1 N 0 1 0 N     N is NULL
    v    1 2 3 4 5 6 7

Here [PARTITION BY k ROWS 1] has the rows with v = 5, 6, 7.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.follow.told import is_selection
from psoup.answer.invoke import invoke
from psoup.answer.plan_nodes import PlanNode
from psoup.config import EngineConfig
from psoup.errors import InvalidInput, ResourceExhausted
from psoup.execution.rows import last_rows
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_testing.copies.positions import PositionClient, answer
from psoup_testing.suite.sweeps import in_parts, swept

SMALL = EngineConfig(chunk_rows=64, piece_rows=64)


def _soup(keys: list[Any], kind: str = "BIGINT", config: EngineConfig = SMALL) -> LocalPSoup:
    """A stream with these keys, and the numbers from 1 on, all of one time."""
    soup = LocalPSoup(config)
    soup.execute(f"CREATE STREAM s (k {kind}, v BIGINT)")
    _push(soup, keys)
    return soup


def _push(soup: LocalPSoup, keys: list[Any], first: int = 1) -> None:
    soup.push("s", pa.table({"k": pa.array(keys), "v": pa.array(range(first, first + len(keys)))}))


def _values(soup: LocalPSoup, query: int, **options: Any) -> list[Any]:
    return soup.invoke(query, **options).to_table().column("v").to_pylist()


def _node(soup: LocalPSoup, query: int) -> PlanNode:
    (node,) = [node for node in soup.explain(query).nodes if node.operator == "lastrows"]
    return node


KEYS = [0, 1, None, 0, 1, 0, None]


@pytest.mark.seeded("a NULL partition is merged with 0")
def test_null_is_a_key_and_later_tuples_of_one_time_come_first() -> None:
    soup = _soup(KEYS)
    assert _values(soup, soup.register("SELECT v FROM s [PARTITION BY k ROWS 1]")) == [5, 6, 7]
    assert _values(soup, soup.register("SELECT v FROM s [PARTITION BY k ROWS 2]")) == [2, 3, 4, 5, 6, 7]
    assert _values(soup, soup.register("SELECT v FROM s [PARTITION BY k, v ROWS 1]")) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.seeded("the last n tuples of a key are counted after WHERE")
def test_tuples_that_where_removes_take_their_place_in_the_window() -> None:
    soup = _soup(KEYS)
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 2] WHERE v < 5")
    assert _values(soup, query) == [2, 3, 4]
    _push(soup, [None, 0], first=100)
    assert _values(soup, query) == [2], "the new tuples do not satisfy WHERE, and push 3 and 4 out"


@pytest.mark.seeded("a window of keys ends at the newest tuple instead of as_of")
def test_an_earlier_time_has_the_last_tuples_of_that_time() -> None:
    soup = LocalPSoup(SMALL, clock := VirtualClock(10 * SECOND))
    soup.execute("CREATE STREAM s (k BIGINT, v BIGINT)")
    for number in range(1, 5):
        clock.advance(seconds=1)
        _push(soup, [7], first=number)
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 2]")
    assert [_values(soup, query, as_of=(10 + at) * SECOND) for at in range(1, 5)] == [[1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.seeded("the last n tuples are taken for the last n matching tuples")
def test_where_in_brackets_is_tested_before_the_window_counts() -> None:
    soup = _soup(KEYS)
    of_each = soup.register("SELECT v FROM s [PARTITION BY k ROWS 1 WHERE v < 5]")
    of_all = soup.register("SELECT v FROM s [ROWS 3 WHERE v % 2 = 1]")
    then = soup.register("SELECT v FROM s [ROWS 3 WHERE v % 2 = 1] WHERE v < 6")
    assert [_values(soup, query) for query in (of_each, of_all, then)] == [[2, 3, 4], [3, 5, 7], [3, 5]]
    _push(soup, [None, 0], first=100)
    assert [_values(soup, query) for query in (of_each, of_all, then)] == [[2, 3, 4], [5, 7, 101], [5]]


def test_the_matches_of_where_in_brackets_are_kept() -> None:
    soup = _soup(list(range(200)))
    query = soup.register("SELECT v FROM s [ROWS 5 WHERE v > 20] WHERE k > 190")
    (side,) = soup.engine.snapshot().sides_of(soup.engine.snapshot().query(query, soup.tenant))
    _push(soup, list(range(200, 300)), first=201)
    soup.maintain()
    assert soup.explain(query).source.chunks_covered == soup.explain(query).source.chunks
    assert side.query.clause == "FROM s WHERE v >= 21"
    assert [bool(soup.why(query, number).kept_out) for number in (293, 294, 299)] == [True, True, False]
    assert [step.passed for step in soup.why(query, 295).steps if step.kind in ("factor", "window")] == [True] * 3


def test_a_query_that_is_asked_beside_others_has_the_same_answer() -> None:
    soup = _soup([number % 7 for number in range(200)])
    queries = [soup.register(f"SELECT v FROM s [PARTITION BY k ROWS 3] WHERE v > {bound}") for bound in range(150, 190)]
    sums = [
        soup.register(f"SELECT sum(v) AS v FROM s [PARTITION BY k ROWS 3] WHERE v > {bound}") for bound in range(40)
    ]
    for together in (queries, sums):
        places, values = (column.to_pylist() for column in soup.invoke_table(together).to_table().columns)
        rows = [[v for place, v in zip(places, values, strict=True) if place == at] for at in range(len(together))]
        assert rows == [_values(soup, query) for query in together]


MANY = (
    "SELECT v FROM s [PARTITION BY k ROWS 2] WHERE v > ?",
    "SELECT count(*) AS v FROM s [PARTITION BY k ROWS 2] WHERE k = ?",
    "SELECT v FROM s [ROWS 9 WHERE v > 5] WHERE k = ?",
    "SELECT v FROM s [ROWS 9 WHERE k = ?]",
    "SELECT a.v FROM s [PARTITION BY k ROWS 1] a JOIN s b ON a.v = b.v WHERE b.k < ?",
)


@pytest.mark.parametrize("sql", swept(MANY, fast=2))
def test_many_queries_of_one_statement_have_the_answers_of_each(sql: str) -> None:
    soup = _soup([number % 7 for number in range(200)])
    many = list(soup.register_many(sql, [[number % 7] for number in range(40)]))
    each = [_values(soup, soup.register(sql.replace("?", str(number % 7)))) for number in range(40)]
    assert [_values(soup, query) for query in many] == each
    places, values = (column.to_pylist() for column in soup.invoke_table(many).to_table().columns)
    assert [[v for place, v in zip(places, values, strict=True) if place == at] for at in range(40)] == each


@pytest.mark.parametrize("kind", ["TEXT", "BIGINT"])
def test_full_chunks_are_skipped_if_their_column_is_coded(kind: str) -> None:
    keys = [str(number % 4) if kind == "TEXT" else number % 4 for number in range(640)]
    soup = _soup(keys, kind)
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 2]")
    first, second = [_values(soup, query) for _ in range(2)], _node(soup, query).figures
    assert first == [list(range(633, 641))] * 2
    assert second["chunks_skipped"] == 9 and second["tuples_read"] == 64, "asked twice, a column is coded"
    assert (second["keys"], second["rows"]) == (4, 8)


def test_full_chunks_are_skipped_if_their_columns_are_coded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that only older chunks have is found there. Without combinations, each chunk is read."""
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (t TEXT, k BIGINT, b BOOLEAN, v BIGINT)")
    numbers, at = range(640), 130  # `at` is in the third chunk
    pushed = {
        "t": ["x" if number == at else "ab"[number % 2] for number in numbers],
        "k": [None if number % 3 == 0 else number % 3 for number in numbers],
        "b": [number % 5 == 0 for number in numbers],
        "v": numbers,
    }
    soup.push("s", pa.table(pushed))
    for keys, count in (("t, k", 6), ("k, b, t", 12)):
        query = soup.register(f"SELECT v FROM s [PARTITION BY {keys} ROWS 2]")
        for _ in range(2):
            rows = _values(soup, query)
        assert len(rows) == 2 * count + 1 and rows[0] == at
        figures = _node(soup, query).figures
        assert (figures["chunks_skipped"], figures["tuples_read"], figures["keys"]) == (8, 128, count + 1)
        with monkeypatch.context() as changed:
            changed.setattr(last_rows, "_COMBINED", 1)
            assert _values(soup, query) == rows
            assert _node(soup, query).figures["chunks_skipped"] == 0


def test_no_chunk_is_read_below_the_oldest_match() -> None:
    soup = _soup(list(range(640)))
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 1] WHERE v > 500")
    node = _node(soup, query)
    assert node.figures["tuples_read"] == 192 and node.figures["rows"] == 140
    assert node.text == "LastRows PARTITION BY k ROWS 1" and node.pattern == "strict"
    assert node.facts["window"] == "PARTITION BY k ROWS 1"
    assert any("192 tuples in 3 chunks" in line for line in soup.explain(query).lines())
    nothing = soup.register("SELECT v FROM s [PARTITION BY k ROWS 1] WHERE v > 5000")
    assert _node(soup, nothing).figures["tuples_read"] == 0


def test_only_matches_are_read_if_where_reads_keys_only() -> None:
    soup = _soup([number % 50 for number in range(640)])
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 2] WHERE k = 7 OR k = 9")
    assert _values(soup, query) == [558, 560, 608, 610]
    assert _node(soup, query).figures["tuples_read"] == 26
    both = soup.register("SELECT v FROM s [PARTITION BY k ROWS 2] WHERE k = 7 AND v < 600")
    assert _values(soup, both) == [558], "the window counts 608, which WHERE removes"


def test_the_window_is_described_as_it_is_written() -> None:
    soup = _soup(KEYS)
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 2]")
    assert soup.explain(query).source.window == "PARTITION BY k ROWS 2"
    assert soup.explain(query).source.window_kind == "sliding"
    assert soup.explain(query).copies == "again"
    assert [part.window_kind for part in soup.invoke(query).completeness.sources] == ["sliding"]


def test_no_other_window_replaces_it() -> None:
    soup = _soup(KEYS)
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 2]")
    with pytest.raises(InvalidInput, match=r"\[PARTITION BY k ROWS 2\], which BEGIN and END cannot replace") as raised:
        soup.invoke(query, window="BEGIN (NOW - 1 ROWS)")
    assert raised.value.reason == "WINDOW_PER_KEY"
    join = soup.register("SELECT a.v FROM s [PARTITION BY k ROWS 1] a JOIN s [UNBOUNDED] b ON a.v = b.v")
    assert _values(soup, join, window={"b": "BEGIN (NOW - 1 ROWS)"}) == [7]
    with pytest.raises(InvalidInput):
        soup.invoke(join, window={"A": "BEGIN (NOW - 1 ROWS)"})


def test_what_is_told_of_a_tuple_is_about_its_condition() -> None:
    soup = _soup(KEYS)
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 1] WHERE v < 6")
    assert [soup.matches("s", number) == [query] for number in range(7)] == [True] * 5 + [False] * 2
    assert soup.results("s", [query]).of(query).to01() == "1111100"
    assert is_selection(soup.engine.snapshot().query(query, soup.tenant).query.plan)


def test_why_says_whether_a_tuple_is_among_the_last_of_its_key() -> None:
    soup = _soup(KEYS)
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 2]")
    steps = [next(step for step in soup.why(query, number).steps if step.kind == "window") for number in range(7)]
    assert [step.passed for step in steps] == [False, *[True] * 6]
    assert steps[0].text == "row_number() OVER (PARTITION BY k ORDER BY _id DESC) <= 2"
    assert steps[0].values == (("_id", "0"), ("window", "PARTITION BY k ROWS 2"))
    assert [bool(soup.why(query, number).kept_out) for number in range(7)] == [True, *[False] * 6]


def test_only_a_tuple_in_the_window_is_a_partner() -> None:
    soup = _soup(KEYS)
    soup.execute("CREATE STREAM r (k BIGINT, v BIGINT)")
    soup.push("r", pa.table({"k": [0, 1], "v": [1, 5]}))
    query = soup.register("SELECT s.v FROM r JOIN s [PARTITION BY k ROWS 1] ON r.v = s.v")
    assert _values(soup, query) == [5]
    out, inside = soup.why(query, 0, source="r"), soup.why(query, 1, source="r")
    assert out.kept_out is not None and out.kept_out.kind == "partner"
    assert inside.kept_out is None and ("s", 4) in [pair for step in inside.steps for pair in step.partners]


def _invoked(soup: LocalPSoup, query: int, budget: ReadBudget, **config: int) -> pa.Table:
    snapshot = replace(soup.engine.snapshot(), config=replace(soup.engine.config, **config))
    return invoke(snapshot, query, tenant=soup.tenant, now=soup.clock.now(), budget=budget).to_table()


STATEMENTS = (
    "SELECT v FROM s [PARTITION BY k ROWS 1]",
    "SELECT count(*) FROM s [PARTITION BY k ROWS 1]",
    "SELECT a.v FROM s [PARTITION BY k ROWS 1] a JOIN s b ON a.v = b.v",
)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_budgets_refuse_by_name_and_memory_returns(sql: str) -> None:
    soup = _soup(list(range(1_000)))
    query = soup.register(sql)
    for limits, setting, budget in (
        ({"group_keys": 999}, "group_keys", ReadBudget()),
        ({}, "sort_mib", ReadBudget(sort_bytes=10_000)),
    ):
        with pytest.raises(ResourceExhausted, match=setting) as refused:
            _invoked(soup, query, budget, **limits)
        assert refused.value.reason == "GROUP_BUDGET"
        assert (budget.held, budget.grouped, budget.joined) == (0, 0, 0)
    budget = ReadBudget()
    assert _invoked(soup, query, budget, group_keys=1_000).num_rows in (1, 1_000)
    assert budget.grouped == 0


def test_texts_of_a_megabyte_are_keys_within_the_budget() -> None:
    large = [letter * (1 << 20) for letter in "abcab"]
    soup = _soup(large, "TEXT")
    query = soup.register("SELECT v FROM s [PARTITION BY k ROWS 1]")
    assert _values(soup, query) == [3, 4, 5]
    budget = ReadBudget(sort_bytes=2 << 20)
    with pytest.raises(ResourceExhausted, match="sort_mib"):
        _invoked(soup, query, budget)
    assert budget.grouped == 0
    assert "an invocation is refused" not in " ".join(soup.explain(query).lines())


COPIED = (
    "SELECT a, b FROM s [PARTITION BY a ROWS 2 WHERE b < 40] WHERE a > 1 OR a IS NULL",
    "SELECT a, b FROM s [ROWS 9 WHERE b < 40]",
    "SELECT a, b FROM s [PARTITION BY a ROWS 3] WHERE b < 30",
    "SELECT a, b FROM s [PARTITION BY a ROWS 2] WHERE b < 50 ORDER BY b DESC, a LIMIT 7",
    "SELECT b, count(*) FROM s [PARTITION BY a ROWS 4] WHERE b < 90 GROUP BY b",
    "SELECT r.a, t.b FROM s [PARTITION BY a ROWS 2] AS r, s [PARTITION BY b ROWS 1] AS t WHERE r.a = t.a AND r.b < 50",
)


@pytest.mark.parametrize("seed", swept(range(6), fast=1))
@pytest.mark.seeded("a copy is taken as unchanged if no new tuple satisfies WHERE")
@in_parts(3)
def test_copies_hold_the_answer_as_tuples_come(seed: int, part: slice) -> None:
    draw, met = random.Random(seed), Counter[str]()
    soup = LocalPSoup(SMALL, clock := VirtualClock(1_700_000_000 * SECOND))
    soup.execute("CREATE STREAM s (a BIGINT, b BIGINT)")
    clients = [PositionClient(soup, soup.register(sql)) for sql in COPIED[part]]
    for _ in range(60):
        rows = draw.randint(1, 6)
        clock.advance(seconds=draw.randint(0, 2))
        keys = [draw.choice([None, *range(6)]) for _ in range(rows)]
        soup.push("s", pa.table({"a": pa.array(keys, pa.int64()), "b": [draw.randint(0, 99) for _ in keys]}))
        if draw.random() < 0.2:
            soup.maintain()
        for client in clients:
            client.ask(10_000)
            assert client.rows == answer(client)
            met["rows"] += len(client.rows)
    assert met["rows"] > 100
