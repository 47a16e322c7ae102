"""Costs of queries and content of the memory: compared with answers, counts by hand, and the allocator."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.figures.bill import memory_bill
from psoup.answer.figures.query_costs import QueryCost, query_cost
from psoup.answer.figures.top_queries import ORDERS, Rank, Ranked, top_queries
from psoup.clauses.costs import CostTally
from psoup.config import EngineConfig
from psoup.engine.maintenance.tally import Tallied
from psoup.engine.rooms import Rooms
from psoup.errors import InvalidInput
from psoup.events.commands import CreateStream, Push, Register
from psoup.local import LocalPSoup
from psoup.plan.amounts import Amount, Keeping
from psoup.values.columns import Array
from psoup_testing.suite.sweeps import in_parts

CREATE = "CREATE STREAM s (a BIGINT, b BIGINT)"


def table(start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    return pa.table({"a": numbers % 100, "b": numbers})


def filled(maintained: bool = True) -> tuple[LocalPSoup, dict[str, int]]:
    soup = LocalPSoup(EngineConfig(chunk_rows=64))
    soup.execute(CREATE)
    wheres = {
        "few": "a = 7",
        "half": "a < 50",
        "vain": "a < 60 AND b < -1 AND b > -9",
        "all": "b >= 0",
        "late": "a > 90",
    }
    queries = {
        name: soup.register(f"SELECT b FROM s WHERE {where}") for name, where in wheres.items() if name != "late"
    }
    for start in range(0, 300, 50):
        soup.push("s", table(start, 50))
    queries["late"] = soup.register(f"SELECT b FROM s WHERE {wheres['late']}")
    soup.push("s", table(300, 50))
    if maintained:
        soup.maintain()
    return soup, queries


def costs_of(soup: LocalPSoup, by: str = "cpu", limit: int = 20) -> list[QueryCost]:
    return [cost for _, cost in top_queries(soup.engine.snapshot(), tenant="default", by=by, limit=limit)]


def test_what_others_do_is_in_no_share() -> None:
    soup, queries = filled()
    before = costs_of(soup)
    assert sum(cost.share for cost in before) == pytest.approx(1)
    soup.submit(CreateStream(CREATE, "other"))
    for where in ("a < 60 AND b < -1 AND b > -9", "b >= 0"):
        soup.submit(Register(f"SELECT b FROM s WHERE {where}", tenant="other"))
    soup.submit(Push("s", table(0, 3_000), tenant="other"))
    soup.maintain()
    assert costs_of(soup) == before
    alone = query_cost(soup.engine.snapshot(), queries["all"], tenant="default")
    assert alone in before
    theirs = top_queries(soup.engine.snapshot(), tenant="other")
    assert sum(cost.share for _, cost in theirs) == pytest.approx(1)


@pytest.mark.parametrize("maintained", [False, True])
def test_matched_is_what_an_answer_has_and_candidates_are_no_fewer(maintained: bool) -> None:
    soup, queries = filled(maintained)
    found = {cost.query_id: cost for cost in costs_of(soup)}
    assert found.keys() == set(queries.values())
    for name, query in queries.items():
        cost = found[query]
        assert cost == query_cost(soup.engine.snapshot(), query, tenant="default")
        if name != "late" or maintained:  # else chunks that it has not met yet are not in its counts
            assert cost.matched == soup.invoke(query).to_table().num_rows, name
        if name != "late":
            assert cost.candidates >= cost.matched
            assert cost.tuples == 350
    assert found[queries["late"]].tuples == 50
    assert sum(cost.share for cost in found.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("by", ORDERS)
def test_the_dearest_come_first_and_a_limit_takes_the_first(by: str) -> None:
    soup, _ = filled()
    found = costs_of(soup, by)
    value = {"cpu": "share", "candidates": "candidates", "matched": "matched", "bytes": "bytes"}[by]
    values = [getattr(cost, value) for cost in found]
    assert values == sorted(values, reverse=True)
    assert costs_of(soup, by, 2) == found[:2]
    assert costs_of(soup, by, 2)[0].query_id == found[0].query_id


def test_queries_of_one_clause_share_its_work_and_its_bytes() -> None:
    soup, queries = filled()
    alone = query_cost(soup.engine.snapshot(), queries["half"], tenant="default")
    twin = soup.register("SELECT a, b FROM s WHERE a < 50")
    one, two = (query_cost(soup.engine.snapshot(), query, tenant="default") for query in (queries["half"], twin))
    assert (one.matched, one.candidates) == (two.matched, two.candidates) == (alone.matched, alone.candidates)
    assert one.share == two.share == pytest.approx(alone.share / 2)
    assert one.bytes == pytest.approx(alone.bytes / 2, rel=0.2)
    assert one.query_id in {cost.query_id for cost in costs_of(soup, limit=3)}


def test_matches_of_chunks_that_are_gone_stay_counted() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64))
    soup.execute(CREATE + " RETENTION 64 ROWS")
    query = soup.register("SELECT b FROM s WHERE a < 50")
    for start in range(0, 640, 64):
        soup.push("s", table(start, 64))
        soup.maintain()
    cost = query_cost(soup.engine.snapshot(), query, tenant="default")
    assert cost.matched == int((np.arange(640) % 100 < 50).sum()) > soup.invoke(query).to_table().num_rows


def test_another_order_is_refused() -> None:
    soup, _ = filled()
    with pytest.raises(InvalidInput, match="'age'; take one of cpu, candidates, matched, bytes"):
        costs_of(soup, "age")


def test_the_bill_is_what_the_allocator_says() -> None:
    """Within a third of what Python, NumPy and Arrow have allocated for the engine, most of which is buffers."""
    filled()  # what is made once is there
    gc.collect()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        soup = LocalPSoup(EngineConfig(chunk_rows=8_192))
        soup.execute(CREATE)
        rows = [(k % 97, 20 * k) for k in range(3_000)]
        soup.register_many("SELECT * FROM s WHERE a >= ? AND b < ?", rows)
        for start in range(0, 50_000, 5_000):
            soup.push("s", table(start, 5_000))
        soup.maintain()
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before
    finally:
        tracemalloc.stop()
    found = memory_bill(soup.engine.snapshot())
    assert found.used == pytest.approx(allocated, rel=0.33)
    items = {item.structure: item for item in found.items}
    assert items["tuples"].count == 50_000
    assert items["tuples"].each == pytest.approx(24, rel=0.2)  # two columns and the time
    assert items["query catalog"].count == items["predicate index"].count == 3_000
    assert items["sealed results"].count + items["open results"].count >= 50_000
    assert found.budget == EngineConfig().memory_bytes


def test_what_is_gone_is_reclaimable_until_maintenance_has_taken_it_back() -> None:
    soup, queries = filled()
    soup.unregister(queries["all"])
    items = {item.structure: item for item in memory_bill(soup.engine.snapshot()).items}
    assert items["sealed results"].reclaimable > 0 < items["predicate index"].reclaimable
    soup.maintain()
    items = {item.structure: item for item in memory_bill(soup.engine.snapshot()).items}
    assert items["sealed results"].reclaimable == 0 == items["predicate index"].reclaimable


@pytest.mark.parametrize("maintained", [False, True])
@pytest.mark.parametrize("retention", ["", " RETENTION 200 ROWS"])
def test_no_more_of_the_candidates_matched_than_there_are(maintained: bool, retention: str) -> None:
    """A query that comes in the middle of a chunk, over tuples that all match: only later ones were looked at."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64))
    soup.execute(CREATE + retention)
    soup.push("s", table(0, 150))
    query = soup.register("SELECT b FROM s WHERE b >= 0")
    for start in range(150, 450, 60):
        soup.push("s", table(start, 60))
        if maintained:
            soup.maintain()
        cost = query_cost(soup.engine.snapshot(), query, tenant="default")
        came = start + 60 - 150
        assert (cost.tuples, cost.candidates) == (came, came)
        assert cost.matched_new == came or (retention and cost.matched_new <= came)
        assert cost.selectivity <= 1
        assert cost.matched >= cost.matched_new
        assert soup.explain(query).cost == cost
    text = "\n".join(cost.lines())
    assert "300 of 300 new tuples looked at, 300 matched" in text or retention
    if not retention:
        assert f"{cost.matched - 300} older tuples match besides" in text or not maintained


def test_counts_are_added_up_while_most_queries_leave() -> None:
    """The table of slots gets smaller between the sum and its installation."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64, piece_rows=64), verify="all")
    soup.execute("CREATE STREAM s (x BIGINT) RETENTION 64 ROWS")
    ids = [soup.register(f"SELECT x FROM s WHERE x > {number}") for number in range(90)]
    batch = pa.table({"x": range(80, 144)})
    sums, pushed = None, 1
    while sums is None:
        soup.push("s", batch)
        pushed += 1
        while sums is None and (task := soup.engine.maintenance(everything=True)) is not None:
            result = task.compute()
            if isinstance(result, Tallied) and result.tally.matched:
                sums = result
            else:
                soup.admission.give_back(soup.engine.install(result))
    soup.unregister_many(ids[2:])
    soup.push("s", batch)
    soup.engine.install(sums)
    soup.maintain()
    costs = costs_of(soup, "matched")
    assert [cost.matched for cost in costs] == [pushed * 64, pushed * 64]
    soup.check()


def test_counters_are_read_while_many_clauses_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the index that came meanwhile has slots beyond those that were there."""
    soup, _ = filled()
    counters = soup.engine.snapshot().by_id[1].index.costs
    tally = counters.tally

    def grown(owners: Array) -> CostTally:
        found = tally(owners)
        soup.register_many("SELECT b FROM s WHERE a = ? AND b > ?", [(n % 100, n) for n in range(500)])
        soup.push("s", table(350, 50))
        return found

    monkeypatch.setattr(counters, "tally", grown)
    assert len(costs_of(soup)) == 5


@in_parts(4)
def test_pages_are_the_whole_list_in_order_without_a_query_twice(part: slice) -> None:
    """Over clauses of templates, of queries alone and shared, idle ones, joins and labels; most figures are equal."""
    soup, _ = filled()
    soup.execute("CREATE STREAM t (c BIGINT)")
    rows = pa.table({"1": [n % 100 for n in range(150)], "2": range(150), "of": ["block"] * 150})
    soup.register_many("SELECT b FROM s WHERE a = ? AND b > ?", rows, labels=["of"])
    soup.register_many("SELECT a FROM s WHERE a = ? AND b > ?", [(n % 100, n) for n in range(0, 150, 7)])
    shared = [soup.register("SELECT b FROM s WHERE a < 60", labels={"of": "twins"}) for _ in range(9)]
    joins = [soup.register(f"SELECT s.b FROM s, t WHERE s.b = t.c AND s.a > {n}") for n in (5, 90)]
    never, away = Keeping(Amount.NONE), Keeping(active=False)
    joins.append(soup.register("SELECT s.b FROM s, t WHERE s.b = t.c AND s.a > 7", keeping=never))
    names = pa.table({"1": range(30), "of": ["idle"] * 30})
    soup.register_many("SELECT a FROM s WHERE a + b = ?", names, labels=["of"], keeping=never)
    idle = [
        soup.register("SELECT b FROM s WHERE a > 60", labels={"of": "idle"}, keeping=each) for each in (never, away)
    ]
    soup.push("s", table(350, 100))
    soup.maintain()
    snapshot = soup.engine.snapshot()

    def pages(by: str, size: int, **asked: Any) -> list[Ranked]:
        found, after = list[Ranked](), None
        while page := top_queries(snapshot, tenant="default", by=by, limit=size, after=after, **asked):
            found += page
            after = page[-1].place
        return found

    for by in ORDERS[part]:
        whole = pages(by, 1_000)
        assert len({cost.query_id for _, cost in whole}) == len(whole) == 5 + 150 + 22 + 9 + 3 + 30 + 2
        assert [place for place, _ in whole] == sorted(place for place, _ in whole)
        value = {"cpu": "share"}.get(by, by)
        figures = [getattr(cost, value) for _, cost in whole]
        assert all(one >= other or (by == "bytes" and one == other - 1) for one, other in pairwise(figures))
        for size in (1, 7) if by == "bytes" else (7,):
            assert pages(by, size) == whole
        assert {cost.query_id for _, cost in pages(by, 7, stream="t")} == set(joins)
        named = pages(by, 4, labels=(("of", "twins"),))
        assert named == [each for each in whole if each.place.query_id in shared]
        assert len(pages(by, 60, labels=(("of", "block"),))) == 150
        assert len(pages(by, 6, labels=(("of", "idle"),))) == 32
        assert {*idle} <= {cost.query_id for _, cost in whole[-32:]}, "idle queries come last"
    assert top_queries(snapshot, tenant="default", limit=5, after=Rank(float("inf"), 2**70, 2**70)) == []


def test_the_memory_is_measured_once_when_many_streams_are_dropped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """To measure it takes O(streams). Once for each dropped stream, it held the writer up for minutes."""
    measured, counts, look = [0], list[int](), Rooms.look

    def counted(rooms: Rooms, states: Any) -> int:
        measured[0] += 1
        return look(rooms, states)

    monkeypatch.setattr(Rooms, "look", counted)
    soup = LocalPSoup()
    for streams in (1, 20):
        soup.execute(CREATE)
        for number in range(streams):
            soup.execute(f"CREATE STREAM x{number} AS (SELECT a FROM s)")
        measured[0] = 0
        soup.execute("DROP STREAM s CASCADE")
        counts.append(measured[0])
    assert counts[0] == counts[1] > 0
