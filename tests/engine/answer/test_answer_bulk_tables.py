"""The answers of many queries of a table, and of joins with one, in one call: what single invocations give."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.histories.upserts import STATEMENT, Upserts
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import SEED, replayable, scaled
from psoup_testing.suite.sweeps import in_parts

CONFIG = EngineConfig(chunk_rows=64, list_limit=4, columnar_queries=8, shape=EAGER)
FORMS = (
    "SELECT k, price FROM ads WHERE price > ?",
    "SELECT k, price FROM ads WHERE price = ? OR price IS NULL",
    "SELECT k FROM ads WHERE price < ? ORDER BY price DESC NULLS LAST, k LIMIT 2",
    "SELECT DISTINCT place FROM ads WHERE price <> ?",
    "SELECT count(*) AS n, sum(price) AS s, count(place) AS c FROM ads WHERE price >= ?",
    "SELECT place, max(k) AS m FROM ads WHERE price > ? GROUP BY place",
    "SELECT o.n, ads.price FROM orders o JOIN ads ON o.k = ads.k WHERE ads.price > ?",
    "SELECT o.n, ads.price FROM orders o LEFT JOIN ads ON o.k = ads.k WHERE o.n > ?",
    "SELECT ads.place, count(*) AS n FROM orders o JOIN ads ON o.k = ads.k WHERE ads.price < ? GROUP BY ads.place",
    "SELECT o.n FROM orders o WHERE o.n > ? AND NOT EXISTS (SELECT 1 FROM ads WHERE ads.k = o.k)",
    "SELECT o.n, a.price FROM orders o JOIN ads a AS OF o ON a.k = o.k WHERE a.price > ?",
)


def lived(draw: random.Random) -> tuple[LocalPSoup, list[list[int]], int]:
    """A table and a stream with queries of each form; half of the tuples came before the queries. Also an `as_of`."""
    soup, upserts, orders = LocalPSoup(CONFIG, VirtualClock(10**15)), Upserts(draw, keys=40), 0
    soup.execute(STATEMENT)
    soup.execute("CREATE STREAM orders (k BIGINT, n BIGINT)")
    queries, times = list[list[int]](), list[int]()
    for number in range(40):
        if number == 20:
            for form in FORMS:
                queries.append([*soup.register_many(form, pa.table({"p": range(-1, 10, 2)}))])
                queries[-1].append(soup.register(form.replace("?", "4")))
        upserts.push(soup)
        keys = [draw.randrange(45) for _ in range(3)]
        soup.push("orders", pa.table({"k": keys, "n": range(orders, orders + 3)}))
        orders += 3
        times.append(soup.clock.now())
        soup.clock.advance(seconds=draw.choice([0, 1, 5]))
        if draw.random() < 0.1:
            soup.maintain()
    return soup, queries, draw.choice(times)


@pytest.mark.parametrize("number", range(scaled(2)))
@in_parts(3)
def test_one_call_gives_the_answers_of_many_queries(number: int, part: slice) -> None:
    with replayable(SEED + number):
        soup, queries, earlier = lived(random.Random(SEED + number))
        for as_of in (None, earlier):
            for form, ids in list(zip(FORMS, queries, strict=True))[part]:
                whole = again(soup.invoke_table, ids, as_of=as_of).to_table()
                for place, query in enumerate(ids):
                    mine = whole.filter(pc.equal(whole["_query"], place)).drop(["_query"])
                    truth = again(soup.invoke, query, as_of=as_of).to_table()
                    assert mine.to_pylist() == truth.to_pylist(), (form, place, as_of)
