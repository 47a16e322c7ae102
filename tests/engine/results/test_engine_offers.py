"""Results that a chunk gave up for want of memory come back: readers offer what they evaluated, if there is room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.figures.query_costs import query_cost
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.engine.maintenance.offers import StreamOffers
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT
from psoup.results.chunk_results import ChunkResults
from psoup.results.offers import PIECES, Offer, OfferBox, needed
from psoup.work.read_budget import ReadBudget
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

ROWS = 1_024
CREATE = "CREATE STREAM {} (a BIGINT, b BIGINT)"


def table(start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    return pa.table({"a": numbers % 10, "b": numbers})


def results_of(soup: LocalPSoup, name: str = "s") -> list[ChunkResults]:
    """The results of the closed chunks of a stream."""
    (view,) = [view for view in soup.engine.snapshot().by_id.values() if view.spec.name == name]
    return [entry.results for entry in view.chunks[:-1]]


def evicted(memory: int = 400_000, chunks: int = 6) -> tuple[LocalPSoup, list[int]]:
    """A stream whose results were given up, as another one takes the memory; and its queries."""
    soup = LocalPSoup(EngineConfig(chunk_rows=ROWS, memory_bytes=memory, results_bytes=memory))
    soup.execute(CREATE.format("s"))
    queries = [soup.register(f"SELECT b FROM s WHERE a {sign}") for sign in ("= 3", "> 1", "< 0")]
    queries += [soup.register(f"SELECT b FROM s WHERE a = 5 AND b % 3 = {k}") for k in range(3)]
    soup.push("s", table(0, chunks * ROWS + 10))
    soup.maintain()
    soup.execute(CREATE.format("big"))
    fill(soup)
    return soup, queries


def fill(soup: LocalPSoup) -> None:
    """Take memory until the results of `s` are given up."""
    at = 0
    while any(results.packs or not results.evicted for results in results_of(soup)):
        soup.push("big", table(at, ROWS))
        soup.register(f"SELECT b FROM big WHERE a > {at % 7}")
        soup.maintain()
        at += ROWS


def examined(soup: LocalPSoup, query: int) -> int:
    """Tuples that an invocation evaluates."""
    budget = ReadBudget(sort_bytes=1 << 30)
    answer = invoke(soup.engine.snapshot(), query, tenant=DEFAULT_TENANT, now=soup.clock.now(), budget=budget)
    assert answer.to_table().num_rows == answer.matched
    return budget.examined


def expected(query: int, count: int) -> list[int]:
    tests = [lambda b: b % 10 == 3, lambda b: b % 10 > 1, lambda b: False]
    tests += [lambda b, k=k: b % 10 == 5 and b % 3 == k for k in range(3)]
    return [b for b in range(count) if tests[query](b)]


def check(soup: LocalPSoup, queries: list[int], count: int) -> None:
    for place, query in enumerate(queries):
        assert again(soup.invoke, query).to_table().column("b").to_pylist() == expected(place, count)


def test_what_readers_evaluate_comes_back_once_there_is_room() -> None:
    soup, queries = evicted()
    count = 6 * ROWS + 10
    soup.maintain()
    check(soup, queries, count)
    soup.maintain()
    assert soup.engine.offers.installed == 0, "no room"
    before = [query_cost(soup.engine.snapshot(), query, tenant=DEFAULT_TENANT).matched for query in queries]
    soup.drop_stream("big", cascade=True)
    assert soup.engine.offers.free
    for _ in range(3):
        check(soup, queries, count)
        soup.maintain()
        soup.check()
    assert soup.engine.offers.installed == 6 * len(queries)
    assert all(results.evicted and len(results.late) == len(queries) for results in results_of(soup))
    assert [examined(soup, query) for query in queries] == [0] * len(queries)
    after = [query_cost(soup.engine.snapshot(), query, tenant=DEFAULT_TENANT).matched for query in queries]
    assert before == after == [len(expected(place, count)) for place in range(len(queries))]
    late = soup.register("SELECT b FROM s WHERE a = 3 AND b > 7")
    assert examined(soup, late) and soup.maintain() and not examined(soup, late)
    soup.unregister(queries[0])
    soup.maintain()
    soup.check()


def test_a_call_for_many_queries_offers_too() -> None:
    soup, queries = evicted()
    soup.drop_stream("big", cascade=True)
    for _ in range(2):
        rows = soup.invoke_table(queries).to_table().to_pylist()
        assert [row["b"] for row in rows if row["_query"] == 1] == expected(1, 6 * ROWS + 10)
        soup.maintain()
    assert soup.engine.offers.installed
    check(soup, queries, 6 * ROWS + 10)
    soup.check()


@pytest.mark.long
def test_each_eviction_doubles_the_room_so_results_do_not_come_and_go() -> None:
    soup, queries = evicted()
    for times in range(1, 4):
        results = results_of(soup)
        assert {own.evictions for own in results} == {times} and needed(results[0], 100) == 100 << times
        soup.drop_stream("big", cascade=True)
        for _ in range(2):
            check(soup, queries, 6 * ROWS + 10)
            soup.maintain()
        assert not any(examined(soup, query) for query in queries)
        soup.execute(CREATE.format("big"))
        fill(soup)
    soup.check()


@pytest.mark.long
def test_in_a_full_memory_results_do_not_come_and_go() -> None:
    """Tuples arrive and leave, results are given up all the time, and 37 queries are asked after each push."""
    soup = LocalPSoup(EngineConfig(chunk_rows=ROWS, memory_bytes=400_000))
    soup.execute(f"{CREATE.format('s')} RETENTION 8192 ROWS")
    queries = [soup.register(f"SELECT b FROM s WHERE b % 37 >= {k}") for k in range(37)]
    evictions = 0
    for start in range(0, 20 * ROWS, ROWS // 2):
        soup.push("s", table(start, ROWS // 2))
        soup.maintain()
        for query in queries:
            soup.invoke(query)
        soup.maintain()
        evictions = max([evictions, *(results.evictions for results in results_of(soup))])
    assert evictions <= 3
    soup.check()


def test_what_no_longer_fits_is_dropped() -> None:
    soup, queries = evicted()
    soup.drop_stream("big", cascade=True)
    check(soup, queries[:1], 6 * ROWS + 10)
    soup.unregister(queries[0])
    soup.maintain()
    assert soup.engine.offers.installed == 0, "its clause is gone"
    box, (stream_id,) = soup.engine.offers, soup.engine.snapshot().by_id
    gone = [Offer(number, 5, 0, np.zeros(0, np.uint16), None) for number in (-1, 6, 99)]
    assert soup.engine.install(StreamOffers(stream_id, gone, box)) == 0 and box.installed == 0
    box.bound(0)
    soup.invoke(queries[1]).to_table()
    assert box.take() is None, "without room nothing is offered"


def test_the_box_is_bounded_and_packs_lists_and_bits() -> None:
    box = OfferBox(4, 2)
    few, many, none = np.array([3, 5]), np.arange(0, 100, 3), np.zeros(0, np.int64)
    offers = [box.offer(7, sqc_id, offsets) for sqc_id, offsets in ((9, many), (4, few), (6, none))]
    pack = box.pack(offers)
    pack.check(128, 4)
    assert pack.ids.tolist() == [4, 9]
    assert pack.offsets(0, 0, 128).tolist() == few.tolist() and pack.offsets(1, 0, 128).tolist() == many.tolist()
    assert len(box.pack([]).ids) == 0
    for _ in range(PIECES + 5):
        box.put(1, offers)
    pieces = 0
    while box.take() is not None:
        pieces += 1
        box.done()
    assert pieces == PIECES
    told = list[Any]()
    box.listen(lambda stream_id, some: told.append((stream_id, len(some))))
    box.put(2, offers)
    assert told == [(2, 3)] and box.take() is None


class Pair:
    """An engine that gives up results again and again, beside an engine that keeps all of them."""

    def __init__(self, rng: np.random.Generator) -> None:
        kept = int(rng.integers(2_000, 30_000))
        small = EngineConfig(chunk_rows=64, memory_bytes=60_000, results_bytes=kept, shape=EAGER)
        self.rng, self.both = rng, (LocalPSoup(small), LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER)))
        self.queries, self.at = list[list[int]](), 0
        for each in self.both:
            each.execute(f"{CREATE.format('s')} RETENTION 900 ROWS")

    def push(self) -> None:
        count = int(self.rng.integers(1, 90))
        for each in self.both:
            each.push("s", table(self.at, count))
        self.at += count

    def register(self) -> None:
        sql = f"SELECT a, b FROM s WHERE a {self.rng.choice(['<', '=', '>'])} {int(self.rng.integers(0, 10))}"
        sql += ["", f" AND b % 3 = {int(self.rng.integers(0, 3))}"][int(self.rng.integers(0, 2))]
        if len(self.queries) < 14:
            self.queries.append([each.register(sql) for each in self.both])

    def unregister(self) -> None:
        if self.queries:
            gone = self.queries.pop(int(self.rng.integers(0, len(self.queries))))
            for each, query in zip(self.both, gone, strict=True):
                each.unregister(query)

    def give_up(self) -> None:
        engine = self.both[0].engine
        for state in engine._streams.values():
            state.shelf.give_up(int(self.rng.integers(0, 5_000)))
        engine._rooms.keep(engine._streams.values())
        engine._snapshot = engine._publish()

    def ask(self) -> None:
        for pair in self.queries:
            own, wanted = (again(each.invoke, query).to_table() for each, query in zip(self.both, pair, strict=True))
            assert own == wanted

    def ask_together(self) -> None:
        ids = [[pair[k] for pair in self.queries] for k in range(2)]
        if self.queries:
            own, wanted = (again(each.invoke_table, some).to_table() for each, some in zip(self.both, ids, strict=True))
            assert own.to_pylist() == wanted.to_pylist()

    def matched(self) -> list[list[int]]:
        """The matches that each query's costs count, in both."""
        costs = [(each.engine.snapshot(), [pair[k] for pair in self.queries]) for k, each in enumerate(self.both)]
        return [[query_cost(seen, query, tenant=DEFAULT_TENANT).matched for query in ids] for seen, ids in costs]


@pytest.mark.parametrize("seed", swept(range(6), fast=1))
def test_answers_are_exact_whatever_comes_and_goes(seed: int) -> None:
    pair = Pair(np.random.default_rng(seed))
    steps = [pair.push] * 4 + [pair.register, pair.unregister, pair.give_up, pair.ask, pair.ask, pair.ask_together]
    for _ in range(70):
        steps[int(pair.rng.integers(0, len(steps)))]()
        for each in pair.both[pair.rng.random() < 0.4 :]:
            each.maintain()
        pair.both[0].check()
    for _ in range(4):
        pair.ask()
        pair.both[0].maintain()
    assert all(own <= most for own, most in zip(*pair.matched(), strict=True)), "no match is counted twice"
