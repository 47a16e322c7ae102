"""Tuples of a table against queries: only versions that hold now match, and a deletion is neither shown nor counted."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from psoup.answer.figures.query_costs import query_cost
from psoup.answer.figures.top_queries import top_queries
from psoup.config import EngineConfig
from psoup.errors import InvalidInput
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.upserts import PREDICATES, STATEMENT, Upserts
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SEED, replayable, scaled

DAY = 86_400_000_000


def played(draw: random.Random) -> tuple[LocalPSoup, Upserts, dict[int, str]]:
    """A table after random pushes; queries of all predicates, half of them registered after some pushes."""
    soup, upserts, queries = (
        LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(10**15)),
        Upserts(draw),
        dict[int, str](),
    )
    soup.execute(STATEMENT)
    for number, predicate in enumerate((*PREDICATES, *PREDICATES)):
        for _ in range(draw.randrange(6) if number >= len(PREDICATES) else 0):
            upserts.push(soup)
            soup.clock.advance(seconds=draw.choice([0, 1]))
        if draw.random() < 0.2:
            soup.maintain()
        queries[soup.register(f"SELECT k FROM ads WHERE {predicate}")] = predicate
    upserts.push(soup)
    return soup, upserts, queries


@pytest.mark.parametrize("number", range(scaled(8)))
def test_matches_of_tuples_are_those_of_open_versions(number: int) -> None:
    with replayable(SEED + number):
        soup, upserts, queries = played(random.Random(SEED + number))
        entries, open_ids = upserts.entries, set(upserts.open_ids)
        wanted = [
            [query for query, predicate in queries.items() if at in open_ids and entry.satisfies(predicate)]
            for at, entry in enumerate(entries)
        ]
        assert soup.matches_many("ads", range(len(entries))) == wanted
        between, count = again(soup.matches_between, "ads", 3, len(entries) - 3), len(entries) - 3
        assert [between.of(row) for row in range(count)] == wanted[3:]
        bits = again(soup.results, "ads", list(queries))
        for query in queries:
            assert [bits.low + at for at, bit in enumerate(bits.of(query)) if bit] == [
                at for at, each in enumerate(wanted) if query in each
            ]
            shown = again(soup.invoke, query).to_table().column("k").to_pylist()
            assert shown == [entries[at].key for at, each in enumerate(wanted) if query in each]


@pytest.mark.parametrize("number", range(scaled(4)))
def test_no_count_has_a_deletion(number: int) -> None:
    with replayable(SEED + number):
        soup, upserts, queries = played(random.Random(SEED + number))
        snapshot, ranked = soup.engine.snapshot(), dict[int, int]()
        for query, cost in (
            (record.query_id, cost) for record, cost in top_queries(snapshot, tenant="default", by="matched")
        ):
            ranked[query] = cost.matched
        for query, predicate in queries.items():
            now = sum(upserts.entries[at].satisfies(predicate) for at in upserts.open_ids)
            ever = sum(entry.satisfies(predicate) for entry in upserts.entries)
            (source,) = soup.explain(query).sources
            assert (source.matches_in_window, source.tuples_in_window) == (now, len(upserts.open_ids))
            cost = query_cost(snapshot, query, tenant="default")
            assert cost.matched == ever and ranked.get(query, ever) == ever
            assert cost.matched_new <= ever
        assert list(ranked.values()) == sorted(ranked.values(), reverse=True)


@pytest.fixture(scope="module")
def ads() -> LocalPSoup:
    """Three versions of a key, a day apart, then its deletion, and another key."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(10 * DAY))
    soup.execute("CREATE TABLE ads (k TEXT, price BIGINT, PRIMARY KEY (k)) HISTORY 30 DAYS")
    soup.execute("CREATE STREAM orders (k TEXT)")
    soup.register("SELECT k FROM ads WHERE price > 5 OR price IS NULL")
    soup.register("SELECT o.k FROM orders o JOIN ads ON ads.k = o.k")
    for price, deleted in ((9, False), (7, False), (3, False), (None, True)):
        soup.push("ads", pa.table({"k": ["A"], "price": pa.array([price], pa.int64()), "_deleted": [deleted]}))
        soup.clock.advance(seconds=86_400)
    soup.push("ads", pa.table({"k": ["B"], "price": [8]}))
    soup.push("orders", pa.table({"k": ["A"]}))
    return soup


def test_why_names_the_entry_that_ended_a_version(ads: LocalPSoup) -> None:
    ended = ads.why(1, 1).kept_out
    assert ended is not None and ended.kind == "version" and ended.text == "it holds now"
    assert dict(ended.values) == {
        "begin": "TIMESTAMP '1970-01-12 00:00:00'", "end": "TIMESTAMP '1970-01-13 00:00:00'", "next entry": "2"
    }  # fmt: skip
    assert ads.why(1, 4).kept_out is None
    of_join = ads.why(2, 1, source="ads").kept_out
    assert of_join is not None and of_join.kind == "version"


def test_why_of_a_deletion_has_one_condition(ads: LocalPSoup) -> None:
    (step,) = ads.why(1, 3).steps
    assert (step.kind, step.text, step.passed) == ("version", "it is a version of a row, not a deletion", False)


def test_why_as_of_an_earlier_time(ads: LocalPSoup) -> None:
    assert ads.why(1, 1, as_of=11 * DAY).kept_out is None
    early = ads.why(1, 1, as_of=11 * DAY - 1).kept_out
    assert early is not None and early.text == "it holds at 1970-01-11 23:59:59.999999Z"
    first = ads.why(1, 0, as_of=11 * DAY - 1)
    assert first.kept_out is None, "the first version of a key holds from the beginning"


def test_why_and_match_of_rows_that_are_not_pushed(ads: LocalPSoup) -> None:
    assert ads.why(1, pa.table({"k": ["C"], "price": [6]})).kept_out is None
    deletion = pa.table({"k": ["C"], "_deleted": [True]})
    kept_out = ads.why(1, deletion).kept_out
    assert kept_out is not None and kept_out.text == "it is a version of a row, not a deletion"
    rows = pa.table({"k": ["C", "D", "E"], "price": [None, 6, 1], "_deleted": [True, False, None]})
    matched = ads.match("ads", rows)
    assert [matched.of(row) for row in range(3)] == [[], [1], []]


def test_results_of_a_table_have_no_window(ads: LocalPSoup) -> None:
    with pytest.raises(InvalidInput, match="'ads' is a table, which has no window") as raised:
        ads.results("ads", [1], begin=0)
    assert raised.value.reason == "WINDOW_OF_TABLE"
