"""Answers by HOP: edges of panes, times before 1970, NULL, the order of rows in a bucket, budgets, folds, EXPLAIN."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.repeated_rows import repeated
from psoup.execution.ways import BUCKETS
from psoup.expressions.civil import FIRST_MICRO
from psoup.local import LocalPSoup
from psoup.model import TIMESTAMP
from psoup.plan.nodes import Hop, walk
from psoup.values.columns import Column
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.hops import ORIGIN, HopKey
from psoup_testing.oracles.questions import again
from psoup_testing.oracles.ways import only, recorded
from psoup_testing.suite.sweeps import swept

MINUTE = 60_000_000
STREAM = "CREATE STREAM t (at TIMESTAMP, k TEXT, n BIGINT, x DOUBLE)"
WAYS = ("combined_panes", "repeated_rows")


def _soup(rows: Sequence[tuple[int | None, str | None, int | None, float | None]], **config: Any) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(**{"chunk_rows": 64, "shape": EAGER, **config}), VirtualClock(100))
    soup.execute(STREAM)
    _push(soup, rows)
    return soup


def _push(soup: LocalPSoup, rows: Sequence[tuple[Any, ...]]) -> None:
    at, k, n, x = zip(*rows, strict=True)
    times = pa.array(at, pa.int64()).cast(pa.timestamp("us"))
    soup.push("t", pa.table({"at": times, "k": pa.array(k, pa.string()), "n": pa.array(n), "x": pa.array(x)}))


def _plain(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [
        column.cast(pa.timestamp("us")).cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return list(zip(*[column.to_pylist() for column in columns], strict=True))


def _asked(soup: LocalPSoup, select: str, hop: HopKey, more: str = "") -> list[tuple[Any, ...]]:
    sql = f"SELECT {hop.sql('at')} AS w, {select} FROM t GROUP BY w{more}"
    return _plain(again(soup.ask, sql).to_table())


@pytest.fixture(params=WAYS)
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way of the step, the only one."""
    only(monkeypatch, BUCKETS, request.param)
    return str(request.param)


@pytest.mark.parametrize(
    ("hop", "time", "begins"),
    [
        (HopKey(2, 6), 0, [-4, -2, 0]),
        (HopKey(2, 6), 1, [-4, -2, 0]),
        (HopKey(2, 6), 2, [-2, 0, 2]),
        (HopKey(4, 6), 0, [-4, 0]),
        (HopKey(4, 6), 1, [-4, 0]),
        (HopKey(4, 6), 2, [0]),  # past the end of the bucket of -4
        (HopKey(4, 6), 3, [0]),
        (HopKey(4, 6), 4, [0, 4]),
        (HopKey(3, 5), -1, [-3]),
        (HopKey(3, 5), -2, [-6, -3]),
        (HopKey(5, 5), 9, [5]),
    ],
)
@pytest.mark.parametrize("base", swept([ORIGIN, ORIGIN - 24_000_000 * MINUTE], fast=(1,)), ids=["2000", "1954"])
def test_a_tuple_is_in_the_buckets_that_contain_its_time(
    hop: HopKey, time: int, begins: list[int], base: int, each_way: str
) -> None:
    soup, minutes = _soup([(base + time * MINUTE, "a", 1, None)]), HopKey(hop.slide * MINUTE, hop.size * MINUTE)
    assert _asked(soup, "count(*) AS c", minutes) == [(base + begin * MINUTE, 1) for begin in begins]


@pytest.mark.parametrize("edge", [-1, 0, 1])
def test_a_bucket_has_its_first_microsecond_and_not_its_end(edge: int, each_way: str) -> None:
    soup = _soup([(-5 * MINUTE + edge, "a", 1, None)])
    (first, _), *_, (last, _) = rows = _asked(soup, "count(*) AS c", HopKey(MINUTE, 5 * MINUTE))
    assert len(rows) == 5
    assert (first, last) == ((-10 - (edge < 0) + 1) * MINUTE, (-5 - (edge < 0)) * MINUTE)


def test_a_null_time_is_a_bucket_of_its_own(each_way: str) -> None:
    soup = _soup([(None, "a", 1, None), (0, "a", 2, None), (None, "b", 4, None)])
    rows = _asked(soup, "sum(n) AS s", HopKey(MINUTE, 2 * MINUTE))
    assert [(begin, int(total)) for begin, total in rows] == [(-MINUTE, 2), (0, 2), (None, 5)]
    assert _asked(_soup([(None, "a", 1, None)]), "count(*) AS c", HopKey(MINUTE, 2 * MINUTE)) == [(None, 1)]


def test_buckets_that_would_begin_before_the_first_time_are_left_out(each_way: str) -> None:
    hop = HopKey(MINUTE, 5 * MINUTE)
    for time in (FIRST_MICRO + 3 * MINUTE, 2**63 - 2):
        rows = _asked(_soup([(time, "a", 1, None)]), "count(*) AS c", hop)
        assert [begin for begin, _ in rows] == sorted(begin for begin in hop.buckets(time) if begin is not None)
    assert len(_asked(_soup([(FIRST_MICRO + 3 * MINUTE, "a", 1, None)]), "count(*) AS c", hop)) in (3, 4)


def test_a_bucket_may_have_a_thousand_panes(each_way: str) -> None:
    soup = _soup([(0, "a", 1, None), (10**9, "a", 2, None)])
    assert len(_asked(soup, "count(*) AS c", HopKey(1_000_000, 1_000_000_000))) == 2_000


def test_without_tuples_there_is_no_bucket(each_way: str) -> None:
    soup = LocalPSoup(clock=VirtualClock(100))
    soup.execute(STREAM)
    assert _asked(soup, "count(*) AS c", HopKey(MINUTE, 5 * MINUTE)) == []


def _random(rows: int, seed: int) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    times = rng.integers(-90 * MINUTE, 90 * MINUTE, rows)
    kinds = ["a", "b", None, "words of some length"]
    return [
        (
            None if rng.random() < 0.1 else int(time),
            kinds[rng.integers(0, 4)],
            None if rng.random() < 0.1 else int(rng.integers(-9, 9)),
            [0.0, -0.0, 1.5, float("nan"), None][rng.integers(0, 5)],
        )
        for time in times
    ]


ORDERED = {
    "count(*)": len,
    "first(n)": lambda rows: rows[0][2],
    "last(k)": lambda rows: rows[-1][1],
    "string_agg(k, '-')": lambda rows: "-".join(row[1] for row in rows if row[1]) or None,
    "count(DISTINCT n)": lambda rows: len({row[2] for row in rows} - {None}),
    "sum(n) FILTER (WHERE k = 'a')": lambda rows: sum(row[2] for row in some) if (some := _of_a(rows)) else None,
}


def _of_a(rows: list[Any]) -> list[Any]:
    return [row for row in rows if row[1] == "a" and row[2] is not None]


@pytest.mark.parametrize("call", ORDERED)
@pytest.mark.parametrize(
    "hop", swept([HopKey(5 * MINUTE, 20 * MINUTE), HopKey(7 * MINUTE, 30 * MINUTE)], fast=(1,)), ids=["4", "4.3"]
)
def test_the_rows_of_a_bucket_are_in_the_order_of_arrival(call: str, hop: HopKey) -> None:
    rows = _random(300, 7)
    groups = defaultdict[tuple[Any, Any], list[Any]](list)
    for row in rows:
        for begin in hop.buckets(row[0]):
            groups[begin, row[1]].append(row)
    order = sorted(groups, key=lambda key: (key[0] is None, key[0] or 0, key[1] is None, key[1] or ""))
    expected = [(*key, ORDERED[call](groups[key])) for key in order]
    answer = _asked(_soup(rows), f"k, {call} AS v", hop, ", k")
    assert [(*key, int(v) if call.startswith("sum") and v is not None else v) for *key, v in answer] == expected


EXACT = (
    "count(*) AS c, sum(n) AS s, sum(x) AS d, max(n) AS m, bit_xor(n) AS b, approx_count_distinct(n) AS a,"
    " approx_quantile(n, 0.3) AS q"
)


def test_panes_and_repeated_rows_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, hop in enumerate((HopKey(5 * MINUTE, 20 * MINUTE), HopKey(4 * MINUTE, 6 * MINUTE), HopKey(7, 12))):
        soup, answers = _soup(_random(400, number)), list[Any]()
        for way in WAYS:
            with monkeypatch.context() as patch:
                only(patch, BUCKETS, way)
                answers.append(repr(_asked(soup, f"k, {EXACT}", hop, ", k, n % 3")))
        assert answers[0] == answers[1]


def test_a_key_beside_the_hop_may_be_its_pane() -> None:
    soup, hop = _soup([(0, "a", 1, None), (61_000_000, "a", 2, None)]), HopKey(MINUTE, 2 * MINUTE)
    for keys in ("w, m", "m, w"):
        pane = "tumble(at, INTERVAL 1 MINUTE)"
        sql = f"SELECT {hop.sql('at')} AS w, {pane} AS m, count(*) AS c, max({pane}) AS x FROM t GROUP BY {keys}"
        expected = [(w * MINUTE, m * MINUTE, 1, m * MINUTE) for w, m in [(-1, 0), (0, 0), (0, 1), (1, 1)]]
        assert sorted(_plain(soup.ask(sql).to_table())) == expected
        median = sql.replace("count(*)", "median(n) * 0 + count(*)")
        assert sorted(_plain(soup.ask(median).to_table())) == expected


def test_errors_are_counted_once_for_each_tuple(each_way: str) -> None:
    soup = _soup([(0, "a", 0, None), (MINUTE, "b", 0, None), (MINUTE, "b", 2, None)])
    hop = HopKey(MINUTE, 9 * MINUTE)
    answer = soup.ask(f"SELECT {hop.sql('at')} AS w, sum(CAST(k AS BIGINT)) AS s FROM t GROUP BY w")
    assert answer.to_table().num_rows == 10
    assert answer.errors == 3


TIMED = "CREATE STREAM e (at TIMESTAMP, n BIGINT, x DOUBLE) TIMESTAMP BY at LATENESS 5 MINUTES"


@pytest.mark.parametrize(
    ("select", "way"),
    [
        ("count(*), sum(n), avg(x), max(n)", "combined_panes"),
        ("first(n), last(n), arg_max(n, x), min(x)", "combined_panes"),
        ("median(n)", "repeated_rows"),
        ("variance(x)", "repeated_rows"),
        ("count(DISTINCT n)", "repeated_rows"),
    ],
)
@pytest.mark.parametrize("time", ["at", "_time", "at + INTERVAL 1 MINUTE"])
def test_explain_names_the_way_and_it_is_taken(
    select: str, way: str, time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER), VirtualClock(100))
    soup.execute(TIMED)
    minutes = [0, 1, 4, 1, 5]
    at = pa.array([minute * MINUTE for minute in minutes], pa.timestamp("us"))
    soup.push("e", pa.table({"at": at, "n": minutes, "x": [1.0] * 5}))
    query = soup.register(f"SELECT hop({time}, INTERVAL 1 MINUTE, INTERVAL 3 MINUTES) AS w, {select} FROM e GROUP BY w")
    way = "repeated_rows" if "first" in select and "+" in time else way
    assert f"| by {way}" in [line.strip() for line in soup.explain(query).lines()]
    names = recorded(monkeypatch)
    soup.invoke(query).to_table()
    assert way in names


def test_explain_tells_panes_and_buckets() -> None:
    soup = _soup([(0, "a", 1, None)])
    query = soup.register("SELECT hop(at, INTERVAL 7 MINUTES, INTERVAL 1 HOUR) AS w, count(*) AS c FROM t GROUP BY w")
    explained = soup.explain(query)
    (node,) = [node for node in explained.nodes if node.operator == "hop"]
    assert dict(node.figures) == {"panes": 60, "buckets": 9}
    assert {"pane": "1 MINUTE", "slide": "7 MINUTES", "size": "1 HOUR"}.items() <= node.facts.items()
    assert "buckets of 60 panes of 1 MINUTE; a tuple is in 8 or 9 buckets" in node.lines
    spends = {spend.budget: spend.expected for spend in explained.budgets}
    assert spends["group_rows"] == spends["group_keys"] == 9


def test_later_invocations_use_folds_of_panes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folds of whole chunks serve a hop as they serve its tumble."""
    soup = _soup(_random(400, 3))
    hop = "hop(at, INTERVAL 5 MINUTES, INTERVAL 1 HOUR)"
    query = soup.register(f"SELECT {hop} AS w, count(*) AS c, sum(n) AS s FROM t GROUP BY w")
    names = recorded(monkeypatch)
    again(soup.invoke, query)
    assert {"window_folds", "combined_panes"} <= set(names)
    soup.check()


def test_a_window_cuts_a_bucket() -> None:
    soup = _soup([(minute * MINUTE, "a", minute, None) for minute in range(10)])
    hop = HopKey(2 * MINUTE, 4 * MINUTE)
    sql = f"SELECT {hop.sql('at')} AS w, count(*) AS c FROM t GROUP BY w BEGIN (NOW - 3 ROWS)"
    assert _plain(soup.ask(sql).to_table()) == [(4 * MINUTE, 1), (6 * MINUTE, 3), (8 * MINUTE, 2)]


def test_a_hop_over_a_join_a_subselect_and_a_union() -> None:
    soup = _soup([(0, "a", 1, None), (MINUTE, "b", 2, None)])
    soup.execute("CREATE STREAM u (k TEXT, f BIGINT)")
    soup.push("u", pa.table({"k": ["a", "b", "b"], "f": [10, 20, 30]}))
    hop = "hop({}, INTERVAL 1 MINUTE, INTERVAL 2 MINUTES)"
    counts = [(-MINUTE, 10), (0, 60), (MINUTE, 50)]
    joined = f"SELECT {hop.format('t.at')} AS w, sum(f)::BIGINT AS s FROM t JOIN u ON t.k = u.k GROUP BY w"
    assert _plain(soup.ask(joined).to_table()) == counts
    left = joined.replace("JOIN", "LEFT JOIN")
    assert _plain(soup.ask(left).to_table()) == counts
    rows = "(SELECT DISTINCT at, f FROM t JOIN u USING (k)) s"
    inner = f"SELECT {hop.format('s.at')} AS w, sum(f)::BIGINT AS s FROM {rows} GROUP BY w"
    assert _plain(soup.ask(inner).to_table()) == counts
    outer = f"SELECT count(*) AS c, max(s) AS m FROM ({joined}) j"
    assert _plain(soup.ask(outer).to_table()) == [(3, 60)]
    union = f"{joined} UNION ALL {joined} ORDER BY w, s LIMIT 3"
    assert _plain(soup.ask(union).to_table()) == [counts[0], counts[0], counts[1]]


def test_a_hop_over_a_table() -> None:
    soup = LocalPSoup(clock=VirtualClock(100))
    soup.execute("CREATE TABLE v (k TEXT, at TIMESTAMP, n BIGINT, PRIMARY KEY (k))")
    for keys, minutes in ((["a", "b"], [0, 1]), (["a"], [3])):
        at = pa.array([minute * MINUTE for minute in minutes], pa.timestamp("us"))
        soup.push("v", pa.table({"k": keys, "at": at, "n": minutes}))
    sql = "SELECT hop(at, INTERVAL 1 MINUTE, INTERVAL 2 MINUTES) AS w, count(*) AS c, first(k) AS f FROM v GROUP BY w"
    expected = [(0, 1, "b"), (MINUTE, 1, "b"), (2 * MINUTE, 1, "a"), (3 * MINUTE, 1, "a")]
    assert _plain(soup.ask(sql).to_table()) == expected


# Budgets ---------------------------------------------------------------------------------------------------


def test_more_groups_than_the_limit_are_refused_by_name(each_way: str) -> None:
    soup = _soup([(minute * 1_000 * MINUTE, "a", 1, None) for minute in range(20)])
    hop = HopKey(MINUTE, 100 * MINUTE)
    query = soup.register(f"SELECT {hop.sql('at')} AS w, count(*) AS c FROM t GROUP BY w")
    assert soup.invoke(query).to_table().num_rows == 2_000
    for limits, reason in (({"group_keys": 1_999}, "GROUP_BUDGET"), ({"group_rows": 1_999}, "GROUP_BUDGET")):
        with pytest.raises(ResourceExhausted) as refusal:
            _within(soup, query, **limits)
        assert refusal.value.reason == reason


def _within(soup: LocalPSoup, query: int, budget: ReadBudget | None = None, **limits: int) -> pa.Table:
    snapshot = replace(soup.engine.snapshot(), config=replace(soup.engine.config, **limits))
    return invoke(snapshot, query, tenant=soup.tenant, now=soup.clock.now(), budget=budget).lean().to_table()


def test_large_states_are_refused_and_memory_returns(each_way: str) -> None:
    soup = _soup([(minute * MINUTE, "x" * 1_000, minute, None) for minute in range(200)])
    hop = HopKey(MINUTE, 300 * MINUTE)
    query = soup.register(f"SELECT {hop.sql('at')} AS w, k, count(*) AS m FROM t GROUP BY w, k")
    budget = ReadBudget(sort_bytes=200_000)
    with pytest.raises(ResourceExhausted) as refusal:
        _within(soup, query, budget)
    assert refusal.value.reason in ("GROUP_BUDGET", "SORT_BUDGET")
    assert (budget.held, budget.grouped) == (0, 0)
    assert _within(soup, query).num_rows == 499


def test_a_read_ends_while_rows_are_repeated(each_way: str) -> None:
    soup, checks = _soup([(minute * MINUTE, "a", minute, None) for minute in range(1_000)]), [0]

    def ask() -> None:
        checks[0] += 1
        if checks[0] > 20:
            raise ReadEnded

    hop = HopKey(MINUTE, 1_000 * MINUTE)
    query = soup.register(f"SELECT {hop.sql('at')} AS w, count(*) AS c FROM t GROUP BY w")
    with pytest.raises(ReadEnded):
        _within(soup, query, ReadBudget(ask))


def test_rows_and_buckets_of_panes() -> None:
    """The rows come in their order, each with its buckets from the last one down."""
    soup = LocalPSoup()
    soup.execute(STREAM)
    wanted = HopKey(4 * MINUTE, 6 * MINUTE)
    query = soup.register(f"SELECT {wanted.sql('at')} AS w, count(*) AS c FROM t GROUP BY w")
    plan = soup.engine.snapshot().query(query, soup.tenant).query.plan
    (hop,) = [node for _, node in walk(plan) if isinstance(node, Hop)]
    panes = Column(TIMESTAMP, np.array([0, 2, 0, 4]) * MINUTE, np.array([True, True, False, True]))
    rows, begins = repeated(panes, hop)
    assert rows.tolist() == [0, 0, 1, 2, 3, 3]
    assert begins.valid is not None and begins.valid.tolist() == [True, True, True, False, True, True]
    assert (begins.values // MINUTE).tolist() == [0, -4, 0, 0, 4, 0]


def test_hops_of_many_queries_come_as_one_table() -> None:
    soup, hop = _soup(_random(200, 11)), HopKey(5 * MINUTE, 20 * MINUTE)
    select = f"SELECT {hop.sql('at')} AS w, count(*) AS c, median(n) AS m FROM t"
    sql = f"{select} WHERE k = $k GROUP BY w HAVING count(*) > $n"
    queries = list(soup.register_many(sql, [{"k": k, "n": n} for k in ("a", "b", "none") for n in (0, 2)]))
    table = again(soup.invoke_table, queries)
    rows = [row for batch in table.batches() for row in _plain(pa.Table.from_batches([batch]))]
    single = [_plain(again(soup.invoke, query).to_table()) for query in queries]
    assert rows == [(place, *row) for place, answer in enumerate(single) for row in answer]
    assert len(single[0]) > len(single[1]) > len(single[4]) == 0
