"""The answers of many queries as one table: what single invocations give, whatever is covered, with no step a query."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from psoup.answer import table as table_module
from psoup.answer import table_rows
from psoup.answer.invoke import invoke
from psoup.answer.table import Table, invoke_table
from psoup.clock import VirtualClock
from psoup.config import EngineConfig
from psoup.errors import InvalidInput, PSoupError, ResourceExhausted
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT, SECOND
from psoup.plan.sides import side_id
from psoup.published.snapshot import ChunkEntry, Snapshot
from psoup.reading import ReadBudget, ReadEnded
from psoup.results.sets import evaluated

SMALL = EngineConfig(chunk_rows=64, list_limit=4, columnar_queries=8)
Values = Callable[[np.random.Generator, int], dict[str, object]]
WINDOWS = ("", " BEGIN (NOW - 20 SECONDS)", " BEGIN (NOW - 150 SECONDS) END (NOW - 33 SECONDS)", " BEGIN (START)")
BLOCKS: tuple[tuple[str, Values], ...] = (
    ("k = ?", lambda rng, n: {"p": rng.integers(0, 40, n)}),
    ("k = ? AND v > ?", lambda rng, n: {"p": rng.integers(0, 9, n), "q": rng.random(n)}),
    ("v > ?", lambda rng, n: {"p": rng.random(n)}),
    ("CAST(t AS BIGINT) > ?", lambda rng, n: {"p": pa.array([None, *(rng.permutation(80)[1:n] - 9).tolist()])}),
)
WHERES = ("v > 0.3", "k = 3", "k < 30 OR v > 0.9", "t = 'x'", "CAST(t AS BIGINT) > 5 AND v > 0.5", "1 = 0")


def rows(rng: np.random.Generator, start: int, stop: int) -> pa.Table:
    """A tuple a second."""
    texts = rng.choice(["x", "1", "7", "a long text", ""], stop - start).tolist()
    return pa.table(
        {
            "at": pa.array(np.arange(start, stop) * SECOND, pa.timestamp("us", "UTC")),
            "k": rng.integers(0, 40, stop - start),
            "v": pa.array(rng.random(stop - start), mask=rng.random(stop - start) < 0.1),
            "t": pa.array(texts, mask=rng.random(stop - start) < 0.1),
        }
    )


def lived(seed: int, show: str = "v, t", having: str = "") -> tuple[LocalPSoup, list[int]]:
    """An engine with chunks in all states, and queries of all kinds, some of which are gone; all show the same."""
    rng = np.random.default_rng(seed)
    soup = LocalPSoup(SMALL, VirtualClock(0))
    soup.execute("CREATE STREAM s (at TIMESTAMP NOT NULL, k BIGINT, v DOUBLE, t TEXT) TIMESTAMP BY at")
    queries: list[int] = []

    def register(where: str, values: Values) -> None:
        condition = having if rng.random() < 0.5 else ""
        select = f"SELECT {show} FROM s WHERE {where}{condition}{WINDOWS[int(rng.integers(4))]}"
        queries.extend(soup.register_many(select, pa.table(values(rng, int(rng.integers(9, 40))))))
        for where in rng.choice(WHERES, 2).tolist():
            end = rng.choice(["", " GROUP BY k, v"] if having else ["", " LIMIT 3", " ORDER BY v DESC, t LIMIT 2"])
            select = f"SELECT {show} FROM s WHERE {where}"
            queries.append(soup.register(f"{select}{end if end else WINDOWS[int(rng.integers(4))]}"))
        queries.append(soup.register(f"SELECT DISTINCT {show} FROM s{WINDOWS[int(rng.integers(1, 3))]}"))
        queries.append(soup.register(f"SELECT {show} FROM s{WINDOWS[int(rng.integers(4))]}"))

    for number, start in enumerate(range(0, 300, 75)):
        register(*BLOCKS[(seed + number) % len(BLOCKS)])
        soup.push("s", rows(rng, start, start + 75))
        if rng.random() < 0.5:
            soup.maintain()
    if not having:
        join = "SELECT a.v, b.t FROM s a, s b WHERE a.k = b.k AND a.v > 0.8 BEGIN (NOW - 9 SECONDS)"
        queries.append(soup.register(join))
    gone = rng.choice(queries, len(queries) // 5, replace=False)
    soup.unregister_many([int(query_id) for query_id in gone])
    if seed % 2:
        soup.maintain()
    return soup, queries


def given_up(snapshot: Snapshot, rng: np.random.Generator) -> Snapshot:
    """The snapshot without the results of some closed chunks; others have exceptions for some clauses."""
    (view,) = snapshot.by_id.values()
    clauses = np.array([sqc_id for sqc_id, _ in snapshot.clauses.items()])

    def changed(entry: ChunkEntry) -> ChunkEntry:
        results, chance = entry.results, rng.random()
        if not results.closed or results.open is not None or chance < 0.3:
            return entry
        if chance < 0.7:
            return replace(entry, results=results.give_up())
        out = rng.choice(clauses[evaluated(results, clauses)], 5)
        return replace(entry, results=replace(results, gaps=results.gaps.joined(out, int(rng.integers(64)))))

    left = replace(view, chunks=tuple(map(changed, view.chunks)))
    return replace(snapshot, by_id={view.stream_id: left}, streams={(DEFAULT_TENANT, "s"): left})


def check_as_single(snapshot: Snapshot, table: Table, whole: pa.Table, ids: Sequence[int], as_of: int | None) -> None:
    """Check the rows, errors and failures of a table against an invocation of each query."""
    failed = {place: part.error for part in table.failures() for place in part.places.tolist()}
    places = whole.column("_query").to_numpy()
    assert (np.diff(places) >= 0).all()
    errors = 0
    for place, query_id in enumerate(ids):
        mine = whole.filter(pc.equal(whole["_query"], place)).drop(["_query"])
        try:
            answer = invoke(snapshot, query_id, tenant=DEFAULT_TENANT, now=0, as_of=as_of)
        except PSoupError as problem:
            assert (type(failed.pop(place)), mine.num_rows) == (type(problem), 0)
            continue
        wanted = answer.to_table()
        assert place not in failed
        assert mine.combine_chunks().equals(wanted.combine_chunks()), (place, query_id, answer.record.query.text)
        errors += answer.errors
        (group,) = [own for own in table.groups if any(place in of for of in own.places)]
        assert group.told == answer.completeness._replace(errors=0)
    assert sum(group.errors for group in table.groups) == errors
    assert not failed


AGGREGATES = (
    ("count(*) AS n", " HAVING count(*) > 2"),
    ("count(*) AS n, sum(v) AS s, max(v) AS most, avg(k) AS mean", " HAVING max(v) > 0.9"),
    ("first(t) AS f, last(v) AS l, min(t) AS least, arg_max(t, v) AS of, sum(k) / count(*) AS q", " HAVING NULL"),
    ("sum(CAST(t AS BIGINT)) AS s, count(v) FILTER (WHERE 1 / (k - 3) > 0) AS n", " HAVING sum(k) % 2 = 0"),
    ("any_value(v) AS x, count(DISTINCT k) AS d, stddev(v) AS e", " HAVING count(v) > 1"),
)


@pytest.mark.parametrize(("seed", "shown"), [*((seed, None) for seed in range(6)), *enumerate(AGGREGATES)])
def test_a_table_is_the_single_answers(
    seed: int, shown: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any queries in any order, some twice, some gone; as of any time; in pieces of any size."""
    rng = np.random.default_rng(1_000 + seed)
    soup, queries = lived(seed, *(shown or ()))
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
        table = invoke_table(snapshot, np.array(ids), tenant=DEFAULT_TENANT, now=0, as_of=as_of)
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
            table = invoke_table(snapshot, np.array(some), tenant=DEFAULT_TENANT, now=0)
            check_as_single(snapshot, table, table.to_table(), some, None)
            assert sum(group.errors for group in table.groups) > 840


def test_both_edges_at_every_tuple() -> None:
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
    for second in (1, 2, *range(60, 69), 100, *range(125, 132), 148, 149):
        for ids in blocks:
            table = invoke_table(snapshot, np.array(ids), tenant=DEFAULT_TENANT, now=0, as_of=second * SECOND)
            whole = table.to_table()
            for place in (0, 7, 20, 39):
                mine = whole.filter(pc.equal(whole["_query"], place)).drop(["_query"]).combine_chunks()
                answer = invoke(snapshot, ids[place], tenant=DEFAULT_TENANT, now=0, as_of=second * SECOND)
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
    soup = LocalPSoup(SMALL)
    soup.execute("CREATE STREAM s (a BIGINT)")
    ids = soup.register_many("SELECT a FROM s WHERE a = ?", pa.table({"a": range(1_000)}))
    soup.push("s", pa.table({"a": [3, 3, 998]}))
    asked = np.arange(2_000) + ids[0]
    table = soup.invoke_table(asked)
    assert table.to_table().to_pydict() == {"_query": [3, 3, 998], "a": [3, 3, 998]}
    (failed,) = table.failures()
    assert failed.error.reason == "UNKNOWN_QUERY"
    assert np.array_equal(failed.places, np.arange(1_000, 2_000))
    none = soup.invoke_table(asked[1_000:])
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
    counts = soup.register_many("SELECT count(*) AS n, sum(v) AS s FROM s WHERE a = ?", pa.table({"a": range(10_000)}))
    soup.push("s", pa.table({"a": range(100_000), "v": np.ones(100_000)}))  # the chunk that they met together is closed

    for some, each in ((first, 2), (later, 2), (counts, 1)):
        calls(soup, some, each)  # kernels are loaded
        few, many = calls(soup, some[:200], each), calls(soup, some, each)
        assert many <= few + 60, (few, many)


def calls(soup: LocalPSoup, known: Sequence[int], rows_each: int) -> int:
    """How many functions a call for these queries, and as many that are unknown, calls."""
    asked = np.concatenate([known, np.arange(len(known)) + 10**6])
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        rows = sum(batch.num_rows for batch in soup.invoke_table(asked).batches())
    finally:
        sys.setprofile(None)
    assert rows == rows_each * len(known)
    return count


@pytest.mark.parametrize("end", ["", " LIMIT 1"])
def test_a_plan_of_each_query_takes_a_fixed_number_of_steps(end: str) -> None:
    """Of queries that are sets with others, and of those that are answered by themselves: three times as many queries
    take three times as many."""
    soup = LocalPSoup()
    soup.execute("CREATE STREAM s (a BIGINT)")
    soup.push("s", pa.table({"a": range(1_800)}))
    ids = list[int]()
    for n in range(0, 1_800, 3):
        select, values = f"SELECT a + {n} AS a FROM s WHERE a = ?{end}", pa.table({"a": [n, n + 1, n + 2]})
        ids += soup.register_many(select, values)
    few, many = calls(soup, ids[:600], 1), calls(soup, ids, 1)
    assert many < 1.05 * 3 * few, (few, many)
