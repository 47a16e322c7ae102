"""The answers of many queries as one table: what single invocations give, whatever is covered, with no step a query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from psoup.answer import table as table_module
from psoup.answer import table_rows
from psoup.answer.invoke import invoke
from psoup.answer.table import invoke_table
from psoup.errors import InvalidInput, ResourceExhausted
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT, SECOND
from psoup.plan.sides import side_id
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget, ReadEnded
from psoup_testing.oracles.questions import again
from psoup_testing.oracles.tables import PLAIN, SMALL, Form, calls, check_as_single, given_up, lived, rows
from psoup_testing.suite.sweeps import in_parts, swept

AGGREGATES = (
    ("count(*) AS n", " HAVING count(*) > 2"),
    ("count(*) AS n, sum(v) AS s, max(v) AS most, avg(k) AS mean", " HAVING max(v) > 0.9"),
    ("first(t) AS f, last(v) AS l, min(t) AS least, arg_max(t, v) AS of, sum(k) / count(*) AS q", " HAVING NULL"),
    ("sum(CAST(t AS BIGINT)) AS s, count(v) FILTER (WHERE 1 / (k - 3) > 0) AS n", " HAVING sum(k) % 2 = 0"),
    ("any_value(v) AS x, count(DISTINCT k) AS d, stddev(v) AS e", " HAVING count(v) > 1"),
)
RANKED = (
    ("k, count(*) AS n", " GROUP BY k", (" ORDER BY n DESC LIMIT 2", " ORDER BY n, k DESC LIMIT 3 OFFSET 1")),
    ("t, sum(v) AS s, max(k) AS most", " GROUP BY t", (" HAVING sum(v) > 0.5", " ORDER BY most DESC", " LIMIT 1")),
    (
        "k % 3 AS m, t, avg(v) AS a, first(k) AS f, count(v) FILTER (WHERE 1 / (k - 3) > 0) AS n",
        " GROUP BY m, t",
        (" ORDER BY CAST(t AS BIGINT) DESC NULLS LAST, a LIMIT 4", " HAVING 9 / (count(*) - 2) > 1", ""),
    ),
    ("v > 0.5 AS h, arg_max(t, v) AS w", " GROUP BY h, CAST(t AS BIGINT)", ("", " ORDER BY count(*) LIMIT 2")),
    ("DISTINCT k % 2 AS m", " GROUP BY k", (" HAVING count(*) > 1", " ORDER BY m", " LIMIT 1 OFFSET 1")),
    ("v, stddev(k) AS d", " GROUP BY v", (" LIMIT 3", "")),
    ("v, t", "", (" ORDER BY v DESC, t LIMIT 2", " LIMIT 3 OFFSET 1", " ORDER BY CAST(t AS BIGINT), k LIMIT 3")),
    ("DISTINCT t, k % 2 AS m", "", ("", " ORDER BY t DESC NULLS FIRST", " LIMIT 2")),
)
LISTED = (
    ("median(v) AS m, quantile_disc(t, 0.3) AS q, count(*) AS n", " HAVING median(v) > 0.4"),
    ("count(DISTINCT t) FILTER (WHERE 1 / (k - 3) > 0) AS c, sum(DISTINCT k) AS s", " HAVING count(DISTINCT t) > 1"),
    ("stddev_pop(v) AS s, variance(CAST(t AS BIGINT)) AS e, last(v) AS l", " ORDER BY s LIMIT 1"),
    ("approx_count_distinct(k) AS a, approx_quantile(v, 0.5) AS q, min(DISTINCT t) AS t", " LIMIT 0"),
)
FORMS = [
    *[PLAIN] * 6,
    *[Form(show, ends=("", end), alone=("",)) for show, end in AGGREGATES],
    *[Form(show, group, ends, ends) for show, group, ends in RANKED],
    *[Form(show, ends=("", end), alone=("",)) for show, end in LISTED],
    Form("k % 3 AS m, count(DISTINCT t) AS d, median(v) AS q", " GROUP BY m", ("", " ORDER BY d DESC LIMIT 2"), ("",)),
]


@pytest.mark.seeded("queries of a block that are gone are answered")
@pytest.mark.parametrize(("seed", "form"), swept(enumerate(FORMS), fast=(7,)))
def test_a_table_is_the_single_answers(seed: int, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any queries in any order, some twice, some gone; as of any time; in pieces of any size."""
    rng = np.random.default_rng(1_000 + seed)
    soup, queries = lived(seed, form)
    ids = rng.permutation([*queries, *rng.choice(queries, 9).tolist(), -1, 10**9, side_id(queries[-1], 0)]).tolist()
    ids = [query_id for query_id in ids if query_id >= 0]
    snapshot = soup.engine.snapshot()
    if seed % 2 == 0:
        soup.maintain()  # sealing writes matches of runs to rows that the snapshot shares
    if seed % 3:
        snapshot = given_up(snapshot, rng)
    monkeypatch.setattr(table_module, "_PAIRS", int(rng.choice([300, 1 << 20])))
    monkeypatch.setattr(table_module, "_FEW", int(rng.choice([1, 8])))
    for as_of in (None, int(rng.integers(0, 299)) * SECOND):
        table = again(invoke_table, snapshot, np.array(ids), tenant=DEFAULT_TENANT, now=0, as_of=as_of)
        batches = list(table.batches(int(rng.choice([20, 65_536]))))
        whole = pa.Table.from_batches(batches, table.schema)
        check_as_single(snapshot, table, whole, ids, as_of)


def test_errors_are_counted_for_each_query() -> None:
    """Of conditions that are one expression, and of others; of what was evaluated, and of what the reader evaluates."""
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (t TEXT, k BIGINT)")
    values = pa.table({"p": range(20), "q": range(20)})
    ids = [
        *soup.register_many("SELECT t FROM s WHERE CAST(t AS BIGINT) > ?", values.select(["p"])),
        *soup.register_many("SELECT t FROM s WHERE CAST(t AS BIGINT) > ? AND k = ?", values),
        *soup.register_many("SELECT t FROM s WHERE CAST(t AS BIGINT) > ? OR k = ?", values),
    ]
    twice = pa.table({"p": [*range(20), *range(20)]})
    counts = soup.register_many("SELECT count(*) AS n FROM s WHERE CAST(t AS BIGINT) > ?", twice)
    soup.push("s", pa.table({"t": ["x", "7", "9", None] * 40, "k": [i % 5 for i in range(160)]}))
    soup.maintain()
    whole = soup.engine.snapshot()
    for snapshot in (whole, given_up(whole, np.random.default_rng(5))):
        for some in (ids, counts):
            table = again(invoke_table, snapshot, np.array(some), tenant=DEFAULT_TENANT, now=0)
            check_as_single(snapshot, table, table.to_table(), some, None)
            assert sum(group.errors for group in table.groups) > 840


@in_parts(3)
def test_both_edges_at_every_tuple(part: slice) -> None:
    """Of a window in one chunk, in two, and up to the end of one; sealed and open."""
    soup = LocalPSoup(SMALL, VirtualClock(0))
    soup.execute("CREATE STREAM s (at TIMESTAMP NOT NULL, k BIGINT, v DOUBLE, t TEXT) TIMESTAMP BY at")
    values = pa.table({"p": range(40)})
    blocks = [
        soup.register_many(f"SELECT {show} FROM s WHERE k > ? BEGIN (NOW - {n} SECONDS)", values)
        for show in ("v, t", "count(*) AS n", "sum(k) AS n")
        for n in (3, 64)
    ]
    soup.push("s", rows(np.random.default_rng(3), 0, 150))
    soup.maintain()
    snapshot = soup.engine.snapshot()
    for second in [1, 2, *range(60, 69), 100, *range(125, 132), 148, 149][part]:
        for ids in blocks:
            table = again(invoke_table, snapshot, np.array(ids), tenant=DEFAULT_TENANT, now=0, as_of=second * SECOND)
            whole = table.to_table()
            for place in (0, 7, 20, 39):
                mine = whole.filter(pc.equal(whole["_query"], place)).drop(["_query"]).combine_chunks()
                answer = again(invoke, snapshot, ids[place], tenant=DEFAULT_TENANT, now=0, as_of=second * SECOND)
                assert mine.equals(answer.to_table().combine_chunks()), (second, place)


def test_columns_that_differ_are_refused_by_name() -> None:
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (a BIGINT, b DOUBLE)")
    ids = [soup.register(f"SELECT {what} FROM s") for what in ("a", "a AS a", "b", "b AS a", "a, b")]
    assert soup.invoke_table(ids[:2]).schema.names == ["_query", "a"]
    for other in ids[2:]:
        with pytest.raises(InvalidInput, match=r"different columns, \(a BIGINT\) and") as refused:
            soup.invoke_table([10**6, ids[1], ids[0], other])
        assert refused.value.reason == "MIXED_COLUMNS"
        assert refused.value.facts == {"first": str(ids[1]), "second": str(other)}


def test_unknown_queries_are_failures_by_place() -> None:
    """Half of 100,000 queries are not there."""
    soup, known = LocalPSoup(SMALL), 50_000
    soup.execute("CREATE STREAM s (a BIGINT)")
    ids = soup.register_many("SELECT a FROM s WHERE a = ?", pa.table({"a": range(known)}))
    soup.push("s", pa.table({"a": [3, 3, 998]}))
    asked = np.arange(2 * known) + ids[0]
    table = soup.invoke_table(asked)
    assert table.to_table().to_pydict() == {"_query": [3, 3, 998], "a": [3, 3, 998]}
    (failed,) = table.failures()
    assert failed.error.reason == "UNKNOWN_QUERY"
    assert np.array_equal(failed.places, np.arange(known, 2 * known))
    none = soup.invoke_table(asked[known:])
    assert (none.schema.names, none.to_table().num_rows, none.groups) == (["_query"], 0, [])


def test_many_queries_of_one_clause_go_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows they have is known before any is made."""
    monkeypatch.setattr(table_module, "_PAIRS", 500)
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (a BIGINT)")
    ids = soup.register_many("SELECT a FROM s WHERE a > ?", pa.table({"p": [7] * 90}))
    soup.push("s", pa.table({"a": range(100)}))
    whole = soup.invoke_table(ids).to_table()
    assert whole["_query"].to_pylist() == [place for place in range(90) for _ in range(92)]
    assert whole["a"].to_pylist() == 90 * list(range(8, 100))


class _Full:
    """Bytes of all reads, of which none are left."""

    limit = 0

    def take(self, size: int) -> bool:
        return False

    def give_back(self, size: int) -> None:
        pass


def test_a_table_ends_where_its_budget_does() -> None:
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (a BIGINT)")
    ids = np.array(soup.register_many("SELECT a FROM s WHERE a > ?", pa.table({"p": range(90)})))
    soup.push("s", pa.table({"a": range(200)}))
    snapshot = soup.engine.snapshot()
    with pytest.raises(ResourceExhausted) as refused:
        invoke_table(snapshot, ids, tenant=DEFAULT_TENANT, now=0, budget=ReadBudget(shared=_Full())).to_table()
    assert refused.value.reason == "SORTS_BUDGET"

    def left() -> None:
        raise ReadEnded

    with pytest.raises(ReadEnded):
        invoke_table(snapshot, ids, tenant=DEFAULT_TENANT, now=0, budget=ReadBudget(left)).to_table()


def test_windows_that_are_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "MOST_GROUPS", 3)
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (a BIGINT)")
    ids = [soup.register(f"SELECT a FROM s BEGIN (NOW - {n} SECONDS)") for n in range(1, 5)]
    assert len(soup.invoke_table([*ids[:3], ids[0]]).groups) == 3
    with pytest.raises(InvalidInput) as refused:
        soup.invoke_table(ids)
    assert refused.value.reason == "TOO_MANY_WINDOWS"
    assert len(soup.invoke_table(ids, window="BEGIN (NOW - 9 SECONDS)").groups) == 1


def test_no_step_for_a_query() -> None:
    """As many calls of Python functions for 20,000 queries as for 200; half are unknown, some clauses are shared."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT, v DOUBLE)")
    first = soup.register_many("SELECT v FROM s WHERE a = ?", pa.table({"a": range(10_000)}))
    soup.register_many("SELECT a FROM s WHERE a = ?", pa.table({"a": range(0, 10_000, 7)}))
    soup.push("s", pa.table({"a": range(20_000), "v": np.ones(20_000)}))
    later = soup.register_many("SELECT v FROM s WHERE a = ? AND v > 0", pa.table({"a": range(10_000)}))
    soup.push("s", pa.table({"a": range(100_000), "v": np.ones(100_000)}))
    soup.maintain()  # the last are many for the chunk that was open: it was closed before they met it

    for some, each in ((first, 2), (later, 2)):
        for asked in 2 * (some, some[:200]):  # kernels are loaded, and what whole chunks come to is kept
            calls(soup, asked, each)
        few, many = calls(soup, some[:200], each), calls(soup, some, each)
        assert many <= few + 60, (few, many)


@pytest.mark.parametrize("end", swept(["", " LIMIT 1"], fast=1))
def test_a_plan_of_each_query_takes_a_fixed_number_of_steps(end: str) -> None:
    """Of queries that are sets with others, and of those that are answered by themselves: three times as many queries
    take three times as many."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT)")
    soup.push("s", pa.table({"a": range(900)}))
    ids = list[int]()
    for n in range(0, 360, 3):
        select, values = f"SELECT a + {n} AS a FROM s WHERE a = ?{end}", pa.table({"a": [n, n + 1, n + 2]})
        ids += soup.register_many(select, values)
    few, many = calls(soup, ids[:120], 1), calls(soup, ids, 1)
    assert many < 1.05 * 3 * few, (few, many)


@pytest.mark.seeded("a query of a table may list any number of values")
@pytest.mark.parametrize(
    ("shown", "limits", "reason"),
    [
        ("median(k) AS m", {"sort_rows": 40}, "SORT_BUDGET"),
        ("count(DISTINCT k) AS m", {"group_keys": 40}, "GROUP_BUDGET"),
    ],
)
def test_a_query_with_more_values_than_may_be_listed_is_refused_alone(
    shown: str, limits: dict[str, int], reason: str
) -> None:
    soup = LocalPSoup(replace(SMALL, **limits))
    soup.execute("CREATE STREAM s (a BIGINT, k BIGINT)")
    ids = soup.register_many(f"SELECT {shown} FROM s WHERE a = ?", pa.table({"a": range(30)}))
    soup.push("s", pa.table({"a": [*range(20), *[7] * 60], "k": range(80)}))
    table = again(soup.invoke_table, ids)
    rows = table.to_table()
    assert rows["_query"].to_pylist() == [place for place in range(30) if place != 7]
    one = 1 if "count" in shown else 3
    assert rows["m"][3].as_py() == one
    (failed,) = table.failures()
    assert (failed.error.reason, failed.places.tolist()) == (reason, [7])


def test_a_table_that_is_read_twice_counts_failures_and_errors_once() -> None:
    soup = LocalPSoup(replace(SMALL, sort_rows=40))
    soup.execute("CREATE STREAM s (a BIGINT, k BIGINT, t TEXT)")
    soup.push("s", pa.table({"a": [*range(20), *[7] * 60], "k": range(80), "t": ["x", "1"] * 40}))
    values = pa.table({"a": range(30)})
    for shown in ("median(k) AS m", "sum(CAST(t AS BIGINT)) AS m", "CAST(t AS BIGINT) AS m"):
        table = soup.invoke_table(soup.register_many(f"SELECT {shown} FROM s WHERE a = ?", values))
        told = []
        for _ in range(3):
            table.to_table()
            failures = [(failed.error.reason, failed.places.tolist()) for failed in table.failures()]
            told.append((failures, [(group.errors, group.select_errors) for group in table.groups]))
        assert told[0] == told[1] == told[2], shown
        assert told[0] != ([], [(0, 0)]), shown
